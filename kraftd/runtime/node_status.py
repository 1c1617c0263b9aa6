"""What a node tells about itself, for `kraftctl status`, health checks, the `metrics` line and Prometheus.

Entered through `NodeStatus`: `describe` answers `DescribeNode` (with or without a leader), `health_input` is
what health checks look at, `readings` is the `metrics` line, `samples` the Prometheus page. Read-only.

Follows: the names of Kafka's raft-metrics and KafkaController MBeans, and Strimzi's Prometheus spelling of
them. Differs: `poll-idle-ratio-avg` is the share of wall time that the loop's thread spent off the
processor.
"""

import time
from collections.abc import Iterator, Mapping
from importlib.metadata import version

import msgspec

from kraftd.controller.cluster_summary import some_offline_partitions, summary_of
from kraftd.controller.quorum_controller import QuorumController
from kraftd.errors import ErrorCode
from kraftd.metadata.feature_levels import metadata_version_name
from kraftd.net.peer_connections import PeerConnections
from kraftd.net.server import Server
from kraftd.protocol import limits
from kraftd.protocol.brief import brief, briefs
from kraftd.protocol.messages import DescribeNodeResponse, DescribeNodeResponsePeer
from kraftd.raft import ROLES, PeerStatus, QuorumStatus, RaftNode
from kraftd.runtime.applier import Applier
from kraftd.runtime.controller_metrics import (
    broker_readings,
    controller_readings,
    controller_samples,
    election_readings,
)
from kraftd.runtime.driver import Driver
from kraftd.runtime.event_status import EventStatus
from kraftd.runtime.health_checks import HealthInput
from kraftd.runtime.idle_ratio import IdleRatio
from kraftd.runtime.log_cleaner import LogCleaner
from kraftd.runtime.raft_metrics import RaftMetrics
from kraftd.runtime.sample import Sample
from kraftd.runtime.snapshotter import Snapshotter
from kraftd.runtime.store import DirectoryStore
from kraftd.types import METADATA_TOPIC, ZERO_UUID, NodeId, Now, Uuid, uuid_text

SOFTWARE = f"kraftd {version('kraftd')}"


class NodeInfo(msgspec.Struct, frozen=True):
    """The properties of a node that do not change while it runs."""

    node_id: NodeId
    cluster_id: str
    directory_id: Uuid
    fetch_timeout_ms: int
    started_at: Now
    why_forgeable: str | None = None
    """How its authorizer can be got around; None if there is none."""


