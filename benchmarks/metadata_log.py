"""Metadata logs of any size for benchmarks: what a busy cluster's controllers would have written.

Two shapes: `small` has 1 to 4 records a batch, one batch in ten a NoOp; `large` has 1,000 a batch. Both begin
with a leader, a metadata.version, brokers and topics, and go on with partitions that change their leader or
ISR, which is what grows in real logs. Every record may follow the one before it, so the log can be folded
too.
"""

import random
import sys
from collections.abc import Iterator
from pathlib import Path

from kraftd.records import epoch_checkpoint, meta_properties, names, quorum_state
from kraftd.records.batch import encode_batch, encode_control_batch
from kraftd.records.control import encode_control
from kraftd.records.frame import encode_record
from kraftd.records.messages import (
    ConfigRecord,
    FeatureLevelRecord,
    LeaderChangeMessage,
    LeaderChangeMessageVoter,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    Record,
    RegisterBrokerRecord,
    TopicRecord,
)
from kraftd.types import Election, EpochEntry, ReplicaKey

SHAPES = ("small", "large")
TOPICS = 200
PARTITIONS = 50
BROKERS = (11, 12, 13, 14, 15, 16)
START_MS = 1_800_000_000_000
STEP_MS = 20
LEVEL = 27
LARGE_BATCH = 1000
NO_OP = encode_record(NoOpRecord())


def make_log(
    home: Path, shape: str, *, size_bytes: int = sys.maxsize, records: int = sys.maxsize, seed: int = 1
) -> Path:
    """Write a controller's directory with one segment of about this size, or of so many records, whichever
    comes first. Returns the segment.
    """
    partition = home / names.LOG_DIRECTORY
    partition.mkdir(parents=True)
    properties = meta_properties.MetaProperties(f"benchmark-{shape}", 1, (1).to_bytes(16, "big"))
    (home / names.META_PROPERTIES).write_bytes(meta_properties.encode(properties))
    election = quorum_state.encode(Election(1, 1, ReplicaKey(1)), version=0, voter_ids=(1,))
    (partition / names.QUORUM_STATE).write_bytes(election)
    (partition / names.EPOCH_CHECKPOINT).write_bytes(epoch_checkpoint.encode([EpochEntry(1, 0)]))
    segment = partition / names.segment_name(0)
    with segment.open("wb") as file:
        written = count = 0
        for values, batch in _batches(shape, random.Random(seed)):
            written, count = written + file.write(batch), count + values
            if written >= size_bytes or count >= records:
                break
    return segment


def _batches(shape: str, rng: random.Random) -> Iterator[tuple[int, bytes]]:
    """Batches without end, each with the number of its records."""
    voter = (LeaderChangeMessageVoter(voter_id=1),)
    change = LeaderChangeMessage(leader_id=1, voters=voter, granting_voters=voter)
    yield 1, encode_control_batch(0, 1, START_MS, [encode_control(change)])
    offset, now = 1, START_MS
    beginning = [encode_record(record) for record in _beginning()]
    for start in range(0, len(beginning), LARGE_BATCH):
        values = beginning[start : start + LARGE_BATCH]
        yield len(values), encode_batch(offset, 1, now, values)
        offset += len(values)
    changes = _changes(rng)
    while True:
        now += STEP_MS
        if shape == "large":
            values = [next(changes) for _ in range(LARGE_BATCH)]
        elif rng.random() < 0.1:
            values = [NO_OP]
        else:
            values = [next(changes) for _ in range(rng.randint(1, 4))]
        yield len(values), encode_batch(offset, 1, now, values)
        offset += len(values)


def _beginning() -> Iterator[Record]:
    yield FeatureLevelRecord(name="metadata.version", feature_level=LEVEL)
    for broker in BROKERS:
        yield RegisterBrokerRecord(broker_id=broker, broker_epoch=broker, fenced=False)
    for topic in range(TOPICS):
        topic_id = _topic_id(topic)
        yield TopicRecord(name=f"topic-{topic:04d}", topic_id=topic_id)
        for partition in range(PARTITIONS):
            replicas = _replicas(topic, partition)
            yield PartitionRecord(
                partition_id=partition,
                topic_id=topic_id,
                replicas=replicas,
                isr=replicas,
                leader=replicas[0],
                directories=tuple(number.to_bytes(16, "big") for number in replicas),
            )


def _changes(rng: random.Random) -> Iterator[bytes]:
    """Changes for ever: mostly ISRs and leaders, one in twenty a config."""
    cycle = [_change(rng) for _ in range(50_000)]
    while True:
        yield from cycle


def _change(rng: random.Random) -> bytes:
    if rng.random() < 0.05:
        name, value = "retention.ms", str(rng.randrange(10**9))
        of = f"topic-{rng.randrange(TOPICS):04d}"
        return encode_record(ConfigRecord(resource_type=2, resource_name=of, name=name, value=value))
    topic, partition = rng.randrange(TOPICS), rng.randrange(PARTITIONS)
    isr = tuple(rng.sample(_replicas(topic, partition), rng.randint(1, 3)))
    return encode_record(
        PartitionChangeRecord(
            partition_id=partition,
            topic_id=_topic_id(topic),
            isr=isr,
            leader=rng.choice(isr),
        )
    )


def _replicas(topic: int, partition: int) -> tuple[int, ...]:
    return tuple(BROKERS[(topic + partition + step) % len(BROKERS)] for step in range(3))


def _topic_id(number: int) -> bytes:
    return (0x5EED_0000_0000_0000_0000_0000_0000_0000 + number).to_bytes(16, "big")
