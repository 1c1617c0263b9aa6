"""ElectLeaders: who is elected by hand, what each partition is told, what is refused as a whole."""

import pytest
from msgspec.structs import replace

from kraftd.controller.activation import registration_of
from kraftd.controller.context import Leaving
from kraftd.controller.partitions import electing
from kraftd.controller.partitions.electing import ELECT_LEADERS, elect_leaders
from kraftd.controller.plans import SLICE_RECORDS
from kraftd.controller.quorum_controller import QuorumController
from kraftd.errors import ErrorCode
from kraftd.metadata.feature_levels import bootstrap_records
from kraftd.protocol.kafka_codec import KAFKA
from kraftd.protocol.messages import (
    ElectLeadersRequest,
    ElectLeadersRequestTopicPartitions,
    ElectLeadersResponse,
)
from kraftd.records.messages import ConfigRecord, PartitionChangeRecord, RemoveTopicRecord
from kraftd.types import Endpoint, Now, uuid_text
from tests.unit.controller.broker_world import BrokerWorld
from tests.unit.controller.cluster import FENCE, STOP, Cluster, decided, directory, led

PREFERRED, UNCLEAN = 0, 1
TOPIC = 2
NONE = ErrorCode.NONE
NOT_NEEDED = ErrorCode.ELECTION_NOT_NEEDED
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def request(kind, *named):
    """A request about partitions, each topic as (name, number, …); of none, about all partitions."""
    topics = tuple(ElectLeadersRequestTopicPartitions(name, numbers) for name, *numbers in named)
    return ElectLeadersRequest(kind, topics if named else None)


def told(response):
    """The outcomes of each topic: its name, and the error of each partition."""
    return [
        (each.topic, {one.partition_id: ErrorCode(one.error_code) for one in each.partition_result})
        for each in response.replica_election_results
    ]


def ask(cluster, kind, *named, **context):
    """The records, and what is told of each topic."""
    made = replace(cluster.context(2), **context)
    records, response = decided(elect_leaders(made, request(kind, *named)), made)
    assert response.error_code == NONE
    return records, told(response)


def refused(cluster, asked):
    """The response to a request of which nothing is done."""
    records, response = elect_leaders(cluster.context(2), asked)
    assert records == []
    return response


def offline(replicas, isr, **fields):
    """A partition that nobody leads."""
    return led(replicas, isr, leader=-1, **fields)


@pytest.fixture
def cluster():
    return Cluster(brokers=(1, 2, 3))


# --- preferred


def test_the_first_replica_leads_again(cluster):
    topic = cluster.topic("a", led((1, 2, 3), leader=2), led((3, 1, 2), isr=(2, 1, 3)))
    records, outcomes = ask(cluster, PREFERRED, ("a", 0, 1))
    assert records == [PartitionChangeRecord(0, topic, leader=1), PartitionChangeRecord(1, topic, leader=3)]
    assert outcomes == [("a", {0: NONE, 1: NONE})]
    cluster.apply(*records)
    after = cluster.partition(topic)
    assert (after.leader, after.leader_epoch, after.partition_epoch) == (1, 4, 6)


def test_who_leads_already_needs_no_election(cluster):
    cluster.topic("a", led((1, 2, 3)))
    assert ask(cluster, PREFERRED, ("a", 0)) == ([], [("a", {0: NOT_NEEDED})])


@pytest.mark.parametrize("why", ["out of sync", "fenced", "shutting down", "about to be fenced"])
def test_a_preferred_replica_that_cannot_lead_is_not_available(cluster, why):
    cluster.topic("a", led((1, 2, 3), isr=(2, 3) if why == "out of sync" else (2, 1, 3)))
    if why == "fenced":
        cluster.change(1, fenced=FENCE)
    if why == "shutting down":
        cluster.change(1, in_controlled_shutdown=STOP)
    leaving = Leaving(frozenset({1})) if why == "about to be fenced" else Leaving()
    outcome = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert ask(cluster, PREFERRED, ("a", 0), leaving=leaving) == ([], [("a", {0: outcome})])


def test_a_preferred_election_finds_another_leader_for_a_partition_without_one(cluster):
    """As in Kafka, which tells no error: something has changed."""
    topic = cluster.topic("a", offline((1, 2, 3), isr=(2,)))
    records, outcomes = ask(cluster, PREFERRED, ("a", 0))
    assert records == [PartitionChangeRecord(0, topic, leader=2)]
    assert outcomes == [("a", {0: NONE})]


def test_a_preferred_election_is_never_unclean(cluster):
    cluster.apply(ConfigRecord(TOPIC, "a", "unclean.leader.election.enable", "true"))
    cluster.topic("a", offline((1, 2), isr=(3,)))
    outcome = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert ask(cluster, PREFERRED, ("a", 0)) == ([], [("a", {0: outcome})])


