"""Whether this node may be counted, and its way back if not (D-06).

A voter's promises live on its disk. If the disk lost them, or an older copy of it came back, the voter must
not be counted until it can do no harm any more. `StateHealth` is what opening the directory, and reading from
it since, found out about our own disk; `Rejoin` is the way back from there.

A voter learns that its disk was replaced from the others, which remember another directory (or a later start)
under its id (`kraftd.raft.peers`). They refuse its fetch with INVALID_VOTER_KEY; it then knows that it has
amnesia, fetches without replica id, and rejoins.

Follows: D-05, D-06; closes Q-31.
"""

from collections.abc import Callable

import msgspec

from kraftd.raft.voters import Quorum
from kraftd.types import Epoch, NodeId, Offset


class StateHealth(msgspec.Struct, frozen=True):
    """What opening the directory, and reading from it since, found out about this node's own disk.

    Each text says which file, byte and offset, and what to do about it.
    """

    damage: tuple[str, ...] = ()
    """The parts of the log below the flushed offset that are lost; only a repair ends this."""
    amnesia: tuple[str, ...] = ()
    """Why votes or acknowledgements of this node may have been forgotten."""
    uninitialized: bool = False
    """Neither records nor promises, as far as was noted: a new node or a wiped one, which look alike here. A
    process that was killed may not have noted what it promised last: a start looks (`report_health`).
    """

    @property
    def is_whole(self) -> bool:
        """Whether this node may vote, campaign and be counted."""
        return not self.damage and not self.amnesia


