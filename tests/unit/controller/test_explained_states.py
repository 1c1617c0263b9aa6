"""A partition is explained with its state of the four, and each of its replicas with its of the seven."""

from types import SimpleNamespace

import pytest

from kraftd.controller.context import ReadContext
from kraftd.controller.partitions.explaining import explain_partition
from kraftd.controller.sessions import BrokerSessions
from kraftd.controller.uncommitted_writes import UncommittedWrites
from kraftd.errors import ErrorCode
from kraftd.metadata.image_builder import apply_all
from kraftd.metadata.partition_conditions import BrokerState
from kraftd.metadata.partition_states import PartitionState
from kraftd.metadata.parts.topics.partitions import LOST, UNASSIGNED
from kraftd.metadata.replica_states import RemovalReason, ReplicaState
from kraftd.protocol.messages import ExplainPartitionRequest, ListDeletionsRequest
from kraftd.records.messages import PartitionRecord, RemoveTopicRecord, TopicRecord
from kraftd.types import Now
from tests.unit.controller.broker_world import BrokerWorld
from tests.unit.controller.test_deletions import DELETE_DELAY_MS, U, World, fencing, moved, partition
from tests.unit.controller.topic_worlds import broker, directory

T = b"t" * 16
STARTED, SUCCESSFUL, INELIGIBLE, NON_EXISTENT = (
    ReplicaState.DELETION_STARTED,
    ReplicaState.DELETION_SUCCESSFUL,
    ReplicaState.DELETION_INELIGIBLE,
    ReplicaState.NON_EXISTENT,
)


def explained(world, index=0, *, newest=None):
    context = ReadContext(
        world.image,
        7,
        BrokerSessions(9_000),
        Now(0, 0),
        deletions=world.tracker,
        newest=newest and SimpleNamespace(image=newest),
    )
    return explain_partition(context, ExplainPartitionRequest("t", index))


def removals(response):
    return [(one.broker_id, one.state) for one in response.removals]


def test_each_assigned_replica_has_its_state():
    brokers = (broker(1), broker(2, fenced=True), broker(3), broker(4, log_dirs=(directory(5),)))
    replicas = (1, 2, 3, 4, 9)
    directories = (directory(1), directory(2), UNASSIGNED, LOST, directory(9))
    record = PartitionRecord(0, T, replicas, (1,), leader=1, directories=directories)
    response = explained(World(record, brokers=brokers))
    new, online, offline = ReplicaState.NEW, ReplicaState.ONLINE, ReplicaState.OFFLINE
    assert [one.state for one in response.replicas] == [online, offline, new, offline, offline]
    assert (response.state, response.removals) == (PartitionState.ONLINE, ())


def test_a_partition_that_nobody_leads_is_offline():
    record = PartitionRecord(0, T, (1,), (1,), leader=-1, directories=(directory(1),))
    assert explained(World(record)).state == PartitionState.OFFLINE


def test_a_replica_that_was_moved_away_is_followed_to_its_end():
    world = World(partition(0, (1, 2)), partition(1, (1, 2)))
    at = world.apply(moved((1, 3)))
    assert removals(explained(world)) == [(2, STARTED)]
    world.apply(fencing(2))
    (told,) = explained(world).removals
    assert (told.state, told.broker_state, told.offset) == (INELIGIBLE, BrokerState.FENCED, at)
    assert (told.reason, told.is_set_aside, told.is_heard) == (RemovalReason.REASSIGNED, False, True)
    world.apply(fencing(2, -1))
    world.hear(2, at)
    assert removals(explained(world)) == [(2, SUCCESSFUL)]
    world.now_ms += DELETE_DELAY_MS
    world.hear(2, at)
    assert removals(explained(world)) == [(2, NON_EXISTENT)]
    assert explained(world, 1).removals == (), "nothing was taken from this one"


def test_of_each_broker_the_newest_removal_is_told():
    world = World(partition(0, (1, 2)))
    world.apply(moved((1, 3)))
    world.apply(moved((1, 2)))
    assert removals(explained(world)) == [(3, STARTED)], "2 is back"
    world.apply(moved((2, 3)))
    newest = world.apply(moved((1, 2)))
    assert [(one.broker_id, one.offset) for one in explained(world).removals] == [(3, newest)]


def test_a_deleted_partition_is_non_existent_and_its_replicas_are_told():
    world = World(partition(0, (1, 2)))
    world.apply(fencing(2))
    at = world.apply(RemoveTopicRecord(T))
    world.hear(1, at)
    response = explained(world)
    assert (response.error_code, response.state) == (0, PartitionState.NON_EXISTENT)
    assert (response.topic_id, response.replicas, response.leader_id) == (T, (), -1)
    assert removals(response) == [(1, SUCCESSFUL), (2, INELIGIBLE)]
    assert {one.reason for one in response.removals} == {RemovalReason.TOPIC_DELETED}
    assert explained(world, 1).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_topic_that_was_made_anew_has_nothing_of_the_old_one():
    world = World(partition(0, (1, 2)))
    world.apply(RemoveTopicRecord(T))
    world.apply(TopicRecord("t", U), partition(0, (3,), topic_id=U))
    response = explained(world)
    assert (response.topic_id, response.state, response.removals) == (U, PartitionState.ONLINE, ())


def test_what_is_decided_and_not_committed_is_new():
    world = World()
    newest = apply_all(world.image, [TopicRecord("u", U), partition(0, (1,))], 200)
    response = explained(world, newest=newest)
    assert (response.error_code, response.state, response.topic_id) == (0, PartitionState.NEW, T)
    assert (response.replicas, response.removals) == ((), ())
    assert explained(world, 1, newest=newest).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_partition_that_is_there_is_explained_without_what_is_not_committed():
    class Newest:
        @property
        def image(self):
            raise AssertionError("an image is made that nobody needs")

    record = PartitionRecord(0, T, (1,), (1,), leader=1, directories=(directory(1),))
    world = World(record)
    context = ReadContext(
        world.image, 7, BrokerSessions(9_000), Now(0, 0), deletions=world.tracker, newest=Newest()
    )
    assert explain_partition(context, ExplainPartitionRequest("t", 0)).state == PartitionState.ONLINE


@pytest.mark.covers("D-39")
def test_a_read_that_does_not_look_makes_no_image_of_what_is_not_committed(monkeypatch):
    world = BrokerWorld()
    world.up(11)
    made = []
    image = UncommittedWrites.image.fget
    monkeypatch.setattr(UncommittedWrites, "image", property(lambda self: made.append(1) or image(self)))
    read = world.controller.handle(ListDeletionsRequest(), world.now)
    assert read.respond().removals == ()
    assert made == []


@pytest.mark.parametrize("knows_removals", [False, True])
def test_what_nobody_knows_is_refused(knows_removals):
    world = World()
    context = ReadContext(
        world.image,
        7,
        BrokerSessions(9_000),
        Now(0, 0),
        deletions=world.tracker if knows_removals else None,
    )
    response = explain_partition(context, ExplainPartitionRequest("t", 0))
    assert (response.error_code, response.error_message) == (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "the topic has no such partition",
    )
