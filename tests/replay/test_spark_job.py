"""The whole replay: tables, summary and hash, for good input and bad."""

import io
import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from rich.console import Console

from kraftd.metadata.image import EMPTY, MetadataImage
from kraftd.metadata.image_builder import apply
from kraftd.metadata.part import ImageView
from kraftd.metadata.parts.brokers import BROKERS
from kraftd.metadata.parts.configs import CONFIGS
from kraftd.metadata.parts.topics import TOPICS
from kraftd.metadata.registry import TABLES as IMAGE_TABLES
from kraftd.records.batch import encode_batch, scan
from kraftd.records.frame import decode_record, encode_record
from kraftd.records.messages import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ClearElrRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from kraftd.replay.errors import ReplayError
from kraftd.replay.job import run
from kraftd.replay.report.cluster_report import Report
from kraftd.replay.report.summary import render
from kraftd.replay.schemas import TABLES
from kraftd.replay.table_parts import rows_batch
from tests.fixtures import klog, klogs
from tests.replay.logs import CLUSTER_ID, START_MS, config, leader_change, noops, write_manifest, write_node

pytestmark = pytest.mark.spark


def plain_fold(node: Path, end_offset: int) -> MetadataImage:
    """The image of a node's log, folded record by record without Spark."""
    image = EMPTY
    for segment in sorted(node.rglob("*.log")):
        for batch in scan(segment.read_bytes()):
            if batch.end_offset <= end_offset:
                for offset, value in enumerate(batch.values(), batch.base_offset):
                    image = apply(image, decode_record(value), offset)
    return image


def text_of(report: Report) -> str:
    console = Console(file=io.StringIO(), width=200)
    console.print(render(report))
    return console.file.getvalue()


@pytest.fixture(scope="module")
def everything(spark, tmp_path_factory) -> Report:
    """One replay of every cluster at hand."""
    return run([klogs()], tmp_path_factory.mktemp("replay"))


def iso(timestamp_ms: int) -> str:
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds")


def cluster_of(report: Report, name: str):
    home = str(klog(name).resolve())
    return next(c for c in report.clusters if c.nodes[0].directory.startswith(home + "/"))


@pytest.mark.covers("D-18")
def test_every_cluster_is_folded_to_the_hash_of_a_plain_fold(everything: Report) -> None:
    assert len(everything.clusters) == sum(1 for path in klogs().iterdir() if path.is_dir())
    for cluster in everything.clusters:
        image = plain_fold(Path(cluster.fold.directory), cluster.fold.end_offset)
        assert cluster.fold.image.image_hash == image.hash()
        assert cluster.fold.image.config_count == sum(1 for _ in image[CONFIGS].entries())
        partitions = sum(
            1 for topic in image[TOPICS].topics() for _ in image[TOPICS].partitions(topic.topic_id)
        )
        assert cluster.fold.image.partition_count == partitions
        assert cluster.fold.image.broker_count == sum(1 for _ in image[BROKERS].values())
        assert cluster.fold.commit_status == "committed"


def test_the_tables_hold_what_the_report_says(everything: Report) -> None:
    out = Path(everything.out)
    assert {path.name for path in out.iterdir()} == {*TABLES, "summary.json"}
    for name, table in TABLES.items():
        assert pq.read_schema(next((out / name).glob("*.parquet"))).equals(table.schema), name
    records = pq.read_table(out / "records", columns=["offset"]).num_rows
    in_reports = sum(
        cluster.snapshot_records + sum(node.records for node in cluster.nodes)
        for cluster in everything.clusters
    )
    assert records == in_reports == everything.tables["records"]
    configs = pq.read_table(out / "configs").to_pylist()
    assert len(configs) == sum(c.fold.image.config_count for c in everything.clusters)
    batches = pq.read_table(out / "batches", columns=["records"])
    assert sum(batches["records"].to_pylist()) == records
    epochs = pq.read_table(out / "leader_epochs").to_pylist()
    assert len(epochs) == sum(len(c.epochs) for c in everything.clusters)
    assert json.loads((out / "summary.json").read_bytes()) == everything.to_builtins()


