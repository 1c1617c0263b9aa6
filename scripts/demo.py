"""`make demo`: a quorum of three on this machine, from the first format to the replay of what it wrote.

Runs the real commands on real daemons in a temporary directory, shows each before it runs, and ends with
what was measured. Anything that does not go as told ends it with exit code 1; nothing is left running,
and the directory goes too. It needs free ports only, so it may run beside anything else; the replay needs
Java 17.
"""

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.rule import Rule
from rich.text import Text

from kraftd.cli.configs import change
from kraftd.types import Endpoint

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
NODES = (1, 2, 3)
LOCAL_PORTS = {"9191": 0, "9192": 1, "9193": 2, "8191": 3, "8192": 4, "8193": 5}
NOT_HEALTHY = 5

console = Console(highlight=False, width=None if sys.stdout.isatty() else 118)


class DemoError(Exception):
    """Something did not go as told."""


class Quorum:
    """Three nodes in one directory, their configurations taken from config/ and moved to free ports."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        ports = free_ports(len(LOCAL_PORTS))
        self.endpoints = [Endpoint("127.0.0.1", ports[index]) for index in range(len(NODES))]
        for node in NODES:
            text = (ROOT / "config" / f"local-{node}.properties").read_text(encoding="utf-8")
            moved = re.sub(r":(\d{4})\b", lambda found: f":{ports[LOCAL_PORTS[found[1]]]}", text)
            (directory / f"node-{node}.properties").write_text(moved, encoding="utf-8")
        self._daemons: dict[int, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> "Quorum":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        if kind is not None:
            self._show_logs()
        for daemon in self._daemons.values():
            daemon.kill()
            daemon.wait()

    def start(self, *nodes: int) -> None:
        for node in nodes:
            command = ["kraftd", "start", f"node-{node}.properties"]
            show(f"{shlex.join(command)} 2>node-{node}.log &")
            with (self.directory / f"node-{node}.log").open("ab") as log:
                command[0] = str(BIN / command[0])
                self._daemons[node] = subprocess.Popen(command, cwd=self.directory, stderr=log)

    def stop(self, node: int, number: signal.Signals) -> float:
        """Send a signal and return the moment it was sent."""
        daemon = self._daemons[node]
        show(f"kill -{number.name.removeprefix('SIG')} {daemon.pid}", note=f"node {node}")
        daemon.send_signal(number)
        return time.perf_counter()

    def wait_stopped(self, *nodes: int) -> None:
        for node in nodes:
            code = self._daemons[node].wait(timeout=15)
            if code not in (0, -signal.SIGKILL):
                raise DemoError(f"node {node} ended with {code}")

    def ctl(self, *words: str, expect: int = 0, shown: bool = True, wanted: bool = False) -> str:
        """Run kraftctl, show the command and what it printed, and check its exit code.

        On a terminal it prints by itself, as wide as that is, unless what it printed is wanted.
        """
        if shown:
            show(shlex.join(["kraftctl", *words]))
        prints = shown and not wanted and console.is_terminal
        if prints:
            sys.stdout.flush()
        done = subprocess.run(
            [BIN / "kraftctl", *words],
            cwd=self.directory,
            env=os.environ | {"KRAFTD_BOOTSTRAP": self.bootstrap},
            stdout=None if prints else subprocess.PIPE,
            text=True,
            check=False,
        )
        if shown and not prints:
            console.print(Text(done.stdout.rstrip()), style="bright_black", soft_wrap=True)
        if done.returncode != expect:
            raise DemoError(f"kraftctl {words[0]} ended with {done.returncode}, not {expect}")
        return done.stdout or ""

    @property
    def bootstrap(self) -> str:
        return ",".join(map(str, self.endpoints))

    def wait_healthy(self, limit_s: float = 30) -> None:
        deadline = time.monotonic() + limit_s
        while True:
            try:
                self.ctl("health", shown=False)
            except DemoError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
            else:
                self.ctl("health")
                return

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.ctl("status", "-o", "json", shown=False))
        return found

    def leader(self) -> int:
        leader = self.status()["leader_id"]
        if leader not in NODES:
            raise DemoError("there is no leader")
        return int(leader)

    def _show_logs(self) -> None:
        for log in sorted(self.directory.glob("node-*.log")):
            console.print(f"\nthe end of {log.name}:")
            console.print(Text("\n".join(log.read_text(errors="replace").splitlines()[-8:])), soft_wrap=True)


def main() -> int:
    """Tell the story; the figures come last."""
    directory = Path(tempfile.mkdtemp(prefix="kraftd-demo-"))
    began = time.perf_counter()
    try:
        with Quorum(directory) as quorum:
            console.print(f"Everything happens in {directory}, which goes away at the end.")
            figures = [*found_a_cluster(quorum), *lose_the_leader(quorum), *hand_over(quorum)]
            lose_the_majority(quorum)
            figures += replay_the_log(quorum)
    except (DemoError, subprocess.TimeoutExpired) as error:
        console.print(f"\n[bold red]The demo failed:[/] {error}")
        return 1
    except KeyboardInterrupt:
        console.print("\nInterrupted: nothing is left running.")
        return 130
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    title("What was measured")
    for label, value in figures:
        console.print(f"  {label:<48} [bold]{value}[/]")
    console.print(f"  {'the whole demo':<48} [bold]{time.perf_counter() - began:.0f} s[/]\n")
    return 0


def found_a_cluster(quorum: Quorum) -> Iterator[tuple[str, str]]:
    """Format, start, look, write."""
    title("Three nodes, a cluster id, and a start")
    cluster_id = quorum.ctl("random-uuid", wanted=True).strip()
    for node in NODES:
        quorum.ctl("format", "--cluster-id", cluster_id, "--config", f"node-{node}.properties")
    began = time.perf_counter()
    quorum.start(*NODES)
    quorum.wait_healthy()
    yield "from three started processes to a healthy quorum", f"{time.perf_counter() - began:.2f} s"
    quorum.ctl("status")

    title("Dynamic configs, committed before they are confirmed")
    quorum.ctl("configs", "set", "log.retention.ms=604800000", "message.max.bytes=2097152")
    quorum.ctl("configs", "set", "--broker", "1", "log.cleaner.threads=2")
    quorum.ctl("configs", "list")


def lose_the_leader(quorum: Quorum) -> Iterator[tuple[str, str]]:
    """The leader is killed: the time to the next committed write, and the return."""
    leader = quorum.leader()
    title(f"kill -9 of the leader, node {leader}")
    killed = quorum.stop(leader, signal.SIGKILL)
    change(quorum.endpoints, "2", {"log.cleaner.threads": "4"}, 20_000)
    took_ms = (time.perf_counter() - killed) * 1000
    console.print(f"  the next write was committed [bold]{took_ms:.0f} ms[/] after the kill")
    yield "kill -9 of the leader to the next committed write", f"{took_ms:.0f} ms"
    quorum.wait_stopped(leader)
    quorum.ctl("status")
    console.print("\nThe killed node comes back, catches up, and is a follower.")
    quorum.start(leader)
    quorum.wait_healthy()
    quorum.ctl("replication")


def hand_over(quorum: Quorum) -> Iterator[tuple[str, str]]:
    """A leader that is asked to go, to a named successor."""
    leader = quorum.leader()
    successor = next(node for node in NODES if node != leader)
    title(f"Hand over from node {leader} to node {successor}, on purpose")
    shown = quorum.ctl("resign", "--to", str(successor), "--wait", wanted=True)
    took = re.search(r"LeaderlessMs:\s+(\d+)", shown)
    yield "hand-over without a leader", f"{took[1]} ms" if took else "see above"


def lose_the_majority(quorum: Quorum) -> None:
    """Two of three stop: the last one still answers, and says why nothing is committed."""
    stopped = [node for node in NODES if node != quorum.leader()]
    title("Without a majority")
    for node in stopped:
        quorum.stop(node, signal.SIGTERM)
    quorum.wait_stopped(*stopped)
    deadline = time.monotonic() + 20
    while quorum.status()["leader_id"] in NODES and time.monotonic() < deadline:
        time.sleep(0.2)
    quorum.ctl("status")
    quorum.ctl("health", expect=NOT_HEALTHY)
    console.print("\nThey come back, and nothing that was committed is lost.")
    quorum.start(*stopped)
    quorum.wait_healthy()


def replay_the_log(quorum: Quorum) -> Iterator[tuple[str, str]]:
    """Export from a running node, replay in Spark, and compare the images."""
    title("Export the log of a running node")
    node = quorum.leader()
    quorum.ctl("export", str(node), "exported")
    held = next(row["image_hash"] for row in quorum.status()["nodes"] if row["node_id"] == node)
    if shutil.which("java") is None:
        console.print("\nThere is no Java here (17 or newer): the Spark replay is left out.")
        return
    title("Replay it in Spark")
    began = time.perf_counter()
    report = quorum.ctl("replay", "exported", "--out", "replayed", wanted=True)
    yield "Spark replay of the export, JVM included", f"{time.perf_counter() - began:.1f} s"
    if held not in report:
        raise DemoError(f"the daemon's image is {held}, Spark's is another")
    console.print(
        f"\n  the image of node {node} and the one that Spark folded have one hash: [bold]{held}[/]"
    )


def title(text: str) -> None:
    console.print()
    console.print(Rule(f"[bold]{text}[/]", align="left", style="cyan"))


def show(command: str, note: str = "") -> None:
    line = Text.assemble(
        ("$ ", "green"), (command, "bold"), (f"    # {note}" if note else "", "bright_black")
    )
    console.print()
    console.print(line, soft_wrap=True)


def free_ports(count: int) -> Sequence[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


if __name__ == "__main__":
    sys.exit(main())
