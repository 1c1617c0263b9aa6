"""What a new partition is: its replicas, placed by the controller or by hand, who leads it and is in sync.

All replicas that are on active brokers are in sync, since there is nothing to lack yet, and the first of them
leads. A replica lies in the only log directory of its broker; a broker that has several tells later which one
it has chosen.

Follows: buildPartitionRegistration of Kafka's ReplicationControlManager.
"""

from hashlib import blake2b
from typing import Final

from kraftd.controller.context import Context
from kraftd.controller.partitions.by_hand import bad_assignment
from kraftd.controller.partitions.partition_rules import active_brokers, default_directory
from kraftd.controller.refused import RefusedError
from kraftd.controller.topics.java_random import JavaRandom
from kraftd.controller.topics.placement import StripedReplicaPlacer, usable_brokers
from kraftd.metadata.feature_levels import DIRECTORIES_SINCE
from kraftd.metadata.parts.topics import partitions
from kraftd.protocol.limits import OPERATION_RECORDS_MAX
from kraftd.records.messages import PartitionRecord
from kraftd.types import NodeId, Uuid

Replicas = tuple[NodeId, ...]

TOO_MANY_PARTITIONS: Final = (
    f"Not appended: one request makes at most {OPERATION_RECORDS_MAX} partitions and topics. Split it; a "
    "topic can be given more later (`kafka-topics --alter`)."
)


class NewPartitions:
    """Makes the records of new partitions, for one decision. Mutable: its random numbers go on."""

    def __init__(self, context: Context) -> None:
        self._image = context.image
        self._random = JavaRandom(placement_seed(context))
        self._has_directories = context.image.metadata_version >= DIRECTORIES_SINCE
        self._leaving = context.leaving
        self._active = active_brokers(context).keys()
        self._directories: dict[NodeId, Uuid] = {}

    def placed(self, partitions: int, replicas: int) -> list[Replicas]:
        """The replicas of so many partitions, placed over the brokers that can take them.

        Raises:
            RefusedError: INVALID_REPLICATION_FACTOR, if there are not enough of them.
        """
        placer = StripedReplicaPlacer(self._random, usable_brokers(self._image, self._leaving))
        placer.check(replicas)
        return [placer.place(replicas) for _ in range(partitions)]

    def in_sync(self, replicas: Replicas) -> Replicas:
        """Those of the replicas that are in sync from the beginning; none if no broker is active."""
        return tuple(broker_id for broker_id in replicas if broker_id in self._active)

    def record(self, topic_id: Uuid, partition_id: int, replicas: Replicas) -> PartitionRecord:
        """The record of a new partition, of which at least one replica is on an active broker."""
        isr = self.in_sync(replicas)
        record = PartitionRecord(
            partition_id=partition_id,
            topic_id=topic_id,
            replicas=replicas,
            isr=isr,
            leader=isr[0],
            leader_epoch=0,
            partition_epoch=0,
            directories=tuple(map(self._directory_of, replicas)),
        )
        return partitions.for_level(record, has_directories=self._has_directories)

    def _directory_of(self, broker_id: NodeId) -> Uuid:
        if not self._has_directories:
            return partitions.MIGRATING
        directory = self._directories.get(broker_id)
        if directory is None:
            directory = self._directories[broker_id] = default_directory(
                self._image, broker_id, self._leaving
            )
        return directory


def placement_seed(context: Context) -> int:
    """What the random numbers of a decision begin with.

    The seeds of decisions count up, and what Java draws first from neighbouring ones has the same high bits:
    of four brokers, thousands of topics of one partition, made one by one, would go to the same.
    """
    return int.from_bytes(blake2b(str(context.seed).encode(), digest_size=6).digest(), "big")


def none_active(partition_id: int) -> RefusedError:
    """Why replicas that somebody chose cannot be: nobody could lead the partition."""
    return bad_assignment(
        f"All brokers chosen for partition {partition_id} are fenced or shutting down: none could lead it."
    )
