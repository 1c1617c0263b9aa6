"""Whatever the bytes, a decoder gives a value or the one documented error, quickly and in bounded memory."""

import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import msgpack
import pytest
from fixtures import klog_files
from generator.schema import Message
from hypothesis import example, given, settings
from hypothesis import strategies as st
from strategies import EVERY_MSGPACK_RPC, EVERY_RECORD, name_of, values_of

from kraftd.errors import CorruptBatchError, MalformedError
from kraftd.protocol import codec, msgpack_codec
from kraftd.protocol import messages as rpc_messages
from kraftd.protocol.framing import FrameReader
from kraftd.protocol.limits import ARRAY_LENGTH_MAX, FRAME_BYTES_MAX
from kraftd.protocol.msgpack_codec import MSGPACK
from kraftd.records import (
    control,
    epoch_checkpoint,
    frame,
    meta_properties,
    names,
    partition_metadata,
    quorum_state,
)
from kraftd.records import messages as record_messages
from kraftd.records.batch import BatchView, encode_batch, scan
from kraftd.records.batch_header import HEADER_BYTES

many = settings(max_examples=400)
refuse = (MalformedError, codec.UnsupportedVersion)


def tried(decode: Callable[[], Any]) -> Any:
    """What came out, or None if the bytes were refused as documented."""
    try:
        return decode()
    except refuse:
        return None


def _mangle(data: bytes, cuts: list[tuple[int, int]]) -> bytes:
    out = bytearray(data)
    for place, byte in cuts:
        if out:
            out[place % len(out)] = byte
    return bytes(out)


damage = st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=4)


@given(st.binary(max_size=200))
@example(msgpack.packb([53, 1, 7, None, [None, -1, [], [], {}]]))
@many
def test_request_frames(data: bytes) -> None:
    tried(lambda: MSGPACK.decode_request(data))


@given(st.binary(max_size=200), st.sampled_from([(m.key, v) for m, v in EVERY_MSGPACK_RPC]))
@many
def test_response_frames(data: bytes, expected: tuple[int, int]) -> None:
    tried(lambda: MSGPACK.read_response(data).decode(expected))


@pytest.mark.parametrize(("message", "version"), EVERY_MSGPACK_RPC, ids=name_of)
@given(data=st.data())
@settings(max_examples=40)
def test_damaged_frames(message: Message, version: int, data: st.DataObject) -> None:
    value = data.draw(values_of(message.root, version, rpc_messages, packed=True))
    cuts = data.draw(damage)
    if message.kind == "request":
        sent = b"".join(MSGPACK.encode_request(version, 1, None, value))[4:]
        tried(lambda: MSGPACK.decode_request(_mangle(sent, cuts)))
    else:
        sent = b"".join(MSGPACK.encode_response(version, 1, value))[4:]
        tried(lambda: MSGPACK.read_response(_mangle(sent, cuts)).decode((message.key, version)))


@given(st.binary(max_size=200))
@many
def test_streams(data: bytes) -> None:
    tried(lambda: FrameReader(100).feed(data))


@given(st.binary(max_size=60), st.sampled_from([(m.key, v) for m, v in EVERY_RECORD]))
@many
def test_records(data: bytes, kind: tuple[int, int]) -> None:
    """What was read encodes to something that reads the same."""
    found = tried(lambda: frame.decode_record(bytes((1, *kind)) + data))
    if found is not None:
        version = found.version if isinstance(found, frame.RawRecord) else kind[1]
        again = frame.decode_record(frame.encode_record(found, version))
        assert again == found
        frame.to_json(found, version)


@given(st.binary(max_size=60) | st.binary(max_size=60).map(lambda tail: b"\x01" + tail))
@many
def test_record_frames(data: bytes) -> None:
    found = tried(lambda: frame.decode_record(data))
    if isinstance(found, frame.RawRecord):
        assert frame.encode_record(found) == data


