"""`kraftd.state`: what must survive a crash and has no place in Kafka's files (D-05, D-06).

The file is two slots of 4 KiB. Each holds a whole state with a sequence number and a checksum; the valid
slot with the higher number counts. One slot is always *durable*: it was synced, and is not written again
until the other one has been. So a write that a power cut tears, or that it never lets reach the disk, costs
at most what was noted since the last sync. An election is guarded by `quorum-state` as well; other promises
are made durable in both slots, so that a slot that goes bad later takes none of them.

Half-finished states a crash can leave: no file, if it was being created (it is made whole, then
renamed); one slot torn, if it was being written (the other one holds the durable state); the newest note
missing, if it was not synced (a lower flushed offset, which only means that more is read again). Both
slots bad is no crash but a disk that forgot: the promises are gone, and the member must not be counted.

Format of a slot: magic, version, length and CRC-32C of the body; the body is a fixed part that changes
with each flush, and a msgpack array that seldom does.

Differs: Kafka has nothing like it, and ignores the file.
"""

import struct
from pathlib import Path

import msgspec
from crc32c import crc32c

from kraftd.errors import InvariantError, MalformedError, StorageError
from kraftd.storage.disk import Disk
from kraftd.storage.filesystem import Access
from kraftd.types import Election, Epoch, NodeId, OffsetAndEpoch, Uuid

SLOT_BYTES = 4_096
ABSENT = -1
"""Stands for the checksum of an election file that does not exist."""
REASON_CHARACTERS_MAX = 1_000
WHOLE, BLANK, AMNESIA = "whole", "blank", "amnesia"
"""What the core may say of a member's promises (D-06)."""

_MAGIC = b"kraftdst"
_VERSION = 1
_HEAD = struct.Struct(">8sHHI")
_FIXED = struct.Struct(">qqi")
_NO_OFFSET = -1


class PeerRecord(msgspec.Struct, frozen=True, array_like=True):
    """Who a voter id belongs to, and the newest start of it that was seen."""

    node_id: NodeId
    directory_id: Uuid
    start_counter: int
    start_id: Uuid


class Promises(msgspec.Struct, frozen=True, array_like=True):
    """What seldom changes."""

    old_election: int = ABSENT
    """Checksum of the election file before the newest write; either of the two is good."""
    new_election: int = ABSENT
    election_epoch: Epoch = 0
    """The epoch of the newest election written."""
    start_counter: int = 0
    peers: tuple[PeerRecord, ...] = ()
    wholeness: str = WHOLE
    """As the core last said, or as a file without a good slot says."""
    reasons: tuple[str, ...] = ()
    election: Election | None = None
    """The newest election written. None if a version wrote it that noted only the epoch."""


class SidecarState(msgspec.Struct, frozen=True):
    """All that the sidecar holds."""

    flushed: OffsetAndEpoch | None = None
    """Everything below was synced once, and the epoch of the record before it; None if nobody knows."""
    promises: Promises = Promises()


def encode_slot(sequence: int, flushed: OffsetAndEpoch | None, rest: bytes) -> bytes:
    """One slot without its padding; `rest` are encoded `Promises`."""
    fixed = (
        _FIXED.pack(sequence, _NO_OFFSET, 0)
        if flushed is None
        else _FIXED.pack(sequence, flushed.offset, flushed.epoch)
    )
    body = fixed + rest
    return _HEAD.pack(_MAGIC, _VERSION, len(body), crc32c(body)) + body


def decode_slot(data: bytes) -> tuple[int, SidecarState]:
    """The sequence number and the state in a slot.

    Raises:
        MalformedError: No state was ever completely written here.
    """
    if len(data) < _HEAD.size + _FIXED.size:
        raise MalformedError("the slot is cut short")
    magic, version, length, checksum = _HEAD.unpack_from(data)
    body = data[_HEAD.size : _HEAD.size + length]
    if magic != _MAGIC or version != _VERSION or len(body) != length or crc32c(body) != checksum:
        raise MalformedError("the slot has no good checksum")
    sequence, offset, epoch = _FIXED.unpack_from(body)
    try:
        promises = msgspec.msgpack.decode(body[_FIXED.size :], type=Promises)
    except msgspec.MsgspecError as error:
        raise MalformedError(f"the slot does not hold a state: {error}") from None
    flushed = None if offset == _NO_OFFSET else OffsetAndEpoch(offset, epoch)
    return sequence, SidecarState(flushed, promises)


class SidecarReading(msgspec.Struct, frozen=True):
    """What is in the file: a state; neither state nor problem if there is no file."""

    state: SidecarState | None = None
    sequence: int = 0
    slot: int = 0
    problem: str = ""


def read_sidecar(disk: Disk, path: Path) -> SidecarReading:
    """Read the file without changing it."""
    try:
        data = disk.read_file(path)
    except StorageError as error:
        return SidecarReading(problem=str(error))
    if data is None:
        return SidecarReading()
    best = SidecarReading(problem=f"{path}: neither of its two slots can be read")
    for slot in (0, 1):
        try:
            sequence, state = decode_slot(data[slot * SLOT_BYTES : (slot + 1) * SLOT_BYTES])
        except MalformedError:
            continue
        if sequence > best.sequence:
            best = SidecarReading(state, sequence, slot)
    return best


