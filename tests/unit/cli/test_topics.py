"""`topics`: listed and described by kraftd's leader, created and deleted over Kafka's wire."""

from collections.abc import Iterator
from typing import Any

import pytest

from kraftd.errors import ErrorCode
from kraftd.protocol import messages as m
from kraftd.types import ZERO_UUID, uuid_text
from tests.unit.cli.kraftctl import Kraftctl, Outcome
from tests.unit.cli.scripted import ScriptedBroker, ScriptedKafkaNode, ScriptedNodeOfBoth, ScriptedQuorum

ALREADY_EXISTS = 36
ORDERS, AUDIT = b"o" * 16, b"a" * 16


def topics(kraftctl: Kraftctl, at: ScriptedQuorum | str, *more: object) -> Outcome:
    bootstrap = at if isinstance(at, str) else at.bootstrap
    return kraftctl("--bootstrap-controller", bootstrap, "topics", *more)


def listed(name: str, topic_id: bytes, *numbers: int) -> m.ListTopicsResponseTopic:
    return m.ListTopicsResponseTopic(name, topic_id, *numbers)


def partition(index: int, **fields: Any) -> m.DescribeTopicsResponsePartition:
    known = {"leader_id": 1, "replicas": (1, 2, 3), "isr": (1, 2)} | fields
    return m.DescribeTopicsResponsePartition(partition_index=index, **known)


# --- list and describe


