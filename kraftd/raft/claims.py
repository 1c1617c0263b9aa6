"""Whether a peer that says it is a voter is that voter (D-37).

A greeting is only words. What proves them is that its sender can be reached where the configuration says that
this voter listens: each voter gives whoever listens there a nonce, a random number of that one connection,
and the voter shows it on the connection that it opened itself.

    node 1 opens a connection to the address of node 2 and greets: "node 1, my nonce is A"
    node 2 opens a connection to the address of node 1 and greets: "node 2, my nonce is B"
    node 2 shows A on its connection: node 1 knows that this one is node 2's, and confirms it
    node 1 shows B on its connection: node 2 confirms it

A connection that is confirmed stays so until it ends, whatever becomes of the other one. Until then it
changes nothing here or on the disk, and what it asks waits in `kraftd.net`. Who cannot be confirmed within
a fetch timeout is refused.

Three moments need more than that:

- *Node 2 was cut off without a word and starts again.* Our connection to it still looks open, so node 2 never
  gets a nonce over it. A claim that is not confirmed at once therefore makes us open another connection
  beside it that only brings a nonce, a challenge. It claims nothing, or both ends would challenge for ever.
- *Node 2 was confirmed, and opens a second connection.* The newer one replaces the older, which may be one
  of those that nobody closed.
- *Somebody floods us with claims of node 2.* Only the newest few wait; a challenge goes to its address at
  most ten times a second, whoever asked for it.

Entered through `Member.handle` and `Member.poll`. Who is counted once it is confirmed is not decided here
(`kraftd.raft.peers`), and source addresses prove nothing.

Follows: D-37. Differs from Kafka, whose voters believe what a request says of its sender.
"""

import msgspec

from kraftd.protocol.limits import CLAIMS_PER_VOTER_MAX
from kraftd.raft.effects import ChallengePeer, ConfirmPeer, RefusePeer, RejectNonce, ShowNonce
from kraftd.raft.events import LinkAnswered, NonceGiven, NonceShown, PeerClaimed, PeerIdentity
from kraftd.raft.state import RaftState
from kraftd.types import NEVER_MS, NodeId, Now, Uuid

CLAIMS_MAX = CLAIMS_PER_VOTER_MAX
"""Unconfirmed claims of one voter's id that wait at a time; a newer one takes the place of the oldest."""

CHALLENGE_EVERY_MS = 100
"""How often a voter is challenged at the most."""

CHALLENGE_AFTER_MS = 50
"""How long a claim waits before we challenge a voter that has a nonce of ours: it may be about to show it."""


class _Claim(msgspec.Struct, frozen=True):
    """An inbound connection that says it is a voter's."""

    peer: NodeId
    directory_id: Uuid
    nonce: Uuid
    """What we are to show on our own connection to that voter."""
    deadline_ms: int


