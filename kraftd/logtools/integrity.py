"""What is wrong with a log that lies on a disk, problem by problem: file, byte, offset, reason.

`examine` reads every batch of every segment and snapshot of a node's directory. It proves what a checksum
covers, and what none does: that offsets go on without a gap, that epochs never fall, are known to the
election, and begin where `leader-epoch-checkpoint` says. It goes on behind damage, so the list is whole.

Nothing is changed, and no judgement of a member is passed: which bytes a flush had covered stands in a file
that copies do not have (`kraftd.storage.inspection` looks at a member's own directory). A log that only ends
inside a batch is one that was being written: that is told apart as `torn`.

Not here: what records mean, and whether snapshots are what a replay gives.
"""

from bisect import bisect_right
from pathlib import Path
from typing import NamedTuple

import msgspec

from kraftd.logtools.batch_reader import Batch, read_batches
from kraftd.logtools.node_files import NodeFiles
from kraftd.logtools.problem import Problem, ProblemKind, in_file
from kraftd.logtools.snapshot_reader import read_snapshot
from kraftd.records import names
from kraftd.types import Epoch, Offset


class Place(NamedTuple):
    """A batch, or the beginning of one, in a file."""

    path: Path
    position: int
    size_bytes: int


class Finding(NamedTuple):
    """What a directory holds, and what is wrong with it."""

    start_offset: Offset
    end_offset: Offset
    """-1, both of them, without a segment."""
    last_batch: Place | None
    torn: Place | None
    """The beginning of a batch at the end of the log."""
    problems: tuple[Problem, ...]


def examine(node: NodeFiles) -> Finding:
    """Read all large files of a node's directory and say what is wrong with them and with the small ones.

    Raises:
        UnanswerableError: A file of the log cannot be read.
    """
    return _Examination(node).run()


class _Examination:
    """One reading, file by file."""

    def __init__(self, node: NodeFiles) -> None:
        self._node = node
        self._problems = [problem for problem in node.problems if problem.kind is not ProblemKind.NOTE]
        self._epochs = node.epochs or ()
        self._start: Offset = -1
        self._end: Offset = -1
        self._after_damage = False
        """How many offsets the damage took shows at the next sound batch."""
        self._epoch: Epoch = 0
        self._last: Place | None = None
        self._torn: Place | None = None

    def run(self) -> Finding:
        """See `examine`."""
        self._at_segments()
        self._at_snapshots()
        return Finding(
            self._start,
            self._end,
            self._last,
            self._torn,
            tuple(self._problems),
        )

    # -- segments ------------------------------------------------------------------------------

    def _at_segments(self) -> None:
        segments = self._node.segments
        for segment in segments:
            self._at_segment(segment.path, segment.base_offset, is_last=segment is segments[-1])
        missing = next((entry for entry in self._epochs if entry.start_offset > self._end), None)
        if segments and missing and not self._after_damage:
            text = (
                f"ends at offset {self._end}, but {names.EPOCH_CHECKPOINT} knows that epoch {missing.epoch} "
                f"begins at {missing.start_offset}"
            )
            self._tell(in_file(segments[-1].path, text, kind=ProblemKind.INCOMPLETE, offset=self._end))

    def _at_segment(self, path: Path, base: Offset, *, is_last: bool) -> None:
        if self._start < 0:
            self._start = self._end = base
        if base != self._end and not (self._after_damage and base > self._end):
            self._tell(in_file(path, _gap(self._end, base), kind=ProblemKind.INCOMPLETE, offset=self._end))
        self._end = base
        for item in read_batches(path):
            match item:
                case Problem(kind=ProblemKind.TORN) if is_last:
                    self._torn = Place(path, item.position_bytes, item.size_bytes)
                case Problem():
                    self._tell_damage(item, self._end)
                    self._after_damage = True
                case Batch():
                    self._last = Place(path, item.position, item.view.size_bytes)
                    self._at_batch(item)

    def _at_batch(self, batch: Batch) -> None:
        view = batch.view
        if batch.problem is not None:
            self._tell_damage(batch.problem, self._end)
            self._after_damage = True
            return
        if view.base_offset != self._end and not (self._after_damage and view.base_offset > self._end):
            self._tell(batch.misfit(_gap(self._end, view.base_offset)))
        reason = self._impossible_epoch(view.epoch, view.base_offset)
        if reason:
            self._tell(batch.misfit(reason))
        else:
            self._epoch = view.epoch
        self._after_damage = False
        self._end = view.end_offset

    def _impossible_epoch(self, epoch: Epoch, offset: Offset) -> str | None:
        if epoch < self._epoch:
            return f"epoch {epoch} comes after epoch {self._epoch}"
        election = self._node.election
        if election is not None and epoch > election.epoch:
            return f"epoch {epoch}, but {names.QUORUM_STATE} knows none after {election.epoch}"
        # Where another epoch is known to follow, this one is known for sure; the last one may have been
        # replaced since the file was written.
        after = bisect_right(self._epochs, offset, key=lambda entry: entry.start_offset)
        if 0 < after < len(self._epochs) and self._epochs[after - 1].epoch != epoch:
            return f"epoch {epoch}, but {names.EPOCH_CHECKPOINT} says {self._epochs[after - 1].epoch}"
        return None

    # -- snapshots -----------------------------------------------------------------------------

    def _at_snapshots(self) -> None:
        for file in self._node.files:
            for item in read_snapshot(file) if file.is_snapshot else ():
                if isinstance(item, Problem):
                    self._tell(item)

    def _tell_damage(self, problem: Problem, offset: Offset) -> None:
        """Tell of bytes that are no batch; the offset is the one that must come there."""
        self._tell(msgspec.structs.replace(problem, kind=ProblemKind.DAMAGED, offset=offset))

    def _tell(self, problem: Problem) -> None:
        self._problems.append(problem.within(self._node.home))


def _gap(expected: Offset, found: Offset) -> str:
    if found > expected:
        return f"offsets {expected} to {found - 1} are missing before it"
    return f"begins at offset {found}, though offset {expected} comes next"
