"""Frames of Kafka's wire, byte for byte what Kafka's own message classes read and write.

Each frame that we write is read by Kafka, which writes the same bytes again and tells what it read; and from
our JSON of the message, which no bytes went into, Kafka writes the same body. What Kafka wrote, we read.
"""

import binascii
import json
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
from generator.schema import ArrayType, FieldType, Message, Primitive, StructDef, StructType
from strategies import EVERY_KAFKA_RPC

from kraftd.protocol.kafka_codec import API_VERSIONS, KAFKA
from kraftd.protocol.limits import SHORT_REQUEST_BYTES_MAX
from kraftd.protocol.principal import Principal, decode_principal
from kraftd.types import uuid_text
from tests.interop.peer import HERE, Kafka
from tests.interop.random_records import random_rpc
from tests.principals import encode_principal

FRAMES_EACH = 12
"""Of every request and response in every version; a third of them may have unknown tags."""


class Frame(NamedTuple):
    """One frame without its length, and what it was made of."""

    message: Message
    version: int
    value: Any
    correlation_id: int
    client_id: str | None
    data: bytes
    body_at: int


def framed(random: Random, message: Message, version: int, *, has_unknown_tags: bool) -> Frame:
    value = random_rpc(random, message, version, has_unknown_tags=has_unknown_tags)
    correlation_id = random.randrange(-(2**31), 2**31)
    client_id = random.choice((None, "", "broker-1-\u00e9", "c" * 200))
    is_flexible = version in message.flexible
    if message.kind == "request":
        sent = KAFKA.encode_request(version, correlation_id, client_id, value)
        body_at = 10 + len((client_id or "").encode()) + is_flexible
    else:
        sent = KAFKA.encode_response(version, correlation_id, value)
        body_at = 4 + (is_flexible and message.key != API_VERSIONS)
    whole = b"".join(sent)
    assert int.from_bytes(whole[:4], "big") == len(whole) - 4
    if message.kind == "request" and len(whole) > SHORT_REQUEST_BYTES_MAX:
        return framed(random, message, version, has_unknown_tags=has_unknown_tags)
    return Frame(message, version, value, correlation_id, client_id, whole[4:], body_at)


def decoded(frame: Frame, data: bytes) -> Any:
    if frame.message.kind == "request":
        request = KAFKA.decode_request(data)
        assert (request.api_key, request.api_version) == (frame.message.key, frame.version)
        assert (request.correlation_id, request.client_id) == (frame.correlation_id, frame.client_id)
        return request.message
    response = KAFKA.read_response(data)
    assert response.correlation_id == frame.correlation_id
    return response.decode((frame.message.key, frame.version))


def asked(kafka: Kafka, folder: Path, frames: list[Frame]) -> list[list[str]]:
    """What Kafka makes of each frame: the three columns of `Wire.java`."""
    lines = [
        (
            frame.message.kind,
            str(frame.message.key),
            str(frame.version),
            frame.data.hex(),
            "-" if has_tags(frame.value) else json.dumps(as_json(frame, size_of_records=False)),
        )
        for frame in frames
    ]
    return answers_to(kafka, folder, lines)


def answers_to(kafka: Kafka, folder: Path, lines: list[tuple[str, ...]]) -> list[list[str]]:
    path = folder / "frames.txt"
    path.write_text("".join("\t".join(line) + "\n" for line in lines), encoding="utf-8")
    return [line.split("\t") for line in kafka.run(HERE / "Wire.java", path).removesuffix("\n").split("\n")]


