"""One controller node: builds its parts and connects them.

Entered through `ControllerServer`, by the owner of the loop: the daemon, with sockets, threads and the
machine's clocks, or a simulator, with its own. What differs between the two comes in as `Environment` and as
`listen`; everything else is the same objects in the same order. Identity and log are durable before a server
is built; `start` starts the raft node, and with it the connections to the peers.

Nothing here decides anything about the quorum, and nothing here knows signals, HTTP or the process.
"""

from asyncio import AbstractEventLoop, TaskGroup
from collections.abc import Callable
from functools import partial
from hashlib import sha256

import msgspec

from kraftd.controller.activation import registration_of
from kraftd.controller.admin_apis import READS
from kraftd.controller.quorum_controller import QuorumController
from kraftd.controller.rights import FORGEABLE
from kraftd.metadata.feature_levels import bootstrap_records
from kraftd.metadata.parts.controllers import ControllerRegistration
from kraftd.net.connection import Outbox
from kraftd.net.handshake import Identity
from kraftd.net.peer_connections import PeerConnections
from kraftd.net.rate_limited_logger import RateLimitedLogger
from kraftd.net.server import Server, connection_numbers
from kraftd.protocol.codec import Request
from kraftd.protocol.kafka_codec import KAFKA
from kraftd.protocol.limits import KAFKA_FRAME_BYTES_MAX
from kraftd.protocol.messages import (
    BrokerRegistrationRequest,
    DescribeEventsRequest,
    DescribeNodeRequest,
    FetchRequest,
    FetchSnapshotRequest,
)
from kraftd.raft import (
    FETCH_BYTES_MAX,
    MIN_LEADER_MS,
    TAIL_BYTES_MAX,
    OpenedLog,
    RaftNode,
    RandomSource,
    Retention,
    SnapshotPoint,
    SnapshotPoints,
    StateHealth,
    Timing,
    Voter,
    VoterSet,
)
from kraftd.raft.effects import LeaderChanged, ShutdownReady, StateChanged
from kraftd.raft.events import SnapshotTaken
from kraftd.records.frame import decode_record
from kraftd.runtime.applier import Applier
from kraftd.runtime.committed_fetches import CommittedFetches
from kraftd.runtime.committed_log import CommittedLog
from kraftd.runtime.config import Config
from kraftd.runtime.controller_apis import ControllerApis, GroupBegin
from kraftd.runtime.driver import Driver
from kraftd.runtime.effect_executor import EffectExecutor, Notice, NoticeLogger, RaftListener
from kraftd.runtime.envelopes import Envelopes
from kraftd.runtime.event_status import EventStatus
from kraftd.runtime.guard import Guard
from kraftd.runtime.kafka_apis import KafkaApis
from kraftd.runtime.log_checker import LogChecker
from kraftd.runtime.log_cleaner import LogCleaner
from kraftd.runtime.log_export import EXPORT_REQUESTS, LogExports
from kraftd.runtime.network import QuorumNetwork
from kraftd.runtime.node_status import SOFTWARE, NodeInfo, NodeStatus
from kraftd.runtime.observability import ControllerLog, Logger, RaftNoticeLogger
from kraftd.runtime.raft_metrics import RaftMetrics
from kraftd.runtime.registration_manager import RegistrationManager
from kraftd.runtime.request_failures import RequestFailures
from kraftd.runtime.request_gate import gate_of
from kraftd.runtime.request_router import Requester, RequestRouter
from kraftd.runtime.snapshot_check import SnapshotCheck
from kraftd.runtime.snapshot_loader import Collector, NoCollector, SnapshotLoader
from kraftd.runtime.snapshot_transfer import SnapshotTransfer
from kraftd.runtime.snapshotter import Snapshotter
from kraftd.runtime.store import DirectoryStore, StoreFindings
from kraftd.runtime.unregistered_brokers import UnregisteredBrokers
from kraftd.runtime.worker import Worker
from kraftd.storage.node_directory import NodeDirectory
from kraftd.storage.snapshots import SnapshotInfo
from kraftd.types import METADATA_TOPIC_ID, Endpoint, Now, Offset, OffsetAndEpoch, ReplicaKey, Uuid

