"""What lies in a log directory that is offline no live broker deletes, whatever it has read."""

import pytest

from kraftd.controller.deletions import tracker
from kraftd.controller.deletions.tracker import DELETE_DELAY_MS, READS_WITHIN_MS
from kraftd.metadata.parts.brokers import BROKERS
from kraftd.metadata.parts.topics.partitions import LOST, MIGRATING, UNASSIGNED
from kraftd.protocol.messages import ListDeletionsRequest
from kraftd.records.messages import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from tests.unit.controller.broker_world import SESSION_MS, BrokerWorld
from tests.unit.controller.test_deletions import (
    INELIGIBLE,
    NON_EXISTENT,
    OFFLINE,
    STARTED,
    SUCCESSFUL,
    T,
    U,
    World,
    fencing,
    found,
    listed,
    moved,
    partition,
    read,
)
from tests.unit.controller.test_explained_states import explained
from tests.unit.controller.topic_worlds import THREE, broker, cluster, directory

D, E = directory(1), directory(21)
"""The directories of broker 1; `partition` puts its replicas in D."""

LONG_MS = 10 * DELETE_DELAY_MS


def in_e(number, topic_id=T):
    """A partition whose only replica is in E."""
    return PartitionRecord(number, topic_id, (1,), (1,), leader=1, directories=(E,))


def losing(*left, epoch=1):
    return BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=epoch, log_dirs=left)


def jbod(*records, leads=True):
    """Broker 1 has two directories."""
    return World(*records, brokers=(broker(1, log_dirs=(D, E)), *THREE[1:]), leads=leads)


def start(world, *directories, state=None, is_heard=True):
    """Broker 1 is started anew with these directories, and is ready; its epoch."""
    epoch = world.end
    world.apply(
        RegisterBrokerRecord(broker_id=1, broker_epoch=epoch, fenced=True, log_dirs=directories or (D, E))
    )
    if is_heard:
        world.hear(1, world.end - 1, epoch=epoch, is_starting=True)
    if state is not None:
        assert world.told == state
    world.apply(BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=epoch, fenced=-1))
    return epoch


def flags(world):
    """State, whether the directory is offline, set aside, and certain, of each entry."""
    return [
        (each.state, each.is_directory_offline, each.is_set_aside, each.is_certain)
        for each in world.tracker.entries()
    ]


# --- where replicas are


def test_what_is_taken_away_is_told_by_directory() -> None:
    image = cluster(
        broker(1, log_dirs=(D, E)), TopicRecord("t", T), partition(0, (1,)), in_e(1), partition(2, (1,))
    )
    moves = found(image, RemoveTopicRecord(T)).moves
    assert [(each.partitions, each.directory) for each in moves] == [((0, 2), D), ((1,), E)]


def test_where_a_replica_is_is_what_the_records_before_it_say() -> None:
    """A broker tells it, and a change of replicas does, in the batch that takes it away."""
    image = cluster(*THREE, TopicRecord("t", T), partition(0, (1, 2)))
    told = PartitionChangeRecord(0, T, directories=(E, directory(2)))
    moves = found(image, told, moved((2, 1)), moved((2,)), RemoveTopicRecord(T)).moves
    assert [(each.broker_id, each.directory) for each in moves] == [(1, D), (2, directory(2))]
    moves = found(image, told, RemoveTopicRecord(T)).moves
    assert [(each.broker_id, each.directory) for each in moves] == [(1, E), (2, directory(2))]


def test_where_directories_have_no_names_nobody_knows_where_a_replica_is() -> None:
    image = cluster(*THREE, TopicRecord("t", T), PartitionRecord(0, T, (1, 2), (1, 2), leader=1), level=10)
    change = PartitionChangeRecord(0, T, replicas=(1, 2, 3))
    moves = found(image, change, RemoveTopicRecord(T)).moves
    assert [each.directory for each in moves[1:]] == [MIGRATING] * 3


# --- offline when it is taken away


@pytest.mark.parametrize("removes", [RemoveTopicRecord(T), moved((2,))], ids=["deleted", "moved"])
def test_what_is_in_an_offline_directory_no_heartbeat_deletes(removes) -> None:
    world = jbod(partition(0, (1, 2)))
    world.apply(losing(E))
    world.apply(removes)
    world.hear(1, world.end)
    assert flags(world)[0] == (INELIGIBLE, True, False, True)
    world.now_ms += LONG_MS
    world.hear(1, world.end)
    assert flags(world)[0] == (INELIGIBLE, True, False, True)
    assert world.refused == []
    world.fail_over()
    world.hear(1, world.end)
    assert flags(world)[0] == (INELIGIBLE, True, False, True)
    (told,) = [each for each in explained(world).removals if each.broker_id == 1]
    assert (told.state, told.is_directory_offline) == (INELIGIBLE, True)


