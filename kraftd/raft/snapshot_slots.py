"""Which observers download a snapshot now, and which wait.

Four observers download at a time, and voters whenever they want: a hundred brokers that start together would
have the disk read for all of them at once. The others wait with their request, first come, first served.

A slot belongs to a connection, since nobody proves an observer's id. Who comes over a new one gains nothing:
it waits behind the others. (Leases are not by connection: there a new one would keep files for longer, see
`snapshot_leases`.) For each connection the disk is read for one piece at a time. A slot is given back with
the last piece or an error, and given on if somebody waits and its owner has taken nothing for five seconds,
or has had it for longer than the lease of its snapshot may last. Bytes that it took before count for nothing:
it would take one byte again and again.

Whether an observer's bytes from another node begin our file is looked up on the disk from the first byte on,
and costs as much as the whole download: that is done for the owner of a slot, and once in five seconds.

Entered by `SnapshotServing`. Not here: the leases (`snapshot_leases`), and how reads for observers give way
to those for voters (`kraftd.runtime.snapshot_transfer`). D-24.
"""

import msgspec

from kraftd.raft.purgatory import PendingSnapshotFetch
from kraftd.types import NEVER_MS, OffsetAndEpoch

SLOTS = 4
"""How many observers download at once."""

IDLE_MS = 5_000
"""A slot whose owner has taken nothing for so long is given on; and a connection's next comparison waits."""


class _Download(msgspec.Struct):
    """What the owner of a slot has taken."""

    id: OffsetAndEpoch
    began_ms: int
    longest_ms: int
    taken_at_ms: int
    end_position: int = 0
    is_reading: bool = True

    def is_over(self, now_ms: int) -> bool:
        """Whether its slot goes to whoever waits. A disk that is slow is not its owner's fault."""
        is_idle = now_ms - self.taken_at_ms >= IDLE_MS
        return not self.is_reading and (is_idle or now_ms - self.began_ms >= self.longest_ms)


class SnapshotSlots:
    """The downloads of observers from one leader. Mutable; the `LeaderState` is its only owner."""

    __slots__ = ("_compared_at_ms", "_downloads", "_waiting")

    def __init__(self) -> None:
        self._downloads: dict[int, _Download] = {}
        """By connection."""
        self._waiting: dict[int, PendingSnapshotFetch] = {}
        """By handle, the oldest first."""
        self._compared_at_ms: dict[int, int] = {}
        """When a comparison began, by connection; those of the last five seconds."""

    def begin_read(self, pending: PendingSnapshotFetch, now_ms: int, longest_ms: int) -> bool:
        """Give an observer a slot, or let it go on in its own, for `longest_ms` while others wait. Returns
        False if it must wait: no slot is free, or the disk is being read for it.
        """
        downloads = self._downloads
        download = downloads.get(pending.connection)
        if download is not None:
            if download.is_reading or download.id != pending.snapshot_id:
                return False
            download.is_reading, download.longest_ms = True, longest_ms
            return True
        if len(downloads) >= SLOTS:
            for connection in [other for other, each in downloads.items() if each.is_over(now_ms)]:
                del downloads[connection]
        if len(downloads) >= SLOTS:
            return False
        downloads[pending.connection] = _Download(pending.snapshot_id, now_ms, longest_ms, now_ms)
        return True

    def end_read(self, pending: PendingSnapshotFetch, now_ms: int, end_position: int) -> None:
        """Note that an observer was sent what is before a position."""
        download = self._downloads.get(pending.connection)
        if download is None:
            return
        download.is_reading = False
        if end_position > download.end_position:
            download.end_position, download.taken_at_ms = end_position, now_ms

    def release(self, connection: int) -> None:
        """Take the slot back of an observer that has all of its snapshot, or got an error."""
        self._downloads.pop(connection, None)

    def wait(self, pending: PendingSnapshotFetch) -> None:
        """Keep a request until a slot is free, or its wait is over."""
        download = self._downloads.get(pending.connection)
        # Observer 4 has a slot for one snapshot and asks for another one: it begins anew, behind those who
        # wait already. Else it could keep the slot by asking for two of them in turn.
        if download is not None and download.id != pending.snapshot_id and not download.is_reading:
            self.release(pending.connection)
        self._waiting[pending.handle] = pending

    def take_waiting(self) -> list[PendingSnapshotFetch]:
        """Remove and return all requests that wait, the oldest first."""
        waiting = list(self._waiting.values())
        self._waiting.clear()
        return waiting

    @property
    def is_waiting(self) -> bool:
        """Whether a request waits."""
        return bool(self._waiting)

    @property
    def next_deadline_ms(self) -> int:
        """When the first wait is over; NEVER_MS if nobody waits."""
        return min((pending.deadline_ms for pending in self._waiting.values()), default=NEVER_MS)

    def has_compared(self, connection: int, now_ms: int) -> bool:
        """Whether bytes of this connection were compared with ours in the last five seconds."""
        return now_ms - self._compared_at_ms.get(connection, -IDLE_MS) < IDLE_MS

    def record_comparison(self, connection: int, now_ms: int) -> None:
        """Note that bytes of this connection are compared with ours."""
        recent = {other: at_ms for other, at_ms in self._compared_at_ms.items() if now_ms - at_ms < IDLE_MS}
        self._compared_at_ms = recent | {connection: now_ms}
