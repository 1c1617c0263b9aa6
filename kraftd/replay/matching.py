"""Do the nodes of a cluster hold the same log? Batch by batch, over the offsets that both have.

Kafka replicates whole batches, so two healthy logs agree in every batch's bounds, epoch and checksum. Where
they first differ, one of the two holds records that were never committed, or somebody lost his disk.

Only headers are compared: equal checksums of equal length are taken for equal records.
"""

from collections.abc import Sequence

import msgspec
import numpy as np

from kraftd.replay.model import Headers
from kraftd.types import Epoch, Offset

COMPARED = ("base_offset", "end_offset", "epoch", "crc")


class Match(msgspec.Struct, frozen=True):
    """How far two logs agree.

    `common_end` is the end of the last batch that both hold. If they diverge, `left_epoch` and
    `right_epoch` are the epochs of the first batches that differ.
    """

    common_end: Offset
    diverged: bool = False
    left_epoch: Epoch = -1
    right_epoch: Epoch = -1


def match(left: Headers, right: Headers) -> Match:
    """Compare two logs, each gapless and in order.

    Where they share no offset there is nothing to compare: the shorter one counts as a prefix.
    """
    left_end, right_end = _end(left), _end(right)
    start = max(_start(left), _start(right))
    left, right = left[left["base_offset"] >= start], right[right["base_offset"] >= start]
    shared = min(len(left), len(right))
    differs = np.zeros(shared, dtype=np.bool_)
    for name in COMPARED:
        differs |= left[name][:shared] != right[name][:shared]
    if not differs.any():
        return Match(common_end=min(left_end, right_end))
    first = int(np.argmax(differs))
    return Match(
        common_end=int(left["end_offset"][first - 1]) if first else start,
        diverged=True,
        left_epoch=int(left["epoch"][first]),
        right_epoch=int(right["epoch"][first]),
    )


def match_all(logs: Sequence[Headers]) -> list[list[Match]]:
    """Compare each log with each, itself included."""
    return [[match(left, right) for right in logs] for left in logs]


def _start(log: Headers) -> Offset:
    return int(log["base_offset"][0]) if len(log) else 0


def _end(log: Headers) -> Offset:
    return int(log["end_offset"][-1]) if len(log) else 0
