"""Frames of Kafka's wire that nobody means well with: what they cost in memory, and that they are refused as
documented, for every API in every version.

A costly frame is made from the schema: one array is filled with as many small elements as fit, since what is
small on the wire is not small as an object. Broken frames are whole ones with some bytes changed, taken out
or put in.
"""

import tracemalloc
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from generator.schema import Message
from strategies import EVERY_KAFKA_RPC, name_of

from kraftd.errors import MalformedError
from kraftd.protocol.codec import Buffer, UnsupportedVersion
from kraftd.protocol.kafka_codec import KAFKA
from tests.interop.random_records import random_rpc
from tests.kafka_frames import Frames

FILLED_BYTES = 8_000
MEMORY_PER_BYTE = 32
MEMORY_BESIDE = 10 * 1024
"""What the decoding of any frame may take: some tagged fields of one struct, and the message itself."""

TEXTS = {"empty": b"", "two letters": b"ab", "no letter of Latin": "ā".encode()}
TAGS = {
    "none": b"\0",
    "one": b"\1\x7f\1a",
    "one of a high number": b"\1\x80\x60\1a",
    "as many as may be": b"\x40" + b"".join(bytes((tag, 1, 0)) for tag in range(0x3F, 0x7F)),
}


def decoder_of(message: Message, version: int) -> Callable[[bytes], Any]:
    if message.kind == "request":
        return lambda frame: KAFKA.decode_request(frame).message
    return lambda frame: KAFKA.read_response(frame).decode((message.key, version))


def encoder_of(message: Message, version: int) -> Callable[[Any], list[Buffer]]:
    if message.kind == "request":
        return lambda value: KAFKA.encode_request(version, 1, None, value)
    return lambda value: KAFKA.encode_response(version, 1, value)


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    KAFKA.load(KAFKA.apis)


@pytest.mark.covers("D-14", "D-38")
@pytest.mark.parametrize(("message", "version"), EVERY_KAFKA_RPC, ids=name_of)
def test_a_frame_takes_at_most_32_times_its_size(message: Message, version: int) -> None:
    decode = decoder_of(message, version)
    random = Random(f"{message.name} {version}")
    for number, _ in enumerate(Frames(message, version, filled_bytes=0).costly()):
        for tags in random.sample(sorted(TAGS), 2):
            text = TEXTS[random.choice(sorted(TEXTS))]
            frames = Frames(message, version, text=text, tags=TAGS[tags], filled_bytes=FILLED_BYTES)
            name, frame = list(frames.costly())[number]
            tracemalloc.start()
            try:
                decoded = decode(frame)
            except MalformedError as error:
                decoded = str(error)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert peak <= MEMORY_PER_BYTE * len(frame) + MEMORY_BESIDE, f"{name}, tags {tags}, {text!r}"
            assert not isinstance(decoded, str) or "elements cannot be" in decoded, decoded


@pytest.mark.covers("D-14", "D-38")
@pytest.mark.parametrize(("message", "version"), EVERY_KAFKA_RPC, ids=name_of)
def test_broken_frames_are_refused_as_documented(message: Message, version: int) -> None:
    """What can be read all the same is written and read again as it is."""
    decode = decoder_of(message, version)
    encode = encoder_of(message, version)
    random = Random(f"{version} {message.name}")
    for _ in range(40):
        value = random_rpc(random, message, version, has_unknown_tags=True)
        whole = b"".join(encode(value))[4:]
        broken = bytes_changed(random, whole, head=4 if message.kind == "request" else 0)
        try:
            found = decode(broken)
        except (MalformedError, UnsupportedVersion):
            continue
        again = b"".join(encode(found))[4:]
        assert b"".join(encode(decode(again)))[4:] == again


def bytes_changed(random: Random, whole: bytes, *, head: int) -> bytes:
    """A frame with one to three changes behind its head; mostly small ones, since lengths are."""
    out = bytearray(whole)
    for _ in range(random.randint(1, 3)):
        at = random.randrange(head, len(out)) if len(out) > head else head
        match random.randrange(4):
            case 0:
                out[at : at + 1] = bytes((random.choice((0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF)),))
            case 1:
                del out[at : at + random.choice((1, 2, 4, len(out)))]
            case 2:
                out[at:at] = random.randbytes(random.choice((1, 2, 4)))
            case _:
                out[at : at + 4] = random.choice((b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\x7f\xff\xff\xff"))
    return bytes(out)
