"""Virtual time: the order of things, clocks that drift, processes that wait, threads that take time."""

import asyncio
from random import Random

import pytest

from tests.sim.loop import PPM, Clock, Scheduler, SimLoop, SimWorker


class Setting:
    def __init__(self, *, turn_us: int = 0) -> None:
        self.scheduler = Scheduler()
        self.clock = Clock(self.scheduler, mono_us=5_000_000, wall_ms=1_000)
        self.errors: list[BaseException] = []
        self.seen: list[tuple[int, str]] = []
        self.loop = SimLoop(
            self.scheduler, self.clock, on_error=self.errors.append, random=Random(1), turn_us=turn_us
        )

    def see(self, what: str) -> None:
        self.seen.append((self.scheduler.now_us, what))

    def run(self) -> list[str]:
        while self.scheduler.queue_length:
            self.scheduler.step()
        return [what for _, what in self.seen]


def test_what_was_ready_comes_before_what_arrived_and_timers_come_last() -> None:
    it = Setting()
    it.loop.call_later(0.010, it.see, "timer")
    it.scheduler.at_us(10_000, lambda _: it.loop.call_soon(it.see, "ready"))
    it.scheduler.at_us(10_000, lambda _: it.loop.arrive(it.see, "socket"))
    assert it.run() == ["timer", "ready", "socket"]  # each is an iteration of its own: no time passes between
    it.seen.clear()
    it.loop.pause()
    it.loop.call_later(0.001, it.see, "timer")
    it.loop.arrive(it.see, "socket")
    it.loop.call_soon(it.see, "ready")
    it.scheduler.at_us(it.scheduler.now_us + 5_000, lambda _: it.loop.resume())
    assert it.run() == ["ready", "socket", "timer"]


def test_a_cancelled_timer_is_silent_and_others_keep_their_order() -> None:
    it = Setting()
    it.loop.call_later(0.002, it.see, "second")
    first = it.loop.call_later(0.001, it.see, "first")
    it.loop.call_later(0.002, it.see, "third")
    first.cancel()
    assert it.run() == ["second", "third"]


def test_what_is_soon_can_be_cancelled_too() -> None:
    """A timeout that was moved to now and then left in time must not fire, as on asyncio's own loop."""
    it = Setting()
    it.loop.call_soon(it.see, "kept")
    it.loop.call_soon(it.see, "cancelled").cancel()
    assert it.run() == ["kept"]


