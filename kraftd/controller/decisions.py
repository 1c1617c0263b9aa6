"""What the controller decides about a request, before anything has happened.

`ImmediateResponse` can be sent at once. `Write` must be committed first: append its records, all or none,
then ask `QuorumController.finished` for the response. `NeedsRead` must wait for a linearizable read (D-12),
then its response is read from the committed image of that moment.

The texts of refusals are here too, because they are a promise (D-13): a client must be able to tell "not
appended, safe to repeat" from "appended, outcome unknown".
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from kraftd.errors import ErrorCode
from kraftd.types import NO_NODE, Epoch, NodeId


class Write(msgspec.Struct, frozen=True, eq=False):
    """Records to append in `epoch`, all or none. `request` is None for the controller's own writes."""

    kind: str
    epoch: Epoch
    records: tuple[bytes, ...]
    response_when_committed: Any = None
    request: Any = None


class ImmediateResponse(msgspec.Struct, frozen=True):
    """A response that can be sent at once."""

    response: Any


class NeedsRead(msgspec.Struct, frozen=True, eq=False):
    """A response that needs a confirmed leader: `respond` after a good read, else `refuse`."""

    kind: str
    respond: Callable[[], Any]
    refuse: Callable[[ErrorCode], Any]


Decision: TypeAlias = Write | ImmediateResponse | NeedsRead


class KnownLeader(msgspec.Struct, frozen=True):
    """The leader and its epoch, as far as this node knows."""

    epoch: Epoch = 0
    id: NodeId = NO_NODE

    def __str__(self) -> str:
        if self.id == NO_NODE:
            return f"no leader is known in epoch {self.epoch}"
        return f"the leader of epoch {self.epoch} is node {self.id}"


NOT_ACTIVE_YET = "Not appended, safe to repeat: this node leads, and has not written its first records yet."


def write_refusal(error: ErrorCode, leader: KnownLeader) -> str:
    """Why a write failed, and what that means for its sender (D-13)."""
    match error:
        case ErrorCode.NOT_CONTROLLER:
            return f"Not appended, safe to repeat: this node is not the active controller; {leader}."
        case ErrorCode.REQUEST_TIMED_OUT:
            return (
                "Appended, outcome unknown: it was not committed in time and may still be. "
                "Read the values before repeating it."
            )
        case ErrorCode.THROTTLING_QUOTA_EXCEEDED:
            return "Not appended, safe to repeat later: too many changes are waiting to be written."
        case ErrorCode.POLICY_VIOLATION:
            return "Not appended: one operation is more than the log takes at once. Split it."
        case _:
            return f"Not committed: {error.name}."


def read_refusal(error: ErrorCode, leader: KnownLeader) -> str:
    """Why a read failed; reads can always be repeated."""
    if error is ErrorCode.NOT_CONTROLLER:
        return f"This node is not the active controller; {leader}."
    if error is ErrorCode.REQUEST_TIMED_OUT:
        return "A majority did not confirm the leader in time."
    return f"The read failed: {error.name}."