def settle_sidecar(disk: Disk, path: Path) -> SidecarReading:
    """Read what the disk itself holds: what a failed sync left in the page cache does not count (D-04)."""
    if disk.fs.exists(path):
        handle = disk.open(path, Access.WRITE)
        try:
            disk.sync(handle, path)
            disk.drop_cache(handle, path)
        finally:
            disk.close(handle)
    return read_sidecar(disk, path)


class Sidecar:
    """The open file. Keeps the flushed hint for the log, and the promises for all others."""

    def __init__(self, disk: Disk, path: Path, reading: SidecarReading) -> None:
        """Take over what `settle_sidecar` read; a file without a good slot is made anew, durably.

        That it had none is in the new one from the first: a start that dies now must not hide it.
        """
        self._disk = disk
        self._path = path
        state = reading.state or _made_anew(reading.problem)
        self._flushed = state.flushed
        self._promises = state.promises
        self._rest = msgspec.msgpack.encode(state.promises)
        self._sequence = reading.sequence
        self._durable_slot = reading.slot
        self._unsynced = 0
        if reading.state is None:
            self._sequence = 1
            self._durable_slot = 0
            data = self._encode().ljust(SLOT_BYTES, b"\0")
            disk.replace(path, data.ljust(2 * SLOT_BYTES, b"\0"))
        self._handle = disk.open(path, Access.WRITE)

    # -- the hint, for the log -----------------------------------------------------------------

    @property
    def flushed(self) -> OffsetAndEpoch | None:
        """Everything below was synced once (see `HintKeeper`)."""
        return self._flushed

    @property
    def file(self) -> tuple[int, Path]:
        """What a flush job syncs."""
        return self._handle, self._path

    @property
    def mark(self) -> int:
        """The state that is written but not synced; 0 if none."""
        return self._unsynced

    def note_flushed(self, at: OffsetAndEpoch) -> None:
        """Write a higher hint, without a sync."""
        self._flushed = at
        self._write()

    def lower_flushed(self, at: OffsetAndEpoch | None) -> None:
        """Write a lower hint, or that nobody knows; durable on return."""
        self._flushed = at
        self._write()
        self.sync()

    def synced(self, mark: int) -> None:
        """Hear from a flush job that the state it was captured with is durable now."""
        if mark and mark == self._unsynced:
            self._durable_slot = 1 - self._durable_slot
            self._unsynced = 0

    def sync(self) -> None:
        """Make what was noted durable."""
        if self._unsynced:
            self._disk.sync_data(self._handle, self._path)
            self.synced(self._unsynced)

    # -- promises ------------------------------------------------------------------------------

    @property
    def promises(self) -> Promises:
        """What was promised last."""
        return self._promises

    def promise(self, promises: Promises) -> None:
        """Replace the promises; durable on return."""
        self.note_promises(promises)
        self.sync()

    def promise_twice(self, promises: Promises) -> None:
        """Replace promises that nothing else would miss; durable in both slots on return.

        A bad sector cannot be told from a torn write, so what was promised last must not be in one slot only.
        """
        if promises == self._promises and not self._unsynced:
            return
        self.promise(promises)
        self._write()
        self.sync()

    def note_promises(self, promises: Promises) -> None:
        """Replace the promises without a sync: for what only narrows what is believed."""
        if promises == self._promises:
            return
        rest = msgspec.msgpack.encode(promises)
        if _HEAD.size + _FIXED.size + len(rest) > SLOT_BYTES:
            raise StorageError(f"{self._path}: {len(promises.peers)} peers do not fit into its slots")
        self._promises, self._rest = promises, rest
        self._write()

    def close(self, *, sync: bool = True) -> None:
        """Close, after a last sync if the disk is in order."""
        if sync:
            self.sync()
        self._disk.close(self._handle)

    def _write(self) -> None:
        """Write the state over the slot that is not durable."""
        self._sequence += 1
        slot = 1 - self._durable_slot
        self._disk.write(self._handle, self._encode(), slot * SLOT_BYTES, self._path)
        self._unsynced = self._sequence

    def _encode(self) -> bytes:
        return encode_slot(self._sequence, self._flushed, self._rest)


def _made_anew(problem: str) -> SidecarState:
    if not problem:
        return SidecarState()
    reason = f"{problem}: promises of this member may be forgotten"[:REASON_CHARACTERS_MAX]
    return SidecarState(promises=Promises(wholeness=AMNESIA, reasons=(reason,)))


def remember_peer(promises: Promises, peer: PeerRecord) -> Promises:
    """Promises with one peer added, or replaced."""
    others = [known for known in promises.peers if known.node_id != peer.node_id]
    if len(peer.directory_id) != 16 or len(peer.start_id) != 16:
        raise InvariantError(f"node {peer.node_id}: directory and start ids are 16 bytes each")
    peers = tuple(sorted([*others, peer], key=lambda known: known.node_id))
    return msgspec.structs.replace(promises, peers=peers)
