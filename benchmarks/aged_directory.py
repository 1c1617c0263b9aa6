"""A node's directory as months of one kind of batch leave it, made in seconds.

Log, snapshotter, cleaner and their defaults are the daemon's own. What is not there are quorum, loop and
threads: all of the log is committed, time is what the batches say, each batch has a turn, and what a thread
would do is done at once. The log is flushed where a snapshot was written, not with each batch.
"""

import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from crc32c import crc32c

from kraftd.metadata.feature_levels import METADATA_VERSION
from kraftd.metadata.image import EMPTY, MetadataImage
from kraftd.metadata.image_builder import apply, apply_all
from kraftd.raft import LeasedSnapshots, Retention, SnapshotPoints
from kraftd.raft.events import CutRequested
from kraftd.records import names
from kraftd.records.batch import encode_batch
from kraftd.records.batch_header import CRC_FROM, end_of
from kraftd.records.committed import CommittedBatch
from kraftd.records.frame import encode_record
from kraftd.records.messages import ConfigRecord, FeatureLevelRecord, NoOpRecord
from kraftd.runtime.config import LogLimits
from kraftd.runtime.log_cleaner import LogCleaner, rolling_of
from kraftd.runtime.snapshotter import Snapshotter
from kraftd.storage import NodeDirectory, OsFileSystem
from kraftd.storage.snapshots import SnapshotInfo
from kraftd.types import Election, HealthKind, NodeId, Now, OffsetAndEpoch

EPOCH = 1
VOTERS = (1, 2, 3)
LIMITS = LogLimits(segment_bytes=1 << 30, segment_ms=7 * 24 * 3_600_000)
BROKER = 4
OFFSET, CRC, TIMES = struct.Struct(">q"), struct.Struct(">I"), struct.Struct(">qq")
CRC_AT, TIMES_AT = end_of("magic"), end_of("last_offset_delta")

FEATURE = FeatureLevelRecord(name=METADATA_VERSION, feature_level=29)
NO_OP = encode_record(NoOpRecord())
BEGINNING = apply_all(EMPTY, [FEATURE], 0)
"""The image of a log that sets a metadata.version and does nothing else."""


def set_config(text: str) -> tuple[bytes, MetadataImage]:
    """A record that sets one config of one broker, and the image behind it."""
    record = ConfigRecord(BROKER, "1", "ssl.cipher.suites", text)
    return encode_record(record), apply(BEGINNING, record, 0)


class AgedDirectory:
    """Appends to one formatted directory, and does to it what its daemon would have done."""

    def __init__(self, path: Path, node_id: NodeId, *, began_ms: int) -> None:
        self.node = NodeDirectory.open(
            OsFileSystem(),
            path,
            node_id=node_id,
            random_uuid=lambda: os.urandom(16),
            voter_ids=VOTERS,
            config=rolling_of(LIMITS),
        )
        self.node.write_election(Election(EPOCH))
        self.node.remember_state_health(HealthKind.WHOLE)
        self._path = path
        self._image = BEGINNING
        self._value, self._template = b"", b""
        self._peak_bytes = 0
        self._turn = _AtOnce(self._cut)
        surroundings: Any = self._turn
        self._snapshotter = Snapshotter(
            SnapshotPoints(LIMITS.snapshot_bytes, LIMITS.snapshot_interval_ms),
            lambda: self.node.snapshots.newest,
            me=node_id,
            voter_ids=VOTERS,
            is_leader=lambda: False,
            lacks_one=lambda _: False,
            image=lambda: self._image,
            open_writer=self.node.snapshots.writer,
            written=self._snapshot_written,
            worker=surroundings,
            driver=surroundings,
            clock_ns=lambda: 0,
            logger=surroundings,
        )
        self._cleaner = LogCleaner(
            self.node,
            Retention(LIMITS.retention_bytes, LIMITS.retention_ms),
            driver=surroundings,
            raft_node=surroundings,
            applied_offset=lambda: self.node.log.end_offset,
            worker=surroundings,
            logger=surroundings,
        )
        self.append(encode_record(FEATURE), BEGINNING, began_ms)

    def append(self, value: bytes, image: MetadataImage, now_ms: int) -> None:
        """Append a batch of one record, behind which the image is this one, and have a turn."""
        log = self.node.log
        base_offset = log.end_offset
        if value is not self._value:
            self._value, self._template = value, encode_batch(0, EPOCH, 0, [value])
        batch = _stamped(self._template, base_offset, now_ms)
        log.append([batch], base_offset, base_offset + 1)
        self._image = image
        now = self._turn.begin(now_ms)
        self._snapshotter.applied(
            CommittedBatch(base_offset, base_offset + 1, EPOCH, now_ms, (value,), len(batch))
        )
        self._snapshotter.run(now)
        self._cleaner.run(now)

    def _snapshot_written(self, info: SnapshotInfo) -> None:
        self.node.log.flush()
        self.node.add_snapshot(info)
        self._cleaner.snapshot_written(info.id.offset)

    def _cut(self, start: OffsetAndEpoch) -> None:
        self._note_peak()
        self.node.cut_front(start)

    def _note_peak(self) -> None:
        files = (self._path / names.LOG_DIRECTORY).iterdir()
        self._peak_bytes = max(self._peak_bytes, sum(path.stat().st_size for path in files))

    def take_peak_bytes(self) -> int:
        """The most that the files of the log's directory took since the last call, index files as large as
        they are preallocated. Only a cut makes them fewer, so they are looked at before each.
        """
        self._note_peak()
        peak_bytes, self._peak_bytes = self._peak_bytes, 0
        return peak_bytes

    def close(self) -> None:
        """Flush, and let go of the directory."""
        self.node.log.flush()
        self.node.close()


def copy_log(aged: Path, other: Path) -> None:
    """Let another formatted node have the same past."""
    shutil.rmtree(other / names.LOG_DIRECTORY, ignore_errors=True)
    shutil.copytree(aged / names.LOG_DIRECTORY, other / names.LOG_DIRECTORY)
    shutil.copy(aged / names.SIDECAR, other / names.SIDECAR)


class _AtOnce:
    """What a daemon has around snapshotter and cleaner: what they ask for is done before they go on."""

    def __init__(self, cut: Callable[[OffsetAndEpoch], None]) -> None:
        self._cut = cut
        self._now = Now(0, 0)

    def begin(self, now_ms: int) -> Now:
        self._now = Now(now_ms, now_ms)
        return self._now

    def now(self) -> Now:
        return self._now

    def wake(self) -> None:
        """Each batch has a turn anyway."""

    def submit(self, job: Callable[[], Any], done: Callable[[Any], None]) -> None:
        done(job())

    def deliver(self, event: CutRequested) -> None:
        self._cut(event.start)

    def leased_snapshots(self, _now_ms: int) -> LeasedSnapshots:
        return LeasedSnapshots()

    def info(self, event: str, **fields: Any) -> None:
        """Snapshots and cuts: nobody reads of them."""

    def warning(self, event: str, **fields: Any) -> None:
        raise RuntimeError(f"{event}: {fields}")

    error = warning


def _stamped(template: bytes, base_offset: int, now_ms: int) -> bytes:
    """A batch like the template, at another offset and time: encoding each anew costs more than all else."""
    batch = bytearray(template)
    OFFSET.pack_into(batch, 0, base_offset)
    TIMES.pack_into(batch, TIMES_AT, now_ms, now_ms)
    CRC.pack_into(batch, CRC_AT, crc32c(memoryview(batch)[CRC_FROM:]))
    return bytes(batch)
