"""What an invariant is: what it is shown of each node and when, and how it fails.

The harness of the nodes fills a `NodeView` for each of them and shows it to every `Invariant`: before each
effect is carried out, before and after each event, and whenever a state machine has applied more. The
invariants themselves are in `elections`, `state_changes`, `liveness`, `peer_confirmation`, `agreement`,
`snapshots` and `suspicions`; `invariants` holds them all.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from operator import attrgetter
from typing import Any, ClassVar

import msgspec

from kraftd.raft.effects import Effect, Reply, Send
from kraftd.raft.epoch_states import EpochState
from kraftd.raft.events import Event, Handle
from kraftd.types import Election, Epoch, NodeId, Offset

MESSAGE_OF: Mapping[type[Effect], Callable[[Any], object]] = {
    Send: attrgetter("request"),
    Reply: attrgetter("response"),
}
"""The message that an effect carries to another machine."""


class Violation(AssertionError):  # noqa: N818 - the word for it
    """An invariant does not hold; the text says which, and on which node."""


class Mark(msgspec.Struct, frozen=True):
    """The end of a batch in a node's log. `digest` covers everything from offset 0 to there."""

    end_offset: Offset
    epoch: Epoch
    digest: int


class NodeView(msgspec.Struct):
    """A node as its harness sees it: its process, and what of it would survive a power failure."""

    node_id: NodeId
    is_voter: bool
    is_whole: bool
    durable_election: Election
    log: Sequence[Mark]
    """Of one that begins above offset 0, the first mark is its start: the end of a snapshot."""
    durable_end_offset: Offset
    state: EpochState | None = None
    """None while the process is down."""
    high_watermark: Offset = -1
    voters: frozenset[NodeId] = frozenset()
    check_quorum_ms: int = 0
    """How long it may lead without fetch progress of a majority; 0 if unknown."""
    request_timeout_ms: int = 0
    """The configured deadline of a write or a read; 0 if unknown."""
    forgot: bool = False
    """Whether its disk is an old copy or was replaced, and it has not rejoined since."""
    opener_of: Callable[[int], NodeId | None] | None = None
    """Returns the machine that really opened an inbound connection of this node, by its number; None if that
    is unknown or the connection is gone. A harness that cannot know leaves it out.
    """
    origin_of: Callable[[Handle], tuple[int, NodeId] | None] | None = None
    """Returns the connection of a request that is not answered yet, and the machine that opened it."""

    def mark_from(self, offset: Offset) -> Mark | None:
        """Return the first batch that ends at or after an offset; None if the log does not reach there."""
        low, high = 0, len(self.log)
        if high and self.log[high - 1].end_offset <= offset:
            low = high - 1  # most questions are about the end
        while low < high:
            middle = (low + high) // 2
            if self.log[middle].end_offset < offset:
                low = middle + 1
            else:
                high = middle
        return self.log[low] if low < len(self.log) else None

    def digest_at(self, offset: Offset) -> int | None:
        """Return the digest of the log up to a batch boundary; None if there is no such boundary."""
        if offset == 0:
            return 0
        found = self.mark_from(offset)
        return found.digest if found is not None and found.end_offset == offset else None

    def holds(self, offset: Offset, digest: int | None) -> bool:
        """Whether it has a log of this digest up to a boundary, or a snapshot of more, which was
        committed, so that it is the same.
        """
        if self.log and offset < self.log[0].end_offset:
            return True
        return self.durable_end_offset >= offset and self.digest_at(offset) == digest


def is_majority(count: int, voters: int) -> bool:
    """Whether so many of the voters are a majority. The judge counts by itself, and not as the quorum that it
    judges does (`kraftd.types.majority_of`).
    """
    return 2 * count > voters


class Invariant:
    """A rule that must hold. A subclass overrides the methods it needs; the others cost nothing."""

    watches: ClassVar[tuple[type[Effect], ...]] = ()
    """The types of effects that `on_effect` is called with."""
    carrying: ClassVar[tuple[type[object], ...]] = ()
    """Of `Send` and `Reply`, it is called only with those that carry a message of these types; with all if
    there are none.
    """
    listens: ClassVar[tuple[type[Event], ...]] = ()
    """The types of events that `on_event` is called with."""
    handles: ClassVar[tuple[type[Event], ...]] = ()
    """The types of events that `on_handled` is called with."""

    def on_node(self, node: NodeView) -> None:
        """This node handled an event and its effects were carried out, or its process began or ended."""

    def on_event(self, node: NodeView, event: Event, now_ms: int) -> None:
        """A node is about to handle an event, at a time of its monotonic clock."""

    def on_handled(self, node: NodeView, event: Event, effects: Sequence[Effect]) -> None:
        """A node handled an event and is in the state after it; none of the effects has been carried out."""

    def on_effect(self, node: NodeView, effect: Effect, nodes: Mapping[NodeId, NodeView]) -> None:
        """An effect is about to be carried out; what comes before it has been."""

    def on_effects(self, node: NodeView, effects: Sequence[Effect]) -> None:
        """A node returned the effects of one event."""

    def on_applied(self, node: NodeView, offset: Offset, digest: Hashable) -> None:
        """A node's state machine has applied all below `offset`; `digest` stands for its content."""

    def on_polled(self, node: NodeView, now_ms: int, wake_at_ms: int) -> None:
        """A node was polled, and returned when it must be polled next."""

    def forget(self, node: NodeView) -> None:
        """The node is about to lose what its disk holds, or part of it."""

    def fail(self, text: str) -> None:
        """Raise a `Violation` of this invariant."""
        raise Violation(f"{type(self).__name__}: {text}")
