"""Proves the snapshots of a node while it runs: those that its start did not, and those that others download.

`begin` is called once, when the newest is restored: of all others the start read the header alone. `check` is
called when somebody begins to download one. A file may rot while its node runs, and whoever got it would find
out behind the last byte and be offered it again; so it is proved beside the download, but for one that was
lately: nobody is to make the disk be read for asking. The time counts from the end of a proof, however long
that took.

They are read one after the other, in the reader thread and a piece at a time, so that others who want that
thread, a voter's download above all, wait for a piece at most. One that is damaged is told with file and byte
and counts no more: it is not there for who asks for its next piece, and so is not offered any more; the log
is not to be cut at it, and it goes with the log before it. The raft node is told, too; where it was the last
one, another one is made (`snapshotter`).

Not here: the newest at a start, which that proves and the loader reads again (`snapshot_loader`).
Differs: Kafka finds out when it loads one.
"""

from collections import deque
from typing import Final

import msgspec

from kraftd.errors import MalformedError, StorageError
from kraftd.raft.events import SnapshotDamaged
from kraftd.records.snapshot import SnapshotDecoder
from kraftd.runtime.driver import Driver
from kraftd.runtime.observability import Logger
from kraftd.runtime.worker import Worker
from kraftd.storage import StorageFailure
from kraftd.storage.snapshot_files import SnapshotFiles, SnapshotReader, instead_text
from kraftd.storage.snapshots import PIECE_BYTES
from kraftd.types import OffsetAndEpoch

CHECK_INTERVAL_MS: Final = 10_000
"""How long a snapshot is not proved again that was, for whoever downloads it next."""


class _Proof(msgspec.Struct):
    """A snapshot that is being proved."""

    reader: SnapshotReader
    decoder: SnapshotDecoder
    position: int = 0
    """Up to where it was read."""


class SnapshotCheck:
    """The checks of one node's snapshots."""

    def __init__(self, snapshots: SnapshotFiles, worker: Worker, logger: Logger, driver: Driver) -> None:
        self._snapshots = snapshots
        self._worker = worker
        self._logger = logger
        self._driver = driver
        self._left: deque[OffsetAndEpoch] = deque()
        self._reading: OffsetAndEpoch | None = None
        self._proved_at_ms: dict[OffsetAndEpoch, int] = {}
        """When a snapshot was last found whole, if that is not long ago."""
        self._has_begun = False

    def begin(self) -> None:
        """Check all but the newest, the oldest first; nothing the second time."""
        if self._has_begun:
            return
        self._has_begun = True
        self._left += (info.id for info in self._snapshots.infos[:-1])
        self._next()

    def check(self, snapshot_id: OffsetAndEpoch) -> None:
        """Check a snapshot that somebody begins to download, before others, unless it was lately."""
        if snapshot_id in self._lately_proved() or snapshot_id == self._reading:
            return
        if snapshot_id in self._left:
            self._left.remove(snapshot_id)
        self._left.appendleft(snapshot_id)
        self._next()

    def _lately_proved(self) -> dict[OffsetAndEpoch, int]:
        now_ms = self._driver.now().mono_ms
        return {each: at for each, at in self._proved_at_ms.items() if now_ms - at < CHECK_INTERVAL_MS}

    def _next(self) -> None:
        """Go on with the next snapshot that is still there, if none is being read."""
        while self._left and self._reading is None:
            snapshot_id = self._left.popleft()
            reader = self._snapshots.open_reader(snapshot_id)
            if reader is not None:
                path = str(self._snapshots.path_of(snapshot_id))
                self._reading = snapshot_id
                self._read(_Proof(reader, SnapshotDecoder(path, snapshot_id.epoch)))

    def _read(self, proof: _Proof) -> None:
        self._worker.submit(lambda: _prove_piece(proof), lambda problem: self._on_read(proof, problem))

    def _on_read(self, proof: _Proof, problem: str | None) -> None:
        if problem is None:
            self._read(proof)
            return
        proof.reader.release()
        self._reading, snapshot_id = None, proof.reader.id
        if not problem:
            self._proved_at_ms = self._lately_proved() | {snapshot_id: self._driver.now().mono_ms}
        elif self._snapshots.still_counts(proof.reader.info):
            self._snapshots.mark_damaged(snapshot_id)
            self._logger.warning(
                "snapshot_damaged",
                offset=snapshot_id.offset,
                epoch=snapshot_id.epoch,
                reason=problem,
                instead=self._instead(),
            )
            self._driver.deliver(SnapshotDamaged(snapshot_id))
        self._next()

    def _instead(self) -> str:
        others = [info.id for info in self._snapshots.infos]
        return instead_text(others) if others else "no other one is here: the next one takes its place"


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
