"""A thread that runs blocking jobs (fsync, reads) one at a time, so that the loop never waits for the disk.

Entered through `Worker.submit`, on the loop. The job runs in the thread; its result comes back on the loop. A
queue and `call_soon_threadsafe` cost a third of an executor hop.

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
        self._is_finishing = False
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    @property
    def pending(self) -> int:
        """Jobs whose result has not been handled on the loop yet."""
        return self._pending

    def submit(self, job: Job, done: Done) -> None:
        """Run `job` in the thread, then `done(result)` on the loop; neither, once the end has begun."""
        if self._is_finishing:
            return
        self._pending += 1
        self._jobs.put((job, done))

    def drain(self) -> None:
        """Block the loop until every submitted job has ended, and handle their results now.

        Only barriers (a truncation) and the end of the process may do this.
        """
        while self._pending:
            self._finish(self._finished.get())

    def finish(self) -> None:
        """Drain, and end the thread: at the end of the process.

        What a result would have done next is not begun. A snapshot is read a piece at a time, and the result
        of one asks for the next: a stop would wait until all of them were checked.
        """
        self._is_finishing = True
        self.drain()
        self.stop()

    def stop(self) -> None:
        """Run what was submitted, drop the results, and end the thread."""
        self._jobs.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (item := self._jobs.get()) is not None:
            job, done = item
            try:
                self._finished.put((done, job()))
            except BaseException as error:  # noqa: BLE001 - raised again on the loop
                self._finished.put(error)
            try:
                self._loop.call_soon_threadsafe(self._finish_one)
            except RuntimeError:
                # Whatever closed the loop ends the process, and its reason must be the one that is told: not
                # that a check of the disk, which was under way, has nobody left to tell.
                if not self._loop.is_closed():
                    raise

    def _finish_one(self) -> None:
        # `drain` may have handled this result already: its call was scheduled before, and finds nothing.
        if not self._finished.empty():
            self._finish(self._finished.get_nowait())

    def _finish(self, finished: tuple[Done, Any] | BaseException) -> None:
        self._pending -= 1
        if isinstance(finished, BaseException):
            raise finished
        done, result = finished
        done(result)
