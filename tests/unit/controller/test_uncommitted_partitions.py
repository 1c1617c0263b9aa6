"""New partitions are counted as writes come and go; asking for their number costs the same at any time."""

import random
import sys

import pytest

from kraftd.controller.decisions import Write
from kraftd.controller.uncommitted_writes import UncommittedWrites
from kraftd.metadata.image_builder import apply_all
from kraftd.metadata.partition_states import PartitionState, counts_in, state_in
from kraftd.metadata.parts.topics import TOPICS
from kraftd.records.committed import CommittedBatch
from kraftd.records.frame import encode_record
from kraftd.records.messages import (
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from tests.unit.controller.topic_worlds import THREE, cluster, directory


def topic_id(number):
    return number.to_bytes(2, "big") + bytes(14)


def partition(topic, number):
    directories = (directory(1), directory(2))
    return PartitionRecord(number, topic_id(topic), (1, 2), (1, 2), leader=1, directories=directories)


def topic(number, partitions):
    made = [partition(number, each) for each in range(partitions)]
    return [TopicRecord(f"t{number}", topic_id(number)), *made]


class Life:
    """Writes that are decided, and committed in their order."""

    def __init__(self, *committed):
        self.writes = UncommittedWrites(cluster(*THREE, *committed))
        self.pending = []
        self.end = 100

    def decide(self, records):
        write = Write("test", 1, tuple(map(encode_record, records)))
        self.writes.add(write, apply_all(self.writes.image, records, -1))
        self.pending.append(write)

    def commit(self, count=1):
        some, self.pending = self.pending[:count], self.pending[count:]
        values = [value for write in some for value in write.records]
        self.writes.commit(CommittedBatch(self.end, self.end + len(values), 1, 0, values))
        self.end += len(values)

    def withdraw(self):
        self.writes.withdraw(self.pending.pop())

    def counted(self):
        """By comparing the two images."""
        committed, newest = self.writes.committed, self.writes.image
        return sum(
            state_in(committed, each.topic_id, one.partition_id, newest) is PartitionState.NEW
            for each in newest[TOPICS].topics()
            for one in newest[TOPICS].partitions(each.topic_id)
        )


@pytest.mark.parametrize("seed", range(8))
def test_the_count_is_that_of_the_two_images(seed):
    rng, life, known, seen = random.Random(seed), Life(*topic(1, 3)), {1: 3}, set()
    fresh = iter(range(2, 1_000))
    for _ in range(150):
        match rng.randrange(6):
            case 0:
                number, count = next(fresh), rng.randrange(4)
                life.decide(topic(number, count))
                known[number] = count
            case 1 if known:
                number = rng.choice(sorted(known))
                life.decide([partition(number, known[number])])
                known[number] += 1
            case 2 if known:
                number = rng.choice(sorted(known))
                del known[number]
                life.decide([RemoveTopicRecord(topic_id(number))])
            case 3 if life.pending:
                life.commit(rng.randrange(1, 4))
            case 4:
                before = dict(known)
                number = next(fresh)
                life.decide(topic(number, 2) if rng.random() < 0.5 else [ConfigRecord(4, "", "a", "b")])
                life.withdraw()
                known = before
            case 5 if known and (number := rng.choice(sorted(known))) and known[number]:
                life.decide([PartitionChangeRecord(0, topic_id(number), isr=(1,))])
        assert life.writes.new_partition_count == life.counted()
        seen.add(life.writes.new_partition_count)
    assert len(seen) > 3


def test_a_topic_that_goes_before_it_is_committed_was_never_there():
    life = Life()
    life.decide(topic(1, 3))
    life.decide([RemoveTopicRecord(topic_id(1))])
    life.decide(topic(2, 1))
    assert life.writes.new_partition_count == 1
    life.commit()
    assert life.writes.new_partition_count == 1, "it is committed that topic 1 was made"
    life.commit(2)
    assert life.writes.new_partition_count == 0


def test_what_is_refused_is_not_new():
    life = Life()
    life.decide(topic(1, 3))
    life.decide(topic(2, 2))
    life.withdraw()
    assert life.writes.new_partition_count == 3


def calls_of(function):
    """How many functions it calls, in Python and in C: its work, whatever the machine does meanwhile."""
    calls = 0

    def count(_frame, event, _argument):
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(None)
    return calls


def deleting(topics):
    life = Life(*(record for number in range(1, topics + 1) for record in topic(number, 1)))
    for number in range(1, topics + 1):
        life.decide([RemoveTopicRecord(topic_id(number))])
    return life


def test_to_count_costs_the_same_whatever_waits():
    few, many = deleting(5), deleting(1_000)

    def count(life):
        return counts_in(life.writes.committed, life.writes.new_partition_count)

    assert count(many) == {PartitionState.NEW: 0, PartitionState.ONLINE: 1_000, PartitionState.OFFLINE: 0}
    assert calls_of(lambda: count(many)) == calls_of(lambda: count(few)) < 100
