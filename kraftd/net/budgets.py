"""How much work each class of peer may cause in one turn, and in which order peers are served (D-38).

Every inbound connection is in the `Lane` of its class. What a connection sent waits in the connection,
undecoded, and the connection waits in its lane; once a turn of the loop `Budgets.serve` goes round the
waiting connections, one frame each, until the work of this turn is done. Work is counted in bytes, with an
addition for each request, so that the same input does the same on every machine and in the simulator. A
connection that caused much (a long request, a long response) is skipped for as many rounds as others need for
the same (deficit round robin).

How much is read follows from what waits: a connection that filled its read is not read again before it was
served, and the more connections of a class wait, the less is read of each. When more waits in a class than
there is room for, or more responses are unsent, the connection with most of it is closed: so a connection
with little, as every honest one is, is never in question.

Not here: sockets, frames and what a request means (`connection`, `server`).
"""

from collections import deque
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Protocol

from kraftd.errors import InvariantError
from kraftd.net.rate_limited_logger import RateLimitedLogger
from kraftd.net.tally import Tally
from kraftd.protocol import limits

_FIT_EVERY = 8
"""The size of reads follows the number of waiting connections, in steps of so many."""


class PeerClass(Enum):
    """What is known of the other end of an inbound connection."""

    STRANGER = "stranger"
    """It has not greeted, or claims a voter's id without proof (D-37)."""
    CLIENT = "client"
    """It greeted without a node id."""
    OBSERVER = "observer"
    """It greeted with a node id that is no voter's."""
    VOTER = "voter"
    """It has proved to be the voter of its greeting."""


class Waiting(Protocol):
    """A connection that waits in a lane."""

    def serve(self) -> int:
        """Handle the next frame, or skip a round. Returns the work done, in bytes."""


