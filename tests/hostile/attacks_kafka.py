"""Attacks over Kafka's wire: its frames cut, dripped, nested, costly, and by whoever is no broker.

Frames come from the schemas (`tests.kafka_frames`), not from kraftd's codec.
"""

import contextlib
import os
import socket
import struct
from collections.abc import Iterator

from tests.hostile import wire
from tests.hostile.flood import flood
from tests.hostile.ground import CLIENT, STRANGER, WRONG_AFTER_S, Ground, attack, unharmed
from tests.hostile.kafka_wire import ASK, served
from tests.hostile.wire import framed
from tests.kafka_frames import Frames, kafka_requests, uvarint

KIBIBYTE = 1 << 10
MEBIBYTE = 1 << 20
ENVELOPE, FETCH, METADATA, PRODUCE = 58, 1, 3, 0
REQUESTS = list(kafka_requests())
LONGEST = ((1, 24_000), (4, 105_000), (1, 48_000), (4, 210_000))
"""How long requests may be, in MiB, and of how many elements, with a tag each and without."""

TEXTS = (b"", b"ab")
TAGS = (b"\0", b"\1\x7f\1a")


def requests_of(ground: Ground, filled_bytes: int, elements_max: int = 1 << 30) -> Iterator[Frames]:
    """The makers of frames of every served API and version, with short texts and tags of each kind."""
    keys = served(ground.leader.port)
    for message, version in REQUESTS:
        if message.key in keys:
            for text, tags in zip(TEXTS, TAGS, strict=True):
                yield Frames(
                    message,
                    version,
                    text=text,
                    tags=tags,
                    filled_bytes=filled_bytes,
                    elements_max=elements_max,
                )


@attack(STRANGER)
def kafka_garbage(ground: Ground) -> None:
    """Heads of every served API and version with random bodies, each on a connection of its own."""
    heads = [frames.head() for frames in requests_of(ground, 0)]
    for number in ground.lasting(0.001):
        head = heads[number % len(heads)]
        body = ground.rng.randbytes(ground.rng.choice((0, 1, 7, 100, 4_000)))
        with unharmed(), ground.open(ground.node_ids[number % 3]) as line:
            line.send(framed(head[: ground.rng.choice((1, 5, len(head), len(head)))] + body))
            line.socket.settimeout(0.002)
            line.socket.recv(100)


