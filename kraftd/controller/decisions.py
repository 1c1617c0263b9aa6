"""What the controller decides about a request, before anything has happened.

`ImmediateResponse` can be sent at once. `Write` must be committed first: append its records, all or none,
then ask `QuorumController.finished` for the response. `AfterWrite` has no records, and must wait for a write
that others asked for before it goes on. `NeedsRead` must wait for a linearizable read (D-12), then its
response is read from the committed image of that moment, or is a refusal that holds by what was known when it
was decided. `Started` says that there is nothing to append yet: the request waits for the end of a plan about
the same broker, or its own plan goes on with its next slice. What is done in slices is a `Write` each, which
names its `RunningPlan`; whoever asked for the plan is answered with its last slice, or with a `Resolved` if
there is none.

The texts of refusals are here too, because they are a promise (D-13): a client must be able to tell "not
appended, safe to repeat" from "appended, outcome unknown".
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from kraftd.controller.context import NO_CLIENT, Client
from kraftd.controller.decided_elections import ReasonAndRule
from kraftd.controller.plans import Plan, Task
from kraftd.errors import ErrorCode
from kraftd.types import NO_NODE, Epoch, NodeId


class RunningPlan(msgspec.Struct, eq=False):
    """A plan that has begun, or a request that waits for the end of one. Mutable; owned by the controller."""

    kind: str
    begun_ms: int
    plan: Plan | None = None
    """None for a request that is decided once no other plan is about its broker."""
    request: Any = None
    """None for what the controller does by itself."""
    task: Task | None = None
    """What that is; None for a request."""
    again: Callable[[], Plan] | None = None
    """What makes the plan once more, for a task that does not say how it is done."""
    version: int = 0
    client: Client = NO_CLIENT
    about: NodeId | None = None
    """The broker for whose sake others wait."""
    slices: int = 0
    """The slices that were appended so far."""
    in_flight: int = 0
    """Those of them that are not committed yet."""


class Write(msgspec.Struct, frozen=True, eq=False):
    """Records to append in `epoch`, all or none. `request` is None for the controller's own writes."""

    kind: str
    epoch: Epoch
    records: tuple[bytes, ...]
    response_when_committed: Any = None
    request: Any = None
    slice_of: RunningPlan | None = None
    """The plan that these records are a slice of."""
    is_last: bool = True
    """Whether it is the last slice of its plan."""
    elections: tuple[ReasonAndRule, ...] = ()
    """Why each change of a leader among them was made."""


class ImmediateResponse(msgspec.Struct, frozen=True):
    """A response that can be sent at once."""

    response: Any


class Started(msgspec.Struct, frozen=True, eq=False):
    """Nothing to append yet; the response comes with a later slice of `run`."""

    run: RunningPlan


class NeedsRead(msgspec.Struct, frozen=True, eq=False):
    """A response that needs a confirmed leader: `respond` after a good read, else `refuse`."""

    kind: str
    respond: Callable[[], Any]
    refuse: Callable[[ErrorCode], Any]


class AfterWrite(msgspec.Struct, frozen=True, eq=False):
    """A response that tells of what a write that is not committed yet leads to: it waits for that write.

    `refuse` makes the response if that write is not committed.
    """

    write: Write
    then: ImmediateResponse | NeedsRead
    """What is done once it is. That does not confirm the leader by itself: the write, and what acknowledged
    it, may be older than the request."""
    refuse: Callable[[ErrorCode], Any]


DecisionWithoutWrite: TypeAlias = ImmediateResponse | AfterWrite | NeedsRead
"""What a request without a write of its own leads to."""


class Resolved(msgspec.Struct, frozen=True, eq=False):
    """A plan ended without a last write: this is what goes to whoever asked for it."""

    run: RunningPlan
    decision: DecisionWithoutWrite


Decision: TypeAlias = Write | DecisionWithoutWrite | Started


class KnownLeader(msgspec.Struct, frozen=True):
    """The leader and its epoch, as far as this node knows."""

    epoch: Epoch = 0
    id: NodeId = NO_NODE

    def __str__(self) -> str:
        if self.id == NO_NODE:
            return f"no leader is known in epoch {self.epoch}"
        return f"the leader of epoch {self.epoch} is node {self.id}"


NOT_ACTIVE_YET = "Not appended, safe to repeat: this node leads, and has not written its first records yet."

TOO_LATE = "Not appended, safe to repeat: it waited too long for the controller to have time."


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
        case ErrorCode.UNKNOWN_SERVER_ERROR:
            return "Not appended: the decision failed, which is a defect of this program; its log says where."
        case ErrorCode.POLICY_VIOLATION:
            return "Not appended: one operation is more than the log takes at once. Split it."
        case _:
            return f"Not committed: {error.name}."


def unconfirmed_refusal(error: ErrorCode, leader: KnownLeader) -> str:
    """Why a request failed that changes nothing: it was answered like a read, and can be repeated."""
    if error is ErrorCode.REQUEST_TIMED_OUT:
        return "Not appended, safe to repeat: a majority did not confirm the leader in time."
    return write_refusal(error, leader)


def read_refusal(error: ErrorCode, leader: KnownLeader) -> str:
    """Why a read failed; reads can always be repeated."""
    if error is ErrorCode.NOT_CONTROLLER:
        return f"This node is not the active controller; {leader}."
    if error is ErrorCode.REQUEST_TIMED_OUT:
        return "A majority did not confirm the leader in time."
    return f"The read failed: {error.name}."
