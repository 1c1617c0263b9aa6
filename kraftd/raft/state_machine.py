"""The state machine behind the log, as the driver sees it: a protocol that others can fulfil.

It has a module of its own because it is all that one needs to know to put another state machine behind the
log. kraftd's own is `kraftd.controller`. Calls come from the one loop, never concurrently; any exception
ends the process (D-18).
"""

from collections.abc import Iterator, Sequence
from typing import Protocol

from kraftd.records.committed import CommittedBatch
from kraftd.types import Epoch, NodeId


class StateMachine(Protocol):
    """Applies the log. Deterministic: the same batches give the same state on every node."""

    def apply(self, batch: CommittedBatch) -> None:
        """Apply one committed batch; batches come in order, without gaps, each once."""

    def leader_changed(self, epoch: Epoch, leader_id: NodeId, *, is_self: bool) -> None:
        """Learn the leader of an epoch. With `is_self` the machine may decide and append in this epoch from
        now on; without, it must drop what it has not seen committed.
        """

    def snapshot(self) -> Iterator[Sequence[bytes]]:
        """Freeze the applied state in O(1) and yield it in slices of framed values."""

    def restore(self, slices: Iterator[Sequence[bytes]]) -> None:
        """Discard everything and load a snapshot (LSN-06)."""
