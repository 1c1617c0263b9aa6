"""One node, put together and kept running until it is told to stop.

Entered through `serve`, inside a running loop, with a checked configuration and an open directory. The
order of a start: identity and log are already durable; the server listens; then the member starts, and with
it the links. The order of a stop: the member hands over, the last answers are written, connections close,
the running flush ends, the directory is closed.

Nothing here decides anything about the quorum. What goes wrong here ends the process (D-17); see `main`.
"""

import asyncio
import contextlib
import gc
import os
import random
import resource
import signal
import socket
import sys
from collections.abc import Iterator
from typing import Any

from kraftd.controller.activation import registration_of
from kraftd.controller.controller import QuorumController
from kraftd.errors import ConfigError
from kraftd.metadata.features import bootstrap_records
from kraftd.net.client import PeerLinks
from kraftd.net.connection import Outbox
from kraftd.net.handshake import Identity
from kraftd.net.repeats import Repeats
from kraftd.net.server import InboundConnection, Server, connection_numbers
from kraftd.protocol import limits
from kraftd.protocol.codec import Request
from kraftd.protocol.messages import DescribeNodeRequest, ExportChunkRequest, ExportManifestRequest
from kraftd.raft.effects import LeaderChanged, Moved, ShutdownReady
from kraftd.raft.events import PeerIdentity, ShutdownRequested
from kraftd.raft.identity import StartIdentity, Wholeness
from kraftd.raft.member import LogStart, Member
from kraftd.raft.timing import Timing
from kraftd.raft.voters import Voter, VoterSet
from kraftd.records.frame import decode_record
from kraftd.runtime.applier import Applier
from kraftd.runtime.config import Config
from kraftd.runtime.driver import Driver, read_clocks
from kraftd.runtime.export import Exports
from kraftd.runtime.flusher import Worker
from kraftd.runtime.health import livez, readyz
from kraftd.runtime.interpreter import Interpreter, News
from kraftd.runtime.metrics import RaftMeters
from kraftd.runtime.network import QuorumNetwork
from kraftd.runtime.observability import Chronicle, Log
from kraftd.runtime.requests import Desk
from kraftd.runtime.status import SOFTWARE, Facts, NodeStatus
from kraftd.runtime.store import DirectoryStore
from kraftd.storage.node_directory import NodeDirectory
from kraftd.types import Endpoint, Now, Offset, ReplicaKey, uuid_text

TAIL_BYTES = 8 << 20
"""How much of the newest log is kept at hand in memory (D-15)."""


FILES_RESERVED = 128
"""Open files that are no client connections: segments, sockets of ours, the rest."""


_GC_THRESHOLDS = (20_000, 20, 20)
"""Requests in flight are a young generation of thousands that is not garbage: look for cycles less often."""


async def serve(config: Config, directory: NodeDirectory, log: Log) -> None:
    """Run one node until a signal stops it, and close its directory.

    Raises:
        ConfigError: An address cannot be bound.
    """
    async with asyncio.TaskGroup() as tasks:
        node = Node(config, directory, log, tasks)
        await node.start()
        gc.collect()
        gc.freeze()
        gc.set_threshold(*_GC_THRESHOLDS)
        await node.run()
        await node.stop()


@contextlib.contextmanager
def _listening(address: Endpoint, key: str) -> Iterator[None]:
    """Make an address that cannot be had one line that names it, and where it was written."""
    try:
        yield
    except OSError as error:
        number = error.errno or 0  # those of name resolution are negative
        reason = os.strerror(number) if number > 0 else error.strerror or str(error)
        raise ConfigError(f"cannot listen on {address}: {reason}; see {key}") from error


class SystemDice:
    """Chance from the operating system."""

    def __init__(self) -> None:
        self._random = random.SystemRandom()

    def draw(self, below: int) -> int:
        """Implements `Dice`."""
        return self._random.randrange(below)


