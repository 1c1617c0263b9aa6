"""The life of a broker on the processes of a quorum, by Kafka's wire: each request as a broker sends it."""

from collections.abc import Callable
from typing import Any

from cluster import Cluster, KafkaClient, Node
from test_kafka_wire import data_of, fetch

from kraftd.errors import ErrorCode
from kraftd.metadata.feature_levels import METADATA_VERSION, REGISTER_CONTROLLER_SINCE, SUPPORTED
from kraftd.protocol import messages as m
from kraftd.records.batch import scan
from kraftd.records.frame import decode_record
from kraftd.records.messages import RegisterControllerRecord

SESSIONS = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}
"""Sessions that end soon."""


class Broker:
    """What one start of a broker says to the controllers."""

    def __init__(self, cluster: Cluster, broker_id: int, start: int = 1) -> None:
        self.cluster, self.id = cluster, broker_id
        self.incarnation_id = bytes([broker_id, start]) + bytes(14)
        self.epoch = -1

    def ask(self, node: Node, message: Any) -> Any:
        with KafkaClient(node.port) as client:
            return client.ask(message)

    def register(self, node: Node, *, previous_epoch: int = -1, **fields: Any) -> ErrorCode:
        response = self.ask(
            node,
            m.BrokerRegistrationRequest(
                **{
                    "broker_id": self.id,
                    "cluster_id": self.cluster.cluster_id,
                    "incarnation_id": self.incarnation_id,
                    "listeners": (m.BrokerRegistrationRequestListener("PLAINTEXT", "localhost", 9092),),
                    "features": tuple(
                        m.BrokerRegistrationRequestFeature(f.name, f.min_level, f.max_level)
                        for f in SUPPORTED
                    ),
                    "rack": None,
                    "log_dirs": (bytes([9, self.id]) + bytes(14),),
                    "previous_broker_epoch": previous_epoch,
                    **fields,
                }
            ),
        )
        self.epoch = response.broker_epoch
        return ErrorCode(response.error_code)

    def beat(self, node: Node, *, offset: int = 1 << 40, fence: bool = False, stop: bool = False) -> Any:
        return self.ask(
            node,
            m.BrokerHeartbeatRequest(
                broker_id=self.id,
                broker_epoch=self.epoch,
                current_metadata_offset=offset,
                want_fence=fence,
                want_shut_down=stop,
            ),
        )

    def up(self, node: Node) -> "Broker":
        assert self.register(node) is ErrorCode.NONE
        assert not self.beat(node).is_fenced
        return self


def test_a_broker_lives_through_registration_silence_return_and_stop(start: Callable[..., Cluster]) -> None:
    with start(3, settings=SESSIONS) as cluster:
        leader = cluster.wait_leader()
        broker = Broker(cluster, 11)
        assert broker.register(leader) is ErrorCode.NONE
        early = broker.beat(leader, offset=broker.epoch - 1)
        assert (early.is_caught_up, early.is_fenced) == (False, True)
        assert not broker.beat(leader, offset=broker.epoch).is_fenced
        leader.wait_for("broker_unfenced", where=lambda line: line["broker"] == 11)
        fenced = leader.wait_for("broker_fenced", where=lambda line: line["broker"] == 11)
        assert fenced["reason"] == "no heartbeat"
        assert fenced["silent_ms"] >= 3_000
        assert not broker.beat(leader).is_fenced
        stopped = broker.beat(leader, stop=True)
        assert (stopped.is_fenced, stopped.should_shut_down) == (True, True)
        again = Broker(cluster, 11, start=2)
        assert again.register(leader, previous_epoch=broker.epoch) is ErrorCode.NONE
        assert again.epoch > broker.epoch
        assert leader.wait_for(
            "broker_registered", where=lambda line: line.get("former_epoch") == broker.epoch
        )["clean_shutdown"]
        assert broker.beat(leader).error_code == ErrorCode.STALE_BROKER_EPOCH


