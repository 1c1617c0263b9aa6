"""The state of a replica: Kafka's seven, computed of what is known, and every legal move between them.

Nobody stores a state. That of an assigned replica follows from its broker and its directory
(`assigned_state`); that of one which a deletion or a reassignment took away, from its broker, its directory
and from how far the broker has read the log (`removed_state`). `MOVES` has every step that there is;
`ROUTES`, what one record does in several steps. Who sees a move that neither has does not make it, and says
so.

A broker renames the log of a replica that is taken away when it applies the record that says so. What it
reports afterwards, in its heartbeats, is the offset up to which it has applied records: that, and nothing
else, tells a controller that the data is gone. A broker that is starting, and does not want to be unfenced
yet, has read records that its logs have not heard of: what it reports then tells nothing. In a log directory
that failed no broker renames anything, whatever it has read: the data comes back with the disk, at a start
of the broker, which finds it then (`lost_in`).

Follows: the ReplicaStateMachine of Kafka's controller before KRaft, whose names these are; KRaft's has none.
Differs: NewReplica is a replica whose broker has not told the directory yet (KIP-858), so that one whose
broker was down meanwhile becomes it again.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, TypeAlias

from kraftd.metadata.parts.topics.partitions import LOST, MIGRATING, UNASSIGNED
from kraftd.records.messages import PartitionRecord, RegisterBrokerRecord
from kraftd.types import NodeId, Offset, Uuid


class ReplicaState(IntEnum):
    """What a replica is; the numbers of ListDeletions."""

    NON_EXISTENT = 0
    """It is not assigned, and nothing of it is left that a broker has to see to."""
    NEW = 1
    """Its broker is up, and has not told yet in which directory it is."""
    ONLINE = 2
    OFFLINE = 3
    """Its broker is not registered, or fenced, or has lost its directory."""
    DELETION_STARTED = 4
    """It was taken away, and its broker, which is up, has not read that yet."""
    DELETION_SUCCESSFUL = 5
    """It was taken away, and its broker has read that."""
    DELETION_INELIGIBLE = 6
    """It was taken away, and its broker, which has not read that, is down, or its directory is offline: its
    data stays.
    """

    @property
    def label(self) -> str:
        """Kafka's name of it."""
        return _LABELS[self]


_LABELS: Final[Mapping[ReplicaState, str]] = {
    ReplicaState.NON_EXISTENT: "NonExistentReplica",
    ReplicaState.NEW: "NewReplica",
    ReplicaState.ONLINE: "OnlineReplica",
    ReplicaState.OFFLINE: "OfflineReplica",
    ReplicaState.DELETION_STARTED: "ReplicaDeletionStarted",
    ReplicaState.DELETION_SUCCESSFUL: "ReplicaDeletionSuccessful",
    ReplicaState.DELETION_INELIGIBLE: "ReplicaDeletionIneligible",
}


class RemovalReason(IntEnum):
    """Why a replica was taken away; the numbers of ListDeletions."""

    TOPIC_DELETED = 0
    REASSIGNED = 1
    """Its partition was moved elsewhere, or is not moved to its broker after all."""


_Move: TypeAlias = tuple[ReplicaState, ReplicaState]

MOVES: Final[frozenset[_Move]] = frozenset(
    {
        (ReplicaState.NON_EXISTENT, ReplicaState.NEW),  # assigned
        (ReplicaState.NEW, ReplicaState.ONLINE),  # its broker told the directory
        (ReplicaState.NEW, ReplicaState.OFFLINE),  # its broker went down; or it was taken away
        (ReplicaState.ONLINE, ReplicaState.OFFLINE),  # its broker or directory went; or it was taken away
        (ReplicaState.OFFLINE, ReplicaState.ONLINE),  # its broker is back, or has another directory
        (ReplicaState.OFFLINE, ReplicaState.NEW),  # its broker is back, and has not told the directory yet
        (ReplicaState.OFFLINE, ReplicaState.DELETION_STARTED),  # its broker is told to delete it
        (ReplicaState.DELETION_STARTED, ReplicaState.DELETION_SUCCESSFUL),  # its broker has read that
        (ReplicaState.DELETION_STARTED, ReplicaState.DELETION_INELIGIBLE),  # its broker or directory went
        (
            ReplicaState.DELETION_INELIGIBLE,
            ReplicaState.OFFLINE,
        ),  # its broker is back, or it is assigned again
        (ReplicaState.DELETION_SUCCESSFUL, ReplicaState.NON_EXISTENT),  # the deletion is over
    }
)
"""Every step, from one state to another. To stay is none."""

