"""What a broker has not read of the metadata log: the committed records behind the offset that it reported.

They come from the active controller as everything that is committed (FetchCommitted), portion by portion, and
are counted here: so nothing in a controller grows with how far a broker lags. Of a topic only the newest is
told: one that was made and deleted meanwhile is deleted.

Not here: how a broker's offset is known, and what of this is shown (`brokers`).
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias

from kraftd.cli.active_controller import ask_kraftd
from kraftd.cli.client import Connection, raise_for
from kraftd.cli.deletion_pages import list_deletions
from kraftd.cli.failures import CommandError
from kraftd.cli.log_stream import fetch_committed
from kraftd.cli.topic_pages import list_topics
from kraftd.cli.waiting import answered
from kraftd.errors import ErrorCode, MalformedError
from kraftd.records.batch import BatchView, scan
from kraftd.records.frame import AnyRecord, RawRecord, decode_record, record_name
from kraftd.records.messages import (
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from kraftd.types import Endpoint, Offset, Uuid, uuid_text

Row: TypeAlias = dict[str, Any]

CONTROL: Final = "ControlRecord"
"""What the records of the quorum itself are counted as."""

_CREATED, _CHANGED, _DELETED = "created", "changed", "deleted"


class _Topic:
    def __init__(self, name: str | None = None, what: str = _CHANGED) -> None:
        self.name = name
        self.what = what
        self.partitions: set[int] = set()


class PendingRecords:
    """Committed records, counted by kind and by what they are about."""

    def __init__(self) -> None:
        self.kinds: Counter[str] = Counter()
        self._topics: dict[Uuid, _Topic] = {}

    @property
    def count(self) -> int:
        """How many there are."""
        return self.kinds.total()

    def add(self, batch: BatchView, begin: Offset, most: int) -> Offset:
        """Count the records of a batch from an offset on, so many at most; up to where they were counted.

        Raises:
            MalformedError: One cannot be read.
        """
        base = batch.base_offset
        begin = max(begin, base)
        end = min(batch.end_offset, begin + most)
        if batch.is_control:
            self.kinds[CONTROL] += end - begin
            return end
        for value in batch.values()[begin - base : end - base]:
            self._add(decode_record(value))
        return end

    def topics(self) -> list[tuple[Uuid, str | None, str, int]]:
        """Of each topic its id, its name if a record has it, what became of it, of how many partitions."""
        return [(key, one.name, one.what, len(one.partitions)) for key, one in self._topics.items()]

    def _add(self, record: AnyRecord) -> None:
        key = record.api_key if isinstance(record, RawRecord) else record.API_KEY
        self.kinds[record_name(key)] += 1
        if isinstance(record, TopicRecord):
            self._topics[record.topic_id] = _Topic(record.name, _CREATED)
        elif isinstance(record, PartitionRecord | PartitionChangeRecord):
            self._topic(record.topic_id).partitions.add(record.partition_id)
        elif isinstance(record, RemoveTopicRecord):
            topic = self._topic(record.topic_id)
            topic.what = _DELETED
            topic.partitions.clear()

    def _topic(self, topic_id: Uuid) -> _Topic:
        return self._topics.setdefault(topic_id, _Topic())


def pending_since(bootstrap: Sequence[Endpoint], reported: Offset, limit: int, timeout_ms: int) -> Row:
    """What is committed behind an offset: the part of the schema of `brokers pending` that begins with
    `begin_offset`.

    Raises:
        RefusedError: The active controller does not tell.
        CommandError: What it told cannot be read.
    """
    pending, ends = PendingRecords(), [reported + 1, reported + 1, reported + 1]

    def read(leader: Connection) -> None:
        nonlocal pending
        pending = PendingRecords()
        try:
            ends[:] = _read(leader, pending, reported + 1, limit)
        except MalformedError as error:
            raise CommandError(f"{leader.endpoint}: {error}") from error

    ask_kraftd(bootstrap, read, timeout_ms, "committed records")
    begin, at, end = ends
    topics = pending.topics()
    names = _names(bootstrap, [key for key, name, _, _ in topics if name is None], timeout_ms)
    rows = [
        {
            "topic": name or names.get(uuid_text(key)),
            "topic_id": uuid_text(key),
            "change": what,
            "partitions": count,
        }
        for key, name, what, count in topics
    ]
    return {
        "begin_offset": begin,
        "counted_to_offset": at,
        "end_offset": end,
        "is_complete": begin == reported + 1 and at >= end,
        "records": dict(sorted(pending.kinds.items())),
        "topics": sorted(rows, key=lambda row: (row["topic"] or "", row["topic_id"])),
    }


def _read(
    leader: Connection, pending: PendingRecords, begin: Offset, limit: int
) -> tuple[Offset, Offset, Offset]:
    """Count what a node has behind an offset, up to the limit or what is committed now: where that begins,
    how far it was counted, and where it ends.
    """
    at, end = begin, -1
    while end < 0 or (at < end and pending.count < limit):
        response, records = fetch_committed(leader, at)
        if response.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and response.start_offset > at:
            begin = at = response.start_offset
            continue
        raise_for(response.error_code, response.error_message, str(leader.endpoint))
        answered()
        end = response.high_watermark if end < 0 else end
        batches = list(scan(records))
        if not batches:
            break
        for batch in batches:
            if pending.count < limit:
                at = pending.add(batch, at, limit - pending.count)
    return begin, at, max(end, at)


def _names(bootstrap: Sequence[Endpoint], topic_ids: Iterable[Uuid], timeout_ms: int) -> dict[str, str]:
    """The names of topics by their ids, of deleted ones as far as the active controller knows them."""
    if not [*topic_ids]:
        return {}
    removed = list_deletions(bootstrap, timeout_ms, is_all=True)["removals"]
    return {row["topic_id"]: row["topic"] for row in [*removed, *list_topics(bootstrap, timeout_ms)]}
