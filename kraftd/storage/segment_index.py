"""The index of a segment: the entries of `.index` and `.timeindex`, in memory and on disk.

The entries are rebuilt from the segment when a start reads it, and reads use those in memory. The files are
written for Kafka: preallocated while their segment is written to, cut to size when it is sealed, never
synced. Those of a sealed segment are compared with the entries, and written where they differ or cannot be
read. Of a segment that a start has not read yet, the `.index` is all there is (`from_file`): what it says is
a hint where to look, and whoever looks proves it, so a wrong entry after a crash does no harm.

Follows: an entry for a batch that begins more than 4,096 bytes after the last entry's (`.index`: last
offset and start of that batch; `.timeindex`: the highest timestamp so far and the offset that has it,
only when it rose), one more time entry when a segment is sealed.
Differs: Kafka syncs and reads back its index files.
"""

import sys
from array import array
from bisect import bisect_right
from collections.abc import Iterable
from pathlib import Path

from kraftd.errors import StorageError
from kraftd.records.index import (
    OFFSET_ENTRY_BYTES,
    TIME_ENTRY_BYTES,
    encode_offset_entry,
    encode_time_entry,
)
from kraftd.storage.disk import Disk
from kraftd.storage.filesystem import Access

NO_TIMESTAMP = -1


class SegmentIndex:
    """The entries of one segment. Offsets are relative to its base, positions are bytes from its start.

    It only grows: a truncation makes a new one (`truncated`), so a reader thread may keep an old one.
    """

    __slots__ = ("bases", "lasts", "positions", "time_offsets", "timestamps")

    def __init__(self) -> None:
        self.bases = array("I")
        self.lasts = array("I")
        self.positions = array("I")
        self.timestamps = array("q")
        self.time_offsets = array("I")
        """Of each timestamp the offset of the batch's last record."""

    @classmethod
    def from_file(cls, data: bytes) -> "SegmentIndex":
        """Return the entries of an `.index` file, as hints; none if it holds part of an entry.

        They lack `bases` and timestamps.
        """
        index = cls()
        if len(data) % OFFSET_ENTRY_BYTES:
            return index
        fields = array("I", data)
        if sys.byteorder == "little":
            fields.byteswap()
        index.lasts, index.positions = fields[0::2], fields[1::2]
        return index

    @property
    def last_position(self) -> int:
        """The position of the newest entry's batch; 0 without one."""
        return self.positions[-1] if self.positions else 0

    def fits(self, entries: int, index_bytes: int) -> bool:
        """Whether files of this size have room for so many more entries and the closing one (LOG-02)."""
        offsets, times = len(self.lasts) + entries, len(self.timestamps) + entries
        return offsets * OFFSET_ENTRY_BYTES <= index_bytes and (times + 1) * TIME_ENTRY_BYTES <= index_bytes

    def add(self, base: int, last: int, position: int) -> None:
        """Add an entry for a batch."""
        self.bases.append(base)
        self.lasts.append(last)
        self.positions.append(position)

    def add_time(self, timestamp_ms: int, last: int) -> None:
        """Add an entry for the highest timestamp so far, if it rose since the last entry."""
        newest = self.timestamps[-1] if self.timestamps else NO_TIMESTAMP
        if timestamp_ms > newest:
            self.timestamps.append(timestamp_ms)
            self.time_offsets.append(last)

    def entry_before(self, relative_offset: int) -> tuple[int, int]:
        """Return base offset and position of the last indexed batch that begins at or before this offset."""
        slot = bisect_right(self.bases, relative_offset) - 1
        return (self.bases[slot], self.positions[slot]) if slot >= 0 else (0, 0)

    def hint_before(self, relative_offset: int) -> tuple[int, int]:
        """Return last offset and position of the last indexed batch that ends at or before this offset.

        For entries from a file, which do not say where their batches begin.
        """
        slot = bisect_right(self.lasts, relative_offset) - 1
        return (self.lasts[slot], self.positions[slot]) if slot >= 0 else (-1, 0)

    def boundary_before(self, position: int) -> int:
        """Return the position of the last indexed batch at or before this position."""
        slot = bisect_right(self.positions, position) - 1
        return self.positions[slot] if slot >= 0 else 0

    def truncated(self, relative_offset: int) -> "SegmentIndex":
        """Return a copy without the batches from this offset on, which is where a batch begins."""
        kept = SegmentIndex()
        slots = bisect_right(self.lasts, relative_offset - 1) if relative_offset > 0 else 0
        kept.bases, kept.lasts = self.bases[:slots], self.lasts[:slots]
        kept.positions = self.positions[:slots]
        slots = bisect_right(self.time_offsets, relative_offset - 1) if relative_offset > 0 else 0
        kept.timestamps, kept.time_offsets = self.timestamps[:slots], self.time_offsets[:slots]
        return kept

    def encode_offsets(self, since: int = 0) -> bytes:
        """Return the `.index` entries from number `since` on."""
        return b"".join(map(encode_offset_entry, self.lasts[since:], self.positions[since:]))

    def encode_times(self, since: int = 0) -> bytes:
        """Return the `.timeindex` entries from number `since` on."""
        return b"".join(map(encode_time_entry, self.timestamps[since:], self.time_offsets[since:]))


