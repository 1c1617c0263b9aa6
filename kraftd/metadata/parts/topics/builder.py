"""How records change the topics and their partitions.

`TopicsBuilder` writes many changes into one new image. A block of partitions that is changed is unpacked, and
packed again for the image; only then are its changes hashed and moved between brokers. New partitions are put
in bulk, from the bytes of their records: topics with theirs as a snapshot holds them by `put_runs`
(`partition_columns`), any others by `put_values` (`partition_fast_codec`).

Follows: Kafka's TopicsDelta and TopicDelta.
Differs: a second topic of a name or id is impossible; Kafka's controller refuses it too, its image does not
look. Kafka's image keeps the eligible leader replicas when their feature is switched off, and leaves them out
of what it writes; here they are gone at once, as from its snapshots.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import Final

import msgspec
from immutables import MapMutation

from kraftd.errors import MalformedError, UnencodableError
from kraftd.metadata.entities import hash_of_record
from kraftd.metadata.entity_hash import HASH_MASK, EntityHash, hash_of_bytes, sum_of_hashes
from kraftd.metadata.impossible import ImpossibleRecordError
from kraftd.metadata.parts.topics import change_fast_codec, partitions
from kraftd.metadata.parts.topics.assignments import assignment_of, assignment_of_packed, read_alone
from kraftd.metadata.parts.topics.broker_index import (
    ID_BITS,
    ID_MASK,
    NO_ASSIGNMENT,
    WITH_ELR,
    Assignment,
    BrokerIndexBuilder,
    PartitionKey,
    states_of,
)
from kraftd.metadata.parts.topics.image import Topic, TopicsImage, alike_form
from kraftd.metadata.parts.topics.leader_elections import RECOVERING, election_of
from kraftd.metadata.parts.topics.partition_block import (
    BLOCK_BITS,
    BLOCK_MASK,
    packed_rows,
    row_at,
    with_rows,
)
from kraftd.metadata.parts.topics.partition_columns import Columns, Run, by_columns, has_ids, read_runs
from kraftd.metadata.parts.topics.partition_fast_codec import (
    REPLICAS_AT,
    fast_fields,
)
from kraftd.metadata.sorted_keys import sorted_in_steps
from kraftd.records.messages import PartitionChangeRecord, PartitionRecord, TopicRecord
from kraftd.types import Offset, Uuid

_NO_LEADER: Final = -1
_NO_OFFSET: Final = -1
"""Of what cannot be refused any more, or is tried again by itself."""
_OPEN_MAX: Final = 512
"""How many blocks are unpacked before all are packed: unpacked, they take several times the memory."""


class _OpenBlock(msgspec.Struct):
    """A block that is being changed: its bytes, empty if it is new, and what replaces them."""

    packed: bytes
    rows: dict[int, bytes] = {}
    before: dict[int, tuple[bytes | None, Assignment]] = {}
    """What the changed ones were, and which brokers they were on; without those put in bulk."""
    after: dict[int, Assignment] = {}

    def put(self, at: int, old: tuple[bytes | None, Assignment], new: tuple[bytes, Assignment]) -> None:
        """Put a partition in the place of what is there now."""
        self.before.setdefault(at, old)
        self.rows[at], self.after[at] = new

    def row(self, at: int) -> bytes | None:
        row = self.rows.get(at)
        return row_at(self.packed, at) if row is None and self.packed else row


class _Touched(msgspec.Struct):
    """A topic that is being changed."""

    topic: Topic
    blocks: MapMutation[int, bytes]
    sum: EntityHash
    count: int
    open: dict[int, _OpenBlock] = {}


class TopicsBuilder:
    """A scratch copy that changes are written into. One owner, mutable."""

    __slots__ = (
        "_added_names",
        "_alike",
        "_base_names",
        "_broker_index",
        "_elections",
        "_ids",
        "_open_count",
        "_partition_count",
        "_refused",
        "_removed_names",
        "_sum",
        "_topics",
        "_touched",
    )

    def __init__(self, base: TopicsImage) -> None:
        self._topics = base._topics
        self._ids = base._ids
        self._sum = base.sum
        self._alike = base._alike
        self._broker_index = BrokerIndexBuilder(base.broker_index)
        self._touched: dict[Uuid, _Touched] = {}
        self._open_count = 0
        self._base_names = base._names
        self._added_names: set[str] = set()
        self._removed_names: set[str] = set()
        self._partition_count = base.partition_count
        self._elections = base.leader_elections
        self._refused: Sequence[bytes] | None = None
        """Values that are not tried again as runs."""

    def add_topic(self, record: TopicRecord, offset: Offset) -> None:
        """Add a topic without partitions."""
        name, topic_id = record.name, record.topic_id
        if name in self._ids:
            raise ImpossibleRecordError(offset, f"there is a topic {name} already, {self._ids[name].hex()}")
        if topic_id in self._topics:
            raise ImpossibleRecordError(offset, f"there is a topic with the id {topic_id.hex()} already")
        self._topics = self._topics.set(topic_id, Topic(record, self._broker_index.add_topic(topic_id)))
        self._ids = self._ids.set(name, topic_id)
        if (form := alike_form(name)) != name or "_" in name:
            self._alike = self._alike.set(form, tuple(sorted((*self._alike.get(form, ()), name))))
        self._added_names.add(name)
        self._removed_names.discard(name)
        self._sum += hash_of_record(record)

    def put_partition(self, record: PartitionRecord, offset: Offset) -> None:
        """Make a partition, or make it anew."""
        touched = self._known(record.topic_id, offset)
        block, at = self._open(touched, record.partition_id >> BLOCK_BITS), record.partition_id & BLOCK_MASK
        old, new = block.row(at), partitions.made(record, offset)
        touched.count += old is None
        self._partition_count += old is None
        were = NO_ASSIGNMENT if old is None else assignment_of_packed(old)
        block.put(at, (old, were), (_packed(new, offset), assignment_of(new)))

    def put_values(self, values: Sequence[bytes], start: int) -> int:
        """Put partitions in bulk, from the values of their records, beginning at a position.

        Stops before the first value that is not a PartitionRecord of the usual layout, of a new partition of
        a known topic. Returns its position; it has to be applied by itself.
        """
        self._make_room()
        broker_index = self._broker_index
        broker_index.make_room()
        leaders, followers, out_of_sync = (
            broker_index.leaders,
            broker_index.followers,
            broker_index.out_of_sync,
        )
        topic_id, number, first, before, rows = b"", -1, 0, b"", dict[int, bytes]()
        made: list[bytes] = []
        for value, fields, isr_count_at, isr_end in fast_fields(islice(values, start, None)):
            partition_id = fields[1]
            if partition_id >> BLOCK_BITS != number or fields[2] != topic_id:
                if fields[2] != topic_id:
                    start += self._count_new(topic_id, made)
                    made = []
                topic_id, number = fields[2], partition_id >> BLOCK_BITS
                if topic_id not in self._topics:
                    break
                first, before, rows = self._open_in_bulk(topic_id, number)
            at = partition_id & BLOCK_MASK
            replicas = fields[REPLICAS_AT:isr_count_at]
            isr = fields[isr_count_at + 1 : isr_end]
            leader = fields[isr_end + 1]
            brokers = {*replicas}
            is_usual = leader == replicas[0] and isr == replicas
            if (
                at in rows
                or (before and row_at(before, at) is not None)
                or len(brokers) != len(replicas)
                or (leader < 0 and leader in brokers)
                or not (is_usual or (brokers.issuperset(isr) and (leader in isr or leader == _NO_LEADER)))
            ):
                break
            rows[at] = value
            made.append(value)
            key = first | at
            if is_usual:
                leaders[leader].append(key)
                for broker in replicas[1:]:
                    followers[broker].append(key)
                continue
            for broker in replicas:
                puts = leaders if broker == leader else followers if broker in isr else out_of_sync
                puts[broker].append(key)
            if leader != replicas[0]:
                broker_index.add_states(key, states_of(replicas, leader))
        return start + self._count_new(topic_id, made)

    def put_runs(self, values: Sequence[bytes], start: int) -> int:
        """Put topics and partitions in bulk, from the values of their records, beginning at a position.

        All of them, up to a record of another kind, or none: where they are too few, or where any of them is
        not what a snapshot would hold there, valid or not. Returns the position of what is not put.
        """
        if values is self._refused:
            return start
        runs = read_runs(values, start)
        if runs is None:
            return start
        self._make_room()
        self._broker_index.make_room()
        planned = self._planned(runs)
        if planned is None:
            self._refused = values
            return start
        columns, alone = planned
        for run in runs:
            if run.topic is not None:
                self.add_topic(run.topic, _NO_OFFSET)
            self._put_rows(run)
            self._count_new(run.topic_id, run.rows)
        for keys, replicas, isr_count in columns:
            self._broker_index.add_in_order(keys, replicas, isr_count)
        for key, assignment in alone:
            self._broker_index.add(key, assignment)
        return start + sum(len(run.rows) + (run.topic is not None) for run in runs)

    def change_partition(self, change: PartitionChangeRecord, offset: Offset) -> None:
        """Change a partition that is there."""
        touched = self._known(change.topic_id, offset)
        block, at = self._open(touched, change.partition_id >> BLOCK_BITS), change.partition_id & BLOCK_MASK
        packed = block.row(at)
        if packed is None:
            which = f"{change.partition_id} of topic {change.topic_id.hex()}"
            raise ImpossibleRecordError(offset, f"there is no partition {which}")
        fast = change_fast_codec.changed(packed, change)
        if fast is not None:
            after, were, are = fast
        else:
            old = partitions.unpack(packed)
            new = partitions.changed(old, change, offset)
            after, were, are = _packed(new, offset), assignment_of(old), assignment_of(new)
        block.put(at, (packed, were), (after, are))
        if were[2] != are[2] or change.leader_recovery_state == RECOVERING:
            election = election_of(were, are, change.leader_recovery_state)
            self._elections = self._elections.set(election, self._elections.get(election, 0) + 1)

    def remove_topic(self, topic_id: Uuid, offset: Offset) -> str:
        """Remove a topic with its partitions; its name."""
        self._known(topic_id, offset)
        self._pack()
        topic = self._topics[topic_id]
        assignments = ((partition_id, assignment_of_packed(packed)) for partition_id, packed in topic.rows())
        self._broker_index.remove_topic(topic.number, assignments, topic.count)
        self._partition_count -= topic.count
        self._sum -= topic.sum + hash_of_record(topic.record)
        self._topics = self._topics.delete(topic_id)
        self._ids = self._ids.delete(topic.record.name)
        self._forget_form(topic.record.name)
        self._removed_names.add(topic.record.name)
        self._added_names.discard(topic.record.name)
        return topic.record.name

    def clear_elr(self, name: str, offset: Offset) -> None:
        """Make no replica eligible outside the ISR, in one topic, or in all if the name is empty.

        The epoch of each partition that had one rises.
        """
        if not name:
            self._each_with_elr(None, partitions.cleared, offset)
            return
        topic_id = self._ids.get(name)
        if topic_id is None:
            raise ImpossibleRecordError(offset, f"there is no topic {name}")
        self._each_with_elr(topic_id, partitions.cleared, offset)

    def drop_elr(self, offset: Offset) -> None:
        """Drop all eligible leader replicas: the feature is off. No epoch rises."""
        self._each_with_elr(None, partitions.without_elr, offset)

    def settling(self) -> Iterator[None]:
        """Do ahead, in steps, what `image` would have to do. Nothing is changed after the first one."""
        self._pack()
        yield
        yield from self._broker_index.settling()
        if not self._base_names:
            self._base_names = yield from sorted_in_steps(self._added_names)
            self._added_names, self._removed_names = set(), set()

    def image(self) -> TopicsImage:
        """The image after all changes. Do not use this builder any more."""
        self._pack()
        names = self._base_names
        if self._added_names or self._removed_names:
            names = names.changed(self._added_names, self._removed_names)
        return TopicsImage(
            self._topics,
            self._ids,
            self._sum & HASH_MASK,
            self._broker_index.image(),
            self._alike,
            names,
            self._partition_count,
            self._elections,
        )

    def _planned(self, runs: list[Run]) -> tuple[list[Columns], list[tuple[PartitionKey, Assignment]]] | None:
        """Prove runs, and put what the image keeps of each partition into them.

        Returns the partitions in order, and the brokers of all others. None if any record has to be applied
        by itself, or cannot be applied; nothing has changed then.
        """
        ranges = self._new_keys(runs)
        keys = list(chain.from_iterable(ranges))
        if not ranges or not has_ids(runs, keys):
            return None
        columns, alone = by_columns([row for run in runs for row in run.rows], keys)
        firsts, assignments = [each.start for each in ranges], []
        try:
            for key in alone:
                which = bisect_right(firsts, key) - 1
                run, at = runs[which], key - firsts[which]
                run.rows[at], assignment = read_alone(run.rows[at], run.values[at], _NO_OFFSET)
                assignments.append((key, assignment))
        except (MalformedError, ImpossibleRecordError, UnencodableError):
            return None
        return columns, assignments

    def _new_keys(self, runs: list[Run]) -> list[range]:
        """The keys of the partitions of each run; none if a topic or a partition cannot be a new one."""
        names, ids, keys = set[str](), set[Uuid](), list[range]()
        for run in runs:
            if run.topic is None:
                if run.topic_id not in self._topics or self._has_any(run):
                    return []
                number = self._topics[run.topic_id].number
            else:
                name, topic_id = run.topic.name, run.topic_id
                if name in self._ids or name in names or topic_id in self._topics or topic_id in ids:
                    return []
                number = self._broker_index.next_number + len(ids)
                names.add(name)
                ids.add(topic_id)
            first = number << ID_BITS | run.first_id
            keys.append(range(first, first + len(run.rows)))
        return keys

    def _has_any(self, run: Run) -> bool:
        """Whether one of the partitions of a known topic is there."""
        touched, end = self._touch(run.topic_id), run.first_id + len(run.rows)
        for number in range(run.first_id >> BLOCK_BITS, (end - 1 >> BLOCK_BITS) + 1):
            block = touched.open.get(number) or _OpenBlock(touched.blocks.get(number, b""))
            slots = range(max(run.first_id, number << BLOCK_BITS), min(end, number + 1 << BLOCK_BITS))
            if (block.packed or block.rows) and any(block.row(at & BLOCK_MASK) is not None for at in slots):
                return True
        return False

    def _put_rows(self, run: Run) -> None:
        """Put new partitions of a known topic into its blocks; one filled at once is packed at once."""
        touched = self._touch(run.topic_id)
        at, end = 0, len(run.rows)
        while at < end:
            number, slot = (run.first_id + at) >> BLOCK_BITS, (run.first_id + at) & BLOCK_MASK
            rows = run.rows[at : at + BLOCK_MASK + 1 - slot]
            if len(rows) > BLOCK_MASK and number not in touched.open and number not in touched.blocks:
                touched.blocks[number] = packed_rows(rows)
            else:
                self._open(touched, number).rows.update(enumerate(rows, slot))
            at += len(rows)

    def _forget_form(self, name: str) -> None:
        """Take a removed topic from the names that are alike."""
        form = alike_form(name)
        left = tuple(each for each in self._alike.get(form, ()) if each != name)
        if left:
            self._alike = self._alike.set(form, left)
        elif form in self._alike:
            self._alike = self._alike.delete(form)

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
            touched = _Touched(topic, topic.blocks.mutate(), topic.sum, topic.count)
            self._touched[topic_id] = touched
        return touched

    def _count_new(self, topic_id: Uuid, rows: Sequence[bytes]) -> int:
        """Count new partitions of a topic that are put in bulk, and add their hashes. Returns how many."""
        if rows:
            touched, hashes = self._touch(topic_id), sum_of_hashes(rows)
            touched.sum += hashes
            touched.count += len(rows)
            self._sum += hashes
            self._partition_count += len(rows)
        return len(rows)

    def _open(self, touched: _Touched, number: int) -> _OpenBlock:
        block = touched.open.get(number)
        if block is None:
            block = touched.open[number] = _OpenBlock(touched.blocks.get(number, b""))
            self._open_count += 1
        return block

    def _open_in_bulk(self, topic_id: Uuid, number: int) -> tuple[PartitionKey, bytes, dict[int, bytes]]:
        """Open a block of a known topic: its first key, its bytes, and where partitions are put."""
        if self._open_count >= _OPEN_MAX:
            self._pack()
        touched = self._touch(topic_id)
        block = self._open(touched, number)
        return touched.topic.number << ID_BITS | number << BLOCK_BITS & ID_MASK, block.packed, block.rows

    def _pack(self) -> None:
        """Pack all open blocks."""
        topics = self._topics
        for topic_id, touched in self._touched.items():
            topic = touched.topic
            for number, block in touched.open.items():
                if block.rows:
                    first = topic.number << ID_BITS | number << BLOCK_BITS & ID_MASK
                    touched.sum += self._account(first, block)
                    touched.blocks[number] = with_rows(block.packed, block.rows)
            packed = Topic(
                topic.record, topic.number, touched.blocks.finish(), touched.sum & HASH_MASK, touched.count
            )
            topics = topics.set(topic_id, packed)
        self._topics = topics
        self._touched = {}
        self._open_count = 0

    def _account(self, first: PartitionKey, block: _OpenBlock) -> EntityHash:
        """Take what has changed in a block into the hash and the broker index. Returns the hash's rise."""
        rise = 0
        for at, (old, were) in block.before.items():
            if old is not None:
                rise -= hash_of_bytes(old)
            rise += hash_of_bytes(block.rows[at])
            are = block.after[at]
            if were != are:
                self._broker_index.move(first | at, were, are)
        self._sum += rise
        return rise

    def _make_room(self) -> None:
        """Bound the memory of changes that are not packed yet."""
        if self._open_count >= _OPEN_MAX:
            self._pack()
            self._broker_index.make_room()

    def _each_with_elr(
        self,
        only: Uuid | None,
        change: Callable[[PartitionRecord], PartitionRecord],
        offset: Offset,
    ) -> None:
        """Change each partition of one topic, or of all, that has eligible or last known leader replicas."""
        self._pack()
        number = None if only is None else self._topics[only].number
        for topic_id, partition_id in self._broker_index.partitions_in(WITH_ELR, number):
            self._make_room()
            block = self._open(self._touch(topic_id), partition_id >> BLOCK_BITS)
            at = partition_id & BLOCK_MASK
            packed = row_at(block.packed, at) or b""
            partition = partitions.unpack(packed)
            new = change(partition)
            block.put(at, (packed, assignment_of(partition)), (_packed(new, offset), assignment_of(new)))


def _packed(partition: PartitionRecord, offset: Offset) -> bytes:
    """What the image keeps of a partition; that it cannot be written shows when an epoch would overflow."""
    try:
        return partitions.pack(partition)
    except UnencodableError as error:
        which = f"{partition.partition_id} of topic {partition.topic_id.hex()}"
        raise ImpossibleRecordError(offset, f"partition {which} cannot be written then: {error}") from None
