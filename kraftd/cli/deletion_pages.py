"""Replicas that were taken away, as kraftd's leader lists them, put together from pages."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from kraftd.cli.pages import Listing, ask_pages
from kraftd.metadata.replica_states import RemovalReason, ReplicaState
from kraftd.protocol.messages import (
    ExplainPartitionResponseRemoval,
    ListDeletionsRequest,
    ListDeletionsResponse,
    ListDeletionsResponseRemoval,
)
from kraftd.types import Endpoint, uuid_text

Row: TypeAlias = dict[str, Any]

_UNKNOWN: Final = "unknown"

REASONS: Final[Mapping[int, str]] = {
    RemovalReason.TOPIC_DELETED: "topic deleted",
    RemovalReason.REASSIGNED: "reassigned",
}

STATES: Final[Mapping[int, str]] = {state: state.label for state in ReplicaState}

_DATA: Final[Mapping[int, str]] = {
    ReplicaState.NON_EXISTENT: "gone",
    ReplicaState.OFFLINE: "assigned again",
    ReplicaState.DELETION_STARTED: "there until the broker reads the log",
    ReplicaState.DELETION_SUCCESSFUL: "in -delete for a minute, then gone",
    ReplicaState.DELETION_INELIGIBLE: "there until the broker is back",
}
_SET_ASIDE: Final = "in -stray if it was there: look"
_DOWN_UNHEARD: Final = "perhaps there, until the broker is back"
_LOST: Final = "there, since its log directory is offline"
_LOST_UNHEARD: Final = "perhaps there: its log directory is offline, or was replaced"
_OLD_COPY: Final = (
    "there as an old copy, since its log directory is offline: remove it before the broker is started with "
    "that disk"
)
_OLD_COPY_UNHEARD: Final = (
    "perhaps there as an old copy: its log directory is offline, or was replaced; remove it before the "
    "broker is started with that disk"
)
READ_UNHEARD: Final = (
    "gone, or in -delete for a minute at most (the broker may have read the deletion under an earlier active "
    "controller)"
)
"""Where the data is, by state, in words."""

UNCERTAIN: Final = frozenset((_SET_ASIDE, _DOWN_UNHEARD, _LOST_UNHEARD, _OLD_COPY_UNHEARD))
"""The words for data of which nobody knows whether it is there."""


def list_deletions(bootstrap: Sequence[Endpoint], timeout_ms: int, *, is_all: bool) -> Row:
    """What was taken away; the schema of `topics deletions`."""
    found: dict[tuple[int, int, tuple[int, ...]], Row] = {}
    known = {"begin_offset": -1, "dropped": 0}

    def take(request: ListDeletionsRequest, response: ListDeletionsResponse) -> ListDeletionsRequest | None:
        found.update({(one.offset, one.broker_id, one.partitions): _row(one) for one in response.removals})
        known.update(begin_offset=response.begin_offset, dropped=response.dropped_count)
        cursor = response.next_cursor
        return (
            None if cursor is None else ListDeletionsRequest(request.is_all, cursor.offset, cursor.broker_id)
        )

    listing = Listing("deletions", ListDeletionsResponse, take, _is_later)
    ask_pages(bootstrap, ListDeletionsRequest(is_all), listing, timeout_ms)
    return {**known, "removals": [found[key] for key in sorted(found)]}


def _is_later(request: ListDeletionsRequest, before: ListDeletionsRequest) -> bool:
    return (request.after_offset, request.after_broker_id) > (before.after_offset, before.after_broker_id)


def _row(removal: ListDeletionsResponseRemoval) -> Row:
    return {
        "topic": removal.name,
        "topic_id": uuid_text(removal.topic_id),
        "partitions": list(removal.partitions),
        "broker_id": removal.broker_id,
        "offset": removal.offset,
        "reason": REASONS.get(removal.reason, _UNKNOWN),
        "state": STATES.get(removal.state, _UNKNOWN),
        "data": data_text(removal),
        "set_aside": removal.is_set_aside,
        "heard": removal.is_heard,
        "directory_offline": removal.is_directory_offline,
        "removed_ms": removal.removed_ms,
        "since_ms": removal.since_ms,
    }


def short_state(state: str) -> str:
    """Kafka's name of a state without the word that all have: `Online`, `DeletionStarted`."""
    return state.removeprefix("Replica").removesuffix("Replica").removesuffix("Partition")


def data_text(removal: ListDeletionsResponseRemoval | ExplainPartitionResponseRemoval) -> str:
    """Where the data is of a replica that was taken away."""
    if removal.is_directory_offline and removal.is_set_aside:
        return _OLD_COPY if removal.is_heard else _OLD_COPY_UNHEARD
    if removal.is_directory_offline:
        return _LOST if removal.is_heard else _LOST_UNHEARD
    if removal.is_set_aside:
        return _SET_ASIDE
    if removal.state == ReplicaState.DELETION_INELIGIBLE and not removal.is_heard:
        return _DOWN_UNHEARD
    if removal.state == ReplicaState.DELETION_SUCCESSFUL and not removal.is_heard:
        return READ_UNHEARD
    return _DATA.get(removal.state, _UNKNOWN)
