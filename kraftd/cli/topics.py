"""`kraftctl topics list|describe|create|delete|deletions`: topics, without a broker in between.

`list`, `describe` and `deletions` ask kraftd's leader for page after page, each of them linearizable and of
its own moment: a topic that does not change meanwhile is told as it is. `create` and `delete` are Kafka's own
APIs, sent to the active controller over Kafka's wire, and confirmed when committed; so they work with Kafka's
controllers and brokers too. A change that may have been appended is not repeated: the command ends with 5.

Schema of `list`: a list of topic, topic_id, partitions, least_replicas, most_replicas, leaderless,
    under_replicated (numbers of partitions).
Schema of `describe`: a list of topic, topic_id, configs (an object of what is set; null for a secret),
    partitions (a list of partition, leader (-1 none), leader_epoch, partition_epoch, replicas, isr, elr,
    last_known_elr, adding_replicas, removing_replicas, directories, leader_recovering).
Schema of `create`: a list of topic, topic_id, partitions, replication_factor (null and -1 where the node does
    not tell), validated_only.
Schema of `delete`: a list of topic, topic_id (null where the node does not tell).

Schema of `deletions`: begin_offset (of what was taken away before it nothing is known), dropped (older
    replicas that are not kept any more), removals (a list of topic, topic_id, partitions, broker_id, offset
    (of the record that took them away), reason (topic deleted, reassigned), state (Kafka's name), data (where
    it is, in words), set_aside (it stays in -stray; with directory_offline, as an old copy), heard (whether
    the active controller has heard all that the broker reported since; false, too, where the log directory
    may have been replaced), directory_offline (it is ineligible because its log directory is offline),
    removed_ms, since_ms (of the state; unless heard, when this active controller was told of it)).

Follows: Kafka's CreateTopics and DeleteTopics; the names of options and the lines of `kafka-topics`.
Differs: `list` has numbers beside the names, and each topic that was created has its own.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, TypeAlias

import typer

from kraftd.cli import topic_changes
from kraftd.cli.deletion_pages import READ_UNHEARD, UNCERTAIN, list_deletions, short_state
from kraftd.cli.failures import RefusedError, UsageError
from kraftd.cli.options import (
    BootstrapOption,
    OutputOption,
    TimeoutOption,
    bootstrap_of,
    check_line,
    check_utf8,
    output_of,
)
from kraftd.cli.outcomes import Outcomes
from kraftd.cli.output import columns, emit, id_text, ids_or_dash, labels
from kraftd.cli.partition_pages import moves_text
from kraftd.cli.times import second_text
from kraftd.cli.topic_changes import Wanted, parse_assignments
from kraftd.cli.topic_pages import describe_topics, list_topics
from kraftd.metadata.redaction import REDACTED
from kraftd.metadata.views import ids_text
from kraftd.types import Uuid, parse_uuid

app = typer.Typer(help="List, describe, create and delete topics; say where deleted data still is.")

Row: TypeAlias = dict[str, Any]

_PARTITIONS_MAX = (1 << 31) - 1
_REPLICAS_MAX = (1 << 15) - 1
"""What Kafka's request can carry."""

_IDS_MAX = 8
"""So many partitions are named in a row of a table; more are counted."""

_PERHAPS_GONE = "Gone?"
_DIRECTORY_OFFLINE = "DirOffline"
_OLD_COPY = "OldCopy"

_SHORT_REASONS: Mapping[str, str] = {"topic deleted": "deleted", "reassigned": "moved"}
"""Why replicas were taken away, for a table."""

NamesArgument: TypeAlias = Annotated[
    list[str], typer.Argument(metavar="NAME…", help="Names of topics.", show_default=False)
]


@app.command("list")
def list_command(
    context: typer.Context,
    timeout_ms: TimeoutOption = 10_000,
    output: OutputOption = None,
    bootstrap: BootstrapOption = None,
) -> None:
    """List every topic, with how many of its partitions are in trouble."""
    rows = list_topics(bootstrap_of(context, bootstrap), timeout_ms)
    emit(rows, output_of(context, output), list_table, nothing="there is no topic")


@app.command("describe")
def describe_command(
    context: typer.Context,
    names: NamesArgument,
    timeout_ms: TimeoutOption = 10_000,
    output: OutputOption = None,
    bootstrap: BootstrapOption = None,
) -> None:
    """Describe topics: their configs, and each partition with its leader and replicas."""
    check_line(names, "a topic's name")
    found, unknown = describe_topics(bootstrap_of(context, bootstrap), list(dict.fromkeys(names)), timeout_ms)
    if found or not unknown:
        emit(found, output_of(context, output), describe_table)
    if unknown:
        raise RefusedError(f"there is no topic {' and no topic '.join(unknown)}")


