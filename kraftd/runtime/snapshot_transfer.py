"""Reads pieces of snapshots for replicas that download them, and writes the one that this node downloads.

Entered by the effect executor, as its `SnapshotPort`. Pieces are read in the reader thread, which pins the
file, so that the cleaner may take its name away meanwhile. For observers that is done one step at a time,
however many they are and whatever is to be compared, so that a voter waits for no more (D-24). For each voter
one piece is read: what it asked for before is given up between two steps, else comparisons that take longer
than it waits would become ever more. Pieces are written in the thread that writes this node's own snapshots,
each synced; behind the last one the file is proved and gets its name (D-20). What fails of either costs the
piece or the download, never the process. A piece that goes out was not proved; the file is, beside the
download (`snapshot_check`).

Not here: which piece of which snapshot (`kraftd.raft.snapshot_serving`, `kraftd.raft.snapshot_fetch`), and
what becomes of a whole one (`InstallSnapshot`, carried out by the store).
"""

from collections import deque
from collections.abc import Callable

from crc32c import crc32c

from kraftd.errors import StorageError
from kraftd.raft.effects import DropSnapshot, ReadSnapshot, WriteSnapshot
from kraftd.raft.events import SnapshotDamaged, SnapshotRead, SnapshotReceived
from kraftd.runtime.driver import Driver
from kraftd.runtime.effect_executor import SnapshotPort
from kraftd.runtime.observability import Logger
from kraftd.runtime.snapshotter import write_piece
from kraftd.runtime.worker import Worker
from kraftd.storage import StorageFailure
from kraftd.storage.node_directory import NodeDirectory
from kraftd.storage.snapshot_files import SnapshotReader
from kraftd.storage.snapshots import (
    PIECE_BYTES,
    GivenDamagedError,
    SnapshotError,
    SnapshotInfo,
    SnapshotWriter,
)
from kraftd.types import NodeId, OffsetAndEpoch

_NOT_THERE = (b"", -1)


