"""How much of a node's log would survive a power cut, by what the simulated disk itself knows.

The node is not asked: it may be wrong about what it has flushed, and that is what is to be found. A batch is
durable once its segment's name is and no unsynced change of that file touches anything before the batch's
end. What a disk reported as synced counts, also if it lied.

Entered by `SimNode`: `append`, `truncate` and `replace` when the log has done so, `end_offset` when the
auditor looks.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from kraftd.records import names
from kraftd.types import Offset
from tests.sim.filesystem import NOWHERE, File, SimFileSystem


class _Batch(NamedTuple):
    """A batch that was not durable when it was last looked at."""

    end_offset: Offset
    name: str
    file: File
    end_position: int


class DurableLog:
    """The log of one open directory, from its first batch on."""

    def __init__(self, fs: SimFileSystem, path: Path, start_offset: Offset = 0) -> None:
        self._folder = fs.directory(path / names.LOG_DIRECTORY)
        self._end_offset = start_offset
        self._pending: deque[_Batch] = deque()
        self._sizes: dict[str, int] = {}
        """How long each segment is, by name."""
        self._segments: list[tuple[Offset, str]] = []
        self._known_names = 0
        for file in self._folder.live.values():
            if isinstance(file, File):
                file.unsynced_from = NOWHERE  # what an opening reads is what the disk holds

    def append(self, batches: Iterable[tuple[Offset, Offset, int]]) -> None:
        """Batches are in the log now: the base offset, the end offset and the size of each."""
        for base_offset, end_offset, size_bytes in batches:
            name = self._segment_of(base_offset)
            end_position = self._sizes.get(name, 0) + size_bytes
            self._sizes[name] = end_position
            file = self._folder.live[name]
            assert isinstance(file, File)
            self._pending.append(_Batch(end_offset, name, file, end_position))

    def truncate(self, end_offset: Offset) -> None:
        """Batches beyond that offset are gone."""
        pending = self._pending
        while pending and pending[-1].end_offset > end_offset:
            pending.pop()
        self._end_offset = min(self._end_offset, end_offset)
        self.look_at_files()

    def replace(self, offset: Offset) -> None:
        """A snapshot has taken the log's place."""
        self._pending.clear()
        self._end_offset = offset
        self.look_at_files()

    def look_at_files(self) -> None:
        """Segments went, or were cut, or are there from before: the first may hold more than the log does."""
        self._known_names = 0
        self._sizes = {
            name: file.live.size_bytes
            for name, file in self._folder.live.items()
            if name.endswith(names.LOG) and isinstance(file, File)
        }

    @property
    def end_offset(self) -> Offset:
        """Everything before it is durable."""
        pending = self._pending
        while pending and self._is_durable(pending[0]):
            self._end_offset = pending.popleft().end_offset
        return self._end_offset

    def _is_durable(self, batch: _Batch) -> bool:
        _, name, file, end_position = batch
        if self._folder.durable.get(name) is not file or file.unsynced_from < end_position:
            return False
        # Mostly there is no change, and this runs for every batch.
        return not file.changes or all(change.position >= end_position for change in file.changes)

    def _segment_of(self, base_offset: Offset) -> str:
        live = self._folder.live
        if len(live) != self._known_names:
            self._known_names = len(live)
            self._segments = sorted((int(name[:-4]), name) for name in live if name.endswith(".log"))
        return self._segments[bisect_right(self._segments, (base_offset, "~")) - 1][1]