@app.command("create")
def create_command(
    context: typer.Context,
    names: NamesArgument,
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions",
            min=1,
            max=_PARTITIONS_MAX,
            metavar="N",
            help="How many. (default: the controller's)",
            show_default=False,
        ),
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option(
            "--replication-factor",
            min=1,
            max=_REPLICAS_MAX,
            metavar="N",
            help="Replicas of each. (default: the controller's)",
            show_default=False,
        ),
    ] = None,
    assignment: Annotated[
        str | None,
        typer.Option(
            "--replica-assignment",
            metavar="B:B,B:B",
            help="The brokers of each partition, by hand: 1:2,2:3.",
            show_default=False,
        ),
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option("--config", metavar="NAME=VALUE", help="A config to set; may be repeated."),
    ] = None,
    validate_only: Annotated[
        bool, typer.Option("--validate-only", help="Check everything, create nothing.")
    ] = False,
    timeout_ms: TimeoutOption = 10_000,
    output: OutputOption = None,
    bootstrap: BootstrapOption = None,
) -> None:
    """Create topics that are all alike; confirmed when committed."""
    if assignment is not None and not (partitions is None and replication_factor is None):
        raise UsageError(
            "--replica-assignment says how many partitions and replicas there are; leave them out"
        )
    wanted = Wanted(
        partitions=-1 if partitions is None else partitions,
        replication_factor=-1 if replication_factor is None else replication_factor,
        assignments=() if assignment is None else parse_assignments(assignment),
        configs=_configs(config or ()),
        validate_only=validate_only,
    )
    outcome = topic_changes.create(bootstrap_of(context, bootstrap), _distinct(names), wanted, timeout_ms)
    done = "" if validate_only else "the topics were created"
    _tell(context, output, outcome, done, lambda rows: "\n".join(map(_created_text, rows)))


@app.command("delete")
def delete_command(
    context: typer.Context,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME…]", help="Names of topics.", show_default=False)
    ] = None,
    topic_id: Annotated[
        list[str] | None,
        typer.Option("--topic-id", metavar="UUID", help="A topic by its id; may be repeated."),
    ] = None,
    timeout_ms: TimeoutOption = 10_000,
    output: OutputOption = None,
    bootstrap: BootstrapOption = None,
) -> None:
    """Delete topics with all their data; confirmed when committed."""
    if not names and not topic_id:
        raise UsageError("no topic is named; name one, or give --topic-id")
    ids = [_uuid(text) for text in topic_id or ()]
    endpoints = bootstrap_of(context, bootstrap)
    outcome = topic_changes.delete(endpoints, _distinct(names or ()), ids, timeout_ms)
    lines = "Deleted topic {}."
    _tell(
        context,
        output,
        outcome,
        "the topics were deleted",
        lambda rows: "\n".join(lines.format(row["topic"]) for row in rows),
    )


def _tell(
    context: typer.Context,
    output: Any,
    outcome: Outcomes,
    done: str,
    table: Callable[[Sequence[Row]], str],
) -> None:
    """Write what was done, then end as what was not demands."""
    rows = list(outcome.rows)
    if rows or not outcome.failures:
        emit(rows, output_of(context, output), table, done=done)
    outcome.check()


def _created_text(row: Row) -> str:
    """The line that `kafka-topics` ends with, and what the topic is like."""
    done = "Topic {} can be created" if row["validated_only"] else "Created topic {}"
    numbers = [
        f"{row[name]} {word if row[name] == 1 else word + 's'}"
        for name, word in (("partitions", "partition"), ("replication_factor", "replica"))
        if row[name] >= 0
    ]
    return f"{done.format(row['topic'])}{': ' * bool(numbers)}{', '.join(numbers)}."


@app.command("deletions")
def deletions_command(
    context: typer.Context,
    is_all: Annotated[bool, typer.Option("--all", help="Those too whose data is gone.")] = False,
    timeout_ms: TimeoutOption = 10_000,
    output: OutputOption = None,
    bootstrap: BootstrapOption = None,
) -> None:
    """Show where data of deleted topics and of replicas that were moved away still is, and why."""
    data = list_deletions(bootstrap_of(context, bootstrap), timeout_ms, is_all=is_all)
    none = "no replica that was taken away is known" + (
        "" if is_all else "; --all shows those whose data is gone"
    )
    emit(data, output_of(context, output), deletions_table, nothing=none)