def test_what_is_in_another_directory_of_the_same_broker_is_deleted() -> None:
    world = jbod(partition(0, (1,)), in_e(1), partition(2, (1, 2)))
    world.apply(losing(E))
    offset = world.apply(RemoveTopicRecord(T))
    world.hear(1, offset)
    world.hear(2, offset)
    of_one = {("t", 0, 1): INELIGIBLE, ("t", 1, 1): SUCCESSFUL, ("t", 2, 1): INELIGIBLE}
    assert world.told == {**of_one, ("t", 2, 2): SUCCESSFUL}
    _, rows = listed(world)
    assert [(row.broker_id, row.partitions, row.is_directory_offline) for row in rows] == [
        (1, (0, 2), True),
        (1, (1,), False),
        (2, (2,), False),
    ]
    world.now_ms += DELETE_DELAY_MS
    world.hear(1, offset)
    assert world.told[("t", 1, 1)] is NON_EXISTENT


def test_what_two_directories_have_in_common_is_one_row() -> None:
    world = jbod(in_e(0), partition(1, (1,)), in_e(2))
    offset = world.apply(RemoveTopicRecord(T))
    assert [row.partitions for row in listed(world)[1]] == [(0, 1, 2)]
    world.hear(1, offset)
    assert [row.partitions for row in listed(world)[1]] == [(0, 1, 2)]


def test_pages_hold_all_rows_of_a_broker() -> None:
    numbers = range(3_000)
    topics = [TopicRecord(f"t{number}", number.to_bytes(16, "big")) for number in numbers if number > 9]
    world = jbod(*topics, *(each(0, one.topic_id) for one in topics for each in (in_e,)))
    world.apply(*(partition(1, (1,), topic_id=one.topic_id) for one in topics))
    world.apply(losing(E))
    base = world.apply(*(RemoveTopicRecord(one.topic_id) for one in topics))
    pages, rows = listed(world)
    assert pages > 1
    assert [(row.offset - base, row.partitions) for row in rows] == [
        (at, (number,)) for at in range(len(topics)) for number in (0, 1)
    ]


@pytest.mark.parametrize("fails_over", [False, True])
def test_what_comes_back_with_the_directory_is_found_at_the_start(fails_over) -> None:
    world = jbod(partition(0, (1,)))
    world.apply(losing(E))
    world.apply(RemoveTopicRecord(T))
    world.hear(1, world.end)
    world.pass_by(READS_WITHIN_MS + SESSION_MS)
    world.apply(fencing(1))
    epoch = start(world, state={("t", 0, 1): INELIGIBLE})
    assert flags(world) == [(STARTED, False, False, True)]
    if fails_over:
        world.fail_over()
    world.hear(1, world.end, epoch=epoch)
    assert flags(world) == [(SUCCESSFUL, False, True, not fails_over)]
    world.now_ms += LONG_MS
    world.hear(1, world.end, epoch=epoch)
    assert (world.told, world.refused) == ({("t", 0, 1): SUCCESSFUL}, [])


def test_a_start_without_the_directory_leaves_the_data_where_it_is() -> None:
    world = jbod(partition(0, (1,)))
    world.apply(losing(E))
    world.apply(RemoveTopicRecord(T))
    epoch = start(world, E)
    for _ in range(2):
        world.hear(1, world.end, epoch=epoch)
        assert flags(world) == [(INELIGIBLE, True, False, False)], "it may have been replaced"
        world.fail_over()
    world.apply(UnregisterBrokerRecord(1, epoch))
    assert flags(world) == [(INELIGIBLE, True, False, False)]
    epoch = start(world)
    world.hear(1, world.end, epoch=epoch)
    assert (flags(world), world.refused) == ([(SUCCESSFUL, False, True, True)], [])


def test_only_a_start_brings_a_directory_back() -> None:
    """A process that says more of itself (`_amendment`) may name the directories that it began with."""
    world = jbod(partition(0, (1,)))
    world.apply(losing(E))
    world.apply(RemoveTopicRecord(T))
    world.apply(broker(1, log_dirs=(D, E)))
    world.hear(1, world.end)
    assert flags(world) == [(INELIGIBLE, True, False, True)]