class SnapshotTransfer(SnapshotPort):
    """The pieces that go out, and the download that comes in, of one node."""

    def __init__(
        self,
        directory: NodeDirectory,
        driver: Driver,
        logger: Logger,
        *,
        read_worker: Worker,
        write_worker: Worker,
        begun: Callable[[OffsetAndEpoch], None] = lambda _: None,
    ) -> None:
        """`begun` is told of each snapshot that somebody begins to download from here, or goes on with."""
        self._directory, self._snapshots = directory, directory.snapshots
        self._driver = driver
        self._logger = logger
        self._read_worker = read_worker
        self._write_worker = write_worker
        self._begun = begun
        self._writer: tuple[OffsetAndEpoch, SnapshotWriter] | None = None
        self._for_observers: deque[_PieceRead] = deque()
        """What is to be read for observers, each in its turn."""
        self._is_reading_for_observer = False
        self._for_voters: dict[NodeId, _PieceRead] = {}
        """What is being read for voters."""

    def start_read(self, read: ReadSnapshot) -> None:
        """Begin to read a piece, in the reader thread; for observers one after the other. It takes the place
        of what is read for the same voter.
        """
        self._for_voters.pop(read.voter_id, None)
        info = self._snapshots.get(read.id)
        is_for_size = not read.max_bytes and read.prefix_checksum < 0
        if info is not None and (is_for_size or read.position >= info.size_bytes):
            self._driver.deliver(SnapshotRead(read.token, b"", info.size_bytes))
            return
        reader = self._snapshots.open_reader(read.id)
        if reader is None:
            self._tell(read, _NOT_THERE, info)
            return
        piece = _PieceRead(reader, read)
        if read.for_observer:
            self._for_observers.append(piece)
            self._read_for_observers()
        else:
            self._for_voters[read.voter_id] = piece
            self._step(piece)
        if read.max_bytes and (read.position == 0 or read.prefix_checksum >= 0):
            self._begun(read.id)

    def _read_for_observers(self) -> None:
        """Do the next step for the observer whose turn it is, unless one is under way: a read for a voter,
        which may come at any time, waits for that one alone (D-24).
        """
        if self._for_observers and not self._is_reading_for_observer:
            self._is_reading_for_observer = True
            self._step(self._for_observers.popleft())

    def _step(self, piece: "_PieceRead") -> None:
        self._read_worker.submit(piece.step, lambda found: self._stepped(piece, found))

    def _stepped(self, piece: "_PieceRead", found: tuple[bytes, int] | None) -> None:
        is_given_up = not piece.read.for_observer and self._for_voters.get(piece.read.voter_id) is not piece
        if found is None and is_given_up:
            found = b"", piece.reader.size_bytes
        if found is not None:
            if not is_given_up:
                self._for_voters.pop(piece.read.voter_id, None)
            piece.reader.release()
            self._tell(piece.read, found, piece.reader.info)
        if piece.read.for_observer:
            self._is_reading_for_observer = False
            if found is None:
                self._for_observers.append(piece)
            self._read_for_observers()
        elif found is None:
            self._step(piece)

    def _tell(self, read: ReadSnapshot, found: tuple[bytes, int], info: SnapshotInfo | None) -> None:
        """Tell the raft node what was read. A snapshot that cannot be read counts no more (SNAP-20), for it
        and here: else the cleaner asks to begin the log at it, is refused each time, and nothing goes.
        """
        self._driver.deliver(SnapshotRead(read.token, *found))
        if found != _NOT_THERE or read.prefix_checksum >= 0 or info is None:
            return
        if self._snapshots.still_counts(info):
            self._logger.warning(
                "snapshot_gone",
                offset=read.id.offset,
                epoch=read.id.epoch,
                text="cannot be read any more, and is not offered",
            )
            self._snapshots.mark_damaged(read.id)
            # By itself, since node 1, which led as it began to read, may follow now, where `SnapshotRead`
            # answers nobody. If it counted the snapshot still, its last one, no other would be made.
            self._driver.deliver(SnapshotDamaged(read.id))

    def start_write(self, write: WriteSnapshot) -> None:
        """Begin to write a piece; the first one begins a file anew."""
        if write.position == 0:
            self._drop()
            self._writer = write.id, self._snapshots.writer(write.id)
        if self._writer is None:
            return
        writer = self._writer[1]
        end = write.position + len(write.data)
        is_last = end == write.size_bytes

        def ended(outcome: SnapshotInfo | SnapshotError | None) -> None:
            self._written(write, writer, outcome)

        self._write_worker.submit(lambda: write_piece(writer, write.data, is_last=is_last), ended)

    def drop(self, drop: DropSnapshot) -> None:
        """Give up what is being written, behind the piece that is on its way to the disk."""
        if self._writer is not None and self._writer[0] == drop.id:
            self._drop()

    def stop(self) -> None:
        """Give up the download. The thread must have ended before."""
        if self._writer is not None:
            self._writer[1].drop()

    def _drop(self) -> None:
        if self._writer is not None:
            self._write_worker.submit(self._writer[1].drop, lambda _: None)
            self._writer = None

    def _written(
        self, write: WriteSnapshot, writer: SnapshotWriter, outcome: SnapshotInfo | SnapshotError | None
    ) -> None:
        end = write.position + len(write.data)
        if outcome is not None and self._writer is not None and self._writer[1] is writer:
            self._writer = None
        if isinstance(outcome, SnapshotInfo):
            self._directory.add_snapshot(outcome)
            self._logger.info("snapshot_received", offset=write.id.offset, epoch=write.id.epoch, bytes=end)
            self._driver.deliver(SnapshotReceived(write.id, end, is_whole=True))
        else:
            problem = "" if outcome is None else str(outcome)
            if isinstance(outcome, GivenDamagedError):
                problem += "; the leader that sent it has it damaged"
            self._driver.deliver(SnapshotReceived(write.id, end, problem=problem))


class _PieceRead:
    """A piece that is read, after what is before it was compared, in steps of a mebibyte at most: whoever
    reads next does not wait for the comparison of a whole file.
    """

    __slots__ = ("_checksum", "_compared_bytes", "read", "reader")

    def __init__(self, reader: SnapshotReader, read: ReadSnapshot) -> None:
        self.reader = reader
        self.read = read
        self._compared_bytes = self._checksum = 0

    def step(self) -> tuple[bytes, int] | None:
        """Do the next step, in a thread.

        Returns:
            The piece, and the size of all; None if there is more to do. What cannot be read is not there.
        """
        reader, read = self.reader, self.read
        try:
            if read.prefix_checksum >= 0 and self._compared_bytes < read.position:
                return None if self._compare() else _NOT_THERE
            if read.prefix_checksum >= 0 and read.prefix_checksum != self._checksum:
                return _NOT_THERE
            data = reader.read(read.position, read.max_bytes) if read.max_bytes else b""
        except StorageFailure:
            raise  # an earlier failure of the disk, which ends the process
        except StorageError:
            return _NOT_THERE
        # A file that was cut short meanwhile cannot be read, either. A piece without bytes keeps a voter
        # waiting, and what it waits for is never cut: for ever, both of them.
        return (data, reader.size_bytes) if data or not read.max_bytes else _NOT_THERE

    def _compare(self) -> bool:
        position = self._compared_bytes
        data = self.reader.read(position, min(PIECE_BYTES, self.read.position - position))
        self._checksum = crc32c(data, self._checksum)
        self._compared_bytes += len(data)
        return bool(data)
