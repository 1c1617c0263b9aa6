"""Replicas that were taken away are followed to their end by what brokers report, and told in pages."""

import pytest

from kraftd.controller.context import ReadContext
from kraftd.controller.deletions import tracker
from kraftd.controller.deletions.removals import Added, Removed, found_in
from kraftd.controller.deletions.tracker import DELETE_DELAY_MS, READS_WITHIN_MS, DeletionTracker
from kraftd.controller.sessions import BrokerSessions
from kraftd.controller.topics.listing_deletions import list_deletions
from kraftd.errors import InvariantError
from kraftd.metadata.image_builder import apply_all
from kraftd.metadata.parts.topics import TOPICS
from kraftd.metadata.replica_states import RemovalReason, ReplicaState
from kraftd.protocol.messages import ListDeletionsRequest
from kraftd.records.committed import CommittedBatch
from kraftd.records.frame import encode_record
from kraftd.records.messages import (
    BrokerRegistrationChangeRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from kraftd.types import Now, OffsetAndEpoch
from tests.unit.controller.broker_world import SESSION_MS, BrokerWorld
from tests.unit.controller.topic_worlds import THREE, broker, cluster, directory

T, U = b"t" * 16, b"u" * 16
STARTED, SUCCESSFUL, INELIGIBLE, OFFLINE, NON_EXISTENT = (
    ReplicaState.DELETION_STARTED,
    ReplicaState.DELETION_SUCCESSFUL,
    ReplicaState.DELETION_INELIGIBLE,
    ReplicaState.OFFLINE,
    ReplicaState.NON_EXISTENT,
)


def partition(number, replicas, topic_id=T):
    directories = tuple(map(directory, replicas))
    return PartitionRecord(number, topic_id, replicas, replicas, leader=replicas[0], directories=directories)


def moved(replicas, number=0, **fields):
    directories = tuple(map(directory, replicas))
    return PartitionChangeRecord(
        partition_id=number, topic_id=T, replicas=replicas, directories=directories, **fields
    )


def fencing(broker_id, by=1):
    return BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker_id, fenced=by)