def test_what_comes_back_is_in_order_with_what_waits() -> None:
    """What was taken away first is looked at first; all of it is where its broker is."""
    topics = [TopicRecord(f"t{number}", bytes([number]) * 16) for number in range(3)]
    ids = [one.topic_id for one in topics]
    world = jbod(*topics, partition(0, (1,), ids[0]), in_e(0, ids[1]), partition(0, (1,), ids[2]))
    world.apply(losing(E))
    first, between, _ = (world.apply(RemoveTopicRecord(one)) for one in ids)
    assert [*world.told.values()] == [INELIGIBLE, STARTED, INELIGIBLE]
    epoch = world.end
    world.apply(RegisterBrokerRecord(broker_id=1, broker_epoch=epoch, fenced=True, log_dirs=(D, E)))
    assert [*world.told.values()] == [INELIGIBLE] * 3
    world.apply(BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=epoch, fenced=-1))
    assert [*world.told.values()] == [STARTED] * 3
    world.hear(1, first, epoch=epoch)
    assert [*world.told.values()] == [SUCCESSFUL, STARTED, STARTED]
    world.hear(1, between, epoch=epoch)
    assert [*world.told.values()] == [SUCCESSFUL, SUCCESSFUL, STARTED]
    world.hear(1, world.end, epoch=epoch)
    assert {each.is_set_aside for each in world.tracker.entries()} == {True}
    assert world.refused == []


def test_a_replica_that_is_assigned_again_is_no_deletion_any_more() -> None:
    world = jbod(partition(0, (1, 2)))
    world.apply(losing(E))
    world.apply(moved((2,)))
    world.apply(moved((2, 1)))
    assert (flags(world), world.refused) == ([(OFFLINE, False, False, True)], [])
    epoch = start(world)
    world.hear(1, world.end, epoch=epoch)
    assert world.entry(1).state is OFFLINE


def back_in(where):
    return PartitionChangeRecord(0, T, replicas=(2, 1), directories=(directory(2), where))


def told_of(world):
    """What the list and the explanation say of broker 1: whether it is offline, an old copy, and certain."""
    rows = [one for one in listed(world)[1] if one.broker_id == 1]
    removals = [one for one in explained(world).removals if one.broker_id == 1]
    flags_of = [
        [(one.is_directory_offline, one.is_set_aside, one.is_heard) for one in each]
        for each in (rows, removals)
    ]
    assert flags_of[0] == flags_of[1] or not removals
    return flags_of[1]


@pytest.mark.parametrize("where", [E, UNASSIGNED])
def test_a_replica_that_is_back_in_another_directory_leaves_an_old_copy(where) -> None:
    """A Kafka broker that finds both does not start: it was removed, then, or the new one was."""
    world = jbod(partition(0, (1, 2)))
    world.apply(losing(E))
    world.apply(moved((2,)))
    assert told_of(world) == [(True, False, True)]
    world.apply(back_in(where))
    for _ in range(2):
        world.hear(1, world.end)
        assert told_of(world) == [(True, True, True)]
        world.fail_over()
    epoch = start(world, NEW_DISK, E)
    assert told_of(world) == [(True, True, False)]
    epoch = start(world)
    world.hear(1, world.end, epoch)
    assert told_of(world) == []
    assert ([each.state for each in world.tracker.entries()], world.refused) == ([OFFLINE], [])


def test_an_old_copy_of_a_replica_that_is_moved_away_once_more_is_a_stray() -> None:
    world = jbod(partition(0, (1, 2)))
    world.apply(losing(E))
    world.apply(moved((2,)))
    world.apply(back_in(E))
    world.apply(moved((2,)))
    assert flags(world) == [(INELIGIBLE, True, False, True), (STARTED, False, False, True)]
    world.apply(back_in(E))
    assert told_of(world) == [(True, True, True)], "and not the newer one, which is back"
    world.apply(moved((2,)))
    epoch = start(world)
    world.hear(1, world.end, epoch)
    states = [(each.state, each.is_set_aside) for each in world.tracker.entries()]
    assert (states[0], states[1], world.refused) == ((SUCCESSFUL, True), (OFFLINE, False), [])


