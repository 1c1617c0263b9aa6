"""Do two logs of one cluster hold the same records? Batch by batch, over the offsets that both have.

Two logs that hold a batch of the same offset and epoch hold the same one, and the same ones before it: that
is the log matching property, and where it does not hold, records were lost or changed. That two logs part,
from some offset on and in different epochs, is no fault by itself: one of the two ends was never committed,
and its node will cut it when it follows again. Logs that never agree, from the first offset that both hold
on, are not of one cluster.

Only what headers say is compared: equal checksums of equal offsets are taken for equal records.
Follows: Raft 5.3.
"""

import struct
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import msgspec

from kraftd.records.batch import BatchView
from kraftd.types import Epoch, Offset

_KEY = struct.Struct(">qqiI")


class BatchKey(NamedTuple):
    """What is compared of a batch."""

    base_offset: Offset
    end_offset: Offset
    epoch: Epoch
    crc: int


class BatchKeys:
    """The keys of a log's sound batches, in order, packed: a million of them take 24 MB."""

    def __init__(self, packed: bytes = b"") -> None:
        """Begin with keys that are packed already, each as four numbers in network order: `>qqiI`."""
        self._packed = bytearray(packed)

    def __len__(self) -> int:
        return len(self._packed) // _KEY.size

    def __getitem__(self, index: int) -> BatchKey:
        return BatchKey._make(_KEY.unpack_from(self._packed, index * _KEY.size))

    @property
    def end_offset(self) -> Offset:
        """Where the last batch ends; 0 without any."""
        return self[len(self) - 1].end_offset if len(self) else 0

    def add(self, view: BatchView) -> None:
        """One more batch."""
        self._packed += _KEY.pack(view.base_offset, view.end_offset, view.epoch, view.crc)

    def ending_after(self, offset: Offset, index: int) -> int:
        """The first batch from an index on that ends after an offset."""
        return bisect_right(range(len(self)), offset, lo=index, key=lambda at: self[at].end_offset)

    def equal_run(self, index: int, other: "BatchKeys", other_index: int) -> int:
        """How many batches are equal, from one index here and another one there on."""
        low, high = 0, min(len(self) - index, len(other) - other_index)
        while low < high:
            middle = (low + high + 1) // 2
            mine = self._packed[(index + low) * _KEY.size : (index + middle) * _KEY.size]
            if mine == other._packed[(other_index + low) * _KEY.size : (other_index + middle) * _KEY.size]:
                low = middle
            else:
                high = middle - 1
        return low


class LogComparison(msgspec.Struct, frozen=True):
    """How two logs compare.

    `common_end` is the end of what both hold and agree on. Logs that share no offset are not compared: the
    shorter one counts as a prefix.
    """

    common_end: Offset
    equal_batches: int = 0
    parted_at: Offset = -1
    """The first offset where they differ; -1 if they nowhere do."""
    left_epoch: Epoch = -1
    right_epoch: Epoch = -1
    violation: str = ""
    """What cannot be in two logs of one cluster; empty if nothing."""

    @property
    def is_parted(self) -> bool:
        """Whether they differ anywhere."""
        return self.parted_at >= 0

    @property
    def is_of_two_clusters(self) -> bool:
        """Whether they differ wherever both have a batch."""
        return self.is_parted and not self.equal_batches

    @property
    def is_undecided(self) -> bool:
        """Whether they share no offset, so that nothing was compared."""
        return not self.is_parted and not self.equal_batches


Comparisons: TypeAlias = Sequence[Sequence[LogComparison]]
"""Each of several logs with each, itself included."""


def compare(left: BatchKeys, right: BatchKeys) -> LogComparison:
    """Compare two logs; batches that one of them lacks, for damage or by its bounds, are passed over."""
    found = LogComparison(min(left.end_offset, right.end_offset))
    here = there = 0
    while here < len(left) and there < len(right):
        run = left.equal_run(here, right, there)
        if run:
            found = _agreed(found, left, here, run)
            here, there = here + run, there + run
            continue
        one, two = left[here], right[there]
        if one.end_offset <= two.base_offset:
            here = left.ending_after(two.base_offset, here)
        elif two.end_offset <= one.base_offset:
            there = right.ending_after(one.base_offset, there)
        else:
            found = _differing(found, one, two)
            here, there = here + 1, there + 1
        if found.violation and found.equal_batches:
            break
    return found


def _agreed(found: LogComparison, log: BatchKeys, index: int, count: int) -> LogComparison:
    """Take in equal batches."""
    first, last = log[index], log[index + count - 1]
    equal_batches = found.equal_batches + count
    if not found.is_parted:
        return msgspec.structs.replace(found, equal_batches=equal_batches, common_end=last.end_offset)
    text = found.violation or (
        f"they differ from offset {found.parted_at} on, but hold the same batch at offset "
        f"{first.base_offset}, epoch {first.epoch}"
    )
    return msgspec.structs.replace(found, equal_batches=equal_batches, violation=text)


def _differing(found: LogComparison, one: BatchKey, two: BatchKey) -> LogComparison:
    """Take in two batches that share an offset and are not the same."""
    offset = max(one.base_offset, two.base_offset)
    if found.violation or (found.is_parted and one.epoch != two.epoch):
        return found
    if not found.is_parted:
        end = found.common_end if found.equal_batches else offset
        found = msgspec.structs.replace(
            found, common_end=end, parted_at=offset, left_epoch=one.epoch, right_epoch=two.epoch
        )
    if one.epoch != two.epoch:
        return found
    text = f"they hold different records at offset {offset}, both of epoch {one.epoch}"
    return msgspec.structs.replace(found, left_epoch=one.epoch, right_epoch=two.epoch, violation=text)


def clusters_among(comparisons: Comparisons) -> list[list[int]]:
    """Sort logs under one cluster id by the cluster that they are really of; ids are copied, batches are not.

    Logs that hold one batch in common are of one cluster, and so are all that this leads to. A log that
    shares no offset with the others of a cluster may be of it: nothing says otherwise.

    Returns:
        The numbers of the logs of each cluster, in their order.
    """
    groups: list[list[int]] = []
    for number, row in enumerate(comparisons):
        akin = [group for group in groups if any(row[other].equal_batches for other in group)]
        groups = [group for group in groups if group not in akin]
        groups.append(sorted([number, *(other for group in akin for other in group)]))
    groups.sort()
    # A log that differs from none may be of any cluster: it goes to one before those that differ from some.
    alone = [group[0] for group in groups if len(group) == 1]
    for number in sorted(alone, key=lambda one: sum(found.is_parted for found in comparisons[one])):
        group = next(group for group in groups if number in group)
        open_to = (
            other
            for other in groups
            if other is not group and not any(comparisons[number][one].is_parted for one in other)
        )
        if len(group) == 1 and (home := next(open_to, None)) is not None:
            groups.remove(group)
            home.append(number)
            home.sort()
    return sorted(groups)
