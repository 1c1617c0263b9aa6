"""How far partitions are from where a plan wants them."""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

from kraftd.cli.outcomes import Row
from kraftd.cli.reassignment_file import Assignment, Key, Replicas
from kraftd.metadata.replica_states import has_online_directory
from kraftd.records.messages import RegisterBrokerRecord
from kraftd.types import NodeId, parse_uuid

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


def settled(partition: Mapping[str, Any]) -> Replicas:
    """The replicas of a partition; of one that is being moved, those without what is added."""
    return tuple(one for one in partition["replicas"] if one not in partition["adding_replicas"])


def is_complete(partition: Mapping[str, Any], wanted: Replicas) -> bool:
    """Whether a partition is what is wanted of it, and nothing of it is being moved."""
    is_moving = partition["adding_replicas"] or partition["removing_replicas"]
    return not is_moving and tuple(partition["replicas"]) == wanted


def waits_for(partition: Mapping[str, Any], wanted: Replicas) -> list[NodeId]:
    """Who has to come in sync before a move to these replicas ends; nobody if it ends as it begins."""
    before = settled(partition)
    adding = [one for one in wanted if one not in before]
    removing = [one for one in partition["replicas"] if one not in wanted]
    return awaited(wanted, partition["isr"], adding, removing)


def awaited(
    staying: Sequence[NodeId], isr: Sequence[NodeId], adding: Sequence[NodeId], removing: Sequence[NodeId]
) -> list[NodeId]:
    """Who has to come in sync before a move ends.

    If it is nobody the move ends with the next change of the partition: nothing that anybody waits for.
    """
    # A move to fewer replicas waits for all that stay, any other for what it adds.
    needed = staying if len(adding) < len(removing) else adding
    return [one for one in needed if one not in isr]


def without_directory(
    brokers: Iterable[Row], there: Mapping[Key, Mapping[str, Any]], wanted: Assignment
) -> list[tuple[Key, NodeId]]:
    """The replicas that stay, or are waited for, and whose log directory is offline.

    Say broker 1 has lost the directory of its replica, 2 has another, and brokers 1 and 3 shall have them:
    once 3 has caught up, 2 gives up its replica, and 3 alone has the data.
    """
    registered = {
        row["broker_id"]: RegisterBrokerRecord(log_dirs=tuple(map(parse_uuid, row["log_dirs"])))
        for row in brokers
    }
    found: list[tuple[Key, NodeId]] = []
    for key, replicas in wanted.items():
        now = there[key]
        kept = waits_for(now, replicas) if {*replicas} == {*now["replicas"]} else replicas
        found += [
            (key, one)
            for one, directory in zip(now["replicas"], now["directories"], strict=True)
            if one in kept
            and one in registered
            and not has_online_directory(registered[one], parse_uuid(directory))
        ]
    return found


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
    return {
        "topic": key[0],
        "partition": key[1],
        "state": str(state),
        "wanted": list(wanted),
        "replicas": list(now["replicas"]),
        "catching_up": awaited(end, now["isr"], adding, removing),
        "to_remove": list(removing),
    }
