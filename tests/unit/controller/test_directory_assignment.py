"""AssignReplicasToDirs: where replicas are, and what that does to those in a directory that is not online."""

import pytest

from kraftd.controller.context import NO_CLIENT
from kraftd.controller.partitions.directory_assignment import assign_replicas_to_dirs
from kraftd.controller.plans import Plan
from kraftd.errors import ErrorCode
from kraftd.metadata.parts.topics.partitions import LOST, UNASSIGNED
from kraftd.protocol.messages import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
    AssignReplicasToDirsResponse,
)
from kraftd.records.messages import (
    ConfigRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
)
from kraftd.types import uuid_text
from tests.unit.controller.cluster import Cluster, decided, directory, epoch_of, led

ME = 1
EPOCH = epoch_of(ME)
HERE, THERE, GONE = directory(1), directory(11), directory(99)
ELSEWHERE = directory(98)
"""Of another process that was started with the same id."""


@pytest.fixture
def cluster():
    """Broker 1 had three directories, and said that one of them has failed."""
    cluster = Cluster(brokers=(2, 3))
    cluster.register(ME, (HERE, THERE))
    cluster.sessions.registered(ME, EPOCH, 0)
    cluster.sessions.heard(ME, EPOCH, 0, 0, failed_directories=(GONE,))
    cluster.sessions.heard(ME, EPOCH, 1, 1)
    return cluster


def refused(cluster, asked):
    """The line about a request that was refused, if there is one."""
    plan = assign_replicas_to_dirs(cluster.context(), asked)
    none, response = decided(plan, cluster.context())
    assert (list(none), response) == (
        [],
        AssignReplicasToDirsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH),
    )
    return list(plan.lines()) if isinstance(plan, Plan) else []


def request(*directories, epoch=EPOCH):
    """Each directory as (id, (topic, partition), ...)."""
    return AssignReplicasToDirsRequest(
        ME,
        epoch,
        tuple(
            AssignReplicasToDirsRequestDirectoryData(
                one,
                tuple(
                    AssignReplicasToDirsRequestTopicData(
                        topic, (AssignReplicasToDirsRequestPartitionData(number),)
                    )
                    for topic, number in replicas
                ),
            )
            for one, *replicas in directories
        ),
    )


def outcomes(response):
    assert response.error_code == ErrorCode.NONE
    return [
        (told.id, topic.topic_id, one.partition_index, one.error_code)
        for told in response.directories
        for topic in told.topics
        for one in topic.partitions
    ]


def ask(cluster, asked):
    """The records and the response."""
    return decided(assign_replicas_to_dirs(cluster.context(), asked), cluster.context())


def test_a_replica_is_where_its_broker_says(cluster):
    topic = cluster.topic("a", led((2, 1)), led((1, 2)))
    records, response = ask(cluster, request((HERE, (topic, 0)), (THERE, (topic, 1))))
    assert records == [
        PartitionChangeRecord(0, topic, directories=(UNASSIGNED, HERE)),
        PartitionChangeRecord(1, topic, directories=(THERE, UNASSIGNED)),
    ]
    assert outcomes(response) == [(HERE, topic, 0, 0), (THERE, topic, 1, 0)]
    cluster.apply(*records)
    again, response = ask(cluster, request((HERE, (topic, 0))))
    assert (again, outcomes(response)) == ([], [(HERE, topic, 0, 0)])


@pytest.mark.parametrize("where", [GONE, LOST])
def test_a_replica_in_a_directory_that_is_not_online_leaves_the_isr(cluster, where):
    topic = cluster.topic("a", led((1, 2, 3)))
    records, response = ask(cluster, request((where, (topic, 0))))
    assert records == [
        PartitionChangeRecord(0, topic, directories=(where, UNASSIGNED, UNASSIGNED)),
        PartitionChangeRecord(0, topic, isr=(2, 3), leader=2),
    ]
    assert outcomes(response) == [(where, topic, 0, 0)]


def test_it_may_be_eligible_still(cluster):
    """As in Kafka: that its directory is gone keeps it from being elected, not from being remembered."""
    cluster.apply(
        FeatureLevelRecord("eligible.leader.replicas.version", 1),
        ConfigRecord(4, "", "min.insync.replicas", "2"),
    )
    topic = cluster.topic("a", led((1, 2), isr=(1, 2)))
    records, _ = ask(cluster, request((GONE, (topic, 0))))
    assert records[1] == PartitionChangeRecord(0, topic, isr=(2,), leader=2, eligible_leader_replicas=(1,))


