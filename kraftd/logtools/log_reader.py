"""The batches of a metadata log, from its first segment to its last.

`read_log` goes through the segments of a node as one log, and tells what does not follow from what came
before. Not here: what is in a batch, and whether its bytes are good (`batch_reader`).
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from kraftd.logtools.batch_reader import Batch, open_file, read_batches
from kraftd.logtools.node_files import NodeFiles
from kraftd.logtools.problem import Problem, ProblemKind, in_file
from kraftd.records.batch import HEADER_BYTES
from kraftd.types import Offset

_WINDOW_BYTES = 1 << 20
_TIMES = struct.Struct(">qi11xiqq")
"""Base offset, length, last offset delta, oldest and newest timestamp of a batch."""


class BatchTimes(NamedTuple):
    """What the header of a batch says of its place and time; its checksum was not looked at."""

    base_offset: Offset
    end_offset: Offset
    max_timestamp_ms: int


def read_log(log: NodeFiles, from_offset: Offset = 0) -> Iterator[Batch | Problem]:
    """Every batch that ends after an offset, in order, and every problem on the way.

    A batch whose checksum is bad, or that cannot stand where it stands, comes as a problem only. The problem
    is `TORN` where the log itself only ends too early.

    Raises:
        UnanswerableError: A segment cannot be read.
    """
    expected: Offset | None = None
    epoch = 0
    segments = log.segments
    for number, segment in enumerate(segments):
        base, path = segment.base_offset, segment.path
        is_last = number + 1 == len(segments)
        if not is_last and segments[number + 1].base_offset <= from_offset:
            continue
        if expected is not None and base > expected:
            text = f"the offsets up to {base} are missing"
            yield in_file(path, text, kind=ProblemKind.INCOMPLETE, position_bytes=0, offset=expected)
            expected = base
        for item in read_batches(path, from_offset, with_records=False):
            problem = _problem(item, expected, epoch, is_last=is_last)
            if problem is not None:
                yield problem
            if isinstance(item, Batch):
                expected, epoch = item.view.end_offset, max(epoch, item.view.epoch)
                if problem is None:
                    yield item


def times_of(log: NodeFiles) -> Iterator[BatchTimes]:
    """Where the batches of a log are and when they were written, by their headers: fast, and unchecked."""
    for segment in log.segments:
        with open_file(segment.path) as file:
            window, start = b"", 0
            at = 0
            while True:
                if at + HEADER_BYTES > len(window):
                    start += at
                    file.seek(start)
                    window, at = file.read(_WINDOW_BYTES), 0
                    if len(window) < HEADER_BYTES:
                        break
                base, length, delta, _, newest = _TIMES.unpack_from(window, at)
                if length + 12 < HEADER_BYTES or delta < 0:
                    break
                yield BatchTimes(base, base + delta + 1, newest)
                at += length + 12


def _problem(item: Batch | Problem, expected: Offset | None, epoch: int, *, is_last: bool) -> Problem | None:
    """Why something does not continue the log, None if it does."""
    if isinstance(item, Problem):
        torn_inside = item.kind is ProblemKind.TORN and not is_last
        return msgspec.structs.replace(item, kind=ProblemKind.DAMAGED) if torn_inside else item
    view, reason = item.view, item.problem.text if item.problem else ""
    if not reason and expected is not None and view.base_offset != expected:
        reason = f"the batch says offset {view.base_offset} where {expected} must come"
    elif not reason and view.epoch < epoch:
        reason = f"the batch says epoch {view.epoch} after epoch {epoch}"
    if not reason:
        return None
    return item.misfit(reason, -1 if expected is None else expected)