# --- unclean


def test_an_unclean_election_is_held_whatever_the_config_says(cluster):
    cluster.apply(ConfigRecord(TOPIC, "a", "unclean.leader.election.enable", "false"))
    cluster.change(1, fenced=FENCE)
    topic = cluster.topic("a", offline((1, 2, 3), isr=(1,)))
    records, outcomes = ask(cluster, UNCLEAN, ("a", 0))
    assert records == [PartitionChangeRecord(0, topic, isr=(2,), leader=2, leader_recovery_state=1)]
    assert outcomes == [("a", {0: NONE})]


def test_an_unclean_election_takes_who_is_in_sync_first(cluster):
    topic = cluster.topic("a", offline((1, 2, 3), isr=(3,)))
    assert ask(cluster, UNCLEAN, ("a", 0))[0] == [PartitionChangeRecord(0, topic, leader=3)]


def test_a_partition_that_is_led_needs_no_unclean_election(cluster):
    cluster.topic("a", led((1, 2, 3), isr=(2,)))
    assert ask(cluster, UNCLEAN, ("a", 0)) == ([], [("a", {0: NOT_NEEDED})])


def test_nobody_is_there_to_lead(cluster):
    cluster.change(1, fenced=FENCE)
    cluster.change(2, fenced=FENCE)
    cluster.topic("a", offline((1, 2), isr=(1,)))
    outcome = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    assert ask(cluster, UNCLEAN, ("a", 0)) == ([], [("a", {0: outcome})])


@pytest.mark.parametrize(
    ("kind", "outcome", "says"),
    [
        (
            PREFERRED,
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
            (
                "The preferred replica is not in sync, its broker is not active, or its log directory is "
                "offline."
            ),
        ),
        (
            UNCLEAN,
            ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
            "No active broker has a replica in a log directory that is online.",
        ),
    ],
)
def test_what_is_said_is_true_of_an_active_broker_whose_log_directory_failed(cluster, kind, outcome, says):
    cluster.topic("a", offline((1,), isr=(1,), directories=(directory(9),)))
    plan = elect_leaders(cluster.context(2), request(kind, ("a", 0)))
    records, response = decided(plan, cluster.context(2))
    assert (records, told(response)) == ([], [("a", {0: outcome})])
    assert response.replica_election_results[0].partition_result[0].error_message == says


# --- what is named


def test_each_partition_has_an_outcome_of_its_own_in_the_order_of_the_request(cluster):
    b = cluster.topic("b", led((1, 2), leader=2), led((1, 2)))
    a = cluster.topic("a", led((2, 1), leader=1))
    records, outcomes = ask(cluster, PREFERRED, ("nothing", 4), ("b", 1, 0, 9, -1), ("a", 0), ("b",))
    assert [(each.topic_id, each.partition_id) for each in records] == [(b, 0), (a, 0)]
    assert outcomes == [
        ("nothing", {4: UNKNOWN}),
        ("b", {1: NOT_NEEDED, 0: NONE, 9: UNKNOWN, -1: UNKNOWN}),
        ("a", {0: NONE}),
        ("b", {}),
    ]


def test_what_is_unknown_is_named_as_it_was_asked_for(cluster):
    cluster.topic("Known", led((1, 2)))
    plan = elect_leaders(cluster.context(2), request(PREFERRED, ("Known", 7), ("Not Known", 0)))
    texts = [
        one.error_message
        for each in decided(plan, cluster.context(2))[1].replica_election_results
        for one in each.partition_result
    ]
    assert texts == ["Topic 'Known' has no partition 7.", "There is no topic 'Not Known'."]


def test_what_is_named_twice_is_decided_twice(cluster):
    """As in Kafka: both find the partition as it was."""
    topic = cluster.topic("a", led((1, 2), leader=2))
    records, outcomes = ask(cluster, PREFERRED, ("a", 0), ("a", 0))
    assert records == [PartitionChangeRecord(0, topic, leader=1)] * 2
    assert outcomes == [("a", {0: NONE}), ("a", {0: NONE})]
    cluster.apply(*records)
    assert cluster.partition(topic).leader == 1


# --- all partitions


def test_of_all_partitions_those_are_told_that_needed_an_election(cluster):
    cluster.change(3, fenced=FENCE)
    b = cluster.topic("b", led((1, 2), leader=2), led((1, 2)), led((3, 1), isr=(1, 3)))
    a = cluster.topic("a", offline((1, 2), isr=(2,)), led((2, 1)))
    cluster.topic("c", led((1, 2)))
    records, outcomes = ask(cluster, PREFERRED)
    assert records == [PartitionChangeRecord(0, a, leader=2), PartitionChangeRecord(0, b, leader=1)]
    not_available = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert outcomes == [("a", {0: NONE}), ("b", {0: NONE, 2: not_available})]


