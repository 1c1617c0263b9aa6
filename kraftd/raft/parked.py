"""Fetches that the leader holds back until there is something to tell.

One parked fetch a replica: a new one answers the old, and only followers always find room. Each is answered
by the first of: records to send, a high watermark that the follower does not know (D-10), the end of its
wait, the end of the leadership.

Follows: FREQ-06 to FREQ-10, KIP-1166.
"""

from collections.abc import Iterator

import msgspec

from kraftd.raft.events import Handle
from kraftd.raft.timing import NEVER_MS
from kraftd.types import NodeId, Offset

ANONYMOUS_MAX = 256
"""Above so many parked fetches those without replica id are answered at once."""

OTHERS_MAX = 1_000
"""Above so many everybody is who is no follower, whatever their ids: each record appended answers all."""


class Fetch(msgspec.Struct, frozen=True, gc=False):
    """A fetch whose position was found valid."""

    handle: Handle
    replica_id: NodeId
    offset: Offset
    high_watermark: Offset
    """What the follower knows; huge if it never wants to be told."""
    max_bytes: int
    version: int
    deadline_ms: int

    @property
    def key(self) -> tuple[NodeId, Handle]:
        """One slot a replica; those without id have one a request."""
        return (self.replica_id, 0 if self.replica_id >= 0 else self.handle)

    def wants_high_watermark(self, high_watermark: Offset) -> bool:
        """Whether the replica should be told of this high watermark now (D-10).

        One without id is given committed records only, so for it that is the same as new records.
        """
        if self.replica_id < 0:
            return self.offset < high_watermark
        return self.high_watermark < min(high_watermark, self.offset)


class ParkedFetches:
    """The fetches held back. Mutable; the leadership is its only owner."""

    __slots__ = ("_fetches", "next_deadline_ms")

    def __init__(self) -> None:
        self._fetches: dict[tuple[NodeId, Handle], Fetch] = {}
        self.next_deadline_ms = NEVER_MS

    def __len__(self) -> int:
        return len(self._fetches)

    def __iter__(self) -> Iterator[Fetch]:
        return iter(self._fetches.values())

    def is_full_for(self, replica_id: NodeId) -> bool:
        """Whether a fetch of one who is no follower must be answered at once."""
        return len(self._fetches) >= (ANONYMOUS_MAX if replica_id < 0 else OTHERS_MAX)

    def park(self, fetch: Fetch) -> None:
        """Hold a fetch back; the replica has no other one here."""
        self._fetches[fetch.key] = fetch
        self.next_deadline_ms = min(self.next_deadline_ms, fetch.deadline_ms)

    def replaced_by(self, fetch: Fetch) -> Fetch | None:
        """Take out the fetch that this one of the same replica makes void."""
        return self._fetches.pop(fetch.key, None)

    def take_all(self) -> list[Fetch]:
        """Take out every fetch."""
        taken = list(self._fetches.values())
        self._fetches.clear()
        self.next_deadline_ms = NEVER_MS
        return taken

    def take_uninformed(self, high_watermark: Offset) -> list[Fetch]:
        """Take out the fetches whose replicas should hear of this high watermark."""
        uninformed = [f for f in self._fetches.values() if f.wants_high_watermark(high_watermark)]
        for fetch in uninformed:
            del self._fetches[fetch.key]
        return uninformed

    def take_expired(self, now_ms: int) -> list[Fetch]:
        """Take out the fetches that have waited long enough (FREQ-07)."""
        if now_ms < self.next_deadline_ms:
            return []
        late = [fetch for fetch in self._fetches.values() if fetch.deadline_ms <= now_ms]
        for fetch in late:
            del self._fetches[fetch.key]
        self.next_deadline_ms = min((f.deadline_ms for f in self._fetches.values()), default=NEVER_MS)
        return late
