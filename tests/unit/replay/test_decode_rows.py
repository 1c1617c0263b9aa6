"""Rows are the records of a plain decode, whatever the slices, and damage is a row with a reason."""

import itertools
import json
from pathlib import Path

import pyarrow as pa
import pytest

from kraftd.metadata.secrets import shown
from kraftd.records.batch import encode_batch, scan
from kraftd.records.control import control_to_json, decode_control
from kraftd.records.frame import RawRecord, decode_record, read_frame, record_name
from kraftd.replay.commit import Bounds
from kraftd.replay.decode import SCHEMA, rows
from kraftd.replay.discover import discover
from kraftd.replay.model import NodeDirectory
from kraftd.replay.source import KraftReader, Slices, cuts, pack, plan_node
from tests.fixtures import klogs
from tests.replay.logs import START_MS, config, leader_change, noops, write_node

NOTHING_KNOWN = Bounds(0, 2**63 - 1)
CLUSTERS = [path.name for path in sorted(klogs().iterdir()) if path.is_dir()]


def read(node: NodeDirectory, slice_bytes: int = 1 << 20) -> list[dict]:
    table = pa.Table.from_batches(rows(list(plan_node(node, NOTHING_KNOWN, slice_bytes))), SCHEMA)
    return table.to_pylist()


def plain(node: NodeDirectory) -> list[tuple]:
    """What one process without numpy or Arrow makes of every file."""
    out = []
    for file in node.files:
        for batch in scan(Path(file.path).read_bytes()):
            for record in batch.records():
                if batch.is_control:
                    dump = control_to_json(decode_control(record.key, record.value))
                    name, body = dump["type"], dump["data"]
                else:
                    kind, version, _ = read_frame(record.value)
                    decoded = decode_record(record.value)
                    name = record_name(kind)
                    body = None if isinstance(decoded, RawRecord) else shown(decoded, version)["data"]
                out.append(
                    (
                        file.name,
                        batch.base_offset,
                        batch.last_offset,
                        batch.position,
                        batch.size_bytes,
                        batch.epoch,
                        batch.base_offset + record.offset_delta,
                        batch.base_timestamp + record.timestamp_delta,
                        name,
                        None if body is None else json.loads(json.dumps(body)),
                        record.key,
                        record.value,
                    )
                )
    return out


def envelope(row: dict) -> tuple:
    names = ("file", "batch_base_offset", "batch_last_offset", "batch_position", "batch_size_bytes", "epoch")
    return (
        *(row[name] for name in names),
        row["offset"],
        round(row["timestamp"].timestamp() * 1000),
        row["type"],
        None if row["body"] is None else json.loads(row["body"]),
        row["key"],
        row["value"],
    )


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_rows_equal_a_plain_decode(cluster: str) -> None:
    node = discover([klogs() / cluster])[0]
    found = read(node)
    assert [envelope(row) for row in found] == plain(node)
    assert all(row["crc_ok"] and row["problem"] is None for row in found)


def test_slices_change_nothing_but_the_order(tmp_path: Path) -> None:
    write_node(tmp_path, leader_change(0, 1, 1) + noops(1, 1, 500), voters=(1,))
    node = discover([tmp_path])[0]
    assert read(node, 1000) == read(node)
    pieces = list(cuts(node.files[0], 1000))
    assert len(pieces) > 30
    assert [end for _, end in pieces[:-1]] == [start for start, _ in pieces[1:]]
    assert (pieces[0][0], pieces[-1][1]) == (0, node.files[0].size_bytes)


def test_small_files_share_a_task_and_large_ones_are_cut(tmp_path: Path) -> None:
    write_node(tmp_path, noops(0, 1, 500), voters=(1,))
    node = discover([tmp_path])[0]
    shares = list(pack(list(plan_node(node, NOTHING_KNOWN, 1000)), 5000))
    assert all(sum(piece.end - piece.start for piece in share) <= 5000 for share in shares)
    assert len(shares) < len(list(itertools.chain(*shares)))


def test_every_row_says_whether_it_is_committed(tmp_path: Path) -> None:
    write_node(tmp_path, noops(0, 1, 10), voters=(1,))
    node = discover([tmp_path])[0]
    table = pa.Table.from_batches(rows(list(plan_node(node, Bounds(4, 7), 1 << 20))), SCHEMA)
    expected = ["committed"] * 4 + ["unknown"] * 3 + ["uncommitted"] * 3
    assert table["commit_status"].to_pylist() == expected


def test_a_bad_checksum_is_one_row_with_a_reason(tmp_path: Path) -> None:
    log = bytearray(encode_batch(0, 1, START_MS, [config("a", "b")] * 3) + noops(3, 1, 2))
    log[70] ^= 1
    write_node(tmp_path, bytes(log), voters=(1,))
    found = read(discover([tmp_path])[0])
    assert [row["offset"] for row in found] == [0, 3, 4]
    assert [row["crc_ok"] for row in found] == [False, True, True]
    assert "checksum" in found[0]["problem"]
    assert (found[0]["type"], found[0]["value"]) == (None, None)
    assert found[0]["batch_last_offset"] == 2


def test_a_body_that_cannot_be_decoded_keeps_its_bytes(tmp_path: Path) -> None:
    value = config("a", "b")[:-2]
    write_node(tmp_path, encode_batch(0, 1, START_MS, [value]), voters=(1,))
    (row,) = read(discover([tmp_path])[0])
    assert (row["type"], row["body"], row["value"]) == ("ConfigRecord", None, value)
    assert "ConfigRecord" in row["problem"]


def test_a_time_that_is_none_is_null(tmp_path: Path) -> None:
    write_node(tmp_path, encode_batch(0, 1, -1, [config("a", "b")]), voters=(1,))
    (row,) = read(discover([tmp_path])[0])
    assert row["timestamp"] is None


def test_a_torn_tail_ends_the_rows(tmp_path: Path) -> None:
    write_node(tmp_path, noops(0, 1, 5)[:-3], voters=(1,))
    assert [row["offset"] for row in read(discover([tmp_path])[0])] == [0, 1, 2, 3]


def test_the_reader_plans_every_file_of_every_node() -> None:
    reader = KraftReader([str(klogs() / CLUSTERS[0])], 1 << 20)
    planned = [piece for part in reader.partitions() for piece in part.slices]
    nodes = discover([klogs() / CLUSTERS[0]])
    assert {piece.path for piece in planned} == {file.path for node in nodes for file in node.files}
    assert isinstance(reader.partitions()[0], Slices)
