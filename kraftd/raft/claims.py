"""Whether a peer that says it is a voter is that voter (D-37).

A greeting proves nothing. A voter proves its id by being reachable at its configured address: its peer sends
a nonce, a random number for that one connection, to the address, and the voter shows it on the connection
that it opened itself.

    node 1 opens a connection to the address of node 2 and greets: "node 1, my nonce is A"
    node 2 opens a connection to the address of node 1 and greets: "node 2, my nonce is B"
    node 2 shows A on its connection: node 1 confirms that connection as node 2's
    node 1 shows B on its connection: node 2 confirms it

A connection that is confirmed stays so until it ends, whatever becomes of the other one. Until then it
changes nothing here or on the disk, and its requests wait in `kraftd.net`. A connection that is not confirmed
within a fetch timeout is refused.

Three moments need more than that:

- *Node 2 lost its power and starts again.* Our connection to it still looks open, so node 2 never gets a
  nonce over it. A claim that is not confirmed at once therefore makes us open another connection beside it
  that only delivers a nonce: a challenge. It claims nothing, or both ends would challenge for ever.
- *Node 2 was confirmed, and opens a second connection.* The newer one replaces the older, which may be
  half-open.
- *An attacker sends many claims of node 2's id.* Only the newest few wait; a challenge goes to its address at
  most ten times a second in all.

Entered through `RaftNode.handle` and `RaftNode.poll`. Whether a confirmed voter is counted is not decided
here (`kraftd.raft.peers`), and source addresses prove nothing.

Follows: D-37. Differs from Kafka, whose voters trust the sender id in a request.
"""

from typing import TypeAlias

import msgspec

from kraftd.protocol.limits import CLAIMS_PER_VOTER_MAX
from kraftd.raft.effects import ChallengePeer, ConfirmPeer, RefusePeer, RejectNonce, ShowNonce
from kraftd.raft.events import LinkAnswered, NonceGiven, NonceShown, PeerClaimed, PeerIdentified
from kraftd.raft.state import RaftState
from kraftd.types import NEVER_MS, NodeId, Now, PeerIdentity, Uuid

CLAIMS_MAX = CLAIMS_PER_VOTER_MAX
"""Unconfirmed claims of one voter's id that wait at a time; a newer one takes the place of the oldest."""

CHALLENGE_EVERY_MS = 100
"""The shortest time between two challenges of one voter."""

CHALLENGE_AFTER_MS = 50
"""How long a claim waits for its nonce before a challenge, if the voter was given one already."""


HandshakeEvent: TypeAlias = NonceGiven | LinkAnswered | PeerClaimed | NonceShown | PeerIdentified
"""What is told of a connection until it is known who is at its other end."""


class _Claim(msgspec.Struct, frozen=True):
    """An inbound connection that claims to be a voter's, and is not confirmed yet."""

    peer_id: NodeId
    directory_id: Uuid
    nonce: Uuid
    """The nonce to show on our own connection to that voter."""
    deadline_ms: int


