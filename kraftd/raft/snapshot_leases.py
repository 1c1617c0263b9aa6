"""Which snapshots the leader must keep, because replicas download them, and how many do so at once.

A snapshot is leased from the moment that a replica is told its id, and for a fetch timeout after each piece
that it asks for. Neither it nor the log behind it is cleaned meanwhile: else a replica that needs longer than
the cleaner leaves it would begin anew for ever.

A voter's lease lasts as long as it goes on. That of an observer ends after ten times the time that the file
needs at 1 MiB a second, but not before a minute is over, after which the cleaner comes again: nobody holds it
up for longer by asking for a byte now and then.

Four observers download at a time, and voters whenever they want: a hundred brokers that start together would
have the disk read for all of them at once. The others wait with their request. A slot is given on when the
last piece was sent, or when its owner has asked for none for five seconds.

Entered by `SnapshotServing` and, through `RaftNode.leased_snapshots`, by the cleaner. D-22, D-24.
"""

import msgspec

from kraftd.raft.purgatory import PendingSnapshotFetch
from kraftd.types import NEVER_MS, OffsetAndEpoch, ReplicaKey

SLOTS = 4
"""How many observers download at once."""

_SLOT_IDLE_MS = 5_000
"""A slot whose owner has taken nothing for so long is given on."""

_OBSERVERS_BYTES_A_MS = 105
"""A tenth of 1 MiB a second."""

_OBSERVERS_LEASE_MS = 60_000
"""The least for an observer. 17 KB take ten seconds in small pieces over a slow link: with a lease as short
as the file, and a new snapshot every few seconds, it would begin anew for ever.
"""

LEASES_MAX = 1_000
"""The most that are kept; the oldest goes for a new one. A replica has one."""


class _Lease(msgspec.Struct):
    id: OffsetAndEpoch
    began_ms: int
    renewed_ms: int
    size_bytes: int = 0


class SnapshotLeases:
    """The leases of one leader. Mutable; the `LeaderState` is its only owner."""

    __slots__ = ("_leases", "_span_ms")

    def __init__(self, *, span_ms: int) -> None:
        self._span_ms = span_ms
        self._leases: dict[ReplicaKey, _Lease] = {}

    def renew(self, replica: ReplicaKey, snapshot_id: OffsetAndEpoch, now_ms: int) -> None:
        """Record that a replica was told of a snapshot, or asked for a piece of it."""
        lease = self._leases.get(replica)
        if lease is not None and lease.id == snapshot_id:
            lease.renewed_ms = now_ms
            return
        if lease is None and len(self._leases) >= LEASES_MAX:
            del self._leases[next(iter(self._leases))]
        self._leases[replica] = _Lease(snapshot_id, now_ms, now_ms)

    def record_size(self, replica: ReplicaKey, snapshot_id: OffsetAndEpoch, size_bytes: int) -> None:
        """Record how long the snapshot is that a replica downloads."""
        lease = self._leases.get(replica)
        if lease is not None and lease.id == snapshot_id:
            lease.size_bytes = size_bytes

    def leased(self, voters: frozenset[int], now_ms: int) -> frozenset[OffsetAndEpoch]:
        """Return the snapshots that are leased; those leases that are over are forgotten."""
        for replica, lease in list(self._leases.items()):
            if now_ms - lease.renewed_ms > self._span_ms:
                del self._leases[replica]
        return frozenset(
            lease.id
            for replica, lease in self._leases.items()
            if replica.id in voters or now_ms - lease.began_ms <= self._longest_ms(lease)
        )

    def _longest_ms(self, lease: _Lease) -> int:
        return max(_OBSERVERS_LEASE_MS, self._span_ms + lease.size_bytes // _OBSERVERS_BYTES_A_MS)


class SnapshotSlots:
    """Which observers download now, and which wait. Mutable; the `LeaderState` is its only owner."""

    __slots__ = ("_taken_at_ms", "_waiting")

    def __init__(self) -> None:
        self._taken_at_ms: dict[ReplicaKey, int] = {}
        """When each that has a slot took its last piece."""
        self._waiting: dict[int, PendingSnapshotFetch] = {}
        """By handle, the oldest first."""

    def take(self, replica: ReplicaKey, now_ms: int) -> bool:
        """Give a slot to a replica, or note that it goes on in its own. Returns False if none is free."""
        taken = self._taken_at_ms
        if replica not in taken and len(taken) >= SLOTS:
            for other, at_ms in list(taken.items()):
                if now_ms - at_ms >= _SLOT_IDLE_MS:
                    del taken[other]
        if replica not in taken and len(taken) >= SLOTS:
            return False
        taken[replica] = now_ms
        return True

    def release(self, replica: ReplicaKey) -> None:
        """Take the slot back of a replica that has all of its snapshot."""
        self._taken_at_ms.pop(replica, None)

    def wait(self, pending: PendingSnapshotFetch) -> None:
        """Keep a request until a slot is free, or its wait is over."""
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
