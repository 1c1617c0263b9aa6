"""The segment files of a log: a chain, of which the last one, the active segment, is written to.

Adds, seals, cuts and retires files, in the order that leaves a chain wherever a crash comes. What lies in
them, how far they are flushed and which epochs they have is the log's business (`log`).

A segment that leaves the chain keeps its file open while a reader has it pinned (`removal`).
"""

from collections.abc import Sequence
from pathlib import Path

from kraftd.records import names
from kraftd.storage.disk import Disk
from kraftd.storage.filesystem import Access
from kraftd.storage.log_reader import ReaderView
from kraftd.storage.removal import Removal, deleted, retire
from kraftd.storage.segment import LogConfig, Segment, remove_segments
from kraftd.storage.segment_index import index_paths, write_sealed
from kraftd.types import Offset


class SegmentChain:
    """The open segments, oldest first."""

    def __init__(self, disk: Disk, directory: Path, segments: list[Segment], config: LogConfig) -> None:
        self._disk = disk
        self._directory = directory
        self._config = config
        self.segments = segments
        """Always this list: the log reads it for each append."""
        self.names_dirty = False
        """Whether a name was added since the last flush began."""
        self._retired: list[Segment] = []

    def add(self, base_offset: Offset) -> None:
        """Create the new active segment; its name is durable on return (D-02)."""
        path = self._directory / names.segment_name(base_offset)
        segment = Segment(base_offset, path, self._disk.open(path, Access.CREATE_EMPTY))
        segment.activate(self._disk, self._config.index_bytes)
        self._disk.sync_directory(self._directory)
        self.segments.append(segment)
        self.names_dirty = True

    def roll(self, end_offset: Offset) -> None:
        """Seal the active segment and begin the next one."""
        self.segments[-1].seal()
        self.add(end_offset)

    def prepare(self, end_offset: Offset) -> None:
        """After an opening: index files as they should be, and an active segment at the log's end."""
        for segment in self.segments[:-1]:
            if not segment.is_unread:
                write_sealed(self._disk, segment.path, segment.sealed_index())
        last = self.segments[-1] if self.segments else None
        if last is None or last.end_offset != end_offset or last.ends_in_damage:
            if last is not None:
                write_sealed(self._disk, last.path, last.sealed_index())
            self.add(end_offset)
        else:
            last.activate(self._disk, self._config.index_bytes)

    # -- the end -------------------------------------------------------------------------------

    def truncate(self, new_end: Offset, view: ReaderView) -> None:
        """Remove everything from `new_end` on, durably; damaged bytes below it stay in place (D-05)."""
        keep = [segment for segment in self.segments if segment.base_offset <= new_end]
        gone = self.segments[len(keep) :]
        self._deactivate()
        remove_segments(self._disk, self._directory, gone)
        self._retired += gone
        if keep and new_end < keep[-1].end_offset:
            keep[-1] = self._truncate_segment(keep[-1], new_end, view)
        self.segments[:] = keep
        self._disk.sync_directory(self._directory)
        last = keep[-1] if keep else None
        if last is None or last.end_offset != new_end or last.ends_in_damage or last.is_unread:
            self.add(new_end)
        else:
            last.activate(self._disk, self._config.index_bytes)

    def _truncate_segment(self, segment: Segment, new_end: Offset, view: ReaderView) -> Segment:
        hole = segment.hole_at(new_end)
        if hole is not None:
            # Damage that held offsets below the new end stays; damage that only held later ones goes.
            position = hole.end_position if hole.offset < new_end else hole.position
            end_offset = hole.offset
        else:
            position, end_offset = view.position_of(new_end), new_end
        kept = segment.truncated(position, end_offset)
        # Behind the last index entry only the batches tell the newest timestamp. If the disk has lost them,
        # nothing is removed, and the next start finds the damage. Of an unread segment nothing is known yet.
        if not kept.is_unread:
            for head in view.heads_before(end_offset, kept.unindexed_from, position):
                kept.add_time(head)
        self._disk.resize(segment.handle, position, segment.path)
        self._disk.sync(segment.handle, segment.path)
        return kept

    # -- the front -----------------------------------------------------------------------------

    def retire_front(self, start_offset: Offset) -> None:
        """Retire the segments that end at or before an offset; one always stays (CLN-07).

        With one sync for all of them, however many: the loop of a leader waits for it, and a hundred times
        15 ms would cost it the lead. A crash may leave any of the names: see `log`.
        """
        gone: list[Segment] = []
        while len(self.segments) > 1 and self.segments[1].base_offset <= start_offset:
            gone.append(self.segments.pop(0))
        if gone:
            self._retire(gone)

    def retire_all(self) -> None:
        """Retire all segments, newest first, so that what a crash leaves is the front of the same log."""
        self._deactivate()
        while self.segments:
            self._retire((self.segments.pop(),))

    def _retire(self, segments: Sequence[Segment]) -> None:
        self._retired += segments
        paths = [path for each in segments for path in (each.path, *index_paths(each.path))]
        retire(self._disk, self._directory, paths)

    def take_removal(self) -> Removal:
        """Return the files that left the chain and that nobody has pinned: the caller removes them."""
        free = [segment for segment in self._retired if not segment.pins.count]
        self._retired = [segment for segment in self._retired if segment.pins.count]
        return Removal(
            self._disk.fs,
            tuple(segment.handle for segment in free),
            tuple(deleted(path) for each in free for path in (each.path, *index_paths(each.path))),
        )

    # -- closing -------------------------------------------------------------------------------

    def close(self) -> None:
        """Close all handles, and change nothing."""
        segments: Sequence[Segment] = (*self.segments, *self._retired)
        self._deactivate()
        for segment in segments:
            self._disk.close(segment.handle)
        self.segments.clear()
        self._retired.clear()

    def _deactivate(self) -> None:
        if self.segments and self.segments[-1].files is not None:
            self.segments[-1].files.abandon()
            self.segments[-1].files = None
