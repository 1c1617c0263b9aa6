"""Kafka's metrics of brokers and topics, as each controller knows them.

Entered through `controller_samples`, for the Prometheus page, and `controller_readings` and
`broker_readings`, for the `metrics` line. Every node tells what its image says of brokers and topics and
which elections it saw, as Kafka's controllers do; only the active controller knows sessions. Nothing here
costs more the more partitions there are, and the line has a bound to how many brokers it tells of.

Follows: Kafka's ControllerMetadataMetrics and QuorumControllerMetrics, in the Prometheus spelling of their
MBeans (`kafka.controller:type=KafkaController` and `ControllerStats`), and MetadataLoaderMetrics. A meter
(`…PerSec`) is its count.
Not here: the events of the controller (`event_status`).
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from heapq import nsmallest
from itertools import product
from typing import Final

from kraftd.controller.cluster_summary import registration_state, summary_of
from kraftd.controller.quorum_controller import QuorumController
from kraftd.controller.sessions import NO_CONTACT_MS
from kraftd.metadata.parts.brokers import BROKERS
from kraftd.metadata.parts.features import FEATURES
from kraftd.metadata.parts.topics.leader_elections import ELIGIBLE, KINDS, REASONS, UNCLEAN
from kraftd.runtime.sample import Number, Sample
from kraftd.types import NodeId, Now

_PREFIX = "kafka_controller_kafkacontroller_"
_STATS_PREFIX = "kafka_controller_controllerstats_"
_LOADER_PREFIX = "kafka_server_metadataloader_"

_MEANINGS = {
    "active-broker-count": "Registered brokers that are not fenced.",
    "fenced-broker-count": "Registered brokers that are fenced.",
    "controlled-shutdown-broker-count": "Brokers in controlled shutdown.",
    "global-topic-count": "Topics.",
    "global-partition-count": "Partitions of all topics.",
    "offline-partitions-count": "Partitions without leader.",
    "preferred-replica-imbalance-count": "Partitions that their first replica does not lead.",
    "metadata-error-count": "Decisions and requests that failed by a defect of this program.",
    "ignored-static-voters": "1 if voters in the log took the place of the configured ones; they never do.",
}
"""What each reading means; its name without hyphens is Kafka's."""

_STATS = {
    "unclean-leader-elections": (UNCLEAN, "Elections of leaders that may lack records."),
    "election-from-eligible-leader-replicas": (ELIGIBLE, "Elections of a leader out of the ELR."),
}
"""The elections that Kafka counts: which kind each is, and what it means."""

_COUNTERS = frozenset({"metadata-error-count"})

BROKERS_MAX: Final = 64
"""Of so many brokers the `metrics` line tells: it is a line."""


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
        "ignored-static-voters": 0,
    }


def broker_readings(controller: QuorumController, now: Now) -> Mapping[str, Mapping[str, Number]]:
    """The numbers of each broker for the `metrics` line, by Kafka's names with hyphens, then by its id.

    Where there are more brokers than the line tells of, it tells of those that are fenced or shutting down,
    and of those that are silent for longest.
    """
    states = _states(controller)
    silences = _silences_ms(controller, now)
    return {
        "broker-registration-state": _of_some(states, states.__getitem__),
        "time-since-last-heartbeat-received-ms": _of_some(silences, lambda one: -silences[one]),
    }


def _of_some(values: Mapping[NodeId, int], rank: Callable[[NodeId], int]) -> Mapping[str, Number]:
    """The values of the brokers that rank first, by their ids."""
    some = values if len(values) <= BROKERS_MAX else nsmallest(BROKERS_MAX, values, key=rank)
    return {str(broker_id): values[broker_id] for broker_id in sorted(some)}


def _states(controller: QuorumController) -> Mapping[NodeId, int]:
    return {broker.broker_id: registration_state(broker) for broker in controller.image[BROKERS].values()}


def _silences_ms(controller: QuorumController, now: Now) -> Mapping[NodeId, int]:
    """How long each broker is silent that the active controller waits for; nobody on the other nodes."""
    return {
        broker_id: max(now.mono_ms - session.contact_ms, 0)
        for broker_id, session in sorted(controller.sessions.items())
        if session.contact_ms != NO_CONTACT_MS
    }


def election_readings(controller: QuorumController) -> Mapping[str, Number]:
    """The elections of partition leaders that Kafka counts, for the `metrics` line."""
    by_kind = _by_kind(controller)
    return {name: by_kind[kind] for name, (kind, _) in _STATS.items()}


def _by_kind(controller: QuorumController) -> Mapping[str, int]:
    seen: Counter[str] = Counter()
    for (kind, _), count in controller.leader_elections.items():
        seen[kind] += count
    return seen


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
    yield from _election_samples(controller)
    yield Sample(
        "kraftd_refused_replica_moves",
        "Moves of replicas between states that no table allows; each is a defect, and was not made.",
        controller.deletions.illegal_count,
        is_counter=True,
    )
    yield from _loader_samples(controller)


def _election_samples(controller: QuorumController) -> Iterator[Sample]:
    by_kind, seen = _by_kind(controller), controller.leader_elections
    for name, (kind, meaning) in _STATS.items():
        yield Sample(_STATS_PREFIX + name.replace("-", ""), meaning, by_kind[kind], is_counter=True)
    for kind, reason in product(KINDS, REASONS):
        yield Sample(
            "kraftd_leader_elections",
            "Changes of partition leaders since this node caught up, by who leads and why.",
            seen.get((kind, reason), 0),
            {"kind": kind, "reason": reason},
            is_counter=True,
        )


def _loader_samples(controller: QuorumController) -> Iterator[Sample]:
    image = controller.image
    meaning = "The finalized level of metadata.version; 0 before the log sets one."
    yield Sample(_LOADER_PREFIX + "currentmetadataversion", meaning, image.metadata_version)
    for name, level in image[FEATURES].items():
        yield Sample(
            _LOADER_PREFIX + "finalizedlevel", "Finalized level of a feature.", level, {"featureName": name}
        )


def _broker_samples(controller: QuorumController, now: Now) -> Iterator[Sample]:
    for broker_id, state in _states(controller).items():
        yield Sample(
            _PREFIX + "brokerregistrationstate",
            "10 fenced, 20 in controlled shutdown, 30 active.",
            state,
            {"broker": str(broker_id)},
        )
    for broker_id, silence_ms in _silences_ms(controller, now).items():
        yield Sample(
            _PREFIX + "timesincelastheartbeatreceivedms",
            "Milliseconds since a broker's last heartbeat; on the active controller.",
            silence_ms,
            {"broker": str(broker_id)},
        )
