"""How records change the topics and their partitions.

`TopicsFold` writes many changes into one new image. A span of partitions that is changed is laid open, and
packed again for the image. `put_plain` takes partitions in bulk, from the bytes of their records (`plain`).

Follows: Kafka's TopicsDelta and TopicDelta.
Differs: a second topic of a name or id is impossible; Kafka's controller refuses it too, its image does not
look. Kafka's image keeps the eligible leader replicas when their feature is switched off, and leaves them out
of what it writes; here they are gone at once, as from its snapshots.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

import msgspec
from immutables import MapMutation

from kraftd.metadata import partitions, plain
from kraftd.metadata.entities import mark_of_record
from kraftd.metadata.impossible import ImpossibleRecordError
from kraftd.metadata.mark import MARK_MASK, mark_of_bytes, sum_of_marks
from kraftd.metadata.placement import (
    ID_BITS,
    ID_MASK,
    IN_SYNC,
    LEADER,
    REPLICA,
    Parts,
    Place,
    PlacementFold,
    parts_of,
)
from kraftd.metadata.spans import SPAN_BITS, SPAN_MASK, packed_span, rows_of
from kraftd.metadata.topics_image import Topic, TopicsImage
from kraftd.records.messages import PartitionChangeRecord, PartitionRecord, TopicRecord
from kraftd.types import NodeId, Offset, Uuid

_NO_LEADER: Final = -1
_OPEN_MAX: Final = 512
"""How many spans lie open before all are packed: what lies open takes several times the memory."""

_Rows: TypeAlias = dict[int, bytes]
"""The partitions of an open span, by their place in it."""


class _Touched(msgspec.Struct):
    """A topic that is being changed."""

    topic: Topic
    spans: MapMutation[int, bytes]
    open: dict[int, _Rows]


class _Comers(dict[NodeId, Callable[[Place], None]]):
    """Where the places go for which a broker gets one part."""

    def __init__(self, placement: PlacementFold, part: int) -> None:
        self._placement = placement
        self._part = part

    def __missing__(self, broker: NodeId) -> Callable[[Place], None]:
        coming = self[broker] = self._placement.coming(broker, self._part)
        return coming


class TopicsFold:
    """A scratch copy that changes are written into. One owner, mutable."""

    __slots__ = ("_ids", "_open_count", "_placement", "_sum", "_topics", "_touched")

    def __init__(self, base: TopicsImage) -> None:
        self._topics = base._topics
        self._ids = base._ids
        self._sum = base.sum
        self._placement = PlacementFold(base.placement)
        self._touched: dict[Uuid, _Touched] = {}
        self._open_count = 0

    def add_topic(self, record: TopicRecord, offset: Offset) -> None:
        """Add a topic without partitions."""
        name, topic_id = record.name, record.topic_id
        if name in self._ids:
            raise ImpossibleRecordError(offset, f"there is a topic {name} already, {self._ids[name].hex()}")
        if topic_id in self._topics:
            raise ImpossibleRecordError(offset, f"there is a topic with the id {topic_id.hex()} already")
        self._topics = self._topics.set(topic_id, Topic(record, self._placement.take(topic_id)))
        self._ids = self._ids.set(name, topic_id)
        self._sum += mark_of_record(record)

    def put_partition(self, record: PartitionRecord, offset: Offset) -> None:
        """Make a partition, or make it anew."""
        touched = self._known(record.topic_id, offset)
        rows = self._rows(touched, record.partition_id >> SPAN_BITS)
        old = rows.get(record.partition_id & SPAN_MASK)
        before = {} if old is None else _parts(old)
        self._put(touched, rows, partitions.made(record, offset), old, before)

    def put_plain(self, values: Sequence[bytes], start: int) -> int:
        """Make partitions of the records whose values begin at a position, as long as they are plain.

        Stops before the first that is not a plain PartitionRecord of a new partition of a topic that is here,
        and gives its position; it has to be folded by itself.
        """
        self._make_room()
        leads, follows, lags = (
            _Comers(self._placement, part)
            for part in (REPLICA | IN_SYNC | LEADER, REPLICA | IN_SYNC, REPLICA)
        )
        made: list[bytes] = []
        topic_id, span, first, rows = b"", -1, 0, _Rows()
        opening, count, size_bytes = b"", -1, -1
        at, end = start, len(values)
        while at < end:
            value = values[at]
            if len(value) != size_bytes or value[plain.COUNT_AT] != count or value[:3] != opening:
                if len(value) <= plain.COUNT_AT:
                    break
                opening, count, size_bytes = value[:3], value[plain.COUNT_AT], len(value)
                form = plain.form_of(opening, count, size_bytes)
                if form is None:
                    break
                unpack, replicas_end, isr_count, isr_end, directories_at, directory_count, canonical = form
            fields = unpack(value)
            if (  # `Form.fits`, written out: this runs for each of a million
                fields[-1]
                or fields[isr_end] != plain.NOBODY
                or fields[replicas_end] != isr_count
                or fields[directories_at] != directory_count
            ):
                break
            partition_id = fields[1]
            if partition_id >> SPAN_BITS != span or fields[2] != topic_id:
                topic_id, span = fields[2], partition_id >> SPAN_BITS
                if topic_id not in self._topics:
                    break
                if self._open_count >= _OPEN_MAX:
                    self._pack()
                touched = self._touch(topic_id)
                rows = self._rows(touched, span)
                first = touched.topic.number << ID_BITS
            replicas, isr, leader = (
                fields[4:replicas_end],
                fields[replicas_end + 1 : isr_end],
                fields[isr_end + 1],
            )
            brokers = {*replicas}
            if (
                partition_id & SPAN_MASK in rows
                or len(brokers) != count - 1
                or not brokers.issuperset(isr)
                or (leader not in isr and leader != _NO_LEADER)
            ):
                break
            if canonical is not None:
                value = canonical(value)
            rows[partition_id & SPAN_MASK] = value
            made.append(value)
            place = first | partition_id & ID_MASK
            for broker in replicas:
                if broker == leader:
                    leads[broker](place)
                elif broker in isr:
                    follows[broker](place)
                else:
                    lags[broker](place)
            at += 1
        self._sum += sum_of_marks(made)
        return at

    def change_partition(self, change: PartitionChangeRecord, offset: Offset) -> None:
        """Change a partition that is there."""
        touched = self._known(change.topic_id, offset)
        rows = self._rows(touched, change.partition_id >> SPAN_BITS)
        packed = rows.get(change.partition_id & SPAN_MASK)
        if packed is None:
            which = f"{change.partition_id} of topic {change.topic_id.hex()}"
            raise ImpossibleRecordError(offset, f"there is no partition {which}")
        old = partitions.unpack(packed)
        new = partitions.changed(old, change, offset)
        self._put(touched, rows, new, packed, _parts_of(old))

    def remove_topic(self, topic_id: Uuid, offset: Offset) -> str:
        """Remove a topic with its partitions; its name."""
        self._known(topic_id, offset)
        self._pack()
        topic = self._topics[topic_id]
        first = topic.number << ID_BITS
        for partition_id, packed in topic.rows():
            self._placement.move(first | partition_id & ID_MASK, _parts(packed), {})
            self._sum -= mark_of_bytes(packed)
        self._placement.release(topic.number)
        self._sum -= mark_of_record(topic.record)
        self._topics = self._topics.delete(topic_id)
        self._ids = self._ids.delete(topic.record.name)
        return topic.record.name

    def clear_elr(self, name: str, offset: Offset) -> None:
        """Make nobody eligible outside the ISR, in one topic, or in all if the name is empty.

        The epoch of each partition where somebody was rises.
        """
        if not name:
            self._each_with_elr(self._topics, partitions.cleared)
            return
        topic_id = self._ids.get(name)
        if topic_id is None:
            raise ImpossibleRecordError(offset, f"there is no topic {name}")
        self._each_with_elr((topic_id,), partitions.cleared)

    def drop_elr(self) -> None:
        """Forget who is eligible outside the ISR: the feature is off. No epoch rises."""
        self._each_with_elr(self._topics, partitions.without_elr)

    def image(self) -> TopicsImage:
        """What has been written so far, as an image."""
        self._pack()
        return TopicsImage(self._topics, self._ids, self._sum & MARK_MASK, self._placement.image())

    def _known(self, topic_id: Uuid, offset: Offset) -> _Touched:
        if topic_id not in self._topics:
            raise ImpossibleRecordError(offset, f"there is no topic with the id {topic_id.hex()}")
        self._make_room()
        return self._touch(topic_id)

    def _touch(self, topic_id: Uuid) -> _Touched:
        touched = self._touched.get(topic_id)
        if touched is None:
            topic = self._topics[topic_id]
            touched = self._touched[topic_id] = _Touched(topic, topic.spans.mutate(), {})
        return touched

    def _rows(self, touched: _Touched, span: int) -> _Rows:
        """The partitions of a span, laid open."""
        rows = touched.open.get(span)
        if rows is None:
            packed = touched.spans.get(span)
            rows = touched.open[span] = {} if packed is None else dict(rows_of(packed))
            self._open_count += 1
        return rows

    def _pack(self) -> None:
        """Pack all that lies open."""
        topics = self._topics
        for topic_id, touched in self._touched.items():
            for span, rows in touched.open.items():
                if rows:
                    touched.spans[span] = packed_span(rows)
            topic = touched.topic
            topics = topics.set(topic_id, Topic(topic.record, topic.number, touched.spans.finish()))
        self._topics = topics
        self._touched = {}
        self._open_count = 0

    def _make_room(self) -> None:
        """Keep small what a long fold has not written down."""
        if self._open_count >= _OPEN_MAX:
            self._pack()
            self._placement.make_room()

    def _put(
        self, touched: _Touched, rows: _Rows, new: PartitionRecord, old: bytes | None, before: Parts
    ) -> None:
        packed = partitions.pack(new)
        if old is not None:
            self._sum -= mark_of_bytes(old)
        self._sum += mark_of_bytes(packed)
        rows[new.partition_id & SPAN_MASK] = packed
        place = touched.topic.number << ID_BITS | new.partition_id & ID_MASK
        self._placement.move(place, before, _parts_of(new))

    def _each_with_elr(
        self, topic_ids: Iterable[Uuid], change: Callable[[PartitionRecord], PartitionRecord]
    ) -> None:
        self._pack()
        topics = self._topics
        for topic_id in topic_ids:
            for partition_id, packed in topics[topic_id].rows():
                if plain.parts_in(packed) is not None:
                    continue  # no tags, so no ELR
                partition = partitions.unpack(packed)
                if partitions.has_elr(partition):
                    self._make_room()
                    touched = self._touch(topic_id)
                    rows = self._rows(touched, partition_id >> SPAN_BITS)
                    self._put(touched, rows, change(partition), packed, _parts_of(partition))


def _parts_of(partition: PartitionRecord) -> Parts:
    return parts_of(partition.replicas, partition.isr, partition.leader)


def _parts(packed: bytes) -> Parts:
    parts = plain.parts_in(packed)
    return _parts_of(partitions.unpack(packed)) if parts is None else parts
