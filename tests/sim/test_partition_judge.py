"""The judge of partitions sees what he is there for: small clusters in which one promise is broken."""

import msgspec
import pytest

from kraftd.controller.authorizer import Authorizer
from kraftd.metadata.configs_image import ConfigsBuilder
from kraftd.types import NO_NODE, NodeId, Uuid
from tests.firing import fires
from tests.sim.broker_story import Story, delete, error_of
from tests.sim.fault_base import S
from tests.sim.partition_judge import LOOKS_IN_A_PLAN_MAX, LOOKS_MAX


def left_behind(story: Story, ids: tuple[NodeId, ...]) -> Uuid:
    """A topic whose last replica does not hear the leader while producers go on."""
    topic_id = story.place("t", ids)
    leader, _, last = story.brokers
    story.run(5 * S)
    story.world.network.cut(leader.id, last.id)
    story.until(lambda: last.id not in story.partition(topic_id).isr)
    story.run(3 * S)
    return topic_id


def test_who_enters_an_isr_and_lacks_something_is_seen(story: Story, ids: tuple[NodeId, ...]) -> None:
    topic_id = left_behind(story, ids)
    leader, _, last = story.brokers
    epochs = {broker.id: broker.epoch for broker in story.brokers}
    with fires("WhoIsInAnIsrHasEverything", rf"broker {last.id} enters .*: \d+ acknowledged are missing"):
        story.alter(leader, topic_id, epochs)


def test_who_lost_its_tail_since_it_was_registered_is_excused(story: Story, ids: tuple[NodeId, ...]) -> None:
    """The controller will hear of it from the next start: until then it cannot know."""
    topic_id = left_behind(story, ids)
    leader, _, last = story.brokers
    epochs = {broker.id: broker.epoch for broker in story.brokers}
    last.cut_power()
    assert error_of(story.alter(leader, topic_id, epochs)) == 0
    assert last.id in story.partition(topic_id).isr


def test_a_follower_that_cuts_what_is_committed_is_seen(story: Story, ids: tuple[NodeId, ...]) -> None:
    topic_id = story.place("t", ids)
    story.run(5 * S)
    story.brokers[0].disk.data.of((topic_id, 0)).clear()
    with fires("NothingBelowTheHighWatermarkIsCut", "to 0 messages, and heard of"):
        story.run(2 * S)


@pytest.mark.parametrize(("in_a_plan", "looks"), [(False, LOOKS_MAX), (True, LOOKS_IN_A_PLAN_MAX)])
def test_a_partition_that_waits_too_long_for_a_leader_is_seen(
    story: Story, ids: tuple[NodeId, ...], monkeypatch: pytest.MonkeyPatch, in_a_plan: bool, looks: int
) -> None:
    topic_id = story.place("t", ids)
    story.run(5 * S)  # each replica is in a directory now: nothing is changed any more
    for node in story.world.nodes.values():
        monkeypatch.setattr(node, "works_off", lambda: in_a_plan)
    story.cluster.auditor.partitions[topic_id, 0] = msgspec.structs.replace(
        story.partition(topic_id), leader=NO_NODE
    )
    with fires("NobodyWaitsForALeader", f"no leader in {looks + 1} looks"):
        for number in range(looks + 1):
            story.create(f"more-{number}")  # something is committed
            story.run(1 * S)


def test_while_nothing_is_committed_nobody_waits(story: Story, ids: tuple[NodeId, ...]) -> None:
    topic_id = story.place("t", ids)
    story.run(5 * S)
    story.cluster.auditor.partitions[topic_id, 0] = msgspec.structs.replace(
        story.partition(topic_id), leader=NO_NODE
    )
    for node in story.world.nodes.values():
        node.crash()
    story.run(4 * LOOKS_MAX * S)
    assert story.cluster.partition_judge.longest[1] <= 1


def test_a_config_that_outlives_its_topic_is_seen(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    assert story.create("t", retention_ms="1000") == 0
    monkeypatch.setattr(ConfigsBuilder, "remove", lambda *_: None)
    with fires("WhatIsDeletedStaysDeleted", "topic t was removed, and the controllers know configs of it"):
        delete(story, "t")


def test_a_replica_that_outlives_its_topic_is_seen(story: Story, ids: tuple[NodeId, ...]) -> None:
    topic_id = story.place("t", ids)
    delete(story, "t")
    story.run(2 * S)
    committed = story.world.auditor.committed[0]
    story.cluster.converge(committed, 5 * S)
    stray = story.brokers[1]
    stray.disk.replicas[topic_id, 0] = stray.disk.directories[0]
    with fires("WhatIsDeletedStaysDeleted", f"topic t was removed, and broker {stray.id} keeps replicas"):
        story.cluster.converge(committed, 5 * S)


def test_a_client_that_does_what_is_denied_to_it_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story(authorized=True, admins=1, think_us=1 * S)
    story.until(lambda: story.world.statistics["denied 29"] > 0, 120 * S)
    monkeypatch.setattr(Authorizer, "allows", lambda *_: True)
    with fires("DenyRulesAreKept", "User:admin-1 is told that .* is done, against .*AclPermission.DENY"):
        story.run(120 * S)
    story.world.close()
