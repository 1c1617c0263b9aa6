"""One `.log` file of the log, as the process that holds it knows it.

A segment is a chain of record batches from its base offset on. `Segment` keeps what the log needs to
append to it, to find a batch in it and to roll it; it decides nothing.

Not here: what a bad byte means (`log_scan`), which segment is next (`log`).
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from kraftd.records.batch_header import OVERHEAD_BYTES, layout
from kraftd.records.index import INDEX_BYTES_MAX, INDEX_INTERVAL_BYTES
from kraftd.storage.disk import Disk
from kraftd.storage.removal import Pins
from kraftd.storage.segment_index import NO_TIMESTAMP, IndexFiles, SegmentIndex, index_paths
from kraftd.types import Epoch, Offset

_HEAD = layout("base_offset", "length", "epoch", "last_offset_delta", "max_timestamp_ms")
HEAD_BYTES = _HEAD.size
"""The bytes of a batch up to its largest timestamp: all that storage reads of a checked batch."""

OFFSETS_PER_SEGMENT_MAX = 2**31 - 1
NO_END: Offset = 2**63 - 1


class Head(NamedTuple):
    """The fields of a batch that storage reads without its records."""

    base_offset: Offset
    last_offset: Offset
    size_bytes: int
    epoch: Epoch
    max_timestamp_ms: int


def head_at(buffer: bytes | memoryview, position: int) -> Head:
    """Return the head of the batch that begins at `position`; at least `HEAD_BYTES` must follow."""
    base, length, epoch, delta, newest = _HEAD.unpack_from(buffer, position)
    return Head(base, base + delta, length + OVERHEAD_BYTES, epoch, newest)


def heads_of(batches: Iterable[bytes]) -> list[Head]:
    """Return the heads of whole, checked batches; an element may hold several of them."""
    heads = []
    for data in batches:
        position, size_bytes = 0, len(data)
        while position < size_bytes:
            head = head_at(data, position)
            heads.append(head)
            position += head.size_bytes
    return heads


class Hole(NamedTuple):
    """Bytes of a segment that cannot be read."""

    position: int
    end_position: int
    offset: Offset
    """The offset that the batch at `position` must have begun with."""
    end_offset: Offset
    """The offset at which sound batches begin again; `NO_END` if not in this segment."""


class LogConfig(msgspec.Struct, frozen=True):
    """`metadata.log.segment.bytes`, `metadata.log.segment.ms`, and the largest size of an index file."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 604_800_000
    index_bytes: int = INDEX_BYTES_MAX
    sealed_at_bytes: int = 1 << 30
    """A segment that holds so many bytes gets no more batches, so that the next one begins where a snapshot
    ends that is due after so many.
    """


