"""What is wrong with a log that lies on a disk, problem by problem: file, byte, offset, reason.

`examine` reads every batch of every segment and snapshot of a node's directory. It proves what a checksum
covers, and what none does: that offsets go on without a gap, that epochs never fall, are known to the
election, and begin where `leader-epoch-checkpoint` says. It goes on behind damage, so the list is whole.

Nothing is changed, and no judgement of a node is passed: which bytes a flush had covered stands in a file
that exports and Kafka's directories do not have (`own_state` asks it). A log that only ends inside a batch is
one that was being written, as far as its bytes tell: that is told apart as `torn`.

Not here: what records mean, and whether a snapshot is what the log makes up to it (`verify`).
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from kraftd.logtools.batch_reader import Batch
from kraftd.logtools.node_files import NodeFiles
from kraftd.logtools.node_log import read_log
from kraftd.logtools.problem import Problem, ProblemKind, in_file
from kraftd.logtools.snapshot_reader import read_snapshot
from kraftd.records import names
from kraftd.types import Epoch, EpochEntry, Offset


class FileRange(NamedTuple):
    """A batch, or the beginning of one, in a file."""

    path: Path
    position: int
    size_bytes: int


class Examined(NamedTuple):
    """What a directory holds, and what is wrong with it."""

    start_offset: Offset
    """Where the log begins; its first segment may begin before."""
    end_offset: Offset
    """-1, both of them, without a segment."""
    last_batch: FileRange | None
    """The last batch, good or bad."""
    torn: FileRange | None
    """The beginning of a batch at the end of the log."""
    problems: tuple[Problem, ...]
    is_damaged_end: bool = False
    """Whether bytes at the end of the log are no batch, nor the beginning of one."""


def examine(node: NodeFiles) -> Examined:
    """Read all large files of a node's directory and say what is wrong with them and with the small ones.

    Raises:
        UnanswerableError: A file of the log cannot be read.
    """
    return _Examination(node).run()


class _Examination:
    """One reading, file by file."""

    def __init__(self, node: NodeFiles) -> None:
        self._node = node
        self._problems = [problem for problem in node.problems if problem.is_fault]
        self._end: Offset = node.segments[0].offset if node.segments else -1
        self._starts: list[EpochEntry] = []
        """Where epochs begin in the log."""
        self._last: FileRange | None = None
        self._torn: FileRange | None = None

    def run(self) -> Examined:
        """See `examine`."""
        is_damaged_end = self._at_segments()
        self._at_snapshots()
        if not is_damaged_end:
            self._at_newer_snapshots()
        start = self._node.begin(self._end) if self._node.segments else -1
        return Examined(start, self._end, self._last, self._torn, tuple(self._problems), is_damaged_end)

    def _at_segments(self) -> bool:
        """Look at every batch; returns whether the log ends with damage."""
        problems = list[Problem]()
        is_damaged_end = False
        for item in read_log(self._node, with_records=True):
            if isinstance(item, Batch):
                self._at_batch(item)
                is_damaged_end = False
            elif item.kind is ProblemKind.TORN:
                self._torn = _range_of(item)
            else:
                problems.append(item)
                is_damaged_end = True
                if item.size_bytes > 0:
                    self._last = _range_of(item)
        problems = [*missing_beginning(self._node, self._starts), *problems]
        for problem in problems or small_file_problems(self._node, self._starts, self._end):
            self._add_problem(problem)
        if problems and not is_damaged_end:
            for problem in missing_end(self._node, self._end):
                self._add_problem(problem)
        return is_damaged_end

    def _at_batch(self, batch: Batch) -> None:
        view = batch.view
        if not self._starts or self._starts[-1].epoch != view.epoch:
            self._starts.append(EpochEntry(view.epoch, view.base_offset))
        self._last = FileRange(Path(batch.path), batch.position, view.size_bytes)
        self._end = view.end_offset

    # -- snapshots -----------------------------------------------------------------------------

    def _at_snapshots(self) -> None:
        for file in self._node.files:
            for item in read_snapshot(file) if file.is_snapshot else ():
                if isinstance(item, Problem):
                    self._add_problem(item)

    def _at_newer_snapshots(self) -> None:
        """Look for snapshots behind the log's end: what lies between is missing, which is told once."""
        told = {Path(problem.file).name for problem in self._problems}
        is_told = any(problem.offset == self._end for problem in self._problems)
        newer = [one for one in self._node.snapshots if one.offset > self._end and one.name not in told]
        if self._node.segments and newer and not is_told:
            text = f"is of offset {newer[-1].offset}, but the log ends at {self._end}"
            text += ": what lies between is missing"
            self._add_problem(in_file(newer[-1].path, text, kind=ProblemKind.INCOMPLETE, offset=self._end))

    def _add_problem(self, problem: Problem) -> None:
        named = problem.within(self._node.home)
        if not any((told.file, told.text) == (named.file, named.text) for told in self._node.problems):
            self._problems.append(named)


def _range_of(problem: Problem) -> FileRange:
    return FileRange(Path(problem.directory, problem.file), problem.position_bytes, problem.size_bytes)


