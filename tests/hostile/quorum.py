"""A quorum of real daemons under a load of commits, and what can be known of it from outside.

Daemons are started and ended with `tests.process.cluster`; everything that is asked of them is asked by the
attacker's own client. `Quorum.facts` is who leads, `Quorum.durable` what an attack may not change,
`Quorum.why_not_well` why all is not well, if it is not.
"""

import contextlib
import json
import os
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgpack

from kraftd.runtime.config_values import STANDARD_AUTHORIZER
from tests.hostile import innocent, wire
from tests.hostile.client import Line
from tests.process.cluster import Cluster, Node

WELL_S = 30.0
"""How long all may take to be well before anybody gives up waiting; verdicts have bounds of their own."""

ENDED = "ended:"
"""How `Quorum.why_not_well` begins if a process is gone: no waiting helps."""

SIDECAR_HEAD = struct.Struct(">8sHHI")
SIDECAR_SLOT_BYTES = 4_096
SIDECAR_FIXED = struct.Struct(">qqi")
PEERS_ELEMENT = 4


class Facts(NamedTuple):
    """Who leads, as all nodes agree."""

    leader_id: int
    epoch: int
    high_watermark: int


class Durable(NamedTuple):
    """What a node has on disk that nobody outside may change."""

    election: bytes
    """The file `quorum-state`."""
    peers: Mapping[int, tuple[bytes, int]]
    """Directory and start counter of each voter that it remembers."""


class Commit(NamedTuple):
    """One commit of the innocent client; `ended` is -1 if it was still open at the end."""

    worker: int
    began: float
    ended: float
    tries: int
    value: int


class Load:
    """The innocent client's process."""

    def __init__(self, folder: Path, ports: list[int], rate: float) -> None:
        self.path = folder / f"innocent-{time.monotonic_ns()}.txt"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.hostile.innocent", str(self.path), str(rate), *map(str, ports)],
            stdin=subprocess.PIPE,
        )

    def stop(self) -> None:
        """End it; what was open is written down."""
        assert self.process.stdin is not None
        if self.process.poll() is None:
            self.process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(10)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def commits(self) -> list[Commit]:
        """Every commit so far."""
        if not self.path.exists():
            return []
        lines = self.path.read_text(encoding="utf-8").split("\n")[:-1]
        words = [line.split() for line in lines]
        return [Commit(int(a), float(b), float(c), int(d), int(e)) for a, b, c, d, e in words]


class MemoryWatch:
    """The largest resident size of each node while it watches, and how much longer its log got."""

    def __init__(self, quorum: "Quorum") -> None:
        self._logged_before = quorum.log_bytes()
        self.logged = dict.fromkeys(self._logged_before, 0)
        """Bytes of records that each node wrote meanwhile; less if segments were removed."""
        self.before = quorum.rss()
        self.peak = dict(self.before)
        self._quorum = quorum
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._look()
        self._stopped.set()
        self._thread.join()
        for node_id, size in self._quorum.log_bytes().items():
            self.logged[node_id] = max(0, size - self._logged_before[node_id])

    @property
    def growth(self) -> dict[int, int]:
        """Bytes by which each node grew; a node that was restarted counts from nothing."""
        return {node_id: max(0, self.peak[node_id] - self.before.get(node_id, 0)) for node_id in self.peak}

    def _watch(self) -> None:
        while not self._stopped.wait(0.05):
            self._look()

    def _look(self) -> None:
        for node_id, size in self._quorum.rss().items():
            self.peak[node_id] = max(self.peak.get(node_id, 0), size)


AUTHORIZED = {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:ANONYMOUS;User:alice",
    "delegation.token.secret.key": "known to everybody",
}
"""So that what is said about ACLs and tokens is decided, and nobody is kept from anything."""


