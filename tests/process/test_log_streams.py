"""A log whose stream takes nothing: the node goes on, is told to stop and stops, and says what was lost."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from cluster import WAIT_S, Cluster, Node

from kraftd.protocol.messages import DescribeNodeRequest

NAME = "ssl.cipher.suites"
BOMB = Path(__file__).parent / "bomb.py"
Start = Callable[..., Cluster]


class Running:
    """A node whose stderr is in our hands, and no `Node` reads it."""

    def __init__(self, node: Node, stderr: int, *, command: tuple[str, ...] = ("-m", "kraftd")) -> None:
        self.node = node
        self.process = subprocess.Popen(
            [sys.executable, *command, "start", str(node.config_path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
        )

    def commits(self, value: str) -> None:
        """Commit something, by a connection that asks until it is done."""
        while True:
            assert self.process.poll() is None, "it has ended"
            with contextlib.suppress(OSError), self.node.client(1.0) as client:
                if client.set_config(NAME, value, broker="1") == 0:
                    return

    def lines_lost(self) -> float:
        with urllib.request.urlopen(
            f"http://127.0.0.1:{self.node.http_port}/metrics", timeout=WAIT_S
        ) as page:
            for line in page.read().decode().splitlines():
                if line.startswith("kraftd_log_lines_lost_total "):
                    return float(line.split()[1])
        raise AssertionError("no such number")

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(WAIT_S)


@pytest.fixture
def run(start: Start) -> Iterator[Callable[..., Running]]:
    all_of_them: list[Running] = []

    def make(stderr: int, metrics_ms: int = 20, **options: Any) -> Running:
        settings = {"kraftd.metrics.interval.ms": str(metrics_ms)}
        cluster = start(1, start=False, http=True, settings=settings)
        running = Running(cluster[1], stderr, **options)
        all_of_them.append(running)
        return running

    yield make
    for running in all_of_them:
        running.process.kill()
        running.process.wait()


def read_until(read_end: int, text: bytes, data: bytes = b"") -> bytes:
    while text not in data:
        part = os.read(read_end, 1 << 20)
        assert part, "it has ended"
        data += part
    return data


def parsed(data: bytes) -> list[Mapping[str, Any]]:
    return [json.loads(line) for line in data.splitlines()]


def test_a_node_whose_reader_has_gone_lives_and_stops_in_order(run: Callable[..., Running]) -> None:
    """`kraftd start … 2>&1 | tee node.log`, and `tee` is killed."""
    read_end, write_end = os.pipe()
    running = run(write_end)
    os.close(write_end)
    read_until(read_end, b'"metrics"')
    os.close(read_end)
    running.commits("one")
    before = running.lines_lost()
    while running.lines_lost() < before + 5:
        running.commits("two")
    assert running.stop() == 0


def test_a_disk_that_is_full_from_the_start_keeps_nobody_from_committing(run: Callable[..., Running]) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    running = run(full)
    os.close(full)
    running.commits("one")
    assert running.lines_lost() > 3
    assert running.stop() == 0


def test_a_node_without_stderr_lives(run: Callable[..., Running]) -> None:
    closing = ("-c", "import os, sys; os.close(2); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])")
    running = run(subprocess.DEVNULL, command=(*closing, "-m", "kraftd"))
    running.commits("one")
    assert Path(f"/proc/{running.process.pid}/fd/2").readlink() == Path(os.devnull)
    assert running.stop() == 0


def test_a_reader_that_has_stopped_holds_nobody_up(run: Callable[..., Running]) -> None:
    """Once it reads again it gets all that waited, how many lines were lost, and what comes after."""
    read_end, write_end = os.pipe()
    running = run(write_end, metrics_ms=1)
    os.close(write_end)
    data = read_until(read_end, b'"metrics"')
    while running.lines_lost() < 10:
        with running.node.client(5.0) as client:
            client.ask(DescribeNodeRequest())
    running.commits("one")
    data = read_until(read_end, b'"log_lines_lost"', data)
    data = read_until(read_end, b'"metrics"', data) + os.read(read_end, 1 << 20)
    lines = parsed(data[: data.rindex(b"\n")])
    lost = [line for line in lines if line["event"] == "log_lines_lost"]
    assert sum(line["lines"] for line in lost) >= 10
    assert [line["timestamp"] for line in lines if line not in lost] == sorted(
        line["timestamp"] for line in lines if line not in lost
    )
    running.process.send_signal(signal.SIGTERM)
    assert parsed(read_to_the_end(read_end, data[data.rindex(b"\n") + 1 :]))[-1]["event"] == "stopped"
    assert running.process.wait(WAIT_S) == 0
    os.close(read_end)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_reader_that_has_stopped_keeps_nobody_from_stopping(
    run: Callable[..., Running], number: signal.Signals
) -> None:
    read_end, write_end = os.pipe()
    running = run(write_end, metrics_ms=1)
    os.close(write_end)
    while True:
        with contextlib.suppress(OSError):
            if running.lines_lost() > 0:
                break
    assert running.stop(number) == 0
    os.close(read_end)


def test_the_last_line_before_an_abort_is_read(run: Callable[..., Running]) -> None:
    """It waits behind others that are still being written."""
    read_end, write_end = os.pipe()
    running = run(write_end, metrics_ms=1, command=(str(BOMB), "timer"))
    os.close(write_end)
    data = read_to_the_end(read_end)
    assert running.process.wait(WAIT_S) == 1
    last = parsed(data)[-1]
    assert (last["event"], "boom" in last["reason"]) == ("fatal", True)
    os.close(read_end)


def read_to_the_end(read_end: int, data: bytes = b"") -> bytes:
    while part := os.read(read_end, 1 << 20):
        data += part
    return data