def test_59_leaders_and_an_uncommitted_tail(everything: Report) -> None:
    cluster = cluster_of(everything, "kafka-3.5-three-nodes-59-leaders")
    assert len(cluster.epochs) == 59
    assert (cluster.epochs[-1].epoch, cluster.epochs[-1].leader_id) == (190, 1)
    assert (cluster.end_offset, cluster.committed_end) == (30638, 30637)
    assert cluster.nodes[0].uncommitted_from == 30637
    assert cluster.fold.end_offset == 30637, "the tail is not folded in"
    assert round(cluster.noop_share, 3) == 0.871


def test_63_topics_and_375_configs(everything: Report) -> None:
    cluster = cluster_of(everything, "kafka-3.6-63-topics")
    kinds = {kind.type: kind.count for kind in cluster.kinds}
    assert kinds["TopicRecord"] == 63
    assert kinds["ConfigRecord"] >= 375


def test_the_incomplete_export_is_not_hidden(everything: Report) -> None:
    cluster = cluster_of(everything, "kafka-3.8-three-nodes-incomplete-export")
    assert everything.exit_code == 1
    assert [problem.kind.value for problem in cluster.problems] == ["incomplete"] * 3
    assert "leader-epoch-checkpoint knows that epoch 5 begins at 16147" in text_of(everything)


def test_the_summary_reads_like_a_page(everything: Report) -> None:
    cluster_of(everything, "kafka-3.5-three-nodes-59-leaders")
    text = text_of(everything)
    assert "uncommitted   30,637 on node 1   1 of 3 voters hold them, and no majority can" in text
    assert "59 leaders in epochs 3 to 190: node 1 25x, node 3 18x, node 2 16x" in text
    assert "30,638, of them 87.1% NoOp" in text
    for cluster in everything.clusters:
        assert cluster.fold.image.image_hash in text


