"""The log against a plain list of batches: whatever is done to it, both say the same."""

import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kraftd.records.batch import scan
from kraftd.storage import Disk, FlushJob, Log, LogConfig, OsFileSystem
from kraftd.types import EpochEntry, OffsetAndEpoch
from tests.unit.storage.batches import batch

CONFIG = LogConfig(segment_bytes=30_000, segment_ms=500, index_bytes=60)


class InMemory:
    """A `RecoveryPointStore` without a file of its own."""

    def __init__(self) -> None:
        self.recovery_point: OffsetAndEpoch | None = None
        self.unsynced_sequence = 0
        self.file = (-1, Path("none"))

    def raise_recovery_point(self, at: OffsetAndEpoch) -> None:
        self.recovery_point = at

    move_recovery_point = raise_recovery_point

    def synced(self, _sequence: int) -> None: ...

    def sync(self) -> None: ...


class LogAndList(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.recovery_point = InMemory()
        self.batches: list[tuple[int, int, bytes]] = []
        self.epoch = 1
        self.now_ms = 1_000
        self.generation = 0
        self.flushed = 0
        self.job: tuple[FlushJob, int] | None = None
        self.reopen_log()

    def reopen_log(self) -> None:
        opened = Log.open(
            Disk(OsFileSystem()), Path(self._folder.name), recovery_points=self.recovery_point, config=CONFIG
        )
        assert opened.report.damage == opened.report.torn == ()
        self.log = opened.log
        self.flushed, self.generation, self.job = self.end, 0, None

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.log.abandon()
            self._folder.cleanup()

    @property
    def end(self) -> int:
        return self.batches[-1][1] if self.batches else 0

    @rule(
        counts=st.lists(st.integers(1, 5), min_size=1, max_size=4),
        size=st.sampled_from([10, 900, 4_000]),
        wait_ms=st.integers(0, 200),
        joined=st.booleans(),
    )
    def append(self, counts: list[int], size: int, wait_ms: int, joined: bool) -> None:
        self.now_ms += wait_ms
        base = at = self.end
        new = []
        for count in counts:
            new.append((at, at + count, batch(at, self.epoch, count, size, self.now_ms)))
            at += count
        data = [item[2] for item in new]
        self.log.append([b"".join(data)] if joined else data, base, at)
        self.batches += new

    @rule()
    def next_epoch(self) -> None:
        self.epoch += 1
        self.log.assign_epoch(self.epoch, self.end)
        assert self.log.last_epoch == self.epoch

    @rule()
    def begin_flush(self) -> None:
        if self.job is None:
            self.job = (self.log.begin_flush(), self.end)

    @rule()
    def end_flush(self) -> None:
        if self.job is not None:
            job, end = self.job
            self.job = None
            job.run()
            assert self.log.flush_done(job) == (self.generation, end)
            self.flushed = max(self.flushed, end)

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        self.end_flush()
        to = data.draw(st.integers(0, self.end + 2))
        self.batches = [item for item in self.batches if item[1] <= to]
        self.generation += 1
        assert self.log.truncate(to, self.generation) == self.end
        self.flushed = min(self.flushed, self.end)

    @rule(clean=st.booleans())
    def reopen(self, clean: bool) -> None:
        self.end_flush()
        if clean:
            self.log.close()
        else:
            self.log.save_epochs()  # as each turn that appended ends; before, see test_log.py
            self.log.abandon()
        self.reopen_log()

    @rule(data=st.data(), max_bytes=st.sampled_from([1, 100, 5_000, 1 << 20]))
    def read(self, data: st.DataObject, max_bytes: int) -> None:
        if self.end == 0:
            return
        offset = data.draw(st.integers(0, self.end - 1))
        found = [bytes(view.raw) for view in scan(self.log.read(offset, max_bytes))]
        first = next(n for n, item in enumerate(self.batches) if item[1] > offset)
        assert found == [item[2] for item in self.batches[first : first + len(found)]]
        assert len(found) == 1 or sum(map(len, found)) <= max_bytes

    @rule(max_bytes=st.sampled_from([1, 5_000, 1 << 20]))
    def tail(self, max_bytes: int) -> None:
        found = self.log.tail(max_bytes)
        assert found == [item[2] for item in self.batches[len(self.batches) - len(found) :]]
        assert found or not self.batches

    @invariant()
    def both_agree(self) -> None:
        if not hasattr(self, "log"):
            return
        assert self.log.end_offset == self.end
        assert self.log.flushed_offset == self.flushed
        epochs: list[EpochEntry] = []
        for base, _, raw in self.batches:
            epoch = int.from_bytes(raw[12:16], "big")
            if not epochs or epochs[-1].epoch != epoch:
                epochs.append(EpochEntry(epoch, base))
        known = [entry for entry in self.log.epochs if entry.start_offset < self.end]
        assert known == epochs
        assert (
            self.recovery_point.recovery_point is None
            or self.recovery_point.recovery_point.offset <= self.end
        )


LogAndList.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestLogAndList = LogAndList.TestCase
