"""Many PartitionRecords at once: their bytes are read and proved by columns, not record by record.

A *run* is a topic's partitions with consecutive ids, as a snapshot holds them, behind the topic's own record
if that is there. Records of equal length are joined, so that one byte of each of them is a slice with a step:
a few comparisons of such columns prove as much of a thousand records as decoding them does.

*In order* is a partition of the usual layout (`partition_fast_codec`) whose ISR is the first of its replicas
in their order, and which the first of them leads. Nearly all are; what is not is given back, and read alone.

Not here: what becomes of them (`builder`).
"""

import sys
from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import combinations, compress, islice
from struct import Struct
from typing import Final, NamedTuple

from kraftd.errors import MalformedError
from kraftd.metadata.parts.topics.broker_index import PartitionKey
from kraftd.metadata.parts.topics.partition_fast_codec import NO_REASSIGNMENT, PARTITION
from kraftd.records.frame import decode_record, encode_record
from kraftd.records.messages import TopicRecord
from kraftd.types import NodeId, Uuid

RUNS_MIN: Final = 64
"""Fewer records than this take less time alone."""
_ALIKE_MIN: Final = 6
"""So do fewer records than this of one length."""
_REPLICAS_MAX: Final = 8
"""Partitions with more replicas are read alone: each is compared with each other one."""

_OPENING: Final = slice(3)
"""Of a record: the version of the frame, the kind and the version."""
_FRAME, _KIND, _VERSION = range(3)
_TOPIC: Final = encode_record(TopicRecord(), 0)[_OPENING]
_PARTITIONS: Final = tuple(PARTITION + bytes((version,)) for version in range(3))
_UNNAMED, _OLD, _CANONICAL = range(3)
"""The versions: without directories, the next, and that which the image keeps."""
_OPENINGS: Final = frozenset((_TOPIC, *_PARTITIONS))
_HEAD_BYTES: Final = 23
"""The opening, the partition's id and the topic's; the count of the replicas follows, one more than they are,
and then the replicas.
"""
_PARTITION_ID: Final = slice(3, 7)
_TOPIC_ID: Final = slice(7, _HEAD_BYTES)
_COUNT_AT: Final = _HEAD_BYTES
_REPLICAS_AT: Final = _COUNT_AT + 1
_INT_BYTES: Final = 4
_EPOCHS_BYTES: Final = 8
_UUID_BYTES: Final = 16
_IDS_MAX: Final = 1 << 31
_NUMBER: Final = Struct(">i")


class Run(NamedTuple):
    """Partitions of one topic, with consecutive ids."""

    topic: TopicRecord | None
    """None if it was there before."""
    topic_id: Uuid
    first_id: int
    heads: bytes
    """The first `_HEAD_BYTES` of each record."""
    values: Sequence[bytes]
    """The records as they were read."""
    rows: list[bytes]
    """The records as the image keeps them, if they have the usual layout."""


class Columns(NamedTuple):
    """Partitions in order, which have equally many replicas and members of the ISR."""

    keys: Sequence[PartitionKey]
    replicas: Sequence[Sequence[NodeId]]
    """The first replica of each, then the second one of each, and so on."""
    isr_count: int


def read_runs(values: Sequence[bytes], start: int) -> list[Run] | None:
    """The runs from a position on, up to a record of another kind; none if what is there is not made of runs,
    and None if there are too few records. Nothing is proved of partitions but their openings.
    """
    openings = [value[_OPENING] for value in values[start : start + RUNS_MIN]]
    if len(openings) < RUNS_MIN or not _OPENINGS.issuperset(openings):
        return None
    firsts = [value[:_HEAD_BYTES] for value in islice(values, start, None)]
    heads, count = b"".join(firsts), len(firsts)
    if len(heads) != _HEAD_BYTES * count:
        count = next(at for at, head in enumerate(firsts) if len(head) < _HEAD_BYTES)
        heads = b"".join(firsts[:count])
    for at, legal in enumerate((b"\1", _TOPIC[_KIND:_VERSION] + PARTITION[_KIND:], bytes(range(3)))):
        column = heads[at::_HEAD_BYTES]
        count = min(count, len(column) - len(column.lstrip(legal)))
    if count < RUNS_MIN:
        return None
    try:
        return list(_runs(values[start : start + count], heads[: _HEAD_BYTES * count]))
    except (MalformedError, IndexError):
        return []


