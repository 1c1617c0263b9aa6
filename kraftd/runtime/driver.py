"""Runs one raft node on one event loop: at once for each event, and turn by turn for everything else (D-16).

Entered in two ways: `Driver.deliver`, with an event of a socket, a thread or a caller; and the turn, which
the driver schedules for itself after events and at the raft node's `wake_at_ms`. All ready sockets and
completions of a turn come first; then clients are served, the accumulator drains in `poll`, committed
batches are applied (these two go on until they bring no new event), and each connection writes once.

A turn that would find nothing to do is left out: after an event without effects that leaves the raft node
idle, and when the timer fires for a deadline that has moved away since. Then only the timer is set. Such an
event in the midst of a turn brings no second `poll`.

Only the driver gives events to the raft node and polls it. An event that arises while effects are carried
out is queued until their list is done. Any exception leaves the driver and ends the process: half-executed
effects must not be followed by more.

*Two clocks* (D-01). `now` is read once for all that happens in a turn. A turn that comes late, because this
process was suspended, is noticed by the raft node, which knows what it waited for; it asks for one more turn,
and by then the sockets have been read.
"""

import time
from asyncio import AbstractEventLoop, TimerHandle
from collections import deque
from collections.abc import Callable
from typing import Protocol, runtime_checkable

from kraftd.errors import InvariantError
from kraftd.raft import RaftNode
from kraftd.raft.events import Event, RequestReceived
from kraftd.runtime.effect_executor import EffectExecutor
from kraftd.types import Now


class TurnTask(Protocol):
    """Work besides the raft node that is done in each turn."""

    def run(self, now: Now) -> None:
        """Do what is due now; may deliver events."""


@runtime_checkable
class TimedTurnTask(TurnTask, Protocol):
    """Work that has a deadline of its own."""

    def wake_at_ms(self) -> int:
        """When this task needs the next turn, in monotonic milliseconds."""


