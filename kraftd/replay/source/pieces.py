"""Cutting files into what a task reads: pieces of whole batches, packed into shares of even size.

Small files share a task, large ones are cut. With a filter, segments and pieces that cannot hold a wanted
record are left out: by the segments' base offsets, then by the headers of the batches.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import msgspec
import numpy as np
import numpy.typing as npt

from kraftd.logtools.commit import NEVER_ENDS, Bounds
from kraftd.logtools.node_files import FileKind, LogFile, NodeFiles
from kraftd.replay.source.filters import RecordFilter, ranges
from kraftd.replay.source.headers import Headers, headers_at, mapped, walk
from kraftd.types import NodeId, Offset

PARTITION_BYTES = 16 << 20
"""A piece, and the least that a task gets if there is more: half a second of decoding, and some hundred
batches to read in step if they are large."""
SHARE_BYTES_MAX = 64 << 20
"""The most that a task gets: what fails is done again."""
SHARES_A_CORE = 4
"""So many tasks a core, if there is enough to do, let the fast wait little for the slow."""

ALWAYS_COMMITTED = Bounds(committed_end=NEVER_ENDS, uncommitted_from=NEVER_ENDS)
"""Snapshots are made of committed records only."""

UNJUDGED = Bounds(committed_end=0, uncommitted_from=NEVER_ENDS)
"""Nobody asked what is committed."""

EVERYTHING = RecordFilter()


class Piece(msgspec.Struct, frozen=True):
    """A part of one file, whole batches from `start` to `end`, and what is known about its origin."""

    cluster_id: str
    node_id: NodeId
    directory: str
    path: str
    file: str
    is_snapshot: bool
    segment_base_offset: Offset
    start: int
    end: int
    bounds: Bounds


def plan_node(
    node: NodeFiles, bounds: Bounds, piece_bytes: int = PARTITION_BYTES, wanted: RecordFilter = EVERYTHING
) -> Iterator[Piece]:
    """Cut a node's files into pieces of about `piece_bytes`, each of whole batches."""
    for file in wanted_files(node, wanted):
        for start, end in cuts(file, piece_bytes, wanted):
            yield Piece(
                cluster_id=node.cluster_id,
                node_id=node.node_id,
                directory=node.directory,
                path=str(file.path),
                file=file.name,
                is_snapshot=file.is_snapshot,
                segment_base_offset=file.offset,
                start=start,
                end=end,
                bounds=bounds if file.kind is FileKind.LOG else ALWAYS_COMMITTED,
            )


def wanted_files(node: NodeFiles, wanted: RecordFilter) -> Iterator[LogFile]:
    """The files that may hold a wanted record."""
    may_hold = ranges(wanted, (segment.offset for segment in node.segments))
    left_out = {segment.path for segment, may in zip(node.segments, may_hold, strict=True) if not may}
    for file in node.files:
        right_kind = wanted.is_snapshot is None or wanted.is_snapshot == file.is_snapshot
        if right_kind and file.path not in left_out:
            yield file


def cuts(file: LogFile, piece_bytes: int, wanted: RecordFilter = EVERYTHING) -> Iterator[tuple[int, int]]:
    """Where to cut a file: always before a batch. Bytes after the last whole batch go with the last piece."""
    if file.size_bytes <= piece_bytes:
        yield 0, file.size_bytes
        return
    with mapped(file.path) as data:
        positions, reached = walk(data)
        positions = positions[_is_continued(headers_at(data, positions))]
        places = [0]
        while (place := _reaching(positions, places[-1], piece_bytes)) < len(positions):
            places.append(place)
        edges = [0, *positions[places[1:]].tolist(), file.size_bytes]
        for (place, upto), (start, end) in zip(
            pairwise([*places, len(positions)]), pairwise(edges), strict=True
        ):
            unread = upto == len(positions) and reached < len(data)  # what lies behind a hole is found later
            if wanted.every_row or unread or wanted.batches(headers_at(data, positions[place:upto])).any():
                yield start, end


def _is_continued(headers: Headers) -> npt.NDArray[np.bool_]:
    """Which batches continue the one before: where a length is wrong, the chain leads to none that do."""
    continued: npt.NDArray[np.bool_] = headers["whole"].copy()
    continued[1:] &= headers["base_offset"][1:] == headers["end_offset"][:-1]
    return continued


def _reaching(positions: npt.NDArray[np.int64], place: int, size: int) -> int:
    """The first batch that begins so many bytes after another; the number of batches if none does."""
    if place == len(positions):
        return place
    return int(np.searchsorted(positions, positions[place] + size))


def shares(pieces: Sequence[Piece], cores: int) -> list[list[Piece]]:
    """Divide pieces among tasks, of which Spark takes 65 ms for each: not many more than there are cores."""
    even = sum(piece.end - piece.start for piece in pieces) // (SHARES_A_CORE * cores)
    return list(pack(pieces, min(max(even, PARTITION_BYTES), SHARE_BYTES_MAX)))


def pack(pieces: Sequence[Piece], share_bytes: int) -> Iterator[list[Piece]]:
    """Put neighbours together until a share is full: a task costs more than a small file."""
    share: list[Piece] = []
    filled = 0
    for piece in pieces:
        if share and filled + piece.end - piece.start > share_bytes:
            yield share
            share, filled = [], 0
        share.append(piece)
        filled += piece.end - piece.start
    if share:
        yield share