class NodeStatus:
    """Reads the state of all parts of a node."""

    def __init__(
        self,
        info: NodeInfo,
        *,
        raft_node: RaftNode,
        controller: QuorumController,
        applier: Applier,
        snapshotter: Snapshotter,
        log_cleaner: LogCleaner,
        store: DirectoryStore,
        peer_connections: PeerConnections,
        server: Server,
        metrics: RaftMetrics,
        events: EventStatus,
        driver: Driver,
    ) -> None:
        self._info = info
        self._raft_node = raft_node
        self._controller = controller
        self._applier = applier
        self._snapshotter = snapshotter
        self._log_cleaner = log_cleaner
        self._store = store
        self._peer_connections = peer_connections
        self._server = server
        self._metrics = metrics
        self._events = events
        self._driver = driver
        self._idle_ratio = IdleRatio(*_loop_times_ms())

    def describe(self, now: Now) -> DescribeNodeResponse:
        """This node's own view, for `kraftctl status`."""
        view = self._raft_node.describe(now)
        level = self._controller.image.metadata_version
        cluster, newest = summary_of(self._controller.image), self._snapshotter.newest
        return DescribeNodeResponse(
            error_code=ErrorCode.NONE,
            cluster_id=self._info.cluster_id,
            node_id=self._info.node_id,
            directory_id=self._info.directory_id,
            software=SOFTWARE,
            role=view.role,
            is_voter=view.is_voter,
            epoch=view.epoch,
            leader_id=view.leader_id,
            voted_id=view.voted_id,
            log_start_offset=view.log_start_offset,
            log_end_offset=view.log_end_offset,
            log_end_epoch=view.log_end_epoch,
            flushed_offset=view.flushed_offset,
            high_watermark=view.high_watermark,
            applied_offset=self._applier.applied_offset,
            image_hash=self._controller.image.hash(),
            whole=view.is_whole,
            alarms=briefs(self._alarms(view), limits.ALARM_BYTES_MAX, limits.ALARMS_MAX),
            why_not_following=brief(view.why_not_following, limits.ALARM_BYTES_MAX) or None,
            election_attempts=view.election_attempts,
            last_contact_ms=view.last_contact_ms_ago,
            peers=tuple(self._peers(view)),
            started_at_ms=self._info.started_at.wall_ms,
            uptime_ms=now.mono_ms - self._info.started_at.mono_ms,
            metadata_version=metadata_version_name(level) if level else "",
            active_broker_count=cluster.unfenced_brokers,
            fenced_broker_count=len(cluster.fenced_brokers),
            fenced_brokers=cluster.fenced_brokers[: limits.IN_TROUBLE_MAX],
            stopping_broker_count=cluster.stopping_brokers,
            topic_count=cluster.topics,
            partition_count=cluster.partitions,
            offline_partition_count=cluster.offline_partitions,
            offline_partitions=some_offline_partitions(self._controller.image, limits.IN_TROUBLE_MAX),
            snapshot_offset=-1 if newest is None else newest.id.offset,
            snapshot_bytes=-1 if newest is None else newest.size_bytes,
            snapshot_age_ms=self._snapshot_age_ms(now),
            snapshot_loaded_percent=self._applier.loaded_percent,
            why_no_snapshot=brief(self._snapshotter.why_none, limits.WORDS_BYTES_MAX) or None,
            why_forgeable=self._info.why_forgeable,
        )

    def health_input(self, now: Now) -> HealthInput:
        """What the health checks look at."""
        view = self._raft_node.describe(now)
        return HealthInput(
            leader_id=view.leader_id,
            is_leader=view.role == "leader",
            role=view.role,
            why_not_following=view.why_not_following or None,
            high_watermark=view.high_watermark,
            applied_offset=self._applier.applied_offset,
            last_contact_ms_ago=view.last_contact_ms_ago,
            fetch_timeout_ms=self._info.fetch_timeout_ms,
            flush_running_ms=self._store.flush_running_ms(now),
            is_whole=view.is_whole,
            alarms=self._alarms(view),
        )

    def readings(self, now: Now) -> Mapping[str, object]:
        """The `metrics` line: Kafka's raft-metrics and controller metrics by their names; what there is of
        each broker is an object.
        """
        return {**self._numbers(now), **broker_readings(self._controller, now)}

    def _numbers(self, now: Now) -> Mapping[str, object]:
        view = self._raft_node.describe(now)
        voted = self._raft_node.voted
        voted_directory = ZERO_UUID if voted is None else voted.directory_id
        return {
            "current-state": view.role,
            "current-leader": view.leader_id,
            "current-vote": view.voted_id,
            "current-vote-directory-id": uuid_text(voted_directory),
            "current-epoch": view.epoch,
            "high-watermark": view.high_watermark,
            "log-end-offset": view.log_end_offset,
            "log-end-epoch": view.log_end_epoch,
            "number-unknown-voter-connections": 0,
            "number-of-voters": view.is_voter + sum(peer.is_voter for peer in view.peers),
            "number-of-observers": sum(not peer.is_voter for peer in view.peers),
            "uncommitted-voter-change": 0,
            **self._metrics.readings(now.mono_ms),
            "poll-idle-ratio-avg": self._idle_ratio.read(*_loop_times_ms()),
            "last-applied-record-offset": self._applier.applied_offset - 1,
            "last-applied-record-timestamp": self._applier.applied_timestamp_ms,
            "last-applied-record-lag-ms": self._lag_ms(view, now),
            "last-committed-record-offset": view.high_watermark - 1,
            "active-controller-count": int(self._controller.is_active),
            **controller_readings(self._controller),
            **election_readings(self._controller),
            **self._events.readings(now),
            "connection-count": sum(self._connections().values()),
            "connections-closed": sum(msgspec.structs.astuple(self._server.tally)),
        }

    def samples(self, now: Now) -> Iterator[Sample]:
        """The Prometheus page."""
        readings = self._numbers(now)
        role = readings["current-state"]
        for name in ROLES:
            yield Sample(
                "kafka_server_raftmetrics_current_state",
                "Whether the node is in this state.",
                int(name == role),
                {"current_state": name},
            )
        for name, value in readings.items():
            meaning = RAFT_METRIC_TEXTS.get(name)
            if meaning is not None and isinstance(value, int | float):
                yield Sample(f"kafka_server_raftmetrics_{name.replace('-', '_')}", meaning, value)
        yield from controller_samples(self._controller, now)
        yield from self._events.samples(now)
        yield from self._applied_samples(now)
        yield from self._quorum_samples(now)
        yield from self._log_samples(now)
        yield from self._snapshot_samples(now)
        yield from self._process_samples()

    def _snapshot_samples(self, now: Now) -> Iterator[Sample]:
        """Kafka's SnapshotEmitterMetrics, and which one it is; 0 and -1 while there is none."""
        prefix, newest = "kafka_server_snapshotemitter_latestsnapshotgenerated", self._snapshotter.newest
        yield Sample(
            prefix + "bytes",
            "Size of the newest snapshot, in bytes.",
            0 if newest is None else newest.size_bytes,
        )
        yield Sample(
            prefix + "agems",
            "How old the newest record in it is, in milliseconds; -1 without a snapshot.",
            self._snapshot_age_ms(now),
        )
        yield Sample(
            "kraftd_snapshot_offset",
            "The offset up to which the newest snapshot has the log; -1 without one.",
            -1 if newest is None else newest.id.offset,
        )
        yield Sample(
            "kafka_server_metadataloader_handleloadsnapshotcount",
            "How many snapshots were restored.",
            self._applier.loaded_count,
        )
        yield Sample(
            "kraftd_snapshot_loaded_percent",
            "How much of the snapshot that is being loaded is restored; 100 while none is.",
            self._applier.loaded_percent,
        )

    def _snapshot_age_ms(self, now: Now) -> int:
        newest = self._snapshotter.newest
        return -1 if newest is None else max(now.wall_ms - newest.last_contained_timestamp_ms, 0)

    def _log_samples(self, now: Now) -> Iterator[Sample]:
        """Where the log begins, and what was cleaned of it: Kafka's UnifiedLog knows the first."""
        cleaner = self._log_cleaner
        yield Sample(
            "kafka_log_log_logstartoffset",
            "Where the log begins.",
            self._raft_node.describe(now).log_start_offset,
            {"topic": METADATA_TOPIC, "partition": "0"},
        )
        yield Sample(
            "kraftd_log_cleanings",
            "How often the log was cut at a snapshot.",
            cleaner.cleanings,
            is_counter=True,
        )
        yield Sample(
            "kraftd_log_cleaned_bytes",
            "Log and snapshots that went, in bytes.",
            cleaner.removed_bytes,
            is_counter=True,
        )

    def _quorum_samples(self, now: Now) -> Iterator[Sample]:
        """How the leader sees the others, and whether this node is well."""
        view = self._raft_node.describe(now)
        yield Sample(
            "kafka_server_metadataloader_currentcontrollerid",
            "The active controller, -1 if none is known.",
            view.leader_id,
        )
        yield Sample("kraftd_whole", "0 while the node fetches uncounted (D-06).", int(view.is_whole))
        yield Sample(
            "kraftd_alarms", "Alarms of this node; kraftctl status names them.", len(self._alarms(view))
        )
        if view.role != "leader":
            return
        for peer in view.peers:
            labels = {"replica": str(peer.node_id), "is_voter": str(peer.is_voter).lower()}
            lag = view.log_end_offset - peer.fetch_offset if peer.fetch_offset >= 0 else -1
            meaning = "Records that a replica has yet to fetch, -1 if unknown; on the leader."
            yield Sample("kraftd_replica_lag", meaning, lag, labels)
            yield Sample(
                "kraftd_replica_last_fetch_ms_ago",
                "Milliseconds since a replica fetched, -1 if it never did; on the leader.",
                peer.last_fetch_ms_ago,
                labels,
            )

    def _applied_samples(self, now: Now) -> Iterator[Sample]:
        prefix = "kafka_controller_kafkacontroller_"
        view = self._raft_node.describe(now)
        applied = self._applier
        yield Sample(
            prefix + "lastappliedrecordoffset",
            "Offset of the last record in the image.",
            applied.applied_offset - 1,
        )
        yield Sample(
            prefix + "lastappliedrecordtimestamp",
            "Its timestamp, in milliseconds.",
            applied.applied_timestamp_ms,
        )
        yield Sample(
            prefix + "lastappliedrecordlagms", "How old it is; 0 on the leader.", self._lag_ms(view, now)
        )
        yield Sample(
            prefix + "lastcommittedrecordoffset",
            "Offset of the last committed record.",
            view.high_watermark - 1,
        )

    def _process_samples(self) -> Iterator[Sample]:
        metrics = self._metrics
        yield Sample("kraftd_elections", "Candidacies of this node.", metrics.elections, is_counter=True)
        yield Sample(
            "kraftd_leader_changes_seen",
            "How often this node led or followed anew.",
            metrics.leader_changes,
            is_counter=True,
        )
        yield Sample("kraftd_log_flushes", "Flushes of the log.", metrics.flushes, is_counter=True)
        yield Sample(
            "kraftd_log_flush_milliseconds",
            "Time spent in them.",
            metrics.flush_total_ms,
            is_counter=True,
        )
        yield Sample("kraftd_log_flush_max_milliseconds", "The longest of them.", metrics.flush_max_ms)
        yield Sample(
            "kraftd_loop_turns", "Turns of the raft node's loop.", self._driver.turns, is_counter=True
        )
        yield Sample(
            "kraftd_messages_sent",
            "Requests and responses written to connections, over all protocols of the listener.",
            self._server.outbox.messages_sent,
            is_counter=True,
        )
        for name, count in self._connections().items():
            yield Sample("kraftd_connections", "Connections that others opened.", count, {"class": name})
        for reason, count in msgspec.structs.asdict(self._server.tally).items():
            yield Sample(
                "kraftd_connections_closed",
                "Connections that this node closed or refused, by reason.",
                count,
                {"reason": reason},
                is_counter=True,
            )
        peer_connections = self._peer_connections.statistics()
        yield Sample(
            "kafka_server_raftchannelmetrics_connection_count",
            "Standing connections to other nodes.",
            sum(ready for _, ready, _ in peer_connections.values()),
        )

    def _connections(self) -> Mapping[str, int]:
        return {each.value: count for each, count in self._server.statistics().items()}

    def _alarms(self, view: QuorumStatus) -> tuple[str, ...]:
        of_snapshots = (*self._snapshotter.alarms, *self._applier.alarms)
        return (*view.alarms, *self._controller.alarms, *of_snapshots)

    def _peers(self, view: QuorumStatus) -> Iterator[DescribeNodeResponsePeer]:
        peer_connections = self._peer_connections.statistics()
        for peer in view.peers:
            connection = peer_connections.get(peer.node_id)
            endpoint = connection[0] if connection is not None else peer.endpoint
            yield DescribeNodeResponsePeer(
                node_id=peer.node_id,
                host=brief(endpoint.host, limits.HOST_BYTES_MAX) if endpoint is not None else "",
                port=endpoint.port if endpoint is not None else 0,
                connected=peer.is_connected if connection is None else connection[1],
                fetch_offset=peer.fetch_offset,
                last_fetch_ms_ago=peer.last_fetch_ms_ago,
                note=brief(_note(peer, "" if connection is None else connection[2]), limits.WORDS_BYTES_MAX),
            )

    def _lag_ms(self, view: QuorumStatus, now: Now) -> int:
        if view.role == "leader" or self._applier.applied_timestamp_ms < 0:
            return 0
        return max(now.wall_ms - self._applier.applied_timestamp_ms, 0)


