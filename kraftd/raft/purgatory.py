"""Where fetches wait at the leader: for records, for a high watermark, or for the end of their wait.

Entered by `Replication`, through `LeaderState.purgatory`. Not here: which fetch may wait, and what it is
answered (`replication`).

Follows: FREQ-07, D-10; Kafka's fetch purgatory.
"""

import msgspec

from kraftd.raft.events import Handle
from kraftd.types import NEVER_MS, NodeId, Offset

PARKED_ANONYMOUS_MAX = 256
"""Above so many parked fetches, those without a replica id are answered at once."""

PARKED_OBSERVERS_MAX = 1_000
"""Above so many, fetches of observers are answered at once, too: an append answers every parked one."""


class PendingFetch(msgspec.Struct, frozen=True, gc=False):
    """A fetch with a valid position that waits for records or for the disk."""

    handle: Handle
    replica_id: NodeId
    offset: Offset
    high_watermark: Offset
    """The high watermark that the follower knows; huge if it never wants to be told one."""
    max_bytes: int
    version: int
    deadline_ms: int

    @property
    def key(self) -> tuple[NodeId, Handle]:
        """What it waits under: one for each replica, or for each request without a replica id."""
        return (self.replica_id, 0 if self.replica_id >= 0 else self.handle)

    def wants_high_watermark(self, high_watermark: Offset) -> bool:
        """Whether the replica should be told of this high watermark now (D-10).

        One without id is given committed records only, so for it that is the same as new records.
        """
        if self.replica_id < 0:
            return self.offset < high_watermark
        return self.high_watermark < min(high_watermark, self.offset)


class FetchPurgatory:
    """The fetches held back. Mutable; the `LeaderState` is its only owner."""

    __slots__ = ("_fetches", "next_deadline_ms")

    def __init__(self) -> None:
        self._fetches: dict[tuple[NodeId, Handle], PendingFetch] = {}
        self.next_deadline_ms = NEVER_MS

    def is_full_for(self, replica_id: NodeId) -> bool:
        """Whether a fetch of a replica that is no follower must be answered at once."""
        return len(self._fetches) >= (PARKED_ANONYMOUS_MAX if replica_id < 0 else PARKED_OBSERVERS_MAX)

    def park(self, fetch: PendingFetch) -> None:
        """Hold a fetch back; a former one of the replica has been removed."""
        self._fetches[fetch.key] = fetch
        self.next_deadline_ms = min(self.next_deadline_ms, fetch.deadline_ms)

    def take_replaced(self, fetch: PendingFetch) -> PendingFetch | None:
        """Remove and return the parked fetch of the same replica; None if there is none."""
        return self._fetches.pop(fetch.key, None)

    def take_all(self) -> list[PendingFetch]:
        """Remove and return every fetch."""
        taken = list(self._fetches.values())
        self._fetches.clear()
        self.next_deadline_ms = NEVER_MS
        return taken

    def take_below_high_watermark(self, high_watermark: Offset) -> list[PendingFetch]:
        """Remove and return the fetches of replicas that do not know this high watermark."""
        uninformed = [f for f in self._fetches.values() if f.wants_high_watermark(high_watermark)]
        for fetch in uninformed:
            del self._fetches[fetch.key]
        return uninformed

    def take_expired(self, now_ms: int) -> list[PendingFetch]:
        """Remove and return the fetches whose wait is over (FREQ-07)."""
        if now_ms < self.next_deadline_ms:
            return []
        late = [fetch for fetch in self._fetches.values() if fetch.deadline_ms <= now_ms]
        for fetch in late:
            del self._fetches[fetch.key]
        self.next_deadline_ms = min((f.deadline_ms for f in self._fetches.values()), default=NEVER_MS)
        return late