def small_file_problems(
    node: NodeFiles, starts: Sequence[EpochEntry], end_offset: Offset
) -> Iterator[Problem]:
    """Compare a log without damage with what the small files say of it.

    Args:
        node: Whose files.
        starts: Where epochs begin in the log.
        end_offset: Where it ends.
    """
    yield from missing_end(node, end_offset)
    path = node.log_directory / names.EPOCH_CHECKPOINT
    noted = node.epochs or ()
    begin = _log_start(node, starts)
    found, known = _starts_from(begin, starts), _starts_from(begin, noted)
    # A running node may have written epochs since the file was read.
    limit = min(end_offset, noted[-1].start_offset + 1) if noted else 0
    for epoch in sorted(found.keys() | known.keys()):
        in_log, in_file_at = found.get(epoch, limit), known.get(epoch, limit)
        if in_log == in_file_at or min(in_log, in_file_at) >= limit:
            continue
        if epoch not in known:
            text = f"lacks epoch {epoch}, which begins at {in_log} in the log"
        elif epoch not in found:
            text = f"epoch {epoch} begins at {in_file_at}, but the log holds nothing of it"
        else:
            text = f"epoch {epoch} begins at {in_file_at}, in the log at {in_log}"
        yield in_file(path, text)
    newest = starts[-1].epoch if starts else -1
    if node.election is not None and newest > node.election.epoch:
        text = f"knows none after epoch {node.election.epoch}, but the log holds epoch {newest}"
        yield in_file(node.log_directory / names.QUORUM_STATE, text)


def missing_beginning(node: NodeFiles, starts: Sequence[EpochEntry]) -> list[Problem]:
    """What is missing before the log: batches of it, or else the snapshot that holds the state before it."""
    return [*_missing_start(node, starts)] or [*_missing_snapshot(node)]


def _missing_snapshot(node: NodeFiles) -> Iterator[Problem]:
    """A log without its beginning that no snapshot leads to: a node refuses to start with it."""
    start = node.start_offset
    if node.segments and start > 0 and not any(one.offset >= start for one in node.snapshots):
        text = f"begins at offset {start}, and no snapshot holds the state before it"
        yield in_file(node.log_directory, text, kind=ProblemKind.INCOMPLETE, offset=start)


def _missing_start(node: NodeFiles, starts: Sequence[EpochEntry]) -> Iterator[Problem]:
    """What small files and indexes know of a beginning of the log that was lost, and not cut.

    Where Kafka cuts the beginning of a log, it cuts the epoch checkpoint, too, and deletes the indexes with
    their segments, but a moment later: a node that was killed or copied between the two has them still. It
    cuts up to its oldest snapshot, so one from before the log says that more is gone than was cut.
    """
    if not node.segments or (starts and starts[0].start_offset < node.segments[0].offset):
        return
    oldest_snapshot = next((one.offset for one in node.snapshots if one.offset > 0), -1)
    if oldest_snapshot >= node.segments[0].offset:
        return
    first = node.segments[0]
    noted = node.epochs[0] if node.epochs else EpochEntry(-1, first.offset)
    stems = (path.stem for path in node.log_directory.glob("*.index"))
    oldest = min((int(stem) for stem in stems if stem.isdecimal()), default=first.offset)
    if noted.start_offset < first.offset:
        start, why = (
            noted.start_offset,
            f"{names.EPOCH_CHECKPOINT} knows that epoch {noted.epoch} begins there",
        )
    elif oldest < first.offset:
        start, why = oldest, "the index of a segment there is left"
    else:
        return
    text = f"offsets {start} to {first.offset - 1} are missing before it: {why}"
    yield in_file(first.path, text, kind=ProblemKind.INCOMPLETE, offset=start)


def missing_end(node: NodeFiles, end_offset: Offset) -> Iterator[Problem]:
    """What the epoch checkpoint knows of a part of the log that is not here."""
    beyond = next((entry for entry in node.epochs or () if entry.start_offset > end_offset), None)
    if node.segments and beyond is not None:
        text = (
            f"ends at offset {end_offset}, but {names.EPOCH_CHECKPOINT} knows that epoch {beyond.epoch} "
            f"begins at {beyond.start_offset}"
        )
        yield in_file(node.segments[-1].path, text, kind=ProblemKind.INCOMPLETE, offset=end_offset)


def _starts_from(begin: Offset, entries: Sequence[EpochEntry]) -> dict[Epoch, Offset]:
    """Where the epochs begin that the log holds something of from its start on."""
    ended = bisect_right(entries, begin, key=lambda entry: entry.start_offset) - 1
    return {entry.epoch: max(entry.start_offset, begin) for entry in entries[max(ended, 0) :]}


def _log_start(node: NodeFiles, starts: Sequence[EpochEntry]) -> Offset:
    """Where the log begins: inside its first segment, if a snapshot and the checkpoint say so."""
    begin = starts[0].start_offset if starts else 0
    noted = node.epochs[0].start_offset if node.epochs else begin
    is_of_snapshot = any(snapshot.offset == noted for snapshot in node.snapshots)
    return noted if noted > begin and is_of_snapshot else begin