def test_a_drifting_clock_makes_timers_late_or_early_but_never_before_their_time() -> None:
    for rate_ppm, at_us in ((PPM, 100_000), (2 * PPM, 50_000), (PPM // 3, 300_001)):
        it = Setting()
        it.clock.set_rate(rate_ppm)
        it.loop.call_later(0.1, lambda it=it: it.see(str(it.clock.mono_us() >= 5_100_000)))
        it.run()
        assert it.seen == [(pytest.approx(at_us, abs=3), "True")]


def test_a_frozen_clock_fires_nothing_until_it_goes_on() -> None:
    it = Setting()
    it.loop.call_later(0.1, it.see, "due")
    it.scheduler.at_us(50_000, lambda _: (it.clock.set_rate(0), it.loop.reschedule()))
    it.scheduler.at_us(850_000, lambda _: (it.clock.set_rate(PPM), it.loop.reschedule()))
    it.run()
    assert it.seen == [(900_000, "due")]


def test_the_wall_clock_may_jump_back_and_stand_still_alone() -> None:
    it = Setting()
    assert it.clock.now() == (5_000, 6_000)
    it.clock.jump_wall(-7_000)
    assert it.clock.now() == (5_000, -1_000)
    it.clock.freeze_wall(frozen=True)
    it.scheduler.now_us += 3_000_000
    assert it.clock.now() == (8_000, -1_000)
    it.clock.freeze_wall(frozen=False)
    assert it.clock.now() == (8_000, 2_000)


def test_a_blocked_process_hears_later_and_all_at_once() -> None:
    it = Setting()
    it.loop.block_us(10_000)
    for at_us in (1_000, 2_000):
        it.scheduler.at_us(at_us, lambda at_us: it.loop.arrive(it.see, str(at_us)), at_us)
    it.run()
    assert it.seen == [(10_000, "1000"), (10_000, "2000")]


def test_tasks_timeouts_and_events_of_asyncio_work_in_virtual_time() -> None:
    it = Setting()
    event = asyncio.Event()

    async def wait() -> None:
        try:
            async with asyncio.timeout(0.5):
                await event.wait()
        except TimeoutError:
            it.see("late")
        async with asyncio.timeout(5):
            await event.wait()
        it.see("in time")

    it.loop.create_task(wait())
    it.scheduler.at_us(2_000_000, lambda _: it.loop.call_soon(event.set))
    it.run()
    assert it.seen == [(500_000, "late"), (2_000_000, "in time")]
    assert not it.errors


def test_whatever_fails_reaches_whoever_owns_the_process() -> None:
    it = Setting()

    async def fail() -> None:
        raise ValueError("task")

    def raise_it(error: Exception) -> None:
        raise error

    it.loop.create_task(fail())
    it.run()
    it.loop.arrive(raise_it, KeyError("socket"))
    it.loop.call_later(1, raise_it, OSError("timer"))
    it.run()
    assert [str(error) for error in it.errors] == ["task", "'socket'", "timer"]


def test_a_closed_process_does_nothing_more() -> None:
    it = Setting()
    it.loop.call_later(1, it.see, "timer")
    it.loop.create_task(asyncio.sleep(0.5))
    it.loop.close()
    it.loop.arrive(it.see, "socket")
    assert it.run() == []


@pytest.mark.parametrize("ended_by", ["ready", "socket", "timer"])
def test_a_process_that_ends_itself_does_not_even_finish_its_turn(ended_by: str) -> None:
    """A broker is stopped while a timer of its registration is due: were that to run, the next process would
    find a registration under way, and never begin its own.
    """
    it = Setting()

    def happens(what: str) -> None:
        it.see(what)
        if what == ended_by:
            it.loop.close()
            it.loop.call_soon(it.see, "later")

    it.loop.pause()
    for _ in range(2):
        it.loop.call_soon(happens, "ready")
        it.loop.arrive(happens, "socket")
        it.loop.call_later(0.001, happens, "timer")
    it.scheduler.at_us(5_000, lambda _: it.loop.resume())
    everything = ["ready", "ready", "socket", "socket", "timer", "timer"]
    assert it.run() == everything[: everything.index(ended_by) + 1]
    assert it.errors == []


def worker_of(it: Setting, duration_us: int) -> SimWorker:
    def begin(job: object) -> tuple[object, int]:
        it.see("begin")
        return job, duration_us

    return SimWorker(it.scheduler, it.loop, begin, lambda: None)  # type: ignore[arg-type]


def test_jobs_end_later_one_after_the_other() -> None:
    it = Setting()
    worker = worker_of(it, 3_000)
    for name in ("one", "two"):
        worker.submit(lambda name=name: it.see(f"job {name}"), lambda _, name=name: it.see(f"done {name}"))
    assert worker.pending == 2
    it.run()
    assert it.seen == [
        (0, "begin"),
        (3_000, "job one"),
        (3_000, "begin"),
        (3_000, "done one"),
        (6_000, "job two"),
        (6_000, "done two"),
    ]


def test_whoever_drains_waits_for_the_thread() -> None:
    it = Setting()
    worker = worker_of(it, 3_000)
    worker.submit(lambda: it.see("job"), lambda _: it.see("done"))
    it.scheduler.now_us = 1_000
    worker.drain()
    assert (worker.pending, it.loop.busy_until_us) == (0, 3_000)
    assert it.run() == ["begin", "job", "done"]


def test_at_the_end_nothing_follows_from_a_result() -> None:
    it = Setting()
    worker = worker_of(it, 3_000)
    worker.submit(lambda: it.see("job"), lambda _: worker.submit(lambda: it.see("next"), it.see))
    worker.finish()
    assert (worker.pending, it.loop.busy_until_us) == (0, 3_000)
    assert it.run() == ["begin", "job"]


def test_a_job_that_fails_fails_on_the_loop() -> None:
    it = Setting()

    def fail() -> None:
        raise OSError("no room")

    worker_of(it, 1_000).submit(fail, lambda _: it.see("done"))
    assert it.run() == ["begin"]
    assert [str(error) for error in it.errors] == ["no room"]
