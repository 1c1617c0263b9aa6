"""Whether a member may be counted: ourselves, and each peer that says who it is (D-06).

A voter's promises live on its disk. If the disk lost them, or an older copy of it came back, the voter must
not be counted until it cannot do harm any more. `Wholeness` is what opening the directory, and reading from
it since, found out about our own disk; `Rejoin` is the way back from there; `Peers` remembers who each voter
id belongs to, and finds out when another directory comes back under it.

How a voter whose disk was replaced behind its back comes to know it: the others remember another directory
(or a later start) under its id. The leader refuses its fetch with INVALID_VOTER_KEY; it then knows that it is
an amnesiac, fetches without replica id, and mends. A peer that has been seen to fetch like that is *aware*:
when the same start of it uses its id again, it claims to be whole, and is believed. A later start is not: it
may be that of a newer backup, which never knew.

What an amnesiac remembers of the others may be as old as the rest: it makes nobody doubt itself, and takes
whoever answers at a voter's address for that voter.

That a peer is who it says it is has been proved before it comes here (`kraftd.raft.claims`); nobody else is
remembered, and an observer remembers nobody.

Follows: D-05, D-06, D-37; closes Q-31.
"""

import msgspec

from kraftd.raft.effects import Effect, RefusePeer, RememberPeer
from kraftd.raft.events import PeerIdentity
from kraftd.raft.voters import VoterSet
from kraftd.types import Epoch, NodeId, Offset, ReplicaKey, Uuid, uuid_text


class StartIdentity(msgspec.Struct, frozen=True):
    """Which start of this member's process this is, raised and synced before the first message (D-05)."""

    start_counter: int
    start_id: Uuid


class Wholeness(msgspec.Struct, frozen=True):
    """What opening the directory, and reading from it since, found out about our own promises.

    Each text says which file, byte and offset, and what to do about it.
    """

    damage: tuple[str, ...] = ()
    """Parts of the log below the flushed offset that are gone: mended only by repair."""
    amnesia: tuple[str, ...] = ()
    """Why votes or acknowledgements of ours may have been forgotten."""
    blank: bool = False
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

    __slots__ = ("_floor", "_highest", "_others", "silent", "wholeness")

    def __init__(self, wholeness: Wholeness, others: frozenset[NodeId]) -> None:
        self.wholeness = wholeness
        self._others = others
        self._highest: Epoch = 0
        self._floor: Epoch | None = None
        self.silent = others
        """Voters that have not answered us yet, under the identity and wholeness that we have now."""

    @property
    def is_whole(self) -> bool:
        """Whether this member may be counted."""
        return self.wholeness.is_whole

    @property
    def has_forgotten(self) -> bool:
        """Whether promises were lost. Such a member doubts nobody: it may know others as they once were."""
        return bool(self.wholeness.amnesia)

    @property
    def can_confirm(self) -> bool:
        """Whether this member would know of a later leader that it promised itself to."""
        return self.is_whole and not self.wholeness.blank

    def lose(self, reason: str) -> bool:
        """Note that promises were forgotten; returns False if that was known."""
        if self.has_forgotten:
            return False
        self.wholeness = msgspec.structs.replace(self.wholeness, amnesia=(reason,), blank=False)
        self.silent = self._others
        self._floor, self._highest = None, 0
        return True

    def damage(self, text: str) -> bool:
        """Note that the log lost a part since it was opened; returns False if that was known."""
        if text in self.wholeness.damage:
            return False
        self.wholeness = msgspec.structs.replace(
            self.wholeness, damage=(*self.wholeness.damage, text), blank=False
        )
        return True

    def record_response(self, voter: NodeId, epoch: Epoch) -> None:
        """A voter answered; `epoch` is the higher of its own and ours, which is persisted here by now."""
        self._highest = max(self._highest, epoch)
        self.silent -= {voter}
        if not self.silent and self._floor is None:
            self._floor = self._highest

    def mends(self, leader_epoch: Epoch, high_watermark: Offset, flushed_offset: Offset) -> bool:
        """Whether following this leader this far makes us whole; if so, we are from now on."""
        if self.is_whole or self.wholeness.damage or self._floor is None:
            return False
        if leader_epoch <= self._floor or not 0 <= high_watermark <= flushed_offset:
            return False
        self.wholeness = Wholeness()
        self.silent = self._others
        return True

    def mark_initialized(self) -> bool:
        """Note that a promise was given or records are here. Returns False if that was known."""
        if not self.wholeness.blank:
            return False
        self.wholeness = msgspec.structs.replace(self.wholeness, blank=False)
        return True

    @property
    def text(self) -> str:
        """Why we are not counted, for an operator; empty if we are."""
        return "; ".join((*self.wholeness.damage, *self.wholeness.amnesia))