TAIL_BYTES = TAIL_BYTES_MAX // 2
"""How much of the newest log is read into memory at a start (D-15). The raft node keeps up to twice that."""

LONG_RESPONSE_KEYS = frozenset(request.API_KEY for request in (*READS, *EXPORT_REQUESTS)) | {
    FetchSnapshotRequest.API_KEY
}
"""The APIs that are answered from the image, the log or a snapshot."""


class Environment(msgspec.Struct, frozen=True):
    """Time, randomness, threads and tasks, as the daemon or a simulator provides them."""

    loop: AbstractEventLoop
    tasks: TaskGroup
    clock: Callable[[], Now]
    clock_ns: Callable[[], int]
    """Measures how long work takes; no deadline depends on it."""
    random_source: RandomSource
    jitter: Callable[[float, float], float]
    """A random factor between two bounds, for backoffs."""
    nonce: Callable[[], Uuid]
    """16 unpredictable bytes, new at each call."""
    worker: Callable[[str], Worker]
    """Starts a thread of that name."""
    collector: Collector = NoCollector()
    """Paused while a snapshot is loaded."""
    tail_bytes: int = TAIL_BYTES
    fetch_bytes: int = FETCH_BYTES_MAX


class ControllerServer(RaftListener, NoticeLogger):
    """All parts of one node."""

    def __init__(
        self,
        config: Config,
        directory: NodeDirectory,
        logger: Logger,
        environment: Environment,
        *,
        listen: Callable[[Server], Endpoint],
        on_shutdown_ready: Callable[[ShutdownReady], None],
    ) -> None:
        """Build the parts; `listen` binds the server's address and returns the one to advertise."""
        self._config, self._directory, self._logger = config, directory, logger
        started_at = environment.clock()
        driver = self.driver = Driver(environment.loop, end_turn=self._end_turn, clock=environment.clock)
        self._notice_logger = RaftNoticeLogger(logger, environment.loop.time)
        self._unregistered_brokers = UnregisteredBrokers(lambda: self.controller.image, driver.now)
        self.network = QuorumNetwork(driver, self._unregistered_brokers)
        self.router = RequestRouter()
        self._make_connections(environment)
        self.advertised = listen(self.server)
        self.raft_node = _raft_node_of(config, directory, self.advertised, environment)
        self.network.attach(self.server, self.peer_connections, self.raft_node)
        self.metrics = RaftMetrics(started_at.mono_ms)
        threads = ("kraftd-flush", "kraftd-read", "kraftd-snapshot")
        flush, read, write = self.workers = tuple(environment.worker(name) for name in threads)
        self._loader = self._make_loader(environment)
        self.log_checker = self._make_log_checker()
        self.log_cleaner = self._make_log_cleaner()
        found = StoreFindings(self.log_checker.damaged, self.log_cleaner.tell_not_removed)
        self.store = DirectoryStore(
            directory, driver, self.raft_node, self.metrics, found, flush_worker=flush, read_worker=read
        )
        check = self._snapshot_check = SnapshotCheck(directory.snapshots, read, logger, driver)
        self.snapshot_transfer = SnapshotTransfer(
            directory, driver, logger, read_worker=read, write_worker=write, begun=check.check
        )
        self.guard = Guard(directory, driver, self.raft_node, read)
        self.controller = controller = _controller_of(config, directory, self.advertised)
        self.snapshotter = self._make_snapshotter(environment.clock_ns)
        self.applier = self._make_applier(environment.clock_ns)
        log = ControllerLog(logger, self._limited_logger)
        settle = self.router.failed = RequestFailures(driver, controller, log).settle
        self.apis = ControllerApis(
            driver,
            controller,
            self.raft_node,
            request_timeout_ms=config.request_timeout_ms,
            clock_ns=environment.clock_ns,
            on_shutdown_ready=on_shutdown_ready,
            log=log,
            failed=settle,
        )
        self.events = EventStatus(config.node_id, controller, self.apis)
        self.status = self._make_status(started_at)
        self.committed_fetches = CommittedFetches(
            self.raft_node, self.store, driver, linger_ms=config.timing.observer_linger_ms, failed=settle
        )
        self.exports = LogExports(directory, self.raft_node, environment.tasks, driver.now, settle)
        self._add_routes()

    def _make_connections(self, environment: Environment) -> None:
        """Build what listens to other processes and what connects to them."""
        config, network, driver = self._config, self.network, self.driver
        identity = _identity_of(config, self._directory)
        outbox = self.outbox = Outbox(driver.wake_to_write)
        numbers = connection_numbers()
        limited_logger = self._limited_logger = RateLimitedLogger(self._logger, environment.loop.time)
        self.server = Server(
            identity,
            network,
            self.router,
            outbox,
            numbers,
            limited_logger,
            wake=driver.wake,
            long_response_keys=LONG_RESPONSE_KEYS,
        )
        self.server.listener, self.server.max_idle_ms = config.bind.listener, config.max_idle_ms
        self.server.kafka_request_bytes_max = min(config.request_bytes_max, KAFKA_FRAME_BYTES_MAX)
        self.peer_connections = PeerConnections(
            identity,
            network,
            outbox,
            numbers,
            environment.tasks,
            limited_logger,
            logger=self._logger,
            jitter=environment.jitter,
            nonce=environment.nonce,
        )

    def _make_loader(self, environment: Environment) -> SnapshotLoader:
        return SnapshotLoader(
            self._directory.snapshots,
            log_start=lambda: self._directory.log.start_offset,
            worker=self.workers[1],
            driver=self.driver,
            logger=self._logger,
            collector=environment.collector,
        )

    def _make_applier(self, clock_ns: Callable[[], int]) -> Applier:
        return Applier(
            self._config.node_id,
            self.controller,
            CommittedLog(self.raft_node, self.store),
            self._loader,
            self.driver,
            self.controller.event_statistics.observe,
            clock_ns=clock_ns,
            applied=self.snapshotter.applied,
            loaded=self._snapshot_loaded,
            caught_up=self.controller.caught_up,
        )

    def _make_snapshotter(self, clock_ns: Callable[[], int]) -> Snapshotter:
        config, newest = self._config, self._directory.snapshots.newest
        last = None if newest is None else SnapshotPoint(newest.id, newest.last_contained_timestamp_ms)
        return Snapshotter(
            SnapshotPoints(config.log.snapshot_bytes, config.log.snapshot_interval_ms, last),
            lambda: self._directory.snapshots.newest,
            me=config.node_id,
            voter_ids=tuple(config.voters),
            is_leader=lambda: self.raft_node.is_leader,
            lacks_one=self.raft_node.log.lacks_snapshot_at,
            image=lambda: self.controller.image,
            open_writer=self._directory.snapshots.writer,
            written=self._snapshot_written,
            worker=self.workers[-1],
            driver=self.driver,
            clock_ns=clock_ns,
            logger=self._logger,
        )

    def _make_log_cleaner(self) -> LogCleaner:
        limits = self._config.log
        return LogCleaner(
            self._directory,
            Retention(limits.retention_bytes, limits.retention_ms),
            driver=self.driver,
            raft_node=self.raft_node,
            applied_offset=lambda: self.applier.applied_offset,
            worker=self.workers[-1],
            logger=self._logger,
        )

    def _make_log_checker(self) -> LogChecker:
        return LogChecker(
            self._directory,
            driver=self.driver,
            applied_offset=lambda: self.applier.applied_offset,
            is_usable=lambda one: one in self.raft_node.log.snapshots and not self._loader.is_damaged(one),
            worker=self.workers[1],
            logger=self._logger,
        )

    def _make_status(self, started_at: Now) -> NodeStatus:
        return NodeStatus(
            _info_of(self._config, self._directory, started_at),
            raft_node=self.raft_node,
            controller=self.controller,
            applier=self.applier,
            snapshotter=self.snapshotter,
            log_cleaner=self.log_cleaner,
            store=self.store,
            peer_connections=self.peer_connections,
            server=self.server,
            metrics=self.metrics,
            events=self.events,
            driver=self.driver,
        )

    def _add_routes(self) -> None:
        """Say who answers which request.

        The raft node answers each Fetch, now: that of the metadata topic, and that of any other, which it
        refuses as unknown. A broker of our own will add a handler for each topic that it has replicas of.
        """
        router, network = self.router, self.network
        router.gate = gate_of(self.controller, self._limited_logger, lambda: self.applier.has_caught_up)
        self.server.refusal_unread = self.controller.refusal_unread
        router.add(network.handlers)
        router.add({FetchRequest: network.request_received}, topic_id=METADATA_TOPIC_ID)
        apis = self.apis.handlers
        router.add(apis)
        router.add(
            {BrokerRegistrationRequest: self._unregistered_brokers.noting(apis[BrokerRegistrationRequest])}
        )
        router.add({DescribeNodeRequest: partial(self._serve_described, self.status)})
        router.add({DescribeEventsRequest: partial(self._serve_described, self.events)})
        router.add(self.exports.handlers)
        router.add_when_closed(self.exports.forget)
        router.add(self.committed_fetches.handlers)
        router.add_when_closed(self.committed_fetches.forget)
        router.add(Envelopes(router, self.server.limited_logger).handlers)
        served = self.server.kafka_api_keys = (router.api_keys & KAFKA.apis.keys()) | KafkaApis.API_KEYS
        router.add(KafkaApis(self._directory.cluster_id, self.raft_node, self.controller, served).handlers)

    def start(self) -> None:
        """Start the raft node and its turn tasks, and restore the state that the newest snapshot stands for.
        The server must accept connections only after this.
        """
        self.driver.start(
            self.raft_node,
            self.make_executor(),
            before=[GroupBegin(self.apis), self.server, self.apis],
            after=[
                self.applier,
                self.store,
                self.guard,
                self.snapshotter,
                self.log_cleaner,
                self.log_checker,
                self.committed_fetches,
                self.exports,
            ],
        )
        if snapshots := self._directory.usable_snapshots:
            self.applier.load_snapshot(snapshots[-1])

    def make_executor(self) -> EffectExecutor:
        """The executor of the raft node's effects; a simulator watches it."""
        return EffectExecutor(
            store=self.store,
            snapshots=self.snapshot_transfer,
            network=self.network,
            listener=self,
            outcomes=self.apis,
            notice_logger=self,
        )

    def registration_manager(self, jitter: Callable[[float, float], float]) -> RegistrationManager:
        """What registers this controller with the active one."""
        me = _registration_of(self._config, self._directory, self.advertised)
        book, logger = self.peer_connections.addresses, self._limited_logger
        return RegistrationManager(me, self.controller, self.raft_node, book, logger, jitter=jitter)

    def stop_workers(self) -> None:
        """Wait for the jobs that were submitted, and end the threads. The driver must have stopped before."""
        self.store.drain()
        for worker in self.workers:
            worker.finish()
        self.snapshotter.stop()
        self.snapshot_transfer.stop()

    def _end_turn(self) -> None:
        """Write to the sockets first: the flush thread starts when the loop goes to sleep."""
        self.outbox.flush()
        self.store.submit_flush()

    def _snapshot_written(self, info: SnapshotInfo) -> None:
        if self._directory.add_snapshot(info):
            self.driver.deliver(SnapshotTaken(info.id))
            self.log_cleaner.snapshot_written(info.id.offset)
        self._loader.forget_damage_below(info.id.offset)

    def _snapshot_loaded(self, info: SnapshotInfo) -> None:
        self.snapshotter.loaded(info)
        self._snapshot_check.begin()

    # What the executor calls for the state machine and the log.

    def commit(self, high_watermark: Offset) -> None:
        """Count the commit, and let the applier apply up to here."""
        self.metrics.committed(high_watermark, self.driver.now().mono_ms)
        self.applier.commit(high_watermark)

    def leader_changed(self, change: LeaderChanged) -> None:
        """Log who leads, and tell the controller."""
        self._logger.info("leader_changed", epoch=change.epoch, leader=change.leader_id)
        self.applier.leader_changed(change)

    def load_snapshot(self, snapshot_id: OffsetAndEpoch) -> None:
        """Let the applier take the state of a snapshot in the place of its own."""
        self.applier.load_snapshot(snapshot_id)

    def log_notice(self, notice: Notice) -> None:
        """Log one notice; a state change is also counted in the metrics."""
        if type(notice) is StateChanged:
            self.metrics.state_changed(notice, self.driver.now().mono_ms)
        self._notice_logger.log_notice(notice)

    def _serve_described(self, by: NodeStatus | EventStatus, to: Requester, request: Request) -> None:
        to.reply(request.api_version, request.correlation_id, by.describe(self.driver.now()))