def test_list_adds_up_what_comes_in_pages(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    pages = {
        None: m.ListTopicsResponse(
            topics=(listed("audit", AUDIT, 1, 2, 2, 1, 0), listed("orders", ORDERS, 4, 3, 3, 0, 1)),
            next_cursor=m.ListTopicsResponseNextCursor("orders", ORDERS, 4),
        ),
        4: m.ListTopicsResponse(topics=(listed("orders", ORDERS, 2, 1, 3, 1, 1),)),
    }
    quorum.nodes[2].responses[m.ListTopicsRequest] = lambda request: pages[
        request.cursor and request.cursor.partition_index
    ]
    assert topics(kraftctl, quorum, "list").out.splitlines() == [
        "Partitions  Replicas  Leaderless  UnderReplicated  Topic",
        "1           2         1           0                audit",
        "6           1-3       1           2                orders",
    ]
    assert topics(kraftctl, quorum, "list", "-o", "json").data[1] == {
        "topic": "orders",
        "topic_id": uuid_text(ORDERS),
        "partitions": 6,
        "least_replicas": 1,
        "most_replicas": 3,
        "leaderless": 1,
        "under_replicated": 2,
    }


def test_a_list_goes_on_with_the_next_leader_where_the_last_one_ended(
    kraftctl: Kraftctl, quorum: ScriptedQuorum
) -> None:
    def first(request: m.ListTopicsRequest) -> Any:
        if request.cursor is not None:
            quorum.lead(3, epoch=8)
            return m.ListTopicsResponse(error_code=ErrorCode.NOT_CONTROLLER)
        cursor = m.ListTopicsResponseNextCursor("orders", ORDERS, 0)
        return m.ListTopicsResponse(topics=(listed("audit", AUDIT, 1, 2, 2),), next_cursor=cursor)

    quorum.nodes[2].responses[m.ListTopicsRequest] = first
    rest = m.ListTopicsResponse(topics=(listed("orders", ORDERS, 2, 3, 3),))
    quorum.nodes[3].responses[m.ListTopicsRequest] = lambda _: rest
    found = topics(kraftctl, quorum, "list", "-o", "json").data
    assert [(row["topic"], row["partitions"]) for row in found] == [("audit", 1), ("orders", 2)]


def test_a_node_whose_pages_go_in_a_circle_is_refused(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    page = m.ListTopicsResponse(
        topics=(listed("a", AUDIT),), next_cursor=m.ListTopicsResponseNextCursor("a", AUDIT, 1)
    )
    quorum.nodes[2].responses[m.ListTopicsRequest] = lambda _: page
    outcome = topics(kraftctl, quorum, "list")
    assert (outcome.code, outcome.out) == (4, "")
    assert "topics: the next page does not come after the last" in outcome.err


def test_describe_shows_configs_and_a_row_for_each_partition(
    kraftctl: Kraftctl, quorum: ScriptedQuorum
) -> None:
    entry = m.DescribeTopicsResponseTopic(
        0,
        "orders",
        ORDERS,
        (
            partition(0, leader_epoch=4, partition_epoch=9, adding_replicas=(3,), removing_replicas=(2,)),
            partition(
                1,
                leader_id=-1,
                isr=(),
                eligible_leader_replicas=(2,),
                last_known_elr=(1,),
                is_leader_recovering=True,
            ),
        ),
    )
    quorum.nodes[2].responses[m.DescribeTopicsRequest] = lambda _: m.DescribeTopicsResponse(topics=(entry,))
    configs = (
        m.ListConfigsResponseEntry(2, "orders", "retention.ms", "1000"),
        m.ListConfigsResponseEntry(2, "orders", "nobody.knows", "x"),
        m.ListConfigsResponseEntry(2, "others", "retention.ms", "1"),
    )
    quorum.nodes[2].responses[m.ListConfigsRequest] = lambda _: m.ListConfigsResponse(entries=configs)
    assert topics(kraftctl, quorum, "describe", "orders").out.splitlines() == [
        "Topic:                  orders",
        f"TopicId:                {uuid_text(ORDERS)}",
        "Configs:                nobody.knows=[redacted], retention.ms=1000",
        "Reassigning:            0 +3 -2",
        "LeaderRecovering:       1",
        "Partition  Leader  Replicas  Isr   Elr  LastKnownElr  LeaderEpoch  Epoch",
        "0          1       1,2,3     1,2   -    -             4            9",
        "1          none    1,2,3     none  2    1             0            0",
    ]
    (data,) = topics(kraftctl, quorum, "describe", "orders", "-o", "json").data
    assert data["configs"] == {"retention.ms": "1000", "nobody.knows": None}
    assert data["partitions"][1]["leader"] == -1
    assert data["partitions"][0]["adding_replicas"] == [3]


def test_describe_asks_for_page_after_page_and_tells_what_is_not_there(
    kraftctl: Kraftctl, quorum: ScriptedQuorum
) -> None:
    def page(request: m.DescribeTopicsRequest) -> m.DescribeTopicsResponse:
        name, *_ = request.names
        if name == "orders" and request.partition_index == 0:
            entry = m.DescribeTopicsResponseTopic(0, "orders", ORDERS, (partition(0),))
            cursor = m.DescribeTopicsResponseNextCursor("orders", ORDERS, 1)
            return m.DescribeTopicsResponse(topics=(entry,), next_cursor=cursor)
        assert request == m.DescribeTopicsRequest(("orders", "nothing"), ORDERS, 1)
        entry = m.DescribeTopicsResponseTopic(0, "orders", ORDERS, (partition(1),))
        unknown = m.DescribeTopicsResponseTopic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "nothing")
        return m.DescribeTopicsResponse(topics=(entry, unknown))

    quorum.nodes[2].responses[m.DescribeTopicsRequest] = page
    outcome = topics(kraftctl, quorum, "describe", "orders", "nothing", "orders", "-o", "json")
    assert (outcome.code, outcome.err) == (4, "kraftctl: there is no topic nothing\n")
    assert [each["partition"] for each in outcome.data[0]["partitions"]] == [0, 1]


def test_as_many_topics_are_described_as_are_named(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    """The names of all of them may be more than one request holds."""

    def describe(request: m.DescribeTopicsRequest) -> m.DescribeTopicsResponse:
        entries = tuple(
            m.DescribeTopicsResponseTopic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name)
            for name in request.names
        )
        return m.DescribeTopicsResponse(topics=entries)

    quorum.nodes[2].responses[m.DescribeTopicsRequest] = describe
    names = [f"{number:04d}".ljust(249, "x") for number in range(500)]
    outcome = topics(kraftctl, quorum, "describe", *names, "y" * 70_000)
    assert outcome.code == 4
    asked = [each for each in quorum.nodes[2].seen if isinstance(each, m.DescribeTopicsRequest)]
    assert [name for request in asked for name in request.names] == names


# --- over Kafka's wire


class KafkaQuorum:
    """Two controllers that speak Kafka's wire alone, as Kafka's own do; the second is the active one."""

    def __init__(self, versions: dict[int, int] | None = None) -> None:
        self.nodes = {node_id: ScriptedKafkaNode(node_id, versions=versions) for node_id in (1, 2)}
        self.active = 2
        for node in self.nodes.values():
            node.responses[m.DescribeClusterRequest] = lambda _: self.describe()

    @property
    def bootstrap(self) -> str:
        return ",".join(node.address for node in self.nodes.values())

    def describe(self) -> m.DescribeClusterResponse:
        brokers = tuple(
            m.DescribeClusterResponseDescribeClusterBroker(node.node_id, "127.0.0.1", node.port)
            for node in self.nodes.values()
        )
        return m.DescribeClusterResponse(endpoint_type=2, controller_id=self.active, brokers=brokers)

    def on(self, node_id: int, request: type[Any], response: Any) -> None:
        self.nodes[node_id].responses[request] = response

    def asked(self, kind: type[Any], node_id: int = 2) -> list[Any]:
        return [request for request in self.nodes[node_id].seen if isinstance(request, kind)]


@pytest.fixture
def kafka() -> Iterator[KafkaQuorum]:
    quorum = KafkaQuorum()
    yield quorum
    for node in quorum.nodes.values():
        node.close()


def created(name: str, error: int = 0, message: str | None = None) -> m.CreateTopicsResponse:
    topic = m.CreateTopicsResponseCreatableTopicResult(
        name=name,
        topic_id=ZERO_UUID if error else ORDERS,
        error_code=error,
        error_message=message,
        num_partitions=-1 if error else 3,
        replication_factor=-1 if error else 1,
    )
    return m.CreateTopicsResponse(topics=(topic,))


def deleted(*names: str, error: int = 0, message: str | None = None) -> m.DeleteTopicsResponse:
    results = tuple(
        m.DeleteTopicsResponseDeletableTopicResult(name, ORDERS, error, message) for name in names
    )
    return m.DeleteTopicsResponse(responses=results)


def test_create_is_one_request_to_the_active_controller(kraftctl: Kraftctl, kafka: KafkaQuorum) -> None:
    kafka.on(2, m.CreateTopicsRequest, lambda _: created("orders"))
    more = ("--partitions", 3, "--replication-factor", 1, "--config", "a=b=c", "--config", "d=")
    outcome = topics(kraftctl, kafka.bootstrap, "create", "orders", *more)
    assert (outcome.code, outcome.out) == (0, "Created topic orders: 3 partitions, 1 replica.\n")
    (request,) = kafka.asked(m.CreateTopicsRequest)
    (topic,) = request.topics
    assert (topic.name, topic.num_partitions, topic.replication_factor) == ("orders", 3, 1)
    assert [(config.name, config.value) for config in topic.configs] == [("a", "b=c"), ("d", "")]
    assert not request.validate_only
    data = topics(kraftctl, kafka.bootstrap, "create", "orders", "-o", "json", "--validate-only").data
    assert data == [
        {
            "topic": "orders",
            "topic_id": uuid_text(ORDERS),
            "partitions": 3,
            "replication_factor": 1,
            "validated_only": True,
        }
    ]
    assert kafka.asked(m.CreateTopicsRequest)[1].topics[0].num_partitions == -1


def test_replicas_can_be_placed_by_hand(kraftctl: Kraftctl, kafka: KafkaQuorum) -> None:
    kafka.on(2, m.CreateTopicsRequest, lambda _: created("orders"))
    assert topics(kraftctl, kafka.bootstrap, "create", "orders", "--replica-assignment", "1:2,2:3").code == 0
    (request,) = kafka.asked(m.CreateTopicsRequest)
    placed = [(each.partition_index, each.broker_ids) for each in request.topics[0].assignments]
    assert placed == [(0, (1, 2)), (1, (2, 3))]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["create", "t", "--partitions", 0], "0 is not in the range"),
        (["create", "t", "--replica-assignment", "1:x"], "write the brokers of each partition, as 1:2,2:3"),
        (["create", "t", "--replica-assignment", f"1:{1 << 31}"], "write the brokers of each partition"),
        (["create", "t", "--replica-assignment", "1", "--partitions", 1], "leave them out"),
        (["create", "t", "--config", "a"], "write --config NAME=VALUE"),
        (["create", "t", "--config", "a=1", "--config", "a=2"], "config a is given twice"),
        (["create", "a\nb"], "must hold no line break"),
        (["delete"], "no topic is named"),
        (["delete", "--topic-id", "x"], "is not a UUID"),
    ],
)
def test_what_makes_no_sense_is_not_sent(
    kraftctl: Kraftctl, kafka: KafkaQuorum, arguments: list[object], says: str
) -> None:
    outcome = topics(kraftctl, kafka.bootstrap, *arguments)
    assert (outcome.code, outcome.err.count("\n")) == (64, 1)
    assert says in outcome.err
    assert kafka.nodes[1].seen == []