def test_at_an_offset_and_at_a_time(spark, tmp_path: Path) -> None:
    node = klog("generated-kafka-4.3-dynamic-voters") / "node-3"
    batches = [batch for path in sorted(node.rglob("*.log")) for batch in scan(path.read_bytes())]
    chosen = batches[len(batches) // 2]
    report = run([node], tmp_path / "a", at=str(chosen.end_offset))
    expected = plain_fold(node, chosen.end_offset).hash()
    assert report.clusters[0].fold.image.image_hash == expected
    assert report.clusters[0].fold.end_offset == chosen.end_offset

    later = next(b for b in batches if b.max_timestamp > chosen.max_timestamp)
    report = run([node], tmp_path / "a", at=iso(chosen.max_timestamp))
    assert report.clusters[0].fold.end_offset == later.base_offset
    expected = plain_fold(node, later.base_offset).hash()
    assert report.clusters[0].fold.image.image_hash == expected


def test_a_damaged_file_is_reported_with_its_byte_and_the_rest_goes_on(spark, tmp_path: Path) -> None:
    log = leader_change(0, 1, 1) + encode_batch(1, 1, START_MS, [config("a", "1")]) + noops(2, 1, 5)
    segment = write_node(tmp_path / "node", log, voters=(1,))
    data = bytearray(segment.read_bytes() + b"\x00" * 10)
    position = len(leader_change(0, 1, 1)) + len(encode_batch(1, 1, START_MS, [config("a", "1")]))
    data[position + 65] ^= 1
    segment.write_bytes(data)
    report = run([tmp_path / "node"], tmp_path / "out")
    assert report.exit_code == 1
    assert [(p.position_bytes, p.offset) for p in report.problems] == [(position, 2), (len(log), 7)]
    assert report.clusters[0].fold.end_offset == 2
    assert report.clusters[0].fold.image.config_count == 1
    rows = pq.read_table(tmp_path / "out" / "problems").to_pylist()
    assert [row["position_bytes"] for row in rows] == [position, len(log)]
    assert f"byte {position}" in text_of(report)


def test_an_undecodable_record_stops_the_fold_before_it(spark, tmp_path: Path) -> None:
    batches = [[config("a", "1")], [config("b", "2")[:-2]], [config("c", "3")]]
    log = b"".join(encode_batch(o, 1, START_MS, values) for o, values in enumerate(batches))
    write_node(tmp_path / "node", log, voters=(1,))
    report = run([tmp_path / "node"], tmp_path / "out")
    fold = report.clusters[0].fold
    assert (fold.end_offset, fold.image.config_count) == (1, 1)
    assert "ConfigRecord" in fold.image.stopped
    assert [(p.file, p.offset) for p in report.problems] == [("00000000000000000000.log", 1)]
    assert report.exit_code == 1


def test_nodes_that_differ_are_named_with_offset_and_epochs(spark, tmp_path: Path) -> None:
    common = leader_change(0, 1, 1) + noops(1, 1, 4)
    kept = common + leader_change(5, 3, 1) + noops(6, 3, 3)
    lost = common + leader_change(5, 2, 2)
    for node_id, log, epochs in ((1, kept, (3, 5)), (2, kept, (3, 5)), (3, lost, (2, 5))):
        home = tmp_path / "cluster" / f"node-{node_id}"
        write_node(home, log, node_id=node_id, epoch=3, epochs=((1, 0), epochs))
    report = run([tmp_path / "cluster"], tmp_path / "out")
    assert [p.text for p in report.problems] == [
        "node 3 differs from node 1 from offset 5 on: epoch 2 here, 3 there"
    ]
    rows = pq.read_table(tmp_path / "out" / "records", filters=[("offset", "=", 5)]).to_pylist()
    assert {row["node_id"]: row["commit_status"] for row in rows} == {
        1: "committed",
        2: "committed",
        3: "uncommitted",
    }
    epochs_table = pq.read_table(tmp_path / "out" / "leader_epochs").to_pylist()
    assert [(row["epoch"], row["held_by"]) for row in epochs_table] == [(1, [1, 2, 3]), (2, [3]), (3, [1, 2])]
    assert "node 3 diverges at 5" in text_of(report)


def test_two_clusters_under_one_id_are_two_images_named_by_their_folders(spark, tmp_path: Path) -> None:
    homes = [tmp_path / "fleet" / name / "node-1" for name in ("a", "b")]
    for epoch, home in enumerate(homes, 1):
        log = leader_change(0, epoch, 1, voters=(1,))
        log += encode_batch(1, epoch, START_MS, [config("log.retention.ms", str(epoch))])
        write_node(home, log, epoch=epoch, epochs=((epoch, 0),), voters=(1,))
    report = run([tmp_path / "fleet"], tmp_path / "out")
    ids = [f"{CLUSTER_ID} in {home}" for home in homes]
    assert [cluster.cluster_id for cluster in report.clusters] == ids
    assert [cluster.fold.image.image_hash for cluster in report.clusters] == [
        plain_fold(home, 2).hash() for home in homes
    ]
    assert [(one.committed_end, one.fold.commit_status) for one in report.clusters] == [(2, "committed")] * 2
    assert [problem.text.partition(":")[0] for problem in report.problems] == [
        f"2 clusters share the id {CLUSTER_ID}"
    ] * 2
    assert report.exit_code == 1
    rows = pq.read_table(tmp_path / "out" / "configs").to_pylist()
    assert sorted((row["cluster_id"], row["value"]) for row in rows) == list(zip(ids, "12", strict=True))
    text = text_of(report)
    assert all(f"cluster {CLUSTER_ID} in {home.parent.name}/node-1" in text for home in homes)


def test_an_export_is_folded_to_its_high_watermark(spark, tmp_path: Path) -> None:
    batches = [
        [config("log.retention.ms", "1")],
        [config("log.retention.ms", "2")],
        [config("log.retention.ms", "3")],
    ]
    log = b"".join(encode_batch(o, 1, START_MS, values) for o, values in enumerate(batches))
    write_node(tmp_path / "export", log)
    write_manifest(tmp_path / "export", high_watermark=2, end_offset=3)
    report = run([tmp_path / "export"], tmp_path / "out")
    assert report.exit_code == 0
    assert report.clusters[0].fold.end_offset == 2
    rows = pq.read_table(tmp_path / "out" / "configs").to_pylist()
    assert [(row["name"], row["value"]) for row in rows] == [("log.retention.ms", "2")]
    assert "high watermark 2" in text_of(report)


def test_a_log_without_its_beginning_is_folded_from_a_snapshot(spark, tmp_path: Path) -> None:
    log = b"".join(encode_batch(o, 1, START_MS, [config("log.retention.ms", str(o))]) for o in range(5, 8))
    write_node(tmp_path / "node", log, base_offset=5, epochs=((1, 5),), voters=(1,))
    snapshot = tmp_path / "node" / "__cluster_metadata-0" / "00000000000000000006-0000000001.checkpoint"
    values = [config("log.retention.bytes", "9"), config("log.retention.ms", "5")]
    snapshot.write_bytes(b"".join(encode_batch(o, 1, START_MS, [v]) for o, v in enumerate(values)))
    report = run([tmp_path / "node"], tmp_path / "out")
    rows = pq.read_table(tmp_path / "out" / "configs").to_pylist()
    assert {row["name"]: row["value"] for row in rows} == {
        "log.retention.ms": "7",
        "log.retention.bytes": "9",
    }
    assert report.clusters[0].fold.from_snapshot == snapshot.name


def test_an_empty_directory_of_a_node_is_reported(spark, tmp_path: Path) -> None:
    segment = write_node(tmp_path / "node", b"", epochs=())
    report = run([tmp_path / "node"], tmp_path / "out")
    assert report.clusters[0].fold.end_offset == 0
    segment.unlink()
    report = run([tmp_path / "node"], tmp_path / "out")
    assert [(p.kind.value, p.text) for p in report.problems if p.file != "quorum-state"] == [
        ("incomplete", "holds neither segment nor snapshot: this node was never started, or lost them"),
        ("note", "there is no log, so there is no image"),
    ]
    assert report.clusters[0].fold is None


def test_the_tables_of_an_image_are_its_entities(everything: Report) -> None:
    out = Path(everything.out)
    cluster = cluster_of(everything, "generated-kafka-4.3-eligible-leader-replicas")
    image = plain_fold(Path(cluster.fold.directory), cluster.fold.end_offset)
    mine = [("cluster_id", "=", cluster.cluster_id)]
    for table in IMAGE_TABLES:
        end = {"cluster_id": cluster.cluster_id, "end_offset": cluster.fold.end_offset}
        full = [{**end, **row} for row in table.rows(ImageView(image))]
        expected = rows_batch(table.name, full).to_pylist()
        assert sorted(map(str, pq.read_table(out / table.name, filters=mine).to_pylist())) == sorted(
            map(str, expected)
        )
        assert expected or table.name == "tokens"


def test_changes_of_partitions_lead_to_the_partitions_of_the_image(everything: Report) -> None:
    out = Path(everything.out)
    for cluster in everything.clusters:
        left: dict = {}
        mine = [("cluster_id", "=", cluster.cluster_id)]
        changes = pq.read_table(out / "partition_changes", filters=mine).to_pylist()
        for row in sorted(changes, key=lambda row: row["offset"]):
            left[row["topic_id"], row["partition_id"]] = (row["leader"], row["isr"], row["replicas"])
        removed = {key for key, (leader, _, _) in left.items() if leader is None}
        rows = pq.read_table(out / "partitions", filters=mine).to_pylist()
        assert {key: left[key] for key in left if key not in removed} == {
            (row["topic_id"], row["partition_id"]): (row["leader"], row["isr"], row["replicas"])
            for row in rows
        }


def test_no_table_holds_a_secret(everything: Report) -> None:
    rows = pq.read_table(Path(everything.out) / "records", columns=["type", "value", "body"]).to_pylist()
    scram = [row for row in rows if row["type"] == "UserScramCredentialRecord"]
    assert scram
    assert all(row["value"] is None and "[redacted]" in row["body"] for row in scram)


def test_secrets_are_there_for_those_who_ask(spark, tmp_path: Path) -> None:
    log = encode_batch(0, 1, START_MS, [config("ssl.keystore.password", "hunter2")])
    write_node(tmp_path / "node", log, voters=(1,))
    for show_secrets, value in ((False, "[redacted]"), (True, "hunter2")):
        run([tmp_path / "node"], tmp_path / "out", show_secrets=show_secrets)
        (row,) = pq.read_table(tmp_path / "out" / "configs").to_pylist()
        assert row["value"] == value
        (row,) = pq.read_table(tmp_path / "out" / "records").to_pylist()
        assert (b"hunter2" in (row["value"] or b""), "hunter2" in row["body"]) == (show_secrets, show_secrets)


def test_many_shards_and_cross_shard_records_make_the_image_of_a_fold_in_order(
    spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kraftd.replay.image.fold.RECORDS_PER_SHARD", 10)
    ids = [bytes(15) + bytes([number]) for number in range(1, 8)]
    records: list = [FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1)]
    for number, topic_id in enumerate(ids):
        records.append(TopicRecord(name=f"t{number}", topic_id=topic_id))
        records += [
            PartitionRecord(p, topic_id, (1, 2), (1,), eligible_leader_replicas=(2,)) for p in range(3)
        ]
        records.append(ConfigRecord(2, f"t{number}", "retention.ms", str(number)))
    change = [PartitionChangeRecord(1, topic_id, leader=2, isr=(2,)) for topic_id in ids]
    records += [BeginTransactionRecord("a"), *change, RemoveTopicRecord(ids[0]), AbortTransactionRecord(None)]
    records += [ClearElrRecord("t3"), BeginTransactionRecord("b"), *change[:3], ClearElrRecord("t2")]
    records += [RemoveTopicRecord(ids[5]), EndTransactionRecord(), RemoveTopicRecord(ids[1])]
    records += [TopicRecord("t1", bytes(15) + b"\x63"), ConfigRecord(2, "t1", "retention.ms", "9")]
    records += [ClearElrRecord(""), *change[2:4], PartitionChangeRecord(1, ids[1], leader=1), *change]
    values = [encode_record(record) for record in records]
    log = b"".join(encode_batch(o, 1, START_MS, [value]) for o, value in enumerate(values))
    write_node(tmp_path / "node", log, voters=(1,))
    fold = run([tmp_path / "node"], tmp_path / "out").clusters[0].fold
    assert fold.end_offset == len(records) - len(change) - 1, "a change of a topic that is gone ends it"
    assert "there is no topic" in fold.image.stopped
    image = plain_fold(tmp_path / "node", fold.end_offset)
    assert fold.image.image_hash == image.hash()
    assert (fold.image.topic_count, fold.image.partition_count) == (6, 15)
    assert pq.read_table(tmp_path / "out" / "partitions").num_rows == 15


def test_a_directory_without_a_log_does_not_keep_the_others_from_being_read(spark, tmp_path: Path) -> None:
    write_node(tmp_path / "good", noops(0, 1, 3), voters=(1,))
    write_node(tmp_path / "tail", noops(5, 1, 3), base_offset=5, epochs=((1, 5),), cluster_id="other")
    foreign = tmp_path / "foreign" / "__cluster_metadata-0"
    foreign.mkdir(parents=True)
    (foreign / "00000000000000000000.log").write_bytes(b"not a log at all" * 50)
    (foreign / "99999999999999999999.log").write_bytes(b"")
    (foreign / "notes.txt").write_text("hello")
    (tmp_path / "empty").mkdir()
    report = run([tmp_path / name for name in ("good", "tail", "foreign", "empty")], tmp_path / "out")
    assert report.exit_code == 1
    assert report.tables["records"] == 6
    rows = pq.read_table(tmp_path / "out" / "problems").to_pylist()
    said = {(Path(row["directory"]).name, row["file"], row["position_bytes"], row["offset"]) for row in rows}
    assert ("empty", "", None, None) in said
    assert ("foreign", "00000000000000000000.log", 0, 0) in said
    assert ("foreign", "meta.properties", None, None) in said
    assert ("tail", "", None, None) in said, "without its beginning its state cannot be known"
    assert "the state there cannot be known" in " ".join(row["text"] for row in rows)
    assert "without a log" in text_of(report)


def test_a_directory_of_someone_else_is_never_written_over(spark, tmp_path: Path) -> None:
    write_node(tmp_path / "node", noops(0, 1, 3), voters=(1,))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("years of work")
    with pytest.raises(ReplayError, match=r"thesis.tex, which no replay wrote"):
        run([tmp_path / "node"], tmp_path / "out")


def test_a_second_replay_takes_the_place_of_the_first(spark, tmp_path: Path) -> None:
    write_node(tmp_path / "node", noops(0, 1, 3), voters=(1,))
    for _ in range(2):
        assert run([tmp_path / "node"], tmp_path / "out").tables["records"] == 3
    shutil.rmtree(tmp_path / "out")
