"""Where fetches wait at the leader: for records, for a high watermark, or for the end of their wait.

Entered by `Replication`, through `LeaderState.purgatory`. Observers wait apart from the followers, and are
answered as a group: a hundred brokers that each took a response for each commit would cost the leader more
than the commits (D-24). Not here: which fetch may wait, and what it is answered (`replication`).

Follows: FREQ-07, D-10, D-24; Kafka's fetch purgatory.
"""

from collections import deque
from itertools import chain

import msgspec

from kraftd.raft.events import Handle
from kraftd.types import NEVER_MS, NO_NODE, NodeId, Offset, OffsetAndEpoch

PARKED_ANONYMOUS_MAX = 256
"""Above so many parked fetches of observers, those without a replica id are answered at once."""

PARKED_OBSERVERS_MAX = 1_000
"""Above so many, fetches of observers are answered at once, too: a commit answers every parked one."""


BEATS_TOGETHER_MS = 20
"""How much sooner than its wait ends a follower's fetch is answered along with another one's."""

OBSERVER_RESPONSES_PER_S = 2_500
"""What all observers together are given, unless they lag: a tenth of a core, whatever their number."""


class PendingFetch(msgspec.Struct, frozen=True, gc=False):
    """A fetch with a valid position that waits for records or for the disk."""

    handle: Handle
    replica_id: NodeId
    offset: Offset
    high_watermark: Offset
    """The high watermark that the replica knows; huge if it never wants to be told one."""
    max_bytes: int
    version: int
    deadline_ms: int
    is_follower: bool
    """Whether it is another voter's, under its id; all others are observers here."""

    @property
    def key(self) -> tuple[NodeId, Handle]:
        """What it waits under: one for each replica, or for each request without a replica id."""
        return (self.replica_id, 0 if self.replica_id >= 0 else self.handle)

    def wants_high_watermark(self, high_watermark: Offset) -> bool:
        """Whether the replica should be told of this high watermark now (D-10).

        An observer is given committed records only, so for it new ones are a new high watermark.
        """
        if not self.is_follower and self.offset < high_watermark:
            return True
        return self.high_watermark < min(high_watermark, self.offset)


class PendingSnapshotFetch(msgspec.Struct, frozen=True):
    """A request for a piece of a snapshot that waits for a slot or for the disk."""

    handle: Handle
    version: int
    replica_id: NodeId
    snapshot_id: OffsetAndEpoch
    position: int
    max_bytes: int
    prefix_checksum: int
    """CRC-32C of what is before the position, if that came from another node; -1 if not."""
    voter_id: NodeId
    """The voter that downloads, one that is not counted, too; NO_NODE if it is an observer."""
    connection: int
    deadline_ms: int
    """Until when it waits for a slot."""

    @property
    def is_observers(self) -> bool:
        """Whether no voter asks."""
        return self.voter_id == NO_NODE


