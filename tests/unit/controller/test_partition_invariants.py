"""Whatever happens to brokers and whatever leaders propose, partitions stay sound.

The lives are those that `tests/interop/test_broker_events.py` has Kafka's classes live, too, and some more.
"""

from random import Random

import pytest

from kraftd.metadata.parts.brokers import BROKERS
from kraftd.metadata.parts.topics import TOPICS
from tests.interop.broker_events import Life

EVENTS = 60


def partitions(life):
    topics = life.cluster.image[TOPICS]
    return {
        (topic.topic_id, one.partition_id): one
        for topic in topics.topics()
        for one in topics.partitions(topic.topic_id)
    }


def active(life):
    return {
        broker.broker_id
        for broker in life.cluster.image[BROKERS].values()
        if not (broker.fenced or broker.in_controlled_shutdown)
    }


def complaint(old, new, may_lead):
    """What is wrong with a partition after an event; None if nothing is."""
    elr = set(new.eligible_leader_replicas or ())
    if not {*new.isr, *elr} <= set(new.replicas):
        return "in sync or eligible without a replica"
    if len(set(new.isr)) != len(new.isr) or elr & set(new.isr):
        return "in the ISR twice, or in the ELR as well"
    if new.leader != -1 and (new.leader not in new.isr or new.leader not in may_lead):
        return "led by who is not in sync or not active"
    if old is None:
        return None
    if not set(new.isr) - set(old.isr) <= may_lead:
        return "entered by who is not active"
    if new.leader_epoch < old.leader_epoch or new.partition_epoch < old.partition_epoch:
        return "in a lower epoch"
    if new != old and new.partition_epoch == old.partition_epoch:
        return "changed in the same epoch"
    if new.leader not in (-1, old.leader) and new.leader_epoch == old.leader_epoch:
        return "led by another in the same epoch"
    return None


@pytest.mark.parametrize("seed", range(24))
def test_partitions_stay_sound(seed):
    life = Life(Random(f"sound {seed}"), is_kafkas_too=False)
    before = partitions(life)
    for number in range(EVENTS):
        life.go_on()
        now, may_lead = partitions(life), active(life)
        for which, one in now.items():
            wrong = complaint(before.get(which), one, may_lead)
            assert wrong is None, f"event {number}, {life.commands[-1][:60]}: {which} is {wrong}: {one}"
        before = now
