"""The conditions of partitions that operators look for, and what their replicas are like.

Follows: the options of `kafka-topics --describe` and UnderReplicatedPartitions of Kafka's brokers: a replica
that a reassignment adds is no lack until it has caught up.
Differs: `min.insync.replicas` counts no more than there are replicas, as a partition's leader takes it
(KAFKA-15590); `kafka-topics` takes it as it is written.
"""

from enum import IntEnum

from kraftd.records.messages import PartitionRecord


class PartitionCondition(IntEnum):
    """What a partition may be in; the numbers of ListPartitions."""

    OFFLINE = 1
    """Nobody leads it."""
    UNDER_REPLICATED = 2
    """Fewer are in sync than it shall have replicas."""
    UNDER_MIN_ISR = 3
    """Fewer are in sync than acks=all needs."""
    AT_MIN_ISR = 4
    """As many are in sync as acks=all needs."""
    NOT_PREFERRED = 5
    """Another replica leads it than the first."""
    REASSIGNING = 6
    """Its replicas are being moved."""
    NEEDS_BROKER = 7
    """Without one broker nobody leads it, or too few are in sync for acks=all."""


class BrokerState(IntEnum):
    """What the broker of a replica is like; the numbers of ExplainPartition."""

    ACTIVE = 0
    FENCED = 1
    SHUTTING_DOWN = 2
    UNREGISTERED = 3


class DirectoryState(IntEnum):
    """What the log directory of a replica is like; the numbers of ExplainPartition."""

    ONLINE = 0
    NOT_TOLD = 1
    """Its broker has several, and has not told yet which one it chose."""
    GONE = 2
    """It is none of its broker's any more."""


class LeadsThen(IntEnum):
    """What becomes of a partition without leader once a replica can lead; the numbers of ExplainPartition."""

    NOTHING = 0
    WITHOUT_LOSS = 1
    MAY_LACK_RECORDS = 2
    """It was not in sync, or its log directory failed: what it had not flushed then is lost."""
    UNLESS_IT_CRASHED = 3
    """Without loss if its broker goes on or was stopped in order. One that starts after a crash may have lost
    what it had not flushed: it is not eligible any more (KIP-966)."""


def is_under_replicated(partition: PartitionRecord) -> bool:
    """Whether fewer are in sync than the partition shall have replicas."""
    return len(partition.isr) < len(partition.replicas) - len(partition.adding_replicas)
