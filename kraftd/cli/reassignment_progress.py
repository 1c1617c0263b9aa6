"""How far partitions are from where a plan wants them."""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

from kraftd.cli.outcomes import Row
from kraftd.cli.reassignment_file import Assignment, Key

_NOT_THERE: Final[Mapping[str, Any]] = {
    "replicas": [],
    "isr": [],
    "adding_replicas": [],
    "removing_replicas": [],
}


class State(StrEnum):
    """How far a partition is."""

    COMPLETE = "complete"
    IN_PROGRESS = "in progress"
    DIFFERS = "differs"
    """It is elsewhere, or being moved elsewhere."""
    UNKNOWN = "unknown"
    """There is none such."""


def partitions_of(topics: Iterable[Mapping[str, Any]]) -> dict[Key, Mapping[str, Any]]:
    """The partitions of topics that `topics describe` has described, by topic and number."""
    return {(topic["topic"], one["partition"]): one for topic in topics for one in topic["partitions"]}


def progress(wanted: Assignment, there: Mapping[Key, Mapping[str, Any]]) -> list[Row]:
    """A row for each partition of a plan, in its order: the schema of `reassign verify`."""
    return [_row(key, replicas, there.get(key)) for key, replicas in wanted.items()]


def _row(key: Key, wanted: Sequence[int], partition: Mapping[str, Any] | None) -> Row:
    now = _NOT_THERE if partition is None else partition
    adding, removing = now["adding_replicas"], now["removing_replicas"]
    end = [one for one in now["replicas"] if one not in removing]
    if partition is None:
        state = State.UNKNOWN
    elif end != list(wanted):
        state = State.DIFFERS
    else:
        state = State.IN_PROGRESS if adding or removing else State.COMPLETE
    # A move to fewer replicas waits for all that stay, any other for what it adds.
    needed = end if len(adding) < len(removing) else adding
    return {
        "topic": key[0],
        "partition": key[1],
        "state": str(state),
        "wanted": list(wanted),
        "replicas": list(now["replicas"]),
        "catching_up": [one for one in needed if one not in now["isr"]],
        "to_remove": list(removing),
    }