def test_an_unclean_election_of_all_is_of_those_that_nobody_leads(cluster):
    cluster.change(3, fenced=FENCE)
    topic = cluster.topic("a", led((1, 2), leader=2), offline((3, 1), isr=(3,)), offline((3,), isr=(3,)))
    records, outcomes = ask(cluster, UNCLEAN)
    assert records == [PartitionChangeRecord(1, topic, isr=(1,), leader=1, leader_recovery_state=1)]
    assert outcomes == [("a", {1: NONE, 2: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE})]


def test_where_no_partition_needs_one_nothing_is_told(cluster):
    cluster.topic("a", led((1, 2)))
    assert ask(cluster, PREFERRED) == ask(cluster, UNCLEAN) == ([], [])


def test_of_all_partitions_one_that_is_led_or_gone_by_its_turn_is_not_told(cluster, monkeypatch):
    monkeypatch.setattr(electing, "SLICE_RECORDS", 1)
    topic = cluster.topic("a", led((1, 2), leader=2), led((1, 2), leader=2))
    deleted = cluster.topic("b", led((1, 2), leader=2))
    plan = elect_leaders(cluster.context(2), request(PREFERRED))
    records, is_last = plan.advance(cluster.context(2))
    assert (len(records), is_last) == (1, False)
    cluster.apply(*records, PartitionChangeRecord(1, topic, leader=1), RemoveTopicRecord(deleted))
    assert plan.advance(cluster.context(2)) == ([], False)
    assert plan.advance(cluster.context(2)) == ([], True)
    assert told(plan.response()) == [("a", {0: NONE})]


# --- what is refused as a whole


@pytest.mark.parametrize("kind", [PREFERRED, UNCLEAN, 9])
def test_a_request_that_names_nothing_is_answered_with_nothing(cluster, kind):
    """Before its type is looked at, as in Kafka."""
    assert refused(cluster, ElectLeadersRequest(kind, ())) == ElectLeadersResponse()


@pytest.mark.parametrize("kind", [-1, 2])
def test_an_unknown_type_is_refused_for_each_partition(cluster, kind):
    cluster.topic("a", led((1, 2), leader=2))
    response = refused(cluster, request(kind, ("a", 0), ("b", 1, 2)))
    invalid = ErrorCode.INVALID_REQUEST
    assert response.error_code == invalid
    assert told(response) == [("a", {0: invalid}), ("b", {1: invalid, 2: invalid})]
    assert str(kind) in response.replica_election_results[0].partition_result[0].error_message
    assert refused(cluster, request(kind)) == ElectLeadersResponse(error_code=invalid)


MOST = 10_000


@pytest.mark.parametrize(
    "named",
    [
        [("a", *range(MOST + 1))],
        [("a", *range(MOST)), ("b", 0)],
        [("a",)] * (MOST + 1),
    ],
    ids=["one topic", "two topics", "many topics"],
)
def test_more_than_ten_thousand_in_one_request_are_refused(cluster, named):
    cluster.topic("a", led((1, 2), leader=2))
    response = refused(cluster, request(PREFERRED, *named))
    assert response.error_code == ErrorCode.POLICY_VIOLATION
    assert len(response.replica_election_results) <= MOST
    assert sum(len(each.partition_result) for each in response.replica_election_results) in (0, MOST)


def test_of_all_partitions_no_more_than_ten_thousand_may_need_an_election(cluster, monkeypatch):
    monkeypatch.setattr(electing, "OPERATION_RECORDS_MAX", 3)
    cluster.topic("a", led((1, 2), leader=2), led((1, 2), leader=2), led((1, 2)), offline((1, 2), (2,)))
    assert len(ask(cluster, PREFERRED)[0]) == 3
    cluster.topic("b", offline((1, 2), (2,)))
    assert refused(cluster, request(PREFERRED)).error_code == ErrorCode.POLICY_VIOLATION
    assert len(ask(cluster, UNCLEAN)[0]) == 2


def test_the_longest_response_has_all_errors_and_as_many_texts_as_there_is_room_for(cluster):
    asked = request(PREFERRED, ("x" * 249, *range(MOST)))
    response = ELECT_LEADERS.refuse(asked, ErrorCode.NOT_CONTROLLER, "why " * 50)
    (topic,) = response.replica_election_results
    assert {one.error_code for one in topic.partition_result} == {ErrorCode.NOT_CONTROLLER}
    assert topic.partition_result[0].error_message == "why " * 50
    assert topic.partition_result[-1].error_message is None
    assert sum(map(len, KAFKA.encode_response(2, 1, response))) < 512 * 1024


