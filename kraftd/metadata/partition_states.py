"""The four states of a partition, the moves between them, and which of them an image shows.

KRaft keeps no state of a partition beside the image, and neither does kraftd: the state is read off what is
committed, and off what the active controller has decided and not seen committed yet. `MOVES` is the whole
table of what may follow what. Whoever meets a record that would be any other move says so.

    state        what the image shows
    NonExistent  no such partition, neither committed nor decided
    New          it is decided, and its record is not committed yet
    Online       a broker leads it
    Offline      it is there, and nobody leads it

A partition of KRaft is born with its leader in one record, so a log never shows it New. And a topic goes with
its partitions in one record, whatever they are: an Online one is Offline in between, as it was when Kafka's
controller of old stopped its replicas first. `moves` says by which moves one state follows another.

Follows: the states and the valid previous states of Kafka's PartitionStateMachine.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from kraftd.metadata.image import MetadataImage
from kraftd.metadata.parts.topics import TOPICS
from kraftd.types import NO_NODE, NodeId, Uuid


class PartitionState(StrEnum):
    """What a partition is in."""

    NON_EXISTENT = "NonExistent"
    NEW = "New"
    ONLINE = "Online"
    OFFLINE = "Offline"


MOVES: Final[Mapping[PartitionState, frozenset[PartitionState]]] = {
    PartitionState.NON_EXISTENT: frozenset({PartitionState.NEW}),
    PartitionState.NEW: frozenset({PartitionState.ONLINE, PartitionState.OFFLINE}),
    PartitionState.ONLINE: frozenset({PartitionState.ONLINE, PartitionState.OFFLINE}),
    PartitionState.OFFLINE: frozenset(
        {PartitionState.ONLINE, PartitionState.OFFLINE, PartitionState.NON_EXISTENT}
    ),
}
"""What may follow each state. A state that follows itself is another leader, or another look for one."""

_THROUGH: Final[Mapping[tuple[PartitionState, PartitionState], PartitionState]] = {
    (PartitionState.NON_EXISTENT, PartitionState.ONLINE): PartitionState.NEW,
    (PartitionState.NON_EXISTENT, PartitionState.OFFLINE): PartitionState.NEW,
    (PartitionState.ONLINE, PartitionState.NON_EXISTENT): PartitionState.OFFLINE,
}
"""The state in between of what one record does in two moves."""


def is_legal(before: PartitionState, after: PartitionState) -> bool:
    """Whether one state may follow another."""
    return after in MOVES[before]


def moves(before: PartitionState, after: PartitionState) -> tuple[PartitionState, ...] | None:
    """The states that a partition goes through after one, up to another; None if no table allows that."""
    between = _THROUGH.get((before, after))
    path = (after,) if between is None else (between, after)
    at = before
    for state in path:
        if not is_legal(at, state):
            return None
        at = state
    return path


def state_of_leader(leader: NodeId) -> PartitionState:
    """The state of a partition that is committed."""
    return PartitionState.OFFLINE if leader == NO_NODE else PartitionState.ONLINE


def state_in(
    committed: MetadataImage, topic_id: Uuid, partition_id: int, newest: MetadataImage | None = None
) -> PartitionState:
    """The state of a partition.

    Args:
        committed: What is committed.
        topic_id: Its topic.
        partition_id: Its number in it.
        newest: What the active controller has decided on top of that; None where nothing is known of it.
    """
    partition = committed[TOPICS].partition(topic_id, partition_id)
    if partition is not None:
        return state_of_leader(partition.leader)
    if newest is not None and newest[TOPICS].partition(topic_id, partition_id) is not None:
        return PartitionState.NEW
    return PartitionState.NON_EXISTENT


def counts_in(committed: MetadataImage, new: int = 0) -> dict[PartitionState, int]:
    """How many partitions are in each state but NonExistent.

    Args:
        committed: What is committed.
        new: How many the active controller has decided on top of that; 0 where nothing is known of it. It is
            counted there, where they come and go (`kraftd.controller.uncommitted_partitions`): to compare two
            images for it would take as long as there are topics.
    """
    topics = committed[TOPICS]
    offline = len(topics.partitions_without_leader())
    return {
        PartitionState.NEW: new,
        PartitionState.ONLINE: topics.partition_count - offline,
        PartitionState.OFFLINE: offline,
    }
