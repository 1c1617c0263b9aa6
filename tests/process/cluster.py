"""Real daemons on this machine: started, watched, killed, paused and started again. No pytest in here.

`Cluster` formats N directories below a folder, gives each node a port that the kernel had free, and starts
`python -m kraftd`. Waiting is always for something that happened: a line in a node's JSON log
(`Node.wait_for`), or a response (`Client`). Nothing sleeps for a guessed time; every wait has a deadline and
says what it waited for.

    with Cluster(folder, size=3) as cluster:
        leader = cluster.wait_leader()
        with leader.client() as client:
            client.set_config("4", "", "log.retention.ms", "1000")
        leader.kill()

Every suite with real daemons stands on it: `machines` gives each node a network of its own, `tests.interop`
lets Kafka follow on the same directories, `tests.chaos.quorum` adds supervisors and things to break, and
`tests.hostile.quorum` a client whose commits are watched. Apart from it are `tests.interop.controllers`
(Kafka's own processes) and `benchmarks/peers/cluster.py` (any system under measurement).
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from kraftd.metadata.feature_levels import NEW_CLUSTER_LEVELS
from kraftd.net.handshake import Identity
from kraftd.protocol.codec import Codec
from kraftd.protocol.kafka_codec import KAFKA
from kraftd.protocol.messages import (
    ApiVersionsRequest,
    DescribeConfigsRequest,
    DescribeConfigsRequestDescribeConfigsResource,
    DescribeNodeRequest,
    DescribeNodeResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
    ListConfigsRequest,
    ResignLeaderRequest,
)
from kraftd.protocol.msgpack_codec import MSGPACK
from kraftd.storage import OsFileSystem, format_directory
from kraftd.types import uuid_text

WAIT_S = 30.0
BROKER = 4
"""Kafka's number of the broker resource type; an empty name is the cluster-wide default."""

DYNAMIC_BROKER, DYNAMIC_DEFAULT_BROKER = 2, 3
"""Kafka's numbers of where a dynamic config was set: on one broker, or for the cluster."""

Event = Mapping[str, Any]


class TimeoutWaitingError(AssertionError):
    """Something that had to happen did not."""


def free_ports(count: int) -> list[int]:
    """Ports that the kernel had free, all different."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


class Client:
    """A blocking client of one node: connect, greet, ask, one request at a time."""

    codec: ClassVar[Codec] = MSGPACK

    def __init__(
        self, port: int, *, host: str = "127.0.0.1", source: str = "", timeout_s: float = WAIT_S
    ) -> None:
        """Connect to a node. `source` is the address to come from, empty for whatever the kernel chooses."""
        self.socket = socket.create_connection((host, port), timeout_s, (source, 0) if source else None)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._last_id = 0
        self._buffer = b""
        try:
            self.greet()
        except BaseException:
            self.socket.close()
            raise

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def greet(self) -> None:
        """Begin the conversation."""
        self.node = self.ask(Identity(None, "cluster helper").greeting())

    def ask(self, message: Any, version: int | None = None) -> Any:
        """Send one request and wait for its response.

        Raises:
            OSError: The connection failed, or the node closed it.
        """
        return self.ask_with_records(message, version)[0]

    def ask_with_records(self, message: Any, version: int | None = None) -> tuple[Any, bytes]:
        """As `ask`, with the raw bytes that followed the body."""
        version = self.codec.apis[message.API_KEY].max_version if version is None else version
        self._last_id += 1
        request = self.codec.encode_request(version, self._last_id, "cluster-helper", message)
        self.socket.sendall(b"".join(request))
        undecoded = self.codec.read_response(self._frame())
        return undecoded.decode((message.API_KEY, version)), bytes(undecoded.records)

    def describe(self) -> DescribeNodeResponse:
        """The node's own view."""
        response: DescribeNodeResponse = self.ask(DescribeNodeRequest())
        return response

    def set_config(self, name: str, value: str, *, broker: str = "") -> int:
        """Set one dynamic config and wait for the commit; the error code."""
        return self.set_configs([(name, value)], broker=broker)

    def set_configs(self, pairs: Sequence[tuple[str, str]], *, broker: str = "") -> int:
        """Set several configs of one resource atomically; the error code."""
        response = self.ask(alter_request(pairs, broker=broker))
        code: int = response.responses[0].error_code
        return code

    def get_configs(self, *, broker: str = "") -> dict[str, str]:
        """The dynamic configs of one resource, read linearizably."""
        response = self.ask(
            DescribeConfigsRequest(
                resources=(
                    DescribeConfigsRequestDescribeConfigsResource(
                        resource_type=BROKER, resource_name=broker, configuration_keys=None
                    ),
                )
            )
        )
        result = response.results[0]
        if result.error_code:
            raise OSError(f"error {result.error_code}: {result.error_message}")
        source = DYNAMIC_BROKER if broker else DYNAMIC_DEFAULT_BROKER
        return {config.name: config.value for config in result.configs if config.config_source == source}

    def list_configs(self) -> Any:
        """Every dynamic config."""
        return self.ask(ListConfigsRequest())

    def resign(self, to: int = -1, timeout_ms: int = 5_000) -> Any:
        """Ask the leader to hand over."""
        return self.ask(ResignLeaderRequest(to=to, timeout_ms=timeout_ms))

    def _frame(self) -> bytes:
        while len(self._buffer) < 4 or len(self._buffer) < 4 + int.from_bytes(self._buffer[:4], "big"):
            data = self.socket.recv(1 << 20)
            if not data:
                raise ConnectionResetError("the node closed the connection")
            self._buffer += data
        end = 4 + int.from_bytes(self._buffer[:4], "big")
        frame, self._buffer = self._buffer[4:end], self._buffer[end:]
        return frame