def read_clocks() -> Now:
    """The two clocks of this machine."""
    return Now(time.monotonic_ns() // 1_000_000, time.time_ns() // 1_000_000)


class Driver:
    """Owns one raft node and the turns of its event loop."""

    def __init__(
        self,
        loop: AbstractEventLoop,
        *,
        end_turn: Callable[[], None],
        clock: Callable[[], Now] = read_clocks,
    ) -> None:
        self._raft_node: RaftNode
        self.turns = 0
        self.has_failed = False
        """Whether an event could not be handled, or its effects not be carried out. It ends the process."""
        self._loop = loop
        self._end_turn = end_turn
        self._clock = clock
        self._executor: EffectExecutor | None = None
        self._before: list[Callable[[Now], None]] = []
        self._after: list[Callable[[Now], None]] = []
        self._deadlines: list[Callable[[], int]] = []
        self._events: deque[Event] = deque()
        self._now: Now | None = None
        self._is_busy = False
        self._turn_is_due = False
        self._timer: TimerHandle | None = None
        self._timer_at_ms = 0

    def start(
        self, raft_node: RaftNode, executor: EffectExecutor, *, before: list[TurnTask], after: list[TurnTask]
    ) -> None:
        """Start the raft node. The tasks run in each turn: `before` once, `after` with each `poll`."""
        self._raft_node, self._executor = raft_node, executor
        self._before = [task.run for task in before]
        self._after = [task.run for task in after]
        self._deadlines = [c.wake_at_ms for c in (*before, *after) if isinstance(c, TimedTurnTask)]
        now = self._begin()
        self._is_busy = True
        executor.run(raft_node.start(now))
        self._is_busy = False
        self.wake()

    def stop(self) -> None:
        """Run no more turns. Events delivered from now on are dropped."""
        self._executor = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def deliver(self, event: Event) -> None:
        """Give an event to the raft node: now, or after the list of effects that is being carried out."""
        if self._is_busy:
            self._events.append(event)
            return
        executor = self._executor
        if executor is None:
            return
        now = self._now or self._begin()
        self._is_busy = True
        try:
            effects = self._raft_node.handle(event, now)
            if effects:
                executor.run(effects)
                if self._events:
                    self._run_events(executor, now)
        except BaseException:
            self.has_failed = True
            self.stop()
            raise
        self._is_busy = False
        if self._turn_is_due:
            return
        if effects or not self._raft_node.is_idle:
            self.wake()
        elif type(event) is RequestReceived and self._timer is not None:
            # A request without effects, such as a fetch that is parked, moves no deadline of a task.
            self._now = None
            self._wait_until(now, min(self._raft_node.wake_at_ms, self._timer_at_ms))
        else:
            self._rest(now, self._raft_node.wake_at_ms)

    def wake(self) -> None:
        """Schedule a turn, after the sockets that are ready now have been read."""
        if not self._turn_is_due:
            self._turn_is_due = True
            self._loop.call_soon(self._turn)

    def wake_to_write(self) -> None:
        """Schedule a turn to flush writes, unless one is running, at whose end they are flushed anyway."""
        if not self._is_busy:
            self.wake()

    def now(self) -> Now:
        """The clocks as of this turn."""
        return self._now or self._clock()

    def _turn(self) -> None:
        executor = self._executor
        if executor is None:
            return
        now = self._now or self._begin()
        self.turns += 1
        # What these deliver is handled at once. Else the controller would decide request 2 on an image that
        # holds the write of request 1, which the raft node has just refused.
        for run in self._before:
            run(now)
        self._turn_is_due = False
        self._is_busy = True
        self._process_pending(executor, now)
        self._is_busy = False
        self._end_turn()
        self._now = None
        self._arm(now)

    def _process_pending(self, executor: EffectExecutor, now: Now) -> None:
        """Run events, `poll` and the tasks after it until no event is left that makes something due."""
        if self._events:
            self._run_events(executor, now)
        while True:
            effects = self._raft_node.poll(now)
            if effects:
                executor.run(effects)
            for run in self._after:
                run(now)
            if not self._events or not self._run_events(executor, now):
                return

    def _run_events(self, executor: EffectExecutor, now: Now) -> bool:
        """Handle the events that are queued. Returns whether something is to be done in this turn by them."""
        events, raft_node = self._events, self._raft_node
        has_effects = False
        while events:
            effects = raft_node.handle(events.popleft(), now)
            if effects:
                has_effects = True
                executor.run(effects)
        return has_effects or not raft_node.is_idle or raft_node.wake_at_ms <= now.mono_ms

    def _begin(self) -> Now:
        now = self._now = self._clock()
        return now

    def _arm(self, now: Now) -> None:
        """Schedule the next turn, after one."""
        wake_at_ms = self._raft_node.wake_at_ms
        if wake_at_ms <= now.mono_ms:
            due = f"after poll at {now.mono_ms} the raft node is due at {wake_at_ms}"
            raise InvariantError(due)
        if not self._turn_is_due:
            self._rest(now, wake_at_ms)

    def _rest(self, now: Now, wake_at_ms: int) -> None:
        """Wait for the first deadline, of the raft node or of a task."""
        self._now = None
        for deadline in self._deadlines:
            task_ms = deadline()
            if task_ms < wake_at_ms:
                wake_at_ms = task_ms
        self._wait_until(now, wake_at_ms)

    def _wait_until(self, now: Now, wake_at_ms: int) -> None:
        """Let the timer fire by then; schedule a turn if that is over."""
        if wake_at_ms <= now.mono_ms:
            self.wake()
            return
        if self._timer is not None:
            if self._timer_at_ms <= wake_at_ms:
                return  # it fires early enough
            self._timer.cancel()
        # A barrier of this turn may have taken long, and the loop counts from this moment on.
        left_ms = max(0, wake_at_ms - self._clock().mono_ms)
        self._timer_at_ms = wake_at_ms
        self._timer = self._loop.call_later(left_ms / 1_000, self._timer_fired)

    def _timer_fired(self) -> None:
        # A leader that has committed wants to tell its followers in a millisecond; the next records, which
        # tell it too, are there sooner, and now it wants to be woken in half a second.
        self._timer = None
        if not self._turn_is_due and self._executor is not None:
            self._rest(self._clock(), self._raft_node.wake_at_ms)
