"""Rows are the records of a plain decode, whatever the pieces, and damage is a row with a reason."""

import itertools
import json
from pathlib import Path

import pyarrow as pa
import pytest

from kraftd.logtools.commit import Bounds
from kraftd.logtools.finding import find_fleet
from kraftd.logtools.node_files import NodeFiles
from kraftd.metadata.secrets import holds_secret
from kraftd.records.batch import encode_batch, encode_control_batch, scan
from kraftd.records.control import control_to_json, decode_control
from kraftd.records.frame import RawRecord, decode_record, read_frame, record_name, to_json
from kraftd.replay.data_source import KraftReader, Pieces
from kraftd.replay.source.columns import RAW, SCHEMA, chosen
from kraftd.replay.source.decode import Decoder
from kraftd.replay.source.filters import RecordFilter
from kraftd.replay.source.pieces import EVERYTHING, cuts, pack, plan_node
from tests.fixtures import klog, klogs
from tests.replay.logs import START_MS, config, leader_change, noops, write_node

NOTHING_KNOWN = Bounds(0, 2**63 - 1)
GENERATED = ("generated-kafka-4.3-dynamic-voters", "generated-kafka-4.3-eligible-leader-replicas")
CLUSTERS = [path.name for path in sorted(klogs().iterdir()) if path.is_dir()]


def read(
    node: NodeFiles,
    piece_bytes: int = 1 << 20,
    schema: pa.Schema = SCHEMA,
    wanted: RecordFilter = EVERYTHING,
    *,
    show_secrets: bool = True,
) -> list[dict]:
    decoder = Decoder(schema, wanted, show_secrets=show_secrets)
    pieces = plan_node(node, NOTHING_KNOWN, piece_bytes, wanted)
    return pa.Table.from_batches(decoder.rows(pieces), schema).to_pylist()


def plain(node: NodeFiles) -> list[tuple]:
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
                    body = None if isinstance(decoded, RawRecord) else to_json(decoded, version)["data"]
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
    node = find_fleet([klog(cluster)])[0][0]
    found = read(node)
    assert [envelope(row) for row in found] == plain(node)
    assert all(row["crc_ok"] and row["problem"] is None for row in found)


@pytest.mark.parametrize("cluster", GENERATED)
def test_secrets_are_in_no_column_unless_asked_for(cluster: str) -> None:
    node = find_fleet([klog(cluster)])[0][0]
    for open_row, row in zip(read(node), read(node, show_secrets=False), strict=True):
        value = open_row["value"]
        hidden = not row["is_control"] and holds_secret(decode_record(value))
        assert row["is_redacted"] is hidden
        assert row["value"] == (None if hidden else value)
        assert envelope(row)[:9] == envelope(open_row)[:9]
        assert hidden or row["body"] == open_row["body"]
        assert not open_row["is_redacted"]


def test_what_cannot_be_read_is_no_open_secret(tmp_path: Path) -> None:
    values = [config("sasl.jaas.config", "hunter2")[:-2], b"\x01\x63\x00hunter2", b"\x02hunter2"]
    log = encode_batch(0, 1, START_MS, values) + encode_control_batch(3, 1, START_MS, [(77, b"\0\0hunter2")])
    write_node(tmp_path, log, voters=(1,))
    found = read(find_fleet([tmp_path])[0][0], show_secrets=False)
    assert [row["value"] for row in found] == [None] * 4
    assert all(row["is_redacted"] for row in found)
    assert "hunter2" not in str(found)
    assert [row["value"] for row in read(find_fleet([tmp_path])[0][0])][:3] == values


@pytest.mark.parametrize("cluster", GENERATED)
def test_fewer_columns_are_the_same_columns(cluster: str) -> None:
    node = find_fleet([klog(cluster)])[0][0]
    some = [{name: row[name] for name in RAW} for row in read(node)]
    assert read(node, schema=chosen(RAW)) == some


@pytest.mark.parametrize(
    "wanted",
    [
        RecordFilter(from_offset=100, to_offset=222),
        RecordFilter(types=frozenset({"LeaderChange", "ConfigRecord"})),
        RecordFilter(types=frozenset({"NoOpRecord"}), from_offset=700),
        RecordFilter(is_snapshot=True),
    ],
)
def test_what_is_not_wanted_is_not_there(wanted: RecordFilter) -> None:
    node = find_fleet([klog("generated-kafka-4.3-dynamic-voters")])[0][0]
    expected = [
        row
        for row in read(node)
        if wanted.from_offset <= row["offset"] < wanted.to_offset
        and (wanted.types is None or row["type"] in wanted.types)
        and wanted.is_snapshot in (None, row["is_snapshot"])
    ]
    assert expected
    assert read(node, wanted=wanted) == expected
    assert read(node, 4000, wanted=wanted) == expected


