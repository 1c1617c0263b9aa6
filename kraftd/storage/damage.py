"""Damage: bytes of the log that were durable and are not readable any more, as they are told to an operator.

Found at an opening (`log_scan`) and by a read later (`log_reader`), in the same words. Of a few lines,
because it lies below both.
"""

import msgspec

from kraftd.types import Offset

REMEDY = (
    "this node does not count until it is stopped, emptied, formatted and started again, as "
    "docs/operations.md (Trouble) describes"
)


class Damage(msgspec.Struct, frozen=True):
    """Bytes that were durable and are not readable any more (D-06): where, what, and what to do."""

    file: str
    position_bytes: int
    offset: Offset
    end_offset: Offset
    """The first offset after the damage; equal to `offset` if no record is known to be missing."""
    text: str
    action: str

    def __str__(self) -> str:
        where = f"{self.file} at byte {self.position_bytes} (offset {self.offset})"
        return f"{where}: {self.text}; {self.action}"
