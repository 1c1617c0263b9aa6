"""`kraftd.state`: what must survive a crash and has no place in Kafka's files (D-05, D-06).

The file is two slots of 4 KiB. Each holds a whole state with a sequence number and a checksum; the valid
slot with the higher number counts. One slot is always *durable*: it was synced, and is not written again
until the other one has been. So a write that a power cut tears, or that it never lets reach the disk, costs
at most what was noted since the last sync. An election is guarded by `quorum-state` as well; other promises
are made durable in both slots, so that a slot that goes bad later takes none of them.

Half-finished states a crash can leave: no file, if it was being created (it is made whole, then
renamed); one slot torn, if it was being written (the other one holds the durable state); the newest note
missing, if it was not synced (a lower recovery point, which only means that more is read again). Both
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
WHOLE, UNINITIALIZED, AMNESIA = "whole", "blank", "amnesia"
"""What the raft node may say of the health of this state (D-06), as it is in the file."""

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


class LocalState(msgspec.Struct, frozen=True, array_like=True):
    """What a node must not forget, beside Kafka's files; it seldom changes."""

    old_election: int = ABSENT
    """Checksum of the election file before the newest write; either of the two is good."""
    new_election: int = ABSENT
    election_epoch: Epoch = 0
    """The epoch of the newest election written."""
    start_counter: int = 0
    peers: tuple[PeerRecord, ...] = ()
    health: str = WHOLE
    """As the core last said, or as a file without a good slot says."""
    reasons: tuple[str, ...] = ()
    election: Election | None = None
    """The newest election written. None if a version wrote it that noted only the epoch."""


class SidecarState(msgspec.Struct, frozen=True):
    """All that the sidecar holds."""

    recovery_point: OffsetAndEpoch | None = None
    """Everything below was synced once, and the epoch of the record before it; None if nobody knows."""
    local_state: LocalState = LocalState()


def encode_slot(sequence: int, recovery_point: OffsetAndEpoch | None, rest: bytes) -> bytes:
    """One slot without its padding; `rest` are encoded `LocalState`."""
    fixed = (
        _FIXED.pack(sequence, _NO_OFFSET, 0)
        if recovery_point is None
        else _FIXED.pack(sequence, recovery_point.offset, recovery_point.epoch)
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
        local_state = msgspec.msgpack.decode(body[_FIXED.size :], type=LocalState)
    except msgspec.MsgspecError as error:
        raise MalformedError(f"the slot does not hold a state: {error}") from None
    recovery_point = None if offset == _NO_OFFSET else OffsetAndEpoch(offset, epoch)
    return sequence, SidecarState(recovery_point, local_state)


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


def load_durable_sidecar(disk: Disk, path: Path) -> SidecarReading:
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
    """The open file. Keeps the recovery point for the log, and the local state for all others."""

    def __init__(self, disk: Disk, path: Path, reading: SidecarReading) -> None:
        """Take over what `load_durable_sidecar` read; a file without a good slot is made anew, durably.

        That it had none is in the new one from the first: a start that dies now must not hide it.
        """
        self._disk = disk
        self._path = path
        state = reading.state or _made_anew(reading.problem)
        self._recovery_point = state.recovery_point
        self._promises = state.local_state
        self._rest = msgspec.msgpack.encode(state.local_state)
        self._sequence = reading.sequence
        self._durable_slot = reading.slot
        self._unsynced = 0
        if reading.state is None:
            self._sequence = 1
            self._durable_slot = 0
            data = self._encode().ljust(SLOT_BYTES, b"\0")
            disk.replace(path, data.ljust(2 * SLOT_BYTES, b"\0"))
        self._handle = disk.open(path, Access.WRITE)

    # -- the recovery point, for the log -----------------------------------------------------------------

    @property
    def recovery_point(self) -> OffsetAndEpoch | None:
        """Everything below was synced once (see `RecoveryPointStore`)."""
        return self._recovery_point

    @property
    def file(self) -> tuple[int, Path]:
        """What a flush job syncs."""
        return self._handle, self._path

    @property
    def mark(self) -> int:
        """The state that is written but not synced; 0 if none."""
        return self._unsynced

    def raise_recovery_point(self, at: OffsetAndEpoch) -> None:
        """Write a higher recovery point, without a sync."""
        self._recovery_point = at
        self._write()

    def lower_recovery_point(self, at: OffsetAndEpoch | None) -> None:
        """Write a lower recovery point, or that nobody knows; durable on return."""
        self._recovery_point = at
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

    # -- local state ---------------------------------------------------------------------------

    @property
    def local_state(self) -> LocalState:
        """What was saved last, or noted since."""
        return self._promises

    def save(self, local_state: LocalState) -> None:
        """Replace the local state; durable on return."""
        self.write_unsynced(local_state)
        self.sync()

    def save_twice(self, local_state: LocalState) -> None:
        """Replace local state that nothing else would miss; durable in both slots on return.

        A bad sector cannot be told from a torn write, so what was saved last must not be in one slot only.
        """
        if local_state == self._promises and not self._unsynced:
            return
        self.save(local_state)
        self._write()
        self.sync()

    def write_unsynced(self, local_state: LocalState) -> None:
        """Replace the local state without a sync: for what only narrows what is believed."""
        if local_state == self._promises:
            return
        rest = msgspec.msgpack.encode(local_state)
        if _HEAD.size + _FIXED.size + len(rest) > SLOT_BYTES:
            raise StorageError(f"{self._path}: {len(local_state.peers)} peers do not fit into its slots")
        self._promises, self._rest = local_state, rest
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
        return encode_slot(self._sequence, self._recovery_point, self._rest)


def _made_anew(problem: str) -> SidecarState:
    if not problem:
        return SidecarState()
    reason = f"{problem}: promises of this member may be forgotten"[:REASON_CHARACTERS_MAX]
    return SidecarState(local_state=LocalState(health=AMNESIA, reasons=(reason,)))


def remember_peer(local_state: LocalState, peer: PeerRecord) -> LocalState:
    """LocalState with one peer added, or replaced."""
    others = [known for known in local_state.peers if known.node_id != peer.node_id]
    if len(peer.directory_id) != 16 or len(peer.start_id) != 16:
        raise InvariantError(f"node {peer.node_id}: directory and start ids are 16 bytes each")
    peers = tuple(sorted([*others, peer], key=lambda known: known.node_id))
    return msgspec.structs.replace(local_state, peers=peers)
