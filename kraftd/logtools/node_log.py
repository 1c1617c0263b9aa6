"""The batches of a metadata log, from its first segment to its last.

`read_log` goes through the segments of a node as one log, and tells what does not follow from what came
before (`continuity`). Not here: what is in a batch, and whether its bytes are good (`batch_reader`).
"""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from kraftd.logtools.batch_reader import Batch, open_file, read_batches
from kraftd.logtools.continuity import Continuity
from kraftd.logtools.node_files import NodeFiles
from kraftd.logtools.problem import Problem, ProblemKind
from kraftd.records.batch_header import HEADER_BYTES, OVERHEAD_BYTES, layout
from kraftd.types import Offset

_WINDOW_BYTES = 1 << 20
_TIMES = layout("base_offset", "length", "last_offset_delta", "max_timestamp_ms")


class BatchTimes(NamedTuple):
    """What the header of a batch says of its place and time; its checksum was not looked at."""

    base_offset: Offset
    end_offset: Offset
    max_timestamp_ms: int


def read_log(
    log: NodeFiles, from_offset: Offset = 0, *, with_records: bool = False
) -> Iterator[Batch | Problem]:
    """Every batch that ends after an offset, in order, and every problem on the way.

    A batch whose checksum is bad, or that cannot stand where it stands, comes as a problem only. The problem
    is `TORN` where the log itself only ends too early. What is wrong only with offsets below `from_offset` is
    not told.

    Args:
        log: Whose log.
        from_offset: Batches that end at or before it are passed over, mostly unchecked.
        with_records: Look whether the records fill their batch; whoever reads them finds out anyway.

    Raises:
        UnanswerableError: A segment cannot be read.
    """
    told: list[Problem] = []
    for item in _continued(log, from_offset, with_records=with_records):
        if isinstance(item, Problem):
            told.append(item)
            continue
        if item.view.base_offset > from_offset or not from_offset:
            yield from told
        told = []
        if item.view.end_offset > from_offset:
            yield item
    yield from told


def _continued(log: NodeFiles, from_offset: Offset, *, with_records: bool) -> Iterator[Batch | Problem]:
    """All segments that may hold something after an offset, with what does not continue the log told."""
    continuity = Continuity(log)
    segments = log.segments
    for number, segment in enumerate(segments):
        is_last = number + 1 == len(segments)
        if not is_last and segments[number + 1].offset <= from_offset:
            continue
        is_first = from_offset <= segment.offset
        is_empty = True
        for item in read_batches(segment.path, from_offset, with_records=with_records):
            if isinstance(item, Problem) and item.kind is ProblemKind.TORN and not is_last:
                item = msgspec.structs.replace(item, kind=ProblemKind.DAMAGED)
            yield from continuity.add(item, segment, is_first=is_first)
            is_first = is_empty = False
        if is_empty and from_offset <= segment.offset:
            yield from continuity.begin(segment)
    yield from continuity.finish()


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
                base, length, delta, newest = _TIMES.unpack_from(window, at)
                if length + OVERHEAD_BYTES < HEADER_BYTES or delta < 0:
                    break
                yield BatchTimes(base, base + delta + 1, newest)
                at += length + OVERHEAD_BYTES
