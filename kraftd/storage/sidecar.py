"""The sidecar file, `kraftd.state`: what must survive a crash and has no place in Kafka's files (D-05, D-06).

The file is two slots of 4 KiB, a page each. Each holds a whole state with a sequence number and a checksum;
the valid slot with the higher number counts. One slot is always *durable*: it was synced, and is not written
again until the other one has been. So a write that a power failure tears or loses costs at most what was
written since the last sync. Peers, starts, health, and a recovery point that is lowered are made durable in
both slots, so that nothing of them is lost with one slot that goes bad later, be it altered or not to be
read. The rest is made durable in one: where a raised recovery point is lost, more is read again, where a high
watermark is, less is applied at once, and an election is in `quorum-state` as well.

States that a crash can leave: no file, if it was being created (it is written, then renamed); one slot torn,
if it was being written (the other one holds the durable state); the newest write missing, if it was not
synced (a lower recovery point, which only means that more is read again). If both slots are bad, the disk has
lost data: promises may be forgotten, and the node must not be counted.

Format of a slot: magic, version, length and CRC-32C of the body; the body is a fixed part that changes
with each flush, and a msgpack array that seldom does. Version 2 added the high watermark to the fixed part;
version 1 is read, and never written.

Differs: Kafka has nothing like it, and ignores the file.
"""

import struct
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from crc32c import crc32c

from kraftd.errors import InvariantError, MalformedError, StorageError
from kraftd.storage.disk import Disk
from kraftd.storage.filesystem import Access
from kraftd.types import Election, Epoch, HealthKind, Offset, OffsetAndEpoch, PeerIdentity

SLOT_BYTES = 4_096
ABSENT = -1
"""In the place of a checksum: there is no election file."""
REASON_CHARACTERS_MAX = 1_000
REASON_SEPARATOR = "; "
"""Between reasons that are kept as one text. It is in sidecars, and `forgetting` looks for it: it stays."""

_MAGIC = b"kraftdst"
_VERSION = 2
_HEAD = struct.Struct(">8sHHI")
_FIXED = struct.Struct(">qqiq")
_FIXED_BEFORE = {1: struct.Struct(">qqi")}
"""The fixed parts of older versions, which are still read: version 1 had no high watermark."""
_NO_OFFSET = -1


class LocalState(msgspec.Struct, frozen=True, array_like=True):
    """What a node must not forget, beside Kafka's files; it seldom changes."""

    old_election: int = ABSENT
    """Checksum of the election file before the newest write; either of the two is good."""
    new_election: int = ABSENT
    election_epoch: Epoch = 0
    """The epoch of the newest election written."""
    start_counter: int = 0
    peers: tuple[PeerIdentity, ...] = ()
    """The identity behind each voter id, with the newest start of it that was seen."""
    health: str = HealthKind.WHOLE
    """A `HealthKind`, as an opening, the raft node or `forget_peers` last set it; AMNESIA if the file was
    made anew because no slot was good.
    """
    reasons: tuple[str, ...] = ()
    election: Election | None = None
    """The newest election written. None if it was written by a version that kept only its epoch."""


class SidecarState(msgspec.Struct, frozen=True):
    """The content of the sidecar."""

    recovery_point: OffsetAndEpoch | None = None
    """The offset below which everything was synced once, and the epoch of the record before it; None if
    unknown.
    """
    local_state: LocalState = LocalState()
    high_watermark: Offset = 0
    """The newest that was known when the slot was written; 0 if none was."""


def encode_slot(
    sequence: int, recovery_point: OffsetAndEpoch | None, high_watermark: Offset, local_state: bytes
) -> bytes:
    """Return one slot without its padding; `local_state` is an encoded `LocalState`."""
    offset, epoch = (
        (_NO_OFFSET, 0) if recovery_point is None else (recovery_point.offset, recovery_point.epoch)
    )
    body = _FIXED.pack(sequence, offset, epoch, high_watermark) + local_state
    return _HEAD.pack(_MAGIC, _VERSION, len(body), crc32c(body)) + body


