"""What once happened to partitions does not here: stories of one small cluster and its producers.

As `test_broker_scenarios`, for what is told by the messages of partitions: who leads, who may, where replicas
are, and what clients may do. Every record and every replica is judged all the while (`partition_judge`,
`broker_data`, `kraftd.audit.placements`).
"""

from collections.abc import Iterator
from typing import Any

import pytest

from kraftd.errors import ErrorCode
from kraftd.metadata.acl_kinds import CLUSTER_NAME, AclOperation, AclPattern, AclPermission, AclResource
from kraftd.metadata.parts.brokers import BROKERS
from kraftd.metadata.parts.configs import CONFIGS
from kraftd.metadata.parts.topics import TOPICS
from kraftd.protocol import messages as m
from kraftd.protocol.principal import Principal
from kraftd.types import NO_NODE, NodeId, Uuid
from tests.sim.admin_clients import enveloped, opened
from tests.sim.broker_process import SimBroker
from tests.sim.broker_replicas import BELIEVED_GONE_US
from tests.sim.broker_story import SESSION_US, Story, delete, error_of
from tests.sim.fault_base import MS, S
from tests.sim.fault_strangers import resign
from tests.sim.test_broker_scenarios import INELIGIBLE_REPLICA

RECOVERING = 1


def promised(story: Story, topic_id: Uuid) -> int:
    """How many messages producers were told are there."""
    return len(story.cluster.acknowledged._promised.get((topic_id, 0), ()))


def lacking(story: Story, topic_id: Uuid, broker: SimBroker) -> int:
    """How much of that a broker's disk has not."""
    epoch = story.partition(topic_id).leader_epoch
    return story.cluster.acknowledged.lacks((topic_id, 0), broker.disk.data, epoch)


def cut_off(story: Story, broker: SimBroker) -> None:
    """No controller hears a broker any more, nor it them."""
    for node_id in story.world.node_ids:
        story.world.network.cut(node_id, broker.id)


# --- who leads ----------------------------------------------------------------------------------------------


def test_the_last_replica_standing_takes_nothing_along(story: Story, ids: tuple[NodeId, ...]) -> None:
    """KAFKA-15583, KIP-966: with fewer in sync than must be nothing is acknowledged, so that whoever left in
    order has everything, and leads when the last one lost its log.
    """
    topic_id = story.place("t", ids, min_insync_replicas="2")
    first, second, third = story.brokers
    story.run(4 * S)
    second.crash()
    story.until(lambda: story.partition(topic_id).isr == (first.id, third.id))
    third.stop()
    story.until(lambda: story.partition(topic_id).isr == (first.id,))
    assert story.partition(topic_id).elr == (third.id,)
    story.run(2 * S)
    told = promised(story, topic_id)
    assert told > 0
    story.run(2 * S)
    assert promised(story, topic_id) == told
    first.cut_power()
    story.until(lambda: story.partition(topic_id).leader == NO_NODE)
    assert set(story.partition(topic_id).elr) == {first.id, third.id}
    third.start()
    story.until(lambda: story.partition(topic_id).leader == third.id)
    assert not story.partition(topic_id).is_recovering
    assert lacking(story, topic_id, third) == 0
    first.start()
    second.start()
    story.until(lambda: len(story.partition(topic_id).isr) == 3)
    story.until(lambda: promised(story, topic_id) > told)


def test_who_was_killed_while_it_stopped_is_not_trusted(story: Story, ids: tuple[NodeId, ...]) -> None:
    """KAFKA-18106: no clean shutdown was written; it comes back without its tail, and must not lead."""
    topic_id = story.place("t", ids[:2], min_insync_replicas="2")
    first, second, _ = story.brokers
    story.run(4 * S)
    second.stop()
    story.until(lambda: story.partition(topic_id).isr == (first.id,))
    if second.is_up:
        second.cut_power()
    else:
        second.disk.clean_epoch = -1  # it wrote the marker, and that was lost
    first.stop()
    story.until(lambda: not first.is_up and story.partition(topic_id).leader == NO_NODE)
    second.start()
    story.until(lambda: second.is_unfenced)
    story.run(2 * SESSION_US)
    assert story.partition(topic_id).leader == NO_NODE
    assert second.id not in story.partition(topic_id).elr
    first.start()
    story.until(lambda: story.partition(topic_id).leader == first.id)
    assert not story.partition(topic_id).is_recovering
    story.until(lambda: len(story.partition(topic_id).isr) == 2)


