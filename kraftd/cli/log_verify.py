"""`kraftctl log verify DIR…`: is each log whole, and do the logs of one cluster agree?

Checked are checksums, offsets and the order of epochs; small files and `leader-epoch-checkpoint` against the
segments; that each record can be read and can follow those before it; snapshots against the state that the
log makes at their offset; and, between nodes of one cluster, that they hold the same batches. A DIR stands
for every log at or below it. Ends with 1 and a list if anything is wrong.

Schema: is_whole, logs (list of log, cluster_id (text or null), node_id, start_offset, end_offset, end_epoch,
    batches, records, snapshots (that are whole), compared_snapshots (those that were compared with the log),
    hash (of the state at the end; null where it cannot be had), is_partial, unknown_kinds, unread (list of
    from, to: offsets without a sound batch, `to` is exclusive, -1: to the end), is_whole, problems, notes),
    pairs (list of left, right, common_end (up to where both hold the same), parted_at (-1: nowhere),
    left_epoch, right_epoch, problem, note (text or null)).
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from kraftd.cli.failures import ExitCode, UsageError
from kraftd.cli.options import OutputOption, output_of
from kraftd.cli.output import columns, emit, id_text, shortened, terminal_columns
from kraftd.logtools.finding import find_logs
from kraftd.logtools.node_files import NodeFiles
from kraftd.logtools.own_state import own_state, with_own_states
from kraftd.logtools.problem import Problem
from kraftd.logtools.verify import LogVerdict, PairVerdict, Verdict
from kraftd.logtools.verify import verify as verify_logs
from kraftd.records.frame import record_name

Json: TypeAlias = dict[str, Any]

_HOLES_TOLD = 5
_FILES_NAMED = 3
"""So many files of which the same is said are named; of more the first and the last."""
_CLUSTER_MIN = 9
_PATH_MIN = 8
"""So much of a cluster's id and of a log's path is shown, however narrow the terminal."""
_TITLE = len("Problems in :")


def verify(
    context: typer.Context,
    directories: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR…", readable=False, help="Nodes' directories, or folders with some in them."
        ),
    ],
    output: OutputOption = None,
) -> None:
    """Check logs: bytes, records, snapshots, and that nodes agree; exit 1 if anything is wrong."""
    logs = _logs(directories)
    states = [own_state(log.home) for log in logs]  # before the logs, which a running node writes first
    verdict = with_own_states(verify_logs(logs), states)
    emit(verdict_data(verdict), output_of(context, output), lambda _: _table(verdict))
    if not verdict.is_whole:
        raise typer.Exit(ExitCode.ERROR)


def verdict_data(verdict: Verdict) -> Json:
    """The schema of `log verify`."""
    return {
        "is_whole": verdict.is_whole,
        "logs": [_log_data(log) for log in verdict.logs],
        "pairs": [_pair_data(pair) for pair in verdict.pairs],
    }


def _logs(directories: Sequence[Path]) -> list[NodeFiles]:
    """Every log once, in the order named."""
    found: dict[Path, NodeFiles] = {}
    for directory in directories:
        if directory.is_file():
            raise UsageError(f"{directory} is a file; name the node's directory that it lies in")
        for log in find_logs(directory):
            found.setdefault(log.log_directory.resolve(), log)
    return list(found.values())


def _log_data(verdict: LogVerdict) -> Json:
    return {
        "log": verdict.log.named,
        "cluster_id": verdict.log.cluster_id or None,
        "node_id": verdict.log.node_id,
        "start_offset": verdict.start_offset,
        "end_offset": verdict.end_offset,
        "end_epoch": verdict.end_epoch,
        "batches": verdict.batch_count,
        "records": verdict.record_count,
        "snapshots": verdict.whole_snapshot_count,
        "compared_snapshots": verdict.snapshot_count,
        "hash": verdict.image_hash,
        "is_partial": bool(verdict.unknown_kinds),
        "unknown_kinds": {record_name(kind): count for kind, count in verdict.unknown_kinds},
        "unread": [{"from": start, "to": end} for start, end in verdict.unread],
        "is_whole": not verdict.problems,
        "problems": [str(problem) for problem in verdict.problems],
        "notes": [str(note) for note in verdict.notes],
    }


def _pair_data(pair: PairVerdict) -> Json:
    return {
        "left": pair.left.named,
        "right": pair.right.named,
        "common_end": pair.common_end,
        "parted_at": pair.comparison.parted_at,
        "left_epoch": pair.comparison.left_epoch,
        "right_epoch": pair.comparison.right_epoch,
        "problem": pair.problem or None,
        "note": pair.note or None,
    }


def _table(verdict: Verdict) -> str:
    room = terminal_columns(sys.stdout)
    blocks = [_overview(verdict, room)]
    for log in verdict.logs:
        blocks += _block(f"Problems in {_path(log, room - _TITLE)}", _grouped(log.problems))
    blocks += _block("Problems between logs", [pair.problem for pair in verdict.pairs if pair.problem])
    for log in verdict.logs:
        blocks += _block(f"Notes on {_path(log, room - _TITLE)}", [*_grouped(log.notes), *_partial(log)])
    blocks += _block("Notes between logs", [pair.note for pair in verdict.pairs if pair.note])
    agreeing = _agreement(verdict)
    if agreeing:
        blocks.append(agreeing)
    return "\n\n".join(blocks)


def _overview(verdict: Verdict, room: int) -> str:
    """A row for each log; where a terminal has no room for ids and paths, their ends are left out."""
    headers = ("Cluster", "Node", "Offsets", "Epoch", "Batches", "Snapshots", "Verdict", "Log")
    table = columns(headers, (_row(log, 0, 0) for log in verdict.logs), room=0)
    if not 0 < room < max(map(len, table.splitlines())):
        return table
    rest = columns(headers[1:-1], (_row(log, 0, 0)[1:-1] for log in verdict.logs), room=0)
    path_room = max(room - max(map(len, rest.splitlines())) - _CLUSTER_MIN - 4, _PATH_MIN)
    return columns(headers, (_row(log, _CLUSTER_MIN, path_room) for log in verdict.logs))


def _block(title: str, lines: list[str]) -> list[str]:
    return ["\n".join([f"{title}:", *(f"  {line}" for line in lines)])] if lines else []


def _grouped(problems: Sequence[Problem]) -> list[str]:
    """A line for each; files of which the same is said, at no byte, share one."""
    alike: dict[object, list[Problem]] = {}
    for number, problem in enumerate(problems):
        is_of_a_place = problem.position_bytes >= 0 or not problem.file
        alike.setdefault(number if is_of_a_place else problem.what, []).append(problem)
    return [_of_files(group) for group in alike.values()]


def _of_files(group: Sequence[Problem]) -> str:
    if len(group) == 1:
        return group[0].short
    files = [group[0].file, *(Path(problem.file).name for problem in group[1:])]
    named = (
        ", ".join(files) if len(files) <= _FILES_NAMED else f"{len(files)} files, {files[0]} to {files[-1]}"
    )
    return f"{named}: {group[0].what}"


def _row(log: LogVerdict, cluster_room: int, path_room: int) -> tuple[object, ...]:
    count = len(log.problems)
    cluster = log.log.cluster_id or "-"
    return (
        shortened(cluster, cluster_room) if cluster_room else cluster,
        id_text(log.log.node_id),
        f"{log.start_offset}-{log.end_offset}",
        log.end_epoch,
        log.batch_count,
        log.whole_snapshot_count,
        "whole" if not count else f"{count} problem{'' if count == 1 else 's'}",
        _path(log, path_room),
    )


def _path(log: LogVerdict, room: int) -> str:
    """What a log is called; without its beginning where there is no room (0 and less: there is)."""
    path = log.log.named
    return path if room <= 0 or len(path) <= room else "…" + path[-max(room - 1, _PATH_MIN) :]


def _partial(log: LogVerdict) -> list[str]:
    if not log.unknown_kinds:
        return []
    kinds = ", ".join(f"{count} {record_name(kind)}" for kind, count in log.unknown_kinds)
    return [f"PARTIAL: records that this program does not know are left out: {kinds}"]


def _agreement(verdict: Verdict) -> str:
    """Which logs agree, said only of what was compared, and where that was."""
    compared = [(cluster, _pairs_of(cluster, verdict)) for cluster in verdict.clusters if len(cluster) > 1]
    agreeing = [
        (cluster, pairs)
        for cluster, pairs in compared
        if all(pair.comparison.equal_batches and not pair.comparison.is_parted for pair in pairs)
    ]
    if not agreeing or len(agreeing) < len(compared):
        return ""
    holes = [hole for log in verdict.logs for hole in _holes(log)]
    how_far = "where they can be read" if holes else "as far as they reach"
    more = ["…"] if len(holes) > _HOLES_TOLD else []
    rest = f" Not compared: {'; '.join([*holes[:_HOLES_TOLD], *more])}." if holes else ""
    if len(agreeing) > 1:
        return f"The logs of each of {len(agreeing)} clusters agree batch by batch, {how_far}.{rest}"
    [(cluster, pairs)] = agreeing
    start = max(pair.common_start for pair in pairs)
    end = min(pair.comparison.common_end for pair in pairs)
    where = f"from offset {start} to {end}" if start else f"to offset {end}"
    return f"The {len(cluster)} logs agree batch by batch {how_far}, all of them {where}.{rest}"


def _pairs_of(cluster: Sequence[NodeFiles], verdict: Verdict) -> list[PairVerdict]:
    names = {log.named for log in cluster}
    return [pair for pair in verdict.pairs if {pair.left.named, pair.right.named} <= names]


def _holes(log: LogVerdict) -> list[str]:
    """What of a log could be compared with no other, in words."""
    return [
        f"{log.log.named} from offset {start} {'on' if end < 0 else f'to {end - 1}'}"
        for start, end in log.unread
    ]