@attack(CLIENT)
def kafka_counts_without_elements(ground: Ground) -> None:
    """Every served API with counts of -2, 2^31 - 1 and more, in both lengths, and nothing behind them."""
    counts = [struct.pack(">i", count) for count in (-2, -1, 1, 100_000, (1 << 31) - 1, -(1 << 31))]
    counts += [uvarint(count) for count in (2, 100_001, 1 << 31, 1 << 32, 1 << 63)] + [b"\xff" * 10]
    heads = [frames.head() for frames in requests_of(ground, 0)]
    for number in ground.lasting(0.001):
        head, count = heads[number % len(heads)], counts[number // len(heads) % len(counts)]
        with unharmed(), ground.open(ground.node_ids[number % 3]) as line:
            line.send(framed(ASK) + framed(head + count * ground.rng.choice((1, 2, 50))))
            line.socket.settimeout(0.002)
            line.socket.recv(1_000)


@attack(CLIENT)
def kafka_costliest_frames(ground: Ground) -> None:
    """Frames of 64 KiB that take longest to decode, of every array of every served API, one after another."""
    frames = [
        framed(frame)
        for maker in requests_of(ground, 63 * KIBIBYTE)
        for _, frame in maker.costly()
        if len(frame) < 64 * KIBIBYTE
    ]
    lines = {node_id: ground.line(node_id, timeout_s=1.0) for node_id in ground.node_ids}
    for number in ground.lasting(0.01):
        node_id = ground.node_ids[number % 3]
        with unharmed():
            if lines[node_id].is_closed():
                lines[node_id] = ground.line(node_id, timeout_s=1.0)
                lines[node_id].send(framed(ASK))
            lines[node_id].send(frames[number * 7 % len(frames)])


@attack(CLIENT)
def kafka_longest_frames(ground: Ground) -> None:
    """The longest requests, of 1 and of 4 MiB, filled with what is small on the wire, as far as it goes."""
    longest = [
        frames
        for size, elements in LONGEST
        for elements_max in (1 << 30, elements)
        for frames in requests_of(ground, size * MEBIBYTE - 8 * KIBIBYTE, elements_max)
    ]
    for number in ground.lasting(0.1):
        frames = list(longest[number * 5 % len(longest)].costly()) or [("", b"")]
        _, frame = ground.rng.choice(frames)
        with unharmed(), ground.open(ground.node_ids[number % 3], timeout_s=0.5) as line:
            line.send(framed(ASK) + framed(frame))
            line.drain(0.05)


@attack(CLIENT)
def kafka_envelopes_of_all_kinds(ground: Ground) -> None:
    """Envelopes in envelopes, around garbage, without principal or address, around what is not forwarded."""
    head = b"\0\x3a\0\0\0\0\0\1\xff\xff\0"
    principal = b"\0\0\x05User\x06alice\0\0"

    def around(frame: bytes, who: bytes = principal, address: bytes = b"\1\2\3\4") -> bytes:
        return head + b"".join(uvarint(len(part) + 1) + part for part in (frame, who, address)) + b"\0"

    plain = [frames.plain() for frames in requests_of(ground, 0)]
    costly = [frame for frames in requests_of(ground, 8 * KIBIBYTE) for _, frame in frames.costly()]
    nest = around(ASK)
    while len(nest) < 50 * KIBIBYTE:
        nest = around(nest)
    frames = [around(frame) for frame in plain + costly]
    frames += [around(plain[0], who) for who in (b"", b"\0\7", principal + b"x", os.urandom(30_000))]
    frames += [around(plain[0], address=address) for address in (b"", b"12345", bytes(16), bytes(9_999))]
    frames += [nest, head + b"\0\0\0\0", head + b"\xff\xff\xff\xff\x0f", around(os.urandom(60_000))]
    for number in ground.lasting(0.002):
        with unharmed(), ground.open(ground.node_ids[number % 3]) as line:
            line.send(framed(ASK) + framed(frames[number * 11 % len(frames)]))
            line.drain(0.002)


@attack(STRANGER)
def kafka_frames_that_drip(ground: Ground) -> None:
    """300 connections that say a request of 64 KiB, or of 4 MiB after ApiVersions, a byte at a time."""
    lines = []
    for number in range(300):
        with unharmed():
            line = ground.line(ground.node_ids[number % 3])
            if number % 2:
                line.send(framed(ASK) + (4 * MEBIBYTE).to_bytes(4, "big") + b"\0\x13\0\7")
            else:
                line.send((64 * KIBIBYTE).to_bytes(4, "big") + b"\0\x13\0\7")
            lines.append(line)
    for _ in ground.lasting(0.05):
        for line in lines:
            with unharmed():
                line.send(b"\0")


@attack(CLIENT)
def kafka_frames_almost_whole(ground: Ground) -> None:
    """A hundred clients that send a request of 4 MiB but for its last byte, and keep it."""
    body = (4 * MEBIBYTE).to_bytes(4, "big") + b"\0\x13\0\7" + bytes(4 * MEBIBYTE - 5)
    for number in range(100):
        with unharmed():
            line = ground.line(ground.node_ids[number % 3], timeout_s=0.2)
            line.send(framed(ASK) + body)
    for _ in ground.lasting(0.1):
        pass


@attack(CLIENT)
def kafka_slots_full_of_clients(ground: Ground) -> None:
    """4,200 clients at the leader that ask what is served, and then nothing."""
    for number in range(4_200):
        with unharmed():
            ground.line(ground.leader_id, host=2 + number // 1_000, timeout_s=1.0).send(framed(ASK))
    for _ in ground.lasting(0.2):
        pass


@attack(CLIENT)
def kafka_idle_after_long_names(ground: Ground) -> None:
    """300 clients that call themselves and their library by 30 KB each, of four bytes a character in memory,
    and then stay and say nothing.
    """
    word = "\U0001f600".encode() + b"x" * 30_000
    asked = b"\0\x12\0\3\0\0\0\1" + len(word).to_bytes(2, "big") + word + b"\0"
    asked += uvarint(len(word) + 1) + word + uvarint(2) + b"1" + b"\0"
    answered = 0
    for number in range(300):
        with unharmed():
            line = ground.line(ground.node_ids[number % 3])
            line.send(framed(asked))
            answered += bool(line.socket.recv(1 << 16))
    ground.note(f"{answered} of 300 were answered")
    for _ in ground.lasting(0.1):
        pass


@attack(CLIENT)
def kafka_responses_that_nobody_reads(ground: Ground) -> None:
    """A hundred clients with tiny buffers ask 2,000 times what is served, and never read."""
    for number in range(100):
        with unharmed():
            ground.line(ground.node_ids[number % 3], buffers=2_048, timeout_s=0.05).send(framed(ASK) * 2_000)
    for _ in ground.lasting(0.1):
        pass


@attack(CLIENT)
def kafka_flood_of_questions(ground: Ground) -> None:
    """ApiVersions from 12 clients, 3 MB/s."""
    flood(ground, framed(ASK), rate=3_000_000.0)


@attack(CLIENT, elections=0)
def kafka_producers_at_a_controller(ground: Ground) -> None:
    """Producers and consumers with a controller's address ask for topics, and come back at once."""
    wrong = [
        bytes((0, key)) + b"\0\x0c\0\0\0\1\0\x08producer\0\0\1\0\0" for key in (METADATA, PRODUCE, 10, 68)
    ]
    for number in ground.lasting(0.003):
        with unharmed(), ground.open(ground.node_ids[number % 3]) as line:
            line.send(framed(ASK) + framed(wrong[number % len(wrong)]))
            if not line.is_closed(within_s=WRONG_AFTER_S):
                ground.fail(f"a request of API {wrong[number % len(wrong)][1]} did not end its connection")


@attack(CLIENT)
def kafka_observers_by_the_thousand(ground: Ground) -> None:
    """Fetches under 2,000 invented ids that wait as long as they may, and are left."""
    maker = next(frames for frames in requests_of(ground, 0) if frames.head()[:4] == bytes((0, FETCH, 0, 18)))
    for number in range(2_000):
        with unharmed():
            line = ground.line(ground.leader_id, host=2 + number % 3, timeout_s=0.5)
            line.send(framed(ASK) + framed(_observers_fetch(maker.head(), 1_000 + number)))
    for _ in ground.lasting(0.1):
        pass


def _observers_fetch(head: bytes, replica_id: int) -> bytes:
    """A Fetch of version 18 from the beginning of the metadata log, with the longest wait."""
    partition = struct.pack(">iiqiqi", 0, 1, 0, 0, -1, 0) + b"\1\0\x10" + os.urandom(16)
    topic = wire.METADATA_TOPIC_ID + b"\2" + partition + b"\0"
    limits = struct.pack(">iiib", (1 << 31) - 1, 0, 1 << 20, 0) + struct.pack(">ii", 0, -1)
    replica = struct.pack(">iq", replica_id, -1) + b"\0"
    return head + limits + b"\2" + topic + b"\1\1" + b"\1\1" + uvarint(len(replica)) + replica


@attack(STRANGER)
def kafka_and_msgpack_on_one_connection(ground: Ground) -> None:
    """The first frame in one encoding and the next in the other, both ways, again and again."""
    pairs = [
        (framed(ASK), wire.greeting()),
        (wire.greeting(), framed(ASK)),
        (framed(ASK) + framed(ASK), wire.request("DescribeNode")),
        (wire.request("ApiVersions"), framed(ASK)),
    ]
    for number in ground.lasting(0.002):
        first, second = pairs[number % len(pairs)]
        with unharmed(), ground.open(ground.node_ids[number % 3]) as line:
            line.send(first + second * 3)
            line.drain(0.003)


@attack(CLIENT)
def kafka_half_closed(ground: Ground) -> None:
    """400 clients that ask three things and close one half, or reset, before the responses come."""
    plain = [framed(frames.plain()) for frames in requests_of(ground, 0)]
    for number in range(400):
        with unharmed(), contextlib.ExitStack() as stack:
            line = ground.line(ground.node_ids[number % 3])
            stack.callback(line.close)
            line.send(framed(ASK) + b"".join(ground.rng.choices(plain, k=3)))
            if number % 3 == 2:
                line.reset()
            else:
                line.socket.shutdown(socket.SHUT_WR if number % 3 else socket.SHUT_RD)
    for _ in ground.lasting(0.1):
        pass
