"""What differs between two images, in the words of an operator: topic created, leader moved, broker fenced.

`changes` turns an `ImageDelta` into facts, one each, in the order of a snapshot's sections. `what` and the
values are stable, for programs; `text` is for people. Values that may be secrets are not told unless asked
for. What follows from another fact is left out: partitions of a topic that came or went are told with it.

Not here: who led the quorum (`quorum`), and where in the log a change stands (`history`).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from kraftd.forensics import kafka_names
from kraftd.forensics.client_words import client_facts
from kraftd.forensics.facts import Fact
from kraftd.forensics.kafka_names import name_of
from kraftd.logtools.quorum_facts import QuorumFacts
from kraftd.metadata.config_schema import ResourceType
from kraftd.metadata.feature_levels import METADATA_VERSION, metadata_version_name
from kraftd.metadata.image import MetadataImage
from kraftd.metadata.image_diff import Change, ConfigChange, ControllerChange, FeatureChange, ImageDiff, diff
from kraftd.metadata.secrets import shown_config
from kraftd.records.messages import (
    ConfigRecord,
    FeatureLevelRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    TopicRecord,
)
from kraftd.types import NodeId, Uuid, uuid_text

_UNKNOWN_FIELDS = "differs in fields that are not shown here"


def changes(
    before: MetadataImage,
    after: MetadataImage,
    *,
    show_secrets: bool = False,
    with_consequences: bool = False,
) -> Iterator[Fact]:
    """Every fact that differs, by section and name.

    Args:
        before: From here.
        after: To here.
        show_secrets: Tell values that may be secrets.
        with_consequences: Tell what only follows from another fact, too.
    """
    delta = diff(before, after)
    yield from map(_feature, delta.features)
    for broker in delta.brokers:
        yield from _broker(broker)
    for controller in delta.controllers:
        yield _controller(controller)
    yield from _topics(delta, before, after, with_consequences=with_consequences)
    gone = {topic.before.name for topic in delta.topics if topic.before is not None}
    gone -= {topic.after.name for topic in delta.topics if topic.after is not None}
    for config in delta.configs:
        is_gone = config.resource_type == ResourceType.TOPIC and config.resource_name in gone
        if with_consequences or not is_gone:
            yield _config(config, show_secrets=show_secrets)
    yield from client_facts(delta)
    for tagged in delta.unknown_tags:
        if (record := tagged.after or tagged.before) is not None:
            yield Fact(*_tagged_name(record), "unknown_tags", _UNKNOWN_FIELDS)


def _topics(
    delta: ImageDiff, before: MetadataImage, after: MetadataImage, *, with_consequences: bool
) -> Iterator[Fact]:
    known = {one.topic_id for change in delta.topics for one in (change.before, change.after) if one}
    # First those that went: a new topic may have the name of one of them.
    for topic in sorted(delta.topics, key=lambda change: change.before is None):
        yield from _topic(topic, before, after)
    for partition in delta.partitions:
        one = partition.before or partition.after
        if one is not None and (with_consequences or one.topic_id not in known):
            yield from _partition(partition, before, after)


def partition_changes(
    topic_id: Uuid, partition_id: int, before: MetadataImage, after: MetadataImage
) -> Iterator[Fact]:
    """What differs of one partition, without a look at its neighbours."""
    old, new = (image.partition(topic_id, partition_id) for image in (before, after))
    if old != new:
        yield from _partition(Change(old, new), before, after)


def config_changes(
    resource_type: int,
    resource_name: str,
    name: str,
    before: MetadataImage,
    after: MetadataImage,
    *,
    show_secrets: bool = False,
) -> Iterator[Fact]:
    """What differs of one config."""
    old, new = (image.config(resource_type, resource_name, name) for image in (before, after))
    if old != new:
        change = ConfigChange(resource_type, resource_name, name, old, new)
        yield _config(change, show_secrets=show_secrets)


def quorum_changes(before: QuorumFacts, after: QuorumFacts) -> Iterator[Fact]:
    """Who leads, who votes and how, where that differs."""
    if before.leader_epoch != after.leader_epoch or before.leader_id != after.leader_id:
        old, new = _leader_text(before), _leader_text(after)
        text = f"leader moved {old} -> {new}" if before.leader_epoch >= 0 else f"leader elected: {new}"
        yield Fact("quorum", "", "leader", text, before.leader_id, after.leader_id)
    if before.kraft_version != after.kraft_version:
        text = f"kraft.version {before.kraft_version} -> {after.kraft_version}"
        yield Fact("quorum", "", "kraft_version", text, before.kraft_version, after.kraft_version)
    old_ids, new_ids = ({voter.id for voter in facts.voters} for facts in (before, after))
    for node_id in sorted(new_ids - old_ids):
        yield Fact("voter", str(node_id), "added", "added", None, node_id)
    for node_id in sorted(old_ids - new_ids):
        yield Fact("voter", str(node_id), "removed", "removed", node_id, None)
    known = {voter.id: voter for voter in before.voters}
    for voter in after.voters:
        old_voter = known.get(voter.id)
        if old_voter is not None and old_voter.directory_id not in (voter.directory_id, bytes(16)):
            old, new = uuid_text(old_voter.directory_id), uuid_text(voter.directory_id)
            text = f"has another directory {old} -> {new}"
            yield Fact("voter", str(voter.id), "directory", text, old, new)


def topic_name(topic_id: Uuid, *images: MetadataImage) -> str:
    """The name of a topic in the first image that knows it; its id where none does."""
    for image in images:
        if (topic := image.topic(topic_id)) is not None:
            return topic.name
    return uuid_text(topic_id)


def config_entity(resource_type: int, resource_name: str) -> str:
    """Whose config it is, as `topic orders`, `broker 2`, or `cluster` for the default of all brokers."""
    if resource_type == ResourceType.BROKER and not resource_name:
        return "cluster"
    return f"{name_of(kafka_names.CONFIG_RESOURCES, resource_type)} {resource_name}"


def feature_level_text(name: str, level: int) -> str:
    """A level as Kafka calls it."""
    return metadata_version_name(level) if name == METADATA_VERSION and level else str(level)


def ids_text(ids: Sequence[int] | None) -> str:
    """A list of nodes."""
    return ",".join(map(str, ids)) if ids else "none"


def _feature(change: FeatureChange) -> Fact:
    old, new = (feature_level_text(change.name, level) for level in (change.before, change.after))
    if not change.before:
        text = f"switched on at {new}"
    elif not change.after:
        text = f"switched off (was {old})"
    else:
        text = f"{'raised' if change.after > change.before else 'lowered'} {old} -> {new}"
    return Fact("feature", change.name, "level", text, change.before, change.after)


def _broker(change: Change[RegisterBrokerRecord]) -> Iterator[Fact]:
    old, new = change.before, change.after
    if new is None:
        if old is not None:
            yield Fact("broker", str(old.broker_id), "unregistered", "unregistered", old.broker_epoch, None)
        return
    name = str(new.broker_id)
    if old is None:
        fenced = ", fenced" if new.fenced else ""
        text = f"registered (epoch {new.broker_epoch}{fenced})"
        yield Fact("broker", name, "registered", text, None, new.broker_epoch)
        return
    facts = list(_broker_facts(name, old, new))
    yield from facts or [Fact("broker", name, "unknown_tags", _UNKNOWN_FIELDS)]


def _broker_facts(name: str, old: RegisterBrokerRecord, new: RegisterBrokerRecord) -> Iterator[Fact]:
    if old.broker_epoch != new.broker_epoch or old.incarnation_id != new.incarnation_id:
        text = f"registered again, it was started anew (epoch {old.broker_epoch} -> {new.broker_epoch})"
        yield Fact("broker", name, "registered", text, old.broker_epoch, new.broker_epoch)
    if old.fenced != new.fenced:
        text = "fenced" if new.fenced else "unfenced"
        yield Fact("broker", name, "fenced", text, old.fenced, new.fenced)
    if old.in_controlled_shutdown != new.in_controlled_shutdown:
        text = (
            "began a controlled shutdown" if new.in_controlled_shutdown else "is not shutting down any more"
        )
        before, after = old.in_controlled_shutdown, new.in_controlled_shutdown
        yield Fact("broker", name, "controlled_shutdown", text, before, after)
    yield from _attributes("broker", name, old, new, _BROKER_ATTRIBUTES)


def _tagged_name(record: FeatureLevelRecord | RegisterControllerRecord | ConfigRecord) -> tuple[str, str]:
    match record:
        case FeatureLevelRecord():
            return "feature", record.name
        case RegisterControllerRecord():
            return "controller", str(record.controller_id)
        case ConfigRecord():
            entity = config_entity(record.resource_type, record.resource_name)
            return "config", f"{record.name} of {entity}"


def _controller(change: ControllerChange) -> Fact:
    name, old, new = str(change.id), change.before, change.after
    if new is None:
        return Fact("controller", name, "unregistered", "unregistered")
    if old is None:
        return Fact("controller", name, "registered", "registered")
    if old.incarnation_id != new.incarnation_id:
        return Fact("controller", name, "registered", "registered again, it was started anew")
    return Fact("controller", name, "changed", "changed what it said of itself")


def _topic(change: Change[TopicRecord], before: MetadataImage, after: MetadataImage) -> Iterator[Fact]:
    old, new = change.before, change.after
    if old is not None:
        count = sum(1 for _ in before.partitions(old.topic_id))
        text = f"deleted, with its {_plural(count, 'partition')}"
        yield Fact("topic", old.name, "deleted", text, uuid_text(old.topic_id), None)
    if new is not None:
        partitions = list(after.partitions(new.topic_id))
        text = "created"
        if partitions:
            sizes = sorted({len(partition.replicas) for partition in partitions})
            factor = "-".join(map(str, sizes))
            text += f" with {_plural(len(partitions), 'partition')}, replication factor {factor}"
        yield Fact("topic", new.name, "created", text, None, uuid_text(new.topic_id))


def _partition(
    change: Change[PartitionRecord], before: MetadataImage, after: MetadataImage
) -> Iterator[Fact]:
    old, new = change.before, change.after
    known = new or old
    if known is None:
        return
    name = f"{topic_name(known.topic_id, after, before)}-{known.partition_id}"
    if old is None or new is None:
        what = "created" if old is None else "deleted"
        where = f" on {ids_text(known.replicas)}, led by {_leader(known.leader)}" if old is None else ""
        yield Fact("partition", name, what, what + where)
        return
    facts = list(_partition_facts(name, old, new))
    yield from facts
    if not facts:
        text = f"epoch {old.partition_epoch} -> {new.partition_epoch}, nothing else differs"
        yield Fact("partition", name, "epoch", text, old.partition_epoch, new.partition_epoch)


def _partition_facts(name: str, old: PartitionRecord, new: PartitionRecord) -> Iterator[Fact]:
    if old.leader != new.leader:
        yield Fact("partition", name, "leader", _moved(old.leader, new.leader), old.leader, new.leader)
    elif old.leader_epoch != new.leader_epoch:
        text = f"leader {_leader(new.leader)} elected again (epoch {old.leader_epoch} -> {new.leader_epoch})"
        yield Fact("partition", name, "leader_epoch", text, old.leader_epoch, new.leader_epoch)
    if set(old.isr) != set(new.isr):
        text = f"ISR {_grown(old.isr, new.isr)} {ids_text(old.isr)} -> {ids_text(new.isr)}"
        yield Fact("partition", name, "isr", text, list(old.isr), list(new.isr))
    yield from _attributes("partition", name, old, new, _PARTITION_ATTRIBUTES)
    before, after = (
        dict(zip(partition.replicas, partition.directories, strict=False)) for partition in (old, new)
    )
    moved = [node for node in after if node in before and before[node] != after[node]]
    if moved:
        text = ", ".join(
            f"of {node} {_directory(before[node])} -> {_directory(after[node])}" for node in moved
        )
        told = (list(map(_directory, directories)) for directories in (old.directories, new.directories))
        yield Fact("partition", name, "directories", f"directory {text}", *told)


def _moved(old: NodeId, new: NodeId) -> str:
    if new < 0:
        return f"leader lost, it was {old}: offline"
    return f"leader moved {_leader(old)} -> {new}"


def _grown(old: Sequence[NodeId], new: Sequence[NodeId]) -> str:
    if set(new) < set(old):
        return "shrank"
    return "expanded" if set(new) > set(old) else "changed"


def _config(change: ConfigChange, *, show_secrets: bool) -> Fact:
    kind, name = change.resource_type, change.name
    old, new = (
        value if value is None or show_secrets else shown_config(kind, name, value)
        for value in (change.before, change.after)
    )
    if new is None:
        text = f"removed (was {old})"
    else:
        text = f"set to {new}" + ("" if old is None else f" (was {old})")
    return Fact("config", f"{name} of {config_entity(kind, change.resource_name)}", "value", text, old, new)


Attribute: TypeAlias = tuple[str, str, Callable[[object], str]]
"""The field of a record, what a person calls it, and how a value of it reads."""


def _attributes(
    entity: str, name: str, old: object, new: object, attributes: Iterable[Attribute]
) -> Iterator[Fact]:
    """The plain fields of a record that differ."""
    for field, title, read in attributes:
        before, after = (read(getattr(record, field)) for record in (old, new))
        if before != after:
            yield Fact(entity, name, field, f"{title} {before} -> {after}", before, after)


def _uuids_text(value: object) -> str:
    return ",".join(map(uuid_text, value)) if isinstance(value, tuple) and value else "none"


def _ids(value: object) -> str:
    return ids_text(value) if isinstance(value, tuple) else "none"


def _endpoints_text(value: object) -> str:
    ends = value if isinstance(value, tuple) else ()
    return ",".join(f"{end.name}://{end.host}:{end.port}" for end in ends) or "none"


def _features_text(value: object) -> str:
    features = value if isinstance(value, tuple) else ()
    return ",".join(f"{f.name} {f.min_supported_version}-{f.max_supported_version}" for f in features)


def _plain(value: object) -> str:
    return "none" if value is None or value == "" else str(value)


def _recovery(value: object) -> str:
    return "recovering" if value == 1 else "recovered"


_BROKER_ATTRIBUTES: tuple[Attribute, ...] = (
    ("end_points", "listeners", _endpoints_text),
    ("rack", "rack", _plain),
    ("features", "features", _features_text),
    ("log_dirs", "log directories", _uuids_text),
    ("cordoned_log_dirs", "cordoned log directories", _uuids_text),
)
_PARTITION_ATTRIBUTES: tuple[Attribute, ...] = (
    ("replicas", "replicas", _ids),
    ("adding_replicas", "replicas to add", _ids),
    ("removing_replicas", "replicas to remove", _ids),
    ("leader_recovery_state", "leader", _recovery),
    ("eligible_leader_replicas", "ELR", _ids),
    ("last_known_elr", "last known ELR", _ids),
)


_DIRECTORIES = {bytes(16): "migrating", bytes(15) + b"\1": "unassigned", bytes(15) + b"\2": "lost"}
"""Kafka's reserved ids of log directories."""


def _directory(directory_id: Uuid) -> str:
    return _DIRECTORIES.get(directory_id) or uuid_text(directory_id)


def _leader(node_id: NodeId) -> str:
    return "none" if node_id < 0 else str(node_id)


def _leader_text(facts: QuorumFacts) -> str:
    if facts.leader_epoch < 0:
        return "unknown"
    return f"{_leader(facts.leader_id)} (epoch {facts.leader_epoch})"


def _plural(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
