"""What differs between the topics of two images, and how that reads.

What follows from another change is left out unless asked for: partitions of a topic that was created or
deleted are told with it.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from kraftd.metadata.part import Changes, EntityChange, ImageComparison
from kraftd.metadata.parts.topics.image import TopicsImage
from kraftd.metadata.views import Attribute, Change, attribute_changes, ids_text
from kraftd.records.messages import PartitionRecord, TopicRecord
from kraftd.types import NodeId, Uuid, uuid_text


class TopicsDiff(msgspec.Struct, frozen=True):
    """All that differs."""

    topics: Changes[TopicRecord] = ()
    """Topics that were created or deleted. A change inside a topic is in `partitions`."""
    partitions: Changes[PartitionRecord] = ()
    """By the name of the topic, those of a topic that was created or deleted among them."""

    def __bool__(self) -> bool:
        return bool(self.topics or self.partitions)


class TopicsComparison(msgspec.Struct, frozen=True):
    """The topics of two images."""

    before: TopicsImage
    after: TopicsImage

    def diff(self) -> TopicsDiff:
        """What differs, topics by name, partitions by id."""
        return TopicsDiff(tuple(self._topics()), tuple(self._partitions()))

    def describe(self, differences: TopicsDiff, comparison: ImageComparison) -> Iterator[Change]:
        """Tell what differs. Deleted topics come first: a new one may have the name of one of them."""
        changed = {
            one.topic_id for change in differences.topics for one in (change.before, change.after) if one
        }
        for topic in sorted(differences.topics, key=lambda change: change.before is None):
            yield from self._describe_topic(topic)
        for partition in differences.partitions:
            if comparison.with_consequences or partition.record.topic_id not in changed:
                yield from self.describe_partition(partition)

    def describe_partition(self, change: EntityChange[PartitionRecord]) -> Iterator[Change]:
        """Tell what differs of one partition."""
        old, new = change.before, change.after
        known = change.record
        name = f"{self._topic_name(known.topic_id)}-{known.partition_id}"
        if old is None or new is None:
            what = "created" if old is None else "deleted"
            where = f" on {ids_text(known.replicas)}, led by {_leader(known.leader)}" if old is None else ""
            yield Change("partition", name, what, what + where)
            return
        found = list(_partition_changes(name, old, new))
        yield from found
        if not found:
            text = f"epoch {old.partition_epoch} -> {new.partition_epoch}, nothing else differs"
            yield Change("partition", name, "epoch", text, old.partition_epoch, new.partition_epoch)

    def _topics(self) -> Iterator[EntityChange[TopicRecord]]:
        for topic_id in self.before.changed_topics(self.after):
            old, new = self.before.get(topic_id), self.after.get(topic_id)
            if old != new:
                yield EntityChange(old, new)

    def _partitions(self) -> Iterator[EntityChange[PartitionRecord]]:
        for topic_id in self.before.changed_topics(self.after):
            for old, new in self.before.partition_changes(self.after, topic_id):
                yield EntityChange(old, new)

    def _describe_topic(self, change: EntityChange[TopicRecord]) -> Iterator[Change]:
        old, new = change.before, change.after
        if old is not None:
            count = sum(1 for _ in self.before.partitions(old.topic_id))
            text = f"deleted, with its {_plural(count, 'partition')}"
            yield Change("topic", old.name, "deleted", text, uuid_text(old.topic_id), None)
        if new is not None:
            partitions = list(self.after.partitions(new.topic_id))
            text = "created"
            if partitions:
                factor = replication_factor(partitions)
                text += f" with {_plural(len(partitions), 'partition')}, replication factor {factor}"
            yield Change("topic", new.name, "created", text, None, uuid_text(new.topic_id))

    def _topic_name(self, topic_id: Uuid) -> str:
        """The name of a topic, where it is known at all."""
        topic = self.after.get(topic_id) or self.before.get(topic_id)
        return uuid_text(topic_id) if topic is None else topic.name


def replication_factor(partitions: Sequence[PartitionRecord]) -> str:
    """The numbers of replicas that partitions have, as `3` or `2-3`."""
    return "-".join(map(str, sorted({len(partition.replicas) for partition in partitions})))


def _partition_changes(name: str, old: PartitionRecord, new: PartitionRecord) -> Iterator[Change]:
    if old.leader != new.leader:
        yield Change("partition", name, "leader", _moved(old.leader, new.leader), old.leader, new.leader)
    elif old.leader_epoch != new.leader_epoch:
        text = f"leader {_leader(new.leader)} elected again (epoch {old.leader_epoch} -> {new.leader_epoch})"
        yield Change("partition", name, "leader_epoch", text, old.leader_epoch, new.leader_epoch)
    if set(old.isr) != set(new.isr):
        text = f"ISR {_grown(old.isr, new.isr)} {ids_text(old.isr)} -> {ids_text(new.isr)}"
        yield Change("partition", name, "isr", text, list(old.isr), list(new.isr))
    for change in attribute_changes("partition", name, old, new, _ATTRIBUTES):
        yield _with_lists(change, old, new) if change.what in _LISTS else change
    before, after = (
        dict(zip(partition.replicas, partition.directories, strict=False)) for partition in (old, new)
    )
    moved = [node for node in after if node in before and before[node] != after[node]]
    if moved:
        text = ", ".join(
            f"of {node} {_directory(before[node])} -> {_directory(after[node])}" for node in moved
        )
        told = (list(map(_directory, directories)) for directories in (old.directories, new.directories))
        yield Change("partition", name, "directories", f"directory {text}", *told)


def _with_lists(change: Change, old: PartitionRecord, new: PartitionRecord) -> Change:
    """A change of a list of nodes with lists as values; None for one that is empty or not there."""
    before, after = (list(getattr(partition, change.what) or ()) or None for partition in (old, new))
    return msgspec.structs.replace(change, before=before, after=after)


def _moved(old: NodeId, new: NodeId) -> str:
    if new < 0:
        return f"leader lost, it was {old}: offline"
    return f"leader moved {_leader(old)} -> {new}"


def _leader(node_id: NodeId) -> str:
    return "none" if node_id < 0 else str(node_id)


def _grown(old: Sequence[NodeId], new: Sequence[NodeId]) -> str:
    if set(new) < set(old):
        return "shrank"
    return "expanded" if set(new) > set(old) else "changed"


def _ids(value: object) -> str:
    return ids_text(value) if isinstance(value, tuple) else "none"


def _recovery(value: object) -> str:
    return "recovering" if value == 1 else "recovered"


_ATTRIBUTES: Final[tuple[Attribute, ...]] = (
    ("replicas", "replicas", _ids),
    ("adding_replicas", "replicas to add", _ids),
    ("removing_replicas", "replicas to remove", _ids),
    ("leader_recovery_state", "leader", _recovery),
    ("eligible_leader_replicas", "ELR", _ids),
    ("last_known_elr", "last known ELR", _ids),
)

_LISTS: Final = frozenset(field for field, _, read in _ATTRIBUTES if read is _ids)

_DIRECTORIES: Final = {bytes(16): "migrating", bytes(15) + b"\1": "unassigned", bytes(15) + b"\2": "lost"}
"""Kafka's reserved ids of log directories."""


def _directory(directory_id: Uuid) -> str:
    return _DIRECTORIES.get(directory_id) or uuid_text(directory_id)


def _plural(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