class Lane:
    """The connections of one class that wait to be served, and how much work they may cause."""

    def __init__(
        self,
        peer_class: PeerClass,
        wake: Callable[[], None],
        *,
        work_per_turn: int,
        read_bytes: int,
        waiting_bytes_max: int,
    ) -> None:
        self.peer_class = peer_class
        self.serves_at_once = peer_class is PeerClass.VOTER
        self.read_bytes = read_bytes
        self.next_read_bytes = read_bytes
        """The size of the next read: a connection that fills it has sent more."""
        self.waiting_bytes = 0
        """What the connections of this class keep undecoded."""
        self.waiting_bytes_max = waiting_bytes_max
        self.long_responses = 0
        """The number of requests in flight that may have long responses."""
        self._queue: deque[Waiting] = deque()
        self._long_queue: deque[Waiting] = deque()
        self._wake = wake
        self._work_per_turn = work_per_turn
        self._whole_buffer = memoryview(bytearray(read_bytes))
        self.buffer = self._whole_buffer
        """The next read goes here; its bytes are copied out at once."""

    def add(self, waiting: Waiting) -> None:
        """Queue a connection that has a frame to handle."""
        if not self._queue:
            self._wake()
        self._queue.append(waiting)
        if len(self._queue) % _FIT_EVERY == 0:
            self._fit_buffer()

    def add_for_long_response(self, waiting: Waiting) -> None:
        """Queue a connection whose next request must wait for room for a long response."""
        self._long_queue.append(waiting)

    def end_long_responses(self, count: int) -> None:
        """Note that such requests were answered, or that their connection is closed."""
        self.long_responses -= count
        if self._long_queue:
            self._wake()

    def serve(self) -> None:
        """Go round the waiting connections until the work of a turn is done.

        The first round may use all the work of the turn. Further rounds, for connections that sent many
        frames at once, end after less, so that a few that flood do not make the turn longer.
        """
        queue, long_queue = self._queue, self._long_queue
        for _ in range(min(len(long_queue), limits.LONG_RESPONSES_MAX - self.long_responses)):
            queue.append(long_queue.popleft())
        most, work, visits = self._work_per_turn, 0, len(queue)
        while queue and work < most:
            work += queue.popleft().serve()
            visits -= 1
            if visits == 0:
                most = min(most, limits.WORK_OF_MORE_ROUNDS)
        if queue or self.next_read_bytes != self.read_bytes:
            self._fit_buffer()

    @property
    def is_waiting(self) -> bool:
        """Whether `serve` has something to do."""
        return bool(self._queue) or (
            bool(self._long_queue) and self.long_responses < limits.LONG_RESPONSES_MAX
        )

    def _fit_buffer(self) -> None:
        """Read less of each connection the more of them wait."""
        waiting = len(self._queue)
        size = self.read_bytes
        if waiting * size > limits.READ_AHEAD_BYTES:
            size = max(limits.READ_BYTES_MIN, limits.READ_AHEAD_BYTES // waiting)
        if size != self.next_read_bytes:
            self.next_read_bytes = size
            self.buffer = self._whole_buffer[:size]


class BudgetHolder(Protocol):
    """A connection, as far as its budget is concerned."""

    address: str
    unsent_bytes: int
    """Unsent responses, beyond what the kernel holds."""

    @property
    def peer_class(self) -> PeerClass:
        """What is known of the other end."""

    @property
    def waiting_bytes(self) -> int:
        """Bytes received and not handled yet."""

    def evict(self, reason: str) -> None:
        """Close it at once, and subtract all that waits in it."""


class Budgets:
    """The lanes of all classes, and what may wait in all."""

    def __init__(
        self,
        tally: Tally,
        limited_logger: RateLimitedLogger,
        connections: Mapping[int, BudgetHolder],
        wake: Callable[[], None],
    ) -> None:
        """`connections` are all inbound ones; `wake` must schedule a call of `serve` in this turn."""
        self.tally = tally
        self.is_waiting = False
        """Whether `serve` has something to do."""
        self.lanes = _make_lanes(self._woken)
        self._wake = wake
        self._connections = connections
        self.unsent_bytes = 0
        """Unsent responses of all connections but voters'."""
        self._limited_logger = limited_logger

    def serve(self) -> None:
        """Handle what waits, class by class, each up to the work of a turn."""
        self.is_waiting = False  # set again by `_woken`, when a connection enters an empty lane
        for lane in self.lanes.values():
            if lane.is_waiting:
                lane.serve()
                if lane.is_waiting:
                    self.is_waiting = True

    def _woken(self) -> None:
        self.is_waiting = True
        self._wake()

    def make_room(self, lane: Lane) -> None:
        """Close the connections with most waiting bytes until a lane is within its bound."""
        while lane.waiting_bytes > lane.waiting_bytes_max:
            greatest = max(
                (each for each in self._connections.values() if each.peer_class is lane.peer_class),
                key=lambda each: each.waiting_bytes,
            )
            self._close(greatest, "requests", greatest.waiting_bytes)

    def make_room_for_responses(self) -> None:
        """Close the connections with most unsent responses until all are within the bound."""
        while self.unsent_bytes > limits.UNSENT_BYTES_MAX:
            greatest = max(self._connections.values(), key=lambda each: each.unsent_bytes)
            self._close(greatest, "responses", greatest.unsent_bytes)

    def _close(self, greatest: BudgetHolder, what: str, size: int) -> None:
        if size == 0:
            raise InvariantError(f"{what} wait in connections that have none")
        self.tally.over_budget += 1
        name = greatest.peer_class.value
        self._limited_logger.warning(
            "over_budget",
            key=(name, what),
            peer_class=name,
            address=greatest.address,
            waiting=what,
            bytes=size,
        )
        greatest.evict(f"{size} bytes of {what} waited, more than of anybody else, and there was no room")


def _make_lanes(wake: Callable[[], None]) -> dict[PeerClass, Lane]:
    """One lane for each class, in the order in which they are served."""
    sizes = {
        PeerClass.VOTER: (
            limits.VOTER_WORK_PER_TURN,
            limits.VOTER_READ_BYTES,
            limits.VOTER_WAITING_BYTES_MAX,
        ),
        PeerClass.STRANGER: (
            limits.STRANGER_WORK_PER_TURN,
            limits.STRANGER_READ_BYTES,
            limits.STRANGER_WAITING_BYTES_MAX,
        ),
        PeerClass.OBSERVER: (
            limits.OBSERVER_WORK_PER_TURN,
            limits.CLIENT_READ_BYTES,
            limits.OBSERVER_WAITING_BYTES_MAX,
        ),
        PeerClass.CLIENT: (
            limits.CLIENT_WORK_PER_TURN,
            limits.CLIENT_READ_BYTES,
            limits.CLIENT_WAITING_BYTES_MAX,
        ),
    }
    return {
        each: Lane(each, wake, work_per_turn=work, read_bytes=read, waiting_bytes_max=waiting)
        for each, (work, read, waiting) in sizes.items()
    }