@pytest.mark.parametrize("named", [(ELSEWHERE,), (ELSEWHERE, HERE), (HERE, GONE, ELSEWHERE)])
def test_another_process_with_the_id_of_a_broker_is_not_believed(cluster, named):
    """It reads the epoch of the registered one in the log; leaders would move back and forth."""
    topic = cluster.topic("a", *[led((1, 2, 3))] * 3)
    (line,) = refused(cluster, request(*((one, (topic, number)) for number, one in enumerate(named))))
    assert (line.name, line.is_warning, line.key) == ("assignment_refused", True, ME)
    assert line.fields == {
        "broker": ME,
        "host": NO_CLIENT.host,
        "error": "STALE_BROKER_EPOCH",
        "reason": "another process has its node.id: the registered one never had the directories "
        + uuid_text(ELSEWHERE),
    }


def test_no_more_than_three_of_its_directories_are_told(cluster):
    (line,) = refused(cluster, request(*((directory(100 + number),) for number in range(50))))
    named = ", ".join(uuid_text(directory(100 + number)) for number in range(3))
    assert line.fields["reason"].endswith(f"the directories {named} and others")


def test_who_was_restarted_with_another_disk_is_not_blamed(cluster):
    """It reads its former epoch in the log before it is registered anew."""
    cluster.sessions.over(ME, EPOCH)
    (line,) = refused(cluster, request((ELSEWHERE,)))
    assert "if the broker was just restarted with others, this passes" in line.fields["reason"]


def test_who_was_not_heard_since_this_node_leads_is_not_blamed(cluster):
    """Its next heartbeat says what has failed."""
    cluster.sessions.begin(cluster.image, 0, 1_000)
    assert refused(cluster, request((GONE,))) == []
    cluster.sessions.heard(ME, EPOCH, 1, 1, failed_directories=(GONE,))
    topic = cluster.topic("a", led((1, 2, 3)))
    assert outcomes(ask(cluster, request((GONE, (topic, 0))))[1]) == [(GONE, topic, 0, 0)]


def test_a_late_request_of_an_earlier_start_is_no_other_process(cluster):
    assert refused(cluster, request((ELSEWHERE,), epoch=EPOCH - 1)) == []


@pytest.mark.parametrize(
    "told", [[(GONE, ELSEWHERE)], [(GONE,), (GONE, ELSEWHERE)]], ids=["at once", "in turn"]
)
def test_more_than_one_may_have_failed(cluster, told):
    for failed in told:
        cluster.sessions.heard(ME, EPOCH, 1, 1, failed_directories=failed)
    topic = cluster.topic("a", led((1, 2, 3)), led((1, 2, 3)))
    _, response = ask(cluster, request((GONE, (topic, 0)), (ELSEWHERE, (topic, 1))))
    assert [code for *_, code in outcomes(response)] == [0, 0]


@pytest.mark.parametrize(
    "happens",
    [
        lambda sessions: sessions.registered(ME, EPOCH, 7),
        lambda sessions: sessions.shutting_down(ME, EPOCH, 7),
        lambda sessions: (sessions.shutting_down(ME, EPOCH, 7), sessions.withdrawn(7)),
        lambda sessions: sessions.unfenced(ME, EPOCH),
        lambda sessions: sessions.over(ME, EPOCH),
    ],
    ids=["registers more", "stops", "stop refused", "unfenced", "over"],
)
def test_what_has_failed_is_known_as_long_as_this_start_is_registered(cluster, happens):
    happens(cluster.sessions)
    topic = cluster.topic("a", led((1, 2, 3)))
    assert outcomes(ask(cluster, request((GONE, (topic, 0))))[1]) == [(GONE, topic, 0, 0)]


def test_what_had_failed_in_an_earlier_start_is_not_of_this_one(cluster):
    again = EPOCH + 1
    cluster.register(ME, (HERE, THERE), epoch=again)
    cluster.sessions.registered(ME, again, 1)
    refused(cluster, request((GONE,), epoch=again))


