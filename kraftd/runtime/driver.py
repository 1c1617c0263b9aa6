"""When does the core run? At once for every event, and once a turn of the loop for everything else (D-16).

Entered in two ways: `Driver.deliver`, with an event that a socket, a thread or a caller brought; and the
turn, which the driver schedules for itself after events and at the core's `wake_at_ms`. All ready sockets
and completions of a turn come first; then clients are served, the accumulator drains in `poll`, committed
batches are applied, and what is to be written leaves in one write a connection.

The driver owns the member: nobody else calls it to change it. An event that arises while effects are
carried out is queued until their list is done. Any exception leaves the driver and ends the process: half-
carried-out effects must not be followed by more.

*Two clocks* (D-01). `now` is read once for all that happens in a turn. That a turn comes late, because this
process was asleep, is seen by the core, which knows what it waited for; it asks for one more turn, and by
then the sockets were read.
"""

import time
from asyncio import AbstractEventLoop, TimerHandle
from collections import deque
from collections.abc import Callable
from typing import Protocol, runtime_checkable

from kraftd.errors import InvariantError
from kraftd.raft.effects import Effect
from kraftd.raft.events import Event
from kraftd.runtime.interpreter import Interpreter
from kraftd.types import Now

NEVER_MS = 1 << 62
"""A moment that does not come."""


class Member(Protocol):
    """What the driver needs of `kraftd.raft.Member`."""

    @property
    def wake_at_ms(self) -> int:
        """When `poll` must be called next."""

    def start(self, now: Now) -> list[Effect]:
        """Begin."""

    def handle(self, event: Event, now: Now) -> list[Effect]:
        """Take in one event."""

    def poll(self, now: Now) -> list[Effect]:
        """Do what the passing of time demands, and drain the accumulator."""


class Chore(Protocol):
    """Something else that is done once a turn."""

    def run(self, now: Now) -> None:
        """Do what is due; may deliver events."""


@runtime_checkable
class TimedChore(Chore, Protocol):
    """One that may want a turn by itself."""

    def wake_at_ms(self) -> int:
        """When a turn is needed next for this chore alone."""


def read_clocks() -> Now:
    """The two clocks of this machine."""
    return Now(time.monotonic_ns() // 1_000_000, time.time_ns() // 1_000_000)


class Driver:
    """Runs one member on one event loop."""

    def __init__(
        self,
        loop: AbstractEventLoop,
        member: Member,
        *,
        end_turn: Callable[[], None],
        clock: Callable[[], Now] = read_clocks,
    ) -> None:
        self.member = member
        self.turns = 0
        self._loop = loop
        self._end_turn = end_turn
        self._clock = clock
        self._interpreter: Interpreter | None = None
        self._before: list[Callable[[Now], None]] = []
        self._after: list[Callable[[Now], None]] = []
        self._deadlines: list[Callable[[], int]] = []
        self._events: deque[Event] = deque()
        self._now: Now | None = None
        self._is_busy = False
        self._turn_is_due = False
        self._timer: TimerHandle | None = None
        self._timer_at_ms = 0

    def start(self, interpreter: Interpreter, *, before: list[Chore], after: list[Chore]) -> None:
        """Start the member. `before` and `after` are done in each turn around `poll`."""
        self._interpreter = interpreter
        self._before = [chore.run for chore in before]
        self._after = [chore.run for chore in after]
        self._deadlines = [c.wake_at_ms for c in (*before, *after) if isinstance(c, TimedChore)]
        now = self._begin()
        self._is_busy = True
        interpreter.run(self.member.start(now))
        self._is_busy = False
        self.wake()

    def stop(self) -> None:
        """No more turns. Events delivered from now on are dropped."""
        self._interpreter = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def deliver(self, event: Event) -> None:
        """Hand an event to the core: now, or after the list of effects that is being carried out."""
        if self._is_busy:
            self._events.append(event)
            return
        interpreter = self._interpreter
        if interpreter is None:
            return
        now = self._now or self._begin()
        self._is_busy = True
        effects = self.member.handle(event, now)
        if effects:
            interpreter.run(effects)
            if self._events:
                self._run_events(interpreter, now)
        self._is_busy = False
        if not self._turn_is_due:
            self.wake()

    def wake(self) -> None:
        """Have a turn as soon as the ready sockets of this one have been read."""
        if not self._turn_is_due:
            self._turn_is_due = True
            self._loop.call_soon(self._turn)

    def wake_to_write(self) -> None:
        """Have a turn at whose end is written: another one only if none is under way or due anyway."""
        if not self._is_busy:
            self.wake()

    def now(self) -> Now:
        """The clocks as of this turn."""
        return self._now or self._clock()

    def _turn(self) -> None:
        interpreter = self._interpreter
        if interpreter is None:
            return
        now = self._now or self._begin()
        self.turns += 1
        # What these deliver is handled at once: the controller must hear of a refusal before it decides on.
        for run in self._before:
            run(now)
        self._turn_is_due = False
        self._is_busy = True
        self._settle(interpreter, now)
        self._is_busy = False
        self._end_turn()
        self._now = None
        self._arm(now)

    def _settle(self, interpreter: Interpreter, now: Now) -> None:
        """Run events, `poll` and the chores after it until nothing is left to react to."""
        while True:
            if self._events:
                self._run_events(interpreter, now)
            effects = self.member.poll(now)
            if effects:
                interpreter.run(effects)
            for run in self._after:
                run(now)
            if not self._events:
                return

    def _run_events(self, interpreter: Interpreter, now: Now) -> None:
        events, member = self._events, self.member
        while events:
            interpreter.run(member.handle(events.popleft(), now))

    def _begin(self) -> Now:
        now = self._now = self._clock()
        return now

    def _arm(self, now: Now) -> None:
        """Have a turn when the first deadline passes. A timer that is early enough is left alone."""
        wake_at_ms = self.member.wake_at_ms
        if wake_at_ms <= now.mono_ms:
            raise InvariantError(f"after poll at {now.mono_ms} the member wants to be woken at {wake_at_ms}")
        for deadline in self._deadlines:
            chore_ms = deadline()
            if chore_ms < wake_at_ms:
                wake_at_ms = chore_ms
        if self._turn_is_due:
            return
        if wake_at_ms <= now.mono_ms:
            self.wake()
            return
        if self._timer is not None:
            if self._timer_at_ms <= wake_at_ms:
                return
            self._timer.cancel()
        # A barrier of this turn may have taken long, and the loop counts from this moment on.
        left_ms = max(0, wake_at_ms - self._clock().mono_ms)
        self._timer_at_ms = wake_at_ms
        self._timer = self._loop.call_later(left_ms / 1_000, self._timer_fired)

    def _timer_fired(self) -> None:
        self._timer = None
        self.wake()
