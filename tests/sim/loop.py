"""How does the daemon's code run in virtual time? On a loop of its own for each node.

`Scheduler` is the one queue of everything that happens, in microseconds, ordered by time and then by age.
`SimLoop` is what asyncio's event loop is to the daemon: callbacks, timers, tasks and connections, but it runs
only when the scheduler says so, and reads the clock of its own node. One iteration is asyncio's: what was
ready before, then sockets and completions, then timers. `SimWorker` is a thread of the daemon: a job begins
when it is submitted and ends later, and its completion comes back on the loop.

A loop can be *blocked* (it works, or waits for a disk) and *paused* (its process is stopped); what arrives
meanwhile waits. A simulated crash is an exception, so that it may come in the middle of anything.

Not here: what is at the other end of a connection (`network`), and whose loop it is (`node`).
"""

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import msgspec

from kraftd.types import Now

NEVER_US = 1 << 62
US_PER_S = 1_000_000
PPM = 1_000_000
LONG_US = 1_000
"""Work that what is ready meanwhile has to wait for; less is done within one moment."""
LOOKS = 32
"""After how many iterations somebody looks whether the loop will wake in time."""


class Scheduler:
    """What happens when. `now_us` is true time, which no node can see."""

    def __init__(self) -> None:
        self.now_us = 0
        self.is_inside = False
        """Whether some process runs at this moment: another one has to wait for its turn."""
        self._queue: list[tuple[int, int, Callable[[Any], None], Any]] = []
        self._age = 0

    def at_us(self, moment_us: int, action: Callable[[Any], None], argument: Any = None) -> None:
        """Call `action(argument)` at a moment; never before now."""
        self._age = age = self._age + 1
        if moment_us < self.now_us:
            moment_us = self.now_us
        heapq.heappush(self._queue, (moment_us, age, action, argument))

    def step(self) -> None:
        """Let the next thing happen."""
        self.now_us, _, action, argument = heapq.heappop(self._queue)
        action(argument)

    @property
    def next_us(self) -> int:
        """When the next thing happens."""
        return self._queue[0][0] if self._queue else NEVER_US

    @property
    def queue_length(self) -> int:
        """How much is to happen still."""
        return len(self._queue)


class Clock:
    """The two clocks of one machine (D-01): they may drift, jump and stand still, each by itself."""

    def __init__(self, scheduler: Scheduler, *, mono_us: int, wall_ms: int) -> None:
        self._scheduler = scheduler
        self._base_true_us = scheduler.now_us
        self._base_us = mono_us
        self._rate_ppm = PPM
        self._offset_us = mono_us - scheduler.now_us
        self._wall_ms = wall_ms
        self._wall_frozen_ms: int | None = None

    def mono_us(self) -> int:
        """The monotonic clock."""
        if self._rate_ppm == PPM:
            return self._scheduler.now_us + self._offset_us
        return self._base_us + (self._scheduler.now_us - self._base_true_us) * self._rate_ppm // PPM

    def wall_ms(self) -> int:
        """The wall clock; it goes with the monotonic one until somebody sets it."""
        if self._wall_frozen_ms is not None:
            return self._wall_frozen_ms
        return self._wall_ms + self.mono_us() // 1_000

    def now(self) -> Now:
        """Both."""
        is_steady = self._rate_ppm == PPM  # then `mono_us`, written out: every turn asks
        mono_ms = (self._scheduler.now_us + self._offset_us if is_steady else self.mono_us()) // 1_000
        frozen_ms = self._wall_frozen_ms
        return Now(mono_ms, self._wall_ms + mono_ms if frozen_ms is None else frozen_ms)

    def true_us(self, mono_us: int) -> int:
        """When the monotonic clock will show this; rounded up, so that a timer is never early."""
        if self._rate_ppm == PPM:
            return mono_us - self._offset_us
        if self._rate_ppm == 0:
            return NEVER_US
        return self._base_true_us - (self._base_us - mono_us) * PPM // self._rate_ppm

    def set_rate(self, rate_ppm: int) -> None:
        """Let the monotonic clock run faster or slower; 0 freezes it."""
        self._set_mono(self.mono_us())
        self._rate_ppm = rate_ppm

    def jump_mono(self, ahead_us: int) -> None:
        """Let the monotonic clock leap forward."""
        self._set_mono(self.mono_us() + max(0, ahead_us))

    def _set_mono(self, mono_us: int) -> None:
        self._base_us, self._base_true_us = mono_us, self._scheduler.now_us
        self._offset_us = mono_us - self._base_true_us

    def jump_wall(self, by_ms: int) -> None:
        """Set the wall clock, forward or back."""
        self._wall_ms += by_ms

    def freeze_wall(self, *, frozen: bool) -> None:
        """Stop the wall clock, or let it go on from where it should be."""
        self._wall_frozen_ms = None
        if frozen:
            self._wall_frozen_ms = self.wall_ms()


