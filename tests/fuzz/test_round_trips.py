"""Encode and decode are inverse, for every message in every version, in both encodings."""

import importlib
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import msgpack
import msgspec
import pytest
from generator.output import generate
from generator.schema import Message
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import (
    EVERY_CONTROL,
    EVERY_KAFKA_RPC,
    EVERY_MSGPACK_RPC,
    EVERY_RECORD,
    PROTO,
    flexible_only,
    name_of,
    oracle_body,
    values_of,
)

from kraftd.protocol import messages as rpc_messages
from kraftd.protocol.codec import Request
from kraftd.protocol.kafka_codec import KAFKA
from kraftd.protocol.msgpack_codec import MSGPACK
from kraftd.records import control, frame
from kraftd.records import messages as record_messages

some = settings(max_examples=40)


@pytest.mark.parametrize(("message", "version"), EVERY_MSGPACK_RPC, ids=name_of)
@given(data=st.data())
@some
def test_every_rpc(message: Message, version: int, data: st.DataObject) -> None:
    """Also against the independent oracle: what goes out is exactly what `msgpack` would write."""
    value = data.draw(values_of(message.root, version, rpc_messages, packed=True))
    correlation_id = data.draw(st.integers(-(2**31), 2**31 - 1))
    records = data.draw(st.lists(st.binary(min_size=1, max_size=300), max_size=3))
    body = oracle_body(message.root, version, value)
    tail = [b"".join(records)] if records else []
    if message.kind == "request":
        sent = b"".join(MSGPACK.encode_request(version, correlation_id, "c", value, records))
        oracle = [message.key, version, correlation_id, "c", body, *tail]
        request = MSGPACK.decode_request(sent[4:])
        assert (request.api_key, request.api_version, request.correlation_id, request.client_id) == (
            message.key,
            version,
            correlation_id,
            "c",
        )
        again, came = request.message, request.records
    else:
        sent = b"".join(MSGPACK.encode_response(version, correlation_id, value, records))
        oracle = [correlation_id, body, *tail]
        undecoded = MSGPACK.read_response(sent[4:])
        again, came = undecoded.decode((message.key, version)), undecoded.records
        assert undecoded.correlation_id == correlation_id
    assert again == value
    assert bytes(came) == b"".join(records)
    assert int.from_bytes(sent[:4], "big") == len(sent) - 4
    assert msgpack.unpackb(sent[4:], strict_map_key=False) == oracle
    assert sent[4:] == msgpack.packb(oracle)


@pytest.mark.parametrize(("message", "version"), EVERY_RECORD, ids=name_of)
@given(data=st.data())
@some
def test_every_record(message: Message, version: int, data: st.DataObject) -> None:
    value = data.draw(values_of(message.root, version, record_messages, packed=False))
    sent = frame.encode_record(value, version)
    assert frame.decode_record(sent) == value
    assert frame.read_frame(sent)[:2] == (message.key, version)
    assert frame.to_json(value, version)["version"] == version


@pytest.mark.parametrize(("message", "version"), EVERY_CONTROL, ids=name_of)
@given(data=st.data())
@some
def test_every_control_record(message: Message, version: int, data: st.DataObject) -> None:
    drawn = data.draw(values_of(message.root, version, record_messages, packed=False))
    value = msgspec.structs.replace(drawn, version=version)
    control_type, body = control.encode_control(value)
    key = (0).to_bytes(2, "big") + control_type.to_bytes(2, "big")
    assert control_type == message.key
    assert control.decode_control(key, body) == value
    assert control.control_to_json(value)["version"] == version


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """The schemas of records in the encoding that kraftd does not use for them."""
    package = tmp_path_factory.mktemp("emitted") / "emitted_by_test"
    files, _ = generate(PROTO, package, {"rpc": [], "records": ["msgpack"]})
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    sys.path.insert(0, str(package.parent))
    try:
        yield SimpleNamespace(
            records=importlib.import_module("emitted_by_test.records.msgpack"),
            record_messages=importlib.import_module("emitted_by_test.records.messages"),
        )
    finally:
        sys.path.remove(str(package.parent))


@pytest.mark.parametrize(("message", "version"), EVERY_KAFKA_RPC, ids=name_of)
@given(data=st.data())
@settings(max_examples=15)
def test_every_rpc_of_kafkas_wire(message: Message, version: int, data: st.DataObject) -> None:
    drawn = data.draw(values_of(message.root, version, rpc_messages, packed=False))
    value = flexible_only(message, version, drawn)
    correlation_id = data.draw(st.integers(-(2**31), 2**31 - 1))
    if message.kind == "request":
        sent = b"".join(KAFKA.encode_request(version, correlation_id, "c", value))
        assert KAFKA.decode_request(sent[4:]) == Request(message.key, version, correlation_id, "c", value)
    else:
        sent = b"".join(KAFKA.encode_response(version, correlation_id, value))
        undecoded = KAFKA.read_response(sent[4:])
        assert undecoded.correlation_id == correlation_id
        assert undecoded.decode((message.key, version)) == value
    assert int.from_bytes(sent[:4], "big") == len(sent) - 4


@pytest.mark.parametrize(("message", "version"), EVERY_RECORD + EVERY_CONTROL, ids=name_of)
@given(data=st.data())
@settings(max_examples=15)
def test_every_record_in_msgpack(
    other: SimpleNamespace, message: Message, version: int, data: st.DataObject
) -> None:
    value = data.draw(values_of(message.root, version, other.record_messages, packed=True))
    module = vars(other.records)[f"{message.kind.upper()}_MODULES"][message.key].load()
    version_codec = vars(module)[f"{message.kind.upper()}_CODECS"][version]
    body = msgspec.msgpack.encode(version_codec.pack(value))
    assert version_codec.build(msgspec.msgpack.decode(body, type=version_codec.wire)) == value
    assert msgpack.unpackb(body, strict_map_key=False) == oracle_body(message.root, version, value)
