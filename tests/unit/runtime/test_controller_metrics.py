"""The controller's metrics: what Kafka's would be of the same records, under the same names."""

from typing import Any

import pytest

from kraftd.controller.activation import registration_of
from kraftd.controller.cluster_summary import some_offline_partitions, summary_of
from kraftd.controller.quorum_controller import QuorumController
from kraftd.metadata.image import EMPTY
from kraftd.metadata.image_builder import apply_all
from kraftd.metadata.parts.topics.image import TopicsImage
from kraftd.records.messages import (
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from kraftd.runtime.controller_metrics import (
    BROKERS_MAX,
    broker_readings,
    controller_readings,
    controller_samples,
    election_readings,
)
from kraftd.types import Endpoint, Now

A, B = b"a" * 16, b"b" * 16
NOW = Now(5_000, 0)


def broker(broker_id: int, **fields: Any) -> RegisterBrokerRecord:
    known = {"broker_epoch": 10 + broker_id, "incarnation_id": b"i" * 16, "fenced": False} | fields
    return RegisterBrokerRecord(broker_id=broker_id, **known)


def partition(topic_id: bytes, index: int, replicas: tuple[int, ...], leader: int) -> PartitionRecord:
    isr = (leader,) if leader >= 0 else ()
    return PartitionRecord(
        index, topic_id, replicas, isr, leader=leader, directories=(b"d" * 16,) * len(replicas)
    )


IMAGE = apply_all(
    EMPTY,
    [
        broker(1),
        broker(2, fenced=True),
        broker(3, in_controlled_shutdown=True),
        broker(4, fenced=True, in_controlled_shutdown=True),
        TopicRecord("orders", A),
        TopicRecord("audit", B),
        partition(A, 0, (1, 3), 1),
        partition(A, 1, (3, 1), 1),
        partition(A, 2, (2,), -1),
        partition(B, 0, (2, 4), -1),
    ],
    0,
)


def controller() -> QuorumController:
    me = registration_of(1, b"m" * 16, (Endpoint("h", 1),))
    made = QuorumController(me=me, bootstrap=())
    made._image = IMAGE
    return made


def values(made: QuorumController) -> dict[tuple[str, ...], float]:
    return {(each.name, *each.labels.values()): each.value for each in controller_samples(made, NOW)}


def test_brokers_and_partitions_are_counted_as_kafka_counts_them() -> None:
    assert controller_readings(controller()) == {
        "active-broker-count": 2,
        "fenced-broker-count": 2,
        "controlled-shutdown-broker-count": 2,
        "global-topic-count": 2,
        "global-partition-count": 4,
        "offline-partitions-count": 2,
        "preferred-replica-imbalance-count": 3,
        "metadata-error-count": 0,
        "ignored-static-voters": 0,
    }
    found = values(controller())
    prefix = "kafka_controller_kafkacontroller_"
    kafkas = {
        "activecontrollercount": 0,
        "activebrokercount": 2,
        "fencedbrokercount": 2,
        "controlledshutdownbrokercount": 2,
        "globaltopiccount": 2,
        "globalpartitioncount": 4,
        "offlinepartitionscount": 2,
        "preferredreplicaimbalancecount": 3,
        "metadataerrorcount": 0,
    }
    assert {name: found[prefix + name,] for name in kafkas} == kafkas
    states = [found[f"{prefix}brokerregistrationstate", str(each)] for each in (1, 2, 3, 4)]
    assert states == [30, 10, 20, 10]


def test_the_active_controller_tells_when_it_last_heard_of_each_broker() -> None:
    made = controller()
    name = "kafka_controller_kafkacontroller_timesincelastheartbeatreceivedms"
    assert not [key for key in values(made) if key[0] == name]
    made.sessions.begin(IMAGE, 20, 1_000)
    made.sessions.heard(1, 11, 15, 4_800)
    made.sessions.over(2, 12)
    found = {key[1]: value for key, value in values(made).items() if key[0] == name}
    assert found == {"1": 200, "3": 4_000}, "4 is fenced: nobody waits for it"


def test_the_line_tells_of_each_broker_by_its_id() -> None:
    made = controller()
    states = {"1": 30, "2": 10, "3": 20, "4": 10}
    assert broker_readings(made, NOW) == {
        "broker-registration-state": states,
        "time-since-last-heartbeat-received-ms": {},
    }
    made.sessions.begin(IMAGE, 20, 1_000)
    made.sessions.heard(1, 11, 15, 4_800)
    assert broker_readings(made, NOW) == {
        "broker-registration-state": states,
        "time-since-last-heartbeat-received-ms": {"1": 200, "3": 4_000},
    }


def test_of_many_brokers_the_line_tells_of_those_that_somebody_looks_for() -> None:
    made = controller()
    last = 10 * BROKERS_MAX
    made._image = apply_all(EMPTY, [broker(one, fenced=one == last) for one in range(1, last + 1)], 0)
    made.sessions.begin(made.image, 20, 1_000)
    for one in range(1, last):
        made.sessions.heard(one, 10 + one, 15, 4_000 - one)
    states, silences = broker_readings(made, NOW).values()
    assert len(states) == len(silences) == BROKERS_MAX
    assert states[str(last)] == 10
    assert [*silences] == [str(one) for one in range(last - BROKERS_MAX, last)]
    assert len([key for key in values(made) if key[0].endswith("brokerregistrationstate")]) == last


def test_moves_of_replicas_that_no_table_allows_are_counted() -> None:
    made = controller()
    assert values(made)["kraftd_refused_replica_moves",] == 0
    made.deletions.illegal_count = 3
    assert values(made)["kraftd_refused_replica_moves",] == 3


def test_a_scrape_looks_at_no_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("a partition was read")

    for name in ("partition", "partitions", "topics", "topics_since"):
        monkeypatch.setattr(TopicsImage, name, fail)
    assert summary_of(IMAGE).offline_partitions == 2
    assert summary_of(IMAGE).stopping_brokers == 1, "a fenced one has stopped"
    assert values(controller())


def test_some_offline_partitions_are_named() -> None:
    assert some_offline_partitions(IMAGE, 16) == ("audit-0", "orders-2")
    assert len(some_offline_partitions(IMAGE, 1)) == 1
    assert some_offline_partitions(EMPTY, 16) == ()


def test_elections_are_told_as_kafka_counts_them_and_by_kind_and_reason() -> None:
    made = controller()
    made.caught_up()
    made._image = apply_all(
        IMAGE,
        [
            PartitionChangeRecord(2, A, (2,), 2, leader_recovery_state=1),
            PartitionChangeRecord(0, A, (3,), 3),
        ],
        20,
    )
    assert election_readings(made) == {
        "unclean-leader-elections": 1,
        "election-from-eligible-leader-replicas": 0,
    }
    found = values(made)
    assert found["kafka_controller_controllerstats_uncleanleaderelections",] == 1
    assert found["kafka_controller_controllerstats_electionfromeligibleleaderreplicas",] == 0
    assert found["kraftd_leader_elections", "unclean", "no_leader"] == 1
    assert found["kraftd_leader_elections", "in_sync", "leader_left"] == 1
    assert sum(value for key, value in found.items() if key[0] == "kraftd_leader_elections") == 2


def test_the_levels_of_features_are_told() -> None:
    made = controller()
    made._image = apply_all(IMAGE, [FeatureLevelRecord("metadata.version", 17)], 20)
    found = values(made)
    assert found["kafka_server_metadataloader_currentmetadataversion",] == 17
    assert found["kafka_server_metadataloader_finalizedlevel", "metadata.version"] == 17
