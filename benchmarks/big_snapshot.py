"""A snapshot of as many partitions as wanted, as Kafka would write it; the same one for the same number.

Batches hold 1,024 records and straddle topics. Topics have from one partition to 100,000; partitions have one
to five replicas, of which some are out of sync; most records are of the newest version, the others of the two
before, some with a leader in recovery, with no leader, in a reassignment or with eligible leader replicas.
"""

import random
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

from kraftd.records.frame import encode_record
from kraftd.records.messages import (
    FeatureLevelRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RegisterBrokerRecordBrokerEndpoint,
    RegisterBrokerRecordBrokerFeature,
    TopicRecord,
)
from kraftd.records.names import snapshot_name
from kraftd.records.snapshot import encode_snapshot
from kraftd.types import Epoch, Offset, OffsetAndEpoch, Uuid

BROKERS = range(1, 101)
DIRECTORIES_A_BROKER = 4
METADATA_VERSION = 29
END, TIMESTAMP_MS = OffsetAndEpoch(Offset(5_000_000), Epoch(7)), 1_750_000_000_000

SIZES = {100_000: 1, 20_000: 1, 5_000: 2, 1_000: 10, 100: 100, 50: 200, 12: 1_000, 1: 1_000}
"""Of how many partitions how many topics are, over and over."""
REPLICAS = (3,) * 14 + (2, 2, 1, 4, 5, 5)
VERSIONS = (2,) * 8 + (1, 0)


def write_snapshot(directory: Path, partitions: int) -> Path:
    """Write a snapshot of so many partitions, and say where it is."""
    rng = random.Random(partitions)
    path = directory / snapshot_name(END)
    with path.open("wb") as file:
        file.writelines(
            encode_snapshot(
                _values(rng, partitions), END.epoch, TIMESTAMP_MS, last_contained_timestamp_ms=TIMESTAMP_MS
            )
        )
    return path


def _values(rng: random.Random, partitions: int) -> Iterator[bytes]:
    yield encode_record(FeatureLevelRecord("metadata.version", METADATA_VERSION), 0)
    yield encode_record(FeatureLevelRecord("eligible.leader.replicas.version", 1), 0)
    directories = {broker: [rng.randbytes(16) for _ in range(DIRECTORIES_A_BROKER)] for broker in BROKERS}
    for broker in BROKERS:
        yield encode_record(_broker(broker, directories[broker], rng), 3)
    sizes = [size for size, times in SIZES.items() for _ in range(times)]
    rng.shuffle(sizes)
    for number, size in enumerate(cycle(sizes)):
        topic_id = rng.randbytes(16)
        yield encode_record(TopicRecord(f"topic-{number:06}", topic_id), 0)
        for partition_id in range(min(size, partitions)):
            yield _partition(partition_id, topic_id, directories, rng)
        partitions -= min(size, partitions)
        if not partitions:
            return


def _broker(broker: int, directories: list[Uuid], rng: random.Random) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker,
        incarnation_id=rng.randbytes(16),
        broker_epoch=100 + broker,
        end_points=(RegisterBrokerRecordBrokerEndpoint("PLAINTEXT", f"broker-{broker}.example", 9092, 0),),
        features=(RegisterBrokerRecordBrokerFeature("metadata.version", 7, METADATA_VERSION),),
        rack=f"rack-{broker % 3}",
        fenced=False,
        log_dirs=tuple(sorted(directories)),
    )


def _partition(
    partition_id: int, topic_id: Uuid, directories: dict[int, list[Uuid]], rng: random.Random
) -> bytes:
    version = rng.choice(VERSIONS)
    replicas = tuple(rng.sample(BROKERS, rng.choice(REPLICAS)))
    isr, elr, recovery, leader = replicas, None, 0, replicas[0]
    odd = rng.random()
    if odd < 0.05 and len(replicas) > 1:
        isr = replicas[:-1]
        if odd < 0.005 and version >= 2:
            elr = replicas[-1:]
    elif odd > 0.999:
        leader = -1
    elif odd > 0.998:
        recovery, isr = 1, replicas[:1]
    adding = (replicas[-1],) if 0.5 < odd < 0.501 else ()
    return encode_record(
        PartitionRecord(
            partition_id=partition_id,
            topic_id=topic_id,
            replicas=replicas,
            isr=isr,
            adding_replicas=adding,
            leader=leader,
            leader_recovery_state=recovery,
            leader_epoch=rng.randrange(50),
            partition_epoch=rng.randrange(200),
            directories=tuple(rng.choice(directories[broker]) for broker in replicas) if version else (),
            eligible_leader_replicas=elr,
        ),
        version,
    )