# --- versions


def test_version_0_has_no_type_and_elects_the_preferred(cluster):
    cluster.topic("a", led((1, 2), leader=2))
    frame = b"".join(KAFKA.encode_request(0, 1, "", request(PREFERRED, ("a", 0))))[4:]
    asked = KAFKA.decode_request(frame).message
    records, _ = decided(elect_leaders(cluster.context(0), asked), cluster.context(0))
    assert [each.leader for each in records] == [1]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_refusal_can_be_told_in_every_version(version):
    """Version 0 has no place for the error of the response; that of each partition is there."""
    response = ELECT_LEADERS.refuse(request(PREFERRED, ("a", 0)), ErrorCode.NOT_CONTROLLER, "not me")
    frame = b"".join(KAFKA.encode_response(version, 1, response))[4:]
    read = KAFKA.decode_response(frame, (43, version))
    assert read.error_code == (ErrorCode.NOT_CONTROLLER if version else NONE)
    assert told(read) == [("a", {0: ErrorCode.NOT_CONTROLLER})]


# --- slices, and what goes wrong


def test_many_are_decided_slice_by_slice_on_the_newest_image(cluster):
    count = 2 * SLICE_RECORDS + 1
    topic = cluster.topic("a", *[led((1, 2), leader=2)] * count)
    plan = elect_leaders(cluster.context(2), request(PREFERRED, ("a", *range(count))))
    records, is_last = plan.advance(cluster.context(2))
    assert (len(records), is_last) == (SLICE_RECORDS, False)
    cluster.apply(*records, PartitionChangeRecord(count - 1, topic, leader=1))
    records, is_last = plan.advance(cluster.context(2))
    assert (len(records), is_last) == (SLICE_RECORDS, False)
    cluster.apply(*records)
    assert plan.advance(cluster.context(2)) == ([], True)
    ((_, outcomes),) = told(plan.response())
    assert outcomes == dict.fromkeys(range(count - 1), NONE) | {count - 1: NOT_NEEDED}


def test_a_partition_that_fails_costs_itself(cluster):
    topic = cluster.topic("a", led((1, 2), leader=2), led((1, 2), leader=2))
    plan = elect_leaders(cluster.context(2), request(PREFERRED, ("a", 0, 1)))
    first, _ = plan.advance(cluster.context(2))
    assert plan.leave_out(first[0], ValueError("a defect"))
    assert plan.advance(cluster.context(2)) == ([PartitionChangeRecord(1, topic, leader=1)], True)
    assert told(plan.response()) == [("a", {0: ErrorCode.UNKNOWN_SERVER_ERROR, 1: NONE})]
    assert [each.what for each in plan.failures()] == [f"partition 0 of topic {uuid_text(topic)}"]


def test_one_line_says_how_many_were_elected(cluster):
    cluster.topic("a", led((1, 2), leader=2), led((1, 2), leader=2), led((1, 2)))
    plan = elect_leaders(cluster.context(2), request(PREFERRED, ("a", 0, 1, 2)))
    decided(plan, cluster.context(2))
    (line,) = plan.lines()
    assert (line.name, line.fields) == (
        "leaders_elected",
        {"election": "preferred", "partitions": 2, "asked_by": ""},
    )
    plan = elect_leaders(cluster.context(2), request(PREFERRED, ("a", 2)))
    decided(plan, cluster.context(2))
    assert plan.lines() == ()


# --- through the controller


def restarted():
    """Broker 5 was away, is in sync again, and leads nothing."""
    world = BrokerWorld()
    world.up(5, 6)
    topic = world.topic(1, (5, 6), (5, 6))
    world.beat(5, want_fence=True)
    world.beat(5)
    world.append(*[PartitionChangeRecord(number, topic, isr=(6, 5)) for number in range(2)])
    assert [world.partition(topic, number).leader for number in range(2)] == [6, 6]
    return world, topic


def test_the_response_waits_for_the_commit():
    world, topic = restarted()
    caller = world.send(request(PREFERRED, ("t1", 0)), 2)
    assert caller not in world.answers
    world.commit()
    assert told(world.answers[caller]) == [("t1", {0: NONE})]
    assert [world.partition(topic, number).leader for number in range(2)] == [5, 6]


def test_only_the_active_controller_elects():
    standby = QuorumController(
        me=registration_of(1, b"1" * 16, [Endpoint("host", 9093)]), bootstrap=bootstrap_records()
    )
    response = standby.handle(request(PREFERRED, ("t1", 0)), Now(0, 0), 2).response
    assert response.error_code == ErrorCode.NOT_CONTROLLER
    assert told(response) == [("t1", {0: ErrorCode.NOT_CONTROLLER})]
