"""What controllers do to topics and partitions: the records of each operation, drawn at random.

Each takes random numbers, what exists and the offset, and keeps the account of what exists up to date.
"""

from collections.abc import Iterator
from random import Random
from typing import Final

from kraftd.metadata.config_schema import ResourceType
from kraftd.metadata.feature_levels import DIRECTORIES_SINCE
from kraftd.records import messages as m
from tests.interop.legal_world import BROKERS, Partition, Topic, World, config_of

TOPIC: Final = int(ResourceType.TOPIC)
TOPICS: Final = [f"t{number}" for number in range(20)]
NO_NAMED_DIRECTORIES: Final = [number.to_bytes(16, "big") for number in (0, 1, 2)]
"""Migrating, unassigned, lost."""


def create(rng: Random, world: World, _offset: int) -> Iterator[m.Record]:
    """A topic with some partitions and configs."""
    free = [name for name in TOPICS if name not in world.topics]
    if not free:
        return
    topic = Topic(rng.randbytes(16), rng.choice(free))
    world.topics[topic.name] = topic
    yield m.TopicRecord(topic.name, topic.id)
    for number in range(rng.randint(1, 4)):
        yield _partition(rng, world, topic, number)
    for _ in range(rng.choice((0, 0, 1, 3))):
        yield config_of(rng, TOPIC, topic.name)


def _partition(rng: Random, world: World, topic: Topic, number: int) -> m.PartitionRecord:
    """A partition that comes to be, or is told anew."""
    replicas = tuple(rng.sample(BROKERS, rng.randint(1, 4)))
    isr = replicas[: rng.randint(1, len(replicas))]
    partition = topic.partitions[number] = Partition(replicas, isr)
    elr, last_known = _elr(rng, world, partition)
    return m.PartitionRecord(
        number,
        topic.id,
        replicas,
        isr,
        leader=rng.choice((-1, *isr)),
        leader_recovery_state=rng.choice((0, 0, 1)),
        leader_epoch=rng.randint(0, 3),
        partition_epoch=rng.randint(0, 3),
        directories=_directories(rng, world, replicas),
        eligible_leader_replicas=elr,
        last_known_elr=last_known,
    )


def _elr(rng: Random, world: World, partition: Partition) -> tuple[tuple[int, ...] | None, ...]:
    """Who is eligible, and who was last known to be, outside the ISR."""
    if not world.has_elr or (not partition.has_elr and rng.random() < 0.3):
        return None, None
    outside = [node_id for node_id in partition.replicas if node_id not in partition.isr]
    cut = rng.randint(0, len(outside))
    partition.has_elr = partition.has_elr or bool(outside)
    return tuple(outside[:cut]), tuple(outside[cut:])


def _directories(rng: Random, world: World, replicas: tuple[int, ...]) -> tuple[bytes, ...]:
    if world.level < DIRECTORIES_SINCE:
        return ()
    return tuple(rng.choice((*NO_NAMED_DIRECTORIES, rng.randbytes(16))) for _ in replicas)


def _some_partition(rng: Random, world: World) -> tuple[Topic, int] | None:
    topics = [topic for topic in world.topics.values() if topic.partitions]
    if not topics:
        return None
    topic = rng.choice(topics)
    return topic, rng.choice(list(topic.partitions))


def tell_anew(rng: Random, world: World, _offset: int) -> Iterator[m.Record]:
    """A partition as if it came to be just now."""
    if found := _some_partition(rng, world):
        yield _partition(rng, world, *found)


def add_partition(rng: Random, world: World, _offset: int) -> Iterator[m.Record]:
    """One more partition of a topic."""
    if world.topics:
        topic = rng.choice(list(world.topics.values()))
        yield _partition(rng, world, topic, len(topic.partitions))


def change_isr(rng: Random, world: World, _offset: int) -> Iterator[m.Record]:
    """Leaders come and go, replicas fall out of sync and come back."""
    if found := _some_partition(rng, world):
        topic, number = found
        partition = topic.partitions[number]
        partition.isr = tuple(rng.sample(partition.replicas, rng.randint(1, len(partition.replicas))))
        elr, last_known = _elr(rng, world, partition)
        yield m.PartitionChangeRecord(
            number,
            topic.id,
            isr=partition.isr,
            leader=rng.choice((-2, -2, -1, *partition.isr)),
            leader_recovery_state=rng.choice((-1, -1, 0, 1)),
            eligible_leader_replicas=elr,
            last_known_elr=last_known,
        )


def reassign(rng: Random, world: World, _offset: int) -> Iterator[m.Record]:
    """Other replicas, with others on their way in or out."""
    if found := _some_partition(rng, world):
        topic, number = found
        partition = topic.partitions[number]
        partition.replicas = tuple(rng.sample(BROKERS, rng.randint(1, 4)))
        partition.isr = partition.replicas[:1]
        adding = tuple(rng.sample(partition.replicas, rng.randint(0, len(partition.replicas))))
        yield m.PartitionChangeRecord(
            number,
            topic.id,
            isr=partition.isr,
            replicas=partition.replicas,
            removing_replicas=rng.choice((None, (), partition.replicas[:1])),
            adding_replicas=rng.choice((None, adding)),
            directories=_directories(rng, world, partition.replicas) or None,
            eligible_leader_replicas=() if partition.has_elr else None,
            last_known_elr=() if partition.has_elr else None,
        )


def assign_directories(rng: Random, world: World, _offset: int) -> Iterator[m.Record]:
    """Where the replicas of a partition are."""
    if found := _some_partition(rng, world):
        topic, number = found
        directories = _directories(rng, world, topic.partitions[number].replicas)
        yield m.PartitionChangeRecord(number, topic.id, directories=directories)


def change_nothing(rng: Random, world: World, _offset: int) -> Iterator[m.Record]:
    """A change that names nothing: only the epoch rises."""
    if found := _some_partition(rng, world):
        topic, number = found
        yield m.PartitionChangeRecord(number, topic.id)


def remove(rng: Random, world: World, _offset: int) -> Iterator[m.Record]:
    """A topic goes, never the last."""
    if len(world.topics) > 1:
        yield m.RemoveTopicRecord(world.topics.pop(rng.choice(list(world.topics))).id)


def clear_elr(rng: Random, world: World, _offset: int) -> Iterator[m.Record]:
    """Nobody is eligible any more, in one topic or in all."""
    if world.has_elr and world.topics:
        name = "" if rng.random() < 0.2 else rng.choice(list(world.topics))
        for topic in world.topics.values():
            if name in ("", topic.name):
                topic.forget_elr()
        yield m.ClearElrRecord(name)
