"""The fold of rows is the fold of the daemon, batch by batch."""

import msgspec
import pyarrow as pa
import pytest

from kraftd.metadata.fold import apply
from kraftd.metadata.image import EMPTY, ConfigEntry
from kraftd.records.frame import RawRecord, decode_record, encode_record
from kraftd.records.messages import AbortTransactionRecord, BeginTransactionRecord, EndTransactionRecord
from kraftd.replay import fold
from kraftd.replay.fold import Row, arrow_fold, config_row, fold_rows, summarize
from tests.replay.logs import NO_OP, config, metadata_version

VALUES = [metadata_version(25), NO_OP, config("log.retention.ms", "1"), config("log.retention.ms", None)]
VALUES += [config(f"name-{n}", str(n), resource="1") for n in range(50)]


def rows(values: list[bytes], per_batch: int = 3) -> list[Row]:
    return [Row(offset - offset % per_batch, offset, value) for offset, value in enumerate(values)]


def plain(values: list[bytes]):
    image = EMPTY
    for offset, value in enumerate(values):
        image = apply(image, decode_record(value), offset)
    return image


@pytest.mark.parametrize("chunk", [1, 7, 4096])
def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr(fold, "CHUNK_ROWS", chunk)
    folded = fold_rows(rows(VALUES), 54)
    assert folded.image == plain(VALUES)
    assert (folded.end_offset, folded.record_count, folded.stopped) == (54, 54, None)


@pytest.mark.parametrize(
    "bad",
    [b"\x02\x04\x00", encode_record(EndTransactionRecord()), VALUES[2][:-2]],
    ids=["frame", "order", "cut"],
)
@pytest.mark.parametrize("chunk", [1, 4096])
def test_a_bad_batch_ends_the_fold_before_it(monkeypatch: pytest.MonkeyPatch, bad: bytes, chunk: int) -> None:
    monkeypatch.setattr(fold, "CHUNK_ROWS", chunk)
    folded = fold_rows(rows([*VALUES[:10], bad, *VALUES[10:]]), 55)
    assert folded.end_offset == 9, "the record at 9 is of the same batch as the bad one at 10"
    assert folded.image == plain(VALUES[:9])
    assert folded.record_count == 9
    assert folded.stopped


def test_an_open_transaction_shows_the_image_before_it() -> None:
    begin = encode_record(BeginTransactionRecord(name="batch"))
    summary = summarize(fold_rows(rows([*VALUES, begin, config("a", "b")]), 56))
    assert summary.open_transaction_at == 54
    assert summary.image_hash == plain(VALUES).hash()
    abort = encode_record(AbortTransactionRecord(reason=None))
    assert (
        summarize(fold_rows(rows([*VALUES, begin, config("a", "b"), abort]), 57)).open_transaction_at is None
    )


def test_kinds_from_the_future_make_the_image_partial() -> None:
    raw = encode_record(RawRecord(api_key=99, version=0, raw=b"\x00"))
    later = encode_record(RawRecord(api_key=2, version=1, raw=b"\x00"))
    summary = summarize(fold_rows(rows([*VALUES, raw, raw, later]), 57))
    assert summary.is_partial
    assert summary.unknown_kinds == {"UnknownRecord99": 2, "TopicRecord": 1}
    assert summary.image_hash == plain(VALUES).hash()


def test_arrow_batches_fold_to_a_summary_and_the_configs() -> None:
    batch = pa.record_batch(
        {
            "batch_base_offset": pa.array(range(len(VALUES))),
            "offset": pa.array(range(len(VALUES))),
            "value": pa.array(VALUES, pa.binary()),
        }
    )
    out = pa.Table.from_batches(list(arrow_fold([batch.slice(0, 10), batch.slice(10)], 54))).to_pylist()
    assert [row["section"] for row in out] == ["summary"] + ["configs"] * 50
    summary = msgspec.json.decode(out[0]["json"])
    assert summary["image_hash"] == plain(VALUES).hash()
    assert summary["config_count"] == 50
    assert msgspec.json.decode(out[1]["json"]) == {
        "resource_type": "broker",
        "resource_name": "1",
        "name": "name-0",
        "value": "[redacted]",  # Kafka defines no such config, so it may be a password
    }
    row = config_row(ConfigEntry(2, "t", "retention.ms", "5"))
    assert msgspec.structs.astuple(row) == ("topic", "t", "retention.ms", "5")
