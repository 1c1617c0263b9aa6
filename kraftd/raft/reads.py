"""Linearizable reads: the leader proves that it still led after a read arrived, then answers (D-12).

The proof is a round of BeginQuorumEpoch, sent after the read arrived and acknowledged in the same epoch by a
majority. Reads share a round that is not sent yet; a round has a number of its own, so that a late response
to an older round proves nothing (etcd 20418). Fetches that arrive prove nothing either: they may have been on
their way for long.

A round that no majority has acknowledged in time is sent again, to those to whom it is not on its way, under
its number: whatever is sent for it is sent after its reads arrived. With a new number each time, a response
that takes longer than that time would never count, and no read be answered.

A read is answered once the proof is there and the state machine has applied the high watermark that held when
the read arrived; before a record of the leader's own epoch is committed there is none yet (etcd 7331).
"""

from collections.abc import Iterable

from kraftd.raft.events import Token
from kraftd.raft.voters import Quorum
from kraftd.types import NEVER_MS, NodeId, Offset


class _Read:
    __slots__ = ("confirmed", "deadline_ms", "required_offset", "token")

    def __init__(self, token: Token, deadline_ms: int, required_offset: Offset | None) -> None:
        self.token = token
        self.deadline_ms = deadline_ms
        self.required_offset = required_offset
        self.confirmed = False


class Reads:
    """The reads that wait on one leadership. Mutable, owned by its `LeaderState`."""

    __slots__ = (
        "_acknowledged",
        "_on_round",
        "_quorum",
        "_reads",
        "_retry_ms",
        "retry_at_ms",
        "round",
    )

    def __init__(self, quorum: Quorum, *, retry_ms: int) -> None:
        self._quorum = quorum
        self._retry_ms = max(1, retry_ms)
        self._reads: list[_Read] = []
        self._on_round: list[_Read] = []
        self._acknowledged: set[NodeId] = set()
        self.round = 0
        """Number of the newest round; responses to others prove nothing."""
        self.retry_at_ms = NEVER_MS
        """When a round without a majority is sent again."""

    @property
    def next_deadline_ms(self) -> int:
        """The earliest deadline of a read."""
        return min([read.deadline_ms for read in self._reads]) if self._reads else NEVER_MS

    def add(self, token: Token, deadline_ms: int, high_watermark: Offset | None) -> bool:
        """Queue a read; `high_watermark` is None until a record of this epoch is committed.

        Returns whether it is confirmed already: a single voter needs no round.
        """
        read = _Read(token, deadline_ms, high_watermark)
        read.confirmed = self._quorum.followers_needed == 0
        self._reads.append(read)
        return read.confirmed

    @property
    def wants_round(self) -> bool:
        """Whether a round should begin: none is under way, and there are reads for it."""
        return not self._on_round and any(not read.confirmed for read in self._reads)

    def begin_round(self, now_ms: int) -> int:
        """Put every unconfirmed read on a new round, and return its number."""
        self.round += 1
        self._on_round = [read for read in self._reads if not read.confirmed]
        self._acknowledged.clear()
        return self.repeat_round(now_ms)

    def repeat_round(self, now_ms: int) -> int:
        """Return the number of the round that is sent now, for the first time or again."""
        self.retry_at_ms = now_ms + self._retry_ms
        return self.round

    def acknowledge(self, voter: NodeId, round_: int) -> None:
        """Count a voter's acknowledgement of a round.

        Node 1 sent round 4, and node 2's response is late. Node 3 wins the next epoch and commits a write. A
        client then reads from node 1, which sends round 5: the late response to round 4 was given before the
        write, and must not confirm the read.
        """
        if round_ != self.round or not self._on_round:
            return
        self._acknowledged.add(voter)
        if len(self._acknowledged) >= self._quorum.followers_needed:
            for read in self._on_round:
                read.confirmed = True
            self._on_round = []
            self.retry_at_ms = NEVER_MS

    def set_required_offset(self, high_watermark: Offset) -> None:
        """Set what the reads wait for that came before the first record of this epoch was committed."""
        for read in self._reads:
            if read.required_offset is None:
                read.required_offset = high_watermark

    def take_ready(self, applied_offset: Offset) -> list[Token]:
        """Remove and return the reads that are confirmed and whose state is applied."""
        if not self._reads:
            return []
        return self._take(
            read
            for read in self._reads
            if read.confirmed and read.required_offset is not None and read.required_offset <= applied_offset
        )

    def take_expired(self, now_ms: int) -> list[Token]:
        """Remove and return the reads past their deadline."""
        return self._take(read for read in self._reads if read.deadline_ms <= now_ms)

    def take_all(self) -> list[Token]:
        """Remove and return every read, because the leadership has ended."""
        return self._take(iter(self._reads))

    def _take(self, reads: Iterable[_Read]) -> list[Token]:
        taken = list(reads)
        if not taken:
            return []
        gone = set(map(id, taken))
        self._reads = [read for read in self._reads if id(read) not in gone]
        self._on_round = [read for read in self._on_round if id(read) not in gone]
        if not self._on_round:
            self.retry_at_ms = NEVER_MS
        return [read.token for read in taken]