def decode_slot(data: bytes) -> tuple[int, SidecarState]:
    """Return the sequence number and the state in a slot.

    Raises:
        MalformedError: No state was ever completely written here.
    """
    if len(data) < _HEAD.size + _FIXED.size:
        raise MalformedError("the slot is cut short")
    magic, version, length, checksum = _HEAD.unpack_from(data)
    body = data[_HEAD.size : _HEAD.size + length]
    fixed = _FIXED if version == _VERSION else _FIXED_BEFORE.get(version)
    if magic != _MAGIC or fixed is None or len(body) != length or crc32c(body) != checksum:
        raise MalformedError("the slot has no good checksum")
    sequence, offset, epoch, *high_watermark = fixed.unpack_from(body)
    try:
        local_state = msgspec.msgpack.decode(body[fixed.size :], type=LocalState)
    except msgspec.MsgspecError as error:
        raise MalformedError(f"the slot does not hold a state: {error}") from None
    recovery_point = None if offset == _NO_OFFSET else OffsetAndEpoch(offset, epoch)
    return sequence, SidecarState(recovery_point, local_state, *high_watermark)


class SidecarReading(msgspec.Struct, frozen=True):
    """The content of the file: a state, or a problem; neither if there is no file."""

    state: SidecarState | None = None
    sequence: int = 0
    slot: int = 0
    is_alone: bool = False
    """Whether the other slot is bad: torn, or on a sector that the disk cannot read."""
    problem: str = ""


def read_sidecar(disk: Disk, path: Path) -> SidecarReading:
    """Read the file without changing it. A slot on a bad sector is a bad slot, and the other one counts."""
    try:
        data = disk.read_file(path, around=True)
    except StorageError as error:
        return SidecarReading(problem=str(error))
    if data is None:
        return SidecarReading()
    found = {}
    for slot in (0, 1):
        with suppress(MalformedError):
            found[slot] = decode_slot(data[slot * SLOT_BYTES : (slot + 1) * SLOT_BYTES])
    if not found:
        return SidecarReading(problem=f"{path}: neither of its two slots can be read")
    slot = max(found, key=lambda slot: found[slot][0])
    sequence, state = found[slot]
    return SidecarReading(state, sequence, slot, is_alone=len(found) == 1)


def load_durable_sidecar(disk: Disk, path: Path) -> SidecarReading:
    """Read what is on the disk itself: what a failed sync left in the page cache does not count (D-04)."""
    if disk.fs.exists(path):
        disk.drop_cached(path)
    return read_sidecar(disk, path)


