"""What is wrong with a node's files, told by a replay as `kraftctl log verify` tells it.

The headers of a log show, at a microsecond a batch, whether anything is wrong with it. What is wrong is told
by the log tools' own examination, batch by batch, for the few logs of a fleet that need it: so one cause is
one sentence, and the same one wherever it is asked for.

Entered by `problems_of`, for the survey. Not here: whether nodes agree (`cluster_scan`), and records that
cannot be decoded though their checksum is right (`kraftd.replay.source.decode`).
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np

from kraftd.logtools.integrity import examine, missing_beginning
from kraftd.logtools.manifest import manifest_problems
from kraftd.logtools.node_files import NodeFiles
from kraftd.logtools.problem import Problem, ProblemKind, in_file
from kraftd.logtools.snapshot_reader import read_snapshot
from kraftd.replay.source.headers import Headers, Scan
from kraftd.types import EpochEntry


def problems_of(node: NodeFiles, scans: Sequence[Scan], epochs: Sequence[EpochEntry]) -> list[Problem]:
    """Everything that is wrong with a node's directory by itself.

    Args:
        node: Whose files.
        scans: Of its segments, in order.
        epochs: Where epochs begin in the part of its log that can be relied on.

    Raises:
        UnanswerableError: A file has become unreadable meanwhile.
    """
    found = [problem for problem in node.problems if not problem.is_fault]
    if node.manifest is not None:
        found += manifest_problems(node.home, node.manifest)
    found += _examined(node) if _is_suspicious(node, scans, epochs) else _unexamined(node)
    return [_plain(problem, node) for problem in found]


def sound_count(node: NodeFiles, log: Headers, problems: Sequence[Problem]) -> int:
    """How many batches come before the first that has a problem or does not follow the one before."""
    if not len(log):
        return 0
    good = log["whole"].copy()
    good[1:] &= log["base_offset"][1:] == log["end_offset"][:-1]
    good[1:] &= log["epoch"][1:] >= log["epoch"][:-1]
    numbers = {file.name: number for number, file in enumerate(node.files) if not file.is_snapshot}
    for problem in problems:
        if problem.is_fault and problem.position_bytes >= 0 and problem.file in numbers:
            number = numbers[problem.file]
            behind = (log["file"] == number) & (log["position"] >= problem.position_bytes)
            good &= ~(behind | (log["file"] > number))
    return len(log) if good.all() else int(np.argmin(good))


def _is_suspicious(node: NodeFiles, scans: Sequence[Scan], epochs: Sequence[EpochEntry]) -> bool:
    """Whether headers, names and small files do not fit each other."""
    if missing_beginning(node, epochs):
        return True
    end = -1
    for segment, scan in zip(node.segments, scans, strict=True):
        if not scan.is_regular or (end >= 0 and segment.offset != end):
            return True
        end = int(scan.headers["end_offset"][-1]) if len(scan.headers) else segment.offset
    if node.segments and any(snapshot.offset > end for snapshot in node.snapshots):
        return True
    newest = epochs[-1].epoch if epochs else -1
    is_unknown = node.election is not None and newest > node.election.epoch
    return is_unknown or (node.epochs is not None and tuple(epochs) != node.epochs)


def _examined(node: NodeFiles) -> Iterator[Problem]:
    """What the log tools find, batch by batch."""
    examined = examine(node)
    yield from examined.problems
    if examined.torn is not None:
        torn = examined.torn
        text = "ends inside a batch: it was being written"
        yield in_file(
            torn.path,
            text,
            kind=ProblemKind.TORN,
            position_bytes=torn.position,
            offset=examined.end_offset,
            size_bytes=torn.size_bytes,
        )


def _unexamined(node: NodeFiles) -> Iterator[Problem]:
    """What is wrong with names, small files and snapshots, where the log itself is in order."""
    yield from (problem for problem in node.problems if problem.is_fault)
    for file in node.files:
        if file.is_snapshot:
            for item in read_snapshot(file, with_records=False):
                if isinstance(item, Problem):
                    yield item


def _plain(problem: Problem, node: NodeFiles) -> Problem:
    """A problem whose file is named without folders."""
    return msgspec.structs.replace(problem, directory=node.directory, file=Path(problem.file).name)
