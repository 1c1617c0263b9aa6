"""The thread behind the log: no line waits for the stream, none is lost in silence, and the order stays."""

import contextlib
import errno
import os
import select
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kraftd.runtime import log_writer
from kraftd.runtime.log_writer import LogWriter

SOON_S = 10.0


class Pipe:
    """A pipe, and the writer of its one end."""

    def __init__(self) -> None:
        self.read_end, self.write_end = os.pipe()
        self.writer = LogWriter(self.write_end, lambda count: f"lost {count}")

    def fill(self) -> None:
        """Leave no room for another byte."""
        os.set_blocking(self.write_end, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(self.write_end, b"." * 4_096)
        os.set_blocking(self.write_end, True)

    def drain(self) -> list[str]:
        """All lines that are written, without what filled it."""
        os.set_blocking(self.read_end, False)
        data, is_done = b"", False
        while not is_done:
            is_done = self.writer.flush(0.01)
            with contextlib.suppress(BlockingIOError):
                while part := os.read(self.read_end, 1 << 20):
                    data += part
        return data.decode().lstrip(".").splitlines()

    def close(self) -> None:
        for end in (self.read_end, self.write_end):
            with contextlib.suppress(OSError):
                os.close(end)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    os.set_blocking(pipe.read_end, False)
    with contextlib.suppress(BlockingIOError, OSError):
        while os.read(pipe.read_end, 1 << 20):
            pass
    pipe.writer.flush(SOON_S)
    pipe.close()


class Disk:
    """Stands for `os.write`: takes so many bytes, and no more while it is full."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.written, self.room, self.failure = b"", 1 << 30, errno.ENOSPC
        monkeypatch.setattr(os, "write", self._write)
        self.writer = LogWriter(-1, lambda count: f"lost {count}")

    def _write(self, _descriptor: int, data: bytes) -> int:
        if not self.room:
            raise OSError(self.failure, os.strerror(self.failure))
        taken = bytes(data[: self.room])
        self.written += taken
        self.room -= len(taken)
        return len(taken)

    def say(self, *lines: str) -> None:
        for line in lines:
            self.writer.write(line)
        assert self.writer.flush(SOON_S)

    @property
    def lines(self) -> list[str]:
        return self.written.decode().splitlines()


def test_lines_come_out_in_their_order(pipe: Pipe) -> None:
    expected = [f"line {number} ü" for number in range(500)]
    for line in expected:
        pipe.writer.write(line)
    assert pipe.drain() == expected
    assert pipe.writer.lines_lost == 0


@pytest.mark.parametrize("failure", [errno.ENOSPC, errno.EPIPE, errno.EIO])
def test_lines_that_the_stream_does_not_take_are_lost_and_told_once_it_does(
    monkeypatch: pytest.MonkeyPatch, failure: int
) -> None:
    disk = Disk(monkeypatch)
    disk.say("one")
    disk.room, disk.failure = 0, failure
    disk.say("two", "three")
    assert disk.writer.lines_lost == 2
    disk.room = 1 << 30
    disk.say("four", "five")
    assert disk.lines == ["one", "lost 2", "four", "five"]
    disk.room = 0
    disk.say("six")
    disk.room = 1 << 30
    disk.say("seven")
    assert disk.lines[4:] == ["lost 1", "seven"]
    assert disk.writer.lines_lost == 3


def test_a_line_of_which_a_part_was_written_does_not_spoil_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = Disk(monkeypatch)
    disk.room = len("one\n") + 3
    disk.say("one", "twofold")
    disk.room = 1 << 30
    disk.say("three")
    assert disk.lines == ["one", "two", "lost 1", "three"]


def test_a_line_is_written_in_as_many_pieces_as_the_stream_takes(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda end, data: write(end, data[:3]))
    pipe.writer.write("a long line")
    pipe.writer.write("another")
    assert pipe.drain() == ["a long line", "another"]


def test_nobody_waits_for_a_reader_that_has_stopped(pipe: Pipe) -> None:
    """What waited and what was refused are told in their places, the refused ones as their number."""
    pipe.fill()
    kept = [f"kept {number:10} " + "x" * 1_000 for number in range(1_040)]
    assert sum(len(line) + 1 for line in kept) > log_writer.WAITING_BYTES_MAX
    for line in kept:
        pipe.writer.write(line)
    refused = pipe.writer.lines_lost
    assert refused > 0
    assert pipe.drain() == [*kept[:-refused], f"lost {refused}"]
    pipe.writer.write("after")
    assert pipe.drain() == ["after"]
    assert pipe.writer.lines_lost == refused


def test_what_is_refused_stands_between_what_was_said_before_and_after_it(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_writer, "WAITING_BYTES_MAX", 12)
    pipe.fill()
    for line in ("one", "two", "refused", "six"):
        pipe.writer.write(line)
    assert pipe.writer.lines_lost == 1
    assert pipe.drain() == ["one", "two", "lost 1", "six"]


def test_refused_lines_are_told_though_none_comes_after_them(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_writer, "WAITING_BYTES_MAX", 4)
    pipe.fill()
    pipe.writer.write("one")
    pipe.writer.write("two")
    data = b""
    while b"lost 1\n" not in data:
        assert select.select([pipe.read_end], [], [], SOON_S)[0], data.lstrip(b".")
        data += os.read(pipe.read_end, 1 << 20)
    assert data.lstrip(b".") == b"one\nlost 1\n"


def test_a_line_longer_than_all_that_may_wait_is_written(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_writer, "WAITING_BYTES_MAX", 10)
    pipe.writer.write("y" * 500)
    assert pipe.drain() == ["y" * 500]


def test_the_end_of_a_process_waits_for_its_lines_but_not_for_ever(pipe: Pipe) -> None:
    pipe.fill()
    pipe.writer.write("last words")
    assert not pipe.writer.flush(0.05)
    assert pipe.drain() == ["last words"]
    assert pipe.writer.flush(SOON_S)


def test_a_stream_that_others_made_non_blocking_is_waited_for(pipe: Pipe) -> None:
    pipe.fill()
    os.set_blocking(pipe.write_end, False)
    for line in ("one", "z" * 300_000, "three"):
        pipe.writer.write(line)
    assert pipe.drain() == ["one", "z" * 300_000, "three"]
    assert pipe.writer.lines_lost == 0


def test_no_signal_is_delivered_to_the_thread() -> None:
    """It runs before a node blocks its signals, and one that came to it would end the process."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    others = set(threading.enumerate())
    LogWriter(-1, str)
    (thread,) = set(threading.enumerate()) - others
    status = Path(f"/proc/self/task/{thread.native_id}/status").read_text(encoding="ascii").splitlines()
    blocked = next(int(line.split()[1], 16) for line in status if line.startswith("SigBlk"))
    assert blocked >> (signal.SIGTERM - 1) & 1
    assert blocked >> (signal.SIGHUP - 1) & 1
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
