"""What it means for partitions that a broker comes, goes, is started anew or loses a directory."""

from collections import Counter

import pytest

from kraftd.controller.context import ControllerSettings
from kraftd.controller.partitions import broker_changes
from kraftd.controller.partitions.broker_changes import leads_anything
from kraftd.metadata.config_schema import ResourceType
from kraftd.metadata.parts.topics import TOPICS
from kraftd.metadata.parts.topics.broker_index import ELIGIBLE
from kraftd.records.messages import (
    ConfigRecord,
    PartitionChangeRecord,
    RemoveTopicRecord,
    UnregisterBrokerRecord,
)
from tests.unit.controller.cluster import FENCE, STOP, UNFENCE, Cluster, directory, epoch_of, led

UNCLEAN = "unclean.leader.election.enable"
MIN_ISR = "min.insync.replicas"
LEAVES = ("fenced", "shutting_down")


def config(name, value, topic=None):
    kind = ResourceType.BROKER if topic is None else ResourceType.TOPIC
    return ConfigRecord(int(kind), topic or "", name, value)


def fence(cluster, broker):
    slices = cluster.work_off(broker_changes.fenced(broker))
    cluster.change(broker, fenced=FENCE)
    return slices


def unfence(cluster, broker):
    cluster.change(broker, fenced=UNFENCE)
    return cluster.work_off(broker_changes.unfenced(broker))


# -- a broker goes


@pytest.mark.parametrize("event", LEAVES)
def test_a_broker_that_goes_leads_nothing_and_is_in_sync_nowhere(event):
    cluster = Cluster()
    topic = cluster.topic("a", led((1, 2, 3)), led((2, 1, 3)), led((3, 2), isr=(3, 2)))
    changes = getattr(broker_changes, event)(1)
    assert cluster.work_off(changes) == [
        [
            PartitionChangeRecord(0, topic, isr=(2, 3), leader=2),
            PartitionChangeRecord(1, topic, isr=(2, 3)),
        ]
    ]
    assert not leads_anything(cluster.image, 1)
    assert not cluster.image[TOPICS].partitions_in_sync_on(1)
    assert (changes.counts.changed, changes.counts.moved, changes.counts.offline) == (2, 1, 0)


def test_the_last_in_sync_stays_so_and_its_partition_has_no_leader():
    cluster = Cluster()
    topic = cluster.topic("a", led((1, 2, 3), isr=(1,)))
    assert fence(cluster, 1) == [[PartitionChangeRecord(0, topic, leader=-1)]]
    assert unfence(cluster, 1) == [[PartitionChangeRecord(0, topic, leader=1)]]


def test_nobody_is_elected_who_is_fenced_or_stopping_or_whose_directory_is_gone():
    cluster = Cluster(brokers=(1, 2, 3, 4, 5))
    gone = directory(77)
    topic = cluster.topic(
        "a", led((1, 2, 3, 4, 5), directories=(directory(1), directory(2), directory(3), gone, directory(5)))
    )
    cluster.change(2, fenced=FENCE)
    cluster.change(3, in_controlled_shutdown=STOP)
    fence(cluster, 1)
    assert cluster.partition(topic).leader == 5


def test_an_unclean_election_only_where_it_is_allowed():
    cluster = Cluster()
    cluster.settings = ControllerSettings(static_configs={UNCLEAN: "true"})
    with_config = cluster.topic("careful", led((1, 2), isr=(1,)))
    without = cluster.topic("reckless", led((1, 2), isr=(1,)))
    cluster.apply(config(UNCLEAN, "false", "careful"))
    fence(cluster, 1)
    assert cluster.partition(with_config).leader == -1
    lossy = cluster.partition(without)
    assert (lossy.leader, lossy.isr, lossy.leader_recovery_state) == (2, (2,), 1)


@pytest.mark.parametrize(
    ("value", "leader"),
    [("true", 2), ("TRUE", 2), (" true", -1), ("true ", -1), ("\ttrue", -1), ("yes", -1), ("", -1)],
)
@pytest.mark.parametrize("topic", ["a", None])
def test_an_unclean_election_is_allowed_by_the_bare_word_only(value, leader, topic):
    """Kafka's controller reads the value as it stands, and so with blanks around it as false."""
    cluster = Cluster()
    id_of_topic = cluster.topic("a", led((1, 2), isr=(1,)))
    cluster.apply(config(UNCLEAN, value, topic))
    fence(cluster, 1)
    assert cluster.partition(id_of_topic).leader == leader


def test_before_3_6_the_leaders_epoch_rises_with_every_shrink():
    older, newer = Cluster(level=11), Cluster(level=12)
    for cluster in (older, newer):
        topic = cluster.topic("a", led((2, 1)))
        fence(cluster, 1)
        partition = cluster.partition(topic)
        assert partition.leader_epoch == (4 if cluster is older else 3)
        assert partition.isr == (2,)


# -- eligible leader replicas