def test_the_last_known_leader_leads_once_it_is_unfenced(story: Story, ids: tuple[NodeId, ...]) -> None:
    """KAFKA-19522: alone it stopped uncleanly, nobody has more than it; while it is fenced nobody leads, and
    when it leads it has to recover.
    """
    topic_id = story.place("t", ids[:1])
    (only, *_), seen = story.brokers, []
    story.run(3 * S)
    old = only.epoch
    only.cut_power(down_us=100 * MS)

    def is_back() -> bool:
        registered, partition = story.cluster.auditor.brokers[only.id], story.partition(topic_id)
        if registered.epoch > old and registered.is_fenced:
            seen.append(partition.leader)
        return registered.epoch > old and partition.leader == only.id

    story.until(is_back)
    assert set(seen) == {NO_NODE}
    assert story.partition(topic_id).led_last == ()
    assert story.partition(topic_id).isr == (only.id,)


def test_nobody_leads_uncleanly_where_that_is_off(story: Story, ids: tuple[NodeId, ...]) -> None:
    """A replica that is behind is all there is: the partition waits, and goes on with what was promised."""
    kept = story.place("kept", ids[:2])
    lossy = story.place("lossy", ids[:2], unclean_leader_election_enable="true")
    first, second, _ = story.brokers
    story.world.network.cut(first.id, second.id)
    story.until(lambda: story.partition(kept).isr == story.partition(lossy).isr == (first.id,))
    story.run(3 * S)
    first.crash()
    story.until(lambda: story.partition(lossy).leader == second.id)
    assert story.partition(lossy).is_recovering
    story.run(2 * SESSION_US)
    assert story.partition(kept).leader == NO_NODE
    story.world.network.heal()
    first.start()
    story.until(lambda: story.partition(kept).leader == first.id)
    story.until(lambda: len(story.partition(kept).isr) == len(story.partition(lossy).isr) == 2)
    assert not story.partition(lossy).is_recovering


def test_a_preferred_replica_leads_only_if_it_has_everything(story: Story, ids: tuple[NodeId, ...]) -> None:
    topic_id = story.place("t", ids)
    first, second, _ = story.brokers
    first.crash(down_us=100 * MS)
    for other in ids[1:]:
        story.world.network.cut(first.id, other)
    story.until(lambda: story.partition(topic_id).leader == second.id)
    story.until(lambda: first.is_unfenced)
    named = m.ElectLeadersRequestTopicPartitions("t", (0,))
    request = m.ElectLeadersRequest(topic_partitions=(named,), timeout_ms=30_000)
    told = story.ask(request, second).replica_election_results[0].partition_result[0]
    assert told.error_code == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert story.partition(topic_id).leader == second.id
    story.world.network.heal()
    story.until(lambda: first.id in story.partition(topic_id).isr)
    assert story.ask(request, second).replica_election_results[0].partition_result[0].error_code == 0
    assert story.partition(topic_id).leader == first.id


@pytest.mark.parametrize("what", ["comes back", "stops"])
def test_what_a_hand_over_that_fails_cuts_off_is_done_by_who_leads_on(what: str) -> None:
    """Appends are refused while a leader hands over. The successor does not catch up, and it leads on: the
    broker that it was about is unfenced or stopping by then, and asks for nothing more.
    """
    story = Story(slice_records=3)
    broker, other, _ = story.brokers
    topic_id = story.place("t", *[(broker.id, other.id) if what == "stops" else (broker.id,)] * 300)
    if what == "comes back":
        broker.crash()
        story.until(lambda: story.cluster.fencings[broker.id] > 0)

    def led_by(*ids: NodeId) -> int:
        return sum(story.partition(topic_id, number).leader in ids for number in range(300))

    leader, before = story.leader, list(story.world.leaders)
    successor = next(node_id for node_id in story.world.node_ids if node_id != leader.id)
    story.world.network.clog(leader.id, successor, 700 * MS)
    wanted = broker if what == "comes back" else other
    broker.start() if what == "comes back" else broker.stop()
    story.until(lambda: led_by(wanted.id) > 0)
    resign(story.world, leader, successor, timeout_ms=500)
    story.run(300 * MS)
    done = led_by(wanted.id)
    story.run(100 * MS)
    assert 0 < done == led_by(wanted.id) < 300
    story.until(lambda: led_by(wanted.id) == 300, 5 * S)
    assert story.world.leaders == before
    if what == "stops":
        story.until(lambda: not broker.is_up, 5 * S)
    story.world.close()


