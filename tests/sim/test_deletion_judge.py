"""What controllers say of deleted data in a small cluster, and the judge of that, who knows the disks."""

from collections.abc import Mapping
from contextlib import nullcontext

import pytest

from kraftd.controller.deletions import tracker
from kraftd.controller.deletions.removals import _Search
from kraftd.metadata.parts.brokers import BROKERS
from kraftd.metadata.parts.topics.partitions import UNASSIGNED
from kraftd.metadata.replica_states import ReplicaState
from kraftd.protocol import messages as m
from kraftd.types import NodeId, Uuid
from tests.firing import fires
from tests.sim import broker_process
from tests.sim.broker_process import SimBroker
from tests.sim.broker_story import SESSION_US, Story
from tests.sim.deletion_judge import DELETED
from tests.sim.fault_base import MS, S

HEARTBEAT_US = 500 * MS
SUCCESSFUL, INELIGIBLE = ReplicaState.DELETION_SUCCESSFUL, ReplicaState.DELETION_INELIGIBLE


def delete(story: Story, topic_id: Uuid) -> None:
    state = m.DeleteTopicsRequestDeleteTopicState(topic_id=topic_id)
    assert story.ask(m.DeleteTopicsRequest(topics=(state,), timeout_ms=30_000)).responses[0].error_code == 0


def states(story: Story) -> Mapping[NodeId, ReplicaState]:
    """What the active controller says of the replicas of each broker that were taken away last."""
    return {entry.removed.broker_id: entry.state for entry in entries(story)}


def entries(story: Story) -> list[tracker.Entry]:
    """What the active controller knows of replicas that were taken away."""
    parts = story.leader.parts
    assert parts is not None
    return [*parts.controller.deletions.entries()]


def judged(story: Story) -> None:
    story.cluster.converge(story.world.auditor.committed[0], 5 * S)


def test_what_is_deleted_is_gone_within_two_heartbeats(story: Story, ids: tuple[NodeId, ...]) -> None:
    topic_id = story.place("t", ids, ids)
    story.run(2 * S)
    assert all((topic_id, 1) in broker.disk.replicas for broker in story.brokers)
    delete(story, topic_id)
    story.run(2 * HEARTBEAT_US)
    assert states(story) == dict.fromkeys(ids, SUCCESSFUL)
    assert not any(broker.disk.replicas for broker in story.brokers)
    assert story.world.statistics[DELETED] == 6
    judged(story)


def test_who_is_down_has_deleted_once_it_may_be_unfenced(story: Story, ids: tuple[NodeId, ...]) -> None:
    topic_id = story.place("t", ids)
    story.run(2 * S)
    *others, away = story.brokers
    away.crash(down_us=1_000 * S)
    story.until(lambda: story.cluster.fencings[away.id] > 0, 2 * SESSION_US)
    delete(story, topic_id)
    story.run(2 * HEARTBEAT_US)
    assert states(story) == {away.id: INELIGIBLE} | {other.id: SUCCESSFUL for other in others}
    away.start()
    story.until(lambda: states(story)[away.id] is SUCCESSFUL)
    assert not away.disk.replicas
    judged(story)


def test_a_log_that_is_there_although_it_is_said_to_be_gone_is_seen(
    story: Story, ids: tuple[NodeId, ...]
) -> None:
    topic_id = story.place("t", ids)
    story.run(2 * S)
    where = dict(story.brokers[0].disk.replicas)
    delete(story, topic_id)
    story.run(3 * S)
    story.brokers[0].disk.replicas |= where
    with fires("DeletedDataIsGone", f"calls t-0 of {ids[0]} ReplicaDeletionSuccessful"):
        story.run(2 * S)


