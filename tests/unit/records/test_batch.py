"""Record batches: the golden vectors, what real Kafkas wrote, and what is refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c
from fixtures import klog_files, klogs
from hypothesis import given
from hypothesis import strategies as st

from kraftd.errors import CorruptBatchError, ErrorCode, MalformedError
from kraftd.records import control, frame
from kraftd.records.batch import BatchView, encode_batch, encode_control_batch, scan, walk
from kraftd.records.messages import (
    FeatureLevelRecord,
    KRaftVersionRecord,
    LeaderChangeMessage,
    LeaderChangeMessageVoter,
    NoOpRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
    VotersRecordEndpoint,
    VotersRecordKRaftVersionFeature,
    VotersRecordVoter,
)

AT = 1_700_000_000_000
ONE, TWO, THREE = (LeaderChangeMessageVoter(voter_id) for voter_id in (1, 2, 3))

GOLDEN: dict[str, tuple[str, int, int, list[Any]]] = {
    "A leader change": (
        (
            "00000000000000000000005e00000001021735ab2b0020000000000000018bcfe568000000018bcfe56800ffffffffffffffff"
            "ffffffffffff00000001580000000800000002440000000000010400000001000000000200000000030003000000010000000002000000"
        ),
        0,
        1,
        [LeaderChangeMessage(leader_id=1, voters=(ONE, TWO, THREE), granting_voters=(ONE, TWO))],
    ),
    "B snapshot header": (
        (
            "0000000000000000000000470000000102c7ac78040020000000000000018bcfe568000000018bcfe56800ffffffffffffffff"
            "ffffffffffff000000012a00000008000000031600000000018bcfe568000000"
        ),
        0,
        1,
        [SnapshotHeaderRecord(last_contained_log_timestamp=AT)],
    ),
    "C snapshot footer": (
        (
            "00000000000000010000003f00000001028f6608e60020000000000000018bcfe568000000018bcfe56800ffffffffffffffff"
            "ffffffffffff000000011a00000008000000040600000000"
        ),
        1,
        1,
        [SnapshotFooterRecord()],
    ),
    "D bootstrap": (
        (
            "00000000000000000000009a0000000002b7824fed0020000000020000018bcfe568000000018bcfe56800ffffffffffffffff"
            "ffffffffffff000000032a0000000800000003160000000000000000000000001e00000208000000050a0000000100008201000004"
            "08000000066e00000200000001000102030405060708090a0b0c0d0e0f020b434f4e54524f4c4c45520a6c6f63616c686f737423"
            "85000000000100000000"
        ),
        0,
        0,
        [
            SnapshotHeaderRecord(),
            KRaftVersionRecord(kraft_version=1),
            VotersRecord(
                voters=(
                    VotersRecordVoter(
                        voter_id=1,
                        voter_directory_id=bytes(range(16)),
                        endpoints=(VotersRecordEndpoint("CONTROLLER", "localhost", 9093),),
                        kraft_version_feature=VotersRecordKRaftVersionFeature(0, 1),
                    ),
                )
            ),
        ],
    ),
    "E data": (
        (
            "00000000000000030000005a0000000102ab76ef6a0000000000010000018bcfe568000000018bcfe56800ffffffffffffffff"
            "ffffffffffff0000000214000000010801140000003a000002012e010c00116d657461646174612e76657273696f6e00150000"
        ),
        3,
        1,
        [NoOpRecord(), FeatureLevelRecord("metadata.version", 21)],
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
@pytest.mark.covers("REC-05", "REC-06", "ACC-23")
def test_golden_vectors(name: str) -> None:
    text, base_offset, epoch, records = GOLDEN[name]
    raw = bytes.fromhex(text)
    (batch,) = scan(raw)
    assert (batch.base_offset, batch.epoch, batch.base_timestamp) == (base_offset, epoch, AT)
    assert batch.last_offset == base_offset + len(records) - 1
    if batch.is_control:
        assert [control.decode_control(record.key, record.value) for record in batch.records()] == records
        assert batch.values() == []
        again = encode_control_batch(base_offset, epoch, AT, [control.encode_control(r) for r in records])
    else:
        assert [frame.decode_record(value) for value in batch.values()] == records
        again = encode_batch(base_offset, epoch, AT, [frame.encode_record(record) for record in records])
    assert again == raw


@pytest.mark.parametrize(
    "path", klog_files("*.log") + klog_files("*.checkpoint"), ids=lambda path: str(path.relative_to(klogs()))
)
@pytest.mark.covers("REC-01", "REC-05", "REC-06")
def test_every_batch_of_a_real_kafka_decodes_and_encodes_to_the_same_bytes(path: Path) -> None:
    data = path.read_bytes()
    out = []
    for batch in scan(data, path=str(path)):
        records = batch.records()
        if batch.is_control:
            known = [control.decode_control(record.key, record.value) for record in records]
            assert not any(isinstance(record, control.RawControl) for record in known)
            bodies = [control.encode_control(record) for record in known]
            raw = encode_control_batch(batch.base_offset, batch.epoch, batch.base_timestamp, bodies)
        else:
            values = batch.values()
            assert values == [record.value for record in records]
            decoded = [frame.decode_record(value) for value in values]
            assert not any(isinstance(record, frame.RawRecord) for record in decoded)
            again = [
                frame.encode_record(record, frame.read_frame(value)[1])
                for record, value in zip(decoded, values, strict=True)
            ]
            raw = encode_batch(batch.base_offset, batch.epoch, batch.base_timestamp, again)
        out.append(raw)
    assert b"".join(out) == data


@given(
    st.integers(0, 2**62),
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**62),
    st.lists(st.binary(min_size=1, max_size=200), min_size=1, max_size=80),
)
def test_data_batches_are_their_own_inverse(
    base_offset: int, epoch: int, timestamp_ms: int, values: list[bytes]
) -> None:
    (batch,) = scan(encode_batch(base_offset, epoch, timestamp_ms, values))
    assert (batch.base_offset, batch.end_offset) == (base_offset, base_offset + len(values))
    assert (batch.epoch, batch.base_timestamp, batch.max_timestamp) == (epoch, timestamp_ms, timestamp_ms)
    assert (batch.record_count, batch.is_control, batch.is_transactional) == (len(values), False, False)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (-1, -1, -1)
    assert batch.values() == values
    records = batch.records()
    assert [record.value for record in records] == values
    assert {(r.key, r.attributes, r.timestamp_delta, r.headers) for r in records} == {(None, 0, 0, ())}
    assert [record.offset_delta for record in records] == list(range(len(values)))


def test_a_batch_of_ten_thousand_records() -> None:
    values = [b"%d" % number * (number % 90 + 1) for number in range(10_000)]
    (batch,) = scan(encode_batch(0, 1, 2, values))
    assert batch.values() == values


@pytest.mark.covers("REC-03")
def test_nothing_holds_no_batches() -> None:
    assert list(scan(b"")) == []
    with pytest.raises(ValueError, match="at least one record"):
        encode_batch(0, 0, 0, [])


def test_walk_gives_the_batches_of_scan_and_leaves_their_checksums_alone() -> None:
    first, second = encode_batch(5, 1, 0, [b"a", b"b"]), encode_batch(7, 1, 0, [b"c"])
    assert [bytes(b.raw) for b in walk(first + second)] == [first, second]
    bad = (first + second)[:-2] + b"?\0"
    assert [b.end_offset for b in walk(bad)] == [7, 8], "whoever walks them has checked them before"
    with pytest.raises(CorruptBatchError):
        list(walk(bad[:-1]))


def test_scan_tells_where_it_is_and_can_begin_in_the_middle() -> None:
    first, second = encode_batch(0, 1, 0, [b"a", b"b"]), encode_batch(2, 1, 0, [b"c"])
    assert [(b.position, b.size_bytes, b.end_offset) for b in scan(first + second)] == [
        (0, len(first), 2),
        (len(first), len(second), 3),
    ]
    assert [b.values() for b in scan(first + second, len(first))] == [[b"c"]]
    assert [bytes(b.raw) for b in scan(memoryview(first + second))] == [first, second]


@pytest.mark.covers("D-05")
@pytest.mark.parametrize("left", [1, 8, 11, 12, 60, 61, 70])
def test_a_batch_that_the_buffer_cuts_short_is_torn(left: int) -> None:
    """Storage cuts a torn end and never cuts damage, so the two must be told apart."""
    whole = encode_batch(0, 1, 0, [b"whole"])
    batches = scan(whole + encode_batch(1, 1, 0, [b"unfinished"])[:left], path="0.log")
    assert next(batches).values() == [b"whole"]
    with pytest.raises(CorruptBatchError, match=f"0.log at byte {len(whole)}") as caught:
        next(batches)
    assert caught.value.torn
    assert caught.value.position_bytes == len(whole)


def _with(raw: bytes, at: int, patch: bytes) -> bytes:
    out = bytearray(raw)
    out[at : at + len(patch)] = patch
    out[17:21] = crc32c(bytes(out[21:])).to_bytes(4, "big")
    return bytes(out)


ODD: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "a flipped bit": (lambda raw: raw[:-2] + bytes((raw[-2] ^ 1,)) + raw[-1:], "checksum"),
    "zeros": (lambda raw: bytes(len(raw)), "claims 12 bytes"),
    "a size below the header": (lambda raw: raw[:8] + (40).to_bytes(4, "big") + raw[12:], "claims 52 bytes"),
    "a negative size": (lambda raw: raw[:8] + b"\xff\xff\xff\xff" + raw[12:], "claims 11 bytes"),
    "magic 1": (lambda raw: _with(raw, 16, b"\1"), "magic 1"),
    "compression": (lambda raw: _with(raw, 21, b"\0\4"), "compression 4"),
    "log-append time": (lambda raw: _with(raw, 21, b"\0\x08"), "log-append time"),
    "no records": (lambda raw: _with(raw, 57, bytes(4)), "0 records"),
    "a count that does not fit its offsets": (lambda raw: _with(raw, 57, b"\0\0\0\2"), "2 records"),
    "a negative base offset": (lambda raw: b"\xff" + raw[1:], "negative"),
    "a negative epoch": (lambda raw: raw[:12] + b"\xff" + raw[13:], "negative"),
}


@pytest.mark.covers("REC-02")
@pytest.mark.parametrize("name", ODD)
def test_what_is_no_batch_of_a_metadata_log_is_refused(name: str) -> None:
    damage, reason = ODD[name]
    with pytest.raises(CorruptBatchError, match=reason) as caught:
        list(scan(damage(encode_batch(5, 1, 0, [b"value"]))))
    assert not caught.value.torn
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


def test_base_offset_and_epoch_are_outside_the_checksum() -> None:
    raw = bytearray(encode_batch(5, 1, 0, [b"value"]))
    raw[0:8] = (9).to_bytes(8, "big")
    raw[12:16] = (4).to_bytes(4, "big")
    (batch,) = scan(bytes(raw))
    assert (batch.base_offset, batch.epoch) == (9, 4)


def _record(body: bytes) -> bytes:
    return bytes((len(body) * 2,)) + body


BAD_RECORDS = {
    "a timestamp delta": _record(b"\0\2\0\1\2x\0"),
    "attributes": _record(b"\1\0\0\1\2x\0"),
    "a key": _record(b"\0\0\0\2k\2x\0"),
    "no value": _record(b"\0\0\0\1\1\0"),
    "an empty value": _record(b"\0\0\0\1\0\0"),
    "another offset": _record(b"\0\0\2\1\2x\0"),
    "a header": _record(b"\0\0\0\1\2x\2\2h\2v"),
    "a length too large": b"\x7e" + b"\0\0\0\1\2x\0",
    "a length of nothing": b"\0",
    "a negative length": b"\1" + b"\0\0\0\1\2x\0",
    "a value beyond the record": _record(b"\0\0\0\1\x40x\0"),
    "bytes after the last record": _record(b"\0\0\0\1\2x\0") + b"!",
}


@pytest.mark.covers("REC-04")
@pytest.mark.parametrize("name", BAD_RECORDS)
def test_records_that_a_metadata_log_never_holds_are_refused(name: str) -> None:
    good = encode_batch(0, 1, 0, [b"x"])
    raw = bytearray(good[:61] + BAD_RECORDS[name])
    raw[8:12] = (len(raw) - 12).to_bytes(4, "big")
    batch = BatchView(_with(bytes(raw), 57, b"\0\0\0\1"))
    batch.check()
    with pytest.raises(CorruptBatchError):
        batch.values()


def test_records_shows_even_what_values_refuses() -> None:
    good = encode_batch(0, 1, 0, [b"x"])
    raw = bytearray(good[:61] + _record(b"\0\x04\0\2k\2x\2\2h\1"))
    raw[8:12] = (len(raw) - 12).to_bytes(4, "big")
    (record,) = BatchView(bytes(raw)).records()
    assert (record.timestamp_delta, record.key, record.value) == (2, b"k", b"x")
    assert record.headers == ((b"h", None),)


def test_a_corrupt_batch_is_a_malformed_one() -> None:
    assert issubclass(CorruptBatchError, MalformedError)