class Segment:
    """An open segment file, with its size, its index and its damaged parts."""

    __slots__ = (
        "base_offset",
        "end_offset",
        "files",
        "first_timestamp_ms",
        "handle",
        "holes",
        "index",
        "is_unread",
        "max_timestamp_ms",
        "max_timestamp_offset",
        "path",
        "pins",
        "size_bytes",
    )

    def __init__(self, base_offset: Offset, path: Path, handle: int) -> None:
        self.base_offset = base_offset
        self.path = path
        self.handle = handle
        self.pins = Pins()
        """Who reads the open file: shared by all objects that stand for it."""
        self.index = SegmentIndex()
        self.files: IndexFiles | None = None
        """The index files while this is the active segment of a log that may be written."""
        self.holes: list[Hole] = []
        """Damaged bytes (D-05): no read crosses them."""
        self.is_unread = False
        """Whether a start took it without reading its batches (D-23): then `index` is what its file said."""
        self.size_bytes = 0
        self.end_offset = base_offset
        self.first_timestamp_ms = NO_TIMESTAMP
        self.max_timestamp_ms = NO_TIMESTAMP
        self.max_timestamp_offset = base_offset

    def add_batch(self, head: Head) -> None:
        """Add the batch at the end, just written or just found there."""
        position = self.size_bytes
        _, last_offset, size_bytes, _, newest_ms = head
        if position == 0:
            self.first_timestamp_ms = newest_ms
        if newest_ms > self.max_timestamp_ms:
            self.max_timestamp_ms = newest_ms
            self.max_timestamp_offset = last_offset
        if position - self.index.last_position > INDEX_INTERVAL_BYTES:
            self._add_entry(head, position)
        self.size_bytes = position + size_bytes
        self.end_offset = last_offset + 1

    def skip_damage(self, position: int, end_position: int, resume: Head | None) -> None:
        """Add bytes that cannot be read; `resume` is the sound batch after them, if there is one.

        That batch gets an index entry of its own, so that no search has to read through the damage.
        """
        end_offset = resume.base_offset if resume is not None else NO_END
        self.holes.append(Hole(position, end_position, self.end_offset, end_offset))
        self.size_bytes = end_position
        if resume is not None:
            self._add_entry(resume, end_position)

    def must_roll(
        self, batches: int, size_bytes: int, max_timestamp_ms: int, last_offset: Offset, config: LogConfig
    ) -> bool:
        """Whether batches of this size and time begin a new segment (LOG-02)."""
        if self.size_bytes == 0:
            return False
        return (
            self.size_bytes > config.segment_bytes - size_bytes
            or self.size_bytes >= config.sealed_at_bytes
            or max_timestamp_ms - self.first_timestamp_ms > config.segment_ms
            or not self.index.fits(batches, config.index_bytes)
            or last_offset - self.base_offset > OFFSETS_PER_SEGMENT_MAX
        )

    def takes_together(self, batches: Sequence[bytes], size_bytes: int, config: LogConfig) -> bool:
        """Whether no limit on its size falls between batches of this size in all."""
        before_last = self.size_bytes + size_bytes - len(batches[-1])
        return size_bytes <= config.segment_bytes and before_last < config.sealed_at_bytes

    @property
    def ends_in_damage(self) -> bool:
        """Whether its last bytes are damaged, so that nothing can be appended to it."""
        return bool(self.holes) and self.holes[-1].end_position == self.size_bytes

    def hole_at(self, offset: Offset) -> Hole | None:
        """Return the damaged part that held this offset; None if no damaged part did."""
        slot = bisect_right(self.holes, offset, key=lambda hole: hole.offset) - 1
        if slot < 0:
            return None
        hole = self.holes[slot]
        return hole if offset < hole.end_offset else None

    @property
    def unindexed_from(self) -> int:
        """The position from which timestamps are in no index entry: the last indexed batch, or the end of the
        last damage.
        """
        return max(self.index.last_position, self.holes[-1].end_position if self.holes else 0)

    def add_time(self, head: Head) -> None:
        """Add the newest timestamp of a batch."""
        if head.max_timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms = head.max_timestamp_ms
            self.max_timestamp_offset = head.last_offset

    def truncated(self, position: int, end_offset: Offset) -> "Segment":
        """Return this segment without what follows a batch boundary: a new object, for new readers. Its times
        are those of its index: the caller adds those from `unindexed_from` on.
        """
        kept = Segment(self.base_offset, self.path, self.handle)
        kept.pins = self.pins
        kept.index = self.index.truncated(end_offset - self.base_offset)
        kept.holes = [hole for hole in self.holes if hole.end_position <= position]
        kept.is_unread = self.is_unread and position > 0
        kept.size_bytes = position
        kept.end_offset = end_offset
        kept.first_timestamp_ms = self.first_timestamp_ms if position > 0 else NO_TIMESTAMP
        if kept.index.timestamps:
            kept.max_timestamp_ms = kept.index.timestamps[-1]
            kept.max_timestamp_offset = self.base_offset + kept.index.time_offsets[-1]
        return kept

    def activate(self, disk: Disk, index_bytes: int) -> None:
        """Create the index files that an appended batch extends."""
        self.files = IndexFiles(disk, self.path, self.index, index_bytes)

    def seal(self) -> None:
        """Add the closing time entry and cut the index files to size (LOG-03)."""
        if self.files is not None:
            self.files.seal(self.sealed_index())
            self.files = None

    def sealed_index(self) -> SegmentIndex:
        """Return the index of a segment that gets no more batches: with the closing time entry."""
        if self.max_timestamp_ms != NO_TIMESTAMP:
            self.index.add_time(self.max_timestamp_ms, self.max_timestamp_offset - self.base_offset)
        return self.index

    def _add_entry(self, head: Head, position: int) -> None:
        self.index.add(head.base_offset - self.base_offset, head.last_offset - self.base_offset, position)
        if self.max_timestamp_ms != NO_TIMESTAMP:
            self.index.add_time(self.max_timestamp_ms, self.max_timestamp_offset - self.base_offset)


def remove_segments(disk: Disk, directory: Path, segments: list[Segment]) -> None:
    """Remove segment files, newest first, durably. The handles stay open."""
    for segment in reversed(segments):
        disk.remove(segment.path)
        for path in index_paths(segment.path):
            disk.remove(path)
        disk.sync_directory(directory)