class Sidecar:
    """The open file. Keeps recovery point and high watermark of the log, and the local state of the node."""

    def __init__(self, disk: Disk, path: Path, reading: SidecarReading) -> None:
        """Continue with what `load_durable_sidecar` read; a file without a good slot is made anew, durably.

        The new file says from the first that no slot was good: a crash of this start must not hide it.
        """
        self._disk = disk
        self._path = path
        state = reading.state or _made_anew(reading.problem)
        self._recovery_point = state.recovery_point
        self._high_watermark = self._written_high_watermark = state.high_watermark
        self._local_state = state.local_state
        self._encoded_local_state = msgspec.msgpack.encode(state.local_state)
        self._sequence = reading.sequence
        self._durable_slot = reading.slot
        self._overwrites_bad = reading.is_alone
        """Whether the next write goes over a slot that could not be read."""
        self._unsynced_sequence = 0
        if reading.state is None:
            self._sequence = 1
            self._durable_slot = 0
            disk.replace(path, self._encode().ljust(2 * SLOT_BYTES, b"\0"))
        self._handle = disk.open(path, Access.WRITE)

    # -- the recovery point, for the log -----------------------------------------------------------------

    @property
    def recovery_point(self) -> OffsetAndEpoch | None:
        """The offset below which everything was synced once (see `RecoveryPointStore`)."""
        return self._recovery_point

    @property
    def high_watermark(self) -> Offset:
        """What a start may take for committed: of what was flushed, and of nothing if that is unknown (D-23).

        Node 2 has heard that offset 20 is committed, has flushed up to 18, and loses its power: it may be
        left with 18, and what comes next in its log may be another record 18.
        """
        return min(self._high_watermark, self._recovery_point.offset) if self._recovery_point else 0

    @property
    def file(self) -> tuple[int, Path]:
        """The file that a flush job syncs."""
        return self._handle, self._path

    @property
    def unsynced_sequence(self) -> int:
        """The number of the state that is written but not synced; 0 if none."""
        return self._unsynced_sequence

    def raise_recovery_point(self, at: OffsetAndEpoch) -> None:
        """Write a higher recovery point, without a sync."""
        self._recovery_point = at
        self._write()

    def move_recovery_point(self, at: OffsetAndEpoch | None) -> None:
        """Write another recovery point, or None for unknown; durable on return, in both slots. What was known
        to be committed is forgotten with None, and as far as it lies above.

        Node 2 truncates from 20 to 12, and the slot that says 12 goes bad. If the other one still said 20,
        the next start would take 12 to 20 for lost, and node 2 would not count any more. Or it installs a
        snapshot at 40, when half of its 30 records are gone, its power fails, and the slot that says 40 goes
        bad. If the other one still said 12, the next start would take the 15 that are left for all that node
        2 has acknowledged.
        """
        self._recovery_point = at
        self._high_watermark = min(self._high_watermark, at.offset) if at is not None else 0
        for _slot in range(2):
            self._write()
            self.sync()

    def raise_high_watermark(self, offset: Offset) -> None:
        """Note what is known to be committed; the next write of anything takes it along."""
        if offset > self._high_watermark:
            self._high_watermark = offset

    def write_high_watermark(self) -> None:
        """Write the high watermark if nothing took it along yet, without a sync."""
        if self._high_watermark != self._written_high_watermark:
            self._write()

    def synced(self, sequence: int) -> None:
        """Record that a flush job has made the state with this number durable."""
        if sequence and sequence == self._unsynced_sequence:
            self._durable_slot = 1 - self._durable_slot
            self._unsynced_sequence = 0

    def sync(self) -> None:
        """Make what was written durable."""
        if self._unsynced_sequence:
            self._disk.sync_data(self._handle, self._path)
            self.synced(self._unsynced_sequence)

    # -- local state ---------------------------------------------------------------------------

    @property
    def local_state(self) -> LocalState:
        """The state that was written last."""
        return self._local_state

    def save(self, local_state: LocalState) -> None:
        """Replace the local state; durable on return."""
        self.write_unsynced(local_state)
        self.sync()

    def save_twice(self, local_state: LocalState) -> None:
        """Replace the local state; durable in both slots on return.

        A bad sector cannot be told from a torn write, so a promise must not be in one slot only.
        """
        if local_state == self._local_state and not self._unsynced_sequence:
            return
        self.save(local_state)
        self._write()
        self.sync()

    def write_unsynced(self, local_state: LocalState) -> None:
        """Replace the local state without a sync: for a change that only narrows what is accepted."""
        if local_state == self._local_state:
            return
        encoded = msgspec.msgpack.encode(local_state)
        if _HEAD.size + _FIXED.size + len(encoded) > SLOT_BYTES:
            raise StorageError(f"{self._path}: {len(local_state.peers)} peers do not fit into its slots")
        self._local_state, self._encoded_local_state = local_state, encoded
        self._write()

    def close(self, *, sync: bool = True) -> None:
        """Close, after a last sync unless the disk has failed."""
        if sync:
            self.write_high_watermark()
            self.sync()
        self._disk.close(self._handle)

    def _write(self) -> None:
        """Write the state over the slot that is not durable."""
        self._sequence += 1
        slot = 1 - self._durable_slot
        data = self._encode()
        if self._overwrites_bad:
            # Of a page that is written in part Linux reads the rest before, and that may be a bad sector.
            # Written as a whole, the disk gives another one for it.
            data, self._overwrites_bad = data.ljust(SLOT_BYTES, b"\0"), False
        self._disk.write(self._handle, data, slot * SLOT_BYTES, self._path)
        self._unsynced_sequence = self._sequence
        self._written_high_watermark = self._high_watermark

    def _encode(self) -> bytes:
        return encode_slot(
            self._sequence, self._recovery_point, self._high_watermark, self._encoded_local_state
        )


def _made_anew(problem: str) -> SidecarState:
    if not problem:
        return SidecarState()
    reason = f"{problem}: promises of this node may be forgotten"[:REASON_CHARACTERS_MAX]
    return SidecarState(local_state=LocalState(health=HealthKind.AMNESIA, reasons=(reason,)))


def bounded(reasons: Sequence[str]) -> tuple[str, ...]:
    """Return reasons as one text, short enough for a slot; none if there are none."""
    text = REASON_SEPARATOR.join(reasons)[:REASON_CHARACTERS_MAX]
    return (text,) if text else ()


def remember_peer(local_state: LocalState, peer: PeerIdentity) -> LocalState:
    """Return the state with one peer added or replaced."""
    others = [known for known in local_state.peers if known.node_id != peer.node_id]
    if len(peer.directory_id) != 16 or len(peer.start_id) != 16:
        raise InvariantError(f"node {peer.node_id}: directory and start ids are 16 bytes each")
    peers = tuple(sorted([*others, peer], key=lambda known: known.node_id))
    return msgspec.structs.replace(local_state, peers=peers)