def test_wanted_times_are_exact() -> None:
    node = find_fleet([klog("generated-kafka-4.3-dynamic-voters")])[0][0]
    times = sorted(row["timestamp"] for row in read(node) if row["timestamp"] is not None)
    low, high = (round(times[len(times) * n // 4].timestamp() * 1e6) for n in (1, 3))
    expected = [row for row in read(node) if low <= round(row["timestamp"].timestamp() * 1e6) < high]
    assert read(node, wanted=RecordFilter(from_us=low, to_us=high)) == expected


def test_segments_without_a_wanted_offset_are_not_opened() -> None:
    node = find_fleet([klog("generated-kafka-4.3-dynamic-voters")])[0][1]
    wanted = RecordFilter(from_offset=800, to_offset=801, is_snapshot=False)
    assert [piece.segment_base_offset for piece in plan_node(node, NOTHING_KNOWN, 1 << 20, wanted)] == [736]


@pytest.mark.parametrize("count", [1, 17, 500])
def test_large_batches_are_read_alike_alone_and_in_step(tmp_path: Path, count: int) -> None:
    values = [[config("log.retention.ms", "7" * (n % 90)) for n in range(count)] for _ in range(40)]
    log = b"".join(encode_batch(i * count, 1, START_MS, batch) for i, batch in enumerate(values))
    write_node(tmp_path, log, voters=(1,))
    node = find_fleet([tmp_path])[0][0]
    for piece_bytes in (1 << 26, len(log) // 40 + 1):
        rows = read(node, piece_bytes)
        assert [row["value"] for row in rows] == [value for batch in values for value in batch]
        assert [row["offset"] for row in rows] == list(range(40 * count))


def test_pieces_change_nothing_but_the_order(tmp_path: Path) -> None:
    write_node(tmp_path, leader_change(0, 1, 1) + noops(1, 1, 500), voters=(1,))
    node = find_fleet([tmp_path])[0][0]
    assert read(node, 1000) == read(node)
    pieces = list(cuts(node.files[0], 1000))
    assert len(pieces) > 30
    assert [end for _, end in pieces[:-1]] == [start for start, _ in pieces[1:]]
    assert (pieces[0][0], pieces[-1][1]) == (0, node.files[0].size_bytes)


@pytest.mark.parametrize("whole", [0, 1, 40])
def test_what_follows_the_last_whole_batch_goes_with_the_last_piece(whole: int, tmp_path: Path) -> None:
    write_node(tmp_path, noops(0, 1, whole) + b"x" * 3000, voters=(1,))
    file = find_fleet([tmp_path])[0][0].files[0]
    pieces = list(cuts(file, 1000))
    assert (pieces[0][0], pieces[-1][1]) == (0, file.size_bytes)
    assert len(pieces) == (1 if whole < 40 else 3)
    assert [end for _, end in pieces[:-1]] == [start for start, _ in pieces[1:]]


def test_small_files_share_a_task_and_large_ones_are_cut(tmp_path: Path) -> None:
    write_node(tmp_path, noops(0, 1, 500), voters=(1,))
    node = find_fleet([tmp_path])[0][0]
    shares = list(pack(list(plan_node(node, NOTHING_KNOWN, 1000)), 5000))
    assert all(sum(piece.end - piece.start for piece in share) <= 5000 for share in shares)
    assert len(shares) < len(list(itertools.chain(*shares)))


def test_every_row_says_whether_it_is_committed(tmp_path: Path) -> None:
    write_node(tmp_path, noops(0, 1, 10), voters=(1,))
    node = find_fleet([tmp_path])[0][0]
    table = pa.Table.from_batches(Decoder().rows(plan_node(node, Bounds(4, 7), 1 << 20)), SCHEMA)
    expected = ["committed"] * 4 + ["unknown"] * 3 + ["uncommitted"] * 3
    assert table["commit_status"].to_pylist() == expected


def test_a_bad_checksum_is_one_row_with_a_reason(tmp_path: Path) -> None:
    log = bytearray(encode_batch(0, 1, START_MS, [config("a", "b")] * 3) + noops(3, 1, 2))
    log[70] ^= 1
    write_node(tmp_path, bytes(log), voters=(1,))
    found = read(find_fleet([tmp_path])[0][0])
    assert [row["offset"] for row in found] == [0, 3, 4]
    assert [row["crc_ok"] for row in found] == [False, True, True]
    assert "checksum" in found[0]["problem"]
    assert (found[0]["type"], found[0]["value"]) == (None, None)
    assert found[0]["batch_last_offset"] == 2


def test_a_body_that_cannot_be_decoded_keeps_its_bytes(tmp_path: Path) -> None:
    value = config("a", "b")[:-2]
    write_node(tmp_path, encode_batch(0, 1, START_MS, [value]), voters=(1,))
    (row,) = read(find_fleet([tmp_path])[0][0])
    assert (row["type"], row["body"], row["value"]) == ("ConfigRecord", None, value)
    assert "ConfigRecord" in row["problem"]


def test_a_time_that_is_none_is_null(tmp_path: Path) -> None:
    write_node(tmp_path, encode_batch(0, 1, -1, [config("a", "b")]), voters=(1,))
    (row,) = read(find_fleet([tmp_path])[0][0])
    assert row["timestamp"] is None


def test_a_torn_tail_ends_the_rows(tmp_path: Path) -> None:
    write_node(tmp_path, noops(0, 1, 5)[:-3], voters=(1,))
    assert [row["offset"] for row in read(find_fleet([tmp_path])[0][0])] == [0, 1, 2, 3]


def test_the_reader_plans_every_file_of_every_node() -> None:
    reader = KraftReader([str(klogs() / CLUSTERS[0])])
    planned = [piece for part in reader.partitions() for piece in part.pieces]
    nodes = find_fleet([klogs() / CLUSTERS[0]])[0]
    assert {piece.path for piece in planned} == {str(file.path) for node in nodes for file in node.files}
    assert isinstance(reader.partitions()[0], Pieces)