def deletions_table(data: Mapping[str, Any]) -> str:
    """One row for each record and broker; then where the data is in each state that occurs, each once, and a
    line about what is not known.
    """
    cells = [
        (
            row["broker_id"],
            _deletion_state(row),
            second_text(row["removed_ms"]),
            _SHORT_REASONS.get(row["reason"], row["reason"]),
            _some_ids(row["partitions"]),
            row["topic"],
        )
        for row in data["removals"]
    ]
    headers = ("Broker", "State", "Removed", "Why", "Partition", "Topic")
    lines = [columns(headers, cells), ""] if cells else []
    states = {_deletion_state(row): row["data"] for row in data["removals"]}
    lines += [f"{state}: {where}." for state, where in states.items()]
    if data["begin_offset"] > 0:
        lines.append(f"What was taken away before offset {data['begin_offset']} is not known.")
    if data["dropped"]:
        lines.append(f"{data['dropped']} older replicas, at least, are not kept any more.")
    return "\n".join(lines)


def _some_ids(ids: Sequence[int]) -> str:
    return ids_text(ids) if len(ids) <= _IDS_MAX else f"{len(ids)} in all"


def _deletion_state(row: Mapping[str, Any]) -> str:
    """The part of Kafka's name that differs, with a question mark where it is open whether data is there; of
    what was deleted, and may have been long ago, that; and for which of two reasons it is ineligible.
    """
    if row["data"] == READ_UNHEARD:
        return _PERHAPS_GONE
    short = short_state(row["state"]).removeprefix("Deletion")
    if row["directory_offline"]:
        short = _OLD_COPY if row["set_aside"] else _DIRECTORY_OFFLINE
    return f"{short}?" if row["data"] in UNCERTAIN else short


def list_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """One row a topic; its name, which may be as long as three lines of a terminal, comes last."""
    cells = [
        (row["partitions"], _replicas_text(row), row["leaderless"], row["under_replicated"], row["topic"])
        for row in rows
    ]
    if not cells:
        return ""
    return columns(("Partitions", "Replicas", "Leaderless", "UnderReplicated", "Topic"), cells)


def describe_table(topics: Sequence[Mapping[str, Any]]) -> str:
    """For each topic its labels and one row a partition, in the columns of `kraftctl log state`."""
    return "\n\n".join(map(_describe_table, topics))


def _describe_table(topic: Mapping[str, Any]) -> str:
    partitions = topic["partitions"]
    configs = [f"{name}={_value_text(value)}" for name, value in sorted(topic["configs"].items())]
    pairs = [
        ("Topic", topic["topic"]),
        ("TopicId", topic["topic_id"]),
        ("Configs", ", ".join(configs) or "-"),
    ]
    moves = [f"{each['partition']} {text}" for each in partitions if (text := moves_text(each))]
    if moves:
        pairs.append(("Reassigning", "; ".join(moves)))
    recovering = [str(each["partition"]) for each in partitions if each["leader_recovering"]]
    if recovering:
        pairs.append(("LeaderRecovering", ",".join(recovering)))
    return f"{labels(pairs)}\n{columns(_PARTITION_COLUMNS, map(_partition_row, partitions))}"


_PARTITION_COLUMNS = ("Partition", "Leader", "Replicas", "Isr", "Elr", "LastKnownElr", "LeaderEpoch", "Epoch")


def _partition_row(partition: Mapping[str, Any]) -> tuple[object, ...]:
    return (
        partition["partition"],
        id_text(partition["leader"], "none"),
        ids_text(partition["replicas"]),
        ids_text(partition["isr"]),
        ids_or_dash(partition["elr"]),
        ids_or_dash(partition["last_known_elr"]),
        partition["leader_epoch"],
        partition["partition_epoch"],
    )


def _replicas_text(row: Mapping[str, Any]) -> str:
    least, most = row["least_replicas"], row["most_replicas"]
    return str(most) if least == most else f"{least}-{most}"


def _value_text(value: str | None) -> str:
    return REDACTED if value is None else value


def _distinct(names: Sequence[str]) -> list[str]:
    check_line(names, "a topic's name")
    return list(dict.fromkeys(names))


def _configs(assignments: Sequence[str]) -> Mapping[str, str]:
    values: dict[str, str] = {}
    for text in assignments:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError(f"{text!r} sets nothing; write --config NAME=VALUE")
        if name in values:
            raise UsageError(f"config {name} is given twice; give each once")
        values[name] = value
    check_line([*values], "a config's name")
    check_utf8(values.values(), "a config's value")
    return values


def _uuid(text: str) -> Uuid:
    try:
        return parse_uuid(text)
    except ValueError as error:
        raise UsageError(str(error)) from None
