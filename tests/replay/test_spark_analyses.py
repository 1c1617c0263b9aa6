"""Questions to the tables of a made-up cluster whose responses are known, and the page that shows them."""

from pathlib import Path

import pytest

from kraftd.records.batch import encode_batch
from kraftd.records.frame import encode_record
from kraftd.records.messages import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from kraftd.replay.job import run
from kraftd.replay.report import analyses
from kraftd.replay.report.analyses import Tables
from tests.replay.logs import START_MS, leader_change, metadata_version, noops, write_node

pytestmark = pytest.mark.spark

TOPIC = bytes(15) + b"\x07"
SECOND = 1000


def batch(offset: int, after_ms: int, *records) -> bytes:
    return encode_batch(offset, 1, START_MS + after_ms, [encode_record(record) for record in records])


@pytest.fixture(scope="module")
def tables(spark, tmp_path_factory) -> Tables:
    home = tmp_path_factory.mktemp("cluster")
    common = leader_change(0, 1, 1) + encode_batch(1, 1, START_MS, [metadata_version(25)])
    common += batch(
        2,
        1 * SECOND,
        RegisterBrokerRecord(broker_id=11, broker_epoch=2),
        RegisterBrokerRecord(broker_id=12, broker_epoch=3),
        BrokerRegistrationChangeRecord(broker_id=11, broker_epoch=2, fenced=-1),
        TopicRecord("hot", TOPIC),
        PartitionRecord(0, TOPIC, (11, 12), (11, 12), leader=11, leader_epoch=0, partition_epoch=0),
        PartitionRecord(1, TOPIC, (11, 12), (11, 12), leader=12, leader_epoch=0, partition_epoch=0),
    )
    common += batch(
        8,
        61 * SECOND,
        BrokerRegistrationChangeRecord(broker_id=12, broker_epoch=3, fenced=-1),
        PartitionChangeRecord(1, TOPIC, isr=(11,), leader=11),
        PartitionChangeRecord(0, TOPIC, isr=(11,)),
    )
    common += batch(
        11,
        62 * SECOND,
        PartitionChangeRecord(0, TOPIC, isr=(11, 12)),
        BrokerRegistrationChangeRecord(broker_id=11, broker_epoch=2, fenced=1),
    )
    kept = common + leader_change(13, 4, 2) + noops(14, 4, 3)
    lost = common + leader_change(13, 2, 3)
    for node_id, log, epochs in ((1, kept, (4, 13)), (2, kept, (4, 13)), (3, lost, (2, 13))):
        write_node(home / f"node-{node_id}", log, node_id=node_id, epoch=4, epochs=((1, 0), epochs))
    out = tmp_path_factory.mktemp("out")
    run([home], out, page=out / "report.html")
    return Tables(spark, out)


def rows(frame, *order: str) -> list[tuple]:
    return [tuple(row) for row in frame.orderBy(*order).collect()]


def test_leaders_and_the_time_without_one(tables: Tables) -> None:
    found = analyses.leader_timeline(tables).select(
        "epoch", "leader_id", "records", "epochs_nobody_won", "without_leader_ms_at_most"
    )
    assert rows(found, "epoch")[-1][:4] == (4, 2, 4, 1)
    assert [row[1] for row in rows(found, "epoch")] == [1, 3, 2]


def test_in_sync_replicas_by_broker_and_partition(tables: Tables) -> None:
    by_broker = analyses.isr_by_broker(tables).select("broker_id", "shrinks", "expands")
    assert rows(by_broker, "broker_id") == [(12, 2, 1)]
    by_partition = analyses.isr_by_partition(tables).select("topic", "partition_id", "shrinks", "expands")
    assert rows(by_partition, "partition_id") == [("hot", 0, 1, 1), ("hot", 1, 1, 0)]
    over_time = analyses.isr_over_time(tables, 60).select("shrinks", "expands")
    assert rows(over_time, "shrinks") == [(2, 1)]


def test_fenced_brokers(tables: Tables) -> None:
    found = analyses.broker_fencing(tables).select("broker_id", "event", "fenced_ms")
    assert rows(found, "offset") == [
        (11, "registered", 0),
        (12, "registered", 60 * SECOND),
        (11, "fenced", None),
    ]


def test_who_took_over_and_what_is_hot(tables: Tables) -> None:
    churn = analyses.leadership_churn(tables, 3600).select("broker_id", "won", "lost")
    assert rows(churn, "broker_id") == [(11, 1, 0), (12, 0, 1)]
    hot = analyses.hot_topics(tables).select("topic", "changes", "leader_changes", "shrinks", "rank")
    assert rows(hot, "rank") == [("hot", 3, 1, 2, 1)]


def test_kinds_are_counted_once_however_many_nodes_hold_them(tables: Tables) -> None:
    found = analyses.kinds_over_time(tables, 86_400 * 365).groupBy("type").sum("records")
    kinds = dict(rows(found, "type"))
    assert kinds["NoOpRecord"] == 3
    assert kinds["PartitionRecord"] == 2
    assert sum(kinds.values()) == 17


def test_where_two_logs_part(tables: Tables) -> None:
    found = analyses.log_matching(tables).select(
        "left_node_id", "right_node_id", "equal_batches", "first_difference", "left_epoch", "right_epoch"
    )
    assert rows(found, "left_node_id", "right_node_id") == [
        (1, 2, 9, None, None, None),
        (1, 3, 5, 13, 4, 2),
        (2, 3, 5, 13, 4, 2),
    ]


def test_the_page_is_there_and_shows_the_cluster(tables: Tables) -> None:
    page = (Path(tables._out) / "report.html").read_text()
    assert "2 pairs of nodes differ" in page
    assert "3 leaders; " in page
    assert 800_000 < len(page) < 1_500_000
