"""What once went wrong between Kafka's brokers and controllers does not here: one small cluster a story.

Three controllers and three brokers, of which nothing is broken but what a story breaks. Each test names the
story as `docs/promises.md` and the mutants do.
"""

from typing import Any

import pytest

from kraftd.audit.invariant import Violation
from kraftd.errors import ErrorCode
from kraftd.metadata.parts.brokers import BROKERS
from kraftd.metadata.parts.configs import CONFIGS
from kraftd.metadata.parts.topics import TOPICS
from kraftd.protocol import messages as m
from kraftd.types import NO_NODE, NodeId, Uuid
from tests.sim.broker_log import MetadataLog
from tests.sim.broker_process import LOADED
from tests.sim.broker_story import SESSION_US, SHAPE, Story, delete, error_of
from tests.sim.fault_base import MS, S

INVALID_REPLICATION_FACTOR = 38
STALE_BROKER_EPOCH = 77
INVALID_UPDATE_VERSION = 95
UNKNOWN_TOPIC_ID = 100
INELIGIBLE_REPLICA = 107


def test_overload_fences_nobody(story: Story) -> None:
    """KAFKA-17793: heartbeats that waited while the controller was busy were in time."""
    story.world.brokers.fencings.clear()
    for _ in range(3):
        leader = story.leader
        assert leader.loop is not None
        leader.loop.block_us(int(0.9 * S))
        story.run(1 * S)
    for node in story.world.nodes.values():
        assert node.loop is not None
        node.loop.block_us(2 * SESSION_US)
    story.run(6 * S)
    assert not story.world.brokers.fencings


def test_a_poisonous_request_costs_itself_only(story: Story, ids: tuple[NodeId, ...]) -> None:
    """KAFKA-14204: an operation that is too large is refused, and nobody is elected for it."""
    leaders = list(story.world.leaders)
    assert story.create("large", partitions=10_001, factor=1) == ErrorCode.POLICY_VIOLATION
    story.run(3 * S)
    assert story.world.leaders == leaders
    assert story.create("small") == 0
    assert story.partition(_id_of(story, "small")).isr == _isr_of(story, "small", ids)


def _id_of(story: Story, name: str) -> Uuid:
    topic_id = story.brokers[0].disk.log.image[TOPICS].id_of(name)
    if topic_id is None:
        story.until(lambda: story.brokers[0].disk.log.image[TOPICS].id_of(name) is not None)
        topic_id = story.brokers[0].disk.log.image[TOPICS].id_of(name)
    assert topic_id is not None
    return topic_id


def _isr_of(story: Story, name: str, ids: tuple[NodeId, ...]) -> tuple[NodeId, ...]:
    """All replicas, in the order of the placement."""
    replicas = tuple(story.partition(_id_of(story, name)).replicas)
    assert sorted(replicas) == sorted(ids)
    return replicas