def has_ids(runs: Sequence[Run], keys: Sequence[PartitionKey]) -> bool:
    """Whether the partitions of the runs have the ids of these keys, and those of their topics."""
    numbers = array("Q", keys)
    if sys.byteorder == "little":
        numbers.byteswap()
    ids, key_bytes = numbers.tobytes(), numbers.itemsize
    topics = b"".join([run.topic_id * len(run.rows) for run in runs])
    heads = b"".join([run.heads for run in runs])
    return all(
        heads[_PARTITION_ID.start + at :: _HEAD_BYTES] == ids[key_bytes - _INT_BYTES + at :: key_bytes]
        for at in range(_INT_BYTES)
    ) and all(
        heads[_TOPIC_ID.start + at :: _HEAD_BYTES] == topics[at::_UUID_BYTES] for at in range(_UUID_BYTES)
    )


def by_columns(
    rows: Sequence[bytes], keys: Sequence[PartitionKey]
) -> tuple[list[Columns], list[PartitionKey]]:
    """The partitions that are in order, and the keys of those that have to be read alone."""
    sizes = list(map(len, rows))
    alike: dict[int, list[bytes]] = {size: [] for size in sizes}
    keys_alike: dict[int, list[PartitionKey]] = {size: [] for size in sizes}
    deque(map(list.append, map(alike.__getitem__, sizes), rows), maxlen=0)
    deque(map(list.append, map(keys_alike.__getitem__, sizes), keys), maxlen=0)
    columns: list[Columns] = []
    alone: list[PartitionKey] = []
    for size, rows_alike in alike.items():
        if len(rows_alike) < _ALIKE_MIN:
            alone += keys_alike[size]
        else:
            alone += _read_alike(size, rows_alike, keys_alike[size], columns)
    return columns, alone


def _runs(values: Sequence[bytes], heads: bytes) -> Iterator[Run]:
    kinds = heads[_KIND::_HEAD_BYTES]
    bounds: list[int] = []
    while (found := kinds.find(_TOPIC[_KIND], bounds[-1] + 1 if bounds else 0)) >= 0:
        bounds.append(found)
    rows = _canonical(values, bytearray(heads[_VERSION::_HEAD_BYTES]), bounds)
    bounds.append(len(values))
    topic, topic_id, at = None, values[0][_TOPIC_ID], 0
    for end in bounds:
        if topic is not None or end:
            of_run = heads[_HEAD_BYTES * at : _HEAD_BYTES * end]
            first_id = int.from_bytes(of_run[_PARTITION_ID])
            if first_id + end - at > _IDS_MAX:
                raise MalformedError("ids that are negative")
            yield Run(topic, topic_id, first_id, of_run, values[at:end], rows[at:end])
        if end < len(values):
            record = decode_record(values[end])
            if not isinstance(record, TopicRecord):
                raise MalformedError("not a topic that is known here")
            topic, topic_id, at = record, record.topic_id, end + 1


def _canonical(values: Sequence[bytes], versions: bytearray, topics_at: Sequence[int]) -> list[bytes]:
    """Records of older versions as those of the newest, if they have the usual layout; any other as it is, or
    as one that has no usual layout either.
    """
    for at in topics_at:
        versions[at] = _CANONICAL
    if versions.count(_CANONICAL) == len(values):
        return list(values)
    opening = _PARTITIONS[_CANONICAL]
    body_at = len(opening)
    return [
        value
        if version == _CANONICAL or (version == _UNNAMED and value[-1])
        else opening + value[body_at:]
        if version == _OLD
        else opening + value[body_at:-1] + _no_names(value[_COUNT_AT])
        for value, version in zip(values, versions, strict=True)
    ]


@lru_cache
def _no_names(count: int) -> bytes:
    """The end of a record whose directories have no names; `count` is what it writes for its replicas."""
    return bytes((count, *bytes(_UUID_BYTES * max(count - 1, 0)), 0))