def test_a_broker_that_has_not_read_what_it_is_said_to_have_deleted_is_seen(
    story: Story, ids: tuple[NodeId, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic_id = story.place("t", ids)
    story.run(2 * S)
    broker = story.brokers[0]
    monkeypatch.setattr(broker.replicas, "publish", lambda _image: None)
    with fires("DeletedDataIsGone", f"calls t-0 of {broker.id} ReplicaDeletionSuccessful"):
        delete(story, topic_id)
        story.run(2 * HEARTBEAT_US)


def test_who_was_down_has_set_the_data_aside_and_that_is_told(story: Story, ids: tuple[NodeId, ...]) -> None:
    topic_id = story.place("t", ids)
    story.run(2 * S)
    *_, away = story.brokers
    away.crash(down_us=1_000 * S)
    story.until(lambda: story.cluster.fencings[away.id] > 0, 2 * SESSION_US)
    delete(story, topic_id)
    away.start()
    story.until(lambda: states(story)[away.id] is SUCCESSFUL)
    parts = story.leader.parts
    assert parts is not None
    aside = {one.removed.broker_id for one in parts.controller.deletions.entries() if one.is_set_aside}
    assert (
        aside == {broker.id for broker in story.brokers if (topic_id, 0) in broker.disk.strays} == {away.id}
    )


def test_data_that_is_set_aside_and_said_to_be_removed_is_seen(story: Story, ids: tuple[NodeId, ...]) -> None:
    topic_id = story.place("t", ids)
    story.run(2 * S)
    story.brokers[0].disk.strays[topic_id, 0] = 1_000_000
    with fires("StrayDataIsTold", rf"says that t-\[0\] of {ids[0]} are removed"):
        delete(story, topic_id)
        story.run(2 * HEARTBEAT_US)


def lose_directory(story: Story, topic_id: Uuid) -> SimBroker:
    """The directory of the first partition at the first broker fails, and that is registered; the broker."""
    story.run(2 * S)
    broker = story.brokers[0]
    assert broker.fail_directory(broker.disk.replicas[topic_id, 0])
    (left,) = broker.disk.working
    registered = lambda: story.leader.parts.controller.image[BROKERS].get(broker.id)  # noqa: E731
    story.until(lambda: registered().log_dirs == (left,), 5 * S)
    return broker


def test_who_has_lost_the_directory_finds_the_data_at_its_next_start(
    story: Story, ids: tuple[NodeId, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_process, "MENDED_PART", 1.0)
    topic_id = story.place("t", ids)
    broker = lose_directory(story, topic_id)
    delete(story, topic_id)
    story.run(2 * HEARTBEAT_US)
    others = dict.fromkeys(ids, SUCCESSFUL)
    assert states(story) == {**others, broker.id: INELIGIBLE}
    assert (topic_id, 0) in broker.disk.left
    judged(story)
    broker.crash()
    story.until(lambda: story.cluster.fencings[broker.id] > 0, 2 * SESSION_US)
    broker.start()
    story.until(lambda: states(story) == others)
    assert (topic_id, 0) in broker.disk.strays
    aside = [one.removed.broker_id for one in entries(story) if one.is_set_aside]
    assert aside == [broker.id]
    judged(story)


def test_a_directory_that_does_not_come_back_holds_nobody_up(
    story: Story, ids: tuple[NodeId, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_process, "MENDED_PART", 0.0)
    topic_id = story.place("t", ids)
    broker = lose_directory(story, topic_id)
    delete(story, topic_id)
    broker.crash()
    broker.start()
    story.run(2 * SESSION_US)
    assert states(story)[broker.id] is INELIGIBLE
    assert not broker.disk.left
    judged(story)


def test_data_in_an_offline_directory_that_is_said_to_be_removed_is_seen(
    story: Story, ids: tuple[NodeId, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    read = tracker._read
    monkeypatch.setattr(tracker.DeletionTracker, "_set_aside", lambda *_: None)
    monkeypatch.setattr(tracker, "lost_when_removed", lambda _broker, _directory: None)
    monkeypatch.setattr(
        tracker, "_read", lambda waiting, reported, _failed: read(waiting, reported, frozenset())
    )
    topic_id = story.place("t", ids)
    broker = lose_directory(story, topic_id)
    with fires("OfflineDataStays", f"calls t of {broker.id} ReplicaDeletionSuccessful"):
        delete(story, topic_id)
        story.run(2 * HEARTBEAT_US)


@pytest.mark.parametrize("is_told", [True, False])
def test_data_of_which_no_controller_knows_that_it_is_in_an_offline_directory_is_seen(
    story: Story, ids: tuple[NodeId, ...], monkeypatch: pytest.MonkeyPatch, *, is_told: bool
) -> None:
    """The broker has put the replica there, and not told it."""
    held = lambda _search, partition: dict.fromkeys(partition.replicas, UNASSIGNED)  # noqa: E731
    monkeypatch.setattr(_Search, "_held", held)
    if not is_told:
        monkeypatch.setattr(tracker, "_NOWHERE", frozenset())
    topic_id = story.place("t", ids)
    broker = lose_directory(story, topic_id)
    with nullcontext() if is_told else fires("OfflineDataStays", f"calls t of {broker.id}"):
        delete(story, topic_id)
        story.run(2 * HEARTBEAT_US)
    if is_told:
        assert [one.removed.broker_id for one in entries(story) if one.is_set_aside] == [broker.id]
        judged(story)


def test_a_deletion_that_does_not_end_on_a_live_broker_is_seen(
    story: Story, ids: tuple[NodeId, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic_id = story.place("t", ids)
    story.run(2 * S)
    parts = story.leader.parts
    assert parts is not None
    monkeypatch.setattr(parts.controller.deletions, "heard", lambda *_, **_more: None)
    delete(story, topic_id)
    with fires("LiveBrokersDelete", f"broker_id={ids[0]}"):
        judged(story)


def test_a_replica_that_comes_back_may_be_there(story: Story, ids: tuple[NodeId, ...]) -> None:
    """It was moved away and deleted, and is moved back."""
    topic_id = story.place("t", ids[:2])
    for replicas in (ids[1:], ids[:2]):
        partition = m.AlterPartitionReassignmentsRequestReassignablePartition(0, replicas)
        topic = m.AlterPartitionReassignmentsRequestReassignableTopic("t", (partition,))
        assert story.ask(m.AlterPartitionReassignmentsRequest(topics=(topic,))).error_code == 0
        story.run(5 * S)
        assert set(story.partition(topic_id).replicas) == set(replicas)
    assert (topic_id, 0) in story.brokers[0].disk.replicas
    assert states(story)[ids[0]] is SUCCESSFUL
    judged(story)
