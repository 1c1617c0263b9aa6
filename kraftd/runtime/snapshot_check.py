"""Proves, behind a start, the snapshots whose header alone it read: all but the newest.

Entered once, when the newest is restored. They are read one after the other, in the reader thread and a piece
at a time, so that others who want that thread wait for a piece at most. One that is damaged is told with file
and byte and counts no more: the log is not to be cut at it, and it goes with the log before it.

Not here: the newest, which a start proves and the loader reads again (`snapshot_loader`).
Differs: Kafka finds out when it loads one.
"""

from collections import deque

import msgspec

from kraftd.errors import MalformedError, StorageError
from kraftd.records.snapshot import SnapshotDecoder
from kraftd.runtime.observability import Logger
from kraftd.runtime.worker import Worker
from kraftd.storage import StorageFailure
from kraftd.storage.snapshot_files import SnapshotFiles, SnapshotReader, instead_text
from kraftd.storage.snapshots import PIECE_BYTES
from kraftd.types import OffsetAndEpoch


class _Proof(msgspec.Struct):
    """A snapshot that is being proved."""

    reader: SnapshotReader
    decoder: SnapshotDecoder
    position: int = 0
    """Up to where it was read."""


class SnapshotCheck:
    """One check of one node's snapshots."""

    def __init__(self, snapshots: SnapshotFiles, worker: Worker, logger: Logger) -> None:
        self._snapshots = snapshots
        self._worker = worker
        self._logger = logger
        self._left: deque[OffsetAndEpoch] = deque()
        self._has_begun = False

    def begin(self) -> None:
        """Begin with the oldest; nothing the second time."""
        if self._has_begun:
            return
        self._has_begun = True
        self._left += (info.id for info in self._snapshots.infos[:-1])
        self._next()

    def _next(self) -> None:
        """Go on with the next snapshot that is still there."""
        while self._left:
            snapshot_id = self._left.popleft()
            reader = self._snapshots.open_reader(snapshot_id)
            if reader is not None:
                path = str(self._snapshots.path_of(snapshot_id))
                self._read(_Proof(reader, SnapshotDecoder(path, snapshot_id.epoch)))
                return

    def _read(self, proof: _Proof) -> None:
        self._worker.submit(lambda: _prove_piece(proof), lambda problem: self._on_read(proof, problem))

    def _on_read(self, proof: _Proof, problem: str | None) -> None:
        if problem is None:
            self._read(proof)
            return
        proof.reader.release()
        snapshot_id = proof.reader.id
        if problem and self._snapshots.get(snapshot_id) is not None:
            self._snapshots.mark_damaged(snapshot_id)
            self._logger.warning(
                "snapshot_damaged",
                offset=snapshot_id.offset,
                epoch=snapshot_id.epoch,
                reason=problem,
                instead=instead_text([info.id for info in self._snapshots.infos]),
            )
        self._next()


def _prove_piece(proof: _Proof) -> str | None:
    """Prove the next piece, in the thread. Returns what is wrong, empty behind the end of a whole one, None
    if there is more.
    """
    try:
        piece = proof.reader.read(proof.position, PIECE_BYTES)
        proof.position += len(piece)
        deque(proof.decoder.feed(piece), maxlen=0)
        if piece:
            return None
        proof.decoder.finish()
    except StorageFailure:
        raise
    except (StorageError, MalformedError) as error:
        return str(error)
    return ""