def elr_cluster():
    cluster = Cluster(elr=True)
    cluster.apply(config(MIN_ISR, "2"))
    return cluster, cluster.topic("a", led((1, 2, 3), isr=(1, 2)))


def test_who_leaves_a_small_isr_is_eligible_until_it_is_large_again():
    cluster, topic = elr_cluster()
    fence(cluster, 1)
    partition = cluster.partition(topic)
    assert (partition.isr, partition.eligible_leader_replicas, partition.leader) == ((2,), (1,), 2)
    fence(cluster, 2)
    partition = cluster.partition(topic)
    assert (partition.isr, partition.eligible_leader_replicas, partition.leader) == ((), (1, 2), -1)
    assert partition.last_known_elr == (2,)
    unfence(cluster, 1)
    partition = cluster.partition(topic)
    assert (partition.isr, partition.eligible_leader_replicas, partition.leader) == ((1,), (2,), 1)
    assert partition.last_known_elr is None
    assert partition.leader_recovery_state == 0


def test_a_clean_stop_keeps_a_broker_eligible_and_an_unclean_one_does_not():
    for clean in (True, False):
        cluster, topic = elr_cluster()
        fence(cluster, 1)
        cluster.work_off(broker_changes.restarted(1, clean=clean))
        assert cluster.partition(topic).eligible_leader_replicas == ((1,) if clean else None)
        assert bool(cluster.image[TOPICS].broker_index.count(1, ELIGIBLE)) == clean


def test_whoever_stopped_uncleanly_in_the_isr_is_not_eligible_either():
    cluster, topic = elr_cluster()
    cluster.work_off(broker_changes.restarted(1, clean=False))
    partition = cluster.partition(topic)
    assert (partition.isr, partition.eligible_leader_replicas, partition.leader) == ((2,), None, 2)


def test_the_last_known_leader_leads_again_once_it_is_back_and_not_before():
    cluster, topic = elr_cluster()
    fence(cluster, 1)
    cluster.work_off(broker_changes.restarted(1, clean=False))
    cluster.work_off(broker_changes.restarted(2, clean=False))
    cluster.change(2, fenced=FENCE)
    partition = cluster.partition(topic)
    assert (partition.isr, partition.eligible_leader_replicas) == ((), None)
    assert (partition.leader, partition.last_known_elr) == (-1, (2,))
    assert unfence(cluster, 1) == [[]]
    assert cluster.work_off(broker_changes.leaderless()) == [[]]
    unfence(cluster, 2)
    partition = cluster.partition(topic)
    assert (partition.leader, partition.isr, partition.leader_recovery_state) == (2, (2,), 1)
    assert partition.last_known_elr is None


def test_a_broker_that_is_unregistered_is_not_eligible_under_its_id_later():
    cluster, topic = elr_cluster()
    fence(cluster, 1)
    cluster.work_off(broker_changes.unregistered(1))
    cluster.apply(UnregisterBrokerRecord(1, epoch_of(1)))
    assert cluster.partition(topic).eligible_leader_replicas is None
    fence(cluster, 2)
    cluster.register(1)
    cluster.work_off(broker_changes.unfenced(1))
    assert cluster.partition(topic).leader == -1


# -- a broker comes


def test_a_broker_that_comes_leads_what_nobody_leads_and_it_can():
    cluster = Cluster()
    cluster.change(1, fenced=FENCE)
    topic = cluster.topic(
        "a",
        led((1, 2), isr=(1,), leader=-1),
        led((2, 3), isr=(2,), leader=2),
        led((1, 3), isr=(3,), leader=-1, directories=(directory(1), directory(9))),
    )
    before_its_own_record = broker_changes.unfenced(1)
    assert cluster.work_off(before_its_own_record) == [[PartitionChangeRecord(0, topic, leader=1)]]
    assert before_its_own_record.counts.moved == 1


# -- directories


def test_what_was_in_a_lost_directory_is_out_of_sync():
    cluster = Cluster(brokers=(2, 3))
    cluster.register(1, (directory(1), directory(11)))
    topic = cluster.topic(
        "a",
        led((1, 2), directories=(directory(1), directory(2))),
        led((1, 2), directories=(directory(11), directory(2))),
        led((2, 1), directories=(directory(2), directory(11))),
    )
    changes = broker_changes.directories_lost(1, [directory(11)])
    assert cluster.work_off(changes) == [
        [
            PartitionChangeRecord(1, topic, isr=(2,), leader=2),
            PartitionChangeRecord(2, topic, isr=(2,)),
        ],
        [],  # the second look finds nobody who came back
    ]


# -- slices


def many(cluster, topics=4, partitions=50):
    ids = [cluster.topic(f"t{n}", *[led((1, 2, 3))] * partitions) for n in range(topics)]
    return ids, topics * partitions


