"""Topics with their partitions, as a part of the image: what of them is applied, told, listed and asked.

Not here: how changes are written (`builder`), what differs and how that reads (`changes`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from kraftd.metadata.config_schema import ResourceType
from kraftd.metadata.feature_levels import (
    DIRECTORIES_SINCE,
    ELIGIBLE_LEADER_REPLICAS,
    ELIGIBLE_LEADER_REPLICAS_SINCE,
)
from kraftd.metadata.part import (
    Builder,
    EntityChange,
    Image,
    ImageComparison,
    ImageTable,
    ImageView,
    PartWithBuilder,
    RecordKind,
)
from kraftd.metadata.parts.configs import CONFIGS
from kraftd.metadata.parts.topics import change_fast_codec
from kraftd.metadata.parts.topics.builder import TopicsBuilder
from kraftd.metadata.parts.topics.changes import TopicsComparison, TopicsDiff, replication_factor
from kraftd.metadata.parts.topics.image import TopicsImage
from kraftd.metadata.views import (
    Change,
    ColumnType,
    File,
    Folder,
    Row,
    TextTable,
    TreeNode,
    file_name,
    files,
    ids_text,
)
from kraftd.records.frame import AnyRecord
from kraftd.records.messages import (
    ClearElrRecord,
    ConfigRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from kraftd.types import Offset, Uuid, uuid_text

_TOPIC: Final = int(ResourceType.TOPIC)
_ANY_PARTITION: Final = -1
_NO_PARTITION: Final = -2


# -- records


def _add_topic(builder: Builder, record: TopicRecord, offset: Offset) -> None:
    builder.builder_of(TOPICS).add_topic(record, offset)


def _put_partition(builder: Builder, record: PartitionRecord, offset: Offset) -> None:
    builder.builder_of(TOPICS).put_partition(record, offset)


def _put_runs(builder: Builder, values: Sequence[bytes], start: int) -> int:
    return builder.builder_of(TOPICS).put_runs(values, start)


def _put_partitions(builder: Builder, values: Sequence[bytes], start: int) -> int:
    topics = builder.builder_of(TOPICS)
    end = topics.put_runs(values, start)
    return topics.put_values(values, start) if end == start else end


def _change_partition(builder: Builder, record: PartitionChangeRecord, offset: Offset) -> None:
    builder.builder_of(TOPICS).change_partition(record, offset)
    if record.unknown_tags:
        builder.record_lost_tags(record)


def _remove_topic(builder: Builder, record: RemoveTopicRecord, offset: Offset) -> None:
    """Remove a topic with its partitions and, since these are set by its name, its configs."""
    name = builder.builder_of(TOPICS).remove_topic(record.topic_id, offset)
    builder.builder_of(CONFIGS).remove((_TOPIC, name))


def _clear_elr(builder: Builder, record: ClearElrRecord, offset: Offset) -> None:
    builder.builder_of(TOPICS).clear_elr(record.topic_name, offset)


def _describe_record(
    record: PartitionRecord | PartitionChangeRecord, comparison: ImageComparison
) -> Iterator[Change]:
    """What differs of the one partition that a record names, without a look at its neighbours."""
    topics = TopicsComparison(comparison.before[TOPICS], comparison.after[TOPICS])
    key = (record.topic_id, record.partition_id)
    old, new = topics.before.partition(*key), topics.after.partition(*key)
    if old != new:
        yield from topics.describe_partition(EntityChange(old, new))


# -- rows


def _topic_rows(view: ImageView) -> Iterator[Row]:
    for topic in view.image[TOPICS].topics():
        yield {"topic_id": uuid_text(topic.topic_id), "topic": topic.name}


def _partition_rows(view: ImageView) -> Iterator[Row]:
    topics = view.image[TOPICS]
    for topic in topics.topics():
        topic_id = uuid_text(topic.topic_id)
        for one in topics.partitions(topic.topic_id):
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


_TABLES: Final = (
    ImageTable(
        "topics",
        "a topic of the image",
        (("topic_id", ColumnType.TEXT), ("topic", ColumnType.TEXT)),
        _topic_rows,
        list_order=0,
    ),
    ImageTable(
        "partitions",
        "a partition of the image",
        (
            ("topic_id", ColumnType.TEXT),
            ("topic", ColumnType.TEXT),
            ("partition_id", ColumnType.INT32),
            ("leader", ColumnType.INT32),
            ("leader_epoch", ColumnType.INT32),
            ("partition_epoch", ColumnType.INT32),
            ("replicas", ColumnType.NODES),
            ("isr", ColumnType.NODES),
            ("removing_replicas", ColumnType.NODES),
            ("adding_replicas", ColumnType.NODES),
            ("elr", ColumnType.NODES),
            ("last_known_elr", ColumnType.NODES),
            ("leader_recovering", ColumnType.BOOL),
        ),
        _partition_rows,
        list_order=0,
        is_of_partitions=True,
    ),
)


# -- questions about the past


class _TopicFilter(msgspec.Struct):
    """What happened to a topic with its partitions and configs, or to one partition of it."""

    name: str
    topic: str
    partition_id: int
    topic_ids: set[Uuid]
    """The ids that topics of this name have had so far."""

    def matches_record(self, record: AnyRecord) -> bool:
        match record:
            case TopicRecord(name=name, topic_id=topic_id):
                if name == self.topic:
                    self.topic_ids.add(topic_id)
                return name == self.topic
            case PartitionRecord() | PartitionChangeRecord():
                is_wanted = self.partition_id in (_ANY_PARTITION, record.partition_id)
                return is_wanted and record.topic_id in self.topic_ids
            case RemoveTopicRecord(topic_id=topic_id):
                return topic_id in self.topic_ids
            case ConfigRecord(resource_name=name):
                return self.partition_id == _ANY_PARTITION and name == self.topic
            case ClearElrRecord(topic_name=name):
                return name in ("", self.topic)
            case FeatureLevelRecord(name=name):
                return name == ELIGIBLE_LEADER_REPLICAS
            case _:
                return False

    def matches_change(self, change: Change) -> bool:
        if self.partition_id != _ANY_PARTITION:
            return change.entity == "partition" and change.name == self.name
        match change.entity:
            case "topic":
                return change.name == self.topic
            case "partition":
                return change.name.rpartition("-")[0] == self.topic
            case "config":
                return change.name.endswith(f" of topic {self.topic}")
            case _:
                return False


class _TopicSubject:
    word = "topic"
    list_order = 0
    with_consequences = False

    def names(self, image: Image) -> Iterable[str]:
        return (topic.name for topic in image[TOPICS].topics())

    def filter_for(self, name: str, image: Image) -> _TopicFilter:
        return _filter_of(name, name, _ANY_PARTITION, image)


class _PartitionSubject:
    word = "partition"
    list_order = 0
    with_consequences = True

    def names(self, image: Image) -> Iterable[str]:
        topics = image[TOPICS]
        return (
            f"{topic.name}-{partition.partition_id}"
            for topic in topics.topics()
            for partition in topics.partitions(topic.topic_id)
        )

    def filter_for(self, name: str, image: Image) -> _TopicFilter:
        topic, _, number = name.rpartition("-")
        is_number = number.isascii() and number.isdecimal()
        return _filter_of(name, topic, int(number) if is_number else _NO_PARTITION, image)


def _filter_of(name: str, topic: str, partition_id: int, image: Image) -> _TopicFilter:
    topic_id = image[TOPICS].id_of(topic)
    return _TopicFilter(name, topic, partition_id, set() if topic_id is None else {topic_id})


# -- the part

_PARTITION_LEVELS: Final = (1, DIRECTORIES_SINCE, ELIGIBLE_LEADER_REPLICAS_SINCE)


class Topics(PartWithBuilder[TopicsImage, TopicsDiff, TopicsBuilder]):
    """Topics by id, each with its partitions."""

    empty = TopicsImage()
    kinds = (
        RecordKind(TopicRecord, _add_topic, levels=(1,), is_always_accepted=True, apply_values=_put_runs),
        RecordKind(
            PartitionRecord,
            _put_partition,
            levels=_PARTITION_LEVELS,
            is_always_accepted=True,
            apply_values=_put_partitions,
            describe=_describe_record,
        ),
        RecordKind(
            PartitionChangeRecord,
            _change_partition,
            levels=_PARTITION_LEVELS,
            loses_tags=True,
            read=change_fast_codec.read,
            describe=_describe_record,
        ),
        RecordKind(RemoveTopicRecord, _remove_topic, levels=(1,)),
        RecordKind(ClearElrRecord, _clear_elr, levels=(ELIGIBLE_LEADER_REPLICAS_SINCE,)),
    )
    tables = _TABLES
    history_subjects = (_TopicSubject(), _PartitionSubject())
    lookups = frozenset({"topicIds"})

    def builder(self, state: TopicsImage) -> TopicsBuilder:
        return TopicsBuilder(state)

    def to_records(self, image: Image) -> Iterator[TopicRecord | PartitionRecord]:
        has_directories = image.metadata_version >= DIRECTORIES_SINCE
        return image[self].to_records(has_directories=has_directories)

    def to_values(
        self, image: Image, encode: Callable[[TopicRecord | PartitionRecord], bytes]
    ) -> Iterator[bytes]:
        """Partitions are kept as the bytes of their records, and are copied where those may be written."""
        version = sum(since <= image.metadata_version for since in _PARTITION_LEVELS) - 1
        return image[self].to_values(version, encode)

    def diff(self, before: TopicsImage, after: TopicsImage) -> TopicsDiff:
        return TopicsComparison(before, after).diff()

    def describe(self, differences: TopicsDiff, comparison: ImageComparison) -> Iterator[Change]:
        topics = TopicsComparison(comparison.before[self], comparison.after[self])
        return topics.describe(differences, comparison)

    def removed_resources(self, differences: TopicsDiff) -> Iterable[tuple[int, str]]:
        """The names of deleted topics that no new topic has."""
        gone = {change.before.name for change in differences.topics if change.before is not None}
        gone -= {change.after.name for change in differences.topics if change.after is not None}
        return [(_TOPIC, name) for name in gone]

    def sections(self, view: ImageView) -> Mapping[str, Callable[[], TreeNode]]:
        topics = view.image[self]
        return {
            "topicIds": lambda: files({uuid_text(topic.topic_id): topic.name for topic in topics.topics()}),
            "topics": lambda: Folder(
                lambda: (file_name(topic.name) for topic in topics.topics()),
                lambda name: self._topic_folder(view, name),
            ),
        }

    def _topic_folder(self, view: ImageView, name: str) -> Folder | None:
        topics = view.image[self]
        topic_id = topics.id_of(name)
        if topic_id is None:
            return None

        def names() -> Iterator[str]:
            yield "id"
            yield from (str(partition.partition_id) for partition in topics.partitions(topic_id))

        def open_file(file: str) -> File | None:
            if file == "id":
                return File(uuid_text(topic_id))
            number = int(file) if file.isascii() and file.isdecimal() and len(file) < 11 else -1
            return self.record_file(topics.partition(topic_id, number), view)

        return Folder(names, open_file)

    def overview(self, image: Image) -> TextTable:
        return _topics_table(image[self], with_ids=False)

    def text_table(self, view: ImageView, path: Sequence[str]) -> TextTable | None:
        """All topics, or the partitions of one; a single partition is a file."""
        topics = view.image[self]
        match path:
            case ["topics"]:
                return _topics_table(topics, with_ids=True)
            case ["topics", name] if (topic_id := topics.id_of(name)) is not None:
                return _partitions_table(topics, topic_id)
            case _:
                return None


def _topics_table(topics: TopicsImage, *, with_ids: bool) -> TextTable:
    """One row a topic, with how many of its partitions are in trouble."""
    rows: list[tuple[object, ...]] = []
    for topic in topics.topics():
        found = list(topics.partitions(topic.topic_id))
        rows.append(
            (
                topic.name,
                len(found),
                replication_factor(found) or "-",
                sum(partition.leader < 0 for partition in found),
                sum(len(partition.isr) < len(partition.replicas) for partition in found),
                *([uuid_text(topic.topic_id)] if with_ids else []),
            )
        )
    headers = ("Topic", "Partitions", "ReplicationFactor", "Leaderless", "UnderReplicated")
    return TextTable((*headers, *(["TopicId"] if with_ids else [])), rows)


def _partitions_table(topics: TopicsImage, topic_id: Uuid) -> TextTable:
    """One row a partition of a topic, in the columns of Kafka's `kafka-topics --describe`."""
    headers = ("Partition", "Leader", "Replicas", "Isr", "Elr", "LastKnownElr", "LeaderEpoch", "Epoch")
    rows = [
        (
            partition.partition_id,
            partition.leader if partition.leader >= 0 else "none",
            ids_text(partition.replicas),
            ids_text(partition.isr),
            ids_text(partition.eligible_leader_replicas) if partition.eligible_leader_replicas else "-",
            ids_text(partition.last_known_elr) if partition.last_known_elr else "-",
            partition.leader_epoch,
            partition.partition_epoch,
        )
        for partition in topics.partitions(topic_id)
    ]
    return TextTable(headers, rows, is_shown_empty=True)


TOPICS: Final = Topics()