def test_who_says_in_a_brokers_name_that_a_thousand_have_failed_costs_little_and_hides_none(cluster):
    """Anybody can send a heartbeat in its name; its own next one says again what has failed."""
    cluster.sessions.begin(cluster.image, 0, 1_000)
    for number in range(10):
        many = tuple(bytes([9, number]) + each.to_bytes(14, "big") for each in range(100_000))
        cluster.sessions.heard(ME, EPOCH, 1, 1, failed_directories=many)
        assert len(cluster.sessions.get(ME, EPOCH).failed_directories) <= 1_000
    cluster.sessions.heard(ME, EPOCH, 1, 1, failed_directories=(GONE,))
    topic = cluster.topic("a", led((1, 2, 3)))
    assert outcomes(ask(cluster, request((GONE, (topic, 0))))[1]) == [(GONE, topic, 0, 0)]


def test_who_registered_without_directories_may_name_any():
    """Of a release that has none, at a level that knew none."""
    cluster = Cluster(brokers=(2, 3))
    cluster.apply(RegisterBrokerRecord(broker_id=ME, broker_epoch=EPOCH, fenced=False, log_dirs=()))
    topic = cluster.topic("a", led((1, 2, 3)))
    records, response = ask(cluster, request((ELSEWHERE, (topic, 0))))
    assert outcomes(response) == [(ELSEWHERE, topic, 0, 0)]
    assert records == [PartitionChangeRecord(0, topic, directories=(ELSEWHERE, UNASSIGNED, UNASSIGNED))]


def test_what_replicas_in_directories_that_are_not_online_cost_is_told_in_one_line(cluster):
    """A directory had failed by the time its broker told of it: nobody would know why leaders move."""
    topic = cluster.topic("a", led((1, 2, 3)), led((1,)), led((2, 1)), led((1, 2)))
    asked = request((GONE, (topic, 0), (topic, 1), (topic, 2)), (HERE, (topic, 3)))
    plan = assign_replicas_to_dirs(cluster.context(), asked)
    _, is_last = plan.advance(cluster.context())
    assert is_last
    (line,) = plan.lines()
    assert (line.name, line.is_warning, line.key) == ("replicas_not_online", True, ME)
    assert line.fields == {
        "broker": ME,
        "epoch": EPOCH,
        "directories": [uuid_text(GONE)],
        "partitions": 3,
        "new_leaders": 1,
        "offline": 1,
    }


def test_a_replica_that_leaves_no_isr_is_not_told(cluster):
    topic = cluster.topic("a", led((2, 1)))
    plan = assign_replicas_to_dirs(cluster.context(), request((HERE, (topic, 0))))
    plan.advance(cluster.context())
    assert plan.lines() == ()


def test_what_is_not_there_is_told_for_each_replica(cluster):
    topic = cluster.topic("a", led((1, 2)), led((2, 3)))
    records, response = ask(cluster, request((HERE, (b"?" * 16, 0), (topic, 1), (topic, 2), (topic, 0))))
    assert [code for *_, code in outcomes(response)] == [
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NONE,
    ]
    assert len(records) == 1


@pytest.mark.parametrize("epoch", [9, 11])
def test_another_epoch_is_told_at_once(cluster, epoch):
    topic = cluster.topic("a", led((1, 2)))
    assert ask(cluster, request((HERE, (topic, 0)), epoch=epoch)) == (
        [],
        AssignReplicasToDirsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH),
    )


def test_directories_need_a_level_that_has_them():
    cluster = Cluster(brokers=(ME,), level=16)
    assert ask(cluster, request()) == (
        [],
        AssignReplicasToDirsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION),
    )


def test_a_long_request_is_decided_in_slices(cluster):
    topic = cluster.topic("a", *[led((1, 2))] * 2_250)
    plan = assign_replicas_to_dirs(
        cluster.context(), request((GONE, *((topic, number) for number in range(2_250))))
    )
    is_last = False
    while not is_last:
        records, is_last = plan.advance(cluster.context())
        assert len(records) <= 512
        cluster.apply(*records)
    assert {code for *_, code in outcomes(plan.response())} == {ErrorCode.NONE}
    assert len(outcomes(plan.response())) == 2_250
    assert {cluster.partition(topic, n).leader for n in range(2_250)} == {2}
    assert {cluster.partition(topic, n).directories[0] for n in range(2_250)} == {GONE}
