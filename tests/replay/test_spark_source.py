"""`spark.read.format("kraft")`: rows equal those of a plain decode, in as many tasks as there is work."""

import json
from collections import Counter
from pathlib import Path

import pytest

from kraftd.records.batch import scan
from kraftd.replay.data_source import write_rows
from kraftd.replay.errors import ReplayError
from kraftd.replay.job import spark_errors
from kraftd.replay.source.columns import RAW, SCHEMA
from tests.fixtures import klog, klogs
from tests.replay.logs import leader_change, noops, write_node

pytestmark = pytest.mark.spark


def test_a_row_a_record_of_every_node_and_file(spark) -> None:
    cluster = klog("generated-kafka-4.3-dynamic-voters")
    frame = spark.read.format("kraft").load(str(cluster))
    assert frame.columns == SCHEMA.names
    expected: Counter = Counter()
    for path in [*cluster.rglob("*.log"), *cluster.rglob("*.checkpoint")]:
        node = int(path.relative_to(cluster).parts[0].removeprefix("node-"))
        expected[node, path.name] += sum(batch.record_count for batch in scan(path.read_bytes()))
    rows = frame.groupBy("node_id", "file").count().collect()
    assert {(row.node_id, row.file): row["count"] for row in rows} == expected


def test_envelope_and_body_are_those_of_a_plain_decode(spark) -> None:
    cluster = klog("generated-kafka-4.3-dynamic-voters")
    log = cluster / "node-2" / "__cluster_metadata-0" / "00000000000000000375.log"
    plain = [
        (batch.base_offset + record.offset_delta, batch.epoch, batch.position, record.value)
        for batch in scan(log.read_bytes())
        for record in batch.records()
    ]
    frame = spark.read.format("kraft").option("showSecrets", "true").load(str(cluster / "node-2"))
    rows = frame.where("not is_snapshot and segment_base_offset = 375").orderBy("offset").collect()
    assert [(r.offset, r.epoch, r.batch_position, bytes(r.value)) for r in rows] == plain
    config = next(row for row in rows if row.type == "ConfigRecord")
    assert set(json.loads(config.body)) == {"resourceType", "resourceName", "name", "value"}


def test_a_log_is_cut_into_many_tasks_without_losing_a_record(spark, tmp_path: Path) -> None:
    write_node(tmp_path, leader_change(0, 1, 1) + noops(1, 1, 4999), voters=(1,))
    frame = spark.read.format("kraft").option("partitionBytes", "40000").load(str(tmp_path))
    assert frame.rdd.getNumPartitions() > 5
    assert [row.offset for row in frame.select("offset").orderBy("offset").collect()] == list(range(5000))


def test_several_directories_at_once_and_their_commit_status(spark) -> None:
    cluster = klog("kafka-3.5-three-nodes-59-leaders")
    paths = [str(cluster / f"node-{node}") for node in (1, 2, 3)]
    frame = spark.read.format("kraft").option("paths", json.dumps(paths)).load()
    tail = frame.where("not is_snapshot and commit_status != 'committed'").collect()
    assert [(row.node_id, row.offset, row.type, row.commit_status) for row in tail] == [
        (1, 30637, "LeaderChange", "uncommitted")
    ]
    assert frame.where("type = 'LeaderChange' and node_id = 1").count() == 59


@pytest.mark.parametrize("columns", [SCHEMA.names, RAW, ("value", "offset")])
def test_rows_that_tasks_write_are_those_of_the_data_source(columns, spark, tmp_path: Path) -> None:
    cluster = str(klog("generated-kafka-4.3-dynamic-voters"))
    named = spark.read.format("kraft").option("columns", ",".join(columns))
    expected = named.load(cluster)
    written = write_rows(spark, [cluster], tmp_path / "rows", columns=columns)
    found = spark.read.parquet(str(tmp_path / "rows"))
    assert found.columns == expected.columns
    assert written == expected.count() == found.count()
    assert found.exceptAll(expected).count() == 0


def test_rows_of_nothing_have_columns(spark, tmp_path: Path) -> None:
    write_node(tmp_path / "node", b"", voters=(1,))
    assert write_rows(spark, [str(tmp_path / "node")], tmp_path / "rows") == 0
    assert spark.read.parquet(str(tmp_path / "rows")).columns == SCHEMA.names


