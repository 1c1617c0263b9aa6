"""In which order the controller handles what came in, and how much of it in one turn of the loop.

A turn is what latency is made of: no socket is read before it ends. So the events of one turn may take ten
milliseconds, and what is left waits for the next one. Each class of events has a share of that for itself,
and what others do not use is for whoever comes: brokers' heartbeats are answered while somebody creates ten
thousand partitions, and the partitions come to be while ten thousand brokers start.

Usually nothing waits: an event whose class has time left is handled as it arrives. Only when the time of a
turn is used up are events queued, in the order of their arrival within their class. One that has waited
beyond its deadline is not decided any more. The queue is bounded; when it is full, events are handled as
they arrive, so that memory stays with whoever sent them.

What grows with partitions comes in slices, one a turn (`plan_runner`); their time counts for their class.

Time comes in, measured by the caller in nanoseconds. Not here: the quorum's own frames, which the raft node
handles before all of this.
Follows: KIP-143 for what is measured. Differs: Kafka's controller has one queue in the order of arrival.
"""

from collections import deque
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any, Final

import msgspec

TURN_NS: Final = 10_000_000
"""What all events of a turn may take together."""

EVENTS_MAX: Final = 4_096
"""Events that wait at most."""


class EventClass(IntEnum):
    """Sorts of events, the most urgent first."""

    SESSIONS = 0
    """Heartbeats and registrations: who is late with them loses partitions."""
    REPLICAS = 1
    """ISRs and directories: producers wait for them."""
    WRITES = 2
    """What people and tools change."""
    READS = 3


SHARES_NS: Final[Mapping[EventClass, int]] = {
    EventClass.SESSIONS: 3_000_000,
    EventClass.REPLICAS: 3_000_000,
    EventClass.WRITES: 2_000_000,
    EventClass.READS: 1_000_000,
}
"""What each class may take of a turn, whatever the others do."""


class Event(msgspec.Struct, frozen=True, eq=False):
    """Something that waits to be handled."""

    kind: str
    event_class: EventClass
    arrived_ns: int
    deadline_ms: int
    """When it is too late for it, on the monotonic clock."""
    handle: Callable[[], None]
    expire: Callable[[], None]


class EventQueue:
    """The events that wait, and the time that is left of this turn. Mutable, one owner."""

    __slots__ = ("_spent_ns", "_waiting", "count", "timed_out", "total_ns")

    def __init__(self) -> None:
        self.count = 0
        """Events that wait."""
        self.timed_out = 0
        """Events that waited too long (Kafka's EventQueueOperationsTimedOutCount)."""
        self._waiting: tuple[deque[Event], ...] = tuple(deque() for _ in EventClass)
        self._spent_ns = [0] * len(EventClass)
        self.total_ns = 0
        """What the events of this turn took so far."""

    def begin_turn(self) -> None:
        """Give every class its time again. Needed only if `total_ns` says that some was taken."""
        self._spent_ns = [0] * len(EventClass)
        self.total_ns = 0

    def may_handle(self, event_class: EventClass) -> bool:
        """Whether an event that arrives now is to be handled at once."""
        if self.count == 0:
            return self.total_ns < TURN_NS or self._has_share(event_class)
        if self._waiting[event_class]:
            return self.count >= EVENTS_MAX
        return self._has_share(event_class) or self.count >= EVENTS_MAX

    def add(self, event: Event) -> None:
        """Let an event wait."""
        self._waiting[event.event_class].append(event)
        self.count += 1

    def take(self, now_ms: int) -> Event | None:
        """The next event that may be handled in this turn; None if none may. Those that are late expire."""
        for event_class in EventClass:
            waiting = self._waiting[event_class]
            while waiting and (self.total_ns < TURN_NS or self._has_share(event_class)):
                event = waiting.popleft()
                self.count -= 1
                if event.deadline_ms > now_ms:
                    return event
                self.timed_out += 1
                event.expire()
        return None

    def spent(self, event_class: EventClass, took_ns: int) -> None:
        """Count the time that an event took."""
        self._spent_ns[event_class] += took_ns
        self.total_ns += took_ns

    def waiting(self) -> Mapping[str, int]:
        """How many events wait, by class."""
        return {event_class.name.lower(): len(self._waiting[event_class]) for event_class in EventClass}

    def oldest(self) -> Event | None:
        """The event that has waited longest."""
        heads: list[Any] = [waiting[0] for waiting in self._waiting if waiting]
        return min(heads, key=lambda event: event.arrived_ns, default=None)

    def _has_share(self, event_class: EventClass) -> bool:
        return self._spent_ns[event_class] < SHARES_NS[event_class]