ROUTES: Final[Mapping[_Move, tuple[ReplicaState, ...]]] = {
    # Its directory is known at once: its broker has one only, or is down.
    (ReplicaState.NON_EXISTENT, ReplicaState.ONLINE): (ReplicaState.NEW,),
    (ReplicaState.NON_EXISTENT, ReplicaState.OFFLINE): (ReplicaState.NEW,),
    # It is taken away; its broker may be down, or its directory offline.
    (ReplicaState.NEW, ReplicaState.DELETION_STARTED): (ReplicaState.OFFLINE,),
    (ReplicaState.ONLINE, ReplicaState.DELETION_STARTED): (ReplicaState.OFFLINE,),
    (ReplicaState.OFFLINE, ReplicaState.DELETION_INELIGIBLE): (ReplicaState.DELETION_STARTED,),
    # Its broker is back; or it is fenced still, and has read the log for all that.
    (ReplicaState.DELETION_INELIGIBLE, ReplicaState.DELETION_STARTED): (ReplicaState.OFFLINE,),
    (ReplicaState.DELETION_INELIGIBLE, ReplicaState.DELETION_SUCCESSFUL): (
        ReplicaState.OFFLINE,
        ReplicaState.DELETION_STARTED,
    ),
    # It is assigned again before its broker has read that it was taken away.
    (ReplicaState.DELETION_STARTED, ReplicaState.OFFLINE): (ReplicaState.DELETION_INELIGIBLE,),
}
"""What one event does in several steps: the states in between."""


def steps(before: ReplicaState, after: ReplicaState) -> tuple[ReplicaState, ...]:
    """The states that a replica takes on one after the other, the last one `after`; empty if it must not.

    To stay where it is, it takes on none: that is not asked here.
    """
    if (before, after) in MOVES:
        return (after,)
    between = ROUTES.get((before, after))
    return () if between is None else (*between, after)


def replica_state(
    partition: PartitionRecord | None, broker_id: NodeId, broker: RegisterBrokerRecord | None
) -> ReplicaState:
    """The state of a broker's replica of a partition, by the image: `broker` is what that says of the broker.

    A replica that is not assigned does not exist; whether it is being deleted the image does not know.
    """
    if partition is None or broker_id not in partition.replicas:
        return ReplicaState.NON_EXISTENT
    return assigned_state(broker, partition.directories[partition.replicas.index(broker_id)])


def assigned_state(broker: RegisterBrokerRecord | None, directory: Uuid) -> ReplicaState:
    """The state of a replica that is assigned to a broker, None if that is not registered, in a directory."""
    if broker is None or broker.fenced:
        return ReplicaState.OFFLINE
    if directory == UNASSIGNED:
        return ReplicaState.NEW
    return ReplicaState.ONLINE if has_online_directory(broker, directory) else ReplicaState.OFFLINE


def removed_state(
    removed_at: Offset, reported: Offset, *, is_up: bool, is_lost: bool = False
) -> ReplicaState:
    """The state of a replica that the record at `removed_at` took away.

    `reported` is the offset of the last record that its broker is known to have applied, -1 if none is;
    `is_up`, whether that broker is registered and not fenced; `is_lost`, whether the directory is offline.
    """
    if is_lost:
        return ReplicaState.DELETION_INELIGIBLE
    if reported >= removed_at:
        return ReplicaState.DELETION_SUCCESSFUL
    return ReplicaState.DELETION_STARTED if is_up else ReplicaState.DELETION_INELIGIBLE


def lost_when_removed(broker: RegisterBrokerRecord | None, directory: Uuid) -> int | None:
    """The epoch in which a broker has lost the directory of a replica that is taken away from it; None if it
    has it, or nobody knows.
    """
    is_lost = broker is not None and not has_online_directory(broker, directory)
    return broker.broker_epoch if broker is not None and is_lost else None


def lost_in(before: int | None, broker: RegisterBrokerRecord | None, directory: Uuid) -> int | None:
    """The same later, by what is registered of the broker now; `before` is what it was.

    What a process has lost, it has again once it was started anew, in another epoch: what it registers
    meanwhile may list all the directories that it began with. A start may have found a replica whose
    directory is `LOST`: nobody knows which that was.
    """
    if broker is None or (before is not None and before == broker.broker_epoch):
        return before
    has_it = directory == LOST or has_online_directory(broker, directory)
    return None if has_it else broker.broker_epoch


def has_online_directory(broker: RegisterBrokerRecord, directory: Uuid) -> bool:
    """Whether a replica in this directory of a broker can be read.

    A broker that names none has one without a name.
    """
    if directory in (MIGRATING, UNASSIGNED):
        return True
    return directory != LOST and (not broker.log_dirs or directory in broker.log_dirs)
