"""`kraftctl reassign plan|execute|verify|cancel`: replicas are moved to other brokers, without a broker in
between.

Plans are files in the format of `kafka-reassign-partitions`, which takes them too. `plan` and `verify` ask
kraftd's leader for topics and brokers; `execute` and `cancel` are Kafka's own APIs, sent to the active
controller over Kafka's wire, and confirmed when committed. Before `execute` changes anything it looks whether
there are these topics and brokers, and names brokers that moves wait for and that are not active,
partitions that nobody leads, and, as `plan` does, replicas that stay and whose log directory is offline; as
with Kafka, the moves begin for all that.

Schema of `plan`: a file for `execute`: version, partitions (a list of topic, partition, replicas); and
    rollback, the same of what is now.
Schema of `execute`: rollback (what was before, as a file), started (a list of topic, partition, replicas:
    those that were not so already).
Schema of `verify`: a list of topic, partition, state (complete, in progress, differs, unknown), wanted,
    replicas, catching_up (who is not in sync yet), to_remove. It ends with 5 while anything is in progress,
    and with 4 if anything differs or is unknown.
Schema of `cancel`: a list of topic, partition: those whose moves were called off.

Follows: Kafka's AlterPartitionReassignments and ListPartitionReassignments; the names of options and what is
told of `kafka-reassign-partitions`.
Differs: throttles, and log directories within a broker, are the brokers' and not here; a move may be changed
without `--additional`.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final, TypeAlias

import typer
from msgspec.structs import replace

from kraftd.cli import reassignment_changes
from kraftd.cli.brokers import registered_brokers
from kraftd.cli.failures import RefusedError, UnhealthyError, UnknownOutcomeError, UsageError
from kraftd.cli.options import (
    NODE_ID_MAX,
    BootstrapOption,
    OutputOption,
    TimeoutOption,
    bootstrap_of,
    check_line,
    output_of,
)
from kraftd.cli.outcomes import Outcomes, Row
from kraftd.cli.output import Format, columns, emit, ids_or_dash, note, write
from kraftd.cli.reassignment_file import (
    STANDARD_INPUT,
    Assignment,
    Key,
    assignment_data,
    assignment_line,
    partition_text,
    read_assignment,
    topics_of,
)
from kraftd.cli.reassignment_plan import spread
from kraftd.cli.reassignment_progress import (
    State,
    is_complete,
    partitions_of,
    progress,
    settled,
    waits_for,
    without_directory,
)
from kraftd.cli.topic_pages import describe_partitions
from kraftd.metadata.views import ids_text
from kraftd.types import NO_NODE, Endpoint, NodeId

app = typer.Typer(help="Move replicas to other brokers.")

_REPLICAS_MAX = (1 << 15) - 1

_ARE: Final = ("is", "are")
_WERE: Final = ("was", "were")
_NOTHING: Final = "Nothing is to be moved."

FileOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--file",
        metavar="FILE",
        help="What each partition shall be; - reads standard input.",
        show_default=False,
    ),
]


@app.command("plan")
def plan_command(
    context: typer.Context,
    topics: Annotated[
        list[str],
        typer.Option("--topic", metavar="NAME", help="A topic; may be repeated.", show_default=False),
    ],
    brokers: Annotated[
        str,
        typer.Option(
            "--brokers", metavar="ID,ID,…", help="The brokers that shall hold it.", show_default=False
        ),
    ],
    replication_factor: Annotated[
        int | None,
        typer.Option(
            "--replication-factor",
            min=1,
            max=_REPLICAS_MAX,
            metavar="N",
            help="Replicas of each partition. (default: as many as it has)",
            show_default=False,
        ),
    ] = None,
    timeout_ms: TimeoutOption = 10_000,
    output: OutputOption = None,
    bootstrap: BootstrapOption = None,
) -> None:
    """Spread topics over brokers and racks, copying as little as may be. Changes nothing.

    With -o json, what is printed is a file for execute.
    """
    check_line(topics, "a topic's name")
    ids = parse_brokers(brokers)
    endpoints = bootstrap_of(context, bootstrap)
    rows = _active(endpoints, ids, timeout_ms)
    racks = {row["broker_id"]: row["rack"] for row in rows}
    there = _unmoved(endpoints, list(dict.fromkeys(topics)), timeout_ms)
    present = {key: tuple(one["replicas"]) for key, one in there.items()}
    _check_factor(present, racks, replication_factor)
    planned = spread(present, racks, replication_factor)
    if warning := offline_directory_text(rows, there, planned):
        note(warning)
    before = {key: present[key] for key in planned}
    data = {**assignment_data(planned), "rollback": assignment_data(before)}
    emit(data, output_of(context, output), lambda _: plan_text(before, planned))


@app.command("execute")
def execute_command(
    context: typer.Context,
    file: FileOption,
    keep_factor: Annotated[
        bool,
        typer.Option(
            "--disallow-replication-factor-change",
            help="Refuse to change the number of a partition's replicas.",
        ),
    ] = False,
    timeout_ms: TimeoutOption = 10_000,
    output: OutputOption = None,
    bootstrap: BootstrapOption = None,
) -> None:
    """Begin to move partitions; confirmed when committed. Then see verify."""
    wanted = read_assignment(file)
    endpoints = bootstrap_of(context, bootstrap)
    form = output_of(context, output)
    if not wanted:
        emit({"rollback": assignment_data({}), "started": []}, form, lambda _: _NOTHING)
        return
    there = _described(endpoints, topics_of(wanted), timeout_ms, changes=True)
    if missing := next((key for key in wanted if key not in there), None):
        raise RefusedError(f"there is no {partition_text(missing)}")
    brokers = sorted({one for replicas in wanted.values() for one in replicas})
    registered = registered_brokers(endpoints, brokers, timeout_ms)
    before = {key: settled(there[key]) for key in wanted}
    warnings = (
        inactive_text(registered, there, wanted),
        offline_text(there, wanted),
        offline_directory_text(registered, there, wanted),
    )
    for warning in filter(None, warnings):
        note(warning)
    try:
        outcome = reassignment_changes.begin(endpoints, wanted, timeout_ms, may_change_factor=not keep_factor)
    except (UnknownOutcomeError, KeyboardInterrupt):
        _tell_rollback(form, before)  # it is needed most where nobody knows what has begun
        raise
    begun = _without_complete(outcome, there)
    if begun.may_have_changed:
        _tell_rollback(form, before)
    data = {"rollback": assignment_data(before), "started": list(begun.rows)}
    hint = _unchanged_text(begun, wanted, *(f"{are} what the file wants already" for are in _ARE))
    _tell(form, begun, data, lambda _: started_text(begun.rows), "the moves were begun", hint)


@app.command("verify")
def verify_command(
    context: typer.Context,
    file: FileOption,
    timeout_ms: TimeoutOption = 10_000,
    output: OutputOption = None,
    bootstrap: BootstrapOption = None,
) -> None:
    """Tell how far partitions are from what a file wants, and what is missing.

    Exit code 5 while anything is being moved, 4 if anything differs and is not.
    """
    wanted = read_assignment(file)
    endpoints = bootstrap_of(context, bootstrap)
    found, _ = describe_partitions(endpoints, topics_of(wanted), timeout_ms) if wanted else ([], [])
    rows = progress(wanted, partitions_of(found))
    emit(rows, output_of(context, output), verify_table)
    if hint := stuck_text(rows):
        note(hint)
    _check_progress(rows)


@app.command("cancel")
def cancel_command(
    context: typer.Context,
    file: Annotated[
        str | None,
        typer.Option(
            "--file", metavar="FILE", help="The partitions whose moves to call off.", show_default=False
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Call off every move in the cluster.")] = False,
    timeout_ms: TimeoutOption = 10_000,
    output: OutputOption = None,
    bootstrap: BootstrapOption = None,
) -> None:
    """Call moves off: replicas that are being added go, also those that have caught up.

    A partition whose move is complete stays where it is.
    """
    if (file is None) != everything:
        raise UsageError("say what to call off: either --file FILE or --all")
    wanted = None if file is None else read_assignment(file)
    endpoints = bootstrap_of(context, bootstrap)
    keys = reassignment_changes.list_moving(endpoints, timeout_ms) if wanted is None else list(wanted)
    outcome = reassignment_changes.call_off(endpoints, keys, timeout_ms)
    rows = list(outcome.rows)
    whose = "" if file is None else f" of {'standard input' if file == STANDARD_INPUT else file}"
    text = cancel_text(rows) or f"Nothing{whose} is being moved."
    hint = _unchanged_text(outcome, wanted, *(f"{were} not being moved" for were in _WERE)) if rows else ""
    _tell(output_of(context, output), outcome, rows, lambda _: text, "the moves were called off", hint)


def _tell_rollback(form: Format, before: Assignment) -> None:
    """Write what was before the moves; the other formats have it beside what was begun."""
    if form is Format.TABLE:
        write(f"Present assignment, for a rollback:\n{assignment_line(before)}\n\n")
        sys.stdout.flush()


def _tell(
    form: Format, outcome: Outcomes, data: Any, text: Callable[[Any], str], done: str, hint: str
) -> None:
    """Write what was done, and a hint if there is one, then end as demands what was not."""
    if outcome.rows or not outcome.failures:
        emit(data, form, text, done=done if outcome.rows else "")
    if hint:
        note(hint)
    outcome.check()


# --- what there is


def _described(
    bootstrap: Sequence[Endpoint], topics: Sequence[str], timeout_ms: int, *, changes: bool = False
) -> dict[tuple[str, int], Mapping[str, Any]]:
    """The partitions of topics, as `topics describe` has them."""
    found, unknown = describe_partitions(bootstrap, topics, timeout_ms, changes=changes)
    if unknown:
        raise RefusedError(f"there is no topic {' and no topic '.join(unknown)}")
    return partitions_of(found)


def _unmoved(
    bootstrap: Sequence[Endpoint], topics: Sequence[str], timeout_ms: int
) -> dict[Key, Mapping[str, Any]]:
    """The partitions of topics, none of which is being moved."""
    there = _described(bootstrap, topics, timeout_ms)
    for key, one in there.items():
        if one["adding_replicas"] or one["removing_replicas"]:
            raise RefusedError(f"{partition_text(key)} is being moved; wait for that, or call it off, first")
    return there


def _active(bootstrap: Sequence[Endpoint], ids: Sequence[NodeId], timeout_ms: int) -> list[Row]:
    """Brokers that are all there and can take replicas now."""
    rows = registered_brokers(bootstrap, ids, timeout_ms)
    for row in rows:
        if row["state"] != "active":
            raise RefusedError(f"broker {row['broker_id']} is {row['state']}: what moves to it would wait")
    return rows


def _check_factor(present: Assignment, racks: Mapping[NodeId, object], factor: int | None) -> None:
    topic, needed = "", factor or 0
    if factor is None and present:
        key = max(present, key=lambda one: len(present[one]))
        topic, needed = f"topic {key[0]}: ", len(present[key])
    if needed > len(racks):
        named = "1 is" if len(racks) == 1 else f"{len(racks)} are"
        raise RefusedError(f"{topic}{needed} replicas need as many brokers, and {named} named")


def share_text(count: int, of_all: int, one: str, many: str) -> str:
    """That so many partitions of all are something: of one, or of many."""
    return f"{count} of {of_all} partition{'s' * (of_all > 1)} {one if count == 1 else many}"


def _without_complete(outcome: Outcomes, there: Mapping[Key, Mapping[str, Any]]) -> Outcomes:
    """What was begun: of what was asked for, what was not so before."""
    started = tuple(
        row
        for row in outcome.rows
        if not is_complete(there[row["topic"], row["partition"]], tuple(row["replicas"]))
    )
    return replace(outcome, rows=started, unchanged=len(outcome.rows) - len(started))


def _unchanged_text(outcome: Outcomes, wanted: Assignment | None, one: str, many: str) -> str:
    """For how many partitions of a file nothing was left to do; empty if for none."""
    return share_text(outcome.unchanged, len(wanted), one, many) if wanted and outcome.unchanged else ""


def _check_progress(rows: Sequence[Row]) -> None:
    """End as the worst state of a partition demands."""
    states = [row["state"] for row in rows]
    not_so = states.count(State.DIFFERS) + states.count(State.UNKNOWN)
    if not_so:
        one, many = (f"{are} not, and {are} not becoming, what the file wants" for are in _ARE)
        raise RefusedError(share_text(not_so, len(rows), one, many))
    if moving := states.count(State.IN_PROGRESS):
        raise UnhealthyError(share_text(moving, len(rows), "is still being moved", "are still being moved"))


# --- what is said


def plan_text(before: Assignment, planned: Assignment) -> str:
    """What is to be moved, then both assignments, each a line that is a file."""
    if not planned:
        return _NOTHING
    return (
        f"{moves_table(before, planned)}\n\n"
        f"Present assignment, for a rollback:\n{assignment_line(before)}\n\n"
        f"Planned assignment, for execute:\n{assignment_line(planned)}"
    )


def moves_table(before: Assignment, planned: Assignment) -> str:
    """A row for each partition that changes; its topic, which may be long, comes last."""
    rows = []
    for key, after in planned.items():
        added = [one for one in after if one not in before[key]]
        removed = [one for one in before[key] if one not in after]
        brokers = (ids_text(before[key]), ids_text(after), ids_or_dash(added), ids_or_dash(removed))
        rows.append((key[1], *brokers, key[0]))
    return columns(("Partition", "Replicas", "Planned", "Adding", "Removing", "Topic"), rows)


def inactive_text(brokers: Sequence[Row], there: Mapping[Key, Mapping[str, Any]], wanted: Assignment) -> str:
    """Which brokers moves wait for and are not active; empty if all are.

    A move can be called off only while somebody has all records without what it adds: so that is proposed
    only then.
    """
    inactive = {row["broker_id"]: row["state"] for row in brokers if row["state"] != "active"}
    states: dict[str, set[NodeId]] = {}
    can_cancel = False
    for key, replicas in wanted.items():
        now, before = there[key], settled(there[key])
        for one in waits_for(now, replicas):
            if one in inactive and (one not in before or now["leader"] != NO_NODE):
                states.setdefault(inactive[one], set()).add(one)
                can_cancel |= any(other in now["isr"] for other in before)
    if not states:
        return ""
    named = [
        f"broker{'s' * (len(ids) > 1)} {ids_text(sorted(ids))} {'are' if len(ids) > 1 else 'is'} {state}"
        for state, ids in sorted(states.items(), key=lambda item: min(item[1]))
    ]
    are_up = "they are up" if sum(map(len, states.values())) > 1 else "it is up"
    hint = "; see reassign cancel" if can_cancel else ""
    return f"{', '.join(named)}: what moves there waits until {are_up}{hint}"


def offline_text(there: Mapping[Key, Mapping[str, Any]], wanted: Assignment) -> str:
    """Which moves wait for somebody to lead their partitions first, and who may; empty for none."""
    waiting = {
        key: there[key]["isr"] or there[key]["elr"] or there[key]["last_known_elr"]
        for key, replicas in wanted.items()
        if there[key]["leader"] == NO_NODE and waits_for(there[key], replicas)
    }
    if not waiting:
        return ""
    heirs = sorted({one for ids in waiting.values() for one in ids})
    if len(waiting) > 1:
        who = f"broker{'s' * (len(heirs) > 1)} {ids_text(heirs)} can lead them" if heirs else "they are led"
        look = "see partitions list --offline"
        return f"{len(waiting)} partitions are offline: their moves wait until {who}; {look}"
    ((topic, number),) = waiting
    who = f"broker {' or '.join(map(str, heirs))} can lead it" if heirs else "it is led"
    return (
        f"{partition_text((topic, number))} is offline: its move waits until {who}; "
        f"see partitions explain {topic}-{number}"
    )


def offline_directory_text(
    brokers: Sequence[Row], there: Mapping[Key, Mapping[str, Any]], wanted: Assignment
) -> str:
    """Which replicas stay in a log directory that is offline; empty if none does."""
    lost = without_directory(brokers, there, wanted)
    if not lost:
        return ""
    if len(lost) == 1:
        ((key, broker),) = lost
        return (
            f"broker {broker} has its replica of {partition_text(key)} in a log directory that is offline: "
            f"that is no copy until the directory is back; see partitions explain {key[0]}-{key[1]}"
        )
    ids = sorted({broker for _, broker in lost})
    who = f"brokers {ids_text(ids)} have" if len(ids) > 1 else f"broker {ids[0]} has"
    return (
        f"{who} {len(lost)} replicas in log directories that are offline: those are no copies until the "
        "directories are back; see partitions list --under-replicated"
    )


def started_text(rows: Sequence[Row]) -> str:
    """A row for each partition whose move was begun."""
    if not rows:
        return _NOTHING
    cells = [(row["partition"], ids_text(row["replicas"]), row["topic"]) for row in rows]
    return "Started:\n" + columns(("Partition", "Wanted", "Topic"), cells)


def stuck_text(rows: Sequence[Row]) -> str:
    """That moves are over but for their last record, and what has that written; empty if none is.

    An unclean election may leave a move so: who is elected is in sync then, and no change follows that would
    end the move.
    """
    count = sum(row["state"] == State.IN_PROGRESS and not row["catching_up"] for row in rows)
    if not count:
        return ""
    moves, them = ("1 move waits", "it") if count == 1 else (f"{count} moves wait", "them")
    return f"{moves} for nobody any more: reassign execute with the same file ends {them}"


def verify_table(rows: Sequence[Row]) -> str:
    """A row for each partition of the file."""
    if not rows:
        return _NOTHING
    cells = [
        (
            row["partition"],
            row["state"],
            ids_text(row["wanted"]),
            ids_or_dash(row["replicas"]),
            ids_or_dash(row["catching_up"]),
            ids_or_dash(row["to_remove"]),
            row["topic"],
        )
        for row in rows
    ]
    return columns(("Partition", "State", "Wanted", "Replicas", "CatchingUp", "ToRemove", "Topic"), cells)


def cancel_text(rows: Sequence[Row]) -> str:
    """A line for each move that was called off."""
    return "\n".join(f"Called off: {partition_text((row['topic'], row['partition']))}." for row in rows)


def parse_brokers(text: str) -> list[NodeId]:
    """Read the ids of brokers, `1,2,3`.

    Raises:
        UsageError: They are something else, or one stands there twice.
    """
    try:
        ids = [int(part) for part in text.split(",")]
    except ValueError:
        ids = []
    if not ids or not all(0 <= one <= NODE_ID_MAX for one in ids):
        raise UsageError(f"{text!r} names no brokers; write their ids, as 1,2,3")
    if len({*ids}) < len(ids):
        raise UsageError(f"{text!r} names a broker twice; name each once")
    return sorted(ids)
