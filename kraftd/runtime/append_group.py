"""The writes of one turn that are appended as one: one event of the raft node, one outcome (D-39).

A group is no more than a shorter way to say the same. Its writes were decided one after the other, each for
its own request, and stand in the log in that order, in the batches in which they would stand had each been
appended by itself; what one of them would get, all get. So a write joins only a group of its epoch and its
urgency, and only if the raft node would have taken it behind the others, into the same batch. One that does
not fit begins a new group, and is appended at once if there is no room for it at all: the raft node alone
refuses.

Not here: when a group begins and ends (`controller_apis`), and the answers.
"""

from typing import Generic, TypeVar

from kraftd.controller.decisions import Write
from kraftd.protocol.limits import OPERATION_RECORDS_MAX

CallerT = TypeVar("CallerT")


class AppendGroup(Generic[CallerT]):
    """Writes that wait for the end of the group, each with who is to be answered. Mutable, one owner."""

    __slots__ = ("epoch", "is_urgent", "records", "room_bytes", "writes")

    def __init__(self, epoch: int, room_bytes: int, *, is_urgent: bool) -> None:
        self.epoch = epoch
        self.is_urgent = is_urgent
        self.room_bytes = room_bytes
        """How much more the raft node takes; negative once it holds a write for which there is no room."""
        self.records: list[bytes] = []
        self.writes: list[tuple[Write, CallerT]] = []

    def takes(self, write: Write, size_bytes: int, *, is_urgent: bool) -> bool:
        """Whether this write may join."""
        return (
            size_bytes <= self.room_bytes
            and write.epoch == self.epoch
            and is_urgent is self.is_urgent
            and len(self.records) + len(write.records) <= OPERATION_RECORDS_MAX
        )

    def add(self, write: Write, caller: CallerT, size_bytes: int) -> None:
        """Let a write join, behind all others."""
        self.records += write.records
        self.writes.append((write, caller))
        self.room_bytes -= size_bytes
