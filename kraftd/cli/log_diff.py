"""`kraftctl log diff DIR A B` and `kraftctl log diff DIR DIR`: what changed, in words an operator uses.

Between two points of one log, offsets or times, in either order; or between two directories, each at its
end or both at the same `--at`. That something differs is no error: the exit code is 1 only if a log could not
be read.

Schema: from, to (objects: log, node_id, offset, epoch, timestamp, hash, is_partial, unknown_kinds, notes,
    problem as in `log state`), changes (list of entity, name, what, text, before, after). `what` is a stable
    word (created, deleted, leader, isr, fenced, value, …); before and after are null where not told.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from kraftd.cli.failures import ExitCode, UsageError
from kraftd.cli.log_state import SecretsOption, remarks, summary
from kraftd.cli.options import OutputOption, output_of
from kraftd.cli.output import columns, emit
from kraftd.cli.times import parse_point, time_text
from kraftd.logtools.finding import find_log, listed_again
from kraftd.logtools.node_files import NodeFiles
from kraftd.logtools.points import Point
from kraftd.logtools.quorum_facts import quorum_changes
from kraftd.logtools.state import State, continued, state_at
from kraftd.metadata.image_diff import changes
from kraftd.metadata.views import Change

Json: TypeAlias = dict[str, Any]

SIDE = (
    "log",
    "node_id",
    "offset",
    "epoch",
    "timestamp",
    "hash",
    "is_partial",
    "unknown_kinds",
    "notes",
    "problem",
)


def diff(
    context: typer.Context,
    words: Annotated[
        list[str],
        typer.Argument(metavar="DIR A B | DIR DIR", help="One log and two points of it, or two logs."),
    ],
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            metavar="OFFSET|TIME",
            help="Compare two directories at this point. (default: each at its end)",
            show_default=False,
        ),
    ] = None,
    show_secrets: SecretsOption = False,
    output: OutputOption = None,
) -> None:
    """Show what changed between two points of a log, or differs between two logs."""
    before, after = _sides(words, at)
    found = [
        *quorum_changes(before.quorum, after.quorum),
        *changes(before.image, after.image, show_secrets=show_secrets),
    ]
    wanted = output_of(context, output)
    emit(diff_data(before, after, found), wanted, lambda _: _table(before, after, found))
    if before.damage is not None or after.damage is not None:
        raise typer.Exit(ExitCode.ERROR)


def diff_data(before: State, after: State, found: list[Change]) -> Json:
    """The schema of `log diff`."""
    first, second = ({key: summary(side)[key] for key in SIDE} for side in (before, after))
    return {"from": first, "to": second, "changes": [change_data(change) for change in found]}


def change_data(change: Change) -> Json:
    """A change as plain data."""
    return {
        "entity": change.entity,
        "name": change.name,
        "what": change.what,
        "text": change.text,
        "before": change.before,
        "after": change.after,
    }


def _sides(words: list[str], at: str | None) -> tuple[State, State]:
    if len(words) == 2:
        point = None if at is None else parse_point(at)
        logs = [find_log(Path(word)) for word in words]
        return state_at(logs[0], point), state_at(logs[1], point)
    if len(words) != 3 or at is not None:
        raise UsageError(
            "name one directory and two points of it, or two directories; --at is for the latter"
        )
    points = [parse_point(word) for word in words[1:]]
    return listed_again(find_log(Path(words[0])), lambda log: _sides_of(log, points))


def _sides_of(log: NodeFiles, points: Sequence[Point]) -> tuple[State, State]:
    ends = [state_at(log, point) for point in points]
    if min(end.end_offset for end in ends) < log.start_offset:
        return ends[0], ends[1]  # a snapshot of before the log: nothing leads on from it
    # The later state is folded on from the earlier one, not from a snapshot in between: one history.
    if ends[0].end_offset <= ends[1].end_offset:
        return ends[0], continued(ends[0], points[1])
    return continued(ends[1], points[0]), ends[1]


def _table(before: State, after: State, found: list[Change]) -> str:
    lines = []
    for label, side in (("From", before), ("To", after)):
        when = time_text(side.timestamp_ms)
        lines.append(
            f"{label + ':':<6}{side.log.named} at offset {side.end_offset} (epoch {side.epoch}, {when})"
        )
        lines += [f"      {remark}" for remark in remarks(side)]
    if not found:
        return "\n".join([*lines, "", "Nothing differs."])
    rows = [(change.entity, change.name or "-", change.text) for change in found]
    return "\n".join([*lines, "", columns(("Entity", "Name", "Change"), rows)])