def test_what_is_too_old_is_dropped_from_an_offline_directory_too(monkeypatch) -> None:
    monkeypatch.setattr(tracker, "REPLICAS_MAX", 1)
    world = jbod(partition(0, (1,)), TopicRecord("u", U), in_e(0, U))
    world.apply(losing(E))
    world.apply(RemoveTopicRecord(T))
    world.apply(RemoveTopicRecord(U))
    epoch = start(world)
    world.hear(1, world.end, epoch=epoch)
    assert ([*world.told], world.refused) == ([("u", 0, 1)], [])


def test_behind_a_snapshot_nothing_is_known_of_offline_directories() -> None:
    world = jbod(partition(0, (1,)))
    world.apply(losing(E))
    world.apply(RemoveTopicRecord(T))
    world.tracker.restored(500)
    start(world)
    assert world.told == {}


# --- replaced by another one, for all that is known

NEW_DISK = directory(77)


@pytest.mark.parametrize("removed", ["before the start", "after it"])
@pytest.mark.parametrize("is_unregistered", [False, True])
@pytest.mark.parametrize("directories", [(NEW_DISK,), (NEW_DISK, E)], ids=["machine", "disk"])
def test_what_a_start_came_without_is_perhaps_there(directories, is_unregistered, removed) -> None:
    """The machine died, or an operator put in an empty disk: the data is gone with what was there."""
    world = jbod(partition(0, (1,)))
    world.apply(losing(E))
    if removed == "before the start":
        world.apply(RemoveTopicRecord(T))
        assert flags(world) == [(INELIGIBLE, True, False, True)]
    if is_unregistered:
        world.apply(UnregisterBrokerRecord(1, 1))
    epoch = start(world, *directories, is_heard=False)
    if removed == "after it":
        world.apply(RemoveTopicRecord(T))
    for _ in range(2):
        world.hear(1, world.end, epoch=epoch)
        assert flags(world) == [(INELIGIBLE, True, False, False)]
        assert [(row.is_directory_offline, row.is_heard) for row in listed(world)[1]] == [(True, False)]
        (told,) = explained(world).removals
        assert (told.is_directory_offline, told.is_heard) == (True, False)
        world.fail_over()
    assert world.refused == []


def test_a_broker_that_died_with_its_only_directory_may_be_another_machine() -> None:
    world = World(partition(0, (1,)))
    world.apply(fencing(1))
    world.apply(RemoveTopicRecord(T))
    assert flags(world) == [(INELIGIBLE, False, False, True)]
    epoch = start(world, NEW_DISK)
    world.hear(1, world.end, epoch=epoch)
    assert flags(world) == [(INELIGIBLE, True, False, False)]


def test_what_comes_back_and_is_lost_again_is_there() -> None:
    world = jbod(partition(0, (1,)))
    world.apply(losing(E))
    world.apply(RemoveTopicRecord(T))
    start(world, E)
    epoch = start(world, D, E)
    world.apply(losing(E, epoch=epoch))
    assert (flags(world), world.refused) == ([(INELIGIBLE, True, False, True)], [])
    world.apply(losing(epoch=epoch))
    assert flags(world) == [(INELIGIBLE, True, False, True)]


def test_a_replica_in_a_lost_directory_is_there_if_its_broker_has_lost_one() -> None:
    world = jbod(PartitionRecord(0, T, (1,), (1,), leader=1, directories=(LOST,)))
    world.apply(losing(E))
    world.apply(RemoveTopicRecord(T))
    assert flags(world) == [(INELIGIBLE, True, False, True)]


def test_behind_a_snapshot_nobody_knows_what_was_lost_before_it() -> None:
    world = jbod(partition(0, (1,)))
    world.apply(losing(E))
    world.tracker.restored(500)
    world.apply(RemoveTopicRecord(T))
    assert flags(world) == [(INELIGIBLE, True, False, False)]


# --- of which nobody knows which directory it is


def nowhere(where):
    """Broker 1 with two directories, and a replica of which nobody knows in which of them it is."""
    return jbod(PartitionRecord(0, T, (1,), (1,), leader=1, directories=(where,)))


@pytest.mark.parametrize("where", [UNASSIGNED, MIGRATING])
@pytest.mark.parametrize("knows", ["the log", "the heartbeat"])
def test_what_is_nowhere_that_is_known_may_be_in_the_directory_that_failed(where, knows) -> None:
    """The broker may have made it there, and failed before it told."""
    world = nowhere(where)
    if knows == "the log":
        world.apply(losing(E))
    world.hear(1, world.apply(RemoveTopicRecord(T)), None, *([D] if knows == "the heartbeat" else ()))
    assert flags(world) == [(SUCCESSFUL, False, True, True)]
    world.now_ms += LONG_MS
    world.hear(1, world.end)
    assert flags(world) == [(SUCCESSFUL, False, True, True)]


