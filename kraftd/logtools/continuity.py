"""Does each batch of a log follow the one before? One wrong field is one problem, its consequences are none.

No checksum covers a batch's base offset and its epoch, and none covers a segment's name. When one of them
does not fit, the batch after it tells what is wrong: where that goes on as if the field were right, something
is missing or there twice; where it goes on as if the field had never been, only the field is wrong. So every
batch is held back until the next one is there.

    974..1061 says offset 5000, and 1062 comes next     the field is wrong, nothing is missing
    1..100, then a segment 777..                        offsets 101 to 776 are missing
    1 1 1 5 1 1                                         the epoch of one batch is wrong, not those behind it

Entered by `node_log.read_log`. Not here: what small files say of a whole log (`integrity`).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from kraftd.logtools.batch_reader import Batch, base_offset_of, problem_of
from kraftd.logtools.node_files import LogFile, NodeFiles, describe
from kraftd.logtools.problem import Problem, ProblemKind, in_file
from kraftd.records import names
from kraftd.records.epoch_checkpoint import epoch_of
from kraftd.types import Epoch, Offset


class _Held(NamedTuple):
    """A batch that waits for the one after it."""

    batch: Batch
    segment: LogFile
    is_first: bool
    """Whether it is the first of its segment."""


class Continuity:
    """Takes in what the segments of a log hold, and gives what follows from what came before."""

    def __init__(self, log: NodeFiles) -> None:
        self._log = log
        self._held: _Held | None = None
        self._end: Offset | None = None
        """The offset that must come next; None as long as nobody knows."""
        self._epoch: Epoch = 0
        """The newest epoch that is believed."""
        self._is_behind_damage = False
        """How many offsets the damage took shows at the next good batch."""
        self._has_fallen = False
        """Whether it was told that epochs fell, and they have not come back since."""
        self._passed_over: LogFile | None = None
        """A segment of which it was told that it does not belong here."""

    def begin(self, segment: LogFile) -> Iterator[Batch | Problem]:
        """A segment without any batch: it says where the log should be by its name alone."""
        yield from self._decide_held(None)
        yield from self._open(segment)

    def add(self, item: Batch | Problem, segment: LogFile, *, is_first: bool) -> Iterator[Batch | Problem]:
        """The next item of a segment."""
        problem = problem_of(item)
        if isinstance(item, Batch) and problem is None:
            yield from self._decide_held(item)
            self._held = _Held(item, segment, is_first)
            return
        yield from self._decide_held(None)
        if problem is not None:
            if is_first:
                yield from self._open(segment)
            elif self._end is None:
                self._end = max(problem.offset, 0)  # what came before was not asked for
            self._is_behind_damage = True
            yield msgspec.structs.replace(problem, offset=self._end or 0)

    def finish(self) -> Iterator[Batch | Problem]:
        """The log ends here."""
        yield from self._decide_held(None)

    def _open(self, segment: LogFile) -> Iterator[Problem]:
        """A segment of which only the name is known."""
        if self._end is not None and segment.offset > self._end and not self._is_behind_damage:
            yield self._missing(segment)
        self._end = max(self._end or 0, segment.offset)

    def _decide_held(self, following: Batch | None) -> Iterator[Batch | Problem]:
        if self._held is None:
            return
        held, self._held = self._held, None
        for step in (self._at_name, self._at_offset, self._at_epoch):
            problem, goes_on = step(held, following)
            if problem is not None:
                yield problem
            if not goes_on:
                return
        view = held.batch.view
        self._end, self._epoch = view.end_offset, view.epoch
        self._is_behind_damage = self._has_fallen = False
        yield held.batch

    # -- each gives what is wrong, and whether the batch may still be believed ------------------------------

    def _at_name(self, held: _Held, following: Batch | None) -> tuple[Problem | None, bool]:
        """Compare a segment's name with its first batch."""
        segment, base = held.segment, held.batch.view.base_offset
        if segment is self._passed_over:
            self._end = max(self._end or 0, held.batch.view.end_offset)
            return None, False
        if not held.is_first or base == segment.offset:
            return None, True
        expected = segment.offset if self._end is None or self._is_behind_damage else self._end
        if segment.offset == expected and self._only_offset_is_wrong(held, following, expected):
            return None, True  # which is told of the batch
        text = f"its name says offset {segment.offset}, its first batch offset {base}"
        if self._end is None or base == self._end or (self._is_behind_damage and base > self._end):
            self._end = base
            return in_file(segment.path, text, offset=base), True
        self._passed_over = segment
        offset, self._end = self._end, max(self._end, held.batch.view.end_offset)
        return in_file(segment.path, text, offset=offset), False

    def _at_offset(self, held: _Held, following: Batch | None) -> tuple[Problem | None, bool]:
        """Compare a batch's offset with the one that must come."""
        batch, segment = held.batch, held.segment
        base = batch.view.base_offset
        if self._end is None:
            self._end = segment.offset if held.is_first else base
        expected = self._end
        if base == expected or self._is_behind_damage:
            return None, base >= expected
        if held.is_first and base == segment.offset:
            if base > expected:
                return self._missing(segment), True
            self._passed_over = segment
            text = f"begins at offset {base}, though offset {expected} comes next"
            return in_file(segment.path, text, offset=expected), False
        text = f"the batch says offset {base} where {expected} must come"
        problem = batch.as_problem(text, expected)
        if self._only_offset_is_wrong(held, following, expected):
            self._end = expected + batch.view.record_count
            return problem, False
        goes_on = following is not None and following.view.base_offset == batch.view.end_offset
        if goes_on and base > expected:
            return problem, True
        self._is_behind_damage = following is not None and following.view.base_offset != expected
        return problem, False

    def _only_offset_is_wrong(self, held: _Held, following: Batch | None, expected: Offset) -> bool:
        """Whether the log goes on as if the batch had the offset that must come."""
        end = expected + held.batch.view.record_count
        return following is not None and following.view.base_offset == end

    def _at_epoch(self, held: _Held, following: Batch | None) -> tuple[Problem | None, bool]:
        """Compare a batch's epoch with those before and behind it."""
        batch, before = held.batch, self._epoch
        epoch = batch.view.epoch
        behind = None if following is None else following.view.epoch
        if epoch < before:
            self._end = batch.view.end_offset
            self._is_behind_damage = False
            if self._has_fallen:
                return None, False
            self._has_fallen = behind is not None and behind < before
            return batch.as_problem(f"the batch says epoch {epoch} after epoch {before}"), False
        reason = ""
        if behind is None:
            reason = self._impossible_epoch(epoch, batch.view.base_offset)
        elif before <= behind < epoch and self._checkpoint_epoch(batch.view.base_offset) != epoch:
            reason = f"the batch says epoch {epoch} before epoch {behind}"
        elif before < epoch < behind == self._checkpoint_epoch(batch.view.base_offset):
            reason = f"the batch says epoch {epoch}, but {names.EPOCH_CHECKPOINT} says {behind}"
        if not reason:
            return None, True
        self._end = batch.view.end_offset
        self._is_behind_damage = False
        return batch.as_problem(reason), False

    # -- what small files know ------------------------------------------------------------------------------

    def _checkpoint_epoch(self, offset: Offset) -> Epoch:
        """What `leader-epoch-checkpoint` says of an offset; -1 if nothing."""
        return epoch_of(self._log.epochs or (), offset, unknown=-1)

    def _impossible_epoch(self, epoch: Epoch, offset: Offset) -> str:
        """Why the epoch of a batch that none follows cannot be; empty if it can.

        An election may have been held since the small files were read: they are asked once more.
        """
        reason = _unknown_epoch(self._log, epoch, offset, self._epoch)
        if reason and self._log.segments:
            self._log = describe(self._log.log_directory, named=self._log.named)
            reason = _unknown_epoch(self._log, epoch, offset, self._epoch)
        return reason

    def _missing(self, segment: LogFile) -> Problem:
        """What is not there before a segment: nothing, if a segment there only cannot be read."""
        start = self._end or 0
        for problem in self._log.problems:
            if start <= base_offset_of(Path(problem.file)) < segment.offset:
                return msgspec.structs.replace(problem, offset=start)
        text = f"offsets {start} to {segment.offset - 1} are missing before it"
        return in_file(segment.path, text, kind=ProblemKind.INCOMPLETE, offset=start)


def _unknown_epoch(log: NodeFiles, epoch: Epoch, offset: Offset, before: Epoch) -> str:
    """Why the small files rule out that a batch is of this epoch; empty if they do not."""
    noted = log.epochs or ()
    known = epoch_of(noted, offset, unknown=epoch)
    # Where another epoch is known to follow, this one is known for sure; the last one may have been replaced
    # since the file was written.
    if known != epoch and offset < noted[-1].start_offset:
        return f"the batch says epoch {epoch}, but {names.EPOCH_CHECKPOINT} says {known}"
    # An election file that is older than the log itself rules out nothing.
    if known != epoch and log.election is not None and before <= log.election.epoch < epoch:
        return f"the batch says epoch {epoch}, but {names.QUORUM_STATE} knows none after {log.election.epoch}"
    return ""
