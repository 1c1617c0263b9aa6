"""How a node ends: with one clear line and a non-zero code, whatever it was that nobody expected."""

import contextlib
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cluster import Cluster

from kraftd.protocol.messages import DescribeQuorumRequest

BOMB = Path(__file__).parent / "bomb.py"
NAME = "ssl.cipher.suites"
Start = Callable[..., Cluster]


@pytest.mark.covers("D-17", "RSG-14")
@pytest.mark.parametrize(
    "place",
    [
        "handler",
        "oserror",
        "raft",
        "executor",
        "storage",
        "apply",
        "timer",
        "soon",
        "thread",
        "plain-thread",
        "task",
    ],
)
def test_an_unexpected_exception_ends_the_process(start: Start, place: str) -> None:
    cluster = start(1, command=(sys.executable, str(BOMB), place))
    node = cluster[1]
    node.wait_for("started")
    if place in ("handler", "oserror", "raft"):
        with contextlib.suppress(OSError), node.client(5.0) as client:
            client.ask(DescribeQuorumRequest())
    assert node.wait_exit() == 1
    assert "boom" in node.wait_for("fatal")["reason"]


@pytest.mark.covers("D-14", "D-17")
@pytest.mark.parametrize("place", ["framing", "codec", "handshake", "encoding"])
def test_an_unexpected_exception_between_bytes_and_messages_costs_one_connection(
    start: Start, place: str
) -> None:
    cluster = start(1, command=(sys.executable, str(BOMB), place))
    node = cluster[1]
    node.wait_for("started")
    with pytest.raises(OSError, match="closed"):
        node.client(5.0)
    assert "boom" in node.wait_for("connection_broken")["reason"]
    node = cluster.wait_leader()
    cluster.commit(NAME, "still here", broker="1")
    assert node.is_running


@pytest.mark.covers("D-03", "D-17")
def test_a_disk_that_refuses_a_flush_ends_the_process_and_is_not_asked_again(start: Start) -> None:
    cluster = start(1, command=(sys.executable, str(BOMB), "fsync"))
    node = cluster[1]
    assert node.wait_exit() == 1
    assert "Input/output error" in node.wait_for("fatal")["reason"]
    assert node.count("fatal") == 1


def test_the_first_signal_hands_over_and_the_second_stops_at_once(start: Start) -> None:
    cluster = start(settings={"kraftd.shutdown.timeout.ms": "60000"})
    leader = cluster.wait_leader()
    for node in cluster:
        if node is not leader:
            node.pause()
    leader.signal(signal.SIGTERM)
    leader.wait_for("stopping")
    leader.signal(signal.SIGTERM)
    assert leader.wait_exit(5.0) == 128 + signal.SIGTERM
    assert leader.wait_for("stopped_at_once")


def test_a_clean_stop_leaves_a_directory_that_opens_without_a_warning(start: Start) -> None:
    cluster = start(1)
    node = cluster.wait_leader()
    cluster.commit(NAME, "x", broker="1")
    assert node.stop() == 0
    mark = node.mark()
    node.start()
    node.wait_for("started", since=mark)
    cluster.wait_leader()
    assert node.count("directory") == 0
    assert node.stop() == 0


def test_wrong_usage_is_64(start: Start) -> None:
    cluster = start(1, start=False)
    cluster.command = (sys.executable, "-m", "kraftd", "begin")
    cluster[1].start()
    assert cluster[1].wait_exit() == 64