# --- who is in sync -----------------------------------------------------------------------------------------


def test_who_shuts_down_enters_no_isr_and_holds_nobody_up(story: Story, ids: tuple[NodeId, ...]) -> None:
    """KAFKA-13916 and KAFKA-15021: it left the ISR, cannot come back, and producers do not wait for it; the
    leader stays in its epoch.
    """
    topic_id = story.place("t", ids)
    leader, witness, stopping = story.brokers
    story.place("led", (stopping.id, leader.id))  # who leads nothing may stop at once
    story.run(4 * S)
    before = story.partition(topic_id)
    cut_off(story, witness)  # who stops has to wait until this one has read of it, or is fenced
    stopping.stop()
    story.until(lambda: stopping.id not in story.partition(topic_id).isr)
    told, at_us = promised(story, topic_id), story.world.now_us
    story.until(lambda: promised(story, topic_id) > told)
    assert story.world.now_us - at_us < BELIEVED_GONE_US
    assert stopping.is_up
    isr = {broker.id: broker.epoch for broker in story.brokers if broker.id in story.partition(topic_id).isr}
    response = story.alter(leader, topic_id, isr | {stopping.id: stopping.epoch})
    assert error_of(response) == INELIGIBLE_REPLICA
    after = story.partition(topic_id)
    assert (after.leader, after.leader_epoch) == (before.leader, before.leader_epoch)
    story.until(lambda: not stopping.is_up)


def test_who_stops_waits_until_the_others_have_read_of_it(story: Story, ids: tuple[NodeId, ...]) -> None:
    """KAFKA-14292's other side: a broker that does not know yet would still ask who is gone."""
    story.place("t", (ids[2], ids[0]))
    _, witness, stopping = story.brokers
    cut_off(story, witness)
    stopping.stop()
    story.until(lambda: story.cluster.fencings[witness.id] > 0 or not stopping.is_up)
    assert stopping.is_up
    story.until(lambda: not stopping.is_up)


def test_a_reboot_without_the_tail_is_another_start(story: Story, ids: tuple[NodeId, ...]) -> None:
    """KAFKA-14617: what the leader proposed by the fetches of the old start comes after the new one's
    registration.
    """
    topic_id = story.place("t", ids)
    leader, other, rebooted = story.brokers
    story.run(4 * S)
    story.world.network.cut(leader.id, rebooted.id)
    story.until(lambda: story.partition(topic_id).isr == (leader.id, other.id))
    old_epoch = rebooted.epoch
    rebooted.cut_power(down_us=100 * MS)
    story.until(
        lambda: story.cluster.auditor.brokers[rebooted.id].epoch > old_epoch and story.cluster.is_well
    )
    isr = {leader.id: leader.epoch, other.id: other.epoch}
    assert error_of(story.alter(leader, topic_id, isr | {rebooted.id: old_epoch})) == INELIGIBLE_REPLICA
    assert rebooted.id not in story.partition(topic_id).isr
    story.world.network.heal()
    story.until(lambda: rebooted.id in story.partition(topic_id).isr)
    assert lacking(story, topic_id, rebooted) == 0


def test_a_start_that_registers_again_stays_unfenced(story: Story, ids: tuple[NodeId, ...]) -> None:
    """KAFKA-16757: it leads on, in its epoch and in that of its partitions."""
    topic_id = story.place("t", ids)
    broker = story.brokers[0]
    before = story.partition(topic_id)
    broker._register()
    story.run(2 * S)
    registered = story.cluster.auditor.brokers[broker.id]
    assert (registered.epoch, registered.is_fenced) == (broker.epoch, False)
    after = story.partition(topic_id)
    assert (after.leader, after.leader_epoch, after.isr) == (before.leader, before.leader_epoch, before.isr)