class Node:
    """All parts of one node, and how they are tied together."""

    def __init__(self, config: Config, directory: NodeDirectory, log: Log, tasks: asyncio.TaskGroup) -> None:
        loop = asyncio.get_running_loop()
        self._config, self._directory, self._log, self._tasks = config, directory, log, tasks
        self._stop_asked = asyncio.Event()
        self._may_stop = asyncio.Event()
        self._pages: tuple[Any, int] | None = None
        self._metrics_task: asyncio.Task[None] | None = None
        started_at = read_clocks()
        identity = _identity_of(config, directory)

        network = self._network = QuorumNetwork()
        outbox = self._outbox = Outbox(network.wake)
        numbers = connection_numbers()
        repeats = Repeats(log, loop.time)
        self._chronicle = Chronicle(log, loop.time)
        self._server = Server(identity, network, outbox, numbers, repeats)
        self._server.connections_max = _connections_allowed()
        with _listening(config.bind, "listeners"):
            self._port = self._server.bind(config.bind)
        self._advertised = _with_port(config.advertised, self._port)
        self._links = PeerLinks(identity, network, outbox, numbers, tasks, repeats, log=log)

        self._member = _member_of(config, directory, self._advertised)
        self._driver = Driver(loop, self._member, end_turn=self._end_turn)
        self._meters = RaftMeters(started_at.mono_ms)
        self._workers = Worker(loop, "kraftd-flush"), Worker(loop, "kraftd-read")
        self._store = DirectoryStore(
            directory,
            self._driver,
            self._member,
            self._meters,
            flush_worker=self._workers[0],
            read_worker=self._workers[1],
        )
        self._controller = controller = _controller_of(config, directory, self._advertised)
        self._applier = Applier(
            config.node_id, controller, self._store, self._driver, controller.events.observe
        )
        self._status = NodeStatus(
            _facts_of(config, directory, started_at),
            member=self._member,
            controller=controller,
            applier=self._applier,
            store=self._store,
            links=self._links,
            meters=self._meters,
        )
        self._desk = self._make_desk()
        network.attach(self._driver, self._desk, self._server, self._links)

    def _make_desk(self) -> Desk:
        """Whoever answers what is not for the core, and where each kind of request goes."""
        exports = Exports(self._directory, self._member, self._tasks)
        desk = Desk(
            self._driver,
            self._controller,
            self._member,
            request_timeout_ms=self._config.request_timeout_ms,
            on_shutdown_ready=self._shutdown_ready,
            on_connection_ended=exports.forget,
        )
        desk.offer(
            {
                DescribeNodeRequest: self._serve_describe,
                ExportManifestRequest: exports.serve_manifest,
                ExportChunkRequest: exports.serve_chunk,
            }
        )
        return desk

    async def start(self) -> None:
        """Start the member and everything that feeds it, then let the others in."""
        interpreter = Interpreter(
            store=self._store, network=self._network, machine=self, callers=self._desk, journal=self
        )
        await self._start_pages()
        self._listen_to_signals()
        self._say_started()
        self._driver.start(
            interpreter, before=[self._network, self._desk], after=[self._applier, self._store]
        )
        await self._server.start()
        if self._config.metrics_interval_ms > 0:
            self._metrics_task = self._tasks.create_task(self._log_metrics(), name="metrics")

    async def run(self) -> None:
        """Wait for a signal, then for the member to hand over, or for the deadline."""
        await self._stop_asked.wait()
        self._log.info("stopping")
        deadline_ms = self._driver.now().mono_ms + self._config.shutdown_timeout_ms
        self._driver.deliver(ShutdownRequested(deadline_ms))
        await self._may_stop.wait()

    async def stop(self) -> None:
        """Close everything, in an order that loses nothing."""
        self._driver.stop()
        if self._metrics_task is not None:
            self._metrics_task.cancel()
        self._links.stop()
        await self._server.stop()
        if self._pages is not None:
            await self._pages[0].stop()
        self._store.settle()
        for worker in self._workers:
            worker.settle()
            worker.stop()
        self._directory.close()
        self._log.info("stopped")

    def _end_turn(self) -> None:
        """What was written leaves first: the flush thread wakes when the loop goes to sleep."""
        self._outbox.flush()
        self._store.hand_over()

    # The interpreter's ports that only pass news on.

    def commit(self, high_watermark: Offset) -> None:
        """Implements `Machine`."""
        self._meters.committed(high_watermark, self._driver.now().mono_ms)
        self._applier.commit(high_watermark)

    def leader_changed(self, change: LeaderChanged) -> None:
        """Implements `Machine`."""
        self._log.info("leader_changed", epoch=change.epoch, leader=change.leader_id)
        self._applier.leader_changed(change)

    def note(self, news: News) -> None:
        """Implements `Journal`."""
        if type(news) is Moved:
            self._meters.moved(news, self._driver.now().mono_ms)
        self._chronicle.note(news)

    def _serve_describe(self, connection: InboundConnection, request: Request) -> None:
        response = self._status.describe(self._driver.now())
        connection.reply(request.api_version, request.correlation_id, response)

    def _shutdown_ready(self, ready: ShutdownReady) -> None:
        self._log.info("may_stop", handed_over=ready.handed_over)
        self._may_stop.set()

    # Signals, pages and lines.

    def _listen_to_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal, number)

    def _on_signal(self, number: signal.Signals) -> None:
        if not self._stop_asked.is_set():
            self._stop_asked.set()
            return
        # The second one means it. What was acknowledged is durable; nothing else was promised.
        self._log.warning("stopped_at_once", signal=number.name)
        sys.stderr.flush()
        os._exit(128 + number)

    async def _start_pages(self) -> None:
        if self._config.http is None:
            return
        from kraftd.runtime.http import Pages  # imported late: a node without it need not pay for it

        pages = Pages(
            livez=lambda: livez(self._status.vitals(self._driver.now())),
            readyz=lambda: readyz(self._status.vitals(self._driver.now())),
            samples=lambda: self._status.samples(self._driver.now()),
        )
        with _listening(self._config.http, "kraftd.http.listener"):
            self._pages = pages, await pages.start(self._config.http)

    def _say_started(self) -> None:
        config, directory = self._config, self._directory
        for warning in directory.warnings:
            self._log.warning("directory", text=warning)
        if config.unknown_keys:
            self._log.warning("unknown_keys", keys=list(config.unknown_keys))
        http = config.http
        self._log.info(
            "started",
            cluster_id=directory.cluster_id,
            listening=f"{config.bind.host or '*'}:{self._port}",
            advertised=str(self._advertised),
            http=f"{http.host or '*'}:{self._pages[1]}" if http is not None and self._pages else None,
            directory=str(directory.path),
            directory_id=uuid_text(directory.directory_id),
            log_end_offset=directory.log.end_offset,
            epoch=directory.election.epoch,
            software=SOFTWARE,
            pid=os.getpid(),
        )

    async def _log_metrics(self) -> None:
        while True:
            await asyncio.sleep(self._config.metrics_interval_ms / 1_000)
            self._log.info("metrics", **self._status.readings(self._driver.now()))