class KafkaClient(Client):
    """A client that speaks Kafka's wire, and greets nobody."""

    codec = KAFKA

    def greet(self) -> None:
        """Ask what is served here, as Kafka's clients do first."""
        self.api_versions = self.ask(
            ApiVersionsRequest(client_software_name="cluster-helper", client_software_version="1")
        )


def alter_request(pairs: Sequence[tuple[str, str]], *, broker: str = "") -> IncrementalAlterConfigsRequest:
    """A request that sets configs of one broker, or the cluster-wide default."""
    return IncrementalAlterConfigsRequest(
        resources=(
            IncrementalAlterConfigsRequestAlterConfigsResource(
                resource_type=BROKER,
                resource_name=broker,
                configs=tuple(
                    IncrementalAlterConfigsRequestAlterableConfig(name=name, config_operation=0, value=value)
                    for name, value in pairs
                ),
            ),
        )
    )


class Node:
    """One daemon: its files, its process and what it said."""

    def __init__(self, cluster: "Cluster", node_id: int, port: int, http_port: int) -> None:
        self.cluster = cluster
        self.node_id = node_id
        self.port = port
        self.http_port = http_port
        self.directory = cluster.folder / f"node-{node_id}"
        self.config_path = cluster.folder / f"node-{node_id}.properties"
        self.log_path = cluster.folder / f"node-{node_id}.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.events: list[Event] = []
        self._heard = threading.Condition()
        self._reader: threading.Thread | None = None
        self._raw: list[str] = []

    # The process.

    def start(self, *, env: Mapping[str, str] | None = None) -> "Node":
        """Start the daemon; does not wait for anything."""
        process = subprocess.Popen(
            [*self.cluster.command_for(self), "start", str(self.config_path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, **(env or {})},
        )
        self.process = process
        self._reader = threading.Thread(target=self._listen, args=(process,), daemon=True)
        self._reader.start()
        return self

    @property
    def is_running(self) -> bool:
        """Whether the process lives, paused or not."""
        return self.process is not None and self.process.poll() is None

    @property
    def pid(self) -> int:
        """The process id."""
        assert self.process is not None
        return self.process.pid

    def kill(self) -> None:
        """SIGKILL, and wait for the end."""
        self.signal(signal.SIGKILL)
        self.wait_exit()

    def stop(self) -> int:
        """SIGTERM, and wait for the exit code."""
        self.signal(signal.SIGTERM)
        return self.wait_exit()

    def pause(self) -> None:
        """SIGSTOP."""
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self.signal(signal.SIGCONT)

    def signal(self, number: int) -> None:
        """Send any signal."""
        assert self.process is not None
        self.process.send_signal(number)

    def wait_exit(self, timeout_s: float | None = WAIT_S) -> int:
        """Wait until the process and its last words are through; its exit code."""
        assert self.process is not None
        code = self.process.wait(timeout_s)
        if self._reader is not None:
            self._reader.join(timeout_s)
        return code

    # What it said.

    def mark(self) -> int:
        """A place in the log, to wait for what comes after it."""
        with self._heard:
            return len(self.events)

    def wait_for(
        self,
        event: str,
        *,
        since: int = 0,
        timeout_s: float = WAIT_S,
        where: Callable[[Event], bool] = lambda _: True,
    ) -> Event:
        """Wait for a line with this event that fits, at or after `since`."""
        deadline = time.monotonic() + timeout_s
        with self._heard:
            position = since
            while True:
                for line in self.events[position:]:
                    if line.get("event") == event and where(line):
                        return line
                position = max(position, len(self.events))
                left = deadline - time.monotonic()
                if left <= 0 or (not self.is_running and self._is_silent()):
                    raise TimeoutWaitingError(
                        f"node {self.node_id} said no {event!r}"
                        f" ({'running' if self.is_running else 'ended'}):\n{self.last_lines()}"
                    )
                self._heard.wait(min(left, 0.5))

    def count(self, event: str) -> int:
        """How many lines with this event there are."""
        with self._heard:
            return sum(line.get("event") == event for line in self.events)

    def is_active_in(self, epoch: int) -> bool:
        """Whether its controller was told that it leads in this epoch."""
        with self._heard:
            return any(
                line.get("event") == "leader_changed"
                and line["epoch"] == epoch
                and line["leader"] == self.node_id
                for line in self.events
            )

    def last_lines(self, count: int = 15) -> str:
        """The newest lines, as written."""
        return "".join(self._raw[-count:])

    def client(self, timeout_s: float = WAIT_S) -> Client:
        """Connect to it."""
        return self.cluster.connect(self, timeout_s)

    def describe(self, timeout_s: float = WAIT_S) -> DescribeNodeResponse:
        """Its own view, over a connection of its own."""
        with self.client(timeout_s) as client:
            return client.describe()

    def _is_silent(self) -> bool:
        return self._reader is None or not self._reader.is_alive()

    def _listen(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stderr is not None
        with self.log_path.open("ab") as log, process.stderr:
            for line in process.stderr:
                log.write(line)
                log.flush()
                text = line.decode("utf-8", "replace")
                with contextlib.suppress(ValueError):
                    parsed = json.loads(text)
                    if isinstance(parsed, dict):
                        with self._heard:
                            self.events.append(parsed)
                with self._heard:
                    self._raw.append(text)
                    self._heard.notify_all()


class Cluster:
    """Controllers 1..N below one folder. Ends every process it started when it is left.

    `directories` are those nodes' directories that are elsewhere, `features` the levels of the new cluster.
    """

    def __init__(
        self,
        folder: Path,
        size: int = 3,
        *,
        settings: Mapping[str, str] | None = None,
        command: Sequence[str] = (sys.executable, "-m", "kraftd"),
        http: bool = False,
        cluster_id: str | None = None,
        directories: Mapping[int, Path] | None = None,
        features: Mapping[str, int] = NEW_CLUSTER_LEVELS,
        start: bool = True,
    ) -> None:
        self.folder = folder
        self.features = features
        self.command = tuple(command)
        self.settings = dict(settings or {})
        self.cluster_id = cluster_id or uuid_text(os.urandom(16))
        folder.mkdir(parents=True, exist_ok=True)
        ports = free_ports(2 * size)
        self.nodes = {
            node_id: Node(self, node_id, ports[node_id - 1], ports[size + node_id - 1] if http else 0)
            for node_id in range(1, size + 1)
        }
        for node in self.nodes.values():
            node.directory = (directories or {}).get(node.node_id, node.directory)
            self.configure(node)
            self.format(node)
        if start:
            for node in self.nodes.values():
                node.start()

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes.values())

    def __getitem__(self, node_id: int) -> Node:
        return self.nodes[node_id]

    @property
    def voters(self) -> str:
        """`controller.quorum.voters`."""
        return ",".join(f"{node.node_id}@{self.host(node)}:{node.port}" for node in self)

    @property
    def bootstrap(self) -> str:
        """What `kraftctl --bootstrap-controller` takes."""
        return ",".join(f"127.0.0.1:{node.port}" for node in self)

    # Where the nodes are: all on this machine, unless a subclass knows better.

    def host(self, node: Node) -> str:
        """The address that the node listens on."""
        return "127.0.0.1"

    def command_for(self, node: Node) -> Sequence[str]:
        """What starts this node's daemon, without its arguments."""
        return self.command

    def connect(self, node: Node, timeout_s: float) -> Client:
        """A client of the node."""
        return Client(node.port, host=self.host(node), timeout_s=timeout_s)

    # Files.

    def configure(self, node: Node, **overrides: str) -> Path:
        """Write a node's properties file; keys of `overrides` have `_` for `.`."""
        values = {
            "process.roles": "controller",
            "node.id": str(node.node_id),
            "controller.quorum.voters": self.voters,
            "controller.listener.names": "CONTROLLER",
            "listeners": f"CONTROLLER://{self.host(node)}:{node.port}",
            "log.dirs": str(node.directory),
            **self.settings,
            **{key.replace("_", "."): value for key, value in overrides.items()},
        }
        if node.http_port:
            values["kraftd.http.listener"] = f"127.0.0.1:{node.http_port}"
        node.config_path.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
        return node.config_path

    def format(self, node: Node, *, cluster_id: str | None = None) -> None:
        """Format a node's directory, as `kraftctl format` does."""
        format_directory(
            OsFileSystem(),
            node.directory,
            cluster_id=cluster_id or self.cluster_id,
            node_id=node.node_id,
            directory_id=os.urandom(16),
            now_ms=int(time.time() * 1_000),
            features=self.features,
        )

    # What they do together.

    def running(self) -> list[Node]:
        """The nodes whose process lives."""
        return [node for node in self if node.is_running]

    def leader(self) -> Node | None:
        """The node that says it leads and whose controller decides; None if nobody does."""
        views = []
        for node in self.running():
            with contextlib.suppress(OSError):
                views.append((node, node.describe(timeout_s=1.0)))
        leaders = [(view.epoch, node) for node, view in views if view.role == "leader"]
        if not leaders:
            return None
        epoch, node = max(leaders, key=lambda item: item[0])
        return node if node.is_active_in(epoch) else None

    def wait_leader(self, *, but: Node | None = None, timeout_s: float = WAIT_S) -> Node:
        """Wait until a node leads, other than `but`."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            leader = self.leader()
            if leader is not None and leader is not but:
                return leader
            time.sleep(0.01)
        lines = "\n".join(f"--- node {node.node_id}\n{node.last_lines(8)}" for node in self)
        raise TimeoutWaitingError(f"no leader within {timeout_s} s\n{lines}")

    def wait_follower(self, leader: Node) -> Node:
        """Wait until the first other node follows this leader; it may start after the two that elect it."""
        follower = next(node for node in self if node is not leader)
        follower.wait_for("leader_changed", where=lambda line: line["leader"] == leader.node_id)
        return follower

    def commit(self, name: str, value: str, *, broker: str = "", timeout_s: float = WAIT_S) -> float:
        """Set a config through whoever leads, trying until it is committed; the seconds it took."""
        began = time.monotonic()
        deadline = began + timeout_s
        last: object = None
        while time.monotonic() < deadline:
            for node in self.running():
                with contextlib.suppress(OSError), node.client(1.0) as client:
                    last = client.set_config(name, value, broker=broker)
                    if last == 0:
                        return time.monotonic() - began
            time.sleep(0.005)
        raise TimeoutWaitingError(f"nothing was committed within {timeout_s} s; the last response was {last}")

    def wait_caught_up(self, *nodes: Node, timeout_s: float = WAIT_S) -> None:
        """Wait until these nodes (all that run, if none are named) have applied what the leader commits.

        "Now" is when the leader was asked; a NoOp that follows at once does not matter.
        """
        deadline = time.monotonic() + timeout_s
        wanted = -1
        waiting = list(nodes or self.running())
        while waiting:
            for node in self.running():
                with contextlib.suppress(OSError):
                    view = node.describe(timeout_s=5.0)
                    wanted = max(wanted, view.high_watermark) if view.role == "leader" else wanted
                    if node in waiting and 0 <= wanted <= view.applied_offset:
                        waiting.remove(node)
            if time.monotonic() > deadline:
                raise TimeoutWaitingError(f"node {waiting[0].node_id} lags\n{waiting[0].last_lines()}")
            time.sleep(0.01)

    def image_hashes(self, *nodes: Node, timeout_s: float = WAIT_S) -> set[str]:
        """The hashes of the images of these nodes (all that run, if none are named), all at one offset.

        A controller registers whenever it has started, so that the images go on changing for a moment.
        """
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            self.wait_caught_up(*nodes, timeout_s=timeout_s)
            views = [node.describe() for node in nodes or self.running()]
            if len({view.applied_offset for view in views}) == 1:
                return {view.image_hash for view in views}
        raise TimeoutWaitingError(f"the nodes were at no common offset within {timeout_s} s")

    def close(self) -> None:
        """Kill whatever still runs."""
        for node in self:
            if node.is_running:
                with contextlib.suppress(OSError):
                    node.resume()
                    node.kill()