def test_brokers_go_on_with_the_next_active_controller(start: Callable[..., Cluster]) -> None:
    with start(3) as cluster:
        first = cluster.wait_leader()
        broker = Broker(cluster, 11).up(first)
        follower = next(node for node in cluster if node is not first)
        assert broker.beat(follower).error_code == ErrorCode.NOT_CONTROLLER
        first.kill()
        second = cluster.wait_leader(but=first)
        second.wait_for("leader_changed", where=lambda line: line["leader"] == second.node_id)
        answer = broker.beat(second)
        while answer.error_code == ErrorCode.NOT_CONTROLLER:  # its first records are not written yet
            answer = broker.beat(second)
        assert (answer.error_code, answer.is_fenced) == (ErrorCode.NONE, False)
        other = Broker(cluster, 12).up(second)
        assert other.epoch > broker.epoch
        block = broker.ask(second, m.AllocateProducerIdsRequest(broker.id, broker.epoch))
        assert (block.error_code, block.producer_id_len) == (ErrorCode.NONE, 1_000)


def test_who_cannot_be_registered_is_named_with_the_reason_in_one_line(start: Callable[..., Cluster]) -> None:
    with start(1) as cluster:
        node = cluster.wait_leader()
        Broker(cluster, 11).up(node)
        old = tuple(
            m.BrokerRegistrationRequestFeature(f.name, f.min_level, 29 if f.name == "metadata.version" else 1)
            for f in SUPPORTED
            if f.name != "transaction.version"
        )
        cases: tuple[tuple[Broker, dict[str, Any], ErrorCode], ...] = (
            (Broker(cluster, 1), {}, ErrorCode.INVALID_REGISTRATION),
            (Broker(cluster, 13), {"cluster_id": "another"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
            (Broker(cluster, 14), {"features": old}, ErrorCode.UNSUPPORTED_VERSION),
            (Broker(cluster, 11, start=2), {}, ErrorCode.DUPLICATE_BROKER_REGISTRATION),
            (
                Broker(cluster, 15),
                {"log_dirs": (bytes([9, 11]) + bytes(14),)},
                ErrorCode.INVALID_REGISTRATION,
            ),
        )
        for broker, fields, error in cases:
            for _ in range(3):
                assert broker.register(node, **fields) is error
            line = node.wait_for("broker_refused", where=lambda line, b=broker: line["broker"] == b.id)
            assert line["error"] == error.name
            assert line["reason"]
        assert node.count("broker_refused") == len(cases)


def test_every_controller_is_registered_with_what_it_is_now(start: Callable[..., Cluster]) -> None:
    with start(3) as cluster:
        leader = cluster.wait_leader()
        with KafkaClient(leader.port) as client:
            told = _registrations(client)
            assert {registration.controller_id for registration in told} == {1, 2, 3}
            follower = next(node for node in cluster if node is not leader)
            follower.kill()
            follower.start()
            again = _registrations(client, at_least=len(told) + 1)
            assert again[-1].controller_id == follower.node_id
            assert again[-1].incarnation_id not in {each.incarnation_id for each in told}


def test_controllers_register_once_the_level_of_a_running_cluster_has_registrations(
    start: Callable[..., Cluster],
) -> None:
    before = {METADATA_VERSION: REGISTER_CONTROLLER_SINCE - 1}
    with start(3, features=before) as cluster:
        leader = cluster.wait_leader()
        update = m.UpdateFeaturesRequestFeatureUpdateKey(
            METADATA_VERSION, REGISTER_CONTROLLER_SINCE, upgrade_type=1
        )
        with KafkaClient(leader.port) as client:
            assert client.ask(m.UpdateFeaturesRequest(feature_updates=(update,))).error_code == ErrorCode.NONE
            told = _registrations(client)
        assert sorted(each.controller_id for each in told) == [1, 2, 3]
        assert cluster.leader() is leader


def _registrations(client: KafkaClient, at_least: int = 3) -> list[RegisterControllerRecord]:
    """The registrations in the log, once there are so many; read as a broker reads it, from the start."""
    found: list[RegisterControllerRecord] = []
    offset, epoch, last_epoch = 0, 0, 0
    while len(found) < at_least:
        request = fetch(offset, epoch=epoch, last_epoch=last_epoch, wait_ms=500)
        data = data_of(client.ask(request))
        if data.error_code == ErrorCode.FENCED_LEADER_EPOCH:
            epoch = data.current_leader.leader_epoch
            continue
        for batch in scan(data.records or b""):
            offset, last_epoch = batch.end_offset, batch.epoch
            if not batch.is_control:
                records = map(decode_record, batch.values())
                found += [record for record in records if isinstance(record, RegisterControllerRecord)]
    return found
