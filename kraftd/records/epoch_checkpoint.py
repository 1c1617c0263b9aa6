"""The `leader-epoch-checkpoint` file: where each epoch begins, as text; and the epoch of an offset by it.

Line 1 is the format's version, 0; line 2 the number of entries; then `epoch start-offset` a line, ascending.
An empty file has no entries.
"""

import re
from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter

from kraftd.errors import MalformedError
from kraftd.types import Epoch, EpochEntry, Offset

_VERSION = "0"
_ENTRY = re.compile(r"(\d{1,10}) (\d{1,19})", re.ASCII)
_START_OFFSET = attrgetter("start_offset")


def encode(entries: Sequence[EpochEntry]) -> bytes:
    """The file's bytes."""
    lines = [_VERSION, str(len(entries)), *(f"{entry.epoch} {entry.start_offset}" for entry in entries)]
    return ("\n".join(lines) + "\n").encode()


def decode(data: bytes) -> tuple[EpochEntry, ...]:
    """The entries, by ascending epoch.

    Raises:
        MalformedError: Another version, a line that is none, a wrong count, or entries out of order.
    """
    if not data:
        return ()
    lines = data.decode("utf-8", "replace").splitlines()
    if lines[0].strip() != _VERSION:
        raise MalformedError(f"leader-epoch-checkpoint line 1: version {lines[0]!r} is not {_VERSION}")
    if len(lines) < 2 or not re.fullmatch(r"[0-9]{1,10}", lines[1].strip()):
        raise MalformedError("leader-epoch-checkpoint line 2: not a number of entries")
    if int(lines[1]) != len(lines) - 2:
        raise MalformedError(
            f"leader-epoch-checkpoint promises {int(lines[1])} entries and has {len(lines) - 2}"
        )
    entries: list[EpochEntry] = []
    for number, line in enumerate(lines[2:], start=3):
        match = _ENTRY.fullmatch(line.strip())
        if match is None:
            raise MalformedError(
                f"leader-epoch-checkpoint line {number}: {line!r} is not an epoch and an offset"
            )
        entry = EpochEntry(int(match[1]), int(match[2]))
        if entries and (entry.epoch <= entries[-1].epoch or entry.start_offset < entries[-1].start_offset):
            raise MalformedError(f"leader-epoch-checkpoint line {number}: {line!r} is out of order")
        entries.append(entry)
    return tuple(entries)


def epoch_of(entries: Sequence[EpochEntry], offset: Offset, unknown: Epoch = 0) -> Epoch:
    """Return the epoch of the record at an offset by ascending entries; `unknown` before the first."""
    slot = bisect_right(entries, offset, key=_START_OFFSET) - 1
    return entries[slot].epoch if slot >= 0 else unknown