@pytest.mark.parametrize(("message", "version"), EVERY_RECORD, ids=name_of)
@given(data=st.data())
@settings(max_examples=40)
def test_records_cut_short(message: Message, version: int, data: st.DataObject) -> None:
    """Every proper prefix of a record is refused: nothing short passes for whole."""
    value = data.draw(values_of(message.root, version, record_messages, packed=False))
    sent = frame.encode_record(value, version)
    for end in range(len(sent)):
        with pytest.raises(MalformedError):
            frame.decode_record(sent[:end])


@given(st.integers(-2, 8), st.binary(max_size=60), st.integers(-1, 3))
@many
def test_control_records(control_type: int, data: bytes, key_version: int) -> None:
    key = key_version.to_bytes(2, "big", signed=True) + control_type.to_bytes(2, "big", signed=True)
    found = tried(lambda: control.decode_control(key, data))
    if found is not None:
        control.control_to_json(found)


@given(st.binary(max_size=200))
@many
def test_batches(data: bytes) -> None:
    tried(lambda: [batch.records() for batch in scan(data)])


@given(st.lists(st.binary(min_size=1, max_size=80), min_size=1, max_size=4), damage)
@many
def test_damaged_batches(values: list[bytes], cuts: list[tuple[int, int]]) -> None:
    """Damage that the checksum covers is found; the rest never leaves the documented error."""
    batch = encode_batch(7, 3, 1_700_000_000_000, values)
    bad = _mangle(batch, cuts)
    try:
        found = list(scan(bad))
        assert bad[21:] == batch[21:], "the checksum let damage through"
        assert found[0].values() == values
    except CorruptBatchError as error:
        assert bad != batch
        assert error.position_bytes == 0
    tried(lambda: BatchView(bad).values())
    tried(lambda: BatchView(bad).records())


@given(st.binary(max_size=120) | st.text(max_size=80).map(str.encode))
@many
def test_small_files(data: bytes) -> None:
    tried(lambda: quorum_state.decode(data))
    tried(lambda: epoch_checkpoint.decode(data))
    tried(lambda: meta_properties.decode(data))
    tried(lambda: partition_metadata.decode(data))
    tried(lambda: names.parse_segment_name(data.decode("utf-8", "replace")))
    tried(lambda: names.parse_snapshot_name(data.decode("utf-8", "replace")))


@pytest.mark.parametrize(
    "name", ["quorum-state", "leader-epoch-checkpoint", "meta.properties", "partition.metadata"]
)
@given(cuts=damage)
@settings(max_examples=150)
def test_damaged_small_files(name: str, cuts: list[tuple[int, int]]) -> None:
    decoders: dict[str, Callable[[bytes], Any]] = {
        "quorum-state": quorum_state.decode,
        "leader-epoch-checkpoint": epoch_checkpoint.decode,
        "meta.properties": meta_properties.decode,
        "partition.metadata": partition_metadata.decode,
    }
    data = klog_files(name)[0].read_bytes()
    tried(lambda: decoders[name](_mangle(data, cuts)))


HUGE_ARRAY = b"\xdd\xff\xff\xff\xff"
HUGE_MAP = b"\xdf\xff\xff\xff\xff"
HUGE_STRING = b"\xdb\xff\xff\xff\xff"
HUGE_BIN = b"\xc6\xff\xff\xff\xff"
VOTE = b"\x95\x34\x02\x07\xc0"

HOSTILE = {
    "array of 4 billion elements": VOTE + b"\x94\xc0\xff" + HUGE_ARRAY,
    "array in an array in an array": VOTE
    + b"\x94\xc0\xff"
    + b"\xdd\x00\x00\xff\xff\x93\xa1x\xdd\x00\x00\xff\xff" * 900,
    "map of 4 billion tags": VOTE + b"\x94\xc0\xff\x90" + HUGE_MAP,
    "string of 4 GiB": VOTE + b"\x94" + HUGE_STRING,
    "client id of 4 GiB": b"\x95\x34\x02\x07" + HUGE_STRING,
    "records of 4 GiB": b"\x96\x34\x02\x07\xc0\x90" + HUGE_BIN,
    "body of 4 billion elements": VOTE + HUGE_ARRAY,
    "frame of 4 billion elements": HUGE_ARRAY,
    "arrays a megabyte deep": VOTE + b"\x91" * (1 << 20),
    "maps a megabyte deep": VOTE + b"\x81\x01" * (1 << 19),
    "unknown tag a megabyte deep": VOTE + b"\x94\xc0\xff\x90\x81\x01" + b"\x91" * (1 << 20),
    "more tags than anyone has": VOTE + b"\x94\xc0\xff\x90\xde\x00\xff" + b"\x01\x01" * 255,
    "more elements than anyone sends": VOTE
    + b"\x94\xc0\xff"
    + b"\xdd\x00\x02\x00\x00"
    + b"\xc0" * 131072
    + b"\x80",
}