def test_what_is_refused_is_told_beside_what_was_done(kraftctl: Kraftctl, kafka: KafkaQuorum) -> None:
    both = (
        *created("new").topics,
        *created("old", ALREADY_EXISTS, "Topic 'old' exists.").topics,
    )
    kafka.on(2, m.CreateTopicsRequest, lambda _: m.CreateTopicsResponse(topics=both))
    outcome = topics(kraftctl, kafka.bootstrap, "create", "new", "old")
    assert outcome.code == 4
    assert outcome.out == "Created topic new: 3 partitions, 1 replica.\n"
    assert outcome.err == "kraftctl: topic old was not created: Topic 'old' exists.\n"


def test_each_of_several_refusals_is_a_sentence_and_they_are_told_apart(
    kraftctl: Kraftctl, kafka: KafkaQuorum
) -> None:
    both = (
        *created("a", ALREADY_EXISTS, "Topic 'a' exists.").topics,
        *created("b", ALREADY_EXISTS, "Topic 'b' exists.").topics,
    )
    kafka.on(2, m.CreateTopicsRequest, lambda _: m.CreateTopicsResponse(topics=both))
    outcome = topics(kraftctl, kafka.bootstrap, "create", "a", "b")
    assert outcome.err == (
        "kraftctl: topic a was not created: Topic 'a' exists; topic b was not created: Topic 'b' exists.\n"
    )