def test_who_stopped_in_order_is_taken_back_at_once(story: Story) -> None:
    broker = story.brokers[0]
    old_epoch = broker.epoch
    broker.stop()
    story.until(lambda: not broker.is_up)
    broker.start()
    story.until(lambda: story.cluster.auditor.brokers[broker.id].epoch > old_epoch, SESSION_US // 2)


def test_a_new_topic_is_led_by_who_is_there(story: Story, ids: tuple[NodeId, ...]) -> None:
    """The first of the chosen replicas is fenced: it is no leader, and not in sync."""
    away = story.brokers[0]
    away.crash()
    story.until(lambda: story.cluster.fencings[away.id] > 0)
    topic = m.CreateTopicsRequestCreatableTopic(
        name="t",
        num_partitions=-1,
        replication_factor=-1,
        assignments=(m.CreateTopicsRequestCreatableReplicaAssignment(partition_index=0, broker_ids=ids),),
    )
    request = m.CreateTopicsRequest(topics=(topic,), timeout_ms=30_000)
    (made,) = story.ask(request, story.brokers[1]).topics
    assert made.error_code == 0
    story.until(lambda: (made.topic_id, 0) in story.cluster.auditor.partitions)
    assert story.partition(made.topic_id).isr == ids[1:]
    away.start()
    story.until(lambda: story.partition(made.topic_id).isr == (*ids[1:], away.id))


def test_a_directory_that_fails_is_left(story: Story, ids: tuple[NodeId, ...]) -> None:
    """KIP-858: what is in it is led by others; the broker goes on with the rest."""
    topics = [story.place(f"t{number}", ids) for number in range(6)]
    story.run(3 * S)
    broker = story.brokers[0]
    assert broker.fail_directory()
    lost = {key[0] for key, where in broker.disk.replicas.items() if where in broker.disk.failed}
    story.until(lambda: all(story.partition(one).leader != broker.id for one in lost))
    assert {one for one in topics if story.partition(one).leader == broker.id} == set(topics) - lost


def test_a_directory_that_fails_is_not_given_back_by_who_looks_for_leaders() -> None:
    """Its broker alone has what is in it, and somebody looks for leaders all the time: it is lost all the
    same, and the broker is answered, and goes on with the rest.
    """
    story = Story(slice_records=3, unclean_ms=10)
    broker = story.brokers[0]
    topic_id = story.place("t", *[(broker.id,)] * 60)
    story.run(3 * S)
    assert broker.fail_directory()
    lost = {key for key, where in broker.disk.replicas.items() if where in broker.disk.failed}
    before = sum(story.partition(*key).leader_epoch for key in lost)
    registered = lambda: story.leader.parts.controller.image[BROKERS].get(broker.id)  # noqa: E731
    story.until(lambda: len(registered().log_dirs) == 1, 5 * S)
    story.run(1 * S)
    led = {number for number in range(60) if story.partition(topic_id, number).leader == broker.id}
    assert led == set(range(60)) - {number for _, number in lost}
    assert 20 < len(lost) == sum(story.partition(*key).leader_epoch for key in lost) - before
    story.world.close()


# --- where replicas are -------------------------------------------------------------------------------------


def ask_to_move(story: Story, *replicas: NodeId, name: str = "t") -> int:
    """Move the only partition of a topic; the error."""
    one = m.AlterPartitionReassignmentsRequestReassignablePartition(0, replicas or None)
    topic = m.AlterPartitionReassignmentsRequestReassignableTopic(name, (one,))
    asker = next(broker for broker in story.brokers if broker.is_up)
    request = m.AlterPartitionReassignmentsRequest(timeout_ms=30_000, topics=(topic,))
    return int(story.ask(request, asker).responses[0].partitions[0].error_code)


@pytest.fixture
def four() -> Iterator[Story]:
    story = Story(brokers=4)
    yield story
    story.world.close()


def test_a_sick_replica_does_not_hold_a_move_up(four: Story) -> None:
    """KAFKA-19975: as many good copies at its end as there were."""
    first, second, sick, new = (broker.id for broker in four.brokers)
    topic_id = four.place("t", (first, second, sick))
    four.run(4 * S)
    four.brokers[2].crash()
    four.until(lambda: four.partition(topic_id).isr == (first, second))
    epoch = four.partition(topic_id).leader_epoch
    assert ask_to_move(four, new, second, sick) == 0
    four.until(lambda: not four.partition(topic_id).is_moving)
    after = four.partition(topic_id)
    assert (after.replicas, after.isr) == ((new, second, sick), (second, new))
    assert after.leader_epoch > epoch
    assert lacking(four, topic_id, four.brokers[3]) == 0


def test_a_move_to_fewer_waits_for_all_that_stay(four: Story) -> None:
    """KAFKA-15665: three good copies shall not become one."""
    first, second, sick, new = (broker.id for broker in four.brokers)
    topic_id = four.place("t", (first, second, sick))
    four.run(4 * S)
    four.brokers[2].crash()
    four.until(lambda: four.partition(topic_id).isr == (first, second))
    assert ask_to_move(four, new, sick) == 0
    four.until(lambda: new in four.partition(topic_id).isr)
    four.run(2 * SESSION_US)
    assert four.partition(topic_id).is_moving
    assert {first, second} <= set(four.partition(topic_id).isr)
    four.brokers[2].start()
    four.until(lambda: not four.partition(topic_id).is_moving)
    assert sorted(four.partition(topic_id).isr) == sorted((new, sick))


def test_a_move_that_is_called_off_leaves_what_was_there(four: Story) -> None:
    first, second, third, new = (broker.id for broker in four.brokers)
    topic_id = four.place("t", (first, second, third))
    four.run(4 * S)
    four.world.network.cut(first, new)
    assert ask_to_move(four, new, second) == 0
    four.run(2 * S)
    assert four.partition(topic_id).is_moving
    assert ask_to_move(four) == 0
    after = four.partition(topic_id)
    assert (after.replicas, after.isr, after.is_moving) == (
        (second, first, third),
        (first, second, third),
        False,
    )


def test_a_replica_that_comes_back_has_to_catch_up(four: Story) -> None:
    """Moved away and back: its broker deleted it meanwhile."""
    first, second, third, new = (broker.id for broker in four.brokers)
    topic_id = four.place("t", (first, second, third))
    four.run(4 * S)
    epoch = four.partition(topic_id).leader_epoch
    assert ask_to_move(four, first, second, new) == 0
    four.until(lambda: not four.partition(topic_id).is_moving)
    assert four.partition(topic_id).leader_epoch == epoch + 1  # the leader learns that a replica is gone
    four.run(2 * S)
    assert (topic_id, 0) not in four.brokers[2].disk.replicas
    four.world.network.cut(first, third)
    assert ask_to_move(four, first, second, third) == 0
    four.run(2 * SESSION_US)
    assert third not in four.partition(topic_id).isr
    assert new in four.partition(topic_id).replicas
    four.world.network.heal()
    four.until(lambda: not four.partition(topic_id).is_moving)
    assert lacking(four, topic_id, four.brokers[2]) == 0


# --- what is undone, and what is gone -----------------------------------------------------------------------


def test_what_a_deposed_leader_appended_is_undone(story: Story, ids: tuple[NodeId, ...]) -> None:
    """KAFKA-14035: topics made, grown and deleted above what is committed; all images are the same again."""
    kept = story.place("kept", ids, retention_ms="1000")
    leader = story.leader
    asker = story.brokers[0]
    for other in story.world.node_ids:
        if other != leader.id:
            story.world.network.cut(leader.id, other)
    named = (m.DeleteTopicsRequestDeleteTopicState(name="kept"),)
    again = m.CreateTopicsRequestCreatableTopic(name="kept", num_partitions=5, replication_factor=3)
    for request in (
        m.DeleteTopicsRequest(topics=named, timeout_ms=500),
        m.CreateTopicsRequest(topics=(again,), timeout_ms=500),
        m.DeleteTopicsRequest(topics=named, timeout_ms=500),
    ):
        asker.forward(request, lambda _: None, lambda: None)
        story.run(100 * MS)
    others = [node for node in story.world.nodes.values() if node is not leader]
    story.until(lambda: any(node.is_leader for node in others), 20 * S)
    successor = next(node for node in others if node.is_leader)
    story.world.network.heal()
    story.until(lambda: story.cluster.is_well)
    successor.crash(down_us=20 * S)
    story.until(lambda: story.leader is not successor and story.cluster.is_well)
    assert story.create("more") == 0
    story.run(3 * S)
    images = {broker.disk.log.image.hash() for broker in story.brokers}
    assert images == {story.leader.parts.controller.image.hash()}  # type: ignore[union-attr]
    if story.cluster.partition_judge._gone:  # the broker sent the deletion once more, to the successor
        assert story.brokers[0].disk.log.image[TOPICS].get(kept) is None
    else:
        assert story.partition(kept).isr == ids


def test_what_was_deleted_while_its_broker_was_away_is_gone(story: Story, ids: tuple[NodeId, ...]) -> None:
    """KAFKA-14616: deleted and made again under its name; who was away drops the old replica, and has the
    new one from the others.
    """
    old = story.place("t", ids, retention_ms="1000")
    story.run(4 * S)
    away = story.brokers[2]
    away.crash()
    story.until(lambda: story.cluster.fencings[away.id] > 0)
    delete(story, "t")
    new = story.place("t", ids)
    away.start()
    story.until(lambda: sorted(story.partition(new).isr) == sorted(ids))
    story.run(1 * S)
    assert [key for key in away.disk.replicas if key[0] in (old, new)] == [(new, 0)]
    image = away.disk.log.image
    assert image[CONFIGS].get(2, "t", "retention.ms") is None
    story.cluster.converge(story.world.auditor.committed[0], 5 * S)


def test_two_topics_of_one_name_are_not_made_at_once(story: Story) -> None:
    """Decided on what is appended, not on what is committed."""
    heard: list[Any] = []
    topic = m.CreateTopicsRequestCreatableTopic(name="t", num_partitions=1, replication_factor=3)
    for broker in story.brokers:
        broker.forward(m.CreateTopicsRequest(topics=(topic,), timeout_ms=30_000), heard.append, lambda: None)
    story.until(lambda: len(heard) == 3)
    assert sorted(response.topics[0].error_code for response in heard) == [0, 36, 36]


# --- what is denied -----------------------------------------------------------------------------------------


def entry(
    principal: str, operation: AclOperation, permission: AclPermission, resource: AclResource, name: str
) -> m.CreateAclsRequestAclCreation:
    pattern = AclPattern.PREFIXED if resource is AclResource.TOPIC else AclPattern.LITERAL
    return m.CreateAclsRequestAclCreation(resource, name, pattern, principal, "*", operation, permission)


class Guarded:
    """A cluster with an authorizer, and clients of it."""

    def __init__(self) -> None:
        self.story = Story(authorized=True)
        allow, topic = AclPermission.ALLOW, AclResource.TOPIC
        self.add(
            entry("User:*", AclOperation.ALL, allow, topic, "t"),
            entry("User:*", AclOperation.DESCRIBE, allow, AclResource.CLUSTER, CLUSTER_NAME),
        )

    def ask(self, who: str, request: Any) -> Any:
        story = self.story
        sent = enveloped(request, 1, Principal("User", who))
        return opened(story.world, story.ask(sent), request)

    def add(self, *entries: m.CreateAclsRequestAclCreation) -> None:
        told = self.ask("ANONYMOUS", m.CreateAclsRequest(entries))
        assert {result.error_code for result in told.results} == {0}

    def deny(self, who: str, operation: AclOperation) -> m.CreateAclsRequestAclCreation:
        denied = entry(f"User:{who}", operation, AclPermission.DENY, AclResource.TOPIC, "t")
        self.add(denied)
        return denied

    def allow_again(self, denied: m.CreateAclsRequestAclCreation) -> None:
        wanted = m.DeleteAclsRequestDeleteAclsFilter(
            denied.resource_type,
            denied.resource_name,
            denied.resource_pattern_type,
            denied.principal,
            denied.host,
            denied.operation,
            denied.permission_type,
        )
        told = self.ask("ANONYMOUS", m.DeleteAclsRequest((wanted,)))
        assert len(told.filter_results[0].matching_acls) == 1

    def create(self, who: str, name: str) -> int:
        topic = m.CreateTopicsRequestCreatableTopic(name=name, num_partitions=1, replication_factor=1)
        told = self.ask(who, m.CreateTopicsRequest(topics=(topic,), timeout_ms=30_000))
        return int(told.topics[0].error_code)

    def grow(self, who: str, name: str, count: int) -> int:
        grown = m.CreatePartitionsRequestCreatePartitionsTopic(name=name, count=count, assignments=None)
        told = self.ask(who, m.CreatePartitionsRequest(topics=(grown,), timeout_ms=30_000))
        return int(told.results[0].error_code)

    def delete(self, who: str, name: str) -> int:
        named = (m.DeleteTopicsRequestDeleteTopicState(name=name),)
        told = self.ask(who, m.DeleteTopicsRequest(topics=named, timeout_ms=30_000))
        return int(told.responses[0].error_code)


@pytest.fixture
def guarded() -> Iterator[Guarded]:
    guarded = Guarded()
    yield guarded
    guarded.story.world.close()


NOT_ALLOWED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_what_is_denied_is_not_done_whoever_leads(guarded: Guarded) -> None:
    """Each operation, for the one and not for the other, before and after the active controller is gone."""
    assert guarded.create("eve", "t0") == 0
    rules = [
        guarded.deny("eve", each) for each in (AclOperation.CREATE, AclOperation.ALTER, AclOperation.DELETE)
    ]
    for number in (1, 2):
        assert guarded.create("eve", f"t{number}") == NOT_ALLOWED
        assert guarded.grow("eve", "t0", 9) == NOT_ALLOWED
        assert guarded.delete("eve", "t0") == NOT_ALLOWED
        assert guarded.create("bob", f"t{number}") == 0
        assert guarded.grow("bob", f"t{number}", 2) == 0
        guarded.story.leader.crash(down_us=10 * S)
    for rule in rules:
        guarded.allow_again(rule)
    assert guarded.grow("eve", "t0", 2) == guarded.create("eve", "t3") == guarded.delete("eve", "t0") == 0


def test_a_rule_that_is_taken_back_leaves_those_of_others(guarded: Guarded) -> None:
    rule = guarded.deny("eve", AclOperation.CREATE)
    guarded.deny("bob", AclOperation.CREATE)
    guarded.deny("eve", AclOperation.DELETE)
    guarded.allow_again(rule)
    assert guarded.create("eve", "t1") == 0
    assert guarded.create("bob", "t2") == NOT_ALLOWED
    assert guarded.delete("eve", "t1") == NOT_ALLOWED


def test_an_operator_who_may_not_alter_the_cluster_changes_nothing(guarded: Guarded) -> None:
    """Moves and elections need a right to the cluster, which the gate of the new active controller knows."""
    story = guarded.story
    ids = tuple(broker.id for broker in story.brokers)
    topic_id = story.place("t", ids)
    guarded.add(entry("User:eve", AclOperation.ALTER, AclPermission.ALLOW, AclResource.CLUSTER, CLUSTER_NAME))
    one = m.AlterPartitionReassignmentsRequestReassignablePartition(0, ids[1:])
    topic = m.AlterPartitionReassignmentsRequestReassignableTopic("t", (one,))
    move = m.AlterPartitionReassignmentsRequest(timeout_ms=30_000, topics=(topic,))
    elect = m.ElectLeadersRequest(topic_partitions=None)
    assert guarded.ask("eve", elect).error_code == 0
    guarded.add(entry("User:*", AclOperation.ALL, AclPermission.DENY, AclResource.CLUSTER, CLUSTER_NAME))
    for _ in range(2):
        assert guarded.ask("eve", elect).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert guarded.ask("eve", move).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        story.leader.crash(down_us=10 * S)
    assert story.partition(topic_id).replicas == ids
