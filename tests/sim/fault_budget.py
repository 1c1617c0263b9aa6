"""What may be broken now, and what the cluster must still keep, by what each disk remembers.

Before a fault takes something from a disk it asks `judge`, with the `Harm` it would do. It is told:

- `SURVIVES`: a whole copy of every committed batch and a majority of remembered votes are left. Nothing may
  be lost, and the cluster must go on once its other voters are healed.
- `HALTS`: what is left is no majority, but every voter that forgot something will know that it did. The
  cluster may stop; it must serve nothing wrong. The seed reports that a halt was expected.
- `NEVER`: no program could tell, and promises that others rely on would be forgotten. Such a fault is not
  carried out.

A harm is *noticed* if the disk itself shows it (D-05), *told* if only the other voters can tell (D-06: a
wiped disk, an old copy, a lost sidecar), and *silent* if nobody can. What is silent must not matter: a
majority of the others holds the records, and nobody could use the vote.

`note` remembers the wound until the voter is whole again; `check` complains of a node that doubts a disk
which nothing happened to. Not here: how a disk is harmed (`faults`), and what is asked of the cluster at the
end (`verdict`).
"""

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from kraftd.audit.invariants import NodeView, Violation
from kraftd.errors import MalformedError
from kraftd.records import meta_properties, names, quorum_state
from kraftd.storage.log import Log
from kraftd.storage.sidecar import SLOT_BYTES, SidecarState, decode_slot
from kraftd.types import NO_NODE, NodeId, Offset, PeerIdentity, Uuid

if TYPE_CHECKING:
    from tests.sim.node import SimNode
    from tests.sim.world import World

DATA_PATH = Path("/data")
STARTS = 1
"""How many starts an old copy may have before the others have met it."""
HALTING_PART = 0.1
"""How many seeds may lose so much that the cluster stops."""
WIPED = -1
"""Stands for the start counter of another directory."""


class Judgement(Enum):
    """What a fault may cost."""

    SURVIVES = "survives"
    HALTS = "halts"
    NEVER = "never"


class Harm(msgspec.Struct, frozen=True):
    """What a disk would forget."""

    records_from: Offset | None = None
    """Durable records from here on, silently."""
    votes: bool = False
    """Leader and vote of its epoch, silently."""
    identity: bool = False
    """Which start of which directory this is; the other voters can tell."""
    start_counter: int = 0
    """With `identity`: the start counter that is left; WIPED on a new directory."""
    peers: bool = False
    """Who the other voters are."""
    noticed: bool = False
    """Something that the disk itself shows."""
    perhaps: bool = False
    """Something that the disk shows or that never mattered."""


class Wound(msgspec.Struct):
    """What happened to a disk, until the voter is whole again."""

    harm: Harm
    incarnation: int
    certain: bool
    """Whether the next start must notice it: no process ran that could write over it. A later one need not:
    the next may have died once it had mended the disk.
    """
    was_noticed: bool = False
    """Whether the node has said since that it is not whole."""


class Forgotten(msgspec.Struct):
    """What a voter may not count for, from when its disk became another one until it has caught up."""

    committed: tuple[Offset, int]
    """What was committed when it happened: an offset, and the digest of a log up to there."""
    is_known: bool = False
    """Whether the node has said since that it is not whole."""


def has_unread(log: Log) -> bool:
    """Whether a start took a segment that nobody has read since."""
    return any(segment.is_unread for segment in log._segments)