def _loop_times_ms() -> tuple[float, float]:
    """Wall time, and processor time of this thread."""
    return time.monotonic() * 1_000, time.thread_time() * 1_000


RAFT_METRIC_TEXTS = {
    "current-leader": "The leader's id, -1 if none is known.",
    "current-vote": "Whom this node voted for in the epoch, -1 for nobody.",
    "current-epoch": "The epoch.",
    "high-watermark": "Everything before it is committed, -1 if unknown.",
    "log-end-offset": "Where the log ends.",
    "log-end-epoch": "Epoch of the last record.",
    "number-unknown-voter-connections": "Kept for dashboards; always 0.",
    "number-of-voters": "Voters of the quorum.",
    "number-of-observers": "Observers the leader knows.",
    "uncommitted-voter-change": "Kept for dashboards; always 0.",
    "commit-latency-avg": "Milliseconds from append to commit.",
    "commit-latency-max": "The longest of them.",
    "election-latency-avg": "Milliseconds from the first pre-vote or vote asked for to having a leader.",
    "election-latency-max": "The longest of them.",
    "fetch-records-rate": "Records fetched a second.",
    "append-records-rate": "Records appended as leader a second.",
    "poll-idle-ratio-avg": "Share of time the loop was idle.",
}
"""The help text of each raft metric on the Prometheus page."""


def _note(peer: PeerStatus, trouble: str) -> str:
    return "; ".join(part for part in (trouble, peer.refusal) if part)