def test_a_name_that_is_too_long_is_told_by_the_node_alone(kraftctl: Kraftctl, kafka: KafkaQuorum) -> None:
    name, told = "a" * 250, f"'{'a' * 80}'… is no name of a topic."
    kafka.on(2, m.CreateTopicsRequest, lambda _: created(name, ErrorCode.INVALID_TOPIC_EXCEPTION, told))
    outcome = topics(kraftctl, kafka.bootstrap, "create", name)
    assert outcome.err == f"kraftctl: a topic with a name of 250 characters was not created: {told}\n"


def test_a_change_follows_the_controller_and_is_not_repeated_once_it_may_be_in_the_log(
    kraftctl: Kraftctl, kafka: KafkaQuorum
) -> None:
    def lose(_: object) -> object:
        kafka.active = 1
        return created("t", ErrorCode.NOT_CONTROLLER)

    kafka.on(2, m.CreateTopicsRequest, lose)
    kafka.on(1, m.CreateTopicsRequest, lambda _: created("t"))
    assert topics(kraftctl, kafka.bootstrap, "create", "t").code == 0
    assert (len(kafka.asked(m.CreateTopicsRequest, 2)), len(kafka.asked(m.CreateTopicsRequest, 1))) == (1, 1)

    for lost in (None, created("t", ErrorCode.REQUEST_TIMED_OUT)):
        kafka.on(1, m.CreateTopicsRequest, lambda _, lost=lost: lost)
        before = len(kafka.asked(m.CreateTopicsRequest, 1))
        outcome = topics(kraftctl, kafka.bootstrap, "create", "t")
        assert (outcome.code, outcome.err.count("\n")) == (5, 1)
        assert "whether topic t was changed is unknown" in outcome.err
        assert len(kafka.asked(m.CreateTopicsRequest, 1)) == before + 1


