"""The two controllers side by side, and the connection on which each is asked and its log is read.

Both are formatted with the same cluster id and levels of features, and configured alike: what would act by
itself (sessions, elections by timers, NoOps, snapshots) has periods of days or is off. A `Side` asks one
request at a time, as a broker or an admin client does, and reads what was appended as an observer.
"""

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from kraftd.errors import ErrorCode
from kraftd.metadata.feature_levels import METADATA_VERSION, NEW_CLUSTER_LEVELS, metadata_version_name
from kraftd.protocol import messages as m
from kraftd.protocol.kafka_codec import KAFKA
from kraftd.protocol.principal import Principal
from kraftd.records.batch import scan
from kraftd.records.frame import decode_record, read_frame
from kraftd.records.messages import FeatureLevelRecord
from kraftd.types import METADATA_TOPIC_ID
from tests.brokers.kafka_process import KafkaProcess
from tests.conformance_kafka.account import Account
from tests.conformance_kafka.hmacs import SECRET
from tests.conformance_kafka.operations import HERE, Operation, encode_request, request_of
from tests.interop.peer import Kafka
from tests.principals import encode_principal
from tests.process.cluster import Cluster, KafkaClient, TimeoutWaitingError, free_ports

CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"
DAY_MS = 86_400_000
SETTINGS = {
    "delegation.token.secret.key": SECRET,
    "delegation.token.expiry.check.interval.ms": str(10 * DAY_MS),
    "broker.session.timeout.ms": str(10 * DAY_MS),
    "broker.heartbeat.interval.ms": str(DAY_MS),
    "metadata.max.idle.interval.ms": "0",
    "metadata.log.max.snapshot.interval.ms": "0",
    "metadata.log.max.record.bytes.between.snapshots": str(1 << 30),
    "unclean.leader.election.interval.ms": str(10 * DAY_MS),
    "leader.imbalance.check.interval.seconds": str(10 * DAY_MS // 1000),
    "auto.leader.rebalance.enable": "false",
    "controller.quorum.append.linger.ms": "0",
    "connections.max.idle.ms": str(10 * DAY_MS),
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
SNAPSHOT_EVERY = str(1 << 15)
"""After how many bytes of records Kafka's controller makes a snapshot."""
WAIT_S = 60.0
HASH_WAIT_S = 2.0
OBSERVER = 5_000
CLOSED = "the connection was closed"
_ADDRESS = bytes((127, 0, 0, 1))


class Appended(NamedTuple):
    """A record in a log."""

    offset: int
    version: int
    record: Any


class Side:
    """One controller, as those who speak to it see it."""

    def __init__(self, name: str, port: int) -> None:
        self.name = name
        self.port = port
        self.account = Account()
        self.log: list[Appended] = []
        """All that was appended so far."""
        self.spoil: Callable[[Any], Any] = lambda said: said
        """What is done to a response, or an `Appended`, before it is compared: for tests of the comparison.
        None loses it.
        """
        self._epoch = 0
        """Of the last batch that was read."""
        self._leader_epoch = 0
        self._clients: dict[str, KafkaClient] = {}

    @property
    def client(self) -> KafkaClient:
        """The connection, made if there is none."""
        return self.client_at(HERE)

    def client_at(self, host: str) -> KafkaClient:
        """The connection that comes from this address, made if there is none."""
        if host not in self._clients:
            source = "" if host == HERE else host  # else, while nobody listens, it might find itself
            self._clients[host] = KafkaClient(self.port, source=source, timeout_s=WAIT_S)
        return self._clients[host]

    def close(self) -> None:
        """End all connections."""
        for client in self._clients.values():
            client.socket.close()
        self._clients.clear()

    def ask(self, operation: Operation) -> Any:
        """The response; `CLOSED` if there is none, the error of the envelope if that has one."""
        message = request_of(operation, self.account)
        try:
            if not operation.forwarded:
                client = self.client_at(operation.host)
                return self.spoil(client.ask(message, operation.version))
            told = self.client.ask(
                m.EnvelopeRequest(
                    request_data=encode_request(operation, message),
                    request_principal=encode_principal(Principal("User", operation.principal)),
                    client_host_address=_ADDRESS,
                )
            )
        except (OSError, IndexError):
            self.close()
            return CLOSED
        if told.error_code:
            return {"envelope": told.error_code}
        response = KAFKA.read_response(told.response_data).decode((message.API_KEY, operation.version))
        return self.spoil(response)

    def appended(self) -> list[Appended]:
        """What was appended since this was asked last; it is in the account."""
        found: list[Appended] = []
        end_offset = -1
        while end_offset != self.account.end_offset:
            end_offset = self.account.end_offset
            found += self._fetched()
        self.log += found
        return [spoilt for each in found if (spoilt := self.spoil(each)) is not None]

    def _fetched(self) -> list[Appended]:
        partition = m.FetchRequestFetchPartition(
            current_leader_epoch=self._leader_epoch,
            fetch_offset=self.account.end_offset,
            last_fetched_epoch=self._epoch,
            replica_directory_id=b"o" * 16,
        )
        response = self.client.ask(
            m.FetchRequest(
                cluster_id=CLUSTER_ID,
                replica_state=m.FetchRequestReplicaState(replica_id=OBSERVER),
                max_bytes=8 << 20,
                topics=(m.FetchRequestFetchTopic(topic_id=METADATA_TOPIC_ID, partitions=(partition,)),),
            ),
            17,
        )
        data = response.responses[0].partitions[0]
        if data.error_code == ErrorCode.FENCED_LEADER_EPOCH:
            self._leader_epoch = data.current_leader.leader_epoch
            return self._fetched()
        if data.error_code or data.snapshot_id.end_offset >= 0:
            raise TimeoutWaitingError(f"{self.name} lets its log not be read: {data}")
        found = []
        for batch in scan(bytes(data.records or b"")):
            for index, value in enumerate(() if batch.is_control else batch.values()):
                offset = batch.base_offset + index
                found.append(Appended(offset, read_frame(value)[1], decode_record(value)))
                self.account.apply(found[-1].record, offset)
            self.account.end_offset, self._epoch = batch.end_offset, batch.epoch
        return found


class TwoSides(Protocol):
    """Two controllers that are compared: the first is the measure of the second, which is kraftd."""

    kafka: Side
    kraftd: Side

    @property
    def kafka_folder(self) -> Path:
        """Where the first one has its log and, if it is Kafka's, its snapshots."""

    def __iter__(self) -> Iterator[Side]:
        """Both."""

    def start(self) -> None:
        """Start both."""

    def close(self) -> None:
        """Kill whatever still runs."""

    def before(self, index: int) -> None:
        """Do what has to be done before the operation of this number."""

    def kraftd_hash(self, wanted: str) -> str:
        """The hash of kraftd's image, once it is this one, or after a while."""


class Pair:
    """Both controllers, started. Ends every process that it started when it is left."""

    def __init__(
        self, kafka: Kafka, folder: Path, level: int, settings: Mapping[str, str | None] | None = None
    ) -> None:
        self.folder = folder
        self._kafka = kafka
        self._level = level
        every = {**SETTINGS, **(settings or {})}
        self._settings = {key: value for key, value in every.items() if value is not None}
        self._port = free_ports(1)[0]
        self._process = KafkaProcess(kafka, folder, 1, self._properties())
        self._formatted = kafka.jars.with_name(f"conformance-{kafka.release}-{level}")
        """Kafka's directory as it begins, kept for the next start: formatting takes longer than the rest."""
        if not self._formatted.is_dir():
            self._format()
        self._cluster = Cluster(
            folder / "kraftd",
            1,
            settings=self._settings,
            cluster_id=CLUSTER_ID,
            features=features_of(self._formatted / "bootstrap.checkpoint"),
            start=False,
        )
        self.kafka = Side("Kafka", self._port)
        self.kraftd = Side("kraftd", self._cluster[1].port)

    def __enter__(self) -> "Pair":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Side]:
        yield self.kafka
        yield self.kraftd

    def start(self) -> None:
        """Start both, with nothing in their logs but how they begin."""
        shutil.rmtree(self.kafka_folder, ignore_errors=True)
        shutil.copytree(self._formatted, self.kafka_folder)
        self._process.start()
        self._cluster[1].start()
        for side in self:
            self._wait_ready(side)

    def close(self) -> None:
        """Kill whatever still runs."""
        for side in self:
            side.close()
        if self._process.is_running:
            self._process.kill()
        self._cluster.close()

    @property
    def kafka_folder(self) -> Path:
        """Where Kafka's controller has its log and snapshots."""
        return self.folder / "kafka"

    def kraftd_hash(self, wanted: str) -> str:
        """The hash of kraftd's image, once it is this one, or after a while."""
        return hash_once(self._cluster, wanted)

    def before(self, index: int) -> None:
        """Nothing has to be done."""

    def last_lines(self) -> str:
        """What both said last."""
        return f"--- Kafka\n{self._process.last_lines()}\n--- kraftd\n{self._cluster[1].last_lines()}"

    def _wait_ready(self, side: Side) -> None:
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError, TimeoutWaitingError, IndexError):
                side.appended()
                if side.account.is_registered or (self._level < 15 and side.account.features):
                    return
            side.close()
            time.sleep(0.05)
        raise TimeoutWaitingError(f"{side.name} is not ready\n{self.last_lines()}")

    def _format(self) -> None:
        process = self._process
        release = metadata_version_name(self._level)
        self._kafka.run(
            *("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", process.config_path),
            *("--release-version", release),
        )
        made = self._formatted.with_name(f"{self._formatted.name}.{os.getpid()}")
        shutil.move(self.kafka_folder, made)
        try:
            made.rename(self._formatted)
        except OSError:  # another process was first
            shutil.rmtree(made)

    def _properties(self) -> Mapping[str, str]:
        return {
            "process.roles": "controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self._port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
            "listeners": f"CONTROLLER://127.0.0.1:{self._port}",
            "log.dirs": str(self.kafka_folder),
            **self._settings,
            "metadata.log.max.record.bytes.between.snapshots": SNAPSHOT_EVERY,
        }


def features_at(level: int) -> Mapping[str, int]:
    """What a new cluster is formatted with at a level of `metadata.version`."""
    if level != NEW_CLUSTER_LEVELS[METADATA_VERSION]:
        return {METADATA_VERSION: level}
    return NEW_CLUSTER_LEVELS


def features_of(bootstrap: Path) -> Mapping[str, int]:
    """The levels that a directory of Kafka's was formatted with."""
    records = [
        decode_record(value)
        for batch in scan(bootstrap.read_bytes())
        if not batch.is_control
        for value in batch.values()
    ]
    return {each.name: each.feature_level for each in records if isinstance(each, FeatureLevelRecord)}


def hash_once(cluster: Cluster, wanted: str) -> str:
    """The hash of the image of a cluster's only node, once it is this one, or after a while."""
    deadline = time.monotonic() + HASH_WAIT_S
    while True:
        told = cluster[1].describe().image_hash
        if told == wanted or time.monotonic() > deadline:
            return told
        time.sleep(0.02)