@pytest.mark.parametrize("seed", [1, 2])
def test_every_message_in_every_version(kafka: Kafka, tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    frames = [
        framed(random, message, version, has_unknown_tags=number % 3 == 0)
        for message, version in EVERY_KAFKA_RPC
        for number in range(FRAMES_EACH)
    ]
    answers = asked(kafka, tmp_path, frames)
    for frame, (again, made, seen) in zip(frames, answers, strict=True):
        assert again == frame.data.hex(), told(frame)
        assert made in ("-", frame.data[frame.body_at :].hex()), told(frame)
        assert json.loads(seen) == json.loads(json.dumps(as_json(frame, size_of_records=True))), told(frame)
        assert decoded(frame, bytes.fromhex(again)) == frame.value, told(frame)
    assert sum(made != "-" for _, made, _ in answers) > len(frames) / 2


def test_the_comparison_sees_one_bit(kafka: Kafka, tmp_path: Path) -> None:
    message, version = EVERY_KAFKA_RPC[0]
    frame = framed(Random(3), message, version, has_unknown_tags=False)
    other = frame._replace(data=frame.data[:7] + bytes((frame.data[7] ^ 1,)) + frame.data[8:])
    (one, *_), (two, *_) = asked(kafka, tmp_path, [frame, other])
    assert one != two
    assert (one, two) == (frame.data.hex(), other.data.hex())


def test_the_principal_of_an_envelope(kafka: Kafka, tmp_path: Path) -> None:
    names = ("", "alice", "x" * 126, "é" * 200)
    principals = [Principal(kind, name, len(name) > 5) for kind in ("User", "") for name in names]
    lines = [
        ("principal", "-", "-", encode_principal(each).hex(), json.dumps(json_of(each)))
        for each in principals
    ]
    for each, (again, made, seen) in zip(principals, answers_to(kafka, tmp_path, lines), strict=True):
        sent = encode_principal(each).hex()
        assert (again, made) == (sent, sent[4:])
        assert json.loads(seen) == json_of(each)
        assert decode_principal(bytes.fromhex(again)) == each


def test_a_principal_whose_name_is_no_utf_8(kafka: Kafka, tmp_path: Path) -> None:
    random = Random(5)
    parts = bytes.fromhex("41 80 9f a0 bf c0 c2 e0 e2 ed ed ee f0 f4 f5 ff 90")
    names = [bytes(random.choices(parts, k=random.randint(1, 7))) for _ in range(2_000)]
    sent = [b"\0\0\5User" + bytes((len(name) + 1,)) + name + b"\0\0" for name in names]
    lines = [
        ("principal", "-", "-", each.hex(), json.dumps(json_of(decode_principal(each)))) for each in sent
    ]
    answers = answers_to(kafka, tmp_path, lines)
    for each, (_, _, seen) in zip(sent, answers, strict=True):
        assert json.loads(seen) == json_of(decode_principal(each)), each.hex()


def json_of(principal: Principal) -> dict[str, Any]:
    return {
        "type": principal.type,
        "name": principal.name,
        "tokenAuthenticated": principal.token_authenticated,
    }


def told(frame: Frame) -> str:
    return f"{frame.message.name} version {frame.version}: {frame.value}"


def has_tags(value: Any) -> bool:
    """Whether unknown tags are anywhere in a message, for which JSON has no words."""
    if isinstance(value, tuple):
        return any(map(has_tags, value))
    if not hasattr(value, "unknown_tags"):
        return False
    inside = [getattr(value, name) for name in value.__struct_fields__ if name != "unknown_tags"]
    return value.unknown_tags != () or any(map(has_tags, inside))


def as_json(frame: Frame, *, size_of_records: bool) -> dict[str, Any]:
    """The message as Kafka's JSON, from the schema alone."""
    return _struct(frame.message.root, frame.version, frame.value, size_of_records)


def _struct(struct: StructDef, version: int, value: Any, size_of_records: bool) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for field in (*struct.plain(version), *struct.tagged(version)):
        found = getattr(value, field.attribute)
        default = type(found)() if isinstance(field.type, StructType) else field.default
        if field.tag is not None and found == default:
            continue
        name = field.name[0].lower() + field.name[1:]
        if size_of_records and field.type == Primitive("records") and found is not None:
            out[name + "SizeInBytes"] = len(found)
        else:
            out[name] = None if found is None else _json(field.type, version, found, size_of_records)
    return out


def _json(field_type: FieldType, version: int, value: Any, size_of_records: bool) -> Any:
    match field_type:
        case StructType(definition):
            return _struct(definition, version, value, size_of_records)
        case ArrayType(element):
            return [_json(element, version, item, size_of_records) for item in value]
        case Primitive("uuid"):
            return uuid_text(value)
        case Primitive("bytes" | "records"):
            return binascii.b2a_base64(value, newline=False).decode("ascii")
        case _:
            return value