class Quorum:
    """Three nodes, an innocent client, and eyes on both."""

    def __init__(
        self,
        folder: Path,
        *,
        rate: float = 480.0,
        nofile: int | None = None,
        http: bool = False,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        command: tuple[str, ...] = (sys.executable, "-m", "kraftd")
        if nofile is not None:
            command = ("sh", "-c", f'ulimit -n {nofile} && exec "$0" "$@"', *command)
        self.folder = folder
        self.rate = rate
        settings = AUTHORIZED | dict(settings or {})
        self.cluster = Cluster(folder, 3, settings=settings, http=http, command=command)
        self.loads: list[Load] = []
        try:
            self.wait_well(WELL_S)
            self.start_load()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Quorum":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for load in self.loads:
            load.stop()
        self.cluster.close()

    # The load.

    def start_load(self) -> None:
        """Let the innocent client commit."""
        self.loads.append(Load(self.folder, self.ports, self.rate))

    def stop_load(self) -> None:
        """End the innocent client."""
        self.loads[-1].stop()

    def commits(self) -> list[Commit]:
        """What the innocent client did so far, in this and earlier loads."""
        return [commit for load in self.loads for commit in load.commits()]

    def lost(self) -> list[str]:
        """Confirmed writes that are not there. Ask when no load runs."""
        confirmed: dict[int, int] = {}
        for load in self.loads[-1:]:
            for commit in load.commits():
                if commit.ended >= 0:
                    confirmed[commit.worker] = commit.value
        found = []
        for worker, value in confirmed.items():
            there = self.read_config(str(innocent.FIRST_BROKER + worker))
            if there is None or int(there) < value:
                found.append(f"worker {worker} was told that {value} is committed, {there} is there")
        return found

    # The nodes.

    @property
    def ports(self) -> list[int]:
        return [node.port for node in self.cluster]

    @property
    def nodes(self) -> list[Node]:
        return list(self.cluster)

    def line(self, node_id: int, **options: Any) -> Line:
        """An uncounted connection of a client that greeted."""
        line = Line(self.cluster[node_id].port, **options)
        try:
            line.greet()
        except BaseException:
            line.close()
            raise
        return line

    def describe(self, node_id: int, timeout_s: float = 2.0) -> dict[str, Any]:
        """A node's own view.

        Raises:
            OSError: It does not answer.
        """
        with self.line(node_id, timeout_s=timeout_s) as line:
            return line.ask("DescribeNode")

    def facts(self, timeout_s: float = 2.0) -> Facts | str:
        """Who leads, or why nobody can tell."""
        views = {}
        for node in self.cluster.running():
            try:
                views[node.node_id] = self.describe(node.node_id, timeout_s)
            except (OSError, IndexError, KeyError, ValueError) as error:
                return f"node {node.node_id} does not answer: {type(error).__name__}: {error}"
        said = {(view["LeaderId"], view["Epoch"]) for view in views.values()}
        if len(said) != 1:
            return f"leader and epoch are {sorted(said)}"
        leader_id, epoch = said.pop()
        if leader_id < 0 or views.get(leader_id, {}).get("Role") != "leader":
            return f"nobody leads in epoch {epoch}"
        return Facts(leader_id, epoch, views[leader_id]["HighWatermark"])

    def wait_facts(self, timeout_s: float = WELL_S) -> Facts:
        """Who leads, waiting until all agree."""
        deadline = time.monotonic() + timeout_s
        while isinstance(facts := self.facts(), str):
            if time.monotonic() > deadline:
                raise AssertionError(facts)
            time.sleep(0.05)
        return facts

    def why_not_well(self) -> str | None:
        """Why all is not well; None if all run, agree, commit, and hold what the leader has committed."""
        ended = [node.node_id for node in self.cluster if not node.is_running]
        if ended:
            return f"{ENDED} {ended}"
        facts = self.facts()
        if isinstance(facts, str):
            return facts
        try:
            if self.write_config(facts.leader_id) != 0:
                return "the leader did not commit"
            wanted = self.describe(facts.leader_id)["HighWatermark"]
            for node in self.cluster:
                view = self.describe(node.node_id)
                if view["AppliedOffset"] < facts.high_watermark:
                    return f"node {node.node_id} has applied {view['AppliedOffset']} of {wanted}"
                if view["Alarms"]:
                    return f"node {node.node_id}: {view['Alarms'][0][:200]}"
        except (OSError, IndexError, KeyError, ValueError) as error:
            return f"{type(error).__name__}: {error}"
        return None

    def wait_well(self, timeout_s: float) -> float:
        """Wait until all is well; the seconds it took.

        Raises:
            AssertionError: It was not well in time; the text says why.
        """
        began = time.monotonic()
        while (why := self.why_not_well()) is not None:
            if time.monotonic() - began > timeout_s or why.startswith(ENDED):
                raise AssertionError(f"not well after {time.monotonic() - began:.1f} s: {why}")
            time.sleep(0.02)
        return time.monotonic() - began

    def write_config(self, node_id: int, broker: str = "99", value: str = "x", timeout_s: float = 2.0) -> int:
        """Commit a config at this node; the error code."""
        with self.line(node_id, timeout_s=timeout_s) as line:
            config = {"Name": innocent.CONFIG, "ConfigOperation": 0, "Value": value}
            resource = {"ResourceType": 4, "ResourceName": broker, "Configs": [config]}
            response = line.ask("IncrementalAlterConfigs", {"Resources": [resource]})
            return int(response["Responses"][0]["ErrorCode"])

    def read_config(self, broker: str) -> str | None:
        """A broker's config, read at the leader."""
        facts = self.wait_facts()
        resource = {"ResourceType": 4, "ResourceName": broker, "ConfigurationKeys": [innocent.CONFIG]}
        with self.line(facts.leader_id) as line:
            result = line.ask("DescribeConfigs", {"Resources": [resource]})["Results"][0]
        values = [config["Value"] for config in result["Configs"] if config["Name"] == innocent.CONFIG]
        return values[0] if values else None

    def rss(self) -> dict[int, int]:
        """Resident bytes of each node that runs."""
        sizes = {}
        for node in self.cluster.running():
            with contextlib.suppress(OSError, IndexError):
                pages = Path(f"/proc/{node.pid}/statm").read_text(encoding="ascii").split()[1]
                sizes[node.node_id] = int(pages) * os.sysconf("SC_PAGE_SIZE")
        return sizes

    def log_bytes(self) -> dict[int, int]:
        """Bytes in the segments of each node's log."""
        sizes = dict.fromkeys((node.node_id for node in self.cluster), 0)
        for node in self.cluster:
            for segment in (node.directory / wire.METADATA_TOPIC_DIRECTORY).glob("*.log"):
                with contextlib.suppress(OSError):
                    sizes[node.node_id] += segment.stat().st_size
        return sizes

    def durable(self) -> dict[int, Durable]:
        """What each node has on disk."""
        return {node.node_id: durable_of(node.directory) for node in self.cluster}

    def restart(self) -> None:
        """Kill all, and start them again."""
        for node in self.cluster.running():
            node.kill()
        for node in self.cluster:
            node.start()

    def kraftctl(self, *words: str, bootstrap: str | None = None, timeout_s: float = 60.0) -> tuple[int, str]:
        """Exit code and output of a command; -1 if it did not end."""
        command = [sys.executable, "-m", "kraftd.cli.main", "--bootstrap-controller"]
        try:
            done = subprocess.run(
                [*command, bootstrap or self.cluster.bootstrap, *words],
                capture_output=True,
                text=True,
                check=False,
                timeout=timeout_s,
            )
        except subprocess.TimeoutExpired:
            return -1, "it did not end"
        return done.returncode, done.stdout + done.stderr


def durable_of(directory: Path) -> Durable:
    """Read a node's `quorum-state`, and the peers in its `kraftd.state`."""
    peers = {peer[0]: (peer[1], peer[2]) for peer in _peers_of(directory)}
    return Durable((directory / wire.METADATA_TOPIC_DIRECTORY / "quorum-state").read_bytes(), peers)


def start_ids_of(directory: Path) -> set[bytes]:
    """The start ids of other voters that a node remembers."""
    return {peer[3] for peer in _peers_of(directory)}


def _peers_of(directory: Path) -> list[Any]:
    """The peers in the newer slot of a node's `kraftd.state`."""
    data = (directory / "kraftd.state").read_bytes()
    best = -1
    peers: list[Any] = []
    for at in (0, SIDECAR_SLOT_BYTES):
        _, _, length, _ = SIDECAR_HEAD.unpack_from(data, at)
        body = data[at + SIDECAR_HEAD.size : at + SIDECAR_HEAD.size + length]
        with contextlib.suppress(struct.error, ValueError, IndexError, msgpack.UnpackException):
            sequence = SIDECAR_FIXED.unpack_from(body)[0]
            promises = msgpack.unpackb(body[SIDECAR_FIXED.size :], strict_map_key=False)
            if sequence > best:
                best, peers = sequence, promises[PEERS_ELEMENT]
    return peers


def last_words(node: Node) -> str:
    """Why a process ended, as it says."""
    with contextlib.suppress(AssertionError):
        return str(node.wait_for("fatal", timeout_s=1.0)["reason"])
    return node.last_lines(3)


def epoch_of(election: bytes) -> int:
    """The epoch in a `quorum-state`."""
    return int(json.loads(election.splitlines()[0])["leaderEpoch"])
