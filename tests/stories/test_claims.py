"""Stories of somebody who says that it is a voter: nothing changes before that is proved (D-37)."""

import pytest

from kraftd.errors import ErrorCode
from kraftd.raft import effects as fx
from kraftd.raft import events as ev
from kraftd.raft.claims import CHALLENGE_AFTER_MS, CHALLENGE_EVERY_MS, CLAIMS_MAX
from kraftd.types import Election, PeerIdentity
from tests.stories.cluster import Cluster
from tests.unit.raft.lone import Lone, identity_of

pytestmark = pytest.mark.covers("D-37")

INBOUND, OUTBOUND = 500, 600
A, B = b"our nonce to 2 !", b"the nonce of 2 !"


def alone() -> Lone:
    """Node 1, to which nobody is connected."""
    return Lone(election=Election(5), epochs=(1, 4), connected=())


def claimed(lone: Lone, connection: int = INBOUND, peer: int = 2) -> list[fx.Effect]:
    return lone.feed(ev.PeerClaimed(connection, peer, identity_of(peer).directory_id, B))


def shown(lone: Lone, nonce: bytes = A, connection: int = INBOUND) -> list[fx.Effect]:
    return lone.feed(ev.NonceShown(connection, nonce, 1, identity_of(2).start_id))


def kinds(effects: list[fx.Effect], *wanted: type[fx.Effect]) -> list[fx.Effect]:
    return [effect for effect in effects if type(effect) in wanted]


def test_a_greeting_alone_changes_nothing_and_sends_a_challenge_to_the_voters_own_address() -> None:
    lone = alone()
    before = lone.raft_node.state
    effects = claimed(lone)
    assert effects == [fx.ChallengePeer(2)]
    assert lone.raft_node.state == before
    assert not lone.raft_node._raft.peers.is_connected(2)


def test_whoever_shows_the_nonce_that_was_told_at_the_voters_address_is_that_voter() -> None:
    lone = alone()
    lone.feed(ev.NonceGiven(OUTBOUND, 2, A))
    claimed(lone)
    effects = shown(lone)
    assert effects == [fx.RememberPeer(identity_of(2)), fx.ConfirmPeer(INBOUND, identity_of(2))]
    assert lone.run(10_000) != []
    assert kinds(lone.effects, fx.ChallengePeer, fx.RefusePeer) == [], "it had the nonce before it was missed"


def test_a_nonce_for_another_voter_or_of_a_connection_that_ended_proves_nothing() -> None:
    lone = alone()
    lone.feed(ev.NonceGiven(OUTBOUND, 3, A))
    lone.feed(ev.NonceGiven(OUTBOUND + 1, 2, bytes(15) + b"2"))
    claimed(lone)
    assert shown(lone) == [fx.RejectNonce(INBOUND)]
    lone.feed(ev.ConnectionClosed(OUTBOUND + 1, 2))
    assert shown(lone, bytes(15) + b"2") == [fx.RejectNonce(INBOUND)]
    assert shown(lone, bytes(16)) == [fx.RejectNonce(INBOUND)]
    assert kinds(lone.effects, fx.RememberPeer, fx.ConfirmPeer) == []


def test_a_confirmed_connection_stays_so_whatever_becomes_of_the_one_that_the_nonce_was_told_on() -> None:
    """From then on node 2 may be reachable one way only."""
    lone = alone()
    lone.feed(ev.NonceGiven(OUTBOUND, 2, A))
    claimed(lone)
    shown(lone)
    lone.feed(ev.ConnectionClosed(OUTBOUND, 2))
    lone.run(60_000)
    assert lone.raft_node._raft.peers.is_connected(2)
    assert kinds(lone.effects, fx.RefusePeer) == []


def test_who_is_not_confirmed_within_a_fetch_timeout_is_refused() -> None:
    lone = alone()
    claimed(lone)
    assert kinds(lone.run(1_999), fx.RefusePeer) == []
    (refusal,) = kinds(lone.run(1), fx.RefusePeer)
    assert refusal == fx.RefusePeer(INBOUND, "node 2 at host2:9002 did not confirm that it is its own")
    assert shown(lone) == [fx.RejectNonce(INBOUND)], "and stays refused"


def test_nonces_that_came_under_a_voters_id_are_shown_on_our_own_connection_to_it() -> None:
    lone = alone()
    lone.feed(ev.NonceGiven(OUTBOUND, 2, A))
    claimed(lone)
    assert lone.feed(ev.LinkAnswered(OUTBOUND, 2)) == [fx.ShowNonce(OUTBOUND, B)]
    brought = bytes(15) + b"c"
    effects = lone.feed(ev.PeerClaimed(INBOUND + 1, 2, bytes(16), brought, is_challenge=True))
    assert effects == [fx.ShowNonce(OUTBOUND, brought)]
    lone.feed(ev.PeerIdentified(OUTBOUND, identity_of(2), outbound=True))
    effects = lone.feed(ev.PeerClaimed(INBOUND + 2, 2, bytes(16), brought, is_challenge=True))
    assert effects == [], "it knows us already"


def test_a_challenge_claims_nothing() -> None:
    """Were it to be confirmed itself, it would be answered by a challenge, and that by another, for ever."""
    lone = alone()
    lone.feed(ev.PeerClaimed(INBOUND, 2, bytes(16), B, is_challenge=True))
    lone.run(10_000)
    assert kinds(lone.effects, fx.ChallengePeer, fx.RefusePeer, fx.ConfirmPeer) == []
    lone.feed(ev.NonceGiven(OUTBOUND, 2, A))
    assert shown(lone) == [fx.RejectNonce(INBOUND)]