class Rejoin:
    """Whether this node is counted, and the progress of its rejoin if not. Mutable; owned by `RaftState`.

    Whole again once (a) every other voter has told its epoch since we knew, and since we last took another
    disk for a voter than before, and the highest of them is persisted here; (b) we have flushed up to the
    high watermark of a leader of a later epoch, which was therefore elected without us; and (c) the log has
    no holes.

    Records that are lost while this node runs take no vote with them, and a snapshot takes their place only
    when it ends behind all that this node has acknowledged. So what the others have told since the start
    stays good, and the leader that is followed already will do, if its epoch is later than that.

    Every voter must answer once after each start, too: only the others can tell a wiped or restored disk. And
    every voter must accept a start that is whole again.

    An observer is never counted, and no voter answers for it: it is whole once (b') it has flushed up to the
    high watermark of any leader, and (c).
    """

    __slots__ = (
        "_epoch_to_exceed",
        "_forget_answers",
        "_highest",
        "_quorum",
        "health",
        "not_accepted_by",
        "refused_by",
        "unheard",
    )

    def __init__(self, health: StateHealth, quorum: Quorum, forget_answers: Callable[[], None]) -> None:
        """Begin with what the opening found; `forget_answers` drops the responses under way that would count
        as heard.
        """
        self.health = health
        self._forget_answers = forget_answers
        self._quorum = quorum
        self._highest: Epoch = 0
        self._epoch_to_exceed: Epoch | None = None
        self.unheard: frozenset[NodeId] = frozenset(quorum.others)
        """The voters that have not answered since this start, since amnesia was found, or since another disk
        was found behind an address.
        """
        self.not_accepted_by: frozenset[NodeId] = frozenset()
        """The voters that may still remember another directory, or a later start, under our id although this
        start is whole again.
        """
        self.refused_by: frozenset[NodeId] = frozenset()
        """Those of them that have said so, and not been told since that this start knew of its loss."""

    @property
    def is_whole(self) -> bool:
        """Whether this node may be counted."""
        health = self.health  # `health.is_whole`, written out: this is asked several times an event
        return not health.damage and not health.amnesia

    @property
    def has_forgotten(self) -> bool:
        """Whether votes or acknowledgements were forgotten."""
        return bool(self.health.amnesia)

    def believes_address_of(self, voter: NodeId) -> bool:
        """Whether whoever answers at the address of this voter is that voter, whatever is remembered of it.

        What a node that has forgotten remembers of the others may be out of date. So it takes each as it
        comes, once: whom it has heard since, it knows.

        Nodes 1 and 2 follow node 3's epoch 7, node 2 has heard both, and a batch in its log is rotten. Nodes
        1 and 3 commit a record; then node 1 comes back as an old copy of its directory. Node 2 loads a
        snapshot from node 3, and counts again at once, as node 3 was elected later than all that node 2 could
        have forgotten. If it took the old copy for node 1, the two would elect node 2, and lose the record.
        """
        return self.has_forgotten and voter in self.unheard

    def hear_all_anew(self) -> None:
        """Ask every voter again for its epoch, since another disk was found behind the address of one.

        Nodes 2 and 4 of five know start 7 of node 4. Node 2 has forgotten, and has heard all but node 4 in
        epoch 1. In epoch 3 node 4 acknowledges a record to leader 1, and comes back as an old copy, which
        node 2 believes. If epoch 1 were the one to exceed, leader 1 would make node 2 whole, and commit the
        record by what node 4 had acknowledged: the old copy and node 5 could elect node 2, which lacks it.
        The same if what the others had answered in epoch 1 came only then.
        """
        self.unheard = frozenset(self._quorum.others)
        self._epoch_to_exceed, self._highest = None, 0
        self._forget_answers()

    @property
    def can_confirm_leader(self) -> bool:
        """Whether this node still knows each vote that it gave, so that it may confirm a leader (D-12)."""
        return self.is_whole and not self.health.uninitialized

    def record_amnesia(self, reason: str) -> bool:
        """Record that promises were forgotten. Returns False if that was known."""
        if self.has_forgotten:
            return False
        self.health = msgspec.structs.replace(self.health, amnesia=(reason,), uninitialized=False)
        self.not_accepted_by = self.refused_by = frozenset()
        self.hear_all_anew()
        return True

    def record_damage(self, text: str) -> bool:
        """Record that a part of the log was lost since it was opened. Returns False if that was known."""
        if text in self.health.damage:
            return False
        self.health = msgspec.structs.replace(
            self.health, damage=(*self.health.damage, text), uninitialized=False
        )
        return True

    def record_log_replaced(self) -> bool:
        """Record that a snapshot took the place of the log: its lost parts are gone with it, and what was
        acknowledged in them stays forgotten. Returns whether there were any.
        """
        damage, amnesia = self.health.damage, self.health.amnesia
        if not damage:
            return False
        self.health = msgspec.structs.replace(self.health, damage=(), amnesia=(*amnesia, *damage))
        return True

    def record_response(self, voter: NodeId, epoch: Epoch) -> None:
        """Record that a voter answered; `epoch` is the higher of its own and ours, and is persisted here."""
        self._highest = max(self._highest, epoch)
        self.unheard -= {voter}
        if not self.unheard and self._epoch_to_exceed is None:
            self._epoch_to_exceed = self._highest

    def try_complete(self, leader_epoch: Epoch, high_watermark: Offset, flushed_offset: Offset) -> bool:
        """Make this node whole if it has followed this leader far enough. Returns whether it did."""
        # It may have acknowledged records for older leaders: it must hold all that is committed.
        if self.is_whole or self.health.damage or not 0 <= high_watermark <= flushed_offset:
            return False
        if not self._quorum.is_voter:
            self.health = StateHealth()
            return True
        # Node 3 may have voted in each epoch up to the highest that any voter knows. A leader of a
        # later epoch won without node 3's forgotten votes, so that they decide nothing any more.
        if self._epoch_to_exceed is None or leader_epoch <= self._epoch_to_exceed:
            return False
        self.health = StateHealth()
        # Node 2 has seen node 3 fetch without id, and keeps that in memory. It restarts, and still remembers
        # node 3's former directory. If node 3 left it at that, leader 1 died, and node 2 neither counted node
        # 3's vote nor gave it one, nobody could lead; and if node 3 took node 2's word for news of another
        # loss, it would not count for a second time.
        self.not_accepted_by, self.refused_by = frozenset(self._quorum.others), frozenset()
        return True

    def record_refusal(self, voter: NodeId) -> None:
        """Record that a voter remembers another directory, or a later start, under our id."""
        self.refused_by |= {voter}

    def record_introduction(self, voter: NodeId) -> None:
        """Record that a voter was told that this start knew of its loss."""
        self.refused_by -= {voter}

    def record_acceptance(self, voter: NodeId) -> None:
        """Record that a voter takes this start for the one that it is."""
        self.not_accepted_by -= {voter}
        self.refused_by -= {voter}

    def mark_initialized(self) -> bool:
        """Record that a vote was given or that the log has records. Returns False if that was known."""
        if not self.health.uninitialized:
            return False
        self.health = msgspec.structs.replace(self.health, uninitialized=False)
        return True

    @property
    def text(self) -> str:
        """Why this node is not counted, for an operator; empty if it is."""
        return "; ".join((*self.health.damage, *self.health.amnesia))