def test_delete_by_name_and_by_id(kraftctl: Kraftctl, kafka: KafkaQuorum) -> None:
    kafka.on(2, m.DeleteTopicsRequest, lambda _: deleted("orders"))
    outcome = topics(kraftctl, kafka.bootstrap, "delete", "orders")
    assert (outcome.code, outcome.out) == (0, "Deleted topic orders.\n")
    assert topics(kraftctl, kafka.bootstrap, "delete", "--topic-id", uuid_text(ORDERS)).out == outcome.out
    by_name, by_id = kafka.asked(m.DeleteTopicsRequest)
    assert [(each.name, each.topic_id) for each in by_name.topics] == [("orders", ZERO_UUID)]
    assert [(each.name, each.topic_id) for each in by_id.topics] == [(None, ORDERS)]


def test_an_older_node_is_asked_in_a_version_that_it_speaks(kraftctl: Kraftctl) -> None:
    old = KafkaQuorum(versions={20: 5})
    old.on(2, m.DeleteTopicsRequest, lambda _: deleted("orders"))
    assert topics(kraftctl, old.bootstrap, "delete", "orders").out == "Deleted topic orders.\n"
    assert old.asked(m.DeleteTopicsRequest)[0].topic_names == ("orders",)
    outcome = topics(kraftctl, old.bootstrap, "delete", "--topic-id", uuid_text(ORDERS))
    assert (outcome.code, outcome.err.count("\n")) == (4, 1)
    assert "deletes topics by name only" in outcome.err
    for node in old.nodes.values():
        node.close()


def test_a_node_that_does_not_know_the_controller_is_asked_itself(kraftctl: Kraftctl) -> None:
    """A broker forwards, and a controller of before Kafka 3.7 says whether it is the active one."""
    node = ScriptedKafkaNode(7)
    mismatched = m.DescribeClusterResponse(error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE)
    node.responses[m.DeleteTopicsRequest] = lambda _: deleted("orders")
    assert topics(kraftctl, node.address, "delete", "orders").code == 0
    node.responses[m.DescribeClusterRequest] = lambda _: mismatched
    assert topics(kraftctl, node.address, "delete", "orders").code == 0
    node.close()


def test_where_nodes_answer_but_the_controller_that_they_name_does_not_it_ends_with_5(
    kraftctl: Kraftctl, kafka: KafkaQuorum
) -> None:
    """The others were killed, and this one goes on to name the last leader of its epoch (D-07)."""
    kafka.nodes[2].close()
    outcome = topics(kraftctl, kafka.nodes[1].address, "delete", "orders", "--timeout-ms", 200)
    assert (outcome.code, outcome.err.count("\n")) == (5, 1)
    assert "the active controller does not answer" in outcome.err


def test_a_node_that_does_not_serve_it_says_so(kraftctl: Kraftctl, kafka: KafkaQuorum) -> None:
    outcome = topics(kraftctl, kafka.bootstrap, "create", "t")
    active = kafka.nodes[2].address
    assert (outcome.code, outcome.err) == (
        4,
        f"kraftctl: {active}: it does not serve CreateTopics (API 19)\n",
    )


