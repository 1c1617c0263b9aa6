"""How records change the topics and their partitions.

`TopicsFold` writes many changes into one new image. A span of partitions that is changed is laid open, and
packed again for the image; only then are its changes hashed and moved between brokers. `put_plain` takes
partitions in bulk, from the bytes of their records (`plain`).

Follows: Kafka's TopicsDelta and TopicDelta.
Differs: a second topic of a name or id is impossible; Kafka's controller refuses it too, its image does not
look. Kafka's image keeps the eligible leader replicas when their feature is switched off, and leaves them out
of what it writes; here they are gone at once, as from its snapshots.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Final

import msgspec
from immutables import MapMutation

from kraftd.errors import UnencodableError
from kraftd.metadata import partitions, plain_changes
from kraftd.metadata.entities import mark_of_record
from kraftd.metadata.impossible import ImpossibleRecordError
from kraftd.metadata.mark import MARK_MASK, mark_of_bytes, sum_of_marks
from kraftd.metadata.placement import (
    ID_BITS,
    ID_MASK,
    Brokers,
    Place,
    PlacementFold,
    parts_of,
)
from kraftd.metadata.plain import REPLICAS_AT, brokers_in, plain_fields, plain_form
from kraftd.metadata.spans import SPAN_BITS, SPAN_MASK, row_at, with_rows
from kraftd.metadata.topics_image import Topic, TopicsImage
from kraftd.records.messages import PartitionChangeRecord, PartitionRecord, TopicRecord
from kraftd.types import Offset, Uuid

_NO_LEADER: Final = -1
_OPEN_MAX: Final = 512
"""How many spans lie open before all are packed: what lies open takes several times the memory."""


class _Open(msgspec.Struct):
    """A span that is being changed: its bytes, empty if it is new, and what is in their place."""

    packed: bytes
    rows: dict[int, bytes] = {}
    before: dict[int, tuple[bytes | None, Brokers]] = {}
    """What those were that have changed, and whom they were on. What comes in bulk is not among them."""
    after: dict[int, Brokers] = {}

    def put(self, at: int, old: tuple[bytes | None, Brokers], new: tuple[bytes, Brokers]) -> None:
        """Put a partition in the place of what is there now."""
        self.before.setdefault(at, old)
        self.rows[at], self.after[at] = new

    def row(self, at: int) -> bytes | None:
        row = self.rows.get(at)
        return row_at(self.packed, at) if row is None and self.packed else row


class _Touched(msgspec.Struct):
    """A topic that is being changed."""

    topic: Topic
    spans: MapMutation[int, bytes]
    open: dict[int, _Open]


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
        span, at = self._open(touched, record.partition_id >> SPAN_BITS), record.partition_id & SPAN_MASK
        old, new = span.row(at), partitions.made(record, offset)
        were = _NOWHERE if old is None else _brokers_in(old)
        span.put(at, (old, were), (_packed(new, offset), _brokers_of(new)))

    def put_plain(self, values: Sequence[bytes], start: int) -> int:
        """Make partitions of the records whose values begin at a position, as long as they are plain.

        Stops before the first that is not a plain PartitionRecord of a new partition of a topic that is here,
        and gives its position; it has to be folded by itself.
        """
        self._make_room()
        placement = self._placement
        placement.make_room()
        leaders, followers, laggards = placement.leaders, placement.followers, placement.laggards
        expected = placement.expected
        topic_id, number, first, before, rows = b"", -1, 0, b"", dict[int, bytes]()
        made: list[bytes] = []
        for value, fields, isr_count_at, isr_end in plain_fields(islice(values, start, None)):
            partition_id = fields[1]
            if partition_id >> SPAN_BITS != number or fields[2] != topic_id:
                topic_id, number = fields[2], partition_id >> SPAN_BITS
                if topic_id not in self._topics:
                    break
                first, before, rows = self._open_in_bulk(topic_id, number)
            row = partition_id & SPAN_MASK
            replicas = fields[REPLICAS_AT:isr_count_at]
            isr = fields[isr_count_at + 1 : isr_end]
            leader = fields[isr_end + 1]
            brokers = {*replicas}
            is_usual = leader == replicas[0] and isr == replicas
            if (
                row in rows
                or (before and row_at(before, row) is not None)
                or len(brokers) != len(replicas)
                or (leader < 0 and leader in brokers)
                or not (is_usual or (brokers.issuperset(isr) and (leader in isr or leader == _NO_LEADER)))
            ):
                break
            rows[row] = value
            made.append(value)
            if not brokers <= expected:
                placement.expect(brokers)
            place = first | row
            if is_usual:
                leaders[leader](place)
                for broker in replicas[1:]:
                    followers[broker](place)
                continue
            for broker in replicas:
                puts = leaders if broker == leader else followers if broker in isr else laggards
                puts[broker](place)
        self._sum += sum_of_marks(made)
        return start + len(made)

    def change_partition(self, change: PartitionChangeRecord, offset: Offset) -> None:
        """Change a partition that is there."""
        touched = self._known(change.topic_id, offset)
        span, at = self._open(touched, change.partition_id >> SPAN_BITS), change.partition_id & SPAN_MASK
        packed = span.row(at)
        if packed is None:
            which = f"{change.partition_id} of topic {change.topic_id.hex()}"
            raise ImpossibleRecordError(offset, f"there is no partition {which}")
        plain = plain_changes.changed(packed, change)
        if plain is not None:
            after, were, are = plain
            span.put(at, (packed, were), (after, are))
            return
        old = partitions.unpack(packed)
        new = partitions.changed(old, change, offset)
        span.put(at, (packed, _brokers_of(old)), (_packed(new, offset), _brokers_of(new)))

    def remove_topic(self, topic_id: Uuid, offset: Offset) -> str:
        """Remove a topic with its partitions; its name."""
        self._known(topic_id, offset)
        self._pack()
        topic = self._topics[topic_id]
        first = topic.number << ID_BITS
        for partition_id, packed in topic.rows():
            self._placement.move(first | partition_id & ID_MASK, parts_of(*_brokers_in(packed)), {})
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
            self._each_with_elr(self._topics, partitions.cleared, offset)
            return
        topic_id = self._ids.get(name)
        if topic_id is None:
            raise ImpossibleRecordError(offset, f"there is no topic {name}")
        self._each_with_elr((topic_id,), partitions.cleared, offset)

    def drop_elr(self, offset: Offset) -> None:
        """Forget who is eligible outside the ISR: the feature is off. No epoch rises."""
        self._each_with_elr(self._topics, partitions.without_elr, offset)

    def image(self) -> TopicsImage:
        """What was written, as an image. This fold ends with it."""
        self._pack()
        return TopicsImage(self._topics, self._ids, self._sum & MARK_MASK, self._placement.image())

    def _known(self, topic_id: Uuid, offset: Offset) -> _Touched:
        self._make_room()
        try:
            return self._touch(topic_id)
        except KeyError:
            reason = f"there is no topic with the id {topic_id.hex()}"
            raise ImpossibleRecordError(offset, reason) from None

    def _touch(self, topic_id: Uuid) -> _Touched:
        touched = self._touched.get(topic_id)
        if touched is None:
            topic = self._topics[topic_id]
            touched = self._touched[topic_id] = _Touched(topic, topic.spans.mutate(), {})
        return touched

    def _open(self, touched: _Touched, number: int) -> _Open:
        span = touched.open.get(number)
        if span is None:
            span = touched.open[number] = _Open(touched.spans.get(number, b""))
            self._open_count += 1
        return span

    def _open_in_bulk(self, topic_id: Uuid, number: int) -> tuple[Place, bytes, dict[int, bytes]]:
        """A span of a topic that is here: its first place, its bytes, and where partitions are put."""
        if self._open_count >= _OPEN_MAX:
            self._pack()
        touched = self._touch(topic_id)
        span = self._open(touched, number)
        return touched.topic.number << ID_BITS | number << SPAN_BITS & ID_MASK, span.packed, span.rows

    def _pack(self) -> None:
        """Pack all that lies open."""
        topics = self._topics
        for topic_id, touched in self._touched.items():
            topic = touched.topic
            for number, span in touched.open.items():
                if span.rows:
                    self._account(topic.number << ID_BITS | number << SPAN_BITS & ID_MASK, span)
                    touched.spans[number] = with_rows(span.packed, span.rows)
            topics = topics.set(topic_id, Topic(topic.record, topic.number, touched.spans.finish()))
        self._topics = topics
        self._touched = {}
        self._open_count = 0

    def _account(self, first: Place, span: _Open) -> None:
        """Take what has changed in a span into the sum and the placement."""
        for at, (old, were) in span.before.items():
            if old is not None:
                self._sum -= mark_of_bytes(old)
            self._sum += mark_of_bytes(span.rows[at])
            are = span.after[at]
            if were != are:
                self._placement.move(first | at, parts_of(*were), parts_of(*are))

    def _make_room(self) -> None:
        """Keep small what a long fold has not written down."""
        if self._open_count >= _OPEN_MAX:
            self._pack()
            self._placement.make_room()

    def _each_with_elr(
        self,
        topic_ids: Iterable[Uuid],
        change: Callable[[PartitionRecord], PartitionRecord],
        offset: Offset,
    ) -> None:
        self._pack()
        topics = self._topics
        for topic_id in topic_ids:
            for partition_id, packed in topics[topic_id].rows():
                if plain_form(packed) is not None:
                    continue  # no tags, so no ELR
                partition = partitions.unpack(packed)
                if partitions.has_elr(partition):
                    self._make_room()
                    span = self._open(self._touch(topic_id), partition_id >> SPAN_BITS)
                    brokers = _brokers_of(partition)
                    new = _packed(change(partition), offset)
                    span.put(partition_id & SPAN_MASK, (packed, brokers), (new, brokers))


def _packed(partition: PartitionRecord, offset: Offset) -> bytes:
    """What the image keeps of a partition; that it cannot be written shows when an epoch would overflow."""
    try:
        return partitions.pack(partition)
    except UnencodableError as error:
        which = f"{partition.partition_id} of topic {partition.topic_id.hex()}"
        raise ImpossibleRecordError(offset, f"partition {which} cannot be written then: {error}") from None


_NOWHERE: Final[Brokers] = ((), (), _NO_LEADER)


def _brokers_of(partition: PartitionRecord) -> Brokers:
    return partition.replicas, partition.isr, partition.leader


def _brokers_in(packed: bytes) -> Brokers:
    brokers = brokers_in(packed)
    return _brokers_of(partitions.unpack(packed)) if brokers is None else brokers
