"""Do two logs of one cluster hold the same records? Batch by batch, over the offsets that both have.

Two logs that hold a batch of the same offset and epoch hold the same one, and the same ones before it: that
is the log matching property, and where it does not hold, records were lost or changed. That two logs part,
from some offset on and in different epochs, is no fault by itself: one of the two ends was never committed,
and its node will cut it when it follows again.

Only what headers say is compared: equal checksums of equal offsets are taken for equal records.
Follows: Raft 5.3. `kraftd.replay.matching` asks the same of many logs at once.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from kraftd.records.batch import BatchView
from kraftd.types import Epoch, Offset

_PACKED = struct.Struct(">qqiI")


class Head(NamedTuple):
    """What is compared of a batch."""

    base_offset: Offset
    end_offset: Offset
    epoch: Epoch
    crc: int


class Heads:
    """The heads of a log's sound batches, in order, packed: a million of them take 24 MB."""

    def __init__(self) -> None:
        self._packed = bytearray()

    def __len__(self) -> int:
        return len(self._packed) // _PACKED.size

    def __iter__(self) -> Iterator[Head]:
        return map(Head._make, _PACKED.iter_unpack(self._packed))

    def add(self, view: BatchView) -> None:
        """One more batch."""
        self._packed += _PACKED.pack(view.base_offset, view.end_offset, view.epoch, view.crc)

    def same_as(self, other: "Heads") -> bool:
        """Whether both are the same to the last bit."""
        return self._packed == other._packed


class Match(msgspec.Struct, frozen=True):
    """How two logs compare. `common_end` is the end of what both hold and agree on."""

    common_end: Offset
    parted_at: Offset = -1
    """The first offset where they differ; -1 if they nowhere do."""
    left_epoch: Epoch = -1
    right_epoch: Epoch = -1
    violation: str = ""
    """What cannot be in two logs of one cluster; empty if nothing."""


def match(left: Heads, right: Heads) -> Match:
    """Compare two logs; batches that one of them lacks, for damage or by its bounds, are passed over."""
    mine, theirs = iter(left), iter(right)
    one, two = next(mine, None), next(theirs, None)
    found = Match(0)
    while one is not None and two is not None:
        if one.end_offset <= two.base_offset:
            one = next(mine, None)
        elif two.end_offset <= one.base_offset:
            two = next(theirs, None)
        else:
            found = _step(found, one, two)
            if found.violation:
                return found
            one, two = next(mine, None), next(theirs, None)
    return found


def _step(found: Match, one: Head, two: Head) -> Match:
    """Take in two batches that share an offset."""
    offset = max(one.base_offset, two.base_offset)
    if one == two:
        if found.parted_at < 0:
            return msgspec.structs.replace(found, common_end=one.end_offset)
        text = (
            f"they differ from offset {found.parted_at} on, but hold the same batch at offset {offset}, "
            f"epoch {one.epoch}"
        )
        return msgspec.structs.replace(found, violation=text)
    if found.parted_at >= 0 and one.epoch != two.epoch:
        return found
    parted = Match(offset if found.parted_at < 0 else found.parted_at, offset, one.epoch, two.epoch)
    parted = msgspec.structs.replace(parted, common_end=found.common_end)
    if one.epoch != two.epoch:
        return parted
    text = f"they hold different records at offset {offset}, both of epoch {one.epoch}"
    return msgspec.structs.replace(parted, violation=text)
