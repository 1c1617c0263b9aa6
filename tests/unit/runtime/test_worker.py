"""The worker thread: order, completion on the loop, and failures that are not swallowed."""

import asyncio
import threading

import pytest

from kraftd.runtime.worker import Worker


@pytest.mark.covers("D-17", "REQ-13")
async def test_jobs_run_in_order_in_another_thread_and_complete_on_the_loop() -> None:
    worker = Worker(asyncio.get_running_loop(), "flush")
    ran_in: list[str] = []
    done: list[tuple[int, str]] = []
    finished = asyncio.Event()

    def job(number: int) -> int:
        ran_in.append(threading.current_thread().name)
        return number

    def complete(number: int) -> None:
        done.append((number, threading.current_thread().name))
        if number == 2:
            finished.set()

    for number in range(3):
        worker.submit(lambda n=number: job(n), complete)
    await finished.wait()
    assert ran_in == ["flush"] * 3
    assert done == [(n, threading.main_thread().name) for n in range(3)]
    assert worker.pending == 0
    worker.stop()


@pytest.mark.covers("D-03")
async def test_drain_waits_for_the_running_job_and_takes_its_completion_once() -> None:
    loop = asyncio.get_running_loop()
    caught: list[str] = []
    loop.set_exception_handler(lambda _, context: caught.append(repr(context["exception"])))
    worker = Worker(loop, "flush")
    may_end = threading.Event()
    done: list[str] = []
    worker.submit(may_end.wait, lambda _: done.append("flush"))
    threading.Timer(0.02, may_end.set).start()
    worker.drain()
    assert done == ["flush"], "a truncation may only begin now"
    worker.stop()  # by then the thread has asked the loop to take it, too
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert (done, caught) == (["flush"], [])


@pytest.mark.covers("D-17", "D-03")
async def test_a_job_that_raises_raises_on_the_loop() -> None:
    loop = asyncio.get_running_loop()
    caught: list[str] = []
    loop.set_exception_handler(lambda _, context: caught.append(str(context["exception"])))
    worker = Worker(loop, "flush")
    next_is_done = asyncio.Event()

    def fail() -> None:
        raise OSError("input/output error")

    worker.submit(fail, lambda _: None)
    worker.submit(lambda: None, lambda _: next_is_done.set())  # completions come in order
    await next_is_done.wait()
    assert caught == ["input/output error"]
    worker.stop()


@pytest.mark.covers("D-17", "D-03")
async def test_drain_raises_what_a_job_raised() -> None:
    loop = asyncio.get_running_loop()
    worker = Worker(loop, "flush")

    def fail() -> None:
        raise OSError("input/output error")

    worker.submit(fail, lambda _: None)
    with pytest.raises(OSError, match="input/output"):
        worker.drain()
    worker.stop()


@pytest.mark.covers("D-17")
async def test_at_the_end_what_was_submitted_is_done_and_what_follows_from_it_is_not() -> None:
    worker = Worker(asyncio.get_running_loop(), "read")
    read: list[int] = []

    def go_on(number: int) -> None:
        if number < 9:
            worker.submit(lambda: read.append(number) or number, lambda _: go_on(number + 1))

    go_on(0)
    go_on(5)
    worker.finish()
    assert read == [0, 5]
    assert worker.pending == 0
    assert not worker._thread.is_alive()


def test_a_result_that_comes_after_the_loop_was_closed_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process ends for another reason then, which must be the one that is told."""
    told: list[object] = []
    monkeypatch.setattr(threading, "excepthook", told.append)
    loop, is_closed = asyncio.new_event_loop(), threading.Event()
    worker = Worker(loop, "test")
    worker.submit(is_closed.wait, lambda _: None)
    loop.close()
    is_closed.set()
    worker.stop()
    assert told == []
