"""What a snapshot's file restores to, and what is said of one that is wrong, is the same whether its batches
are read at once or record by record.
"""

import random

import pytest
from crc32c import crc32c

from kraftd.controller.committed_records import ImageRestore
from kraftd.errors import KraftdError
from kraftd.metadata.parts.topics import partition_columns
from kraftd.metadata.parts.topics.builder import TopicsBuilder
from kraftd.records import batch
from kraftd.records.batch import BatchView
from kraftd.records.batch_header import CRC_FROM, HEADER_BYTES
from kraftd.records.snapshot import SnapshotDecoder, encode_snapshot
from kraftd.types import OffsetAndEpoch
from tests.unit.metadata.test_partition_runs import snapshot_values

AT = OffsetAndEpoch(500, 3)


def restored(file, piece_bytes, step):
    """The hash of the image, or what is said of the file."""
    images = []
    restore = ImageRestore(AT, lambda image, _at: images.append(image))
    decoder = SnapshotDecoder("x.checkpoint", AT.epoch)
    try:
        for at in range(0, len(file), piece_bytes):
            for view in decoder.feed(file[at : at + piece_bytes]):
                values = view.values()
                for first in range(0, len(values), step):
                    restore.add(
                        values[first : first + step], f"x.checkpoint at byte {decoder.batch_position}"
                    )
        decoder.finish()
        while restore.settle():
            pass
        restore.finish()
    except KraftdError as error:
        return type(error), str(error)
    return images[0].hash()


def record_by_record(monkeypatch, file, piece_bytes):
    with monkeypatch.context() as patch:
        patch.setattr(batch, "usual_values", lambda _data, _count: None)
        patch.setattr(TopicsBuilder, "put_runs", lambda _self, _values, start: start)
        patch.setattr(TopicsBuilder, "put_values", lambda _self, _values, start: start)
        return restored(file, piece_bytes, 1_024)


def hurt(rng, file):
    """The file with a byte of a record changed, cut or doubled, mostly under a checksum of what it is now."""
    views, at = [], 0
    while at < len(file):
        views.append(BatchView(file, at))
        at += views[-1].size_bytes
    view = rng.choice(views)
    raw = bytearray(view.raw)
    where = rng.randrange(HEADER_BYTES, len(raw))
    if rng.random() < 0.8:
        raw[where] = rng.choice([0, 1, 2, 3, 4, 0x7F, 0x80, 0xFF, raw[where] ^ 1 << rng.randrange(8)])
    else:
        raw[where : where + 1] = rng.choice([b"", raw[where : where + 1] * 2])
        raw[8:12] = (len(raw) - 12).to_bytes(4)
    if rng.random() < 0.9:
        raw[CRC_FROM - 4 : CRC_FROM] = crc32c(bytes(raw[CRC_FROM:])).to_bytes(4)
    return file[: view.position] + bytes(raw) + file[view.position + view.size_bytes :]


@pytest.mark.covers("D-20")
@pytest.mark.parametrize("seed", range(6))
def test_a_file_restores_to_the_same_or_the_same_is_said_of_the_same_byte(monkeypatch, seed):
    monkeypatch.setattr(partition_columns, "RUNS_MIN", 8)
    monkeypatch.setattr(partition_columns, "_ALIKE_MIN", 2)
    rng = random.Random(seed)
    values = snapshot_values(rng, [20, 3, 70, 1, 33], odd=0.05)
    file = b"".join(encode_snapshot(values, AT.epoch, 1, last_contained_timestamp_ms=1))
    assert restored(file, 1_000, 50) == record_by_record(monkeypatch, file, 1_000)
    said = set()
    for _ in range(60):
        wrong = file[: rng.randrange(len(file))] if rng.random() < 0.1 else hurt(rng, file)
        piece_bytes = rng.choice([999, 1 << 20])
        outcome = restored(wrong, piece_bytes, rng.choice([30, 512]))
        assert outcome == record_by_record(monkeypatch, wrong, piece_bytes)
        said.add(outcome)
    assert len(said) > 20