class Timer(msgspec.Struct, eq=False):
    """A callback that is due later; asyncio's `TimerHandle` as far as anybody needs it."""

    when_us: int
    callback: Callable[..., object]
    args: tuple[Any, ...]
    is_cancelled: bool = False

    def cancel(self) -> None:
        """Forget it."""
        self.is_cancelled = True

    def cancelled(self) -> bool:
        """Whether it was forgotten."""
        return self.is_cancelled

    def when(self) -> float:
        """When it is due, by the clock of its loop."""
        return self.when_us / US_PER_S


class SimLoop:
    """One process's event loop."""

    def __init__(
        self,
        scheduler: Scheduler,
        clock: Clock,
        *,
        on_error: Callable[[BaseException], None],
        connect: Callable[..., Any] | None = None,
        random: Random | None = None,
        turn_us: int = 0,
        on_sleep: Callable[[], None] | None = None,
    ) -> None:
        self.clock = clock
        self.busy_until_us = 0
        """What leaves this process now leaves it then."""
        self.is_paused = False
        self.is_closed = False
        self.turn_us = turn_us
        """The longest that an iteration may take."""
        self.woken_by_timer = False
        """Whether the current iteration began with a timer and nothing else."""
        self._scheduler = scheduler
        self._on_error = on_error
        self._on_sleep = on_sleep
        self._runs = 0
        self._connect = connect
        self._random = random.random if random is not None else None
        self._ready: deque[Timer] = deque()
        self._arrived: list[tuple[Callable[[Any], None], Any]] = []
        self._taking = self._arrived
        """What arrived before the current iteration."""
        self._due: list[Timer] = []
        """The timers of the current iteration."""
        self._timers: list[tuple[int, int, Timer]] = []
        self._age = 0
        self._wake_us = NEVER_US
        self._is_running = False
        self._tasks: dict[int, asyncio.Task[Any]] = {}

    # What asyncio's code and the daemon's ask of a loop.

    def time(self) -> float:
        return self.clock.mono_us() / US_PER_S

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Any = None) -> Timer:
        handle = Timer(0, callback, args)
        self._ready.append(handle)
        if not self._is_running:
            self._schedule(self._scheduler.now_us)
        return handle

    call_soon_threadsafe = call_soon

    def call_later(
        self, delay_s: float, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> Timer:
        return self._add_timer(self.clock.mono_us() + int(delay_s * US_PER_S + 0.5), callback, args)

    def call_at(
        self, when_s: float, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> Timer:
        return self._add_timer(int(when_s * US_PER_S + 0.5), callback, args)

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self)  # type: ignore[arg-type]

    def create_task(self, coroutine: Coroutine[Any, Any, Any], *, name: str = "") -> "asyncio.Task[Any]":
        """A task whose failure ends the process, as it does in the daemon's group of tasks."""
        task: asyncio.Task[Any] = asyncio.Task(coroutine, loop=self, name=name)  # type: ignore[arg-type]
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        self._age = key = self._age + 1
        self._tasks[key] = task

        def done(_: object) -> None:
            self._tasks.pop(key, None)
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error

        task.add_done_callback(done)
        return task

    async def create_connection(
        self, factory: Callable[[], Any], host: str, port: int
    ) -> "tuple[object, object]":
        assert self._connect is not None
        return await self._connect(self, factory, host, port)  # type: ignore[no-any-return]

    async def getaddrinfo(self, host: str, _port: None, **_words: object) -> list[tuple[Any, ...]]:
        """Names lead where they lead when somebody connects to them (`create_connection`)."""
        return [(0, 0, 0, "", (host, 0))]

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return self._is_running

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is not None and not self.is_closed:  # what a dead process left behind is collected later
            self._on_error(error)

    # What the world does with it.

    def worked_us(self) -> int:
        """The monotonic clock, with the work of this iteration that has not passed yet."""
        return self.clock.mono_us() + max(0, self.busy_until_us - self._scheduler.now_us)

    def sleeps_until_us(self) -> int:
        """When it wakes by itself, by its own clock; at once if there is something to do."""
        if self._ready or self._arrived:
            return 0
        return next((timer[0] for timer in self._timers[:1]), NEVER_US)

    def arrive(self, take: Callable[[Any], None], what: Any) -> None:
        """A socket or a thread has something for this process: `take(what)` in the next iteration."""
        self._arrived.append((take, what))
        scheduler = self._scheduler
        now_us = scheduler.now_us
        if scheduler.is_inside or self.is_paused or self.is_closed or now_us < self.busy_until_us:
            if not self._is_running:
                self._schedule(now_us)
        else:
            self._run(now_us)

    def block_us(self, duration_us: int) -> None:
        """The process waits or works for so long; what it does next it does after that."""
        now_us = self._scheduler.now_us
        if self.busy_until_us < now_us:
            self.busy_until_us = now_us
        self.busy_until_us += duration_us

    def pause(self) -> None:
        """Stop the process (SIGSTOP)."""
        self.is_paused = True

    def resume(self) -> None:
        """Let it go on (SIGCONT)."""
        self.is_paused = False
        self._schedule(self._scheduler.now_us)

    def reschedule(self) -> None:
        """The clock was changed: find out anew when the next timer is due."""
        self._wake_us = NEVER_US
        if not self._is_running:
            self._schedule_next()

    def close(self) -> None:
        """The process is gone; nothing of it runs again, not even the rest of an iteration that ended it."""
        self.is_closed = True
        tasks, self._tasks = self._tasks, {}
        for task in tasks.values():
            if not task.done():
                task.get_coro().close()  # type: ignore[union-attr]
        for waiting in (self._ready, self._arrived, self._taking, self._due, self._timers):
            waiting.clear()

    def _add_timer(self, when_us: int, callback: Callable[..., object], args: tuple[Any, ...]) -> Timer:
        timer = Timer(when_us, callback, args)
        self._age = age = self._age + 1
        heapq.heappush(self._timers, (when_us, age, timer))
        if not self._is_running:
            self._schedule_next()
        return timer

    def _schedule(self, at_us: int) -> None:
        """Run at this moment, or when the process is no longer busy."""
        if at_us < self.busy_until_us:
            at_us = self.busy_until_us
        if at_us < self._wake_us and not self.is_closed:
            self._wake_us = at_us
            self._scheduler.at_us(at_us, self._wake, at_us)

    def _schedule_next(self) -> None:
        if self._ready or self._arrived:
            self._schedule(self._scheduler.now_us)
            return
        timers = self._timers
        while timers and timers[0][2].is_cancelled:
            heapq.heappop(timers)
        if timers:
            self._schedule(self.clock.true_us(timers[0][0]))

    def _wake(self, at_us: int) -> None:
        if at_us != self._wake_us:
            return  # it was put off, or is earlier now
        self._wake_us = NEVER_US
        if self.is_paused or self.is_closed:
            return
        now_us = self._scheduler.now_us
        timers = self._timers
        is_due = timers and timers[0][0] <= self.clock.mono_us() and not timers[0][2].is_cancelled
        if now_us < self.busy_until_us or not (is_due or self._arrived or self._ready):
            self._schedule_next()
        else:
            self._run(now_us)

    def _run(self, now_us: int) -> None:
        """Iterate until nothing is ready, or something took long. No time passes before the end."""
        scheduler = self._scheduler
        self._is_running = scheduler.is_inside = True
        asyncio._set_running_loop(self)  # type: ignore[arg-type]
        try:
            self._iterate()
        except KeyboardInterrupt:  # meant for us, not for the simulated process
            raise
        except BaseException as error:
            self._on_error(error)
        finally:
            asyncio._set_running_loop(None)
            self._is_running = scheduler.is_inside = False
        if self.is_closed:
            return
        if self.turn_us and self._random is not None:
            if self.busy_until_us < now_us:
                self.busy_until_us = now_us
            self.busy_until_us += int(self._random() * self.turn_us)
        self._schedule_next()
        self._runs += 1
        if self._on_sleep is not None and not self._runs % LOOKS:
            self._on_sleep()

    def _iterate(self) -> None:
        """As asyncio does: what was ready before, then sockets and completions, then timers."""
        ready, timers = self._ready, self._timers
        arrived = self._arrived
        now_us = self.clock.mono_us()
        self.woken_by_timer = not (ready or arrived)
        while True:
            self._taking, self._arrived = arrived, []
            self._due = due = self._take_due(now_us) if timers and timers[0][0] <= now_us else []
            if ready:
                for _ in range(len(ready)):
                    if self.is_closed:
                        return
                    handle = ready.popleft()
                    if not handle.is_cancelled:
                        handle.callback(*handle.args)
            for take, what in arrived:
                take(what)
            for timer in due:
                if not timer.is_cancelled:
                    timer.callback(*timer.args)
            arrived = self._arrived
            if not (ready or arrived) or self.is_closed:
                return
            if self.busy_until_us > self._scheduler.now_us + LONG_US:
                return  # the rest has to wait for what took long

    def _take_due(self, now_us: int) -> list[Timer]:
        timers, due = self._timers, []
        while timers and timers[0][0] <= now_us:
            due.append(heapq.heappop(timers)[2])
        return due


class SimWorker:
    """A thread of the daemon; fulfils `kraftd.runtime.worker.Worker`.

    `begin(job)` is called when a job begins: it does what the job does and returns what is to be called when
    it ends, and how long it takes. A job's failure comes back with its completion, as it does from a thread.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        loop: SimLoop,
        begin: Callable[[Callable[[], Any]], tuple[Callable[[], Any], int]],
        on_completion: Callable[[], None],
    ) -> None:
        self._scheduler = scheduler
        self._loop = loop
        self._begin = begin
        self._on_completion = on_completion
        self._jobs: deque[tuple[Callable[[], Any], Callable[[Any], None]]] = deque()
        self._running: tuple[Callable[[], Any], Callable[[Any], None], int] | None = None
        self._is_finishing = False
        self._finished: deque[tuple[Callable[[Any], None], Any] | BaseException] = deque()

    @property
    def pending(self) -> int:
        """Jobs whose completion has not been taken on the loop yet."""
        return len(self._jobs) + (self._running is not None) + len(self._finished)

    def submit(self, job: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """Implements `Worker`."""
        if self._is_finishing:
            return
        self._jobs.append((job, done))
        if self._running is None:
            self._start()

    def drain(self) -> None:
        """Implements `Worker`: the loop waits for as long as the jobs still take."""
        while self.pending:
            if self._running is not None:
                wait_us = self._running[2] - max(self._scheduler.now_us, self._loop.busy_until_us)
                if wait_us > 0:
                    self._loop.block_us(wait_us)
                self._end()
            self._take_one(None)

    def finish(self) -> None:
        """Implements `Worker`."""
        self._is_finishing = True
        self.drain()

    def _start(self) -> None:
        job, done = self._jobs.popleft()
        end, duration_us = self._begin(job)
        end_us = max(self._scheduler.now_us, self._loop.busy_until_us) + duration_us
        self._running = running = (end, done, end_us)
        self._scheduler.at_us(end_us, self._over, running)

    def _over(self, running: object) -> None:
        if running is self._running and not self._loop.is_closed:
            self._end()
            self._loop.arrive(self._take_one, None)

    def _end(self) -> None:
        assert self._running is not None
        end, done, _ = self._running
        self._running = None
        try:
            self._finished.append((done, end()))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a crash in the middle of the job too: the loop hears of it
            self._finished.append(error)
        if self._jobs:
            self._start()

    def _take_one(self, _: object) -> None:
        # A drain may have taken this completion already; then there is nothing left to take.
        if not self._finished:
            return
        finished = self._finished.popleft()
        self._on_completion()
        if isinstance(finished, BaseException):
            raise finished
        done, result = finished
        done(result)
