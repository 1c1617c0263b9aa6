"""`kraftctl log history DIR topic|partition|broker|config NAME`: each change, when, and who wrote it.

A topic's history has its partitions and configs in it; a partition is named TOPIC-NUMBER, a config by its
name alone or with whose it is: `"retention.ms of topic orders"`.

Schema: log, node_id, subject, name, start_offset, end_offset (exclusive), is_partial, unknown_kinds, notes,
    problem (text or null), changes (list of offset, timestamp (ms), epoch, leader_id (-1 unknown), record
    (the kind that made the change; null for what the oldest snapshot holds), election (why the leader of a
    partition changed: reason, rule, why, in the words of `kraftctl events`; null for other changes), entity,
    name, what, text, before, after). A reason that the log does not tell is "unknown", and why says why not.

Ends with 1 if the log could not be read to its end, or never speaks of it.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Any, TypeAlias

import typer

from kraftd.cli.failures import ExitCode, UsageError
from kraftd.cli.log_diff import change_data
from kraftd.cli.log_state import DirectoryArgument, SecretsOption
from kraftd.cli.options import OutputOption, check_utf8, output_of, parse_partition
from kraftd.cli.output import columns, emit, id_text, note
from kraftd.cli.times import time_text
from kraftd.logtools.finding import find_log
from kraftd.logtools.history import History, HistoryEntry, history_of
from kraftd.metadata.election_reasons import Election
from kraftd.metadata.part import HistorySubject
from kraftd.metadata.registry import HISTORY_SUBJECTS
from kraftd.records.frame import record_name

Json: TypeAlias = dict[str, Any]

Kind = StrEnum("Kind", [(word, word) for word in HISTORY_SUBJECTS])  # type: ignore[misc]  # mypy reads literal members only
"""What the parts of the image can be asked about."""


_OFFLINE = ": offline"
"""How a change ends that leaves a partition without a leader; its election says that, and why."""


def _one_of(words: Iterable[str]) -> str:
    """Words as `a, b or c`."""
    *most, last = words
    return f"{', '.join(most)} or {last}"


def history(
    context: typer.Context,
    directory: DirectoryArgument,
    kind: Annotated[Kind, typer.Argument(metavar="KIND", help=f"{_one_of(HISTORY_SUBJECTS)}.")],
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="As orders, orders-3 (a partition), 2, or retention.ms.")
    ],
    show_secrets: SecretsOption = False,
    output: OutputOption = None,
) -> None:
    """Show what happened to one topic, partition, broker or config."""
    check_utf8([name], "NAME")
    _check_name(kind.value, name)
    subject = HISTORY_SUBJECTS[kind.value]
    found = history_of(find_log(directory), subject, name, show_secrets=show_secrets)
    emit(
        history_data(found, subject, name), output_of(context, output), lambda _: _table(found, subject, name)
    )
    if found.damage is not None:
        raise typer.Exit(ExitCode.ERROR)


def _check_name(kind: str, name: str) -> None:
    """Refuse what can be no name of this kind: no log is about it.

    Raises:
        UsageError: It is none.
    """
    if kind == "partition":
        parse_partition(name)
    if kind == "broker" and not (name.isascii() and name.isdigit()):
        raise UsageError(f"{name!r} is no broker; write its node.id, as 2")


def history_data(found: History, subject: HistorySubject, name: str) -> Json:
    """The schema of `log history`."""
    return {
        "log": found.log.named,
        "node_id": found.log.node_id,
        "subject": subject.word,
        "name": name,
        "start_offset": found.start_offset,
        "end_offset": found.end_offset,
        "is_partial": bool(found.unknown_kinds),
        "unknown_kinds": {record_name(kind): count for kind, count in found.unknown_kinds},
        "notes": list(found.notes),
        "problem": None if found.damage is None else str(found.damage),
        "changes": [_entry_data(entry) for entry in found.entries],
    }


def _entry_data(entry: HistoryEntry) -> Json:
    return {
        "offset": entry.offset,
        "timestamp": entry.timestamp_ms,
        "epoch": entry.epoch,
        "leader_id": entry.leader_id,
        "record": entry.record or None,
        "election": _election_data(entry.election),
        **change_data(entry.change),
    }


def _election_data(election: Election | None) -> Json | None:
    if election is None:
        return None
    return {"reason": election.reason.value, "rule": election.rule.value, "why": election.why}


def _table(found: History, subject: HistorySubject, name: str) -> str:
    remarks = list(found.notes)
    if found.unknown_kinds:
        kinds = ", ".join(f"{count} {record_name(kind)}" for kind, count in found.unknown_kinds)
        remarks.append(f"PARTIAL: records that this program does not know are left out: {kinds}")
    if found.damage is not None:
        remarks.append(f"the log is damaged, the history ends before: {found.damage}")
    for remark in remarks:
        note(remark)
    rows = [_row(entry, subject, name) for entry in found.entries]
    return columns(("Offset", "Time", "Epoch", "Leader", "Change"), rows)


def _row(entry: HistoryEntry, subject: HistorySubject, name: str) -> tuple[object, ...]:
    change = entry.change
    is_it = change.entity == subject.word and change.name == name
    text = change.text if is_it else str(change)
    if entry.election is not None:
        reason, rule, why = entry.election
        text = f"{text.removesuffix(_OFFLINE)}: {reason}, {rule} ({why})"
    if not entry.record:
        text = f"in the snapshot: {text}"
    return (entry.offset, time_text(entry.timestamp_ms), entry.epoch, id_text(entry.leader_id), text)
