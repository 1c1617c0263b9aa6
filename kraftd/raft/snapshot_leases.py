"""Which snapshots the leader must keep, because replicas download them.

A snapshot is leased from the moment that a replica is told its id, and for a fetch timeout after each piece
that it asks for. Neither it nor the log behind it is cleaned meanwhile: else a replica that needs longer than
the cleaner leaves it would begin anew for ever.

A voter's lease lasts as long as it goes on, and for an election timeout more: voter 2 notices after a fetch
timeout that its piece is lost, and asks the others for pre-votes before it fetches again. The answer names a
newer snapshot, maybe; the older one stays until voter 2 asks for a piece of the one or of the other. It may
ask for nothing while it proves what it has, for longer than the fetch timeout, again and again. If its disk
hangs it never asks; so what it was told of then is leased instead after as long as observers may take.

Observers that download one snapshot have one lease of it together: nobody proves their ids, and a lease by
connection would begin anew with each new connection. The common one begins anew with each of them for as long
as the snapshot is the newest, which is the only one that is offered, and which stays anyway. From then on it
lasts ten times as long as the file needs at 1 MiB a second and a fetch timeout, but not before a minute is
over. So nobody keeps a snapshot for longer than that behind the next one: not by asking for a byte now and
then, nor under ever new ids, nor with two of them in turn. How much all leases of observers may hold is for
`retention` to say.

Entered by `Replication` and `SnapshotServing`, and by the cleaner through `RaftNode.leased_snapshots`.
Not here: how many observers download at once (`snapshot_slots`). D-22, D-24.
"""

import msgspec

from kraftd.raft.retention import LeasedSnapshots
from kraftd.types import NodeId, Offset, OffsetAndEpoch

_SLOWEST_BYTES_A_MS = 105
"""A tenth of 1 MiB a second."""

_LONGEST_AT_LEAST_MS = 60_000
"""The least for an observer, and for a proof. 17 KB take ten seconds in small pieces over a slow link: with a
lease as short as the file, and a new snapshot every few seconds, it would begin anew for ever.
"""


class _VotersLease(msgspec.Struct):
    id: OffsetAndEpoch
    began_ms: int
    """When its voter last asked for a piece, or was first told of it."""
    renewed_ms: int
    size_bytes: int = 0


class _ObserversLease(msgspec.Struct):
    began_ms: int = 0
    renewed_ms: int = 0
    size_bytes: int = 0


class SnapshotLeases:
    """The leases of one leader. Mutable; the `LeaderState` is its only owner."""

    __slots__ = ("_observers", "_span_ms", "_voters", "_voters_span_ms")

    def __init__(self, *, span_ms: int, voters_span_ms: int) -> None:
        self._span_ms = span_ms
        self._voters_span_ms = voters_span_ms
        self._voters: dict[NodeId, _VotersLease] = {}
        self._observers: dict[OffsetAndEpoch, _ObserversLease] = {}

    def offer_to_voter(self, voter: NodeId, snapshot_id: OffsetAndEpoch, now_ms: int) -> None:
        """Record that a voter was told of a snapshot. What it was downloading before stays, too."""
        held = self._voters.get(voter)
        if held is None or (
            now_ms - held.renewed_ms > self._voters_span_ms
            or now_ms - held.began_ms > self._longest_ms(held.size_bytes)
        ):
            self._voters[voter] = _VotersLease(snapshot_id, now_ms, now_ms)
        else:
            # Everything behind an older one stays as well, so this lease holds both.
            held.id = min(held.id, snapshot_id, key=lambda one: one.offset)
            held.renewed_ms = now_ms

    def renew_for_voter(self, voter: NodeId, snapshot_id: OffsetAndEpoch, now_ms: int) -> None:
        """Record that a voter asked for a piece of a snapshot."""
        self._voters[voter] = _VotersLease(snapshot_id, now_ms, now_ms)

    def renew_for_observers(self, snapshot_id: OffsetAndEpoch, now_ms: int, *, is_newest: bool) -> None:
        """Record that an observer was told of a snapshot, or asked for a piece of it."""
        lease = self._observers.get(snapshot_id)
        if lease is None and is_newest:
            lease = self._observers[snapshot_id] = _ObserversLease()
        if lease is None:
            return
        lease.renewed_ms = now_ms
        if is_newest:
            lease.began_ms = now_ms

    def record_size(self, snapshot_id: OffsetAndEpoch, size_bytes: int) -> None:
        """Record how long a snapshot is that replicas download."""
        for held in self._voters.values():
            if held.id == snapshot_id:
                held.size_bytes = size_bytes
        if (lease := self._observers.get(snapshot_id)) is not None:
            lease.size_bytes = size_bytes

    def forget_before(self, offset: Offset) -> None:
        """End the leases of snapshots that were cut away."""
        for snapshot_id in [one for one in self._observers if one.offset < offset]:
            del self._observers[snapshot_id]

    def leased(self, now_ms: int) -> LeasedSnapshots:
        """Return the snapshots that are leased; leases that have ended are forgotten."""
        for voter, held in list(self._voters.items()):
            if now_ms - held.renewed_ms > self._voters_span_ms:
                del self._voters[voter]
        # A lease that was not renewed is kept: the snapshot of an observer that was silent for longer than a
        # fetch timeout is leased again when it goes on, and ends when it would have ended.
        for snapshot_id, lease in list(self._observers.items()):
            if now_ms - lease.began_ms > self.longest_ms(snapshot_id):
                del self._observers[snapshot_id]
        return LeasedSnapshots(
            frozenset(held.id for held in self._voters.values()),
            frozenset(
                snapshot_id
                for snapshot_id, lease in self._observers.items()
                if now_ms - lease.renewed_ms <= self._span_ms
            ),
        )

    def longest_ms(self, snapshot_id: OffsetAndEpoch) -> int:
        """Return how long observers may take for this snapshot: ten times as long as it needs at 1 MiB a
        second, and a fetch timeout on top, but at least a minute; the least while the size is unknown.

        A lease counts it from when an observer last asked while the snapshot was the newest; a slot, from
        when it was given.
        """
        lease = self._observers.get(snapshot_id)
        return self._longest_ms(0 if lease is None else lease.size_bytes)

    def _longest_ms(self, size_bytes: int) -> int:
        return max(_LONGEST_AT_LEAST_MS, self._span_ms + size_bytes // _SLOWEST_BYTES_A_MS)
