"""States and elections of a made-up cluster, worked out by hand, as Spark writes them and as it is asked."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from kraftd.records import messages as m
from kraftd.records.batch import encode_batch
from kraftd.records.frame import encode_record
from kraftd.replay.image import fold
from kraftd.replay.job import run
from kraftd.replay.report import analyses
from kraftd.replay.report.analyses import Tables
from tests.replay.logs import START_MS, leader_change, metadata_version, write_node

pytestmark = pytest.mark.spark

ONE, TWO = bytes(15) + b"\x04", bytes(15) + b"\x05"
"""Two topics, of two shards if there are two."""
D1, D2 = b"1" * 16, b"2" * 16
S = 1000


def broker(broker_id: int, epoch: int, *, fenced: bool = False) -> m.RegisterBrokerRecord:
    log_dirs = (D1 if broker_id == 1 else D2,)
    return m.RegisterBrokerRecord(broker_id, broker_epoch=epoch, fenced=fenced, log_dirs=log_dirs)


def change(broker_id: int, epoch: int, **what: int) -> m.BrokerRegistrationChangeRecord:
    return m.BrokerRegistrationChangeRecord(broker_id, epoch, **what)


def created(topic: bytes) -> m.PartitionRecord:
    return m.PartitionRecord(0, topic, (1, 2), (1, 2), leader=1, directories=(D1, D2))


def moved(topic: bytes, **what: object) -> m.PartitionChangeRecord:
    return m.PartitionChangeRecord(0, topic, **what)


BATCHES = (
    (1, broker(1, 2), broker(2, 3)),  # 2, 3
    (2, m.TopicRecord("one", ONE), created(ONE), m.TopicRecord("two", TWO), created(TWO)),  # 4 to 7
    (10, moved(ONE, isr=(2,), leader=2), moved(TWO, isr=(2,), leader=2), change(1, 2, fenced=1)),  # 8 to 10
    (20, change(2, 3, in_controlled_shutdown=1), moved(ONE, leader=-1), moved(TWO, leader=-1)),  # 11 to 13
    (21, change(2, 3, fenced=1)),  # 14
    (30, broker(2, 15, fenced=True)),  # 15
    (31, change(2, 15, fenced=-1), moved(ONE, leader=2)),  # 16, 17
    (33, broker(1, 18, fenced=True), change(1, 18, fenced=-1)),  # 18, 19
    (34, moved(ONE, isr=(2, 1))),  # 20
    (40, moved(ONE, leader=1)),  # 21
    (50, m.RemoveTopicRecord(ONE)),  # 22
    (60, change(1, 18, fenced=1)),  # 23
)
"""Seconds after the start, and records."""


@pytest.fixture(scope="module", params=[1, 2])
def tables(spark, tmp_path_factory, request) -> Tables:
    home, out = tmp_path_factory.mktemp("cluster"), tmp_path_factory.mktemp("out")
    log = leader_change(0, 1, 1) + encode_batch(1, 1, START_MS, [metadata_version(25)])
    offset = 2
    for after_s, *records in BATCHES:
        log += encode_batch(offset, 1, START_MS + after_s * S, [encode_record(one) for one in records])
        offset += len(records)
    for node_id in (1, 2, 3):
        write_node(home / f"node-{node_id}", log, node_id=node_id)
    with pytest.MonkeyPatch.context() as patch:
        if request.param == 2:
            patch.setattr(fold, "RECORDS_PER_SHARD", 20)
        report = run([home], out, page=out / "report.html")
    assert report.clusters[0].fold.image.illegal_moves == 0
    assert report.clusters[0].fold.image.end_offset == offset
    return Tables(spark, out)


def seconds(moment: datetime | None) -> float | None:
    """Since the start. Spark gives times of this process's zone, without saying so."""
    return None if moment is None else moment.astimezone(UTC).timestamp() - START_MS / S


def rows(frame, *order: str) -> list[tuple]:
    found = [tuple(row) for row in frame.orderBy(*order).collect()]
    return [tuple(seconds(one) if isinstance(one, datetime) else one for one in row) for row in found]


