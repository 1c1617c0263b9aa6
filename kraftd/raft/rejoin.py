"""Whether this node may be counted, and its way back if not (D-06).

A voter's promises live on its disk. If the disk lost them, or an older copy of it came back, the voter must
not be counted until it cannot do harm any more. `StateHealth` is what opening the directory, and reading from
it since, found out about our own disk; `Rejoin` is the way back from there.

How a voter whose disk was replaced behind its back comes to know it: the others remember another directory
(or a later start) under its id (`kraftd.raft.peers`). The leader refuses its fetch with INVALID_VOTER_KEY; it
then knows that it is an amnesiac, fetches without replica id, and mends.

Follows: D-05, D-06; closes Q-31.
"""

import msgspec

from kraftd.raft.voters import Quorum
from kraftd.types import Epoch, NodeId, Offset


class StateHealth(msgspec.Struct, frozen=True):
    """What opening the directory, and reading from it since, found out about our own promises.

    Each text says which file, byte and offset, and what to do about it.
    """

    damage: tuple[str, ...] = ()
    """Parts of the log below the flushed offset that are gone: mended only by repair."""
    amnesia: tuple[str, ...] = ()
    """Why votes or acknowledgements of ours may have been forgotten."""
    uninitialized: bool = False
    """Neither records nor an election file: a new member, or a wiped one. Nobody can tell from here."""

    @property
    def is_whole(self) -> bool:
        """Whether this member may vote, campaign and be counted."""
        return not self.damage and not self.amnesia


class Rejoin:
    """Whether we are counted, and our own way back if not. Mutable; the `RaftState` is its only owner.

    Whole again once (a) every other voter has told its epoch since we knew, and the highest of them is
    persisted here; (b) we have flushed up to the high watermark of a leader of a later epoch, which was
    therefore elected without us; and (c) the log has no holes.

    Every voter must answer once after each start, too: only the others can tell a wiped or restored disk.
    """

    __slots__ = ("_floor", "_highest", "_quorum", "health", "silent")

    def __init__(self, health: StateHealth, quorum: Quorum) -> None:
        self.health = health
        self._quorum = quorum
        self._highest: Epoch = 0
        self._floor: Epoch | None = None
        self.silent: frozenset[NodeId] = frozenset(quorum.others)
        """Voters that have not answered us yet, under the identity and wholeness that we have now."""

    @property
    def is_whole(self) -> bool:
        """Whether this member may be counted."""
        return self.health.is_whole

    @property
    def has_forgotten(self) -> bool:
        """Whether promises were lost. Such a member doubts nobody: it may know others as they once were."""
        return bool(self.health.amnesia)

    @property
    def can_confirm(self) -> bool:
        """Whether this member would know of a later leader that it promised itself to."""
        return self.is_whole and not self.health.uninitialized

    def lose(self, reason: str) -> bool:
        """Note that promises were forgotten; returns False if that was known."""
        if self.has_forgotten:
            return False
        self.health = msgspec.structs.replace(self.health, amnesia=(reason,), uninitialized=False)
        self.silent = frozenset(self._quorum.others)
        self._floor, self._highest = None, 0
        return True

    def damage(self, text: str) -> bool:
        """Note that the log lost a part since it was opened; returns False if that was known."""
        if text in self.health.damage:
            return False
        self.health = msgspec.structs.replace(
            self.health, damage=(*self.health.damage, text), uninitialized=False
        )
        return True

    def record_response(self, voter: NodeId, epoch: Epoch) -> None:
        """A voter answered; `epoch` is the higher of its own and ours, which is persisted here by now."""
        self._highest = max(self._highest, epoch)
        self.silent -= {voter}
        if not self.silent and self._floor is None:
            self._floor = self._highest

    def completes(self, leader_epoch: Epoch, high_watermark: Offset, flushed_offset: Offset) -> bool:
        """Whether following this leader this far makes us whole; if so, we are from now on."""
        if self.is_whole or self.health.damage or self._floor is None:
            return False
        if leader_epoch <= self._floor or not 0 <= high_watermark <= flushed_offset:
            return False
        self.health = StateHealth()
        self.silent = frozenset(self._quorum.others)
        return True

    def mark_initialized(self) -> bool:
        """Note that a promise was given or records are here. Returns False if that was known."""
        if not self.health.uninitialized:
            return False
        self.health = msgspec.structs.replace(self.health, uninitialized=False)
        return True

    @property
    def text(self) -> str:
        """Why we are not counted, for an operator; empty if we are."""
        return "; ".join((*self.health.damage, *self.health.amnesia))
