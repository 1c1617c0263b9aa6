"""Further attacks on connections and frames: what is cut, dripped, repeated, mislabelled, or never read."""

import contextlib
import math
import os
import socket
import struct
import time

import msgpack

from tests.hostile import wire
from tests.hostile.client import Line
from tests.hostile.flood import flood
from tests.hostile.ground import CLIENT, OBSERVER, STRANGER, Ground, attack, unharmed

MEBIBYTE = 1 << 20


@attack(STRANGER)
def greetings_that_drip(ground: Ground) -> None:
    """300 connections, each saying one byte of its greeting at a time."""
    lines = []
    for number in range(300):
        with unharmed():
            lines.append(ground.line(ground.node_ids[number % 3]))
    data = wire.greeting(software="d" * 200)
    for number in ground.lasting(0.05):
        for line in lines:
            with unharmed():
                line.send(data[number : number + 1])


@attack(STRANGER)
def greetings_almost_whole(ground: Ground) -> None:
    """1,500 connections that announce 64 KiB, send all but its last byte, and never the rest."""
    data = (65_536).to_bytes(4, "big") + b"\x95\xcd\x4e\x20" + bytes(65_531)
    for number in range(1_500):
        with unharmed():
            ground.line(ground.node_ids[number % 3], host=2 + number % 5, timeout_s=0.2).send(data)
    for _ in ground.lasting(0.1):
        pass


@attack(CLIENT)
def frames_that_never_end(ground: Ground) -> None:
    """Greeted clients announce a frame of 9 MiB, send all but its end, and wait: ten at each node."""
    for number in range(30):
        with unharmed():
            line = ground.client(ground.node_ids[number % 3], timeout_s=0.3)
            line.send((9 * MEBIBYTE).to_bytes(4, "big") + b"\x95\x2c\x01\x01\xc0" + bytes(8 * MEBIBYTE))
    for _ in ground.lasting(0.1):
        pass


