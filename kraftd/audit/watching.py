"""How a quorum is watched: what a watcher is shown of each member, when, and how it complains.

Whoever drives members fills a `NodeView` for each of them and shows it to every `Invariant`: before each
effect is carried out, before and after each event, and whenever a state machine got on. The promises
themselves are in `elections`, `conduct`, `hearing`, `speaking` and `agreement`; `invariants` holds them all.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import ClassVar

import msgspec

from kraftd.raft.effects import Effect
from kraftd.raft.epoch_states import EpochState
from kraftd.raft.events import Event, Handle
from kraftd.types import Election, Epoch, NodeId, Offset


class Violation(AssertionError):  # noqa: N818 - the word for it
    """A promise of the quorum was broken; the text says which and by whom."""


class Mark(msgspec.Struct, frozen=True):
    """A batch in a member's log. `digest` covers everything from the log's start to the batch's end."""

    end_offset: Offset
    epoch: Epoch
    digest: int


class NodeView(msgspec.Struct):
    """A member as the driver sees it: its process, and what of it would survive a power cut."""

    node_id: NodeId
    is_voter: bool
    is_whole: bool
    durable_election: Election
    log: Sequence[Mark]
    durable_end_offset: Offset
    state: EpochState | None = None
    """None while the process is down."""
    high_watermark: Offset = -1
    voters: frozenset[NodeId] = frozenset()
    check_quorum_ms: int = 0
    """How long it may lead without a majority that follows; 0 if nobody says."""
    request_timeout_ms: int = 0
    """How long who writes or reads may wait for an outcome, by its configuration; 0 if nobody says."""
    forgot: bool = False
    """Whether its disk is an old copy, or was replaced, and it has not caught up with what it promised."""
    opener_of: Callable[[int], NodeId | None] | None = None
    """Which machine really opened an inbound connection of this member, by its number (None: unknown, or it
    is gone). A driver that cannot know leaves it out.
    """
    origin_of: Callable[[Handle], tuple[int, NodeId] | None] | None = None
    """On which connection a request came that is not answered yet, and which machine opened that one."""

    def mark_from(self, offset: Offset) -> Mark | None:
        """The first batch that ends at or after an offset; None if the log does not reach there."""
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
        """The digest of the log up to a batch boundary; None if the log does not reach or cut there."""
        if offset == 0:
            return 0
        found = self.mark_from(offset)
        return found.digest if found is not None and found.end_offset == offset else None


class Invariant:
    """A promise that is watched. Override what is needed; what is not overridden costs nothing."""

    watches: ClassVar[tuple[type[Effect], ...]] = ()
    """The effects that `on_effect` wants to see."""
    listens: ClassVar[tuple[type[Event], ...]] = ()
    """The events that `on_event` wants to see."""
    handles: ClassVar[tuple[type[Event], ...]] = ()
    """The events that `on_handled` wants to see."""

    def on_node(self, node: NodeView) -> None:
        """This member handled an event and its effects were carried out, or its process began or ended."""

    def on_event(self, node: NodeView, event: Event, now_ms: int) -> None:
        """A member is about to handle an event, at a moment of its monotonic clock."""

    def on_handled(self, node: NodeView, event: Event, effects: Sequence[Effect]) -> None:
        """A member handled an event, and shows its state after it; nothing of the effects has been done."""

    def on_effect(self, node: NodeView, effect: Effect, nodes: Mapping[NodeId, NodeView]) -> None:
        """An effect is about to be carried out; what comes before it has been."""

    def on_effects(self, node: NodeView, effects: Sequence[Effect]) -> None:
        """A member handed over the effects of one event."""

    def on_applied(self, node: NodeView, offset: Offset, digest: Hashable) -> None:
        """A member's state machine has applied all below `offset`; `digest` says what it holds now."""

    def on_polled(self, node: NodeView, now_ms: int, wake_at_ms: int) -> None:
        """A member was polled, and says when it must be polled next."""

    def forget(self, node: NodeView) -> None:
        """The member is about to lose what its disk holds, or part of it."""

    def fail(self, text: str) -> None:
        """Say that the promise was broken."""
        raise Violation(f"{type(self).__name__}: {text}")