class FetchPurgatory:
    """The fetches held back. Mutable; the `LeaderState` is its only owner."""

    __slots__ = (
        "_followers",
        "_group_not_before_ms",
        "_group_offset",
        "_linger_ms",
        "_observers",
        "_unread",
        "next_deadline_ms",
        "observers_at_ms",
    )

    def __init__(self, linger_ms: int = 0) -> None:
        """Begin empty; between two groups of observers lie at least `linger_ms`, more if they are many."""
        self._followers: dict[tuple[NodeId, Handle], PendingFetch] = {}
        self._observers: dict[tuple[NodeId, Handle], PendingFetch] = {}
        self._unread: deque[PendingFetch] = deque()
        """Fetches of observers that wait until the disk was read for another."""
        self._linger_ms = linger_ms
        self._group_offset: Offset = 0
        """Up to here the last group was given records."""
        self._group_not_before_ms = 0
        self.next_deadline_ms = NEVER_MS
        self.observers_at_ms = NEVER_MS
        """When the next group of observers is answered; NEVER_MS while nothing is new to them."""

    def is_full_for(self, replica_id: NodeId) -> bool:
        """Whether a fetch of a replica that is no follower must be answered at once."""
        return len(self._observers) >= (PARKED_ANONYMOUS_MAX if replica_id < 0 else PARKED_OBSERVERS_MAX)

    def park(self, fetch: PendingFetch) -> None:
        """Hold a fetch back; a former one of the replica has been removed."""
        self._of(fetch)[fetch.key] = fetch
        self.next_deadline_ms = min(self.next_deadline_ms, fetch.deadline_ms)

    def take_replaced(self, fetch: PendingFetch) -> PendingFetch | None:
        """Remove and return the parked fetch of the same replica; None if there is none."""
        return self._of(fetch).pop(fetch.key, None)

    def take_all(self) -> list[PendingFetch]:
        """Remove and return every fetch, those that wait for the disk too."""
        taken = [*self._followers.values(), *self._observers.values(), *self._unread]
        for waiting in (self._followers, self._observers, self._unread):
            waiting.clear()
        self.next_deadline_ms = self.observers_at_ms = NEVER_MS
        return taken

    def take_followers(self) -> list[PendingFetch]:
        """Remove and return the fetches of followers."""
        taken = list(self._followers.values())
        self._followers.clear()
        if not self._observers:
            self.next_deadline_ms = NEVER_MS
        return taken

    def take_below_high_watermark(self, high_watermark: Offset) -> list[PendingFetch]:
        """Remove and return the fetches of followers that do not know this high watermark."""
        return _take_uninformed(self._followers, high_watermark)

    def take_expired(self, now_ms: int) -> list[PendingFetch]:
        """Remove and return the fetches whose wait is over (FREQ-07); with a follower's, those of the others
        that have waited almost as long, so that one turn does for all.
        """
        if now_ms < self.next_deadline_ms:
            return []
        late = []
        for waiting in (self._followers, self._observers):
            ended = [fetch for fetch in waiting.values() if fetch.deadline_ms <= now_ms]
            if ended and waiting is self._followers:
                ended = [f for f in waiting.values() if f.deadline_ms <= now_ms + BEATS_TOGETHER_MS]
            for fetch in ended:
                del waiting[fetch.key]
            late += ended
        # Of both: follower 3 waits until 180 and an observer until 500. If its wait came after that of the
        # observer, follower 3 would hear nothing of its leader for long enough to suspect it (D-40).
        left = chain(self._followers.values(), self._observers.values())
        self.next_deadline_ms = min((fetch.deadline_ms for fetch in left), default=NEVER_MS)
        return late

    def _of(self, fetch: PendingFetch) -> dict[tuple[NodeId, Handle], PendingFetch]:
        return self._followers if fetch.is_follower else self._observers

    # --- observers --------------------------------------------------------------------------------------

    def joins_group(self, fetch: PendingFetch, now_ms: int) -> bool:
        """Whether an observer that is no further behind than the last group waits for the next one."""
        return fetch.offset >= self._group_offset and now_ms < self._group_not_before_ms

    def plan_group(self, now_ms: int) -> None:
        """Answer the observers that are parked: now, or once the time after the last group is over."""
        if self._observers:
            self.observers_at_ms = min(self.observers_at_ms, max(now_ms, self._group_not_before_ms))

    def take_group(self, high_watermark: Offset, now_ms: int) -> list[PendingFetch]:
        """Remove and return the fetches of observers that do not know this high watermark."""
        self.observers_at_ms = NEVER_MS
        group = _take_uninformed(self._observers, high_watermark)
        if group:
            self._group_offset = high_watermark
            pause_ms = max(self._linger_ms, len(group) * 1_000 // OBSERVER_RESPONSES_PER_S)
            self._group_not_before_ms = now_ms + pause_ms
        return group

    def queue_for_disk(self, fetch: PendingFetch) -> None:
        """Let an observer wait until the disk was read for another one."""
        self._unread.append(fetch)

    def take_next_for_disk(self) -> PendingFetch | None:
        """Remove and return the observer for which the disk is read next; None if none waits."""
        return self._unread.popleft() if self._unread else None


def _take_uninformed(
    waiting: dict[tuple[NodeId, Handle], PendingFetch], high_watermark: Offset
) -> list[PendingFetch]:
    uninformed = [fetch for fetch in waiting.values() if fetch.wants_high_watermark(high_watermark)]
    for fetch in uninformed:
        del waiting[fetch.key]
    return uninformed
