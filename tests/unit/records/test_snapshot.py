"""The bytes of a snapshot: what is written, that it reads back, and that nothing else passes for one."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures import klogs
from hypothesis import given
from hypothesis import strategies as st

from kraftd.errors import CorruptBatchError, MalformedError
from kraftd.records import names
from kraftd.records.batch import BatchView, encode_batch, encode_control_batch, scan
from kraftd.records.batch_header import BATCH_BYTES_MAX
from kraftd.records.control import AnyControl, decode_control, encode_control
from kraftd.records.messages import (
    KRaftVersionRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
    VotersRecordVoter,
)
from kraftd.records.snapshot import BATCH_RECORDS_MAX, SnapshotDecoder, encode_snapshot

EPOCH, AT = 7, 1_700_000_000_000
QUORUM: list[AnyControl] = [
    KRaftVersionRecord(kraft_version=1),
    VotersRecord(voters=(VotersRecordVoter(1, b"d" * 16),)),
]


def written(values: list[bytes], quorum: list[AnyControl] | None = None) -> bytes:
    return b"".join(encode_snapshot(values, EPOCH, AT, last_contained_timestamp_ms=AT, quorum=quorum or []))


def read(data: bytes, piece_bytes: int = 1 << 20, epoch: int | None = EPOCH) -> list[BatchView]:
    decoder, found = SnapshotDecoder("x.checkpoint", epoch), []
    for at in range(0, len(data), piece_bytes):
        found += list(decoder.feed(data[at : at + piece_bytes]))
    decoder.finish()
    return found


def values_of(batches: list[BatchView]) -> list[bytes]:
    return [value for batch in batches for value in batch.values()]


@pytest.mark.covers("SNAP-09", "SNAP-17")
@given(
    st.lists(st.binary(min_size=1, max_size=50), max_size=40),
    st.integers(min_value=1, max_value=400),
    st.booleans(),
)
def test_what_is_written_is_read_again_in_pieces_of_any_size(
    values: list[bytes], piece_bytes: int, dynamic: bool
) -> None:
    batches = read(written(values, QUORUM if dynamic else []), piece_bytes)
    assert values_of(batches) == values
    assert {(batch.epoch, batch.base_timestamp, batch.max_timestamp) for batch in batches} == {
        (EPOCH, AT, AT)
    }
    first = [decode_control(record.key, record.value) for record in batches[0].records()]
    assert first == [SnapshotHeaderRecord(last_contained_log_timestamp=AT), *(QUORUM if dynamic else [])]
    (last,) = batches[-1].records()
    assert decode_control(last.key, last.value) == SnapshotFooterRecord()
    assert [batch.base_offset for batch in batches[1:]] == [batch.end_offset for batch in batches[:-1]]


@pytest.mark.parametrize("count", [0, 1, 1_023, 1_024, 1_025, 2_048, 3_000])
def test_a_batch_holds_1024_records_and_the_last_one_the_rest(count: int) -> None:
    batches = read(written([b"%d" % number for number in range(count)]))[1:-1]
    whole, rest = divmod(count, BATCH_RECORDS_MAX)
    assert [batch.record_count for batch in batches] == [BATCH_RECORDS_MAX] * whole + [rest] * bool(rest)


def test_large_records_end_a_batch_before_it_is_too_large_for_kafka() -> None:
    values = [bytes([number]) * (300_000 if number % 3 else 10) for number in range(1, 250)]
    values.insert(100, b"x" * (5 << 20))
    batches = read(written(values))
    assert values_of(batches) == values
    assert max(batch.size_bytes for batch in batches) <= BATCH_BYTES_MAX


def test_encoding_can_be_left_alone_between_few_records() -> None:
    taken = 0

    def values() -> Iterator[bytes]:
        nonlocal taken
        for _ in range(5_000):
            taken += 1
            yield b"x"

    before = 0
    for _ in encode_snapshot(values(), EPOCH, AT, last_contained_timestamp_ms=AT):
        assert taken - before <= 128
        before = taken


def broken() -> dict[str, tuple[bytes, str]]:
    data = written([b"one", b"two"], QUORUM)
    header, records, footer = (bytes(batch.raw) for batch in scan(data))
    bare_footer = encode_control(SnapshotFooterRecord())
    elsewhere = len(header) + 30
    flipped = data[:elsewhere] + bytes([data[elsewhere] ^ 1]) + data[elsewhere + 1 :]
    return {
        "nothing": (b"", "x.checkpoint at byte 0: is empty, so it is no snapshot"),
        "no footer": (
            header + records,
            f"x.checkpoint at byte {len(header + records)}: has no footer, so it was cut short",
        ),
        "no header": (
            encode_batch(0, EPOCH, AT, [b"one"]) + encode_control_batch(1, EPOCH, AT, [bare_footer]),
            "x.checkpoint at byte 0: has no header, so it is no snapshot",
        ),
        "cut inside the footer": (data[:-1], f"the file ends {len(footer) - 1} bytes into a batch"),
        "cut inside the first header": (
            data[:20],
            "x.checkpoint at byte 0: the file ends 20 bytes into a batch",
        ),
        "a batch is missing": (header + footer, "record 5 of the snapshot comes where record 3 must"),
        "a batch is there twice": (
            header + records + records + footer,
            "record 3 .* comes where record 5 must",
        ),
        "something follows": (data + encode_batch(6, EPOCH, AT, [b"x"]), "has no footer"),
        "another epoch": (
            header + encode_batch(3, EPOCH + 1, AT, [b"one", b"two"]) + footer,
            f"at byte {len(header)}: is a snapshot of epoch 8, its name says 7",
        ),
        "a bit": (flipped, f"x.checkpoint at byte {len(header)}: "),
        "zeros behind it": (data + bytes(100), f"at byte {len(data)}: the batch claims 12 bytes"),
        "a length that leads nowhere": (
            header + records[:8] + b"\x7f\xff\xff\x00" + records[12:] + bytes(BATCH_BYTES_MAX),
            f"at byte {len(header)}: the batch claims 2147483404 bytes",
        ),
    }


@pytest.mark.covers("Q-21", "SNAP-17")
@pytest.mark.parametrize("name", broken())
@pytest.mark.parametrize("piece_bytes", [50, 1 << 20])
def test_what_is_not_whole_is_refused_with_the_place(name: str, piece_bytes: int) -> None:
    data, said = broken()[name]
    with pytest.raises(MalformedError, match=said):
        read(data, piece_bytes if len(data) < 10_000 else 1 << 20)


@given(st.data())
def test_no_flipped_bit_passes(data: st.DataObject) -> None:
    good = written([b"one", b"two"])
    at = data.draw(st.integers(0, len(good) * 8 - 1))
    bad = bytearray(good)
    bad[at // 8] ^= 1 << at % 8
    with pytest.raises(MalformedError):
        read(bytes(bad))


def test_an_error_of_a_batch_tells_the_place_in_the_file() -> None:
    data = written([b"one"] * 3_000)
    with pytest.raises(CorruptBatchError) as raised:
        read(data + bytes(61), piece_bytes=1_000)
    assert (raised.value.position_bytes, raised.value.path) == (len(data), "x.checkpoint")


@pytest.mark.covers("SNAP-17")
@pytest.mark.parametrize(
    "path", sorted(klogs().rglob("*.checkpoint")), ids=lambda path: str(path.relative_to(klogs()))
)
def test_every_snapshot_of_a_real_kafka_is_whole(path: Path) -> None:
    snapshot_id = names.parse_snapshot_name(path.name)
    data = path.read_bytes()
    batches = read(data, 4_096, None if snapshot_id is None else snapshot_id.epoch)
    assert b"".join(bytes(batch.raw) for batch in batches) == data
    if snapshot_id is None or not snapshot_id.offset:
        return
    # Given what Kafka wrote and when, our header is the same to the byte, and so are the records.
    head = [decode_control(record.key, record.value) for record in batches[0].records()]
    assert isinstance(head[0], SnapshotHeaderRecord)
    ours = b"".join(
        encode_snapshot(
            values_of(batches),
            snapshot_id.epoch,
            batches[0].base_timestamp,
            last_contained_timestamp_ms=head[0].last_contained_log_timestamp,
            quorum=head[1:],
        )
    )
    assert ours.startswith(bytes(batches[0].raw))
    assert values_of(read(ours, epoch=snapshot_id.epoch)) == values_of(batches)