class Claims:
    """The nonces given and received, and the inbound connections of voters. Mutable; the node owns it."""

    def __init__(self, raft: RaftState) -> None:
        self.raft = raft
        self._given: dict[int, tuple[NodeId, Uuid]] = {}
        """For each open connection of ours: its peer, and the nonce given on it."""
        self._unconfirmed_links: dict[NodeId, int] = {}
        """For each voter that answered our greeting and has not confirmed us yet: our connection to it."""
        self.waiting: dict[int, _Claim] = {}
        """The claims not confirmed or refused yet, by connection; only while there are any has `poll` work to
        do.
        """
        self._confirmed: dict[int, tuple[PeerIdentity, Uuid]] = {}
        """For each confirmed inbound connection: its peer, and the nonce that the peer gave on it."""
        self._delivered: dict[int, tuple[NodeId, Uuid]] = {}
        """For each challenge that came in: the id it claims, and the nonce that it delivered."""
        self._next_challenge_ms: dict[NodeId, int] = {}
        self._last_challenge_ms: dict[NodeId, int] = {}

    def on_event(self, event: HandshakeEvent, now: Now) -> None:
        """Handle an event of a connection's handshake."""
        match event:
            case NonceGiven():
                self.on_given(event)
            case LinkAnswered():
                self.on_answered(event)
            case PeerClaimed():
                self.on_claimed(event, now)
            case NonceShown():
                self.on_shown(event)
            case PeerIdentified(connection=connection, peer=peer, outbound=outbound):
                if outbound:
                    self.on_link_confirmed(peer.node_id, connection)
                self.raft.identify(connection, peer, outbound=outbound)

    # --- our own connections ----------------------------------------------------------------------------

    def on_given(self, event: NonceGiven) -> None:
        """Remember a nonce that was sent to a voter's configured address."""
        self._given[event.connection] = (event.peer_id, event.nonce)

    def on_answered(self, event: LinkAnswered) -> None:
        """Show a voter all nonces that came under its id, that of a confirmed connection first."""
        self._unconfirmed_links[event.peer_id] = event.connection
        for nonce in self._nonces_from(event.peer_id):
            self.raft.out.append(ShowNonce(event.connection, nonce))

    def on_link_confirmed(self, peer_id: NodeId, connection: int) -> None:
        """Stop showing nonces on a connection whose other end has confirmed us."""
        if self._unconfirmed_links.get(peer_id) == connection:
            del self._unconfirmed_links[peer_id]

    def _nonces_from(self, peer_id: NodeId) -> list[Uuid]:
        return [
            *(nonce for known, nonce in self._confirmed.values() if known.node_id == peer_id),
            *(claim.nonce for claim in self.waiting.values() if claim.peer_id == peer_id),
            *(nonce for claimed_id, nonce in self._delivered.values() if claimed_id == peer_id),
        ]

    # --- theirs -----------------------------------------------------------------------------------------

    def on_claimed(self, event: PeerClaimed, now: Now) -> None:
        """Hold a connection that claims a voter's id, and make sure that this voter gets a nonce of ours."""
        peer_id = event.peer_id
        if event.is_challenge:
            same = [n for n, (claimed_id, _) in self._delivered.items() if claimed_id == peer_id]
            if len(same) >= CLAIMS_MAX:
                del self._delivered[same[0]]
                self.raft.out.append(RefusePeer(same[0], f"{CLAIMS_MAX} newer challenges came under its id"))
            self._delivered[event.connection] = (peer_id, event.nonce)
        else:
            same = [n for n, claim in self.waiting.items() if claim.peer_id == peer_id]
            if len(same) >= CLAIMS_MAX:
                self._refuse(same[0], f"{CLAIMS_MAX} newer connections came under its id")
            deadline_ms = now.mono_ms + max(1, self.raft.timing.fetch_timeout_ms)
            self.waiting[event.connection] = _Claim(peer_id, event.directory_id, event.nonce, deadline_ms)
            has_nonce = any(to == peer_id for to, _ in self._given.values())
            self._plan_challenge(peer_id, now.mono_ms + (CHALLENGE_AFTER_MS if has_nonce else 0))
        link = self._unconfirmed_links.get(peer_id)
        if link is not None:
            self.raft.out.append(ShowNonce(link, event.nonce))

    def on_shown(self, event: NonceShown) -> None:
        """Confirm the claim if its nonce was given to that voter on a connection that is still open."""
        raft, connection = self.raft, event.connection
        claim = self.waiting.get(connection)
        if claim is not None and (claim.peer_id, event.nonce) in self._given.values():
            peer = PeerIdentity(claim.peer_id, claim.directory_id, event.start_counter, event.start_id)
            self._stop_waiting(connection)
            self._confirmed[connection] = (peer, claim.nonce)
            raft.identify(connection, peer, outbound=False)
            raft.out.append(ConfirmPeer(connection, peer))
        elif connection in self._confirmed:
            raft.out.append(ConfirmPeer(connection, self._confirmed[connection][0]))
        else:
            # Node 2 shows all that came to it under our id. If wrong ones counted against it, an attacker
            # that greets it as us often enough would have it refused here. 16 random bytes cannot be guessed.
            raft.out.append(RejectNonce(connection))

    def on_closed(self, connection: int) -> None:
        """Forget what was given, claimed or delivered on a connection that ended."""
        self._stop_waiting(connection)
        self._confirmed.pop(connection, None)
        self._delivered.pop(connection, None)
        given = self._given.pop(connection, None)
        if given is not None and self._unconfirmed_links.get(given[0]) == connection:
            del self._unconfirmed_links[given[0]]

    def _refuse(self, connection: int, why: str) -> None:
        self._stop_waiting(connection)
        self.raft.out.append(RefusePeer(connection, why))

    def _stop_waiting(self, connection: int) -> None:
        claim = self.waiting.pop(connection, None)
        if claim is not None and all(other.peer_id != claim.peer_id for other in self.waiting.values()):
            self._next_challenge_ms.pop(claim.peer_id, None)

    # --- time -------------------------------------------------------------------------------------------

    def poll(self, now: Now) -> None:
        """Challenge the voters whose ids are claimed by waiting connections; refuse the claims past their
        deadline.
        """
        for peer_id in [
            peer_id for peer_id, at_ms in self._next_challenge_ms.items() if at_ms <= now.mono_ms
        ]:
            self._last_challenge_ms[peer_id] = now.mono_ms
            self._next_challenge_ms[peer_id] = now.mono_ms + CHALLENGE_EVERY_MS
            self.raft.out.append(ChallengePeer(peer_id))
        for connection, claim in list(self.waiting.items()):
            if claim.deadline_ms <= now.mono_ms:
                endpoint = self.raft.endpoint(claim.peer_id)
                self._refuse(
                    connection, f"node {claim.peer_id} at {endpoint} did not confirm that it is its own"
                )

    def wake_at_ms(self) -> int:
        """Return when `poll` must run next, in monotonic milliseconds; called only while claims wait."""
        deadlines = [claim.deadline_ms for claim in self.waiting.values()]
        return min([*deadlines, *self._next_challenge_ms.values()])

    def _plan_challenge(self, peer_id: NodeId, at_ms: int) -> None:
        """Plan a challenge of a voter at `at_ms`, or as soon after it as the rate limit allows."""
        allowed_ms = self._last_challenge_ms.get(peer_id, -CHALLENGE_EVERY_MS) + CHALLENGE_EVERY_MS
        planned_ms = self._next_challenge_ms.get(peer_id, NEVER_MS)
        self._next_challenge_ms[peer_id] = min(max(at_ms, allowed_ms), planned_ms)
