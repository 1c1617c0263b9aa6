"""What the simulated disk says of a log: durable is what it holds, not what the node believes."""

from pathlib import Path

import pytest

from kraftd.records import names
from kraftd.storage import Access
from tests.crash.hooks import calm, refuse
from tests.sim.durable import DurableLog
from tests.sim.filesystem import SimFileSystem

DATA = Path("/data")
LOG = DATA / names.LOG_DIRECTORY
SEGMENT = LOG / f"{0:020}.log"


class Setting:
    """A directory with one empty segment, and what is known of it."""

    def __init__(self) -> None:
        self.fs = SimFileSystem()
        self.fs.make_directory(DATA)
        self.fs.make_directory(LOG)
        self.handle = self.fs.open(SEGMENT, Access.CREATE)
        self.log = DurableLog(self.fs, DATA)
        self.size_bytes = 0
        self.end_offset = 0

    def append(self, count: int = 1) -> None:
        """A batch of ten bytes."""
        self.fs.pwrite(self.handle, b"0123456789", self.size_bytes)
        self.size_bytes += 10
        self.log.append([(self.end_offset, self.end_offset + count, 10)])
        self.end_offset += count


def test_a_batch_is_durable_once_its_bytes_and_its_name_are() -> None:
    it = Setting()
    it.append(count=3)
    it.fs.fsync(it.handle)
    assert it.log.end_offset == 0
    it.fs.sync_directory(LOG)
    assert it.log.end_offset == 3
    it.append()
    assert it.log.end_offset == 3


def test_a_sync_covers_what_was_written_before_it_began() -> None:
    it = Setting()
    it.fs.sync_directory(LOG)
    it.append()
    mark = it.fs.mark
    it.append()
    with it.fs.as_of(mark):
        it.fs.fdatasync(it.handle)
    assert it.log.end_offset == 1


def test_what_a_failed_sync_lost_is_not_durable() -> None:
    it = Setting()
    it.fs.sync_directory(LOG)
    it.append()
    refuse(it.fs, "fsync")
    with pytest.raises(OSError, match="Input/output error"):
        it.fs.fsync(it.handle)
    calm(it.fs)
    it.fs.fsync(it.handle)
    assert it.log.end_offset == 0


def test_what_is_cut_off_is_forgotten() -> None:
    it = Setting()
    it.fs.sync_directory(LOG)
    it.append(2)
    it.append(2)
    it.fs.fsync(it.handle)
    assert it.log.end_offset == 4
    it.log.truncate(2)
    assert it.log.end_offset == 2
