"""How many partitions are New: decided by the active controller, and not committed yet.

Counted as writes come and go, by the records of each, so that nobody compares two images for it: with 10,000
topics whose deletion waits for its commit that takes 30 ms, in which nothing else is decided.

A partition is made by one record, which no other repeats, and goes with its topic, whose id never comes back.
The order of writes is that of `uncommitted_writes`.
"""

from collections.abc import Sequence
from typing import Final

from kraftd.metadata.registry import KIND_PREFIX_BYTES
from kraftd.records.frame import encode_record
from kraftd.records.messages import PartitionRecord, RemoveTopicRecord
from kraftd.types import Uuid

_MARK: Final = bytes(range(100, 116))
_MAKES: Final = encode_record(PartitionRecord(topic_id=_MARK))
_REMOVES: Final = encode_record(RemoveTopicRecord(_MARK))
_MAKES_KIND: Final = _MAKES[:KIND_PREFIX_BYTES]
_REMOVES_KIND: Final = _REMOVES[:KIND_PREFIX_BYTES]
_MADE_AT: Final = slice(_MAKES.index(_MARK), _MAKES.index(_MARK) + len(_MARK))
_REMOVED_AT: Final = slice(_REMOVES.index(_MARK), _REMOVES.index(_MARK) + len(_MARK))
"""Where the id of a topic is in the bytes of a record: it comes before everything that varies in size."""


class UncommittedPartitions:
    """The partitions that uncommitted writes make and leave there, by topic. Mutable."""

    __slots__ = ("_of_topic", "count")

    def __init__(self) -> None:
        self.count = 0
        """How many there are."""
        self._of_topic: dict[Uuid, int] = {}

    def add(self, values: Sequence[bytes]) -> None:
        """Take in the records of a write that is appended."""
        for value in values:
            kind = value[:KIND_PREFIX_BYTES]
            if kind == _MAKES_KIND:
                topic_id = value[_MADE_AT]
                self._of_topic[topic_id] = self._of_topic.get(topic_id, 0) + 1
                self.count += 1
            elif kind == _REMOVES_KIND:
                self.count -= self._of_topic.pop(value[_REMOVED_AT], 0)

    def commit(self, values: Sequence[bytes]) -> None:
        """Take out the records of the oldest write, which is committed."""
        if not self._of_topic:
            return
        for value in values:
            if value[:KIND_PREFIX_BYTES] != _MAKES_KIND:
                continue
            topic_id = value[_MADE_AT]
            left = self._of_topic.pop(topic_id, 0)
            self.count -= left > 0
            if left > 1:
                self._of_topic[topic_id] = left - 1

    def clear(self) -> None:
        """Begin anew."""
        self.count = 0
        self._of_topic.clear()