@pytest.mark.parametrize("where", [UNASSIGNED, MIGRATING])
@pytest.mark.parametrize("fails", ["while it runs", "as a heartbeat says", "at its start"])
def test_what_is_nowhere_and_renamed_may_be_in_the_directory_that_failed(where, fails) -> None:
    world = nowhere(where)
    world.hear(1, world.apply(RemoveTopicRecord(T)))
    assert flags(world) == [(SUCCESSFUL, False, False, True)]
    if fails == "while it runs":
        world.apply(losing(E))
    elif fails == "as a heartbeat says":
        world.hear(1, world.end, None, D)
    else:
        start(world, E)
    world.now_ms += LONG_MS
    world.hear(1, world.end, world.image[BROKERS].get(1).broker_epoch)
    assert flags(world) == [(SUCCESSFUL, False, True, True)]


@pytest.mark.parametrize("where", [UNASSIGNED, MIGRATING])
def test_what_is_nowhere_that_is_known_is_deleted_where_nothing_failed_since_the_start(where) -> None:
    world = nowhere(where)
    world.apply(losing(E))
    epoch = start(world, NEW_DISK, E)
    world.hear(1, world.end, epoch)
    world.hear(1, world.apply(RemoveTopicRecord(T)), epoch)
    assert flags(world) == [(SUCCESSFUL, False, False, True)]
    world.now_ms += DELETE_DELAY_MS
    world.hear(1, world.end, epoch)
    assert flags(world) == [(NON_EXISTENT, False, False, True)]


def test_what_a_broker_that_names_no_directories_holds_is_deleted_as_ever() -> None:
    world = World(partition(0, (1,)), brokers=(broker(1, log_dirs=()),))
    world.hear(1, world.apply(RemoveTopicRecord(T)))
    assert flags(world) == [(SUCCESSFUL, False, False, True)]


def test_what_is_lost_is_offline_until_the_next_start() -> None:
    """The start may have found it: nobody knows which directory it was."""
    world = jbod(PartitionRecord(0, T, (1,), (1,), leader=1, directories=(LOST,)))
    world.hear(1, world.apply(RemoveTopicRecord(T)))
    assert flags(world) == [(INELIGIBLE, True, False, False)]
    epoch = start(world)
    world.apply(losing(E, epoch=epoch))
    world.hear(1, world.end, epoch=epoch)
    assert (flags(world), world.refused) == ([(SUCCESSFUL, False, True, True)], [])


def test_what_a_broker_held_that_is_not_registered_waits_for_it_as_ever() -> None:
    world = World(partition(0, (1,)), brokers=THREE[1:])
    world.apply(RemoveTopicRecord(T))
    assert flags(world) == [(INELIGIBLE, False, False, True)]
    start(world, E)
    assert flags(world) == [(INELIGIBLE, True, False, False)]


# --- offline later


def test_a_directory_that_fails_before_the_broker_has_read_keeps_the_data() -> None:
    world = jbod(partition(0, (1,)), in_e(1))
    offset = world.apply(RemoveTopicRecord(T))
    world.hear(1, offset - 1)
    world.apply(losing(E))
    world.hear(1, world.end)
    assert world.told == {("t", 0, 1): INELIGIBLE, ("t", 1, 1): SUCCESSFUL}
    assert flags(world)[0] == (INELIGIBLE, True, False, True)
    world.fail_over()
    assert flags(world)[0] == (INELIGIBLE, True, False, False), "the leader before may have heard of the end"
    epoch = start(world)
    world.hear(1, world.end, epoch=epoch)
    assert (flags(world)[0], world.refused) == ((SUCCESSFUL, False, True, False), [])


def test_a_directory_that_fails_long_after_a_deletion_was_not_heard_to_keep_anything() -> None:
    """As with a broker that goes down: it was alive long enough to have read it, for all that is known."""
    world = jbod(partition(0, (1,)), leads=False)
    world.apply(RemoveTopicRecord(T))
    world.pass_by(READS_WITHIN_MS + SESSION_MS)
    world.apply(losing(E))
    world.tracker.leads(is_self=True)
    assert flags(world) == [(INELIGIBLE, True, False, False)]
    epoch = start(world, is_heard=False)
    world.hear(1, world.end, epoch=epoch)
    assert flags(world) == [(SUCCESSFUL, False, False, False)]


