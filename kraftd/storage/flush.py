"""A flush as a value: made on the loop, run in any thread, reported back on the loop (D-03).

The job holds what was dirty when it was captured, and the generation and end offset that will be durable once
it has run. It does not refer to the log: if that was truncated meanwhile, `Log.flush_done` knows by the
generation.

`RecoveryPointStore` is where the log keeps how far it is flushed; the job syncs its file, too, if asked.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from kraftd.storage.disk import Disk
from kraftd.types import Epoch, Offset, OffsetAndEpoch


class RecoveryPointStore(Protocol):
    """Keeps the recovery point: the flushed offset, for which Kafka's metadata log has no file (D-05)."""

    @property
    def recovery_point(self) -> OffsetAndEpoch | None:
        """The offset below which everything was synced once; None if that is unknown."""

    @property
    def file(self) -> tuple[int, Path]:
        """The file that a flush job syncs to make the recovery point durable."""

    @property
    def unsynced_sequence(self) -> int:
        """The number of the state that is written but not synced; 0 if all is synced."""

    def raise_recovery_point(self, at: OffsetAndEpoch) -> None:
        """Write a higher recovery point, without a sync."""

    def move_recovery_point(self, at: OffsetAndEpoch) -> None:
        """Write another recovery point; durable on return."""

    def synced(self, sequence: int) -> None:
        """Record that the state with this number is durable now."""

    def sync(self) -> None:
        """Make what was written durable."""


class FlushJob:
    """The files that one group commit makes durable. `run` is called once, in one thread."""

    __slots__ = (
        "_directory",
        "_disk",
        "_files",
        "_recovery_point_file",
        "end_epoch",
        "end_offset",
        "finished",
        "generation",
        "recovery_point_sequence",
    )

    def __init__(
        self,
        disk: Disk,
        generation: int,
        end_offset: Offset,
        end_epoch: Epoch,
        files: Sequence[tuple[int, Path]],
        directory: Path | None,
        recovery_point_file: tuple[int, Path] | None,
        recovery_point_sequence: int,
    ) -> None:
        self._disk = disk
        self._files = files
        self._directory = directory
        self._recovery_point_file = recovery_point_file
        self.generation = generation
        self.end_offset = end_offset
        self.end_epoch = end_epoch
        self.recovery_point_sequence = recovery_point_sequence
        """The number of the sidecar's state that this job makes durable; 0 for none."""
        self.finished = False
        """Whether `run` is over. A truncation must not begin before (D-03)."""

    def run(self) -> None:
        """Sync the dirty segments, then the directory if it has new names, then the sidecar if asked.

        Raises:
            StorageFailure: The disk refused. The process must end; the job must not be run again.
        """
        for handle, path in self._files:
            self._disk.sync_data(handle, path)
        if self._directory is not None:
            self._disk.sync_directory(self._directory)
        if self._recovery_point_file is not None:
            self._disk.sync_data(*self._recovery_point_file)
        self.finished = True
