"""What is one node made of, and how are its parts tied together?

Entered through `Assembly`, by whoever owns the loop: the daemon, with sockets, threads and the machine's
clocks, or a simulator, with its own. What differs between the two comes in as `Surroundings` and as `listen`;
everything else is the same objects in the same order. Identity and log are durable before an assembly
exists; then `start` starts the member, and with it the links.

Nothing here decides anything about the quorum, and nothing here knows signals, pages or the process.
"""

from asyncio import AbstractEventLoop, TaskGroup
from collections.abc import Callable
from hashlib import sha256

import msgspec

from kraftd.controller.activation import registration_of
from kraftd.controller.controller import QuorumController
from kraftd.metadata.feature_levels import bootstrap_records
from kraftd.net.client import PeerLinks
from kraftd.net.connection import Outbox
from kraftd.net.handshake import Identity
from kraftd.net.repeats import Repeats
from kraftd.net.server import InboundConnection, Server, connection_numbers
from kraftd.protocol.codec import Request
from kraftd.protocol.messages import DescribeNodeRequest, ExportChunkRequest, ExportManifestRequest
from kraftd.raft.effects import LeaderChanged, ShutdownReady, StateChanged
from kraftd.raft.events import PeerIdentity
from kraftd.raft.log_mirror import FETCH_BYTES_MAX
from kraftd.raft.node import LogStart, Member
from kraftd.raft.rejoin import Wholeness
from kraftd.raft.timing import HANDOVER_REST_MS, RandomSource, Timing
from kraftd.raft.voters import Voter, VoterSet
from kraftd.records.frame import decode_record
from kraftd.runtime.applier import Applier
from kraftd.runtime.config import Config
from kraftd.runtime.driver import Driver
from kraftd.runtime.export import Exports
from kraftd.runtime.flusher import Worker
from kraftd.runtime.guard import Guard
from kraftd.runtime.interpreter import Interpreter, News
from kraftd.runtime.metrics import RaftMeters
from kraftd.runtime.network import QuorumNetwork
from kraftd.runtime.observability import Chronicle, Log
from kraftd.runtime.requests import Desk
from kraftd.runtime.status import SOFTWARE, Facts, NodeStatus
from kraftd.runtime.store import DirectoryStore
from kraftd.storage.node_directory import NodeDirectory
from kraftd.types import Endpoint, Now, Offset, ReplicaKey, Uuid

TAIL_BYTES = 8 << 20
"""How much of the newest log is kept at hand in memory (D-15)."""


class Surroundings(msgspec.Struct, frozen=True):
    """Time, chance, threads and tasks, as whoever runs a node provides them."""

    loop: AbstractEventLoop
    tasks: TaskGroup
    clock: Callable[[], Now]
    clock_ns: Callable[[], int]
    """For how long something is done; nothing is due by it."""
    dice: RandomSource
    spread: Callable[[float, float], float]
    """A factor between two bounds, for waits that need not be exact."""
    nonce: Callable[[], Uuid]
    """16 bytes that nobody can guess, new each time."""
    worker: Callable[[str], Worker]
    """A thread of that name."""
    tail_bytes: int = TAIL_BYTES
    fetch_bytes: int = FETCH_BYTES_MAX


