"""Elections that nobody asked for: preferred leaders get their partitions back, the leaderless a leader."""

import pytest

from kraftd.controller.brokers import staged_plan
from kraftd.protocol.messages import BrokerHeartbeatRequest
from kraftd.records.messages import ConfigRecord, PartitionChangeRecord
from tests.unit.controller.broker_world import SESSION_MS, BrokerWorld

BROKER, TOPIC = 4, 2
UNCLEAN = "unclean.leader.election.enable"
CHECK_MS = 300_000
"""Both of Kafka's defaults."""


def restarted(partitions=3, **settings):
    """Broker 5 was away, is in sync again, and leads nothing."""
    world = BrokerWorld(**settings)
    world.up(5, 6)
    topic = world.topic(1, *[(5, 6)] * partitions)
    world.beat(5, want_fence=True)
    world.beat(5)
    world.append(*[PartitionChangeRecord(number, topic, isr=(6, 5)) for number in range(partitions)])
    assert leaders(world, topic, partitions) == {6}
    world.lines.clear()
    return world, topic


def without_leader(**settings):
    """Only broker 5 was in sync, and it is gone."""
    world = BrokerWorld(**settings)
    world.up(5, 6)
    topic = world.topic(1, (5, 6))
    world.append(PartitionChangeRecord(0, topic, isr=(5,)))
    world.beat(5, want_fence=True)
    assert world.partition(topic).leader == -1
    world.lines.clear()
    return world, topic


def leaders(world, topic, partitions=1):
    return {world.partition(topic, number).leader for number in range(partitions)}


def test_the_first_replica_leads_again_after_the_interval():
    world, topic = restarted()
    world.wait(CHECK_MS - SESSION_MS, 5, 6)
    assert leaders(world, topic, 3) == {6}
    world.wait(SESSION_MS, 5, 6)
    assert leaders(world, topic, 3) == {5}
    assert [world.partition(topic, number).isr for number in range(3)] == [(6, 5)] * 3
    assert world.line("preferred_leaders_elected") == {"partitions": 3, "new_leaders": 3, "offline": 0}


def test_what_changes_nothing_is_written_and_told_nowhere():
    world, topic = restarted()
    world.wait(CHECK_MS, 5, 6)
    at = len(world.log)
    world.lines.clear()
    world.wait(3 * CHECK_MS, 5, 6)
    assert [record for record in world.log[at:] if isinstance(record, PartitionChangeRecord)] == []
    assert world.events() == []
    assert leaders(world, topic, 3) == {5}


@pytest.mark.parametrize(
    "settings", [{"auto_leader_rebalance": False}, {"leader_imbalance_check_interval_seconds": 3_600}]
)
def test_the_configuration_file_says_whether_and_how_often(settings):
    world, topic = restarted(**settings)
    world.wait(2 * CHECK_MS, 5, 6)
    assert leaders(world, topic, 3) == {6}
    world.wait(3_600_000, 5, 6, step_ms=4_000)
    assert leaders(world, topic, 3) == ({6} if "auto_leader_rebalance" in settings else {5})


def test_who_is_out_of_sync_or_shutting_down_is_not_preferred():
    world, topic = restarted()
    world.append(PartitionChangeRecord(1, topic, isr=(6,)))
    world.wait(CHECK_MS, 5, 6)
    assert [world.partition(topic, number).leader for number in range(3)] == [5, 6, 5]
    world, topic = restarted()
    other = world.topic(2, (5,))
    assert not world.beat(5, stop=True).should_shut_down
    world.wait(CHECK_MS, 5, 6)
    assert leaders(world, topic, 3) == {6}
    assert world.partition(other).leader in (-1, 5)


def test_many_are_elected_slice_by_slice(monkeypatch):
    monkeypatch.setattr(staged_plan, "SLICE_RECORDS", 4)
    world, topic = restarted(20)
    sizes = []
    commit = world.commit

    def noted():
        sizes.extend(len(write.records) for write, _ in world.waiting)
        commit()

    world.commit = noted
    world.wait(CHECK_MS, 5, 6)
    assert leaders(world, topic, 20) == {5}
    assert max(sizes) <= 4
    assert len(world.events()) == 1


def test_an_unclean_leader_is_elected_at_the_interval_once_a_config_allows_it():
    world, topic = without_leader()
    world.wait(CHECK_MS, 6)
    assert leaders(world, topic) == {-1}
    world.append(ConfigRecord(TOPIC, "t1", UNCLEAN, "true"))
    world.settle()
    assert leaders(world, topic) == {-1}, "as in Kafka, not before the interval"
    world.wait(CHECK_MS, 6)
    partition = world.partition(topic)
    assert (partition.leader, partition.isr, partition.leader_recovery_state) == (6, (6,), 1)
    assert world.line("leaderless_partitions_led")["new_leaders"] == 1


def test_the_clusters_config_allows_it_too_and_the_topics_own_forbids_it():
    world, topic = without_leader(unclean_leader_election_interval_ms=2_000)
    world.append(ConfigRecord(BROKER, "", UNCLEAN, "true"), ConfigRecord(TOPIC, "t1", UNCLEAN, "false"))
    world.wait(10_000, 6)
    assert leaders(world, topic) == {-1}
    world.append(ConfigRecord(TOPIC, "t1", UNCLEAN, None))
    world.wait(3_000, 6)
    assert leaders(world, topic) == {6}


@pytest.mark.parametrize("held", [False, True])
def test_who_is_being_fenced_is_elected_by_no_timer_meanwhile(monkeypatch, held):
    """Broker 5 alone has ten partitions. Fencing it takes slices, and until its own record it is active: an
    election would give back what a slice has just taken, and neither would end.
    """
    monkeypatch.setattr(staged_plan, "SLICE_RECORDS", 4)
    world = BrokerWorld(unclean_leader_election_interval_ms=100)
    world.up(5, 6)
    topic = world.topic(1, *[(5,)] * 10)
    epoch = world.broker(5).broker_epoch
    if held:
        world.send(BrokerHeartbeatRequest(5, epoch, 1 << 40, cordoned_log_dirs=(bytes(15) + b"1",)), 2)
    fence = world.send(BrokerHeartbeatRequest(5, epoch, 1 << 40, want_fence=True), 2)
    for _ in range(2):
        world.commit()
        world.slice()
    assert leaders(world, topic, 10) == {-1, 5}
    for _ in range(20):
        world.now_ms += 100
        world.waiting.extend((write, None) for write in [world.controller.poll(world.now)] if write)
        world.commit()
        world.slice()
    assert world.answers[fence].is_fenced
    assert leaders(world, topic, 10) == {-1}
    world.settle()
    assert not world.beat(5).is_fenced
    assert leaders(world, topic, 10) == {5}
    assert len([record for record in world.log if isinstance(record, PartitionChangeRecord)]) == 20


def test_a_new_active_controller_holds_them_too():
    world, topic = restarted()
    world.controller.leader_changed(world.epoch, -1, is_self=False)
    world.lead(world.epoch + 1)
    world.wait(CHECK_MS, 5, 6)
    assert leaders(world, topic, 3) == {5}