class FaultBudget:
    """The ledger of one run."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self.wounds: dict[NodeId, Wound] = {}
        self.were_hurt: set[NodeId] = set()
        """Whose disks have lost bytes at any time, or failed a read of what was promised; healed or not."""
        self.halt_expected = False
        # The name of a random stream decides its numbers: with another name each seed would be another one.
        self.halts_are_allowed = world.derive("atlas").random() < HALTING_PART
        self._before: Wound | None = None
        self._forgotten: dict[NodeId, Forgotten] = {}
        self._not_whole: dict[NodeId, int] = {}
        """The last incarnation of a voter that was not whole."""
        self._whole_again: dict[NodeId, int] = {}
        """The incarnation of a voter that has become whole while it ran; its disk was not hurt since."""

    # -- before a fault

    def judge(self, node: "SimNode", harm: Harm) -> Judgement:
        """What this harm to this disk may cost, now."""
        if not node.is_voter:
            return Judgement.SURVIVES
        others = self._others(node)
        is_wiped = harm.identity and harm.start_counter == WIPED
        if node.id in self.wounds and not (harm.noticed or is_wiped or self._is_older_still(node, harm)):
            return Judgement.NEVER  # it could forget that it had forgotten
        if harm.records_from is not None and not self._is_held(node.view(), others):
            return Judgement.NEVER
        if harm.votes and not self._is_vote_obsolete(node.view(), others):
            return Judgement.NEVER
        if (harm.identity or harm.peers) and any(
            wound.harm.identity for node_id, wound in self.wounds.items() if node_id != node.id
        ):
            return Judgement.NEVER  # the one would not be told by the other
        least = 0 if is_wiped else harm.start_counter + STARTS
        if harm.identity and not others:
            return Judgement.NEVER  # a lone voter has nobody who could tell it
        if harm.identity and not self._is_remembered(node, others, least, same_directory=not is_wiped):
            return Judgement.NEVER
        if not (harm.noticed or harm.perhaps or harm.identity):
            return Judgement.SURVIVES
        sound = sum(other.id not in self.wounds and _remembers(other) for other in others)
        return Judgement.SURVIVES if sound > len(self._world.voters) // 2 else Judgement.HALTS

    def _is_older_still(self, node: "SimNode", harm: Harm) -> bool:
        """Whether a copy comes back in the place of one that is not newer: its starts count no higher."""
        before = self.wounds[node.id].harm
        return harm.identity and before.identity and WIPED < harm.start_counter <= before.start_counter

    def majority_remembers(self) -> bool:
        """Whether a majority of the voters has forgotten nothing, and could elect one of them.

        Who has neither records nor promises cannot tell that from a wiped disk, and votes only for the like
        of it (D-06). Nodes 0 and 2 have elected one of them, node 1 has not heard of it yet; node 0 loses its
        sidecar: then node 2 has nobody left who would elect it.
        """
        sound = [node for node in self._world.nodes.values() if node.is_voter and node.id not in self.wounds]
        with_a_past = sum(map(_remembers, sound))
        return max(with_a_past, len(sound) - with_a_past) > len(self._world.voters) // 2

    def note(self, node: "SimNode", harm: Harm) -> None:
        """The harm is being done."""
        world = self._world
        world.auditor.forget(node.view())
        if not node.is_voter:
            return
        self.were_hurt.add(node.id)
        self._whole_again.pop(node.id, None)
        if self.judge(node, harm) is Judgement.HALTS:
            self.halt_expected = True
        if harm.identity:
            self._forgotten[node.id] = Forgotten(world.auditor.committed)
            node.view().forgot = True
        self._before = before = self.wounds.get(node.id)
        if before is not None and before.harm.identity and not harm.identity:
            left = _start_counter(node, before)
            harm = msgspec.structs.replace(harm, identity=True, start_counter=left)
        self.wounds[node.id] = Wound(harm, node.incarnation, harm.noticed and not node.is_up)

    def forgive(self, node: "SimNode") -> None:
        """The harm that was just noted changed nothing after all."""
        if self._before is None:
            self.wounds.pop(node.id, None)
        else:
            self.wounds[node.id] = self._before

    def may_stay_unnoticed(self, node: "SimNode") -> None:
        """The next start makes good the harm that was just noted, and need not tell of it."""
        wound = self.wounds.get(node.id)
        if wound is not None:
            wound.certain = False

    def is_known_to_all(self, node: "SimNode") -> bool:
        """Whether every other voter durably remembers the directory that this one has."""
        return self._is_remembered(node, self._others(node), 0, same_directory=True)

    def before_boot(self, node: "SimNode") -> None:
        """A process is about to read what is left on a disk: what is gone binds nobody."""
        if node.id in self.wounds:
            self._world.auditor.forget(node.view())

    def may_start_again(self, node: "SimNode") -> bool:
        """Whether another start would make an old copy look new to those who have not met it yet."""
        wound = self.wounds.get(node.id)
        if wound is None or not wound.harm.identity or wound.was_noticed:
            return True
        counter = _start_counter(node, wound)
        if counter == WIPED:
            return True
        return self._is_remembered(node, self._others(node), counter + 1, same_directory=True)

    # -- after an event

    def look(self, node: "SimNode") -> None:
        """Find out whether a node is whole again.

        Raises:
            Violation: A node doubts a disk that nothing happened to.
        """
        view = node.view()
        if view.state is None or not node.is_voter:
            return
        if view.forgot:
            self._look_for_what_it_forgot(node, view)
        wound = self.wounds.get(node.id)
        self._look_whether_it_stays_whole(node, view)
        if wound is None:
            if not view.is_whole:
                raise Violation(f"SoundDisksAreBelieved: {node.id} is not whole, and nothing happened to it")
        elif node.incarnation > wound.incarnation and self._is_healed(node, wound, view):
            del self.wounds[node.id]

    def _look_whether_it_stays_whole(self, node: "SimNode", view: NodeView) -> None:
        """The process that counts again is not taken for another one: those who were away when it was heard
        are told that it knew. Records that it finds lost, in a segment that its start took unread, are news.
        """
        if not view.is_whole:
            self._not_whole[node.id] = node.incarnation
            was_whole = self._whole_again.pop(node.id, None) == node.incarnation
            if was_whole and not node.has_lost_records:
                raise Violation(f"WhoCountsAgainIsBelieved: {node.id} was whole again, and is not")
        elif self._not_whole.get(node.id) == node.incarnation:
            self._whole_again[node.id] = node.incarnation

    def _look_for_what_it_forgot(self, node: "SimNode", view: NodeView) -> None:
        """Who counts again may be asked for all that it may have acknowledged before."""
        forgotten = self._forgotten[node.id]
        forgotten.is_known = forgotten.is_known or not view.is_whole
        if not (forgotten.is_known and view.is_whole):
            return
        view.forgot = False
        offset, digest = forgotten.committed
        if view.log and not view.holds(offset, digest):
            raise Violation(
                f"WhoCountsAgainHoldsWhatWasCommitted: {node.id} is whole with {view.durable_end_offset} "
                f"offsets, and {offset} were committed when its disk became another one"
            )

    def _is_healed(self, node: "SimNode", wound: Wound, view: NodeView) -> bool:
        wound.was_noticed = wound.was_noticed or not view.is_whole
        if not view.is_whole:
            return False
        harm = wound.harm
        # What a whole snapshot of its own stands for is no loss (D-23): it says so, and counts.
        # Or it lies in a segment that the start took unread: the check behind the start meets it, and at the
        # end of the seed all is read (`AllIsRead`).
        is_covered = (
            node.directory is not None
            and not harm.votes
            and (bool(node.directory.report.notes) or has_unread(node.directory.log))
        )
        is_next = node.incarnation == wound.incarnation + 1
        if wound.certain and is_next and not wound.was_noticed and not is_covered:
            raise Violation(f"DamageIsNoticed: {node.id} counts itself as whole after {harm}")
        if harm.identity:
            return wound.was_noticed and self._is_believed(node)
        return True  # it was never needed, was written over, or is mended

    # -- what the disks remember

    def _is_held(self, view: NodeView, others: "list[SimNode]") -> bool:
        """Whether a majority of the voters, without this one, holds everything that it may have promised."""
        end_offset = view.durable_end_offset
        digest = view.digest_at(end_offset)
        holders = [
            other
            for other in others
            if other.id not in self.wounds and other.view().holds(end_offset, digest)
        ]
        return len(holders) > len(self._world.voters) // 2

    def _is_vote_obsolete(self, view: NodeView, others: "list[SimNode]") -> bool:
        """Whether nobody could be elected, or lead, with a promise of this voter that it forgot."""
        epoch = view.durable_election.epoch
        for other in others:
            election = other.view().durable_election
            if election.epoch < epoch or (election.epoch == epoch and election.leader_id == NO_NODE):
                return False
        return True

    def _is_remembered(
        self, node: "SimNode", others: "list[SimNode]", least: int, *, same_directory: bool
    ) -> bool:
        """Whether every other voter durably knows a start of this voter with such a counter, or more."""
        directory_id = directory_of(node)
        for other in others:
            known = peer_in(sidecar_of(other), node.id)
            if known is None or known.start_counter < least:
                return False
            if same_directory and known.directory_id != directory_id:
                return False
        return True

    def _is_believed(self, node: "SimNode") -> bool:
        """Whether no other voter would doubt the start that runs now."""
        if node.directory is None:
            return False
        for other in self._others(node):
            known = peer_in(sidecar_of(other), node.id)
            if known is None or known.directory_id != node.directory.directory_id:
                return False
            theirs = known.start_counter, known.start_id
            ours = node.directory.start_counter, node.directory.start_id
            if theirs[0] > ours[0] or (theirs[0] == ours[0] and theirs != ours):
                return False
        return True

    def _others(self, node: "SimNode") -> "list[SimNode]":
        """The other voters."""
        return [n for n in self._world.nodes.values() if n.is_voter and n is not node]


def _start_counter(node: "SimNode", wound: Wound) -> int:
    """How many starts a disk whose identity is gone counts by now; WIPED on a new directory."""
    left = wound.harm.start_counter
    return left if left == WIPED else left + node.incarnation - wound.incarnation


def slots_of(node: "SimNode") -> dict[int, tuple[int, SidecarState]]:
    """The good slots of the sidecar as the disk holds it: sequence and state of each."""
    try:
        data = node.fs.durable_content(DATA_PATH / names.SIDECAR)
    except OSError:
        return {}
    found = {}
    for slot in (0, 1):
        try:
            found[slot] = decode_slot(data[slot * SLOT_BYTES : (slot + 1) * SLOT_BYTES])
        except MalformedError:
            continue
    return found


def sidecar_of(node: "SimNode") -> SidecarState | None:
    """What the sidecar on a disk says, durably."""
    newest = max(slots_of(node).values(), key=lambda slot: slot[0], default=None)
    return newest[1] if newest is not None else None


def holds_torn_election(node: "SimNode") -> bool:
    """Whether the sidecar on a disk has the whole election of a `quorum-state` that reads as torn (D-41)."""
    state = sidecar_of(node)
    local_state = state.local_state if state is not None else None
    if local_state is None or local_state.election is None:
        return False
    if local_state.old_election == local_state.new_election:
        return False
    data = node.fs.durable_content(DATA_PATH / names.LOG_DIRECTORY / names.QUORUM_STATE)
    try:
        quorum_state.decode(data)
    except MalformedError:
        return len(data) == 2 * quorum_state.PLACE_BYTES
    return False


def _remembers(node: "SimNode") -> bool:
    """Whether a disk has a past: a new voter, or a wiped one, votes only for the like of it (D-06)."""
    state = sidecar_of(node)
    return state is not None and state.local_state.health == "whole"


def peer_in(state: SidecarState | None, node_id: NodeId) -> PeerIdentity | None:
    """What a sidecar remembers of a voter."""
    if state is None:
        return None
    return next((peer for peer in state.local_state.peers if peer.node_id == node_id), None)


def directory_of(node: "SimNode") -> Uuid | None:
    """Which directory a disk is."""
    try:
        data = node.fs.content(DATA_PATH / names.META_PROPERTIES)
        return meta_properties.decode(data).directory_id
    except (OSError, MalformedError):
        return None
