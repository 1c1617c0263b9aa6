"""Partitions are moved, and moves are called off: Kafka's own requests to the active controller.

Each partition has an outcome of its own: what was refused does not keep the others from being moved. Many
partitions go in several requests. A change that may have been appended is not repeated (D-13).

Follows: Kafka's AlterPartitionReassignments (45) and ListPartitionReassignments (46).
"""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Final, NamedTuple

from msgspec.structs import replace

from kraftd.cli.active_controller import ask_controller
from kraftd.cli.client import KafkaConnection, LostError, raise_for
from kraftd.cli.failures import CommandError, RefusedError
from kraftd.cli.outcomes import Outcomes, Row, Words, outcomes_of, unknown_outcome
from kraftd.cli.reassignment_file import Assignment, Key, Replicas, partition_text
from kraftd.errors import ErrorCode
from kraftd.protocol.messages import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsRequestReassignablePartition,
    AlterPartitionReassignmentsRequestReassignableTopic,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from kraftd.types import Endpoint

PARTITIONS_PER_REQUEST: Final = 1_000

_REQUEST_TIMEOUT_MS: Final = 5_000
_FACTOR_SINCE: Final = 1
"""The version from which a request may forbid another number of replicas."""

_LOOK: Final = "reassign verify"


class _Asked(NamedTuple):
    """What one command asks for."""

    done: str
    """What has become of a partition then."""
    may_change_factor: bool = True


def begin(
    bootstrap: Sequence[Endpoint], wanted: Assignment, timeout_ms: int, *, may_change_factor: bool
) -> Outcomes:
    """Begin to move partitions; rows of topic, partition, replicas."""
    return _alter(bootstrap, wanted, _Asked("moved", may_change_factor), timeout_ms)


def call_off(bootstrap: Sequence[Endpoint], keys: Sequence[Key], timeout_ms: int) -> Outcomes:
    """Call off moves; rows of topic and partition. Of those that are not being moved nothing is changed."""
    return _alter(bootstrap, dict.fromkeys(keys), _Asked("called off"), timeout_ms)


def list_moving(bootstrap: Sequence[Endpoint], timeout_ms: int) -> list[Key]:
    """Every partition that is being moved: those that can be called off."""

    def ask(controller: KafkaConnection) -> list[Key]:
        response = controller.call(
            ListPartitionReassignmentsRequest(timeout_ms=_request_timeout(timeout_ms), topics=None),
            ListPartitionReassignmentsResponse,
            _request_timeout(timeout_ms),
        )
        raise_for(response.error_code, response.error_message, "what is being moved cannot be read")
        return sorted(
            (topic.name, one.partition_index) for topic in response.topics for one in topic.partitions
        )

    return ask_controller(bootstrap, ask, timeout_ms)


def _alter(
    bootstrap: Sequence[Endpoint], wanted: Mapping[Key, Replicas | None], asked: _Asked, timeout_ms: int
) -> Outcomes:
    """Send as many requests as are needed. After one that failed as a whole none is sent any more.

    Raises:
        CommandError: The first one failed as a whole.
    """
    items = sorted(wanted.items())
    rows: list[Row] = []
    failures: list[CommandError] = []
    unchanged = 0
    for start in range(0, len(items), PARTITIONS_PER_REQUEST):
        some = dict(items[start : start + PARTITIONS_PER_REQUEST])
        try:
            ask = partial(_ask, some=some, asked=asked, timeout_ms=timeout_ms)
            outcome = ask_controller(bootstrap, ask, timeout_ms, changes=start == 0)
        except CommandError as error:
            if start == 0:
                raise
            failures.append(error)
            break
        rows += outcome.rows
        failures += outcome.failures
        unchanged += outcome.unchanged
    return Outcomes(tuple(rows), tuple(failures), unchanged)


def _ask(
    controller: KafkaConnection, some: Mapping[Key, Replicas | None], asked: _Asked, timeout_ms: int
) -> Outcomes:
    request = _request(some, asked, _request_timeout(timeout_ms))
    version = controller.version_of(AlterPartitionReassignmentsRequest)
    if not asked.may_change_factor and version is not None and version < _FACTOR_SINCE:
        raise RefusedError(f"{controller.endpoint}: it does not know how to keep the number of replicas")
    try:
        response = controller.call(request, AlterPartitionReassignmentsResponse, request.timeout_ms)
    except LostError as error:
        raise unknown_outcome(f"{_some_text(list(some))} was changed", str(error), _LOOK) from error
    found = {
        (topic.name, one.partition_index): (one.error_code, one.error_message)
        for topic in response.responses
        for one in topic.partitions
    }
    if response.error_code != ErrorCode.NONE:
        found = dict.fromkeys(some, (response.error_code, response.error_message))
    row = partial(_row, some)
    idle = {key for key, (code, _) in found.items() if code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS}
    moving = [key for key in some if key not in idle]
    outcomes = outcomes_of(moving, found, row, partition_text, Words(asked.done, _LOOK))
    return replace(outcomes, unchanged=len(some) - len(moving))


def _request(
    some: Mapping[Key, Replicas | None], asked: _Asked, timeout_ms: int
) -> AlterPartitionReassignmentsRequest:
    topics = groupby(some.items(), key=lambda item: item[0][0])
    return AlterPartitionReassignmentsRequest(
        timeout_ms=timeout_ms,
        allow_replication_factor_change=asked.may_change_factor,
        topics=tuple(
            AlterPartitionReassignmentsRequestReassignableTopic(
                name,
                tuple(
                    AlterPartitionReassignmentsRequestReassignablePartition(number, replicas)
                    for (_, number), replicas in partitions
                ),
            )
            for name, partitions in topics
        ),
    )


def _row(some: Mapping[Key, Replicas | None], key: Key) -> Row:
    row: Row = {"topic": key[0], "partition": key[1]}
    replicas = some[key]
    return row if replicas is None else {**row, "replicas": list(replicas)}


def _some_text(keys: Sequence[Key]) -> str:
    more = f" and {len(keys) - 1} more" if len(keys) > 1 else ""
    return f"{partition_text(keys[0])}{more}"


def _request_timeout(timeout_ms: int) -> int:
    return min(timeout_ms, _REQUEST_TIMEOUT_MS)