def test_the_newest_challenges_are_kept_and_the_oldest_go() -> None:
    """Each nonce that came under a voter's id is shown to that voter: they must not be thousands."""
    lone = alone()
    brought = [bytes(15) + bytes([number]) for number in range(CLAIMS_MAX + 2)]
    for number, nonce in enumerate(brought):
        lone.feed(ev.PeerClaimed(INBOUND + number, 2, bytes(16), nonce, is_challenge=True))
    refused = [effect.connection for effect in kinds(lone.effects, fx.RefusePeer)]  # type: ignore[union-attr]
    assert refused == [INBOUND, INBOUND + 1]
    shown_there = lone.feed(ev.LinkAnswered(OUTBOUND, 2))
    assert shown_there == [fx.ShowNonce(OUTBOUND, nonce) for nonce in brought[2:]]


def test_a_nonce_that_a_challenge_brought_is_void_when_the_challenge_ended() -> None:
    lone = alone()
    lone.feed(ev.PeerClaimed(INBOUND, 2, bytes(16), B, is_challenge=True))
    lone.feed(ev.ConnectionClosed(INBOUND, 2))
    assert lone.feed(ev.LinkAnswered(OUTBOUND, 2)) == []


def test_challenges_are_repeated_while_somebody_waits_and_at_most_ten_times_a_second() -> None:
    lone = alone()
    for number in range(50):
        claimed(lone, INBOUND + number)
    effects = lone.run(1_000)
    challenges = kinds(lone.effects, fx.ChallengePeer)
    assert 10 <= len(challenges) <= 11
    assert challenges[0] == fx.ChallengePeer(2)
    for number in range(50):
        lone.feed(ev.ConnectionClosed(INBOUND + number, 2))
    assert kinds(lone.run(10 * CHALLENGE_EVERY_MS), fx.ChallengePeer) == []
    assert effects


def test_a_voter_that_has_a_nonce_of_ours_is_given_a_moment_to_show_it() -> None:
    lone = alone()
    lone.feed(ev.NonceGiven(OUTBOUND, 2, A))
    assert claimed(lone) == []
    assert kinds(lone.run(CHALLENGE_AFTER_MS - 1), fx.ChallengePeer) == []
    assert kinds(lone.run(1), fx.ChallengePeer) == [fx.ChallengePeer(2)]


def test_claims_that_keep_coming_do_not_put_the_challenge_off() -> None:
    """Our link to node 2 looks open since it lost its power: only a challenge brings it a nonce again."""
    lone = alone()
    lone.feed(ev.NonceGiven(OUTBOUND, 2, A))
    between_ms = CHALLENGE_AFTER_MS - 10
    for number in range(10):
        claimed(lone, INBOUND + number)
        lone.run(between_ms)
    challenges = kinds(lone.effects, fx.ChallengePeer)
    assert len(challenges) >= 10 * between_ms // CHALLENGE_EVERY_MS


def test_the_newest_claims_wait_and_the_oldest_go() -> None:
    """Whoever floods us with claims has to be faster than the voter's own response."""
    lone = alone()
    for number in range(CLAIMS_MAX + 2):
        claimed(lone, INBOUND + number)
    refused = [effect.connection for effect in kinds(lone.effects, fx.RefusePeer)]  # type: ignore[union-attr]
    assert refused == [INBOUND, INBOUND + 1]
    claimed(lone, 1, peer=3)
    lone.feed(ev.NonceGiven(OUTBOUND, 2, A))
    newest = INBOUND + CLAIMS_MAX + 1
    assert kinds(shown(lone, connection=newest), fx.ConfirmPeer) == [fx.ConfirmPeer(newest, identity_of(2))]


def test_wrong_nonces_are_not_held_against_who_shows_the_right_one_at_last() -> None:
    """Strangers greet node 2 as us, hundreds of times: it cannot tell which of their nonces is ours."""
    lone = alone()
    claimed(lone)
    lone.feed(ev.NonceGiven(OUTBOUND, 2, A))
    for forged in range(1_000):
        assert shown(lone, forged.to_bytes(16, "big")) == [fx.RejectNonce(INBOUND)]
    assert kinds(shown(lone), fx.ConfirmPeer) == [fx.ConfirmPeer(INBOUND, identity_of(2))]


def test_a_voter_that_lost_its_power_takes_the_place_of_connections_that_nobody_closed() -> None:
    cluster = Cluster()
    assert cluster.elect() == 1
    cluster.run(100)
    ours = cluster.connections[1, 2][0]
    theirs = cluster.connections[2, 1][1]
    again = cluster.identity(2)
    again = PeerIdentity(2, again.directory_id, again.start_counter + 1, b"another startid!")
    cluster.take_trace()
    cluster.confirm(1, 10**6, again)
    trace = cluster.take_trace()
    assert trace.count('RefusePeer reason="node 2 has connected anew since"') == 2
    connections = cluster.raft_node(1)._raft.peers._connections
    assert cluster.nodes[1].disk.peers[2] == again
    assert {ours, theirs, 10**6} & set(connections) == {10**6}


def test_a_node_far_above_the_others_brings_them_up_by_itself_also_after_a_restart() -> None:
    cluster = Cluster()
    assert cluster.elect() == 1
    cluster.append(1, b"before")
    cluster.run(100)
    cluster.crash(3)
    cluster.nodes[3].disk.election = Election(1 << 30)
    cluster.start(3)
    cluster.run_until(lambda: cluster.has_converged() and cluster.raft_node(1).epoch > 1 << 30, 20_000)
    leader = cluster.leader or 0
    token = cluster.append(leader, b"after")
    cluster.run(500)
    assert cluster.outcome(leader, token) == ErrorCode.NONE