@pytest.mark.parametrize("fails", ["while it runs", "while it starts", "before it is registered again"])
def test_a_directory_that_fails_within_the_minute_leaves_it_open_what_is_there(fails) -> None:
    world = jbod(partition(0, (1,)), in_e(1))
    offset, epoch = world.apply(RemoveTopicRecord(T)), 1
    world.hear(1, offset)
    world.now_ms += DELETE_DELAY_MS - 1
    if fails == "while it runs":
        world.apply(losing(E))
    else:
        if fails == "before it is registered again":
            world.apply(UnregisterBrokerRecord(1, 1))
        epoch = start(world, E)
    world.hear(1, world.end, epoch=epoch)
    world.now_ms += LONG_MS
    world.hear(1, world.end, epoch=epoch)
    assert flags(world) == [(SUCCESSFUL, False, True, True), (NON_EXISTENT, False, False, True)]
    world.apply(losing(E, D, epoch=epoch))
    assert (flags(world)[0], world.refused) == ((SUCCESSFUL, False, True, True), [])


def test_a_directory_that_fails_after_the_minute_has_nothing_of_it() -> None:
    world = jbod(partition(0, (1,)))
    offset = world.apply(RemoveTopicRecord(T))
    world.hear(1, offset)
    world.now_ms += DELETE_DELAY_MS
    world.hear(1, offset)
    world.apply(losing(E))
    assert flags(world) == [(NON_EXISTENT, False, False, True)]


def test_a_heartbeat_moves_nothing_in_a_directory_that_it_names_as_failed() -> None:
    """That is registered only after it: what the broker has read before it failed nobody knows."""
    world = jbod(partition(0, (1,)), in_e(1), partition(2, (1,)))
    offset = world.apply(RemoveTopicRecord(T))
    world.hear(1, offset, None, D)
    assert flags(world) == [(STARTED, False, False, True), (SUCCESSFUL, False, False, True)]
    world.apply(losing(E))
    world.now_ms += LONG_MS
    world.hear(1, world.end, None, D)
    assert flags(world) == [(INELIGIBLE, True, False, True), (NON_EXISTENT, False, False, True)]
    epoch = start(world)
    world.hear(1, world.end, epoch)
    assert (flags(world)[0], world.refused) == ((SUCCESSFUL, False, True, True), [])


def test_a_minute_does_not_end_with_the_heartbeat_that_names_the_directory_as_failed() -> None:
    world = jbod(partition(0, (1,)), in_e(1))
    offset = world.apply(RemoveTopicRecord(T))
    world.hear(1, offset)
    world.now_ms += DELETE_DELAY_MS
    world.hear(1, offset, None, D)
    assert flags(world) == [(SUCCESSFUL, False, True, True), (NON_EXISTENT, False, False, True)]
    world.apply(losing(E))
    world.now_ms += LONG_MS
    world.hear(1, offset, None, D)
    assert flags(world)[0] == (SUCCESSFUL, False, True, True)


# --- by the controller


def test_a_heartbeat_that_reads_a_deletion_and_names_its_directory_ends_nothing_there() -> None:
    world = BrokerWorld()
    assert world.register(11, log_dirs=(D, E)).error_code == 0
    world.beat(11)
    topic_id = world.topic(1, (11,))
    world.append(PartitionChangeRecord(0, topic_id, directories=(D,)))
    world.append(RemoveTopicRecord(topic_id))
    world.beat(11, offset=world.controller.applied_offset - 1, offline_log_dirs=(D,))
    (told,) = read(world, ListDeletionsRequest()).removals
    assert (told.state, told.is_directory_offline, told.is_heard) == (INELIGIBLE, True, True)


def test_a_heartbeat_that_tells_of_a_failed_directory_ends_no_deletion_there() -> None:
    world = BrokerWorld()
    assert world.register(11, log_dirs=(D, E)).error_code == 0
    world.beat(11)
    topic_id = world.topic(1, (11,))
    world.append(PartitionChangeRecord(0, topic_id, directories=(D,)))
    world.beat(11, offline_log_dirs=(D,))
    world.append(RemoveTopicRecord(topic_id))
    world.beat(11, offset=world.controller.applied_offset - 1, offline_log_dirs=(D,))
    (told,) = read(world, ListDeletionsRequest()).removals
    assert (told.state, told.is_directory_offline, told.is_set_aside) == (INELIGIBLE, True, False)
