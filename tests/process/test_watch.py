"""`kraftctl watch` at real daemons: what is committed, from any node, on and on."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster import WAIT_S, Cluster, Node

from tests.process.test_kraftctl import ENVIRONMENT, kraftctl, settled

Start = Callable[..., Cluster]
Line = dict[str, Any]


class Watcher:
    """`kraftctl watch` as a process of its own."""

    def __init__(self, bootstrap: str, *arguments: object) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "kraftd.cli.main", "watch", *map(str, arguments)],
            env=ENVIRONMENT | {"KRAFTD_BOOTSTRAP": bootstrap},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> "Watcher":
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._reader.join()
        self._process.communicate()

    def __iter__(self) -> Iterator[Line]:
        while True:
            line: Line = json.loads(self._lines.get(timeout=WAIT_S))
            yield line

    def until(self, is_last: Callable[[Line], bool]) -> list[Line]:
        """All lines up to one, which is the last of them."""
        found = []
        for line in self:
            found.append(line)
            if is_last(line):
                break
        return found

    def interrupt(self) -> tuple[int, str]:
        """Ctrl-C; its exit code, and what it said to the person at the terminal."""
        self._process.send_signal(signal.SIGINT)
        assert self._process.stderr is not None
        said = self._process.stderr.read()
        return self._process.wait(WAIT_S), said

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)


def follower_of(cluster: Cluster) -> Node:
    leader = cluster.wait_leader()
    return next(node for node in cluster if node is not leader)


def sets(value: str) -> Callable[[Line], bool]:
    """Whether a line is the record that sets a config to that value."""
    return lambda line: line.get("type") == "CONFIG_RECORD" and line["data"]["value"] == value


@pytest.mark.covers("D-24")
def test_a_follower_tells_every_record_as_it_is_committed(start: Start) -> None:
    cluster = settled(start)
    with Watcher(f"127.0.0.1:{follower_of(cluster).port}", "--from", 0) as watcher:
        cluster.commit("log.cleaner.threads", "3")
        told = watcher.until(sets("3"))
        cluster.commit("log.cleaner.threads", "4")
        told += watcher.until(sets("4"))
        assert watcher.interrupt()[0] == 130
    assert [line["offset"] for line in told] == list(range(len(told)))
    assert told[0]["type"] == "LeaderChange"
    assert {line["kind"] for line in told} == {"record"}


def test_without_an_offset_it_begins_with_what_comes_next(start: Start) -> None:
    cluster = settled(start)
    cluster.commit("log.cleaner.threads", "3")
    with Watcher(cluster.bootstrap) as watcher:
        next(iter(watcher))  # a NoOp, or what is committed first
        cluster.commit("log.cleaner.threads", "4")
        told = watcher.until(sets("4"))
    assert not any(sets("3")(line) for line in told)


def test_changes_are_told_in_the_words_of_an_operator_and_secrets_are_not(start: Start) -> None:
    cluster = settled(start)
    with Watcher(cluster.bootstrap, "--changes", "--from", 0) as watcher:
        cluster.commit("listener.name.internal.ssl.keystore.password", "swordfish", broker="2")
        cluster.commit("log.cleaner.threads", "3")
        told = watcher.until(lambda line: line["after"] == "3")
    assert {line["kind"] for line in told} == {"change"}
    (secret,) = [line for line in told if "keystore.password" in json.dumps(line)]
    assert "swordfish" not in json.dumps(secret)
    assert told[0]["entity"] == "quorum"
    with Watcher(cluster.bootstrap, "--changes", "--from", secret["offset"] + 1) as watcher:
        again = watcher.until(lambda line: line["after"] == "3")
    assert again == [line for line in told if line["offset"] > secret["offset"]]


@pytest.mark.parametrize("names_others", [True, False], ids=["all are named", "one is named"])
def test_a_node_that_is_killed_costs_no_record_and_repeats_none(start: Start, names_others: bool) -> None:
    cluster = settled(start)
    watched = follower_of(cluster)
    others = [node for node in cluster if node is not watched] if names_others else []
    with Watcher(",".join(f"127.0.0.1:{node.port}" for node in (watched, *others)), "--from", 0) as watcher:
        cluster.commit("log.cleaner.threads", "3")
        told = watcher.until(sets("3"))
        watched.kill()
        cluster.commit("log.cleaner.threads", "4")
        told += watcher.until(sets("4"))
        code, said = watcher.interrupt()
    assert [line["offset"] for line in told] == list(range(len(told)))
    assert code == 130
    assert said.count("\n") == 1, said
    assert f"127.0.0.1:{watched.port}: " in said
    assert "going on at offset" in said


def test_a_reader_that_left_ends_it_quietly(start: Start) -> None:
    cluster = settled(start)
    read, write = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", "kraftd.cli.main", "watch", "--from", "0"],
        env=ENVIRONMENT | {"KRAFTD_BOOTSTRAP": cluster.bootstrap},
        stdout=write,
        stderr=subprocess.PIPE,
    )
    os.close(write)
    assert os.read(read, 1)
    os.close(read)
    _, said = process.communicate(timeout=WAIT_S)
    assert (process.returncode, said) == (141, b"")


def test_what_cannot_be_watched_is_said_in_one_line(tmp_path: Path) -> None:
    nobody = kraftctl("127.0.0.1:1", "watch")
    assert nobody.code == 2
    assert nobody.err.count("\n") == 1
    assert "127.0.0.1:1: connection refused" in nobody.err
    assert kraftctl("127.0.0.1:1", "watch", "--from", "-1").code == 64