class World:
    """A tracker, fed with batches of records; brokers 1, 2 and 3 are up, with their ids for epochs."""

    def __init__(self, *records, brokers=THREE, leads=True):
        self.refused = []
        self.tracker = DeletionTracker(SESSION_MS, lambda entry, state: self.refused.append((entry, state)))
        self.image = cluster(*brokers, TopicRecord("t", T), *records)
        self.end, self.now_ms, self.epoch = 100, 1_000_000, 1
        self.applied = []
        if leads:
            self.tracker.leads(is_self=True)

    def apply(self, *records):
        """Commit records in one batch; the offset of the first."""
        base, before = self.end, self.image
        self.image = apply_all(before, records, base)
        self.end += len(records)
        batch = CommittedBatch(
            base, self.end, self.epoch, self.now_ms, [encode_record(each) for each in records]
        )
        self.applied.append((batch, before, self.image))
        self.tracker.applied(*self.applied[-1])
        return base

    def fail_over(self):
        """Another node, which has applied the same log, becomes the active controller."""
        self.tracker = DeletionTracker(SESSION_MS, lambda entry, state: self.refused.append((entry, state)))
        for each in self.applied:
            self.tracker.applied(*each)
        self.tracker.leads(is_self=True)

    def pass_by(self, ms):
        """Let time pass, with a NoOp each second."""
        for step_ms in (*[1_000] * (ms // 1_000), ms % 1_000):
            self.now_ms += step_ms
            self.apply(NoOpRecord())

    def hear(self, broker_id, offset, epoch=None, *failed, is_starting=False):
        epoch = broker_id if epoch is None else epoch
        now = Now(self.now_ms, self.now_ms)
        self.tracker.heard(broker_id, epoch, offset, now, frozenset(failed), is_starting=is_starting)

    @property
    def told(self):
        """By topic, partition and broker, the state."""
        return {
            (entry.removed.topic, number, entry.removed.broker_id): entry.state
            for entry in self.tracker.entries()
            for number in entry.removed.partitions
        }

    def entry(self, broker_id):
        (entry,) = [each for each in self.tracker.entries() if each.removed.broker_id == broker_id]
        return entry


# --- what a batch takes away


def found(image, *records):
    return found_in([encode_record(each) for each in records], 7, image[TOPICS], 100)


def test_a_deleted_topic_is_taken_from_each_of_its_brokers() -> None:
    image = cluster(*THREE, TopicRecord("t", T), partition(0, (1, 2)), partition(1, (2, 3)))
    reason = RemovalReason.TOPIC_DELETED
    assert found(image, PartitionChangeRecord(0, T, isr=(1,)), RemoveTopicRecord(T)).moves == [
        Removed(8, "t", T, 1, (0,), reason, directory(1)),
        Removed(8, "t", T, 2, (0, 1), reason, directory(2)),
        Removed(8, "t", T, 3, (1,), reason, directory(3)),
    ]


def test_a_topic_that_the_same_batch_made_was_never_anywhere() -> None:
    image = cluster(*THREE)
    assert found(image, TopicRecord("t", T), partition(0, (1,)), RemoveTopicRecord(T)).moves == []


def test_a_reassignment_takes_away_and_adds_what_differs_from_the_change_before_it() -> None:
    image = cluster(*THREE, TopicRecord("t", T), partition(0, (1, 2)))
    reason = RemovalReason.REASSIGNED
    assert found(image, moved((1, 2, 3), adding_replicas=(3,)), moved((3,)), moved((1,))).moves == [
        Added(T, 0, 3, directory(3)),
        Removed(8, "t", T, 1, (0,), reason, directory(1)),
        Removed(8, "t", T, 2, (0,), reason, directory(2)),
        Removed(9, "t", T, 3, (0,), reason, directory(3)),
        Added(T, 0, 1, directory(1)),
    ]


@pytest.mark.parametrize("fields", [{"isr": (1,)}, {"leader": 2}, {"isr": (1,), "leader": 1}, {"isr": ()}])
def test_a_change_without_replicas_takes_nothing_away(fields) -> None:
    image = cluster(*THREE, TopicRecord("t", T), partition(0, (1, 2)))
    assert found(image, PartitionChangeRecord(0, T, **fields)).moves == []


def test_partitions_that_it_takes_too_long_to_look_at_are_counted() -> None:
    image = cluster(*THREE, TopicRecord("t", T), *(partition(number, (1, 2)) for number in range(60)))
    result = found(image, RemoveTopicRecord(T))
    assert ([len(each.partitions) for each in result.moves], result.left_out) == ([50, 50], 10)


# --- from one state to the next


def test_a_deletion_is_successful_once_the_broker_has_read_the_very_record() -> None:
    world = World(partition(0, (1, 2)))
    offset = world.apply(RemoveTopicRecord(T))
    world.hear(1, offset - 1)
    assert world.told == {("t", 0, 1): STARTED, ("t", 0, 2): STARTED}
    world.now_ms += 5
    world.hear(1, offset)
    assert world.told == {("t", 0, 1): SUCCESSFUL, ("t", 0, 2): STARTED}
    assert (world.entry(1).removed_ms, world.entry(1).since_ms) == (1_000_000, 1_000_005)
    assert not world.entry(1).is_set_aside
    assert world.refused == []


def test_one_heartbeat_moves_no_more_than_a_turn_has_time_for(monkeypatch) -> None:
    monkeypatch.setattr(tracker, "MOVES_MAX", 2)
    world = World(partition(0, (1, 2, 3)), *(TopicRecord(f"t{n}", bytes([n]) * 16) for n in range(1, 5)))
    for number in range(1, 5):
        world.apply(partition(0, (1,), bytes([number]) * 16))
    world.apply(*(RemoveTopicRecord(bytes([number]) * 16) for number in range(1, 5)))
    for expected in (2, 4):
        world.hear(1, world.end)
        assert [*world.told.values()].count(SUCCESSFUL) == expected


def test_what_a_broker_has_renamed_does_not_exist_any_more_a_minute_later() -> None:
    world = World(partition(0, (1,)))
    offset = world.apply(RemoveTopicRecord(T))
    world.hear(1, offset)
    world.now_ms += DELETE_DELAY_MS - 1
    world.hear(1, offset + 1)
    assert world.told == {("t", 0, 1): SUCCESSFUL}
    world.now_ms += 1
    world.hear(1, offset + 1)
    assert world.told == {("t", 0, 1): NON_EXISTENT}
    assert world.refused == []


def test_a_broker_that_was_started_anew_begins_its_minute_anew() -> None:
    world = World(partition(0, (1, 2, 3)))
    offset = world.apply(RemoveTopicRecord(T))
    world.hear(1, offset)
    world.now_ms += DELETE_DELAY_MS - 1
    world.hear(1, offset, epoch=500)
    world.now_ms += DELETE_DELAY_MS - 1
    world.hear(1, offset, epoch=500)
    assert world.entry(1).state is SUCCESSFUL
    world.now_ms += 1
    world.hear(1, offset, epoch=500)
    assert world.entry(1).state is NON_EXISTENT


def test_a_broker_that_goes_down_keeps_its_data_and_deletes_it_when_it_is_back() -> None:
    world = World(partition(0, (1, 2)))
    offset = world.apply(RemoveTopicRecord(T))
    world.hear(2, offset)
    world.apply(fencing(1))
    assert world.told == {("t", 0, 1): INELIGIBLE, ("t", 0, 2): SUCCESSFUL}
    world.apply(fencing(1, by=-1))
    assert world.told[("t", 0, 1)] is STARTED
    world.hear(1, offset)
    assert world.told[("t", 0, 1)] is SUCCESSFUL
    assert not world.entry(1).is_set_aside, "the same start, which was paused, deletes"
    assert world.refused == []


def test_a_broker_that_is_down_already_keeps_its_data() -> None:
    world = World(partition(0, (1, 2)), brokers=(broker(1, fenced=True), broker(2)))
    world.apply(RemoveTopicRecord(T))
    assert world.told == {("t", 0, 1): INELIGIBLE, ("t", 0, 2): STARTED}


def test_a_broker_that_is_unregistered_keeps_its_data() -> None:
    world = World(partition(0, (1,)))
    world.apply(RemoveTopicRecord(T))
    world.apply(UnregisterBrokerRecord(1, 1))
    assert world.told == {("t", 0, 1): INELIGIBLE}


def test_a_broker_that_comes_back_with_the_batch_that_takes_more_away_is_told_once() -> None:
    world = World(partition(0, (1,)), TopicRecord("u", U), partition(0, (1,), U))
    world.apply(fencing(1))
    world.apply(RemoveTopicRecord(T))
    world.apply(fencing(1, by=-1), RemoveTopicRecord(U))
    assert world.told == {("t", 0, 1): STARTED, ("u", 0, 1): STARTED}


def test_a_fenced_broker_that_has_read_the_record_has_deleted() -> None:
    world = World(partition(0, (1,)))
    offset = world.apply(RemoveTopicRecord(T))
    world.apply(fencing(1))
    world.hear(1, offset)
    assert world.told == {("t", 0, 1): SUCCESSFUL}
    assert world.refused == []


def test_a_broker_that_was_started_anew_has_set_its_data_aside_for_good() -> None:
    world = World(partition(0, (1,)))
    offset = world.apply(RemoveTopicRecord(T))
    world.apply(fencing(1))
    world.apply(RegisterBrokerRecord(broker_id=1, broker_epoch=offset + 5, fenced=False))
    world.hear(1, offset + 6, epoch=offset + 5)
    assert (world.told, world.entry(1).is_set_aside) == ({("t", 0, 1): SUCCESSFUL}, True)
    world.now_ms += 10 * DELETE_DELAY_MS
    world.hear(1, offset + 6, epoch=offset + 5)
    assert world.told == {("t", 0, 1): SUCCESSFUL}


def test_what_is_deleted_while_a_broker_starts_may_be_set_aside() -> None:
    """It is registered, and looks at its logs later: with what it has read by then."""
    world = World(partition(0, (1,)), TopicRecord("u", U), partition(0, (1,), topic_id=U))
    world.apply(RegisterBrokerRecord(broker_id=1, broker_epoch=100, fenced=True))
    world.hear(1, 100, epoch=100, is_starting=True)
    offset = world.apply(RemoveTopicRecord(T))
    world.hear(1, offset, epoch=100)
    assert (world.told, world.entry(1).is_set_aside) == ({("t", 0, 1): SUCCESSFUL}, True)
    later = world.apply(RemoveTopicRecord(U))
    world.hear(1, later, epoch=100)
    assert [each.is_set_aside for each in world.tracker.entries()] == [True, False], "it is ready by then"


@pytest.mark.parametrize("forgets", ["another process", "another leader"])
def test_who_starts_is_one_process_as_one_leader_heard(forgets) -> None:
    world = World(partition(0, (1,)))
    world.hear(1, 50, epoch=60 if forgets == "another process" else 100, is_starting=True)
    if forgets == "another leader":
        world.tracker.leads(is_self=True)
    offset = world.apply(RemoveTopicRecord(T))
    world.hear(1, offset, epoch=100)
    assert (world.told, world.entry(1).is_set_aside) == ({("t", 0, 1): SUCCESSFUL}, False)


@pytest.mark.parametrize("changes", ["before the deletion", "behind it"])
def test_who_was_fenced_behind_a_deletion_may_have_been_starting_if_only_another_leader_heard(
    changes,
) -> None:
    """It reads the deletion before it looks at its logs, and is ready at its first heartbeat to this node."""
    world = World(partition(0, (1,)), leads=changes == "before the deletion")
    world.apply(RegisterBrokerRecord(broker_id=1, broker_epoch=100, fenced=True))
    offset = world.apply(RemoveTopicRecord(T))
    world.tracker.leads(is_self=True)
    world.apply(BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=100, fenced=-1))
    world.hear(1, offset, epoch=100)
    assert (world.told, world.entry(1).is_set_aside) == ({("t", 0, 1): SUCCESSFUL}, True)
    world.now_ms += 10 * DELETE_DELAY_MS
    world.hear(1, offset, epoch=100)
    assert (world.told, world.refused) == ({("t", 0, 1): SUCCESSFUL}, [])


def test_all_that_was_read_at_an_unheard_start_may_be_set_aside_however_many_heartbeats_it_takes(
    monkeypatch,
) -> None:
    monkeypatch.setattr(tracker, "MOVES_MAX", 1)
    world = World(partition(0, (1,)), TopicRecord("u", U), partition(0, (1,), U), leads=False)
    world.apply(RegisterBrokerRecord(broker_id=1, broker_epoch=100, fenced=True))
    world.apply(RemoveTopicRecord(T), RemoveTopicRecord(U))
    world.tracker.leads(is_self=True)
    for _ in range(2):
        world.hear(1, world.end, epoch=100)
    assert [each.is_set_aside for each in world.tracker.entries()] == [True, True]


def test_who_was_up_behind_a_deletion_has_not_set_it_aside_whoever_leads() -> None:
    """The same process was through with its start, though it was fenced later."""
    world = World(partition(0, (1,)), leads=False)
    offset = world.apply(RemoveTopicRecord(T))
    world.apply(fencing(1))
    world.tracker.leads(is_self=True)
    world.hear(1, offset)
    assert (world.told, world.entry(1).is_set_aside) == ({("t", 0, 1): SUCCESSFUL}, False)


@pytest.mark.parametrize("hears", ["in its first term", "what it has not read"])
def test_who_was_fenced_and_not_starting_has_not_set_anything_aside(hears) -> None:
    """It stood still: this leader knows that it was ready before it read the deletion."""
    world = World(partition(0, (1,)))
    if hears == "in its first term":
        world.hear(1, world.end - 1)
        world.tracker.leads(is_self=False)
    world.apply(fencing(1))
    offset = world.apply(RemoveTopicRecord(T))
    world.tracker.leads(is_self=True)
    if hears == "what it has not read":
        world.hear(1, offset - 1)
    world.hear(1, offset)
    assert (world.told, world.entry(1).is_set_aside) == ({("t", 0, 1): SUCCESSFUL}, False)


def test_a_replica_that_is_moved_away_is_followed_and_may_come_back() -> None:
    world = World(partition(0, (1, 2)))
    world.apply(moved((2, 3)))
    assert world.told == {("t", 0, 1): STARTED}
    world.apply(moved((1, 2)))
    assert world.told == {("t", 0, 1): OFFLINE, ("t", 0, 3): STARTED}
    world.hear(1, world.end)
    world.hear(3, world.end)
    assert world.told == {("t", 0, 1): OFFLINE, ("t", 0, 3): SUCCESSFUL}
    world.apply(moved((2,)))
    assert [each.state for each in world.tracker.entries() if each.removed.broker_id == 1] == [
        OFFLINE,
        STARTED,
    ]
    assert world.refused == []


def test_what_is_dropped_does_not_take_along_what_waits_of_the_same_replica(monkeypatch) -> None:
    """It left, and was deleted; it came back, and left again, and may come back once more."""
    world = World(partition(0, (1, 2)), TopicRecord("u", U), *(partition(n, (2,), U) for n in range(2)))
    world.hear(1, world.apply(moved((2,))))
    world.apply(moved((2, 1)))
    world.apply(moved((2,)))
    monkeypatch.setattr(tracker, "REPLICAS_MAX", 3)
    world.apply(RemoveTopicRecord(U))
    assert (world.entry(1).state, world.tracker.dropped_count) == (STARTED, 1)
    world.apply(moved((2, 1)))
    assert world.entry(1).state is OFFLINE
    world.hear(1, world.end)
    assert (world.entry(1).state, world.refused) == (OFFLINE, [])


def test_a_move_that_no_table_allows_is_counted_and_told_and_not_made() -> None:
    world = World(partition(0, (1,)))
    offset = world.apply(RemoveTopicRecord(T))
    entry = world.entry(1)
    for state in (ReplicaState.ONLINE, ReplicaState.NEW, STARTED, NON_EXISTENT):
        world.tracker._move(entry, state, 5)
    assert world.tracker.illegal_count == 4
    assert [state for _, state in world.refused] == [
        ReplicaState.ONLINE,
        ReplicaState.NEW,
        STARTED,
        NON_EXISTENT,
    ]
    assert (entry.state, entry.since_ms) == (STARTED, 1_000_000)
    assert tracker.move_fields(entry, NON_EXISTENT) == {
        "topic": "t",
        "partition": 0,
        "broker": 1,
        "offset": offset,
        "from": "ReplicaDeletionStarted",
        "to": "NonExistentReplica",
    }


# --- what this node did not hear


def test_a_follower_folds_the_same_and_hears_nothing_until_it_leads() -> None:
    world = World(partition(0, (1, 2)), leads=False)
    offset = world.apply(RemoveTopicRecord(T))
    assert world.told == {("t", 0, 1): STARTED, ("t", 0, 2): STARTED}
    assert not world.entry(1).is_heard
    world.tracker.leads(is_self=True)
    world.hear(1, offset)
    assert world.told == {("t", 0, 1): SUCCESSFUL, ("t", 0, 2): STARTED}


def test_whoever_has_not_led_all_the_time_has_not_heard_all() -> None:
    world = World(partition(0, (1,)))
    world.apply(RemoveTopicRecord(T))
    assert world.entry(1).is_heard
    world.tracker.leads(is_self=False)
    assert not world.entry(1).is_heard


@pytest.mark.parametrize(
    ("after_ms", "is_set_aside"),
    [(READS_WITHIN_MS + SESSION_MS - 1, True), (READS_WITHIN_MS + SESSION_MS, False)],
)
def test_a_broker_that_stayed_up_behind_a_deletion_is_not_said_to_have_missed_it(
    after_ms, is_set_aside
) -> None:
    """By a controller that was none then: the one before it may have heard of the end."""
    world = World(partition(0, (1,)), leads=False)
    offset = world.apply(RemoveTopicRecord(T))
    world.pass_by(after_ms)
    world.apply(fencing(1))
    world.apply(RegisterBrokerRecord(broker_id=1, broker_epoch=offset + 5, fenced=False))
    world.tracker.leads(is_self=True)
    world.hear(1, offset + 6, epoch=offset + 5)
    assert world.entry(1).is_set_aside == is_set_aside


@pytest.mark.parametrize(
    ("leaps", "leap_ms", "leaders"),
    [(1, 10 * READS_WITHIN_MS, 1), (30, 4_000, 30)],
    ids=["a clock is set forward", "each leader has another clock"],
)
def test_a_leap_of_the_time_is_not_taken_for_time_that_a_broker_stayed_up(leaps, leap_ms, leaders) -> None:
    world = World(partition(0, (1,)), leads=False)
    offset = world.apply(RemoveTopicRecord(T))
    for number in range(leaps):
        world.epoch = 1 + number % leaders + (leaders > 1)
        world.now_ms += leap_ms
        world.apply(NoOpRecord())
    world.apply(fencing(1))
    world.apply(RegisterBrokerRecord(broker_id=1, broker_epoch=offset + 5, fenced=False))
    world.tracker.leads(is_self=True)
    world.hear(1, offset + 6, epoch=offset + 5)
    assert world.entry(1).is_set_aside


def test_behind_a_snapshot_nothing_is_known_of_what_it_stands_for() -> None:
    world = World(partition(0, (1,)))
    world.apply(RemoveTopicRecord(T))
    world.tracker.restored(500)
    assert (len(world.tracker), world.tracker.begin_offset) == (0, 500)
    world.hear(1, 600)


# --- bounds


def test_the_newest_are_kept(monkeypatch) -> None:
    monkeypatch.setattr(tracker, "REPLICAS_MAX", 6)
    world = World(*(partition(number, (1, 2)) for number in range(5)))
    for number in range(5):
        world.apply(moved((3,), number))
    assert sorted(world.told) == [("t", number, one) for number in (2, 3, 4) for one in (1, 2)]
    assert world.tracker.dropped_count == 4
    world.hear(1, world.end)
    world.apply(moved((1,), 0))
    assert world.refused == []


# --- the list


def listed(world, *, is_all=False):
    """All pages: how many, and their entries."""
    context = ReadContext(
        world.image, world.end, BrokerSessions(SESSION_MS), Now(0, 0), deletions=world.tracker
    )
    request, pages, found = ListDeletionsRequest(is_all), 0, []
    while request is not None:
        response = list_deletions(context, request)
        assert (response.error_code, response.applied_offset) == (0, world.end)
        pages += 1
        found += response.removals
        at = response.next_cursor
        request = None if at is None else ListDeletionsRequest(is_all, at.offset, at.broker_id)
    return pages, found


def test_what_is_over_is_listed_only_if_asked_for() -> None:
    world = World(partition(0, (1, 2)), partition(1, (1, 2)))
    world.apply(moved((2,), 0))
    world.apply(moved((1, 2), 0))
    offset = world.apply(RemoveTopicRecord(T))
    _, shown = listed(world)
    assert [(each.offset, each.broker_id, each.partitions) for each in shown] == [
        (offset, 1, (0, 1)),
        (offset, 2, (0, 1)),
    ]
    world.hear(1, offset)
    world.now_ms += DELETE_DELAY_MS
    world.hear(1, offset)
    assert [each.broker_id for each in listed(world)[1]] == [2]
    told = [(each.name, each.broker_id, each.reason, each.state) for each in listed(world, is_all=True)[1]]
    assert told == [("t", 1, 1, OFFLINE), ("t", 1, 0, NON_EXISTENT), ("t", 2, 0, STARTED)]


def test_a_list_that_is_longer_than_a_page_is_whole_and_in_order() -> None:
    world = World(*(partition(number, (1, 2)) for number in range(3_000)))
    for number in range(3_000):
        world.apply(moved((3,), number))
    pages, found = listed(world)
    assert pages > 1
    assert [(each.offset, each.broker_id) for each in found] == [
        (100 + number, one) for number in range(3_000) for one in (1, 2)
    ]


def test_a_context_without_a_tracker_is_a_defect() -> None:
    context = ReadContext(cluster(), 0, BrokerSessions(SESSION_MS), Now(0, 0))
    with pytest.raises(InvariantError):
        list_deletions(context, ListDeletionsRequest())


# --- by the controller


def test_heartbeats_are_what_ends_a_deletion() -> None:
    world = BrokerWorld()
    world.up(11, 12)
    topic_id = world.topic(1, (11, 12))
    world.append(RemoveTopicRecord(topic_id))
    offset = world.controller.applied_offset - 1
    world.beat(11, offset=offset)
    world.beat(12, offset=offset - 1)

    def states():
        return [(each.broker_id, each.state) for each in read(world, ListDeletionsRequest()).removals]

    assert states() == [(11, SUCCESSFUL), (12, STARTED)]
    world.wait(2 * SESSION_MS, 11)
    assert states() == [(11, SUCCESSFUL), (12, INELIGIBLE)]
    world.beat(12, offset=offset, epoch=1_000_000)
    assert states() == [(11, SUCCESSFUL), (12, INELIGIBLE)], "an epoch that is not registered says nothing"
    world.beat(12, offset=offset)
    assert states() == [(11, SUCCESSFUL), (12, SUCCESSFUL)]


def test_a_broker_that_is_starting_has_not_deleted_what_it_has_read() -> None:
    world = BrokerWorld()
    world.up(11)
    topic_id = world.topic(1, (11,))
    world.wait(2 * SESSION_MS)
    world.append(RemoveTopicRecord(topic_id))

    def states():
        return [each.state for each in read(world, ListDeletionsRequest()).removals]

    assert states() == [INELIGIBLE]
    world.beat(11, want_fence=True)
    assert states() == [INELIGIBLE], "its log manager has not looked at its logs yet"
    world.beat(11)
    assert states() == [SUCCESSFUL]


def test_a_broker_that_says_it_has_read_what_is_not_there_has_not() -> None:
    world = BrokerWorld()
    world.up(11)
    topic_id = world.topic(1, (11,))
    world.beat(11, offset=1_000_000)
    world.append(RemoveTopicRecord(topic_id))
    assert [each.state for each in read(world, ListDeletionsRequest()).removals] == [STARTED]


def read(world, request):
    return world.controller.handle(request, world.now).respond()


def test_leading_and_snapshots_reach_the_tracker() -> None:
    world = BrokerWorld()
    world.up(11)
    world.append(RemoveTopicRecord(world.topic(1, (11,))))
    assert [each.is_heard for each in read(world, ListDeletionsRequest()).removals] == [True]
    world.controller.leader_changed(3, 2, is_self=False)
    assert [each.is_heard for each in world.controller.deletions.entries()] == [False]
    world.controller.restore(OffsetAndEpoch(500, 3)).finish()
    assert (len(world.controller.deletions), world.controller.deletions.begin_offset) == (0, 500)


def test_a_refused_move_is_a_line_in_the_log() -> None:
    world = BrokerWorld()
    world.up(11)
    world.append(RemoveTopicRecord(world.topic(1, (11,))))
    (entry,) = world.controller.deletions.entries()
    world.controller.deletions._move(entry, ReplicaState.ONLINE, 0)
    world.settle()
    assert world.line("replica_move_refused")["to"] == "OnlineReplica"


def test_a_tracker_that_fails_begins_anew_and_stops_nobody(monkeypatch) -> None:
    world = BrokerWorld()
    world.up(11)
    topic_id = world.topic(1, (11,))
    world.append(RemoveTopicRecord(world.topic(2, (11,))))
    monkeypatch.setattr(tracker, "found_in", None)
    world.append(RemoveTopicRecord(topic_id))
    monkeypatch.undo()
    world.settle()
    assert world.line("decision_failed")["kind"] == "Deletions"
    assert world.controller.error_count == 1
    assert world.image[TOPICS].get(topic_id) is None
    known = world.controller.deletions
    assert (len(known), known.begin_offset) == (0, world.controller.applied_offset)