def _connections_allowed() -> int:
    """How many clients there may be: what the table says, or what the limit on open files leaves."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return limits.CONNECTIONS_MAX
    return max(1, min(limits.CONNECTIONS_MAX, soft - limits.PEER_CONNECTIONS_RESERVED - FILES_RESERVED))


def _facts_of(config: Config, directory: NodeDirectory, started_at: Now) -> Facts:
    return Facts(
        node_id=config.node_id,
        cluster_id=directory.cluster_id,
        directory_id=directory.directory_id,
        voters=len(config.voters),
        fetch_timeout_ms=config.timing.fetch_timeout_ms,
        started_at=started_at,
    )


def _identity_of(config: Config, directory: NodeDirectory) -> Identity:
    return Identity(
        cluster_id=directory.cluster_id,
        software=SOFTWARE,
        node_id=config.node_id,
        directory_id=directory.directory_id,
        start_counter=directory.start_counter,
        start_id=directory.start_id,
    )


def _member_of(config: Config, directory: NodeDirectory, advertised: Endpoint) -> Member:
    """The core, from what the directory remembers."""
    log, timing = directory.log, config.timing
    return Member(
        me=ReplicaKey(config.node_id, directory.directory_id),
        cluster_id=directory.cluster_id,
        voters=VoterSet(Voter(node_id, endpoint) for node_id, endpoint in config.voters.items()),
        log=LogStart(
            log.start_offset, log.end_offset, log.epochs, log.generation, tuple(log.tail(TAIL_BYTES))
        ),
        election=directory.election,
        timing=Timing(
            election_timeout_ms=timing.election_timeout_ms,
            fetch_timeout_ms=timing.fetch_timeout_ms,
            election_backoff_max_ms=timing.election_backoff_max_ms,
            append_linger_ms=timing.append_linger_ms,
            request_timeout_ms=timing.request_timeout_ms,
            retry_backoff_ms=timing.retry_backoff_ms,
        ),
        dice=SystemDice(),
        wholeness=Wholeness(directory.damage, directory.amnesia, directory.blank),
        start=StartIdentity(directory.start_counter, directory.start_id),
        known_peers=tuple(
            PeerIdentity(peer.node_id, peer.directory_id, peer.start_counter, peer.start_id)
            for peer in directory.peers
        ),
        advertised=advertised,
        bootstrap=tuple(config.bootstrap_servers),
        accumulator_bytes=config.accumulator_bytes,
    )


def _controller_of(config: Config, directory: NodeDirectory, advertised: Endpoint) -> QuorumController:
    """The state machine, with the records that a new cluster begins with."""
    bootstrap = [decode_record(value) for value in directory.bootstrap_records()]
    return QuorumController(
        me=registration_of(config.node_id, directory.start_id, [advertised]),
        bootstrap=bootstrap or bootstrap_records(),
        max_idle_interval_ms=config.idle_interval_ms,
    )


def _with_port(advertised: Endpoint, port: int) -> Endpoint:
    """The advertised address, with the name of this machine and the port that the kernel chose if need be."""
    return Endpoint(advertised.host or socket.gethostname(), advertised.port or port, advertised.listener)
