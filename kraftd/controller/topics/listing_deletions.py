"""ListDeletions: the replicas that were taken away, and where their data still is, in pages.

An API of kraftd. It tells what the active controller's tracker knows at the moment of the response.
"""

from kraftd.controller.context import ReadContext
from kraftd.controller.deletions.tracker import Entry
from kraftd.controller.operations import SessionReadOperation
from kraftd.controller.response_room import PageRoom, entry_bytes, ids_bytes
from kraftd.errors import ErrorCode, InvariantError
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
    for entry in tracker.entries(after=(request.after_offset, request.after_broker_id)):
        if entry.state in OVER and not request.is_all:
            continue
        removed = entry.removed
        if not room.add(2 * entry_bytes(removed.topic) + ids_bytes(removed.partitions)):
            next_cursor = ListDeletionsResponseNextCursor(page[-1].offset, page[-1].broker_id)
            break
        page.append(_removal(entry))
    return ListDeletionsResponse(
        applied_offset=context.applied_offset,
        begin_offset=tracker.begin_offset,
        dropped_count=tracker.dropped_count,
        removals=tuple(page),
        next_cursor=next_cursor,
    )


def _removal(entry: Entry) -> ListDeletionsResponseRemoval:
    removed = entry.removed
    return ListDeletionsResponseRemoval(
        offset=removed.offset,
        broker_id=removed.broker_id,
        name=removed.topic,
        topic_id=removed.topic_id,
        partitions=removed.partitions,
        reason=removed.reason,
        state=entry.state,
        is_set_aside=entry.is_set_aside,
        is_heard=entry.is_heard,
        removed_ms=entry.removed_ms,
        since_ms=entry.since_ms,
    )


def refuse(_request: ListDeletionsRequest, error: ErrorCode, text: str) -> ListDeletionsResponse:
    """The response to a list that could not be read."""
    return ListDeletionsResponse(error_code=error, error_message=text, applied_offset=-1)


LIST_DELETIONS = SessionReadOperation(ListDeletionsRequest, list_deletions, refuse)