def _read_alike(
    size: int, rows: list[bytes], keys: list[PartitionKey], columns: list[Columns]
) -> list[PartitionKey]:
    """Read rows of one length, which become one more of the columns; the keys of those that do not."""
    joined = b"".join(rows)
    counts = joined[_COUNT_AT::size]
    replicas = max({*counts}, key=counts.count) - 1
    isr_at = _REPLICAS_AT + _INT_BYTES * replicas
    without_isr = (
        isr_at + 1 + len(NO_REASSIGNMENT) + _INT_BYTES + _EPOCHS_BYTES + 1 + _UUID_BYTES * replicas + 1
    )
    isr, rest = divmod(size - without_isr, _INT_BYTES)
    if rest or not 0 < isr <= replicas <= _REPLICAS_MAX:
        return keys
    numbers = [joined[at::size] for at in range(_REPLICAS_AT, isr_at)]
    bad = {*_not_in_order(joined, size, numbers, isr), *_with_equal_replicas(numbers)}
    alone = [keys[at] for at in bad]
    if bad:
        good = bytearray(b"\1" * len(rows))
        for at in bad:
            good[at] = 0
        keys = list(compress(keys, good))
        joined = b"".join(compress(rows, good))
        numbers = [joined[at::size] for at in range(_REPLICAS_AT, isr_at)]
    columns.append(Columns(keys, [_numbers(numbers[at : at + _INT_BYTES]) for at in _of_each(numbers)], isr))
    return alone


def _of_each(numbers: Sequence[bytes]) -> range:
    """Where the columns of each number begin: the four bytes of each are columns of their own."""
    return range(0, len(numbers), _INT_BYTES)


def _not_in_order(joined: bytes, size: int, replicas: Sequence[bytes], isr: int) -> Iterator[int]:
    """Which of some rows of one size are not in order, with so many replicas and members of the ISR.

    Args:
        joined: The rows.
        size: How long each is.
        replicas: Each byte of the replicas, as a column.
        isr: How many replicas are in sync.
    """
    isr_at = _REPLICAS_AT + len(replicas)
    reassignment_at = isr_at + 1 + _INT_BYTES * isr
    leader_at = reassignment_at + len(NO_REASSIGNMENT)
    count = len(replicas) // _INT_BYTES + 1
    constants = {
        _VERSION: _CANONICAL,
        _COUNT_AT: count,
        isr_at: isr + 1,
        **dict(enumerate(NO_REASSIGNMENT, reassignment_at)),
        leader_at + _INT_BYTES + _EPOCHS_BYTES: count,
        size - 1: 0,
    }
    for at, constant in constants.items():
        column = joined[at::size]
        if column != bytes((constant,)) * len(column):
            yield from (number for number, byte in enumerate(column) if byte != constant)
    for repeated_at, width in ((isr_at + 1, _INT_BYTES * isr), (leader_at, _INT_BYTES)):
        for at, column in enumerate(replicas[:width], repeated_at):
            other = joined[at::size]
            if column != other:
                yield from (number for number, byte in enumerate(column) if byte != other[number])
    for at in _of_each(replicas):
        if not replicas[at].isascii():  # the numbers are signed
            yield from (number for number, byte in enumerate(replicas[at]) if byte >= 0x80)


def _with_equal_replicas(replicas: Sequence[bytes]) -> Iterator[int]:
    """Which rows name a replica twice. Most are seen not to by the last bytes alone."""
    for one, other in combinations(_of_each(replicas), 2):
        last, other_last = replicas[one + _INT_BYTES - 1], replicas[other + _INT_BYTES - 1]
        differing = (int.from_bytes(last) ^ int.from_bytes(other_last)).to_bytes(len(last))
        if 0 in differing:
            pairs = list(
                zip(replicas[one : one + _INT_BYTES], replicas[other : other + _INT_BYTES], strict=True)
            )
            for number in (number for number, byte in enumerate(differing) if not byte):
                if all(column[number] == other_column[number] for column, other_column in pairs):
                    yield number


def _numbers(columns: Sequence[bytes]) -> Sequence[int]:
    """Numbers that are not negative, given by their bytes."""
    last = columns[-1]
    if not any(column.strip(b"\0") for column in columns[:-1]):
        return last
    written = bytearray(_INT_BYTES * len(last))
    for at, column in enumerate(columns):
        written[at::_INT_BYTES] = column
    return [number for (number,) in _NUMBER.iter_unpack(written)]
