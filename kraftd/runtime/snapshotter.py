"""Writes snapshots of the image while the node does everything else.

The applier shows it each batch that it applied. At a point of the log (`kraftd.raft.snapshot_points`) it
keeps the image, which nothing changes, and goes on. When this node's turn has come, the
records are encoded on the loop, a few at a time and for a tenth of the time at most, and written by the
thread "kraftd-snapshot", at most `_QUEUED_MAX` pieces ahead. A thread that encoded would make every turn wait
for the interpreter.

A point that waits is dropped for a newer one, a write that has begun is finished. One that fails is dropped
with an alarm, which stands until a snapshot was written; the next point tries again.

A node whose log begins above 0, and whose snapshots all went bad, makes one at once, of what it has applied:
until then it can give nobody the state before its log, and could not start again. It waits for no batch. If
the one voter that is left to follow needs that snapshot first, none will be committed. So the image behind
the last batch at which one may be made is always at hand.

Not here: the bytes (`kraftd.records.snapshot`), the file (`kraftd.storage.snapshots`), and who downloads one
(`kraftd.raft.snapshot_serving`).
Follows: Kafka's SnapshotGenerator and SnapshotEmitter.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final

import msgspec

from kraftd.errors import InvariantError
from kraftd.metadata.image import MetadataImage
from kraftd.metadata.snapshot import to_values
from kraftd.raft import SnapshotPoint, SnapshotPoints, end_of, write_delay_ms
from kraftd.records.committed import CommittedBatch
from kraftd.records.snapshot import encode_snapshot
from kraftd.runtime.driver import Driver, TimedTurnTask
from kraftd.runtime.observability import Logger
from kraftd.runtime.worker import Worker
from kraftd.storage.snapshots import PIECE_BYTES, SnapshotError, SnapshotInfo, SnapshotWriter
from kraftd.types import NEVER_MS, NodeId, Now, Offset, OffsetAndEpoch

_STEPS_A_SLICE: Final = 4
_SLICE_NS: Final = 250_000
"""When no further step of a slice is begun; a step takes some 0.1 ms."""
_SHARE: Final = 10
"""A slice of a millisecond has the next one ten milliseconds after it began."""
_QUEUED_MAX: Final = 2
"""Pieces that wait for the thread."""
_RETRY_MS: Final = 1_000
"""When one in the place of lost ones is tried again that could not be written."""


class _ImageAt(msgspec.Struct, frozen=True):
    """The image at the end of a batch."""

    point: SnapshotPoint
    image: MetadataImage


class _Write(msgspec.Struct):
    """A snapshot that is being written."""

    point: SnapshotPoint
    pieces: Iterator[bytes]
    writer: SnapshotWriter
    began_ms: int
    encoded: list[bytes] = []
    encoded_bytes: int = 0
    is_encoded: bool = False
    """Whether nothing is left to encode."""
    queued: int = 0


class Snapshotter(TimedTurnTask):
    """Finds the points, and writes the snapshots, of one node."""

    def __init__(
        self,
        points: SnapshotPoints,
        newest: Callable[[], SnapshotInfo | None],
        *,
        me: NodeId,
        voter_ids: Collection[NodeId],
        is_leader: Callable[[], bool],
        lacks_one: Callable[[Offset], bool],
        image: Callable[[], MetadataImage],
        open_writer: Callable[[OffsetAndEpoch], SnapshotWriter],
        written: Callable[[SnapshotInfo], None],
        worker: Worker,
        driver: Driver,
        clock_ns: Callable[[], int],
        logger: Logger,
    ) -> None:
        """`lacks_one` tells whether all snapshots went bad and one at this offset would do in their place."""
        self._points = points
        self._newest = newest
        self._me = me
        self._voter_ids = voter_ids
        self._is_leader = is_leader
        self._lacks_one = lacks_one
        self._image = image
        self._open_writer = open_writer
        self._tell_written = written
        self._worker = worker
        self._driver = driver
        self._clock_ns = clock_ns
        self._logger = logger
        self._present: _ImageAt | None = None
        """Behind the last batch, or loaded snapshot, at which a snapshot may be made."""
        self._kept: _ImageAt | None = None
        """At the last point that waits to be written."""
        self._since_ms = 0
        """When the first of the points came that `_kept` stands for: a newer one does not wait for longer."""
        self._write: _Write | None = None
        self._slice_at_ms = 0
        self._retry_at_ms = 0
        self._last_write_ms = 0
        self._failure = ""
        self._impossible = ""
        """Why none could be made when the last one was due; empty if one could."""

    @property
    def newest(self) -> SnapshotInfo | None:
        """The newest snapshot here that is not known to be bad, None if there is none."""
        return self._newest()

    @property
    def alarms(self) -> Sequence[str]:
        """Why the last snapshot was not written; empty once one was."""
        return (self._failure,) if self._failure else ()

    @property
    def why_none(self) -> str:
        """Why there is no snapshot, or none is written although one is due; empty if neither is so."""
        if self._failure or self._impossible:
            return self._failure or self._impossible
        if self.newest is not None or self._write is not None:
            return ""
        if self._kept is not None:
            return "the first one waits for its turn behind the other voters"
        return f"none is due yet: {self._points.why_not_due}"

    def applied(self, batch: CommittedBatch) -> None:
        """Look whether a batch that was just applied ends at a point; if so, keep the image there."""
        image = self._image()
        # In a transaction the image lacks what it pends on, and before a level is set nothing says in which
        # versions records may be written. Either ends with a batch, and every node sees the same one.
        impossible = _why_impossible(image)
        if not impossible:
            self._present = _ImageAt(end_of(batch), image)
        if not self._points.is_due(batch):
            return
        self._impossible = impossible
        if impossible:
            return
        if self._kept is None:
            self._since_ms = self._driver.now().mono_ms
        self._kept = _ImageAt(self._points.take(batch), image)

    def loaded(self, info: SnapshotInfo) -> None:
        """Go on behind a snapshot that was loaded: an image of before it is not written any more."""
        point = SnapshotPoint(info.id, info.last_contained_timestamp_ms)
        self._points.skip_to(point)
        self._present = _ImageAt(point, self._image())
        if self._kept is not None and self._kept.point.id.offset <= info.id.offset:
            self._kept = None

    def run(self, now: Now) -> None:
        """Begin the write whose turn has come, or encode a slice of the one that has begun."""
        if now.mono_ms < self.wake_at_ms():
            return  # nearly always
        if self._write is None:
            self._begin(now)
        else:
            self._encode_slice(self._write, now)

    def wake_at_ms(self) -> int:
        """When `run` has something to do; NEVER_MS while only the thread has."""
        write, kept = self._write, self._kept
        if write is not None:
            waits = write.is_encoded or write.queued >= _QUEUED_MAX
            return NEVER_MS if waits else self._slice_at_ms
        image_at = kept or self._present
        if image_at is None:
            return NEVER_MS
        # What was lost here was lost here alone: the others write nothing at the same time.
        if self._lacks_one(image_at.point.id.offset):
            return self._retry_at_ms
        if kept is None:
            return NEVER_MS
        delay_ms = write_delay_ms(self._me, self._voter_ids, self._last_write_ms, is_leader=self._is_leader())
        return self._since_ms + delay_ms

    def stop(self) -> None:
        """Give up what is being written. The thread must have ended before."""
        if self._write is not None:
            self._write.writer.drop()

    def _begin(self, now: Now) -> None:
        """Begin to write at the point that waits. Without one, snapshots are lost, and the end of the last
        batch takes their place: it is no point, and leaves those of the log where all nodes have them.
        """
        chosen, self._kept = self._kept or self._present, None
        if chosen is None:
            raise InvariantError("a snapshot is due, and nothing was applied of which it could be")
        point = chosen.point
        timestamp_ms = point.last_contained_timestamp_ms
        pieces = encode_snapshot(
            to_values(chosen.image),
            point.id.epoch,
            timestamp_ms,
            last_contained_timestamp_ms=timestamp_ms,
        )
        self._write = _Write(point, pieces, self._open_writer(point.id), now.mono_ms)
        self._slice_at_ms = 0
        self._encode_slice(self._write, now)

    def _encode_slice(self, write: _Write, now: Now) -> None:
        """Encode for a moment, and hand on what fills a piece."""
        began_ns = self._clock_ns()
        for _ in range(_STEPS_A_SLICE):
            piece = next(write.pieces, None)
            if piece is None:
                write.is_encoded = True
                break
            write.encoded.append(piece)
            write.encoded_bytes += len(piece)
            if self._clock_ns() - began_ns >= _SLICE_NS:
                break
        if write.encoded_bytes >= PIECE_BYTES or write.is_encoded:
            self._queue(write)
        spent_ns = self._clock_ns() - began_ns
        self._slice_at_ms = now.mono_ms + 1 + spent_ns * _SHARE // 1_000_000

    def _queue(self, write: _Write) -> None:
        """Give what was encoded to the thread; the last piece is followed by the proof."""
        piece, is_last = b"".join(write.encoded), write.is_encoded
        write.encoded, write.encoded_bytes = [], 0
        write.queued += 1
        writer = write.writer
        self._worker.submit(
            lambda: write_piece(writer, piece, is_last=is_last), lambda ended: self._written(write, ended)
        )

    def _written(self, write: _Write, ended: SnapshotInfo | SnapshotError | None) -> None:
        """Note what became of a piece."""
        write.queued -= 1
        self._driver.wake()
        if write is not self._write:
            return  # a piece behind one that failed
        if isinstance(ended, SnapshotError):
            self._failed(write, ended)
        elif ended is not None:
            self._ended(write, ended)

    def _ended(self, write: _Write, info: SnapshotInfo) -> None:
        self._write = None
        self._failure = ""
        self._tell_written(info)
        self._last_write_ms = self._driver.now().mono_ms - write.began_ms
        self._logger.info(
            "snapshot_written",
            offset=info.id.offset,
            epoch=info.id.epoch,
            size_bytes=info.size_bytes,
            took_ms=self._last_write_ms,
        )

    def _failed(self, write: _Write, error: SnapshotError) -> None:
        self._write = None
        self._retry_at_ms = self._driver.now().mono_ms + _RETRY_MS
        self._failure = f"no snapshot was written at offset {write.point.id.offset}: {error}"
        self._logger.error("snapshot_failed", offset=write.point.id.offset, reason=str(error))


def write_piece(
    writer: SnapshotWriter, piece: bytes, *, is_last: bool
) -> SnapshotInfo | SnapshotError | None:
    """Write a piece, in the thread. Returns the snapshot behind its last one, or why there will be none."""
    try:
        writer.append(piece)
        return writer.freeze() if is_last else None
    except SnapshotError as error:
        writer.drop()
        return error


def _why_impossible(image: MetadataImage) -> str:
    """Why no snapshot can be made of an image; empty if one can."""
    if image.transaction is not None:
        return f"one is due, and a metadata transaction is open since offset {image.transaction.begin_offset}"
    return "" if image.metadata_version else "one is due, and the log does not say which metadata.version"