def test_elections_have_a_reason_a_rule_and_the_time_without_a_leader(tables: Tables) -> None:
    found = tables["elections"].select(
        "offset", "timestamp", "topic", "leader_before", "leader", "reason", "rule", "without_leader_ms"
    )
    assert rows(found, "offset") == [
        (8, 10, "one", 1, 2, "offline", "in_sync", 0),
        (9, 10, "two", 1, 2, "offline", "in_sync", 0),
        (12, 20, "one", 2, -1, "controlled_shutdown", "nobody", None),
        (13, 20, "two", 2, -1, "controlled_shutdown", "nobody", None),
        (17, 31, "one", -1, 2, "offline", "in_sync", 11_000),
        (21, 40, "one", 2, 1, "preferred", "preferred_replica", 0),
    ]
    why = tables["elections"].where("offset in (8, 12)").select("why")
    assert rows(why, "offset") == [
        ("broker 1 was fenced at offset 10",),
        ("broker 2 began a controlled shutdown at offset 11",),
    ]


def test_states_of_partitions(tables: Tables) -> None:
    found = tables["partition_states"].select(
        "topic", "state", "from_offset", "from_time", "to_offset", "to_time"
    )
    assert rows(found, "topic", "from_offset") == [
        ("one", "Online", 5, 2, 12, 20),
        ("one", "Offline", 12, 20, 17, 31),
        ("one", "Online", 17, 31, 22, 50),
        ("two", "Online", 7, 2, 13, 20),
        ("two", "Offline", 13, 20, None, None),
    ]


def test_states_of_replicas(tables: Tables) -> None:
    found = (
        tables["replica_states"]
        .where("topic = 'one' and broker_id = 1")
        .select("state", "known_by", "from_offset", "to_offset", "from_time", "to_time")
    )
    assert rows(found, "from_offset") == [
        ("OnlineReplica", "registration", 5, 10, 2, 10),
        ("OfflineReplica", "registration", 10, 19, 10, 33),
        ("OnlineReplica", "registration", 19, 22, 33, 50),
        ("ReplicaDeletionStarted", "removal", 22, 23, 50, 60),
        ("ReplicaDeletionIneligible", "removal", 23, None, 60, None),
    ]


def test_how_long_topics_had_no_leader(tables: Tables) -> None:
    found = analyses.without_leader_by_topic(tables).select(
        "topic", "without_leader_ms", "longest_ms", "times", "partitions", "still"
    )
    assert rows(found, "rank") == [("two", 40_000, 40_000, 1, 1, 1), ("one", 11_000, 11_000, 1, 1, 0)]


def test_elections_over_time_and_by_reason(tables: Tables) -> None:
    over_time = analyses.elections_over_time(tables, 10)
    assert [(row[1] - row[1] % 10, *row[2:]) for row in rows(over_time, "time", "reason")] == [
        (10, "offline", 2),
        (20, "controlled_shutdown", 2),
        (30, "offline", 1),
        (40, "preferred", 1),
    ]
    by_reason = analyses.elections_by_reason(tables).select("reason", "rule", "elections", "first_known_by")
    assert rows(by_reason, "reason") == [
        ("controlled_shutdown", "nobody", 2, "broker 2 began a controlled shutdown at offset 11"),
        ("offline", "in_sync", 3, "broker 1 was fenced at offset 10"),
        ("preferred", "preferred_replica", 1, "broker 2 could have gone on, and the first replica leads"),
    ]


def test_how_many_were_in_which_state(tables: Tables) -> None:
    found = analyses.states_over_time(tables, 1).where("state in ('Offline', 'OfflineReplica')")
    assert rows(found.select("state", "time", "count"), "state", "time") == [
        ("Offline", 20, 2),
        ("Offline", 31, 1),
        ("OfflineReplica", 10, 2),
        ("OfflineReplica", 21, 4),
        ("OfflineReplica", 31, 2),
        ("OfflineReplica", 33, 0),
        ("OfflineReplica", 60, 1),
    ]


def test_the_page_tells_of_them(tables: Tables) -> None:
    page = (Path(tables._out) / "report.html").read_text()
    for words in (
        "6 elections: 3 offline, 2 controlled shutdown, 1 preferred.",
        "Topics without a leader longest",
        "States of partitions and replicas",
    ):
        assert words in page, words
