"""The identity behind each voter id, and the open connections (D-06).

`Peers` remembers the directory and the newest start of each voter, and finds out when another directory, or
an older start, comes back under its id. A peer that has been seen to fetch without its id is *aware* that it
is not whole: when the same start of it uses its id again, it claims to be whole, and is accepted. A later
start is not: it may be that of a newer backup, which never knew.

What a node with amnesia remembers of the others may be out of date, too: until it has heard a voter, it
accepts the node that answers at the voter's configured address as that voter (`Rejoin.believes_address_of`).

The identity of a voter was proved before it comes here (`kraftd.raft.claims`). Only voters are remembered,
and only by voters.

Follows: D-06, D-37.
"""

from kraftd.raft.effects import Effect, RefusePeer, RememberPeer
from kraftd.raft.rejoin import Rejoin
from kraftd.raft.voters import Quorum
from kraftd.types import NodeId, PeerIdentity, ReplicaKey, uuid_text


class Peers:
    """The identity behind each voter id, and the open connections. Mutable; the `RaftState` is its only
    owner.
    """

    __slots__ = ("_aware", "_connections", "_me", "_outbound", "_quorum", "_rejoin", "_remembered")

    def __init__(
        self, me: ReplicaKey, quorum: Quorum, known: tuple[PeerIdentity, ...], rejoin: Rejoin
    ) -> None:
        self._me = me
        self._rejoin = rejoin
        self._quorum = quorum
        self._remembered = {peer.node_id: peer for peer in known}
        self._connections: dict[int, PeerIdentity] = {}
        self._outbound: dict[NodeId, tuple[int, PeerIdentity]] = {}
        self._aware: dict[NodeId, PeerIdentity] = {}

    def identify(self, connection: int, peer: PeerIdentity, *, outbound: bool) -> list[Effect]:
        """Register the connection of a confirmed voter or of an observer. Returns what follows: the peer is
        remembered, older connections are closed, or this one is refused.
        """
        if peer.node_id == self._me.id:
            return [RefusePeer(connection, f"node id {peer.node_id} is mine: two nodes share one id")]
        effects: list[Effect] = []
        if peer.node_id in self._quorum.voters and self._quorum.is_voter:
            if outbound and self._rejoin.believes_address_of(peer.node_id):
                effects = self._believe([peer])
            elif not self.identity_conflict(peer):
                effects = self._remember(peer)
            effects += self._replace(peer, outbound=outbound)
        self._connections[connection] = peer
        if outbound:
            self._outbound[peer.node_id] = (connection, peer)
        return effects

    def _replace(self, peer: PeerIdentity, *, outbound: bool) -> list[Effect]:
        """Close the connections of a voter that its newest one replaces.

        Machine 2 lost its power and is back 3 s later: its connections were never closed, and look open here.
        Another start of it proves that all of them are gone; the same start may have lost the one of this
        direction only.
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
        """Remember the voters that answer us now in place of those remembered, after our own amnesia was
        found, and unless they were heard since. An observer remembers none.
        """
        answering = self._outbound.values() if self._quorum.is_voter else ()
        return self._believe(
            [peer for _, peer in answering if self._rejoin.believes_address_of(peer.node_id)]
        )

    def _believe(self, believed: list[PeerIdentity]) -> list[Effect]:
        """Remember these in place of those remembered. If that makes any difference, all are heard anew, and
        so all that answer at voters' addresses are believed.
        """
        if any(map(self.identity_conflict, believed)):
            self._rejoin.hear_all_anew()
            others = self._rejoin.unheard - {peer.node_id for peer in believed}
            believed = [*believed, *(peer for _, peer in self._outbound.values() if peer.node_id in others)]
        return [effect for peer in believed for effect in self._remember(peer)]

    def close(self, connection: int) -> None:
        """Forget a connection that ended."""
        peer = self._connections.pop(connection, None)
        if peer is not None and self._outbound.get(peer.node_id, (None,))[0] == connection:
            del self._outbound[peer.node_id]

    def is_connected(self, node_id: NodeId) -> bool:
        """Whether any connection with that node is open."""
        return any(peer.node_id == node_id for peer in self._connections.values())

    def connection_to(self, node_id: NodeId) -> int | None:
        """Return the connection that carries our requests to that node; None if there is none."""
        entry = self._outbound.get(node_id)
        return entry[0] if entry else None

    def outbound_identity(self, node_id: NodeId) -> PeerIdentity | None:
        """Return the identity of the peer that answers our requests to that id; None without a connection."""
        entry = self._outbound.get(node_id)
        return entry[1] if entry else None

    def is_trusted(self, peer: PeerIdentity | None) -> bool:
        """Whether what this peer acknowledges may be counted for its voter id."""
        return peer is not None and self._remembered.get(peer.node_id) == peer

    def identity_conflict(self, peer: PeerIdentity) -> str:
        """Return why this cannot be the node that we remember under its id; empty if it can."""
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
        """Whether this peer runs on an older copy of the directory that we remember.

        What it knows of us is out of date, too. Node 3 was wiped and is whole again; then a backup of node 2
        from before that comes back, and refuses node 3, which it knows by its former directory. If node 3
        believed it, one restored disk would leave two of three voters uncounted, and no leader could be
        elected.
        """
        known = self._remembered.get(peer.node_id) if peer is not None else None
        return (
            peer is not None
            and known is not None
            and known.directory_id == peer.directory_id
            and bool(self.identity_conflict(peer))
        )

    def conflicting_voters(self) -> list[NodeId]:
        """Return the voter ids, in order, whose connected peer is not the one remembered."""
        if not self._quorum.is_voter:
            return []
        known = [
            peer for peer in self._connections.values() if not self._rejoin.believes_address_of(peer.node_id)
        ]
        return sorted({peer.node_id for peer in known if self.identity_conflict(peer)})

    def record_rejoining(self, peer: PeerIdentity) -> bool:
        """Record that a voter fetched without its id, and so knows that it is not whole. Returns whether that
        is news, of one that was not to be counted before.
        """
        if peer.node_id not in self._quorum.voters or not self.identity_conflict(peer):
            return False
        is_news = self._aware.get(peer.node_id) != peer
        self._aware[peer.node_id] = peer
        return is_news

    def verify_identity(self, peer: PeerIdentity | None) -> list[Effect] | None:
        """Check the identity of a peer that votes or fetches under its id, which only a node that is whole
        does.

        Returns:
            What must be durable before the peer is counted (often nothing), or None if it must not be.
        """
        if peer is None:
            return None
        return None if self.rejects(peer) else self._remember(peer)

    def rejects(self, peer: PeerIdentity) -> bool:
        """Whether this peer is neither the node that we remember under its id nor aware of that."""
        # Only the very start that fetched without its id. Node 3 runs on a backup of its start 2 and knows
        # that it has forgotten; then a backup of its start 4 takes its place. It counts higher than the
        # aware one, but does not descend from it: it never knew that anything was forgotten.
        return bool(self.identity_conflict(peer)) and self._aware.get(peer.node_id) != peer

    def refuses(self, peer: PeerIdentity) -> bool:
        """Whether a peer that is rejected is told so, and then knows that it has forgotten.

        Node 2 is an old copy itself, and remembers a disk that node 3 had long ago. It counts nobody, and
        would have node 3 doubt itself.
        """
        return self.rejects(peer) and not self._rejoin.believes_address_of(peer.node_id)

    def _remember(self, peer: PeerIdentity) -> list[Effect]:
        if self._remembered.get(peer.node_id) == peer:
            return []
        self._remembered[peer.node_id] = peer
        self._aware.pop(peer.node_id, None)
        return [RememberPeer(peer)]
