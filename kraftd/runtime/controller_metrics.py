"""Kafka's metrics of brokers and topics, as each controller knows them.

Entered through `controller_samples`, for the Prometheus page, and `controller_readings`, for the `metrics`
line. Every node tells what its image says of brokers and topics, as Kafka's controllers do; only the active
controller knows sessions. Nothing here costs more the more partitions there are.

Follows: Kafka's ControllerMetadataMetrics and QuorumControllerMetrics, in the Prometheus spelling of their
MBeans (`kafka.controller:type=KafkaController`).
Not here: the events of the controller (`event_status`).
"""

from collections.abc import Iterator, Mapping

from kraftd.controller.cluster_summary import registration_state, summary_of
from kraftd.controller.quorum_controller import QuorumController
from kraftd.controller.sessions import NO_CONTACT_MS
from kraftd.metadata.parts.brokers import BROKERS
from kraftd.runtime.sample import Number, Sample
from kraftd.types import Now

_PREFIX = "kafka_controller_kafkacontroller_"

_MEANINGS = {
    "active-broker-count": "Registered brokers that are not fenced.",
    "fenced-broker-count": "Registered brokers that are fenced.",
    "controlled-shutdown-broker-count": "Brokers in controlled shutdown.",
    "global-topic-count": "Topics.",
    "global-partition-count": "Partitions of all topics.",
    "offline-partitions-count": "Partitions without leader.",
    "preferred-replica-imbalance-count": "Partitions that their first replica does not lead.",
    "metadata-error-count": "Decisions and requests that failed by a defect of this program.",
}
"""What each reading means; its name without hyphens is Kafka's."""

_COUNTERS = frozenset({"metadata-error-count"})


def controller_readings(controller: QuorumController) -> Mapping[str, Number]:
    """The numbers of the cluster, by Kafka's names with hyphens, as the `metrics` line has them."""
    summary = summary_of(controller.image)
    return {
        "active-broker-count": summary.unfenced_brokers,
        "fenced-broker-count": len(summary.fenced_brokers),
        "controlled-shutdown-broker-count": summary.controlled_shutdowns,
        "global-topic-count": summary.topics,
        "global-partition-count": summary.partitions,
        "offline-partitions-count": summary.offline_partitions,
        "preferred-replica-imbalance-count": summary.not_preferred_partitions,
        "metadata-error-count": controller.error_count,
    }


def controller_samples(controller: QuorumController, now: Now) -> Iterator[Sample]:
    """The part of the Prometheus page that is about brokers and topics."""
    yield Sample(
        _PREFIX + "activecontrollercount",
        "1 on the node whose controller decides.",
        int(controller.is_active),
    )
    for name, value in controller_readings(controller).items():
        is_counter = name in _COUNTERS
        yield Sample(_PREFIX + name.replace("-", ""), _MEANINGS[name], value, is_counter=is_counter)
    yield from _broker_samples(controller, now)


def _broker_samples(controller: QuorumController, now: Now) -> Iterator[Sample]:
    for broker in controller.image[BROKERS].values():
        yield Sample(
            _PREFIX + "brokerregistrationstate",
            "10 fenced, 20 in controlled shutdown, 30 active.",
            registration_state(broker),
            {"broker": str(broker.broker_id)},
        )
    for broker_id, session in sorted(controller.sessions.items()):
        if session.contact_ms != NO_CONTACT_MS:
            yield Sample(
                _PREFIX + "timesincelastheartbeatreceivedms",
                "Milliseconds since a broker's last heartbeat; on the active controller.",
                max(now.mono_ms - session.contact_ms, 0),
                {"broker": str(broker_id)},
            )