@pytest.mark.parametrize("attack", HOSTILE, ids=str)
def test_hostile_frames_cost_nothing(attack: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of these costs a generic decoder up to gigabytes, or seconds, or the stack."""
    data = HOSTILE[attack]
    monkeypatch.setattr(msgpack_codec, "HEAD_BYTES_MAX", 2 << 20)
    seconds = []
    for _ in range(3):
        begin = time.thread_time()
        with pytest.raises(MalformedError):
            MSGPACK.decode_request(data)
        seconds.append(time.thread_time() - begin)
    tracemalloc.start()
    try:
        with pytest.raises(MalformedError):
            MSGPACK.decode_request(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20
    assert min(seconds) < 0.001 + len(data) * 20e-9


DENSE = {
    "configs": [44, 1, 1, None, [[[4, "", [["", 0, None, {}]] * 200, {}]] * 100, False, {}]],
    "resources": [44, 1, 1, None, [[[4, "", [], {}]] * ARRAY_LENGTH_MAX, False, {}]],
    "numbers": [
        1,
        18,
        1,
        None,
        [0, 0, 0, 0, 0, 0, [], [[bytes(16), [1 << 20] * 12_000, {}]], "", {}],
    ],
    "tags": [52, 2, 1, None, ["c", 1, [["", [], dict.fromkeys(range(64), 0)]] * 480, {}]],
}


@pytest.mark.parametrize("kind", DENSE, ids=str)
def test_a_valid_frame_costs_memory_in_proportion(kind: str) -> None:
    """The densest frames that are valid: a hundred bytes for each byte received bounds them."""
    data = msgpack.packb(DENSE[kind])
    tracemalloc.start()
    try:
        MSGPACK.decode_request(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100 * len(data)


@pytest.mark.parametrize("claim", [b"\xff\xff\xff\xff\x07", b"\x80\x80\x80\x80\x08", b"\xff\x7f"])
@pytest.mark.parametrize("kind", [4, 12, 27])
def test_lengths_are_not_believed(kind: int, claim: bytes) -> None:
    """A record that claims gigabytes in a few bytes costs those few bytes."""
    fixed = {4: b"\x04", 12: b"", 27: b"\0\0\0\1" + bytes(17)}[kind]
    tracemalloc.start()
    try:
        with pytest.raises(MalformedError):
            frame.decode_record(bytes((1, kind, 0)) + fixed + claim)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_a_batch_that_claims_everything_costs_nothing() -> None:
    batch = bytearray(encode_batch(0, 1, 0, [b"x"]))
    batch[57:61] = (2**31 - 1).to_bytes(4, "big")
    tracemalloc.start()
    try:
        with pytest.raises(CorruptBatchError):
            BatchView(bytes(batch)).values()
        with pytest.raises(CorruptBatchError):
            BatchView(bytes(batch)).records()
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()
    assert HEADER_BYTES == 61


def test_a_frame_that_claims_the_limit_is_not_reserved() -> None:
    reader = FrameReader(FRAME_BYTES_MAX)
    tracemalloc.start()
    try:
        assert reader.feed(FRAME_BYTES_MAX.to_bytes(4, "big") + b"\x95") == []
        assert tracemalloc.get_traced_memory()[1] < 10_000
    finally:
        tracemalloc.stop()
