"""`kraftctl topics` and `brokers`, and what metrics say of them, against daemons whose log holds some."""

import urllib.request
from collections.abc import Callable, Sequence

from cluster import Cluster, Node
from test_broker_life import Broker
from test_kraftctl import kraftctl

from kraftd.records.frame import AnyRecord, encode_record
from kraftd.records.messages import (
    ConfigRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RegisterBrokerRecordBrokerEndpoint,
    TopicRecord,
)
from kraftd.records.snapshot import encode_snapshot
from kraftd.storage import OsFileSystem
from kraftd.storage.bootstrap import read_bootstrap
from kraftd.storage.disk import Disk
from kraftd.types import uuid_text

Start = Callable[..., Cluster]

ORDERS, AUDIT, WIDE = b"o" * 16, b"a" * 16, b"w" * 16
WIDE_PARTITIONS = 3_000
"""More than one page of a list looks at, and more than one page of a describe holds."""


def broker(broker_id: int, *, fenced: bool) -> RegisterBrokerRecord:
    end = RegisterBrokerRecordBrokerEndpoint(name="PLAINTEXT", host=f"b{broker_id}", port=9_092)
    return RegisterBrokerRecord(
        broker_id=broker_id,
        broker_epoch=broker_id,
        incarnation_id=bytes([broker_id]) * 16,
        end_points=(end,),
        rack="r1",
        fenced=fenced,
        log_dirs=(bytes([broker_id]) * 16,),
    )


def partition(topic_id: bytes, index: int, isr: tuple[int, ...]) -> PartitionRecord:
    return PartitionRecord(
        index, topic_id, (11, 12), isr, leader=isr[0] if isr else -1, directories=(b"\x0b" * 16, b"\x0c" * 16)
    )


WORLD: Sequence[AnyRecord] = (
    broker(11, fenced=True),
    broker(12, fenced=True),
    TopicRecord("orders", ORDERS),
    partition(ORDERS, 0, (11, 12)),
    partition(ORDERS, 1, (12,)),
    ConfigRecord(2, "orders", "retention.ms", "1000"),
    TopicRecord("audit", AUDIT),
    partition(AUDIT, 0, ()),
    TopicRecord("wide", WIDE),
    *(partition(WIDE, index, (11, 12)) for index in range(WIDE_PARTITIONS)),
)


def plant(node: Node, records: Sequence[AnyRecord]) -> None:
    """Let a new cluster begin with these records too."""
    path = node.directory / "bootstrap.checkpoint"
    features = read_bootstrap(Disk(OsFileSystem()), path)
    assert features is not None
    values = [*features, *map(encode_record, records)]
    path.write_bytes(b"".join(encode_snapshot(values, 0, 1, last_contained_timestamp_ms=0)))


def started(start: Start, world: Sequence[AnyRecord] = WORLD, **settings: str) -> Cluster:
    cluster = start(3, start=False, http=True, settings=settings)
    for node in cluster:
        plant(node, world)
        node.start()
    cluster.commit("log.retention.ms", "1000")  # what a new cluster begins with comes before it
    cluster.wait_caught_up()
    return cluster


def test_topics_and_brokers_are_listed_and_described_without_a_broker(start: Start) -> None:
    with started(start) as cluster:
        every = kraftctl(cluster.bootstrap, "topics", "list", "-o", "json")
        rows = {row["topic"]: row for row in every.data}
        assert [row["partitions"] for row in rows.values()] == [1, 2, WIDE_PARTITIONS]
        assert (rows["audit"]["leaderless"], rows["orders"]["under_replicated"]) == (1, 1)
        assert rows["wide"] == {
            "topic": "wide",
            "topic_id": uuid_text(WIDE),
            "partitions": WIDE_PARTITIONS,
            "least_replicas": 2,
            "most_replicas": 2,
            "leaderless": 0,
            "under_replicated": 0,
        }
        wide, orders = kraftctl(cluster.bootstrap, "topics", "describe", "wide", "orders", "-o", "json").data
        assert [each["partition"] for each in wide["partitions"]] == list(range(WIDE_PARTITIONS))
        assert orders["configs"] == {"retention.ms": "1000"}
        assert [each["isr"] for each in orders["partitions"]] == [[11, 12], [12]]
        brokers = kraftctl(cluster.bootstrap, "brokers", "list", "-o", "json").data
        assert [(row["broker_id"], row["state"]) for row in brokers] == [(11, "fenced"), (12, "fenced")]
        assert [row["replicas"] for row in brokers] == [WIDE_PARTITIONS + 3] * 2
        described = kraftctl(cluster.bootstrap, "brokers", "describe", 11)
        assert "PLAINTEXT://b11:9092" in described.out
        assert all(
            len(line) <= 80 for line in kraftctl(cluster.bootstrap, "brokers", "list").out.splitlines()
        )


def test_partitions_in_trouble_are_listed_and_explained_without_a_broker(start: Start) -> None:
    with started(start) as cluster:
        listed = kraftctl(cluster.bootstrap, "partitions", "list", "--under-replicated", "-o", "json").data
        assert [(row["topic"], row["partition"], row["isr"]) for row in listed] == [
            ("audit", 0, []),
            ("orders", 1, [12]),
        ]
        explained = kraftctl(cluster.bootstrap, "partitions", "explain", "orders-1", "-o", "json").data
        assert [(one["broker_id"], one["broker"]) for one in explained["replicas"]] == [
            (11, "fenced"),
            (12, "fenced"),
        ]
        unknown = kraftctl(cluster.bootstrap, "partitions", "explain", "orders-7")
        assert (unknown.code, unknown.out) == (4, "")
        assert "there is no partition orders-7: the topic has no such partition" in unknown.err
        needed = kraftctl(cluster.bootstrap, "brokers", "can-stop", 12, "-o", "json")
        assert (needed.code, needed.data["can_stop"]) == (5, False)
        assert ("orders", 1) in [(row["topic"], row["partition"]) for row in needed.data["without_leader"]]