class Peers:
    """Who each voter id belongs to, and who is connected. Mutable; the `RaftState` is its only owner."""

    __slots__ = ("_aware", "_connections", "_me", "_outbound", "_rejoin", "_remembered", "_voters")

    def __init__(
        self, me: ReplicaKey, voters: VoterSet, known: tuple[PeerIdentity, ...], rejoin: Rejoin
    ) -> None:
        self._me = me
        self._rejoin = rejoin
        self._voters = voters
        self._remembered = {peer.node_id: peer for peer in known}
        self._connections: dict[int, PeerIdentity] = {}
        self._outbound: dict[NodeId, tuple[int, PeerIdentity]] = {}
        self._aware: dict[NodeId, PeerIdentity] = {}

    def identify(self, connection: int, peer: PeerIdentity, *, outbound: bool) -> list[Effect]:
        """A peer that was confirmed, or an observer, is on a new connection: remember it, or let it be."""
        if peer.node_id == self._me.id:
            return [RefusePeer(connection, f"node id {peer.node_id} is mine: two members share one id")]
        effects: list[Effect] = []
        if peer.node_id in self._voters and self._me.id in self._voters:
            # Our memory may be as old as what was forgotten: who answers at its address is that voter.
            if (outbound and self._rejoin.has_forgotten) or not self.identity_conflict(peer):
                effects = self._remember(peer)
            effects += self._replace(peer, outbound=outbound)
        self._connections[connection] = peer
        if outbound:
            self._outbound[peer.node_id] = (connection, peer)
        return effects

    def _replace(self, peer: PeerIdentity, *, outbound: bool) -> list[Effect]:
        """Close what the newest connection of a voter takes the place of.

        Machine 2 lost its power and is back 3 s later: nobody closed its connections, and they look open
        here. Another start of it proves that all of them are gone; the same start may have lost the one of
        this direction only.
        """
        ours = {entry[0] for entry in self._outbound.values()}
        older = [
            connection
            for connection, known in self._connections.items()
            if known.node_id == peer.node_id and (known != peer or (connection in ours) == outbound)
        ]
        effects: list[Effect] = []
        for connection in older:
            self.close(connection)
            effects.append(RefusePeer(connection, f"node {peer.node_id} has connected anew since"))
        return effects

    def accept_current_peers(self) -> list[Effect]:
        """We found out that we forgot: take those who answer us for the voters that they say they are."""
        voters = [peer for _, peer in self._outbound.values() if peer.node_id in self._voters]
        return [effect for peer in voters for effect in self._remember(peer)]

    def close(self, connection: int) -> PeerIdentity | None:
        """A connection ended; returns who was on it."""
        peer = self._connections.pop(connection, None)
        if peer is not None and self._outbound.get(peer.node_id, (None,))[0] == connection:
            del self._outbound[peer.node_id]
        return peer

    def is_connected(self, node_id: NodeId) -> bool:
        """Whether any connection of that member is open."""
        return any(peer.node_id == node_id for peer in self._connections.values())

    def connection_to(self, node_id: NodeId) -> int | None:
        """The connection on which our requests to that member go."""
        entry = self._outbound.get(node_id)
        return entry[0] if entry else None

    def answers(self, node_id: NodeId) -> PeerIdentity | None:
        """Who answers our requests to that id."""
        entry = self._outbound.get(node_id)
        return entry[1] if entry else None

    def is_trusted(self, peer: PeerIdentity | None) -> bool:
        """Whether what this peer acknowledges may be counted for its voter id."""
        return peer is not None and self._remembered.get(peer.node_id) == peer

    def identity_conflict(self, peer: PeerIdentity) -> str:
        """Why this cannot be the member we remember under its id; empty if it can."""
        known = self._remembered.get(peer.node_id)
        if known is None or known == peer:
            return ""
        if known.directory_id != peer.directory_id:
            return (
                f"node {peer.node_id} comes with directory {uuid_text(peer.directory_id)}, "
                f"but {uuid_text(known.directory_id)} is the one known under that id"
            )
        if peer.start_counter > known.start_counter:
            return ""
        return (
            f"node {peer.node_id} comes back as start {peer.start_counter} of its directory, but start "
            f"{known.start_counter} was seen: an old copy of the directory"
        )

    def is_outdated(self, peer: PeerIdentity | None) -> bool:
        """Whether this is a copy of the very directory that we remember, from before the start that we know.

        What it says of us is older still. Node 3 was wiped and has mended since; then a backup of node 2 from
        before that comes back, and refuses node 3, which it knows by its former directory. If node 3 believed
        it, one restored disk would leave two of three voters that are not whole, and nobody could lead.
        """
        known = self._remembered.get(peer.node_id) if peer is not None else None
        return (
            peer is not None
            and known is not None
            and known.directory_id == peer.directory_id
            and bool(self.identity_conflict(peer))
        )

    def conflicting_voters(self) -> list[NodeId]:
        """The voters in whose place others are connected than the ones we remember, in order."""
        if self._rejoin.has_forgotten or self._me.id not in self._voters:
            return []
        return sorted({peer.node_id for peer in self._connections.values() if self.identity_conflict(peer)})

    def note_rejoining(self, peer: PeerIdentity) -> None:
        """A voter fetched without its id: it knows that it is not whole."""
        if peer.node_id in self._voters and self.identity_conflict(peer):
            self._aware[peer.node_id] = peer

    def verify_identity(self, peer: PeerIdentity | None) -> list[Effect] | None:
        """A peer did what only a whole member does, under its id.

        Returns:
            What must be durable before the peer is counted (often nothing), or None if it must not be.
        """
        if peer is None:
            return None
        if self._remembered.get(peer.node_id) == peer:
            return []
        if not self.identity_conflict(peer):
            return self._remember(peer)
        # Only the very start that fetched without its id. Node 3 runs on a backup of its start 2 and knows
        # that it has forgotten; then a backup of its start 4 takes its place. It counts higher than the
        # aware one, but does not descend from it: it never knew that anything was forgotten.
        return self._remember(peer) if self._aware.get(peer.node_id) == peer else None

    def _remember(self, peer: PeerIdentity) -> list[Effect]:
        if self._remembered.get(peer.node_id) == peer:
            return []
        self._remembered[peer.node_id] = peer
        self._aware.pop(peer.node_id, None)
        return [RememberPeer(peer)]
