"""How far the followers have come, as their fetches tell: for the high watermark, check-quorum and humans.

A fetch position is an acknowledgement: everything before it is durable at the follower (D-02).

Follows: HWM-01 to HWM-05, DQ-04, CQ-02 to CQ-05, D-10, D-11, FREQ-27.
"""

from collections.abc import Collection

from kraftd.types import Now, Offset, ReplicaKey

UNKNOWN: Offset = -1


class Progress:
    """One replica's progress. Mutable; the leadership is its only owner."""

    __slots__ = (
        "_leader_end_seen",
        "caught_up_ms",
        "fetch_at_ms",
        "fetch_offset",
        "is_uncounted",
        "key",
        "last_fetch_ms",
    )

    def __init__(self, key: ReplicaKey) -> None:
        self.key = key
        self.fetch_offset: Offset = UNKNOWN
        self.is_uncounted = False
        """Whether it last fetched without its id, because it knows that it is not whole (D-06)."""
        self.last_fetch_ms = -1
        """Wall clock of the last fetch, for `DescribeQuorum`."""
        self.fetch_at_ms = -1
        """Monotonic moment of the last fetch."""
        self.caught_up_ms = -1
        """Wall clock when it last held all that the leader had."""
        self._leader_end_seen: Offset = UNKNOWN

    def on_fetch(self, offset: Offset, leader_end_offset: Offset, now: Now) -> bool:
        """Take in a valid fetch; returns whether it shows that the replica is alive and getting on (D-11).

        A replica that only asks again for what it was given before is not: it cannot commit anything
        (KAFKA-15911). After a regression the comparison starts anew from the lower offset.
        """
        reached = self._leader_end_seen != UNKNOWN and offset >= self._leader_end_seen
        progressed = offset > self.fetch_offset or reached
        if offset >= leader_end_offset:
            self.caught_up_ms = max(self.caught_up_ms, now.wall_ms)
        elif reached:
            self.caught_up_ms = max(self.caught_up_ms, self.last_fetch_ms)
        self.fetch_offset = offset
        self.is_uncounted = False
        self.last_fetch_ms = now.wall_ms
        self.fetch_at_ms = now.mono_ms
        self._leader_end_seen = leader_end_offset
        return progressed


class CheckQuorum:
    """Whether a majority still follows; if not, the leader must stop leading. Mutable, owned by it."""

    __slots__ = ("_heard", "_needed", "_span_ms", "deadline_ms")

    def __init__(self, *, needed: int, span_ms: int, now_ms: int) -> None:
        self._needed = needed
        self._span_ms = span_ms
        self._heard: set[int] = set()
        self.deadline_ms = now_ms + span_ms

    def hear(self, voter: int, now_ms: int) -> None:
        """A voter got on. Once enough others have, the time starts again for all of them (CQ-02).

        After a stall, what waited meanwhile is heard before the time is looked at: it comes too late (D-01).
        """
        if now_ms >= self.deadline_ms:
            return
        self._heard.add(voter)
        if len(self._heard) >= self._needed:
            self._heard.clear()
            self.deadline_ms = now_ms + self._span_ms

    def is_over(self, now_ms: int) -> bool:
        """Whether too few others were heard in time; never with nobody else to hear (CQ-05)."""
        return self._needed > 0 and now_ms >= self.deadline_ms

    @property
    def heard(self) -> Collection[int]:
        """Who was heard since the time last started."""
        return self._heard