def test_without_an_active_controller_it_waits_and_then_ends_with_5(
    kraftctl: Kraftctl, kafka: KafkaQuorum
) -> None:
    kafka.active = -1
    outcome = topics(kraftctl, kafka.bootstrap, "create", "t", "--timeout-ms", 200)
    assert (outcome.code, outcome.err.count("\n")) == (5, 1)
    assert "no active controller is known there; nothing was changed; see that a majority" in outcome.err


@pytest.mark.parametrize(
    "command",
    [
        ["topics", "create", "t"],
        ["topics", "delete", "t"],
        ["elect", "--preferred", "--all"],
        ["reassign", "cancel", "--all"],
    ],
    ids=["create", "delete", "elect", "cancel"],
)
@pytest.mark.parametrize("knows_last", [False, True], ids=["knows none", "knows one that is gone"])
def test_nodes_of_kraftd_say_why_there_is_no_active_controller(
    kraftctl: Kraftctl, kafka: KafkaQuorum, command: list[str], *, knows_last: bool
) -> None:
    kafka.nodes[2].close()
    kafka.active = 2 if knows_last else -1
    node = ScriptedNodeOfBoth(1)
    gone = tuple(m.DescribeNodeResponsePeer(one, "127.0.0.1", kafka.nodes[2].port) for one in (2, 3))
    view = m.DescribeNodeResponse(cluster_id="c", node_id=1, role="follower", is_voter=True, peers=gone)
    node.responses[m.DescribeNodeRequest] = lambda _: view
    node.responses[m.DescribeClusterRequest] = lambda _: kafka.describe()
    outcome = kraftctl(*command, "--timeout-ms", 100, "--bootstrap-controller", node.address)
    node.close()
    assert (outcome.code, outcome.out) == (5, "")
    assert outcome.err == (
        "kraftctl: no leader: no majority: 1 of 3 voters answer, 2 are needed; "
        "nothing was changed; kraftctl status shows every node's view\n"
    )


def test_a_broker_of_kafka_is_told_from_a_controller(kraftctl: Kraftctl) -> None:
    broker = ScriptedBroker(1)
    outcome = topics(kraftctl, broker.address, "list", "--timeout-ms", 100)
    broker.close()
    assert (outcome.code, outcome.out) == (4, "")
    assert outcome.err == (
        f"kraftctl: {broker.address} is a broker of Kafka, which cannot tell kraftctl about topics; "
        "name a controller of kraftd with --bootstrap-controller\n"
    )


def test_that_there_is_no_topic_is_said_beside_the_table(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    quorum.nodes[2].responses[m.ListTopicsRequest] = lambda _: m.ListTopicsResponse()
    quorum.nodes[2].responses[m.ListDeletionsRequest] = lambda _: m.ListDeletionsResponse()
    assert topics(kraftctl, quorum, "list") == (0, "", "kraftctl: there is no topic\n")
    none = "kraftctl: no replica that was taken away is known"
    more = f"{none}; --all shows those whose data is gone\n"
    assert topics(kraftctl, quorum, "deletions") == (0, "", more)
    assert topics(kraftctl, quorum, "deletions", "--all") == (0, "", f"{none}\n")
    assert topics(kraftctl, quorum, "list", "-o", "json") == (0, "[]\n", "")


@pytest.mark.parametrize("command", [["list"], ["describe", "t"]])
def test_kafkas_own_controllers_have_no_lists(
    kraftctl: Kraftctl, kafka: KafkaQuorum, command: list[str]
) -> None:
    outcome = topics(kraftctl, kafka.bootstrap, *command)
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (4, "", 1)
    assert "is a node of Apache Kafka, which cannot tell kraftctl about topics" in outcome.err


@pytest.mark.parametrize("command", [["list"], ["describe", "t"], ["create", "t"], ["delete", "t"]])
def test_nobody_there_is_2(kraftctl: Kraftctl, kafka: KafkaQuorum, command: list[str]) -> None:
    for node in kafka.nodes.values():
        node.close()
    outcome = topics(kraftctl, kafka.bootstrap, *command)
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
