"""ListDeletions: the replicas that were taken away, and where their data still is, in pages.

An API of kraftd. It tells what the active controller's tracker knows at the moment of the response. What one
record took away from several directories of a broker is one entry as long as they have all in common.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby

from msgspec.structs import replace

from kraftd.controller.context import ReadContext
from kraftd.controller.deletions.tracker import Entry, is_old_copy
from kraftd.controller.operations import SessionReadOperation
from kraftd.controller.response_room import PageRoom, entry_bytes, ids_bytes
from kraftd.errors import ErrorCode, InvariantError
from kraftd.metadata.image import MetadataImage
from kraftd.metadata.replica_states import ReplicaState
from kraftd.protocol.messages import (
    ListDeletionsRequest,
    ListDeletionsResponse,
    ListDeletionsResponseNextCursor,
    ListDeletionsResponseRemoval,
)

OVER = frozenset((ReplicaState.NON_EXISTENT, ReplicaState.OFFLINE))
"""What is left of a deletion that is over: nothing, or a replica that is assigned again."""


def list_deletions(context: ReadContext, request: ListDeletionsRequest) -> ListDeletionsResponse:
    """A page of the replicas that were taken away; those whose deletion is over only if asked for."""
    tracker = context.deletions
    if tracker is None:
        raise InvariantError("the context of ListDeletions has no tracker")
    room = PageRoom()
    page: list[ListDeletionsResponseRemoval] = []
    next_cursor: ListDeletionsResponseNextCursor | None = None
    entries = tracker.entries(after=(request.after_offset, request.after_broker_id))
    shown = (entry for entry in entries if request.is_all or entry.state not in OVER)
    for _, of_broker in groupby(shown, key=lambda entry: entry.key[:2]):
        rows = _removals(of_broker, context.image)
        if not room.add(sum(2 * entry_bytes(row.name) + ids_bytes(row.partitions) for row in rows)):
            next_cursor = ListDeletionsResponseNextCursor(page[-1].offset, page[-1].broker_id)
            break
        page += rows
    return ListDeletionsResponse(
        applied_offset=context.applied_offset,
        begin_offset=tracker.begin_offset,
        dropped_count=tracker.dropped_count,
        removals=tuple(page),
        next_cursor=next_cursor,
    )


def _removals(entries: Iterable[Entry], image: MetadataImage) -> Sequence[ListDeletionsResponseRemoval]:
    """What one record took away from one broker, by the first partition."""
    found: dict[ListDeletionsResponseRemoval, list[int]] = {}
    for entry in entries:
        found.setdefault(_without_partitions(entry, image), []).extend(entry.removed.partitions)
    rows = [replace(row, partitions=tuple(sorted(partitions))) for row, partitions in found.items()]
    return sorted(rows, key=lambda row: row.partitions)


def _without_partitions(entry: Entry, image: MetadataImage) -> ListDeletionsResponseRemoval:
    removed = entry.removed
    return ListDeletionsResponseRemoval(
        offset=removed.offset,
        broker_id=removed.broker_id,
        name=removed.topic,
        topic_id=removed.topic_id,
        reason=removed.reason,
        state=entry.state,
        is_set_aside=entry.is_set_aside or is_old_copy(entry, image),
        is_heard=entry.is_certain,
        is_directory_offline=entry.is_directory_offline,
        removed_ms=entry.removed_ms,
        since_ms=entry.since_ms,
    )


def refuse(_request: ListDeletionsRequest, error: ErrorCode, text: str) -> ListDeletionsResponse:
    """The response to a list that could not be read."""
    return ListDeletionsResponse(error_code=error, error_message=text, applied_offset=-1)


LIST_DELETIONS = SessionReadOperation(ListDeletionsRequest, list_deletions, refuse)