class Assembly:
    """All parts of one node."""

    def __init__(
        self,
        config: Config,
        directory: NodeDirectory,
        log: Log,
        surroundings: Surroundings,
        *,
        listen: Callable[[Server], Endpoint],
        on_shutdown_ready: Callable[[ShutdownReady], None],
    ) -> None:
        """Put the parts together; `listen` takes an address for the server and says what to advertise."""
        self._config, self._directory, self._log = config, directory, log
        loop, clock = surroundings.loop, surroundings.clock
        started_at = clock()
        identity = _identity_of(config, directory)
        network = self.network = QuorumNetwork()
        outbox = self.outbox = Outbox(network.wake)
        numbers = connection_numbers()
        repeats = Repeats(log, loop.time)
        self._chronicle = Chronicle(log, loop.time)
        self.server = Server(identity, network, outbox, numbers, repeats)
        self.server.max_idle_ms = config.max_idle_ms
        self.advertised = listen(self.server)
        tasks, spread = surroundings.tasks, surroundings.spread
        self.links = PeerLinks(
            identity,
            network,
            outbox,
            numbers,
            tasks,
            repeats,
            log=log,
            spread=spread,
            nonce=surroundings.nonce,
        )
        if config.is_voter:
            self.server.voter_ids = self.links.voter_ids = frozenset(config.voters) - {config.node_id}
        self.member = _member_of(config, directory, self.advertised, surroundings)
        self.driver = Driver(loop, self.member, end_turn=self._end_turn, clock=clock)
        self.meters = RaftMeters(started_at.mono_ms)
        self.workers = surroundings.worker("kraftd-flush"), surroundings.worker("kraftd-read")
        self.store = DirectoryStore(
            directory,
            self.driver,
            self.member,
            self.meters,
            flush_worker=self.workers[0],
            read_worker=self.workers[1],
        )
        self.guard = Guard(directory, self.driver, self.member, self.workers[1])
        self.controller = controller = _controller_of(config, directory, self.advertised)
        clock_ns, observe = surroundings.clock_ns, controller.events.observe
        self.applier = Applier(
            config.node_id, controller, self.store, self.driver, observe, clock_ns=clock_ns
        )
        self.status = self._make_status(started_at)
        self.desk = self._make_desk(surroundings, on_shutdown_ready)
        network.attach(self.driver, self.desk, self.server, self.links)

    def _make_status(self, started_at: Now) -> NodeStatus:
        return NodeStatus(
            _facts_of(self._config, self._directory, started_at),
            member=self.member,
            controller=self.controller,
            applier=self.applier,
            store=self.store,
            links=self.links,
            server=self.server,
            meters=self.meters,
        )

    def _make_desk(
        self, surroundings: Surroundings, on_shutdown_ready: Callable[[ShutdownReady], None]
    ) -> Desk:
        """Whoever answers what is not for the core, and where each kind of request goes."""
        exports = Exports(self._directory, self.member, surroundings.tasks)
        desk = Desk(
            self.driver,
            self.controller,
            self.member,
            request_timeout_ms=self._config.request_timeout_ms,
            on_shutdown_ready=on_shutdown_ready,
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

    def start(self) -> None:
        """Start the member and everything that feeds it. Let the others in after this."""
        self.driver.start(
            self.make_interpreter(),
            before=[self.network, self.desk],
            after=[self.applier, self.store, self.guard],
        )

    def make_interpreter(self) -> Interpreter:
        """Whoever carries out the effects of the member."""
        return Interpreter(
            store=self.store, network=self.network, machine=self, callers=self.desk, journal=self
        )

    def settle(self) -> None:
        """Wait for what threads still do, and end them. No more turns come after this."""
        self.store.settle()
        for worker in self.workers:
            worker.settle()
            worker.stop()

    def _end_turn(self) -> None:
        """What was written leaves first: the flush thread wakes when the loop goes to sleep."""
        self.outbox.flush()
        self.store.hand_over()

    # The interpreter's ports that only pass news on.

    def commit(self, high_watermark: Offset) -> None:
        """Implements `Machine`."""
        self.meters.committed(high_watermark, self.driver.now().mono_ms)
        self.applier.commit(high_watermark)

    def leader_changed(self, change: LeaderChanged) -> None:
        """Implements `Machine`."""
        self._log.info("leader_changed", epoch=change.epoch, leader=change.leader_id)
        self.applier.leader_changed(change)

    def note(self, news: News) -> None:
        """Implements `Journal`."""
        if type(news) is StateChanged:
            self.meters.moved(news, self.driver.now().mono_ms)
        self._chronicle.note(news)

    def _serve_describe(self, connection: InboundConnection, request: Request) -> None:
        response = self.status.describe(self.driver.now())
        connection.reply(request.api_version, request.correlation_id, response)


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


def _member_of(
    config: Config, directory: NodeDirectory, advertised: Endpoint, surroundings: Surroundings
) -> Member:
    """The core, from what the directory remembers."""
    log, timing = directory.log, config.timing
    return Member(
        me=ReplicaKey(config.node_id, directory.directory_id),
        cluster_id=directory.cluster_id,
        voters=VoterSet(Voter(node_id, endpoint) for node_id, endpoint in config.voters.items()),
        log=LogStart(
            log.start_offset,
            log.end_offset,
            log.epochs,
            log.generation,
            tuple(log.tail(surroundings.tail_bytes)),
        ),
        election=directory.election,
        timing=Timing(
            handover_rest_ms=HANDOVER_REST_MS,
            election_timeout_ms=timing.election_timeout_ms,
            fetch_timeout_ms=timing.fetch_timeout_ms,
            election_backoff_max_ms=timing.election_backoff_max_ms,
            append_linger_ms=timing.append_linger_ms,
            request_timeout_ms=timing.request_timeout_ms,
            retry_backoff_ms=timing.retry_backoff_ms,
        ),
        dice=surroundings.dice,
        wholeness=Wholeness(directory.damage, directory.amnesia, directory.blank),
        known_peers=tuple(
            PeerIdentity(peer.node_id, peer.directory_id, peer.start_counter, peer.start_id)
            for peer in directory.peers
        ),
        advertised=advertised,
        bootstrap=tuple(config.bootstrap_servers),
        accumulator_bytes=config.accumulator_bytes,
        tail_bytes=2 * surroundings.tail_bytes,
        fetch_bytes=surroundings.fetch_bytes,
    )


def _controller_of(config: Config, directory: NodeDirectory, advertised: Endpoint) -> QuorumController:
    """The state machine, with the records that a new cluster begins with."""
    bootstrap = [decode_record(value) for value in directory.bootstrap_records()]
    return QuorumController(
        me=registration_of(config.node_id, incarnation_of(directory.start_id), [advertised]),
        bootstrap=bootstrap or bootstrap_records(),
        max_idle_interval_ms=config.idle_interval_ms,
    )


def incarnation_of(start_id: Uuid) -> Uuid:
    """What the metadata log calls a start. Whoever reads the log reads it, so it is not the start id itself,
    which is told to confirmed voters only (D-37), and nobody can compute that from it.
    """
    return sha256(b"incarnation" + start_id).digest()[:16]
