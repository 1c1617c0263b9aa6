"""Tables of a state for people: one a kind of entity, and a plain list of paths for everything else."""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from kraftd.cli.output import columns
from kraftd.forensics import kafka_names
from kraftd.forensics.kafka_names import name_of
from kraftd.forensics.tree import DEFAULT, File, Place, walk
from kraftd.forensics.words import config_entity, feature_level_text, ids_text
from kraftd.metadata.image import MetadataImage
from kraftd.metadata.secrets import shown_config
from kraftd.records.messages import PartitionRecord
from kraftd.types import Uuid, uuid_text

Rows: TypeAlias = Iterator[Sequence[object]]


def table_of(image: MetadataImage, place: Place, *, show_secrets: bool) -> str:
    """What lies at one place of the tree, as a table."""
    section, *rest = place.path.strip("/").split("/")
    if section == "topics" and len(rest) == 1:
        topic_id = image.topic_id(rest[0])
        return partitions(image, topic_id) if topic_id is not None else ""
    if section == "configs" and not isinstance(place.node, File):
        return configs(image, rest, show_secrets=show_secrets)
    if section == "topics" and not rest:
        return topics(image, with_ids=True)
    if not rest and section in SECTIONS:
        return SECTIONS[section](image)
    if isinstance(place.node, File):
        data = place.node.data
        return data if isinstance(data, str) else json.dumps(data, indent=2, ensure_ascii=False)
    files = [(each.path, _compact(each.node.data)) for each in walk(place) if isinstance(each.node, File)]
    return columns(("Path", "Value"), files) if files else ""


def features(image: MetadataImage) -> str:
    """The finalized features, in Kafka's words."""
    rows = [(name, feature_level_text(name, level)) for name, level in image.features()]
    return columns(("Feature", "FinalizedVersionLevel"), rows) if rows else ""


def brokers(image: MetadataImage) -> str:
    """One row a broker."""
    rows = [
        (
            broker.broker_id,
            broker.broker_epoch,
            "fenced" if broker.fenced else "shutting down" if broker.in_controlled_shutdown else "active",
            broker.rack or "-",
            ",".join(f"{end.name}://{end.host}:{end.port}" for end in broker.end_points) or "-",
        )
        for broker in image.brokers()
    ]
    return columns(("Broker", "Epoch", "State", "Rack", "Listeners"), rows) if rows else ""


def controllers(image: MetadataImage) -> str:
    """One row a registered controller."""
    rows = [
        (
            one.id,
            uuid_text(one.incarnation_id),
            ",".join(f"{name}://{host}:{port}" for name, host, port, _ in one.endpoints) or "-",
        )
        for one in image.controllers()
    ]
    return columns(("Controller", "IncarnationId", "Listeners"), rows) if rows else ""


def topics(image: MetadataImage, *, with_ids: bool = False) -> str:
    """One row a topic, with how many of its partitions are in trouble."""
    rows = []
    for topic in image.topics():
        found = list(image.partitions(topic.topic_id))
        sizes = sorted({len(partition.replicas) for partition in found})
        rows.append(
            (
                topic.name,
                len(found),
                "-".join(map(str, sizes)) or "-",
                sum(partition.leader < 0 for partition in found),
                sum(len(partition.isr) < len(partition.replicas) for partition in found),
                *([uuid_text(topic.topic_id)] if with_ids else []),
            )
        )
    headers = ("Topic", "Partitions", "ReplicationFactor", "Leaderless", "UnderReplicated")
    return columns((*headers, *(["TopicId"] if with_ids else [])), rows) if rows else ""


def partitions(image: MetadataImage, topic_id: Uuid) -> str:
    """One row a partition of a topic, in the columns of Kafka's `kafka-topics --describe`."""
    headers = ("Partition", "Leader", "Replicas", "Isr", "Elr", "LastKnownElr", "LeaderEpoch", "Epoch")
    return columns(headers, map(_partition_row, image.partitions(topic_id)))


def configs(image: MetadataImage, within: Sequence[str] = (), *, show_secrets: bool) -> str:
    """One row a config, of one type of resource or one resource only if `within` names them."""
    rows = [
        (
            config_entity(config.resource_type, config.resource_name),
            config.name,
            config.value if show_secrets else shown_config(config.resource_type, config.name, config.value),
        )
        for config in image.configs()
        if _is_within(config.resource_type, config.resource_name, within)
    ]
    return columns(("Entity", "Name", "Value"), rows) if rows else ""


def _is_within(kind: int, resource: str, within: Sequence[str]) -> bool:
    names = (name_of(kafka_names.CONFIG_RESOURCES, kind), resource or DEFAULT)
    return all(name == wanted for name, wanted in zip(names, within, strict=False))


def _partition_row(partition: PartitionRecord) -> Sequence[object]:
    return (
        partition.partition_id,
        partition.leader if partition.leader >= 0 else "none",
        ids_text(partition.replicas),
        ids_text(partition.isr),
        ids_text(partition.eligible_leader_replicas) if partition.eligible_leader_replicas else "-",
        ids_text(partition.last_known_elr) if partition.last_known_elr else "-",
        partition.leader_epoch,
        partition.partition_epoch,
    )


def _compact(data: object) -> str:
    return data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, separators=(",", ":"))


SECTIONS: dict[str, Callable[[MetadataImage], str]] = {
    "features": features,
    "brokers": brokers,
    "controllers": controllers,
    "topics": topics,
}
"""The sections that an overview shows, in this order."""
