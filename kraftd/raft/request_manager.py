"""Which requests are on their way, and when a peer may be asked again.

At most one request a peer and kind is on its way; a response is taken only for the correlation id it was
asked under, once, so that late and repeated responses change nothing (REQ-02, D-12). Heartbeats, votes,
fetches and reads do not wait for each other: a fetch may be parked at the leader for long.

Follows: REQ-01 to REQ-06 and VOTE-31; a peer that failed is asked again after the retry backoff, one that did
not answer in time at once.
"""

from collections.abc import Iterable
from enum import StrEnum
from itertools import count

import msgspec

from kraftd.types import NEVER_MS, Epoch, NodeId


class RequestKind(StrEnum):
    """The purpose of a request."""

    FETCH = "fetch"
    FETCH_SNAPSHOT = "fetch-snapshot"
    PROBE = "probe"
    """A fetch that only asks for the receiver's epoch, and whether it accepts us (D-06)."""
    INTRODUCTION = "introduction"
    """A fetch without id of a node that is whole again: it says that this start knew of its loss (D-06)."""
    PRE_VOTE = "pre-vote"
    VOTE = "vote"
    BEGIN = "begin"
    """BeginQuorumEpoch: announcement and heartbeat."""
    CONFIRM = "confirm"
    """BeginQuorumEpoch in a round of linearizable reads: its response confirms the leader (D-12)."""
    END = "end"
    """EndQuorumEpoch."""


_VOTES = frozenset({RequestKind.PRE_VOTE, RequestKind.VOTE, RequestKind.CONFIRM})
"""What nobody may answer who has forgotten what it promised."""

TELL_WHO_WE_ARE = frozenset({RequestKind.FETCH, RequestKind.PROBE, RequestKind.PRE_VOTE, RequestKind.VOTE})
"""What a voter does not take from another directory than the one remembered, so that its response says for
whom it takes us. Announcements it takes from whoever leads.
"""


class Sent(msgspec.Struct, frozen=True):
    """A request on its way."""

    correlation_id: int
    to: NodeId
    kind: RequestKind
    epoch: Epoch
    round: int
    """Of pre-votes or of linearizable reads; 0 for other kinds."""
    deadline_ms: int


class RequestManager:
    """The requests on their way, and when to ask again. Mutable; the `RaftState` is its only owner."""

    __slots__ = ("_backoff_ms", "_ids", "_in_flight", "_ready_at_ms", "_timeout_ms", "_waiting")

    def __init__(self, *, timeout_ms: int, backoff_ms: int) -> None:
        self._timeout_ms = max(1, timeout_ms)
        self._backoff_ms = max(1, backoff_ms)
        self._ids = count(1)
        self._in_flight: dict[int, Sent] = {}
        """By correlation id; oldest first, so that the first is also the first to time out."""
        self._waiting: dict[RequestKind, dict[NodeId, int]] = {kind: {} for kind in RequestKind}
        """By kind, and peer: the correlation id of the newest request under way."""
        self._ready_at_ms: dict[tuple[NodeId, RequestKind], int] = {}

    def is_ready(self, peer: NodeId, kind: RequestKind, now_ms: int) -> bool:
        """Whether the peer may be asked now."""
        return peer not in self._waiting[kind] and self._ready_at_ms.get((peer, kind), 0) <= now_ms

    def any_waiting(self, kind: RequestKind) -> bool:
        """Whether a response of this kind is expected from any peer."""
        return bool(self._waiting[kind])

    def send(self, peer: NodeId, kind: RequestKind, epoch: Epoch, now_ms: int, *, round_: int = 0) -> int:
        """Record a request. Returns its correlation id, which was never used before."""
        correlation_id = next(self._ids)
        sent = Sent(correlation_id, peer, kind, epoch, round_, now_ms + self._timeout_ms)
        self._in_flight[correlation_id] = sent
        self._waiting[kind][peer] = correlation_id
        return correlation_id

    def take(self, peer: NodeId, correlation_id: int) -> Sent | None:
        """Remove and return the request that this response belongs to; None if none is expected."""
        sent = self._in_flight.get(correlation_id)
        if sent is None or sent.to != peer:
            return None
        self._drop(sent)
        return sent

    def back_off(self, peer: NodeId, kind: RequestKind, now_ms: int, span_ms: int = 0) -> None:
        """Do not ask the peer for the retry backoff, or for `span_ms` if that is longer."""
        self._ready_at_ms[peer, kind] = now_ms + max(self._backoff_ms, span_ms)

    def expire(self, now_ms: int) -> list[Sent]:
        """Remove and return the requests that were not answered in time."""
        if self.next_timeout_ms() > now_ms:
            return []
        late = [sent for sent in self._in_flight.values() if sent.deadline_ms <= now_ms]
        for sent in late:
            self._drop(sent)
        return late

    def forget(self, kind: RequestKind) -> None:
        """Ignore responses of this kind that are under way, and allow new requests at once."""
        for sent in [sent for sent in self._in_flight.values() if sent.kind is kind]:
            self._drop(sent)
        for slot in [slot for slot in self._ready_at_ms if slot[1] is kind]:
            del self._ready_at_ms[slot]

    def forget_who_we_are(self) -> None:
        """Ignore the responses under way that say for whom a voter takes us, and in which epoch it was."""
        for kind in TELL_WHO_WE_ARE:
            self.forget(kind)

    def forget_votes_of(self, peer: NodeId) -> None:
        """Ignore what a peer granted or confirmed in responses that are under way."""
        for sent in [sent for sent in self._in_flight.values() if sent.to == peer and sent.kind in _VOTES]:
            self._drop(sent)

    def reset(self) -> None:
        """Ignore all responses that are under way: their state has ended (VOTE-31)."""
        self._in_flight.clear()
        for waiting in self._waiting.values():
            waiting.clear()
        self._ready_at_ms.clear()

    def next_timeout_ms(self) -> int:
        """Return when the first request under way times out."""
        for oldest in self._in_flight.values():
            return oldest.deadline_ms
        return NEVER_MS

    def next_ready_ms(self, peers: Iterable[NodeId], kind: RequestKind) -> int:
        """Return when one of these peers may be asked next; peers with a request under way do not count."""
        waiting = self._waiting[kind]
        idle = (self._ready_at_ms.get((peer, kind), 0) for peer in peers if peer not in waiting)
        return min(idle, default=NEVER_MS)

    def _drop(self, sent: Sent) -> None:
        del self._in_flight[sent.correlation_id]
        waiting = self._waiting[sent.kind]
        if waiting.get(sent.to) == sent.correlation_id:
            del waiting[sent.to]
