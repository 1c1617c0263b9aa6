"""How many brokers, topics and partitions a cluster has, and which of them are in trouble, from an image.

For metrics, `kraftctl status` and `health`. It looks at each broker and at no partition: what is counted of
partitions is kept by the image, so that a scrape costs the same whatever the cluster holds.

Follows: Kafka's ControllerMetadataMetrics. Its ActiveBrokerCount is of the unfenced brokers, in controlled
shutdown or not; a partition without leader counts among those that are not led by their preferred replica.
"""

from itertools import islice

import msgspec

from kraftd.metadata.image import MetadataImage
from kraftd.metadata.parts.brokers import BROKERS
from kraftd.metadata.parts.topics import TOPICS
from kraftd.records.messages import RegisterBrokerRecord
from kraftd.types import NodeId


class ClusterSummary(msgspec.Struct, frozen=True):
    """What a cluster is like in a few numbers."""

    unfenced_brokers: int
    fenced_brokers: tuple[NodeId, ...]
    stopping_brokers: int
    """Unfenced ones in controlled shutdown."""
    controlled_shutdowns: int
    """Brokers that began a controlled shutdown, fenced since or not, as Kafka counts them."""
    topics: int
    partitions: int
    offline_partitions: int
    """Partitions without leader."""
    not_preferred_partitions: int
    """Partitions that their first replica does not lead."""


def summary_of(image: MetadataImage) -> ClusterSummary:
    """The summary of an image."""
    topics = image[TOPICS]
    brokers = [broker for _, broker in image[BROKERS].items()]
    fenced = tuple(sorted(broker.broker_id for broker in brokers if broker.fenced))
    offline = len(topics.partitions_without_leader())
    return ClusterSummary(
        unfenced_brokers=len(brokers) - len(fenced),
        fenced_brokers=fenced,
        stopping_brokers=sum(each.in_controlled_shutdown and not each.fenced for each in brokers),
        controlled_shutdowns=sum(each.in_controlled_shutdown for each in brokers),
        topics=len(topics),
        partitions=topics.partition_count,
        offline_partitions=offline,
        not_preferred_partitions=offline + len(topics.partitions_not_preferred()),
    )


def some_offline_partitions(image: MetadataImage, most: int) -> tuple[str, ...]:
    """The names of some partitions without leader, sorted."""
    topics = image[TOPICS]
    found = []
    for topic_id, partition_id in islice(topics.partitions_without_leader(), most):
        topic = topics.get(topic_id)
        if topic is not None:
            found.append((topic.name, partition_id))
    return tuple(f"{name}-{partition_id}" for name, partition_id in sorted(found))


_FENCED, _CONTROLLED_SHUTDOWN, _ACTIVE = 10, 20, 30


def registration_state(broker: RegisterBrokerRecord) -> int:
    """Kafka's number of a broker's state, as its metric BrokerRegistrationState has it."""
    if broker.fenced:
        return _FENCED
    return _CONTROLLED_SHUTDOWN if broker.in_controlled_shutdown else _ACTIVE