class Claims:
    """The nonces given and taken, and the inbound connections of voters. Mutable; the member owns it."""

    def __init__(self, raft: RaftState) -> None:
        self.raft = raft
        self._given: dict[int, tuple[NodeId, Uuid]] = {}
        """By connection of ours that stands: whom it goes to, and the nonce that was given on it."""
        self._unconfirmed_links: dict[NodeId, int] = {}
        """Connections of ours that were answered, and still have to show a nonce."""
        self.waiting: dict[int, _Claim] = {}
        """Claims not confirmed or refused yet, by connection; without any, time means nothing here."""
        self._confirmed: dict[int, tuple[PeerIdentity, Uuid]] = {}
        """Who is on an inbound connection, and the nonce that came on it."""
        self._brought: dict[int, tuple[NodeId, Uuid]] = {}
        """Nonces that challenges brought us."""
        self._challenge_at_ms: dict[NodeId, int] = {}
        self._challenged_at_ms: dict[NodeId, int] = {}

    # --- our own connections ----------------------------------------------------------------------------

    def on_given(self, event: NonceGiven) -> None:
        """Remember what we told whoever listens at a voter's address."""
        self._given[event.connection] = (event.peer, event.nonce)

    def on_answered(self, event: LinkAnswered) -> None:
        """A voter wants a nonce of its own shown: show all that came under its id, the proved one first."""
        self._unconfirmed_links[event.peer] = event.connection
        for nonce in self._nonces_from(event.peer):
            self.raft.out.append(ShowNonce(event.connection, nonce))

    def on_link_confirmed(self, peer: NodeId, connection: int) -> None:
        """The voter at the other end knows us: nothing more needs to be shown there."""
        if self._unconfirmed_links.get(peer) == connection:
            del self._unconfirmed_links[peer]

    def _nonces_from(self, peer: NodeId) -> list[Uuid]:
        return [
            *(nonce for known, nonce in self._confirmed.values() if known.node_id == peer),
            *(claim.nonce for claim in self.waiting.values() if claim.peer == peer),
            *(nonce for said, nonce in self._brought.values() if said == peer),
        ]

    # --- theirs -----------------------------------------------------------------------------------------

    def on_claimed(self, event: PeerClaimed, now: Now) -> None:
        """A greeting under a voter's id: let it wait, and see to it that this voter gets a nonce of ours."""
        peer = event.peer
        if event.is_challenge:
            same = [n for n, (said, _) in self._brought.items() if said == peer]
            if len(same) >= CLAIMS_MAX:
                del self._brought[same[0]]
                self.raft.out.append(RefusePeer(same[0], f"{CLAIMS_MAX} newer challenges came under its id"))
            self._brought[event.connection] = (peer, event.nonce)
        else:
            same = [n for n, claim in self.waiting.items() if claim.peer == peer]
            if len(same) >= CLAIMS_MAX:
                self._refuse(same[0], f"{CLAIMS_MAX} newer connections came under its id")
            deadline_ms = now.mono_ms + max(1, self.raft.timing.fetch_timeout_ms)
            self.waiting[event.connection] = _Claim(peer, event.directory_id, event.nonce, deadline_ms)
            has_nonce = any(to == peer for to, _ in self._given.values())
            self._plan_challenge(peer, now.mono_ms + (CHALLENGE_AFTER_MS if has_nonce else 0))
        link = self._unconfirmed_links.get(peer)
        if link is not None:
            self.raft.out.append(ShowNonce(link, event.nonce))

    def on_shown(self, event: NonceShown) -> None:
        """Confirm the claim if the nonce is one that we gave to that voter on a connection that stands."""
        raft, connection = self.raft, event.connection
        claim = self.waiting.get(connection)
        if claim is not None and (claim.peer, event.nonce) in self._given.values():
            peer = PeerIdentity(claim.peer, claim.directory_id, event.start_counter, event.start_id)
            self._stop_waiting(connection)
            self._confirmed[connection] = (peer, claim.nonce)
            raft.identify(connection, peer, outbound=False)
            raft.out.append(ConfirmPeer(connection, peer))
        elif connection in self._confirmed:
            raft.out.append(ConfirmPeer(connection, self._confirmed[connection][0]))
        else:
            # Node 2 shows all that came to it under our id. Were wrong ones counted against it, then whoever
            # greets it as us often enough would have it refused here. Nobody guesses 16 random bytes.
            raft.out.append(RejectNonce(connection))

    def on_closed(self, connection: int) -> None:
        """A connection ended: what was given or brought on it is void."""
        self._stop_waiting(connection)
        self._confirmed.pop(connection, None)
        self._brought.pop(connection, None)
        given = self._given.pop(connection, None)
        if given is not None and self._unconfirmed_links.get(given[0]) == connection:
            del self._unconfirmed_links[given[0]]

    def _refuse(self, connection: int, why: str) -> None:
        self._stop_waiting(connection)
        self.raft.out.append(RefusePeer(connection, why))

    def _stop_waiting(self, connection: int) -> None:
        claim = self.waiting.pop(connection, None)
        if claim is not None and all(other.peer != claim.peer for other in self.waiting.values()):
            self._challenge_at_ms.pop(claim.peer, None)

    # --- time -------------------------------------------------------------------------------------------

    def poll(self, now: Now) -> None:
        """Challenge the voters in whose name connections wait; refuse those that waited too long."""
        for peer in [peer for peer, at_ms in self._challenge_at_ms.items() if at_ms <= now.mono_ms]:
            self._challenged_at_ms[peer] = now.mono_ms
            self._challenge_at_ms[peer] = now.mono_ms + CHALLENGE_EVERY_MS
            self.raft.out.append(ChallengePeer(peer))
        for connection, claim in list(self.waiting.items()):
            if claim.deadline_ms <= now.mono_ms:
                endpoint = self.raft.endpoint(claim.peer)
                self._refuse(
                    connection, f"node {claim.peer} at {endpoint} did not confirm that it is its own"
                )

    def wake_at_ms(self) -> int:
        """When `poll` must run next while connections wait, in monotonic milliseconds."""
        deadlines = [claim.deadline_ms for claim in self.waiting.values()]
        return min(*deadlines, *self._challenge_at_ms.values())

    def _plan_challenge(self, peer: NodeId, at_ms: int) -> None:
        """Challenge a voter at that time, or as soon after as is allowed."""
        allowed_ms = self._challenged_at_ms.get(peer, -CHALLENGE_EVERY_MS) + CHALLENGE_EVERY_MS
        planned_ms = self._challenge_at_ms.get(peer, NEVER_MS)
        self._challenge_at_ms[peer] = min(max(at_ms, allowed_ms), planned_ms)