def test_rows_are_not_written_over_anything(spark, tmp_path: Path) -> None:
    write_node(tmp_path / "node", noops(0, 1, 3), voters=(1,))
    precious = tmp_path / "rows" / "precious"
    precious.parent.mkdir()
    precious.write_text("x")
    with pytest.raises(ReplayError, match="rows is not empty; name a new or empty directory"):
        write_rows(spark, [str(tmp_path / "node")], precious.parent)
    assert list(precious.parent.iterdir()) == [precious]
    with pytest.raises(ReplayError, match="rows/precious: cannot be made a directory: File exists"):
        write_rows(spark, [str(tmp_path / "node")], precious)
    with pytest.raises(ReplayError, match="there is no column colour; there are cluster_id, "):
        write_rows(spark, [str(tmp_path / "node")], tmp_path / "other", columns=["colour"])


def test_a_failing_task_is_one_line(spark, tmp_path: Path) -> None:
    segment = write_node(tmp_path, noops(0, 1, 3), voters=(1,))
    frame = spark.read.format("kraft").load(str(tmp_path))
    assert frame.count() == 3
    segment.unlink()
    with (
        pytest.raises(ReplayError, match=r"^Spark failed: .*FileNotFoundError.*00000.log'?$"),
        spark_errors(),
    ):
        frame.collect()


FILTERS = (
    "offset >= 700 and offset < 740",
    "offset = 736 and not is_snapshot",
    "type in ('LeaderChange', 'ConfigRecord') and offset > 1100",
    "type = 'NoOpRecord' and is_snapshot = false",
    "timestamp >= timestamp'2026-11-21 03:57:00' and offset <= 3",
    "node_id = 2 and offset < 5",
)


def test_filters_that_are_pushed_down_leave_what_spark_would_leave(spark) -> None:
    frame = (
        spark.read.format("kraft")
        .option("columns", "node_id,file,is_snapshot,offset,timestamp,type")
        .option("pushFilters", "true")
    )
    frame = frame.load(str(klog("generated-kafka-4.3-dynamic-voters") / "node-2"))
    plain = spark.createDataFrame(frame.collect(), frame.schema)
    for condition in FILTERS:
        expected = sorted(map(str, plain.where(condition).collect()))
        assert expected
        assert sorted(map(str, frame.where(condition).collect())) == expected, condition


def test_a_filter_on_offsets_opens_only_the_segments_that_hold_them(spark, tmp_path: Path) -> None:
    for base in (0, 100, 200):
        write_node(tmp_path, noops(base, 1, 100), base_offset=base, voters=(1,))
    options = (
        spark.read.format("kraft")
        .option("columns", "offset,type")
        .option("partitionBytes", "1")
        .option("pushFilters", "true")
    )
    frame = options.load(str(tmp_path))
    assert frame.rdd.getNumPartitions() > 100
    one = frame.where("offset >= 120 and offset < 123")
    assert [row.offset for row in one.orderBy("offset").collect()] == [120, 121, 122]
    assert one.rdd.getNumPartitions() < 10


def test_a_filter_does_not_stay_with_a_frame(spark, tmp_path: Path) -> None:
    write_node(tmp_path, noops(0, 1, 10), voters=(1,))
    frame = spark.read.format("kraft").option("columns", "offset").load(str(tmp_path))
    assert (frame.where("offset < 2").count(), frame.count()) == (2, 10)


def test_a_pattern_reads_every_directory_it_fits(spark) -> None:
    cluster = klog("generated-kafka-4.3-dynamic-voters")
    frame = spark.read.format("kraft").option("columns", "node_id,cluster_id").load(f"{cluster}/node-[13]")
    assert {row.node_id for row in frame.distinct().collect()} == {1, 3}
    with pytest.raises(ReplayError, match="no directory fits"), spark_errors():
        spark.read.format("kraft").load(f"{cluster}/nobody-*").count()


def test_a_column_that_is_none_is_named_with_those_there_are(spark) -> None:
    with pytest.raises(ReplayError, match="there is no column ofset; there are cluster_id, "), spark_errors():
        spark.read.format("kraft").option("columns", "ofset").load(str(klogs())).count()


def test_secrets_stay_where_they_are(spark) -> None:
    cluster = str(klog("generated-kafka-4.3-dynamic-voters"))
    rows = spark.read.format("kraft").load(cluster).where("type = 'UserScramCredentialRecord'").collect()
    assert rows
    assert all(row.value is None and row.is_redacted for row in rows)
    assert all(json.loads(row.body)["storedKey"] == "[redacted]" for row in rows)


def test_a_wrong_path_is_named(spark) -> None:
    with pytest.raises(ReplayError, match=r"^Spark failed: .*/nowhere: no such directory$"), spark_errors():
        spark.read.format("kraft").load("/nowhere").count()
