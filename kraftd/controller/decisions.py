"""What the controller answers a request with, before anything has happened.

`Answer` can be sent at once. `Write` must be committed first: append its records, all or none, then ask
`QuorumController.finished` for the reply. `NeedsRead` must wait for a linearizable read (D-12), then its
`answer` speaks for the committed image of that moment.

The texts of refusals are here too, because they are a promise (D-13): a client must be able to tell "not
appended, safe to repeat" from "appended, outcome unknown".
"""

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from kraftd.controller.pages import Echo
from kraftd.errors import ErrorCode
from kraftd.protocol.messages import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeConfigsResponseDescribeConfigsResult,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    IncrementalAlterConfigsResponseAlterConfigsResourceResponse,
    ListConfigsRequest,
    ListConfigsResponse,
)
from kraftd.types import NO_NODE, Epoch, NodeId

ControllerRequest: TypeAlias = IncrementalAlterConfigsRequest | DescribeConfigsRequest | ListConfigsRequest
"""The requests that the controller handles."""

ControllerResponse: TypeAlias = (
    IncrementalAlterConfigsResponse | DescribeConfigsResponse | ListConfigsResponse
)
"""Their answers."""


class Write(msgspec.Struct, frozen=True, eq=False):
    """Records to append in `epoch`, all or none. `request` is None for the controller's own writes."""

    kind: str
    epoch: Epoch
    records: tuple[bytes, ...]
    response_when_committed: ControllerResponse | None = None
    request: ControllerRequest | None = None


class Answer(msgspec.Struct, frozen=True):
    """A response that nothing has to be waited for."""

    response: ControllerResponse


class NeedsRead(msgspec.Struct, frozen=True, eq=False):
    """A response that needs a confirmed leader: `answer` after a good read, else `refuse`."""

    kind: str
    answer: Callable[[], ControllerResponse]
    refuse: Callable[[ErrorCode], ControllerResponse]


Decision: TypeAlias = Write | Answer | NeedsRead


class Leader(msgspec.Struct, frozen=True):
    """Who leads, as far as this node has heard."""

    epoch: Epoch = 0
    id: NodeId = NO_NODE

    def __str__(self) -> str:
        if self.id == NO_NODE:
            return f"no leader is known in epoch {self.epoch}"
        return f"the leader of epoch {self.epoch} is node {self.id}"


NOT_ACTIVE_YET = "Not appended, safe to repeat: this node leads, and has not written its first records yet."


def write_refusal(error: ErrorCode, leader: Leader) -> str:
    """Why a write has no good answer, and what that means for its sender (D-13)."""
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


def read_refusal(error: ErrorCode, leader: Leader) -> str:
    """Why a read has no answer; reads can always be repeated."""
    if error is ErrorCode.NOT_CONTROLLER:
        return f"This node is not the active controller; {leader}."
    if error is ErrorCode.REQUEST_TIMED_OUT:
        return "A majority did not confirm the leader in time."
    return f"The read failed: {error.name}."


def refuse_write(request: ControllerRequest, error: ErrorCode, text: str) -> ControllerResponse:
    """Answer a write that did not happen, or may not have, for each of its resources."""
    if not isinstance(request, IncrementalAlterConfigsRequest):
        return refuse_read(request, error, text)
    return refuse_alter(request, error, text)


def refuse_alter(
    request: IncrementalAlterConfigsRequest, error: ErrorCode, text: str
) -> IncrementalAlterConfigsResponse:
    """Answer a change of configs that did not happen, or may not have, for each of its resources."""
    echo = Echo([resource.resource_name for resource in request.resources])
    return IncrementalAlterConfigsResponse(
        responses=tuple(
            IncrementalAlterConfigsResponseAlterConfigsResourceResponse(
                error_code=error,
                error_message=echo.text(text),
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in request.resources[: echo.count]
        )
    )


def refuse_read(
    request: DescribeConfigsRequest | ListConfigsRequest, error: ErrorCode, text: str
) -> ControllerResponse:
    """Answer a read that could not be done."""
    if isinstance(request, ListConfigsRequest):
        return ListConfigsResponse(error_code=error, error_message=text, applied_offset=-1)
    echo = Echo([resource.resource_name for resource in request.resources])
    return DescribeConfigsResponse(
        results=tuple(
            DescribeConfigsResponseDescribeConfigsResult(
                error_code=error,
                error_message=echo.text(text),
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in request.resources[: echo.count]
        )
    )
