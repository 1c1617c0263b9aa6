"""`kraftctl reassign` against daemons whose log holds brokers and topics."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from cluster import Cluster, KafkaClient
from msgspec.structs import replace
from test_kraftctl import kraftctl
from test_topics_and_brokers import broker, plant

from kraftd.errors import ErrorCode
from kraftd.protocol import messages as m
from kraftd.records.frame import AnyRecord
from kraftd.records.messages import PartitionRecord, TopicRecord

Start = Callable[..., Cluster]

ORDERS = b"o" * 16
BROKERS = (11, 12, 13, 14)


def partition(index: int, *replicas: int) -> PartitionRecord:
    directories = tuple(bytes([one]) * 16 for one in replicas)
    return PartitionRecord(
        index,
        ORDERS,
        replicas,
        replicas,
        leader=replicas[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=directories,
    )


WORLD: Sequence[AnyRecord] = (
    *(replace(broker(one, fenced=one == 14), rack="ab"[one % 2]) for one in BROKERS),
    TopicRecord("orders", ORDERS),
    *(partition(index, 11, 12) for index in range(4)),
)


def started(start: Start) -> Cluster:
    cluster = start(3, start=False, settings={"broker.session.timeout.ms": "600000"})
    for node in cluster:
        plant(node, WORLD)
        node.start()
    cluster.commit("log.retention.ms", "1000")  # what a new cluster begins with comes before it
    cluster.wait_caught_up()
    return cluster


def in_sync(cluster: Cluster, index: int, isr: tuple[int, ...]) -> ErrorCode:
    """Broker 11 leads the partition, of which nothing changed but that a move began: it proposes an ISR."""
    data = m.AlterPartitionRequestPartitionData(
        partition_index=index,
        partition_epoch=1,
        new_isr_with_epochs=tuple(m.AlterPartitionRequestBrokerState(one, one) for one in isr),
    )
    request = m.AlterPartitionRequest(11, 11, (m.AlterPartitionRequestTopicData(ORDERS, (data,)),))
    with KafkaClient(cluster.wait_leader().port) as client:
        return ErrorCode(client.ask(request).topics[0].partitions[0].error_code)


def test_a_plan_is_carried_out_looked_at_and_called_off(start: Start, tmp_path: Path) -> None:
    with started(start) as cluster:

        def reassign(*arguments: str, code: int = 0) -> tuple[str, str]:
            done = kraftctl(cluster.bootstrap, "reassign", *arguments)
            assert done.code == code, done
            return done.out, done.err

        plan = tmp_path / "plan.json"
        plan.write_text(reassign("plan", "--topic", "orders", "--brokers", "11,12,13", "-o", "json")[0])
        planned = {each["partition"]: each["replicas"] for each in json.loads(plan.read_text())["partitions"]}
        held = {index: planned.get(index, [11, 12]) for index in range(4)}
        assert all(12 in each for each in held.values()), "the only broker of its rack"
        assert sum(13 in each for each in held.values()) == 2
        moved = [index for index, each in planned.items() if 13 in each]
        text = reassign("plan", "--topic", "orders", "--brokers", "11,12,13")[0]
        assert "Present assignment, for a rollback:" in text

        told = json.loads(reassign("execute", "--file", str(plan), "-o", "json")[0])
        assert {each["partition"] for each in told["started"]} == {*planned}
        rollback = tmp_path / "rollback.json"
        rollback.write_text(json.dumps(told["rollback"]))
        out, err = reassign("verify", "--file", str(plan), code=5)
        assert out.count("in progress") == 2
        assert "2 of" in err
        rows = json.loads(reassign("verify", "--file", str(plan), "-o", "json", code=5)[0])
        assert [each["catching_up"] for each in rows if each["partition"] in moved] == [[13], [13]]

        for index in moved:
            assert in_sync(cluster, index, (11, 12, 13)) in (ErrorCode.NONE, ErrorCode.NEW_LEADER_ELECTED)
        out, err = reassign("verify", "--file", str(plan))
        assert "in progress" not in out
        assert reassign("cancel", "--all")[0] == "Nothing is being moved.\n"

        reassign("execute", "--file", str(rollback))
        assert "not" in reassign("verify", "--file", str(plan), code=4)[1]
        out, err = reassign("cancel", "--file", str(rollback))
        assert out.count("Called off: partition") == 2
        assert reassign("verify", "--file", str(rollback), code=4)[0].count("differs") == 2


def test_a_fenced_broker_is_named_and_gets_its_replica_for_all_that(start: Start, tmp_path: Path) -> None:
    with started(start) as cluster:
        file = tmp_path / "plan.json"
        entry = {"topic": "orders", "partition": 0, "replicas": [11, 14]}
        file.write_text(json.dumps({"version": 1, "partitions": [entry]}))
        done = kraftctl(cluster.bootstrap, "reassign", "execute", "--file", str(file))
        assert (done.code, done.err) == (
            0,
            "kraftctl: broker 14 is fenced: what moves there waits until it is up; see reassign cancel\n",
        )
        with KafkaClient(cluster.wait_leader().port) as client:
            (topic,) = client.ask(m.ListPartitionReassignmentsRequest(topics=None)).topics
        assert [each.adding_replicas for each in topic.partitions] == [(14,)]


def test_moves_that_are_all_refused_are_one_line_and_there_is_nothing_to_roll_back(
    start: Start, tmp_path: Path
) -> None:
    with started(start) as cluster:
        file = tmp_path / "plan.json"
        entries = [{"topic": "orders", "partition": index, "replicas": [11]} for index in range(4)]
        file.write_text(json.dumps({"version": 1, "partitions": entries}))
        keep = ("--file", str(file), "--disallow-replication-factor-change")
        done = kraftctl(cluster.bootstrap, "reassign", "execute", *keep)
        assert (done.code, done.out, done.err.count("\n")) == (4, "", 1)
        assert done.err.startswith(
            "kraftctl: partition 0 of orders, partition 1 of orders, … (4) were not moved: "
        )
        assert done.err.count("has 2 replica(s), not 1") == 1


def test_what_is_not_there_is_told_before_anything_is_changed(start: Start, tmp_path: Path) -> None:
    with started(start) as cluster:
        file = tmp_path / "plan.json"

        def refused(*arguments: str) -> str:
            done = kraftctl(cluster.bootstrap, "reassign", *arguments)
            assert (done.code, done.out, done.err.count("\n")) == (4, "", 1)
            return done.err

        def wanted(topic: str, index: int, *replicas: int) -> str:
            entry = {"topic": topic, "partition": index, "replicas": replicas}
            file.write_text(json.dumps({"version": 1, "partitions": [entry]}))
            return refused("execute", "--file", str(file))

        assert wanted("nothing", 0, 11) == "kraftctl: there is no topic nothing\n"
        assert wanted("orders", 9, 11) == "kraftctl: there is no partition 9 of orders\n"
        assert wanted("orders", 0, 11, 99) == "kraftctl: there is no broker 99\n"
        for topic, index, why in (
            ("nothing", 0, "There is no topic 'nothing'"),
            ("orders", 9, "Topic orders has no partition 9"),
        ):
            wanted(topic, index, 11)
            told = refused("cancel", "--file", str(file))
            assert told == f"kraftctl: partition {index} of {topic} was not called off: {why}.\n"
        plan = ("plan", "--topic", "orders", "--brokers")
        assert refused(*plan, "11,99") == "kraftctl: there is no broker 99\n"
        assert "broker 14 is fenced" in refused(*plan, "11,14")
        needed = "kraftctl: topic orders: 2 replicas need as many brokers, and 1 is named\n"
        assert refused(*plan, "11") == needed
        assert "there is no topic t" in refused("plan", "--topic", "t", "--brokers", "11")
        with KafkaClient(cluster.wait_leader().port) as client:
            moving = client.ask(m.ListPartitionReassignmentsRequest(topics=None))
        assert moving.topics == ()