class IndexFiles:
    """The two files of the active segment."""

    __slots__ = (
        "_disk",
        "_offset_handle",
        "_offset_path",
        "_offsets",
        "_time_handle",
        "_time_path",
        "_times",
    )

    def __init__(self, disk: Disk, log_path: Path, index: SegmentIndex, index_bytes: int) -> None:
        """Create both at full size, with what `index` holds; stale ones go (LOG-15)."""
        self._disk = disk
        self._offset_path, self._time_path = index_paths(log_path)
        self._offset_handle = disk.open(self._offset_path, Access.CREATE_EMPTY)
        self._time_handle = disk.open(self._time_path, Access.CREATE_EMPTY)
        disk.resize(self._offset_handle, _whole(index_bytes, OFFSET_ENTRY_BYTES), self._offset_path)
        disk.resize(self._time_handle, _whole(index_bytes, TIME_ENTRY_BYTES), self._time_path)
        self._offsets = self._times = 0
        self.extend(index)

    def extend(self, index: SegmentIndex) -> None:
        """Write the entries that came since the last call."""
        if len(index.lasts) > self._offsets:
            position = self._offsets * OFFSET_ENTRY_BYTES
            self._disk.write(
                self._offset_handle, index.encode_offsets(self._offsets), position, self._offset_path
            )
            self._offsets = len(index.lasts)
        if len(index.timestamps) > self._times:
            position = self._times * TIME_ENTRY_BYTES
            self._disk.write(self._time_handle, index.encode_times(self._times), position, self._time_path)
            self._times = len(index.timestamps)

    def seal(self, index: SegmentIndex) -> None:
        """Write what is missing, cut both files to size and close them."""
        self.extend(index)
        self._disk.resize(self._offset_handle, self._offsets * OFFSET_ENTRY_BYTES, self._offset_path)
        self._disk.resize(self._time_handle, self._times * TIME_ENTRY_BYTES, self._time_path)
        self.abandon()

    def abandon(self) -> None:
        """Close both files as they are."""
        self._disk.close(self._offset_handle)
        self._disk.close(self._time_handle)


def index_paths(log_path: Path) -> tuple[Path, Path]:
    """Return the paths of a segment's offset index and time index."""
    return log_path.with_suffix(".index"), log_path.with_suffix(".timeindex")


def write_sealed(disk: Disk, log_path: Path, index: SegmentIndex) -> None:
    """Make the index files of a sealed segment hold exactly these entries; files that already do are not
    written.
    """
    write_index_files(disk, stale_index_files(disk, log_path, index))


def stale_index_files(disk: Disk, log_path: Path, index: SegmentIndex) -> list[tuple[Path, bytes]]:
    """Return the index files of a sealed segment that do not hold these entries, with what they should."""
    wanted = zip(index_paths(log_path), (index.encode_offsets(), index.encode_times()), strict=True)
    return [(path, data) for path, data in wanted if not _holds(disk, path, data)]


def _holds(disk: Disk, path: Path, data: bytes) -> bool:
    """Whether a file holds these bytes. One that the disk cannot read does not: written anew it gets other
    sectors.
    """
    if not disk.fs.exists(path):
        return False
    handle = disk.open(path, Access.READ)
    try:
        return disk.size(handle, path) == len(data) and disk.read(handle, len(data), 0, path) == data
    except StorageError:
        return False
    finally:
        disk.close(handle)


def write_index_files(disk: Disk, files: Iterable[tuple[Path, bytes]]) -> None:
    """Write index files anew, each as a whole."""
    for path, data in files:
        handle = disk.open(path, Access.CREATE_EMPTY)
        try:
            disk.write(handle, data, 0, path)
        finally:
            disk.close(handle)


def _whole(index_bytes: int, entry_bytes: int) -> int:
    """Return the largest size that holds whole entries only."""
    return index_bytes - index_bytes % entry_bytes