@attack(STRANGER)
def lengths_of_all_sizes(ground: Ground) -> None:
    """A length alone, from 0 to 2^32 - 1, followed by its first byte, by nothing, or by another protocol."""
    openings = [
        struct.pack(">I", size)
        for size in (0, 1, 2, 4, 65_535, 65_536, 65_537, 1 << 20, 1 << 24, 1 << 31, (1 << 32) - 1)
    ]
    follows = [
        b"",
        b"\x95",
        b"\x00",
        b"\x90",
        b"\xdc\xff\xff",
        b"\xdd\xff\xff\xff\xff",
        b"\x9f" * 15,
        b"\x16\x03\x01\x02\x00",
    ]
    for number in ground.lasting(0.001):
        with unharmed(), ground.open(ground.node_ids[number % 3]) as line:
            line.send(openings[number % len(openings)] + follows[number // len(openings) % len(follows)])
            line.socket.settimeout(0.002)
            line.socket.recv(100)


@attack(CLIENT)
def one_byte_a_segment(ground: Ground) -> None:
    """Small requests of greeted clients, each byte in a segment of its own: many reads for few bytes."""
    lines = [ground.client(node_id) for node_id in ground.node_ids for _ in range(4)]
    frame = wire.request("ApiVersions")
    for _ in ground.lasting(0.0):
        for line in lines:
            with unharmed():
                for at in range(len(frame)):
                    line.send(frame[at : at + 1])
                line.socket.settimeout(0.0)
                line.socket.recv(1 << 16)


@attack(CLIENT)
def half_closed(ground: Ground) -> None:
    """400 connections that ask, and close their half before the response comes, or their reading half."""
    for number in range(400):
        with unharmed():
            line = ground.line(ground.node_ids[number % 3])
            line.send(wire.greeting() + wire.request("DescribeNode") * 3)
            line.socket.shutdown(socket.SHUT_WR if number % 2 else socket.SHUT_RD)
    for _ in ground.lasting(0.1):
        pass


@attack(STRANGER)
def resets_without_end(ground: Ground) -> None:
    """Connect, say nothing, half a greeting or a whole one, and reset at once: some hundred a second."""
    data = wire.greeting()
    for number in ground.lasting(0.003):
        with unharmed():
            line = ground.open(ground.node_ids[number % 3])
            line.send(data[: (0, 7, len(data))[number % 3]])
            line.reset()


@attack(CLIENT)
def responses_that_nobody_reads(ground: Ground) -> None:
    """A hundred clients with tiny buffers ask 2,000 times for what a node is, and never read."""
    frames = wire.request("DescribeNode") * 2_000
    for number in range(100):
        with unharmed():
            ground.client(ground.node_ids[number % 3], buffers=2_048, timeout_s=0.05).send(frames)
    for _ in ground.lasting(0.1):
        pass


@attack(CLIENT)
def responses_read_by_the_byte(ground: Ground) -> None:
    """Clients that read one byte of their responses every tenth of a second: never stalled, never through."""
    lines = []
    for number in range(60):
        with unharmed():
            line = ground.client(ground.node_ids[number % 3], buffers=2_048, timeout_s=0.05)
            line.send(wire.request("DescribeNode") * 5_000)
            line.socket.setblocking(False)
            lines.append(line)
    for _ in ground.lasting(0.1):
        for line in lines:
            with contextlib.suppress(OSError):
                line.socket.recv(1)


@attack(CLIENT)
def responses_sent_as_requests(ground: Ground) -> None:
    """A client that answers: frames of two elements, with ids that the node itself may wait for."""
    for number in ground.lasting(0.002):
        node_id = ground.node_ids[number % 3]
        with unharmed(), ground.open(node_id) as line:
            line.greet()
            for correlation_id in range(number % 50, number % 50 + 20):
                line.send(wire.framed(msgpack.packb([correlation_id, [0, [], {}]])))


@attack(CLIENT)
def strange_correlation_ids(ground: Ground) -> None:
    """The same id 64 times, the least and the largest, beyond 64 bits, a float, nil, a string, an array."""
    ids = [
        0,
        -1,
        (1 << 31) - 1,
        -(1 << 31),
        1 << 31,
        (1 << 64) - 1,
        -(1 << 63),
        1.5,
        math.nan,
        None,
        "1",
        b"1",
        [1],
        {1: 1},
        True,
    ]
    for number in ground.lasting(0.002):
        node_id = ground.node_ids[number % 3]
        with unharmed(), ground.open(node_id) as line:
            line.greet()
            chosen = ids[number % len(ids)]
            line.send(wire.framed(msgpack.packb([18, 0, chosen, None, [{}]])) * 64)
            line.drain(0.005)


@attack(CLIENT)
def tags_by_the_thousand(ground: Ground) -> None:
    """Maps of tags: 65,000 of them, twice the same, negative, huge, and with values that are nests."""

    def frames() -> list[bytes]:
        body = [dict.fromkeys(range(65000))]
        same = b"\x95\x12\x00\x01\xc0\x91\x83\x01\xc0\x01\xc0\x01\xc0"
        odd = [
            {-1: 1},
            {1 << 63: 1},
            {1.5: 1},
            {"a": 1},
            {b"": 1},
            {None: 1},
            {0: [[[[{}]]]]},
            {1: bytes(100_000)},
        ]
        return [
            wire.raw_request(18, 4, body),
            wire.framed(same),
            *(wire.raw_request(18, 4, ["", "", each]) for each in odd),
        ]

    made = frames()
    for number in ground.lasting(0.01):
        with unharmed(), ground.open(ground.node_ids[number % 3]) as line:
            line.greet()
            line.send(made[number % len(made)])
            line.drain(0.005)


@attack(CLIENT)
def kinds_of_msgpack_that_nobody_uses(ground: Ground) -> None:
    """Extension types, timestamps, NaN and infinity, surrogates, cut UTF-8, integers of 64 bits."""
    values = [
        msgpack.ExtType(5, b"x" * 300),
        msgpack.Timestamp(1 << 33, 999_999_999),
        msgpack.ExtType(127, bytes(65_536)),
        math.nan,
        math.inf,
        -math.inf,
        (1 << 64) - 1,
        -(1 << 63),
        b"\xff\xfe",
        bytes(16),
    ]
    raw = [
        b"\xa3\xed\xa0\x80",
        b"\xa2\xc3\x28",
        b"\xa1\x80",
        b"\xc1",
        b"\xd9\xff",
        b"\xdb\xff\xff\xff\xff",
        b"\xc6\x7f\xff\xff\xff",
    ]
    packed = [msgpack.packb(value) for value in values] + raw
    key, version = wire.apis()["IncrementalAlterConfigs"].key, 1
    head = msgpack.packb([key, version, 1, None, None])[:-1]
    for number in ground.lasting(0.002):
        value = packed[number % len(packed)]
        place = number // len(packed) % 4
        body = (
            value,
            b"\x93" + value + b"\xc2\x80",
            b"\x93\x91\x94\x04" + value + b"\x90\x80\xc2\x80",
            b"\x93\x91\x94\x04\xa17\x91\x94" + value + b"\x00\xa1x\x80\x80\xc2\x80",
        )[place]
        with unharmed(), ground.open(ground.node_ids[number % 3]) as line:
            line.greet()
            line.send(wire.framed(head + body))
            line.drain(0.003)


@attack(CLIENT)
def records_where_none_belong(ground: Ground) -> None:
    """A sixth element on requests that have no records: of no bytes, of 8 MiB, text, nil, nested."""
    sixth = [b"", bytes(8 * MEBIBYTE), "text", None, [[]], 7]
    for number in ground.lasting(0.05):
        with unharmed(), ground.open(ground.node_ids[number % 3], timeout_s=0.5) as line:
            line.greet()
            for name in ("ApiVersions", "DescribeNode", "ListConfigs"):
                body = msgpack.unpackb(wire.request(name)[4:], strict_map_key=False)
                line.send(wire.framed(msgpack.packb([*body, sixth[number % len(sixth)]])))
            line.drain(0.01)


@attack(STRANGER)
def arrays_that_claim_to_be_long(ground: Ground) -> None:
    """Arrays, maps and texts that announce four thousand million elements in a frame of twenty bytes."""
    heads = [
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
        b"\xdb\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        b"\xdc\xff\xff",
        b"\xde\xff\xff",
    ]
    for number in ground.lasting(0.001):
        api = ground.rng.choice(list(wire.apis().values()))
        head = msgpack.packb([api.key, api.versions[-1], 1, None, None])[:-1]
        with unharmed(), ground.open(ground.node_ids[number % 3]) as line:
            if number % 2:
                line.send(wire.greeting())
            line.send(
                wire.framed(head + b"\x91" * ground.rng.randrange(4) + ground.rng.choice(heads) + b"\xc0" * 8)
            )
            line.socket.settimeout(0.002)
            line.socket.recv(1_000)


@attack(STRANGER)
def greetings_with_endless_api_lists(ground: Ground) -> None:
    """Greetings of 64 KiB: nine thousand APIs, contradictory ones, and a program name of 60,000 letters."""
    many = wire.greeting(api_keys=[[number % 30_000, 0, 1, {}] for number in range(8_500)])
    odd = wire.greeting(api_keys=[[key, 5, -5, {}] for key in range(-100, 100)])
    named = wire.greeting(software="k" * 60_000)
    for number in ground.lasting(0.005):
        with unharmed(), ground.open(ground.node_ids[number % 3]) as line:
            line.send((many, odd, named)[number % 3])
            line.receive()


@attack(STRANGER)
def urgent_bytes(ground: Ground) -> None:
    """TCP urgent data in the middle of greetings and requests."""
    data = wire.greeting() + wire.request("DescribeNode")
    for number in ground.lasting(0.005):
        with unharmed(), ground.open(ground.node_ids[number % 3]) as line:
            for at in range(0, len(data), 9):
                line.tally["offered"] += 9
                line.tally["sent"] += line.socket.send(data[at : at + 9], socket.MSG_OOB if at % 2 else 0)


@attack(STRANGER)
def other_protocols(ground: Ground) -> None:
    """Kafka's framing, TLS, HTTP, SSH and noise at 1 MB/s, each connection another one."""
    words = [
        struct.pack(">IHHI", 20, 18, 3, 1) + bytes(12),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + os.urandom(512),
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        os.urandom(4_000),
    ]
    each = ground.seconds / len(words)
    for word in words:
        flood(ground, word, rate=1e6, seconds=each)


@attack(STRANGER)
def lines_for_the_log(ground: Ground) -> None:
    """Errors that differ in text and address each time: the log must not grow with them for ever."""

    def size() -> int:
        return sum(node.log_path.stat().st_size for node in ground.quorum.nodes)

    before = size()
    for number in ground.lasting(0.001):
        words = f"{number}\n\x1b[31mfatal\u2028{'z' * 1_000}{ground.rng.random()}"
        with unharmed(), ground.open(ground.node_ids[number % 3], host=2 + number % 5_000) as line:
            line.send(wire.greeting(number, cluster_id=words, software=words, directory_id=os.urandom(16)))
            line.socket.settimeout(0.005)
            line.socket.recv(1_000)
    time.sleep(0.2)
    grown = size() - before
    ground.note(f"logs grew by {grown:,} bytes for {ground.tally['sent']:,} hostile ones")
    if grown > max(256 * 1024, ground.tally["sent"] // 4):
        ground.fail(f"logs grew by {grown:,} bytes for {ground.tally['sent']:,} hostile ones")


@attack(OBSERVER)
def from_everywhere(ground: Ground) -> None:
    """Connections from thousands of addresses, each only once: what is kept for each is dropped."""
    for number in ground.lasting(0.0):
        with unharmed(), ground.open(ground.node_ids[number % 3], host=1_000 + number) as line:
            line.greet(1_000 + number, cluster_id=ground.known(1)["ClusterId"], directory_id=os.urandom(16))


@attack(CLIENT)
def everything_in_one_segment(ground: Ground) -> None:
    """Greeting, greeting again, requests, garbage and a length cut short, all in one write."""
    for number in ground.lasting(0.003):
        parts = [
            wire.greeting(),
            wire.greeting(),
            wire.request("DescribeNode"),
            wire.raw_request(18, 99, []),
            wire.raw_request(-5, -5, []),
            wire.framed(os.urandom(30)),
            b"\x00\x00",
        ]
        ground.rng.shuffle(parts)
        with unharmed(), ground.open(ground.node_ids[number % 3]) as line:
            line.send(b"".join(parts))
            _read_some(line)


def _read_some(line: Line) -> None:
    line.socket.settimeout(0.002)
    while line.socket.recv(1 << 16):
        pass
