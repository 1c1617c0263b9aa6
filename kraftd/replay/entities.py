"""An image as rows of tables, one function a table; what may not be shown is not."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from kraftd.metadata.config_schema import ResourceType
from kraftd.metadata.image import MetadataImage
from kraftd.metadata.secrets import shown_config
from kraftd.types import Uuid, uuid_text

Row: TypeAlias = dict[str, Any]


def brokers(image: MetadataImage) -> Iterator[Row]:
    """Registered brokers."""
    for broker in image.brokers():
        yield {
            "broker_id": broker.broker_id,
            "broker_epoch": broker.broker_epoch,
            "fenced": broker.fenced,
            "in_controlled_shutdown": broker.in_controlled_shutdown,
            "rack": broker.rack,
            "incarnation_id": uuid_text(broker.incarnation_id),
            "endpoints": [f"{end.name}://{end.host}:{end.port}" for end in broker.end_points],
            "log_dirs": _texts(broker.log_dirs),
        }


def controllers(image: MetadataImage) -> Iterator[Row]:
    """Registered controllers."""
    for controller in image.controllers():
        yield {
            "controller_id": controller.id,
            "incarnation_id": uuid_text(controller.incarnation_id),
            "endpoints": [f"{name}://{host}:{port}" for name, host, port, _ in controller.endpoints],
            "features": [f"{name} {low}-{high}" for name, low, high in controller.features],
        }


def topics(image: MetadataImage) -> Iterator[Row]:
    """Topics."""
    for topic in image.topics():
        yield {"topic_id": uuid_text(topic.topic_id), "topic": topic.name}


def partitions(image: MetadataImage) -> Iterator[Row]:
    """Partitions of all topics."""
    for topic in image.topics():
        topic_id = uuid_text(topic.topic_id)
        for one in image.partitions(topic.topic_id):
            yield {
                "topic_id": topic_id,
                "topic": topic.name,
                "partition_id": one.partition_id,
                "leader": one.leader,
                "leader_epoch": one.leader_epoch,
                "partition_epoch": one.partition_epoch,
                "replicas": one.replicas,
                "isr": one.isr,
                "removing_replicas": one.removing_replicas,
                "adding_replicas": one.adding_replicas,
                "elr": one.eligible_leader_replicas or (),
                "last_known_elr": one.last_known_elr or (),
                "leader_recovering": bool(one.leader_recovery_state),
            }


def configs(image: MetadataImage) -> Iterator[Row]:
    """Configs; those that may be passwords without their value."""
    for entry in image.configs():
        yield {
            "resource_type": _resource_type(entry.resource_type),
            "resource_name": entry.resource_name,
            "name": entry.name,
            "value": shown_config(entry.resource_type, entry.name, entry.value),
        }


def open_configs(image: MetadataImage) -> Iterator[Row]:
    """Configs with every value, for those who asked to see secrets."""
    entries = zip(configs(image), image.configs(), strict=True)
    return (row | {"value": entry.value} for row, entry in entries)


def features(image: MetadataImage) -> Iterator[Row]:
    """Features that are on."""
    return ({"name": name, "level": level} for name, level in image.features())


def quotas(image: MetadataImage) -> Iterator[Row]:
    """Client quotas."""
    for quota in image.client_quotas():
        entity = [f"{part.entity_type}={part.entity_name or ''}" for part in quota.entity]
        yield {"entity": entity, "name": quota.key, "value": quota.value}


def acls(image: MetadataImage) -> Iterator[Row]:
    """Access control entries."""
    for acl in image.acls():
        yield {
            "acl_id": uuid_text(acl.id),
            "principal": acl.principal,
            "host": acl.host,
            "resource_type": acl.resource_type,
            "resource_name": acl.resource_name,
            "pattern_type": acl.pattern_type,
            "operation": acl.operation,
            "permission_type": acl.permission_type,
        }


def tokens(image: MetadataImage) -> Iterator[Row]:
    """Delegation tokens."""
    for token in image.delegation_tokens():
        yield {
            "token_id": token.token_id,
            "owner": token.owner,
            "requester": token.requester,
            "renewers": token.renewers,
            "issued_at": _time(token.issue_timestamp),
            "max_at": _time(token.max_timestamp),
            "expires_at": _time(token.expiration_timestamp),
        }


def _resource_type(number: int) -> str:
    """The name of a type of resource; one that has no name keeps its number."""
    try:
        return ResourceType(number).name.lower()
    except ValueError:
        return str(number)


def _texts(ids: tuple[Uuid, ...]) -> list[str]:
    return [uuid_text(one) for one in ids]


def _time(milliseconds: int) -> int | None:
    return milliseconds if milliseconds >= 0 else None


WITHOUT_PARTITIONS: Final[Mapping[str, Callable[[MetadataImage], Iterator[Row]]]] = {
    "brokers": brokers,
    "controllers": controllers,
    "topics": topics,
    "configs": configs,
    "features": features,
    "quotas": quotas,
    "acls": acls,
    "tokens": tokens,
}
"""The tables of an image but the one of partitions, which is written by topic."""