def test_every_node_tells_of_brokers_and_topics_in_metrics_status_and_health(start: Start) -> None:
    with started(start) as cluster:
        leader = cluster.wait_leader()
        leader.kill()
        cluster.wait_leader(but=leader)
        status = kraftctl(cluster.bootstrap, "status")
        assert "FencedBrokers:          2: 11, 12" in status.out
        assert "OfflinePartitions:      " in status.out
        data = kraftctl(cluster.bootstrap, "health", "-o", "json").data
        assert (data["fenced_brokers"], data["fenced_broker_ids"], data["topics"]) == (2, [11, 12], 3)
        assert "audit-0" in data["offline_partition_names"]
        assert not [problem for problem in data["problems"] if "11" in problem]
        for node in cluster.running():
            url = f"http://127.0.0.1:{node.http_port}/metrics"
            with urllib.request.urlopen(url, timeout=30) as page:
                lines = page.read().decode().splitlines()
            assert "kafka_controller_kafkacontroller_fencedbrokercount 2.0" in lines
            assert "kafka_controller_kafkacontroller_globaltopiccount 3.0" in lines
            assert 'kafka_controller_kafkacontroller_brokerregistrationstate{broker="11"} 10.0' in lines


def test_topics_are_created_and_deleted_over_kafkas_wire(start: Start) -> None:
    with start(3, settings={"num.partitions": "3"}) as cluster:
        leader = cluster.wait_leader()
        alone = kraftctl(cluster.bootstrap, "topics", "create", "orders")
        assert (alone.code, alone.out, alone.err.count("\n")) == (4, "", 1)
        assert "topic orders was not created" in alone.err, "without brokers it has nowhere to be"
        for broker_id in (11, 12):
            Broker(cluster, broker_id).up(leader)
        more = ("--replication-factor", 2, "--config", "retention.ms=1000")
        made = kraftctl(cluster.bootstrap, "topics", "create", "orders", *more)
        assert (made.code, made.out) == (0, "Created topic orders: 3 partitions, 2 replicas.\n"), made.err
        again = kraftctl(cluster.bootstrap, "topics", "create", "orders", "audit")
        assert (again.code, again.err.count("\n")) == (4, 1)
        assert "topic orders was not created" in again.err
        assert again.out == "Created topic audit: 3 partitions, 1 replica.\n"
        (orders,) = kraftctl(cluster.bootstrap, "topics", "describe", "orders", "-o", "json").data
        assert orders["configs"] == {"retention.ms": "1000"}
        assert [sorted(each["replicas"]) for each in orders["partitions"]] == [[11, 12]] * 3
        brokers = kraftctl(cluster.bootstrap, "brokers", "list", "-o", "json").data
        assert [row["state"] for row in brokers] == ["active", "active"]
        assert sum(row["leaders"] for row in brokers) == 6
        assert all(0 <= row["last_contact_ms"] < row["session_timeout_ms"] for row in brokers)
        leader.kill()
        checked = kraftctl(cluster.bootstrap, "topics", "create", "more", "--validate-only")
        assert (checked.code, checked.out[:28]) == (0, "Topic more can be created: 3"), checked.err
        gone = kraftctl(cluster.bootstrap, "topics", "delete", "audit", "--topic-id", orders["topic_id"])
        assert gone.out == "Deleted topic audit.\nDeleted topic orders.\n", gone.err
        assert kraftctl(cluster.bootstrap, "topics", "list").out == ""
        busy = kraftctl(cluster.bootstrap, "events", "-o", "json").data
        assert busy["is_active"]
        assert "DeleteTopics" in [row["kind"] for row in busy["kinds"]]


TO_BE_ELECTED: Sequence[AnyRecord] = (
    broker(11, fenced=False),
    broker(12, fenced=False),
    TopicRecord("orders", ORDERS),
    partition(ORDERS, 0, (11, 12)),
    partition(ORDERS, 1, (12, 11)),
    partition(ORDERS, 2, (12,)),
    TopicRecord("audit", AUDIT),
    partition(AUDIT, 0, ()),
    partition(AUDIT, 1, (12, 11)),
)


def test_leaders_are_elected_by_hand(start: Start) -> None:
    with started(start, TO_BE_ELECTED, **{"broker.session.timeout.ms": "600000"}) as cluster:

        def elect(*how: object) -> tuple[int, list[str]]:
            outcome = kraftctl(cluster.bootstrap, "elect", *how, "-o", "json")
            rows = [f"{row['topic']}-{row['partition']} {row['outcome']}" for row in outcome.data]
            return outcome.code, rows

        def leaders(topic: str) -> list[int]:
            (described,) = kraftctl(cluster.bootstrap, "topics", "describe", topic, "-o", "json").data
            return [each["leader"] for each in described["partitions"]]

        assert elect("--preferred", "--topic", "orders") == (
            4,
            ["orders-0 not needed", "orders-1 elected", "orders-2 not elected"],
        )
        assert leaders("orders") == [11, 11, 12]
        assert elect("--preferred", "--topic", "orders", "--partition", 1) == (0, ["orders-1 not needed"])
        assert elect("--preferred", "--topic", "nothing", "--partition", 0) == (4, ["nothing-0 not elected"])
        assert elect("--unclean", "--all") == (0, ["audit-0 elected"])
        assert leaders("audit") == [11, 12]
        assert elect("--preferred", "--all") == (0, ["audit-1 elected", "orders-2 not elected"])
        assert leaders("audit") == [11, 11]
        assert [node.count("leaders_elected") for node in cluster].count(3) == 1