def test_slices_are_no_longer_than_asked_and_in_order_and_each_partition_is_once():
    cluster = Cluster()
    ids, count = many(cluster)
    slices = cluster.work_off(broker_changes.fenced(1), limit=30)
    assert max(map(len, slices)) == 30
    changed = [(record.topic_id, record.partition_id) for records in slices for record in records]
    assert changed == sorted(changed)
    assert len(set(changed)) == len(changed) == count
    assert {topic_id for topic_id, _ in changed} == set(ids)


def test_a_slice_ends_where_much_was_looked_at_and_nothing_was_to_change():
    cluster = Cluster(brokers=(1,))
    cluster.change(1, fenced=FENCE)
    cluster.topic("a", *[led((1, 2), isr=(1,), leader=-1)] * 100)
    slices = cluster.work_off(broker_changes.fenced(1), limit=10)
    assert [len(records) for records in slices] == [0] * 6, "20 of 100 in each, and a look at the end"


def test_who_is_taken_back_between_two_slices_is_out_in_the_end():
    cluster = Cluster()
    (topic,), _ = many(cluster, topics=1)
    changes = broker_changes.fenced(1)
    records, is_last = changes.next(cluster.context(), 40)
    assert not is_last
    cluster.apply(*records, PartitionChangeRecord(7, topic, isr=(2, 3, 1)))
    cluster.work_off(changes, limit=40)
    assert not cluster.image[TOPICS].partitions_in_sync_on(1)


def test_who_is_taken_back_while_its_directory_is_lost_is_out_in_the_end():
    """A leader does not know of the directory yet: it brings the replica back after each slice."""
    cluster = Cluster()
    (topic,), _ = many(cluster, topics=1, partitions=100)
    changes = broker_changes.directories_lost(1, cluster.partition(topic).directories[:1])
    is_last, slices = False, 0
    while not is_last:
        records, is_last = changes.next(cluster.context(), 40)
        cluster.apply(*records)
        if not is_last:
            cluster.apply(PartitionChangeRecord(slices, topic, isr=(2, 3, 1)))
            slices += 1
    assert slices > 1
    assert not cluster.image[TOPICS].partitions_in_sync_on(1)


def test_who_is_moved_into_a_directory_while_it_is_lost_is_out_in_the_end():
    """The broker had chosen the directory before it failed, and says so between two slices."""
    cluster = Cluster(brokers=(2, 3))
    cluster.register(1, (directory(1), directory(11)))
    ours, lost, theirs = directory(1), directory(11), directory(2)
    topic = cluster.topic(
        "a", led((1, 2), directories=(ours, theirs)), led((1, 2), directories=(lost, theirs))
    )
    changes = broker_changes.directories_lost(1, [lost])
    records, is_last = changes.next(cluster.context(), 1)
    assert [record.partition_id for record in records] == [1]
    assert not is_last
    cluster.apply(*records, PartitionChangeRecord(0, topic, directories=(lost, theirs)))
    cluster.work_off(changes)
    assert not cluster.image[TOPICS].partitions_in_sync_on(1)


def test_a_topic_that_comes_between_two_slices_is_seen_to():
    cluster = Cluster()
    many(cluster, topics=1)
    changes = broker_changes.fenced(1)
    records, _ = changes.next(cluster.context(), 40)
    cluster.apply(*records)
    early, late = (cluster.topic(name, led((1, 3))) for name in ("a", "z"))
    cluster.work_off(changes, limit=40)
    assert [cluster.partition(topic).leader for topic in (early, late)] == [3, 3]


def test_a_topic_that_goes_between_two_slices_is_no_failure():
    cluster = Cluster()
    ids, _ = many(cluster)
    changes = broker_changes.fenced(1)
    for topic_id in ids[:3]:
        records, _ = changes.next(cluster.context(), 10)
        cluster.apply(*records, RemoveTopicRecord(topic_id))
    cluster.work_off(changes, limit=10)
    assert not cluster.image[TOPICS].partitions_in_sync_on(1)
    assert changes.failures == []


def test_what_fails_in_one_partition_leaves_out_that_one():
    cluster = Cluster()
    broken = cluster.topic("broken", led((1, 2)))
    fine = cluster.topic("fine", led((1, 2)))
    cluster.apply(config(MIN_ISR, "two", "broken"))
    changes = broker_changes.fenced(1)
    cluster.work_off(changes)
    assert cluster.partition(fine).leader == 2
    assert cluster.partition(broken).leader == 1
    (failure,) = changes.failures
    assert (failure.topic_id, failure.partition_id) == (broken, 0)


def test_what_could_not_be_applied_can_be_left_out():
    cluster = Cluster()
    (topic,), _ = many(cluster, topics=1, partitions=5)
    changes = broker_changes.fenced(1)
    changes.next(cluster.context(), 512)
    changes.leave_out(topic, 2, ValueError("an epoch that no record can hold"))
    changed = Counter(record.partition_id for records in cluster.work_off(changes) for record in records)
    assert changed == {0: 1, 1: 1, 3: 1, 4: 1}
