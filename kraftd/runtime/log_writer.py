"""A thread that writes the lines of the log, so that no stream of a log can hold up a node, or end it.

Entered through `LogWriter.write`, in any thread. Lines are written in the order in which they came. Nobody
waits for that but who ends the process: `flush`.

What the stream does not take is lost, and counted: a line that cannot be written (no space is left, the
reader of a pipe has gone), and one for which there is no room, since a reader has stopped and so many lines
wait already. The next line that is written has one before it that tells how many were lost there. A line of
which a part was written before the space ended has an end of its own, so that the next one is whole.

Not here: what stands in a line (`observability`).
"""

import os
import queue
import select
import signal
import threading
from collections.abc import Callable

WAITING_BYTES_MAX = 1024 * 1024
"""Lines that wait for the stream; some thousands."""

LAST_WORDS_S = 1.0
"""How long the end of a process waits for its lines; longer only a reader takes that has stopped."""


class LogWriter:
    """The end of a log: one descriptor, and the thread that writes to it."""

    def __init__(self, descriptor: int, lost_line: Callable[[int], str]) -> None:
        """Start the thread.

        Args:
            descriptor: What is written to; it stays open.
            lost_line: The line that tells that so many were lost.
        """
        self._descriptor = descriptor
        self._lost_line = lost_line
        self._items: queue.SimpleQueue[bytes | int | threading.Event] = queue.SimpleQueue()
        """Lines; how many were lost for want of room between two lines; who waits for all before it."""
        self._lock = threading.Lock()
        """For those who write, and the three counters that are theirs."""
        self._put_bytes = 0
        self._refused = 0
        """Lines for which there was no room, ever."""
        self._refused_now = 0
        """Those since the last one for which there was."""
        self._taken_bytes = 0  # this and all below is the thread's
        self._not_taken = 0
        """Lines that the stream did not take, ever."""
        self._untold = 0
        """Lines that were lost since the last one that was written."""
        self._is_torn = False
        """Whether the last bytes that were written are no whole line."""
        _start_without_signals(threading.Thread(target=self._work, name="kraftd-log", daemon=True))

    @property
    def lines_lost(self) -> int:
        """How many lines were lost since the start."""
        return self._refused + self._not_taken

    def write(self, line: str) -> None:
        """Write a line, without its end, as soon as the stream takes it. Waits for nothing."""
        data = line.encode("utf-8", "backslashreplace") + b"\n"
        with self._lock:
            waiting = self._put_bytes - self._taken_bytes
            if waiting and waiting + len(data) > WAITING_BYTES_MAX:
                self._refused += 1
                self._refused_now += 1
                return
            self._put_refused()
            self._put_bytes += len(data)
            self._items.put(data)

    def flush(self, timeout_s: float = LAST_WORDS_S) -> bool:
        """Wait until all lines are written or lost. Returns whether they are; not, if it takes longer."""
        is_done = threading.Event()
        with self._lock:
            self._put_refused()
            self._items.put(is_done)
        return is_done.wait(timeout_s)

    def _put_refused(self) -> None:
        """Note, in its place among the lines, that there was no room for some."""
        if self._refused_now:
            self._items.put(self._refused_now)
            self._refused_now = 0

    # In the thread.

    def _work(self) -> None:
        while True:
            item = self._items.get()
            if isinstance(item, bytes):
                self._write_or_lose(item)
                with self._lock:
                    self._taken_bytes += len(item)
                    if self._items.empty():
                        self._put_refused()  # else the next line does, or who waits for all
            elif isinstance(item, int):
                self._untold += item
                self._tell_lost()
            else:
                item.set()

    def _write_or_lose(self, line: bytes) -> None:
        if not self._tell_lost() or not self._is_taken(line):
            self._not_taken += 1
            self._untold += 1

    def _tell_lost(self) -> bool:
        """Tell of the lines that were lost, if any were. Returns whether the stream takes lines."""
        if not self._untold:
            return True
        if not self._is_taken(self._lost_line(self._untold).encode("utf-8", "backslashreplace") + b"\n"):
            return False
        self._untold = 0
        return True

    def _is_taken(self, line: bytes) -> bool:
        """Write a line, waiting as long as it takes. Returns whether it is written, and not lost."""
        left = memoryview(b"\n" + line if self._is_torn else line)
        while left:
            try:
                left = left[os.write(self._descriptor, left) :]
            except BlockingIOError:
                self._wait_for_room()
                continue
            except OSError:
                return False
            self._is_torn = bool(left)
        return True

    def _wait_for_room(self) -> None:
        """Wait for a stream that another program has told to make nobody wait: they share this setting."""
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        poll.poll()


def _start_without_signals(thread: threading.Thread) -> None:
    """Start a thread that no signal is delivered to: they are for those who listen to them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    thread.start()
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
