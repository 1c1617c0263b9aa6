"""One broker: a machine, and on it a double of Kafka's broker, as far as the controllers can tell.

`SimBroker` owns the machine (its disk, whether it is on) and the process on it. What happens to it from
outside: `start`, `stop` (SIGTERM: controlled shutdown), `crash` (SIGKILL), `cut_power`, `pause`, `resume`,
`fail_directory`. A process reads the metadata log as an observer, registers once it has caught up, keeps its
session by heartbeats, asks to be unfenced, and does what `broker_replicas` says about its partitions. All of
it goes over channels of Kafka's wire (`broker_channel`), each with one request in flight.

It judges what it is told: nothing that is committed is truncated, one leader an epoch, images that are those
of the controllers, and no stale epoch for the newest process that registered.

Follows: Kafka's BrokerLifecycleManager, BrokerServer and KafkaRaftClient as an observer. A broker that is
told STALE_BROKER_EPOCH never registers again by itself; an operator restarts it.
Differs: a starting broker's heartbeats come every 100 ms, not every 10, for the sake of the events of a seed.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from kraftd.audit.invariant import Violation
from kraftd.audit.placements import PartitionKey
from kraftd.errors import ErrorCode, InvariantError, KraftdError
from kraftd.metadata.feature_levels import SUPPORTED
from kraftd.metadata.image import MetadataImage
from kraftd.protocol import messages as m
from kraftd.types import METADATA_TOPIC_ID, NO_NODE, NodeId, Offset, OffsetAndEpoch, Uuid
from tests.sim.broker_channel import Ask, Channel
from tests.sim.broker_data import Data
from tests.sim.broker_log import MetadataLog
from tests.sim.broker_replicas import Replicas
from tests.sim.broker_snapshots import Download
from tests.sim.loop import Clock, SimLoop
from tests.sim.network import host_of
from tests.sim.node import CLUSTER_ID

if TYPE_CHECKING:
    from tests.sim.world import World

DUPLICATE_BROKER_REGISTRATION = 101
STALE_BROKER_EPOCH = 77
STARTING_US = 100_000
FETCH_WAIT_MS = 500
FETCH_AGAIN_US = 30_000
"""How soon a broker fetches again that was refused, or asks again for a piece that had no bytes yet."""
LOADED = "a broker loaded a snapshot"
REGISTRATION_US = 60_000_000
RAFT_TIMEOUT_US = 2_000_000
FORWARD_US = 60_000_000
ASSIGN_AGAIN_US = 1_000_000
MENDED_PART = 0.5
"""How many directories that failed come back with what they held."""
RECOVERY_US = 1_000_000
"""How long a broker takes at most for its logs, once it has caught up, before it asks to be unfenced."""


class BrokerDisk(msgspec.Struct):
    """What survives a process."""

    directories: tuple[Uuid, ...]
    failed: set[Uuid] = set()
    log: MetadataLog = msgspec.field(default_factory=MetadataLog)
    clean_epoch: int = -1
    """The epoch of the process that stopped in order; -1 if the last one did not."""
    replicas: dict[PartitionKey, Uuid] = {}
    """Which replica is in which directory."""
    left: dict[PartitionKey, Uuid] = {}
    """Replicas that were taken away and lie, under their names, in directories that had failed by then."""
    strays: dict[PartitionKey, Offset] = {}
    """Replicas that were renamed to `…-stray`, and lie there still: up to where the log was read then."""
    data: Data = msgspec.field(default_factory=Data)

    @property
    def working(self) -> tuple[Uuid, ...]:
        """The directories that work."""
        return tuple(directory for directory in self.directories if directory not in self.failed)

    def replace_failed(self, new_id: Callable[[int], bytes]) -> list[PartitionKey]:
        """An operator puts in new disks for those that failed: other directories, with nothing in them.
        Returns whose replicas are gone.
        """
        gone = [key for key, where in self.replicas.items() if where in self.failed]
        self.data.forget(gone)
        for key in gone:
            del self.replicas[key]
        self.left = {key: where for key, where in self.left.items() if where not in self.failed}
        self.directories = tuple(
            new_id(16) if directory in self.failed else directory for directory in self.directories
        )
        self.failed = set()
        return gone


class SimBroker:
    """A machine and the broker on it."""

    def __init__(self, broker_id: NodeId, world: "World") -> None:
        self.id = broker_id
        self.world = world
        self.random = world.derive(f"broker {broker_id}")
        self.draw = self.random.random
        self.clock = Clock(world, mono_us=int(self.draw() * 1_000_000_000), wall_ms=0)
        shape = world.brokers.shape
        directories = tuple(self.random.randbytes(16) for _ in range(shape.directories))
        self.disk = BrokerDisk(directories, log=MetadataLog(world.brokers.folds))
        self.rack = f"r{broker_id % shape.racks}" if shape.racks else None
        self.names_epochs = self.draw() >= shape.old_part
        """Whether it is of a release that names broker epochs in AlterPartition (KIP-903)."""
        self.checks = self.draw() >= shape.unchecked_part
        """Whether it looks who may be in an ISR before it proposes it."""
        self.is_on = True
        self.is_up = False
        self.is_paused = False
        self.is_stopping = False
        self.incarnation = 0
        self.incarnation_id: Uuid = bytes(16)
        self.loop: SimLoop | None = None
        self.epoch = -1
        """Of its registration; -1 before that."""
        self.is_unfenced = False
        """Whether its last heartbeat told it so."""
        self.is_stale = False
        """Whether it was told that its epoch is over: then it never comes back by itself."""
        self.replicas = Replicas(self)
        self._channels: dict[str, Channel] = {}
        self._down_us: int | None = None
        self._hint: NodeId | None = None
        """Which controller to ask who leads, while that is unknown."""
        self._has_caught_up = False
        """With its own registration: only then it begins to do something about its partitions."""
        self._may_unfence = False
        self._high_watermark: Offset = -1
        self._download: Download | None = None
        """The snapshot that the leader told it to load."""
        self._heartbeat_timer: Any = None
        world.network.add_host(broker_id)

    # -- from outside

    def start(self) -> None:
        """Power on if need be, and start the process."""
        if self.is_up:
            return
        world = self.world
        if not self.is_on:
            self.is_on = True
            world.network.power_on(self.id)
        self.incarnation += 1
        self.incarnation_id = self.random.randbytes(16)
        self.is_up, self.is_paused, self.is_stopping, self.is_stale = True, False, False, False
        self.epoch, self.is_unfenced, self._has_caught_up, self._may_unfence = -1, False, False, False
        self._high_watermark, self._download = -1, None
        if self.disk.failed:
            self._mend_directories()
        self.loop = SimLoop(world, self.clock, on_error=self._ended_by, random=self.random)
        self.replicas = Replicas(self)
        world.tell(self.id, "broker_started", incarnation=self.incarnation)
        self.loop.arrive(self._boot, None)

    def stop(self, *, down_us: int | None = None) -> None:
        """SIGTERM: hand over the leaderships, then end."""
        if self.is_up and not self.is_stopping and self.loop is not None:
            self.is_stopping = True
            self._down_us = down_us
            self.world.tell(self.id, "broker_stopping")
            self.loop.arrive(lambda _: self._beat_now(), None)

    def crash(self, *, down_us: int | None = None) -> None:
        """SIGKILL; the kernel closes its connections."""
        if self.is_up:
            self.world.tell(self.id, "broker_crashed")
            self.disk.clean_epoch = -1
            self._end(down_us)
            self.world.network.process_died(self.id)

    def cut_power(self, *, down_us: int | None = None) -> None:
        """The machine is gone without a word."""
        if self.is_on:
            self.world.tell(self.id, "broker_power_cut")
            if self.is_up:
                self.disk.clean_epoch = -1
                self._end(down_us)
            self.disk.data.lose_tail(self.draw)
            self.world.brokers.lost_tail(self)
            self.is_on = False
            self.world.network.power_off(self.id)

    def pause(self) -> None:
        """SIGSTOP."""
        if self.is_up and not self.is_paused and self.loop is not None:
            self.is_paused = True
            self.loop.pause()

    def resume(self) -> None:
        """SIGCONT."""
        if self.is_up and self.is_paused and self.loop is not None:
            self.is_paused = False
            self.loop.resume()

    def fail_directory(self, directory: Uuid | None = None) -> bool:
        """One of several directories that work fails, any if not said; whether there was one to spare."""
        working = self.disk.working
        if not self.is_up or len(working) < 2:
            return False
        if directory is None:
            directory = working[int(self.world.random.random() * len(working))]
        self.disk.failed.add(directory)
        self.replicas.lose(directory)
        self.world.tell(self.id, "directory_failed", directory=directory.hex())
        return True

    def calm(self) -> None:
        """Whatever was wrong with this machine ends; a process that cannot come back is started anew."""
        self.resume()
        if self.is_stale:
            self.crash()
        self.start()

    def is_reachable_from(self, other: "SimBroker") -> bool:
        """Whether this process would answer a fetch of another broker's."""
        network = self.world.network
        runs = self.is_up and self.is_on and not self.is_paused
        return runs and not network.is_cut(other.id, self.id) and not network.is_cut(self.id, other.id)

    def forward(self, request: Any, done: Callable[[Any], None], failed: Callable[[], None]) -> bool:
        """Send a request of one of its clients, or its own, to the active controller; whether it could."""
        if not self.is_up or self.is_paused or not self.disk.log.has_real_record:
            return False
        until_us = self.world.now_us + FORWARD_US
        self._channel("forward").ask(Ask(request, done, until_us, failed))
        return True

    # -- the process

    def _boot(self, _: object) -> None:
        self._hint = None
        self._fetch()

    def _mend_directories(self) -> None:
        """An operator finds the cable, or puts in new disks."""
        if self.draw() < MENDED_PART:
            self.disk.failed = set()
        else:
            self.world.brokers.acknowledged.replaced(self.id, self.disk.replace_failed(self.random.randbytes))
            self.world.brokers.lost_tail(self)

    def _end(self, down_us: int | None) -> None:
        assert self.loop is not None
        self.is_up = self.is_unfenced = False
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()
        self.loop.close()
        if self.draw() < 0.5:
            self.disk.log.lose_tail()
        incarnation = self.incarnation
        if down_us is not None:
            self.world.at(down_us, lambda: self.start() if self.incarnation == incarnation else None)

    def _ended_by(self, error: BaseException) -> None:
        expected = isinstance(error, KraftdError) and not isinstance(error, InvariantError)
        what = f"BrokersTakeWhatTheyAreTold: {error!r}" if expected else None
        self.world.fail(self.id, Violation(what) if what else error)

    def _channel(self, name: str) -> Channel:
        channel = self._channels.get(name)
        if channel is None:
            assert self.loop is not None
            shape = self.world.brokers.shape
            is_raft = name == "raft"
            timeouts_us = {"raft": RAFT_TIMEOUT_US, "heartbeat": shape.heartbeat_ms * 1_000}
            channel = self._channels[name] = Channel(
                self.world,
                self.loop,
                self.id,
                f"raft-client-{self.id}" if is_raft else str(self.id),
                target=self._raft_target if is_raft else self._controller,
                draw=self.draw,
                timeout_us=timeouts_us.get(name, FORWARD_US // 2),
                api_versions_max={} if self.names_epochs else {m.AlterPartitionRequest.API_KEY: 2},
            )
        return channel

    def _controller(self) -> NodeId | None:
        leader = self.disk.log.leader
        return leader if leader != NO_NODE else None

    def _raft_target(self) -> NodeId:
        if self._hint is None:
            leader = self._controller()
            voters = sorted(self.world.voters)
            self._hint = leader if leader is not None else voters[int(self.draw() * len(voters))]
        return self._hint

    # -- the metadata log

    def _fetch(self) -> None:
        log = self.disk.log
        partition = m.FetchRequestFetchPartition(
            partition=0,
            current_leader_epoch=log.epoch,
            fetch_offset=log.end_offset,
            last_fetched_epoch=log.last_epoch,
            log_start_offset=0,
            partition_max_bytes=0,
            replica_directory_id=self.disk.directories[0],
            high_watermark=self._high_watermark,
        )
        request = m.FetchRequest(
            cluster_id=CLUSTER_ID,
            replica_state=m.FetchRequestReplicaState(replica_id=self.id),
            max_wait_ms=FETCH_WAIT_MS,
            max_bytes=1 << 20,
            topics=(m.FetchRequestFetchTopic(topic_id=METADATA_TOPIC_ID, partitions=(partition,)),),
        )
        until_us = self.world.now_us + RAFT_TIMEOUT_US
        self._channel("raft").ask(Ask(request, self._fetched, until_us, self._fetch_failed))

    def _fetch_failed(self) -> None:
        """No answer in time: perhaps another one leads by now."""
        self._seek()
        self._later(FETCH_AGAIN_US, self._fetch)

    def _fetched(self, response: m.FetchResponse) -> None:
        if response.error_code:
            raise Violation(f"FetchesAreServed: a broker is told error {response.error_code}")
        (topic,) = response.responses
        (data,) = topic.partitions
        self._hear_of(data.current_leader)
        if data.error_code == ErrorCode.NONE:
            if data.snapshot_id.epoch >= 0:
                self._download = Download(OffsetAndEpoch(data.snapshot_id.end_offset, data.snapshot_id.epoch))
                self._fetch_piece()
                return
            self._take(data)
            self._fetch()
            return
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and self._has_lost_snapshots(data):
            self._later(FETCH_AGAIN_US, self._fetch)
            return
        if data.error_code == ErrorCode.UNKNOWN_SERVER_ERROR and self._reads_what_is_damaged(data):
            self._later(FETCH_AGAIN_US, self._fetch)
            return
        if data.error_code == ErrorCode.INVALID_REQUEST or data.error_code not in _REFUSALS:
            raise Violation(f"FetchesAreServed: a broker is told error {data.error_code} of the partition")
        self._seek()
        self._later(FETCH_AGAIN_US, self._fetch)

    def _has_lost_snapshots(self, data: m.FetchResponsePartitionData) -> bool:
        """Whether the leader's disk took all that leads to its log. It makes another snapshot at
        once; that this comes is judged by `EveryLiveBrokerIsBack`.
        """
        node = self.world.nodes.get(data.current_leader.leader_id)
        if node is None or node.raft_node is None:
            return False
        log = node.raft_node.log
        return log.lacks_snapshot_at(log.start_offset)

    def _reads_what_is_damaged(self, data: m.FetchResponsePartitionData) -> bool:
        """Whether the leader may have found, in reading for this fetch, that its disk has lost what was asked
        for. By the next fetch it leads no longer, or its log begins at the snapshot that holds it.
        """
        return data.current_leader.leader_id in self.world.fault_budget.were_hurt

    def _hear_of(self, leader: Any) -> None:
        """A response says who leads, if anybody does."""
        if leader.leader_epoch >= 0 and self.disk.log.follow(leader.leader_id, leader.leader_epoch):
            self._hint = None
            for channel in list(self._channels.values()):
                channel.retarget()

    def _fetch_piece(self) -> None:
        assert self._download is not None
        directory = self.disk.directories[0]
        request = self._download.request(CLUSTER_ID, self.id, directory, self.disk.log.epoch)
        until_us = self.world.now_us + RAFT_TIMEOUT_US
        self._channel("raft").ask(Ask(request, self._piece_fetched, until_us, self._fetch_failed))

    def _piece_fetched(self, response: m.FetchSnapshotResponse) -> None:
        assert self._download is not None
        if response.error_code:
            raise Violation(f"FetchesAreServed: a broker is told error {response.error_code} of a snapshot")
        (topic,) = response.topics
        (piece,) = topic.partitions
        self._hear_of(piece.current_leader)
        if piece.error_code == ErrorCode.SNAPSHOT_NOT_FOUND:
            self._fetch()  # there is a newer one by now
        elif piece.error_code:
            if piece.error_code not in _REFUSALS:
                raise Violation(f"FetchesAreServed: a broker is told error {piece.error_code} of a snapshot")
            self._fetch_failed()
        elif self._download.take(piece):
            self._load(self._download)
            self._fetch()
        elif piece.unaligned_records:
            self._fetch_piece()
        else:
            self._later(FETCH_AGAIN_US, self._fetch_piece)

    def _load(self, download: Download) -> None:
        """The whole snapshot is here."""
        log = self.disk.log
        log.load(download.id, download.data, self._published)
        self._download = None
        self._high_watermark = max(self._high_watermark, log.published_offset)
        self.world.statistics[LOADED] += 1
        self.world.tell(self.id, "broker_loaded_snapshot", offset=download.id.offset, epoch=download.id.epoch)
        if self._has_caught_up:
            self.replicas.publish(log.image)

    def _seek(self) -> None:
        """Ask the leader next, or any voter if this one was the leader, or nobody is known."""
        leader = self._controller()
        voters = sorted(self.world.voters)
        is_known = leader is not None and leader != self._hint
        self._hint = leader if is_known else voters[int(self.draw() * len(voters))]
        self._channel("raft").retarget()

    def _take(self, data: Any) -> None:
        log = self.disk.log
        if data.diverging_epoch.epoch >= 0:
            log.truncate(data.diverging_epoch.epoch, data.diverging_epoch.end_offset)
            return
        if data.records:
            log.append(bytes(data.records))
        if data.high_watermark >= 0:
            self._high_watermark = max(self._high_watermark, min(data.high_watermark, log.end_offset))
        if log.publish(self._high_watermark, self._published) and self._has_caught_up:
            self.replicas.publish(log.image)
        if self.epoch < 0 and log.has_real_record and "heartbeat" not in self._channels:
            if self._high_watermark >= data.high_watermark:
                self._register()
        elif self.epoch >= 0:
            self._propose()
            self._assign()

    def _published(self, end_offset: Offset, image: MetadataImage) -> None:
        self.world.brokers.compare(self, end_offset, image)

    # -- the session

    def _register(self) -> None:
        features = tuple(
            m.BrokerRegistrationRequestFeature(
                name=feature.name,
                min_supported_version=feature.min_level,
                max_supported_version=feature.max_level,
            )
            for feature in SUPPORTED
        )
        listener = m.BrokerRegistrationRequestListener(name="PLAINTEXT", host=host_of(self.id), port=9_092)
        request = m.BrokerRegistrationRequest(
            broker_id=self.id,
            cluster_id=CLUSTER_ID,
            incarnation_id=self.incarnation_id,
            listeners=(listener,),
            features=features,
            rack=self.rack,
            log_dirs=self.disk.working,
            previous_broker_epoch=self.disk.clean_epoch,
        )
        until_us = self.world.now_us + REGISTRATION_US
        self._channel("heartbeat").ask(Ask(request, self._registered, until_us, self._register))

    def _registered(self, response: m.BrokerRegistrationResponse) -> None:
        world = self.world
        world.statistics[f"registration {_name(response.error_code)}"] += 1
        if response.error_code == ErrorCode.NONE:
            self.epoch = response.broker_epoch
            self.disk.clean_epoch = -1
            world.brokers.registered(self)
            self._beat_now()
        elif response.error_code in _TRY_AGAIN:
            self._later(world.brokers.shape.heartbeat_ms * 1_000, self._register)
        else:
            text = f"broker {self.id} is refused with {_name(response.error_code)}"
            raise Violation(f"BrokersMayRegister: {text}")

    def _beat_now(self) -> None:
        if self.epoch < 0:
            if self.is_stopping:
                self._stopped()  # it was never registered: nobody has to be asked
            return
        if self._heartbeat_timer is not None:
            self._heartbeat_timer.cancel()
        request = m.BrokerHeartbeatRequest(
            broker_id=self.id,
            broker_epoch=self.epoch,
            current_metadata_offset=self.disk.log.published_offset - 1,
            want_fence=not self._may_unfence,
            want_shut_down=self.is_stopping,
            offline_log_dirs=tuple(sorted(self.disk.failed)),
        )
        until_us = self.world.now_us + self.world.brokers.shape.heartbeat_ms * 1_000
        self._channel("heartbeat").ask(Ask(request, self._beaten, until_us, self._beat_later))

    def _beat_later(self) -> None:
        is_starting = not self._may_unfence or self.is_stopping or not self.is_unfenced
        heartbeat_us = self.world.brokers.shape.heartbeat_ms * 1_000
        wait_us = min(STARTING_US, heartbeat_us) if is_starting else heartbeat_us
        self._heartbeat_timer = self._later(wait_us, self._beat_now)

    def _beaten(self, response: m.BrokerHeartbeatResponse) -> None:
        world = self.world
        if response.error_code == STALE_BROKER_EPOCH:
            world.brokers.told_stale(self)
            self.is_stale = True
        elif response.error_code == ErrorCode.NONE:
            self.is_unfenced = not response.is_fenced
            if response.should_shut_down and self.is_stopping:
                self._stopped()
                return
            if response.is_caught_up and not self._has_caught_up:
                self._has_caught_up = True
                self.replicas.publish(self.disk.log.image)
                self._later(int(self.draw() * RECOVERY_US), self._recovered)
        elif response.error_code not in _TRY_AGAIN:
            raise Violation(f"HeartbeatsAreServed: broker {self.id} is told {_name(response.error_code)}")
        self._beat_later()

    def _recovered(self) -> None:
        self._may_unfence = True

    def _stopped(self) -> None:
        """The controller lets it go: the clean shutdown file is written, with the epoch."""
        self.world.statistics["broker stopped in order"] += 1
        self.world.tell(self.id, "broker_stopped")
        self.disk.clean_epoch = self.epoch
        self.disk.data.flush()
        self._end(self._down_us)
        self.world.network.process_died(self.id)

    # -- replicas

    def tick(self) -> None:
        """Replicate, and propose; called by the world now and then."""
        if self.is_up and not self.is_paused and self.loop is not None:
            self.replicas.write()
            self.replicas.fetch()
            if self.epoch >= 0:
                self._propose()
                self._assign()

    def _propose(self) -> None:
        channel = self._channel("alter-partition")
        if not channel.is_idle or self.is_stale:
            return
        request = self.replicas.proposals(checks=self.checks)
        if request is not None:
            channel.ask(Ask(request, self._proposed, self.world.now_us + FORWARD_US, self.replicas.release))

    def _proposed(self, response: m.AlterPartitionResponse) -> None:
        world = self.world
        world.statistics[f"proposal {_name(response.error_code)}"] += 1
        for key, state in self.replicas.answered(response):
            world.brokers.told(self, key, state)
        for topic in response.topics:
            for partition in topic.partitions:
                world.statistics[f"partition {_name(partition.error_code)}"] += 1
        # Kafka's leader waits for news of what was refused; asking again after a while is what retries do.
        self._later(int((0.5 + self.draw()) * 500_000), self.replicas.release)

    def _assign(self) -> None:
        channel = self._channel("directory-assignments")
        if not channel.is_idle or self.is_stale:
            return
        request = self.replicas.assignments()
        if request is not None:
            until_us = self.world.now_us + FORWARD_US
            channel.ask(Ask(request, self._assigned, until_us, self.replicas.assign_again))

    def _assigned(self, response: m.AssignReplicasToDirsResponse) -> None:
        self.world.statistics[f"assignment {_name(response.error_code)}"] += 1
        errors = {
            one.error_code
            for part in response.directories
            for topic in part.topics
            for one in topic.partitions
        }
        if response.error_code or errors - {ErrorCode.NONE}:
            self._later(ASSIGN_AGAIN_US, self.replicas.assign_again)

    def _later(self, delay_us: int, action: Callable[[], None]) -> Any:
        assert self.loop is not None
        return self.loop.call_later(delay_us / 1_000_000, action)


_REFUSALS = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.BROKER_NOT_AVAILABLE,
    }
)
"""Why a fetch brings nothing, without anything being wrong."""

_TRY_AGAIN = frozenset(
    {
        DUPLICATE_BROKER_REGISTRATION,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    }
)


def _name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)