def test_a_broker_that_has_nothing_loads_a_snapshot_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader tells it no records but a snapshot, which it loads in pieces; then it is as any other."""
    for field, value in (("snapshot_bytes", 2_000), ("snapshot_interval_ms", 0)):
        monkeypatch.setitem(SHAPE, field, value)
    story = Story()
    away = story.brokers[2]
    away.crash()
    assert story.create("t", partitions=50, factor=2) == 0
    story.run(5 * S)
    away.disk.log = MetadataLog()
    away.start()
    story.until(lambda: story.cluster.is_well)
    assert story.world.statistics[LOADED] == 1
    assert away.disk.log.image[TOPICS].id_of("t") is not None
    story.world.close()


def test_many_sessions_that_end_at_once_are_worked_off_one_by_one() -> None:
    """KAFKA-13173: what the second death means is decided on what the first one made."""
    story = Story(slice_records=3)
    ids = tuple(broker.id for broker in story.brokers)
    topics = [story.place(f"t{number}", ids, ids[1:] + ids[:1]) for number in range(3)]
    for broker in story.brokers[:2]:
        for node_id in story.world.node_ids:
            story.world.network.cut(node_id, broker.id)
    last = story.brokers[2]
    story.until(lambda: story.cluster.fencings[ids[0]] > 0 and story.cluster.fencings[ids[1]] > 0)
    for topic_id in topics:
        for number in (0, 1):
            assert story.partition(topic_id, number).leader == last.id
            assert story.partition(topic_id, number).isr == (last.id,)
    story.world.network.heal()
    story.until(lambda: story.cluster.is_well)
    story.world.close()


@pytest.mark.parametrize("when_us", [0, 100 * MS, 900 * MS])
def test_who_dies_during_a_failover_is_fenced(story: Story, ids: tuple[NodeId, ...], when_us: int) -> None:
    """KAFKA-18138: a new active controller has never heard of the dead one, and fences it all the same."""
    topic_id = story.place("t", ids)
    story.leader.crash(down_us=20 * S)
    story.run(when_us)
    story.brokers[0].crash()
    story.until(lambda: story.cluster.fencings[ids[0]] > 0, SESSION_US * 2 + 5 * S)
    assert story.partition(topic_id).leader in ids[1:]


def test_a_fenced_or_stopping_replica_enters_no_isr(story: Story, ids: tuple[NodeId, ...]) -> None:
    """KIP-841: a leader that does not know that a follower is fenced cannot bring it back."""
    topic_id = story.place("t", ids)
    leader, other, gone = story.brokers
    gone.crash()
    story.until(lambda: story.cluster.fencings[gone.id] > 0)
    epochs = {broker.id: broker.epoch for broker in story.brokers}
    assert error_of(story.alter(leader, topic_id, epochs)) == INELIGIBLE_REPLICA
    assert story.partition(topic_id).isr == (leader.id, other.id)


def test_a_replica_that_rebooted_enters_no_isr_under_its_old_epoch(
    story: Story, ids: tuple[NodeId, ...]
) -> None:
    """KIP-903: what the old start of a broker had fetched says nothing of what the new one has."""
    topic_id = story.place("t", ids)
    leader, other, rebooted = story.brokers
    old_epoch = rebooted.epoch
    rebooted.crash(down_us=100 * MS)
    story.until(
        lambda: story.cluster.auditor.brokers[rebooted.id].epoch > old_epoch and story.cluster.is_well
    )
    # Nobody is brought back meanwhile: the leader does not hear the new start.
    story.world.network.cut(rebooted.id, leader.id)
    isr = {leader.id: leader.epoch, other.id: other.epoch}
    if story.partition(topic_id).isr != (leader.id, other.id):
        story.until(lambda: rebooted.id not in story.partition(topic_id).isr)
    now = story.partition(topic_id)
    if now.leader == leader.id:
        response = story.alter(leader, topic_id, isr | {rebooted.id: old_epoch})
        assert error_of(response) == INELIGIBLE_REPLICA
        assert rebooted.id not in story.partition(topic_id).isr


def test_a_controller_that_is_behind_does_not_judge(story: Story, ids: tuple[NodeId, ...]) -> None:
    """KAFKA-14154: a leader that is ahead is told to look for another controller, not that it is wrong."""
    topic_id = story.place("t", ids)
    leader = story.brokers[0]
    epochs = {broker.id: broker.epoch for broker in story.brokers}
    heard: list[Any] = []
    now = story.partition(topic_id)
    proposal = m.AlterPartitionRequestPartitionData(
        partition_index=0,
        leader_epoch=now.leader_epoch,
        new_isr_with_epochs=tuple(
            m.AlterPartitionRequestBrokerState(broker_id=member, broker_epoch=epoch)
            for member, epoch in epochs.items()
        ),
        partition_epoch=now.epoch + 50,
    )
    request = m.AlterPartitionRequest(
        broker_id=leader.id,
        broker_epoch=leader.epoch,
        topics=(m.AlterPartitionRequestTopicData(topic_id=topic_id, partitions=(proposal,)),),
    )
    # NOT_CONTROLLER makes the channel ask again, for as long as it may.
    assert leader.forward(request, heard.append, lambda: heard.append(None))
    story.run(5 * S)
    assert heard == []
    after = story.partition(topic_id)
    assert (after.isr, after.leader, after.leader_epoch) == (now.isr, now.leader, now.leader_epoch)


def test_an_older_proposal_is_refused_and_a_newer_one_taken(story: Story, ids: tuple[NodeId, ...]) -> None:
    """KAFKA-12367: the partition epoch that a leader is told is the one that its next proposal needs."""
    topic_id = story.place("t", ids)
    leader = story.brokers[0]
    epochs = {broker.id: broker.epoch for broker in story.brokers}
    without = {member: epoch for member, epoch in epochs.items() if member != ids[2]}
    before = story.partition(topic_id).epoch
    shrunk = story.alter(leader, topic_id, without)
    assert error_of(shrunk) == 0
    told = shrunk.topics[0].partitions[0]
    assert (told.partition_epoch, told.isr) == (before + 1, ids[:2])
    refused = story.alter(leader, topic_id, epochs, partition_epoch=before)
    assert error_of(refused) in (INVALID_UPDATE_VERSION, 0)
    story.until(lambda: story.partition(topic_id).isr in (ids, (*ids[:2], ids[2])))


def test_a_stale_leader_epoch_and_a_stale_broker_are_told_so(story: Story, ids: tuple[NodeId, ...]) -> None:
    topic_id = story.place("t", ids)
    leader = story.brokers[0]
    epochs = {broker.id: broker.epoch for broker in story.brokers}
    story.brokers[0].crash(down_us=100 * MS)
    old = {"broker_epoch": epochs[leader.id]}
    story.until(lambda: story.partition(topic_id).leader not in (leader.id, NO_NODE))
    story.until(lambda: story.cluster.is_well)
    response = story.alter(leader, topic_id, epochs, **old)
    assert response.error_code == STALE_BROKER_EPOCH
    response = story.alter(leader, topic_id, epochs, leader_epoch=0, partition_epoch=0)
    assert error_of(response) == ErrorCode.FENCED_LEADER_EPOCH
    unknown = m.AlterPartitionRequestPartitionData(partition_index=0, leader_epoch=0, partition_epoch=0)
    topic = m.AlterPartitionRequestTopicData(topic_id=b"?" * 16, partitions=(unknown,))
    request = m.AlterPartitionRequest(broker_id=leader.id, broker_epoch=leader.epoch, topics=(topic,))
    assert error_of(story.ask(request, leader)) == UNKNOWN_TOPIC_ID


def test_a_shutdown_ends_while_the_log_goes_on(story: Story, ids: tuple[NodeId, ...]) -> None:
    """KAFKA-14292: what the others must have read is noted once, or a busy cluster never lets a broker go."""
    leaving = story.brokers[-1]  # topics are created through the first
    topic_id = story.place("t", (leaving.id, *ids[:-1]))
    leaving.stop()
    ended = False
    for number in range(60):
        if not leaving.is_up:
            ended = True
            break
        story.create(f"more-{number}", factor=2) if number % 2 else story.run(100 * MS)
    assert ended
    assert story.partition(topic_id).leader in ids[:-1]
    assert leaving.id not in story.partition(topic_id).isr


def test_the_same_process_registers_again_and_stays_what_it_is(story: Story) -> None:
    """KAFKA-16952: neither its epoch nor its being unfenced changes."""
    broker = story.brokers[0]
    listener = m.BrokerRegistrationRequestListener(name="PLAINTEXT", host=f"m{broker.id}", port=9_092)
    features = tuple(
        m.BrokerRegistrationRequestFeature(
            name=feature.name,
            min_supported_version=feature.min_supported_version,
            max_supported_version=feature.max_supported_version,
        )
        for feature in broker.disk.log.image[BROKERS].get(broker.id).features  # type: ignore[union-attr]
    )
    request = m.BrokerRegistrationRequest(
        broker_id=broker.id,
        cluster_id=story.world.nodes[1].cluster_id,
        incarnation_id=broker.incarnation_id,
        listeners=(listener,),
        features=features,
        rack="another",
        log_dirs=broker.disk.working,
        previous_broker_epoch=-1,
    )
    response = story.ask(request, broker)
    assert (response.error_code, response.broker_epoch) == (0, broker.epoch)
    story.until(lambda: broker.disk.log.image[BROKERS].get(broker.id).rack == "another")  # type: ignore[union-attr]
    assert story.cluster.auditor.brokers[broker.id].is_active


def test_a_broker_of_another_cluster_is_refused(story: Story) -> None:
    """KAFKA-13528."""
    foreign = m.BrokerRegistrationRequest(
        broker_id=2_099,
        cluster_id="b3RoZXJjbHVzdGVy",
        incarnation_id=b"f" * 16,
        listeners=(m.BrokerRegistrationRequestListener(name="PLAINTEXT", host="m2099", port=9_092),),
        log_dirs=(b"other directory!",),
    )
    assert story.ask(foreign).error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
    assert 2_099 not in story.cluster.auditor.brokers


def test_a_topic_that_came_and_went_unseen_is_not_there(story: Story) -> None:
    """KAFKA-19383: a broker that reads creation and deletion at once has no zombie of it."""
    sleeper = story.brokers[2]
    for node_id in story.world.node_ids:
        story.world.network.cut(node_id, sleeper.id)
    assert story.create("short", factor=2) == 0
    delete(story, "short")
    assert story.create("short", partitions=2, factor=2) == 0
    story.world.network.heal()
    story.until(lambda: story.cluster.is_well and _published(story))
    topics = sleeper.disk.log.image[TOPICS]
    assert [topic.name for topic in topics.topics()] == ["short"]
    assert len(list(topics.partitions(topics.id_of("short")))) == 2  # type: ignore[arg-type]


def _published(story: Story) -> bool:
    """Whether all brokers have published the same."""
    return len({broker.disk.log.published_offset for broker in story.brokers if broker.is_up}) == 1


def test_a_topic_that_fails_leaves_no_configs(story: Story) -> None:
    """KAFKA-14612: of two topics in a request one cannot be made; nothing of it is in the log."""
    config = m.CreateTopicsRequestCreatableTopicConfig(name="retention.ms", value="1000")
    good, bad = (
        m.CreateTopicsRequestCreatableTopic(
            name=name, num_partitions=1, replication_factor=factor, configs=(config,)
        )
        for name, factor in (("good", 3), ("bad", 9))
    )
    response = story.ask(m.CreateTopicsRequest(topics=(bad, good), timeout_ms=30_000))
    errors = {topic.name: topic.error_code for topic in response.topics}
    assert errors == {"good": 0, "bad": INVALID_REPLICATION_FACTOR}
    story.until(lambda: story.brokers[0].disk.log.image[TOPICS].id_of("good") is not None)
    configured = {name for kind, name, *_ in _config_keys(story) if kind == 2}
    assert configured == {"good"}


def _config_keys(story: Story) -> list[tuple[int, str]]:
    records = CONFIGS.to_records(story.brokers[0].disk.log.image)
    return [(record.resource_type, record.resource_name) for record in records]  # type: ignore[attr-defined]


def test_what_is_not_committed_is_neither_published_nor_told(story: Story, ids: tuple[NodeId, ...]) -> None:
    """KAFKA-14857: a leader without followers appends a topic that never comes to be."""
    leader = story.leader
    others = [node for node in story.world.nodes.values() if node is not leader]
    for other in others:
        story.world.network.cut(leader.id, other.id)
    topic = m.CreateTopicsRequestCreatableTopic(name="never", num_partitions=1, replication_factor=3)
    heard: list[Any] = []
    before = {broker.id: broker.disk.log.published_offset for broker in story.brokers}
    request = m.CreateTopicsRequest(topics=(topic,), timeout_ms=1_000)
    story.brokers[0].forward(request, heard.append, lambda: heard.append(None))
    story.run(300 * MS)
    assert heard == []
    assert all(broker.disk.log.end_offset > before[broker.id] for broker in story.brokers)
    assert all(broker.disk.log.image[TOPICS].id_of("never") is None for broker in story.brokers)
    story.until(lambda: any(node.is_leader for node in others), 20 * S)
    story.world.network.heal()
    story.run(10 * S)
    assert len({broker.disk.log.image.hash() for broker in story.brokers}) == 1


def test_a_request_ends_by_its_deadline(story: Story) -> None:
    """KAFKA-12778: with nobody to commit it, a request is answered, and in time."""
    leader = story.leader
    for other in story.world.node_ids:
        if other != leader.id:
            story.world.nodes[other].pause()
    topic = m.CreateTopicsRequestCreatableTopic(name="late", num_partitions=1, replication_factor=3)
    heard: list[Any] = []
    request = m.CreateTopicsRequest(topics=(topic,), timeout_ms=1_000)
    story.brokers[0].forward(request, heard.append, lambda: heard.append(None))
    channel = story.brokers[0]._channel("forward")
    asked_at = channel._correlation_id
    story.run(4 * S)
    # Answered, with the outcome unknown, or sent on to look for another controller: it does not hang.
    assert heard or channel._correlation_id > asked_at


def test_a_name_that_no_line_can_be_made_of_ends_nothing(story: Story) -> None:
    """KAFKA-14259: what a broker says of itself is logged, whatever it is."""
    broker = story.brokers[0]
    listener = m.BrokerRegistrationRequestListener(name="%s{}\n", host="{0}\x00%", port=9_092)
    request = m.BrokerRegistrationRequest(
        broker_id=2_050,
        cluster_id=story.world.nodes[1].cluster_id,
        incarnation_id=b"n" * 16,
        listeners=(listener,),
        features=tuple(
            m.BrokerRegistrationRequestFeature(
                name=feature.name,
                min_supported_version=feature.min_supported_version,
                max_supported_version=feature.max_supported_version,
            )
            for feature in broker.disk.log.image[BROKERS].get(broker.id).features  # type: ignore[union-attr]
        ),
        rack="{rack!r:>9} %d \x1b[2J",
        log_dirs=(b"some directory!!",),
    )
    story.ask(request, broker)
    story.run(2 * SESSION_US)
    assert story.world.violation is None


def test_who_stopped_uncleanly_is_not_eligible(story: Story, ids: tuple[NodeId, ...]) -> None:
    """KAFKA-18106: eligible outside the ISR, it was killed: what it has is not trusted (KIP-966)."""
    topic_id = story.place("t", ids, min_insync_replicas="2")
    first, second, last = story.brokers
    first.crash()
    story.until(lambda: story.partition(topic_id).isr == (second.id, last.id))
    second.crash()
    story.until(lambda: story.partition(topic_id).isr == (last.id,))
    assert second.id in story.partition(topic_id).elr
    last.stop()
    story.until(lambda: not last.is_up)
    assert story.partition(topic_id).leader == NO_NODE
    second.start()
    story.until(lambda: second.is_unfenced)
    story.run(2 * SESSION_US)
    assert second.id not in story.partition(topic_id).elr
    assert story.partition(topic_id).leader == NO_NODE
    last.start()
    story.until(lambda: story.partition(topic_id).leader == last.id)


def test_a_directory_that_fails_takes_its_replicas_along(story: Story, ids: tuple[NodeId, ...]) -> None:
    topics = [story.place(f"t{number}", ids) for number in range(6)]
    story.run(3 * S)
    broker = story.brokers[0]
    working = broker.disk.working
    assert broker.fail_directory()
    (failed,) = broker.disk.failed
    lost = {key for key, where in broker.disk.replicas.items() if where == failed}
    story.until(lambda: failed not in story.cluster.auditor.brokers[broker.id].directories)
    assert working
    for topic_id in topics:
        partition = story.partition(topic_id)
        assert (broker.id in partition.isr) == ((topic_id, 0) not in lost)
    assert story.cluster.auditor.brokers[broker.id].is_active
    broker.crash(down_us=100 * MS)
    story.until(lambda: all(sorted(story.partition(one).isr) == sorted(ids) for one in topics), 60 * S)


def test_a_record_that_cannot_be_applied_ends_the_node(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """KAFKA-14275: a standby that met an error while applying does not go on with a hole in its image."""
    standby = next(node for node in story.world.nodes.values() if not node.is_leader)
    assert standby.parts is not None
    controller = standby.parts.controller
    monkeypatch.setattr(controller, "apply", lambda _: (_ for _ in ()).throw(KeyError("hole")))
    standby.parts.applier._state_machine = controller
    with pytest.raises(Violation, match="NodesOnlyDieOfTheirDisks"):
        for number in range(20):
            story.create(f"t{number}")
