"""How does an fsync happen without stopping the loop? In one thread of our own, one job at a time.

Entered through `Worker.submit`, on the loop. The job runs in the thread; its result comes back on the loop. A
queue and `call_soon_threadsafe` cost a third of an executor hop. Group commit is not here but follows from
it: while one flush runs, whoever appends only marks that another one is wanted.

A job that raises is never retried (D-03): the exception is raised again on the loop, where it ends the
process.
"""

import queue
import threading
from asyncio import AbstractEventLoop
from collections.abc import Callable
from typing import Any, TypeAlias

Job: TypeAlias = Callable[[], Any]
Done: TypeAlias = Callable[[Any], None]


class Worker:
    """A thread that runs jobs in the order in which they were submitted."""

    def __init__(self, loop: AbstractEventLoop, name: str) -> None:
        self._loop = loop
        self._jobs: queue.SimpleQueue[tuple[Job, Done] | None] = queue.SimpleQueue()
        self._finished: queue.SimpleQueue[tuple[Done, Any] | BaseException] = queue.SimpleQueue()
        self._pending = 0
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    @property
    def pending(self) -> int:
        """Jobs whose completion has not been taken on the loop yet."""
        return self._pending

    def submit(self, job: Job, done: Done) -> None:
        """Run `job` in the thread, then `done(result)` on the loop."""
        self._pending += 1
        self._jobs.put((job, done))

    def settle(self) -> None:
        """Wait, on the loop, until every submitted job has ended, and take the completions now.

        This blocks: only barriers (a truncation) and the end of the process may ask for it.
        """
        while self._pending:
            self._take(self._finished.get())

    def stop(self) -> None:
        """Finish what was submitted, without taking its completions, and end the thread."""
        self._jobs.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (item := self._jobs.get()) is not None:
            job, done = item
            try:
                self._finished.put((done, job()))
            except BaseException as error:  # noqa: BLE001 - raised again on the loop
                self._finished.put(error)
            self._loop.call_soon_threadsafe(self._take_one)

    def _take_one(self) -> None:
        # A settle may have taken this completion already; then there is nothing left to take.
        if not self._finished.empty():
            self._take(self._finished.get_nowait())

    def _take(self, finished: tuple[Done, Any] | BaseException) -> None:
        self._pending -= 1
        if isinstance(finished, BaseException):
            raise finished
        done, result = finished
        done(result)