def _info_of(config: Config, directory: NodeDirectory, started_at: Now) -> NodeInfo:
    return NodeInfo(
        node_id=config.node_id,
        cluster_id=directory.cluster_id,
        directory_id=directory.directory_id,
        fetch_timeout_ms=config.timing.fetch_timeout_ms,
        started_at=started_at,
        why_forgeable=None if config.settings.authorizer is None else FORGEABLE,
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


def _raft_node_of(
    config: Config, directory: NodeDirectory, advertised: Endpoint, environment: Environment
) -> RaftNode:
    """The raft node, from what the directory holds."""
    log, timing = directory.log, config.timing
    return RaftNode(
        me=ReplicaKey(config.node_id, directory.directory_id),
        cluster_id=directory.cluster_id,
        voters=VoterSet(Voter(node_id, endpoint) for node_id, endpoint in config.voters.items()),
        log=OpenedLog(
            log.start_offset,
            log.end_offset,
            log.epochs,
            log.generation,
            tuple(log.tail(environment.tail_bytes)),
            directory.known_committed,
            directory.usable_snapshots,
        ),
        election=directory.election,
        timing=Timing(
            min_leader_ms=MIN_LEADER_MS,
            election_timeout_ms=timing.election_timeout_ms,
            fetch_timeout_ms=timing.fetch_timeout_ms,
            election_backoff_max_ms=timing.election_backoff_max_ms,
            append_linger_ms=timing.append_linger_ms,
            request_timeout_ms=timing.request_timeout_ms,
            retry_backoff_ms=timing.retry_backoff_ms,
            observer_linger_ms=timing.observer_linger_ms,
        ),
        random_source=environment.random_source,
        health=StateHealth(directory.damage, directory.amnesia, directory.uninitialized),
        known_peers=directory.peers,
        advertised=advertised,
        bootstrap=() if config.node_id in config.voters else tuple(config.bootstrap_servers),
        uncommitted_bytes_max=config.accumulator_bytes,
        tail_bytes=2 * environment.tail_bytes,
        fetch_bytes=environment.fetch_bytes,
        snapshot_chunk_bytes=config.snapshot_chunk_bytes,
    )


def _controller_of(config: Config, directory: NodeDirectory, advertised: Endpoint) -> QuorumController:
    """The state machine, with the records that a new cluster begins with."""
    bootstrap = [decode_record(value) for value in directory.bootstrap_records()]
    return QuorumController(
        me=_registration_of(config, directory, advertised),
        bootstrap=bootstrap or bootstrap_records(),
        max_idle_interval_ms=config.idle_interval_ms,
        settings=msgspec.structs.replace(
            config.settings, cluster_id=directory.cluster_id, voter_ids=frozenset(config.voters)
        ),
    )


def _registration_of(
    config: Config, directory: NodeDirectory, advertised: Endpoint
) -> ControllerRegistration:
    """What this start says of itself in the metadata log."""
    return registration_of(config.node_id, incarnation_of(directory.start_id), [advertised])


def incarnation_of(start_id: Uuid) -> Uuid:
    """The incarnation id in the metadata log, of one start of this node.

    Every reader of the log sees it, so it is not the start id itself, which only confirmed voters are told
    (D-37), but its hash.
    """
    return sha256(b"incarnation" + start_id).digest()[:16]
