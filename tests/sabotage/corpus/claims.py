"""Bugs of who speaks for a voter, and of who may move an epoch (D-37)."""

from tests.sabotage.mutant import mutant

_STORIES = "tests/stories/test_claims.py"
_NET = "tests/unit/net/test_claims.py"
_POWER = (
    "tests/sim/test_impostors.py::"
    "test_a_machine_that_was_without_power_for_a_moment_counts_again_at_once[300-False]"
)

CLAIMS = (
    # --- who is believed ---
    mutant(
        "greeting-is-believed",
        "D-37",
        "Whoever greets under a voter's id is taken for that voter, and synced to the disk, without any proof.",
        "sim",
        (
            "kraftd.raft.claims:Claims.on_claimed",
            "self.waiting[event.connection] = _Claim(peer_id, event.directory_id, event.nonce, deadline_ms)",
            "identity = PeerIdentity(peer_id, event.directory_id, (1 << 31) - 1, event.nonce)\n"
            "        self._confirmed[event.connection] = (identity, event.nonce)\n"
            "        self.raft.identify(event.connection, identity, outbound=False)\n"
            "        self.raft.out.append(ConfirmPeer(event.connection, identity))",
        ),
    ),
    mutant(
        "nonce-of-another-voter",
        "D-37",
        "A nonce that was given to one voter confirms a claim to be another.",
        "sim",
        (
            "kraftd.raft.claims:Claims.on_shown",
            "(claim.peer_id, event.nonce) in self._given.values()",
            "event.nonce in [nonce for _, nonce in self._given.values()]",
        ),
    ),
    mutant(
        "nonce-outlives-its-connection",
        "D-37",
        "A nonce still confirms somebody after the connection that it was given on has ended.",
        "sim",
        (
            "kraftd.raft.claims:Claims.on_closed",
            "given = self._given.pop(connection, None)",
            "given = self._given.get(connection)",
        ),
    ),
    mutant(
        "confirmed-without-a-nonce",
        "D-37",
        "A nonce is not compared with what was given: any will do.",
        "sim",
        (
            "kraftd.raft.claims:Claims.on_shown",
            "if claim is not None and (claim.peer_id, event.nonce) in self._given.values():",
            "if claim is not None:",
        ),
    ),
    mutant(
        "challenge-is-a-claim",
        "D-37",
        "A connection that only brings a nonce is itself to be confirmed, and both ends challenge for ever.",
        "tests",
        (
            "kraftd.raft.claims:Claims.on_claimed",
            "if event.is_challenge:",
            "if False:",
        ),
        where=(_STORIES, _NET),
    ),
    mutant(
        "claims-without-bound",
        "D-37",
        "Every unconfirmed claim waits, however many there are.",
        "tests",
        (
            "kraftd.raft.claims:Claims.on_claimed",
            "same = [n for n, claim in self.waiting.items() if claim.peer_id == peer_id]",
            "same = ()",
        ),
        where=(_STORIES,),
    ),
    mutant(
        "challenges-without-rest",
        "D-37",
        "Each claim sends a challenge to the voter's address, so claims flood the voter, too.",
        "tests",
        (
            "kraftd.raft.claims:Claims._plan_challenge",
            "min(max(at_ms, allowed_ms), planned_ms)",
            "min(at_ms, planned_ms)",
        ),
        where=(_STORIES,),
    ),
    # --- what is told to whom ---
    mutant(
        "start-told-to-a-guesser",
        "D-37",
        "Whoever shows a wrong nonce is told which start of the voter answered.",
        "sim",
        (
            "kraftd.net.server:InboundConnection.reject_nonce",
            "ShowNonceResponse(ErrorCode.INVALID_VOTER_KEY)",
            "ShowNonceResponse(ErrorCode.INVALID_VOTER_KEY, 1, self._server.identity.start_id)",
        ),
    ),
    mutant(
        "start-told-in-the-log",
        "D-37",
        "A controller registers with its start id, which whoever reads the metadata log then knows.",
        "sim",
        (
            "kraftd.runtime.controller_server:_registration_of",
            "incarnation_of(directory.start_id)",
            "directory.start_id",
        ),
    ),
    # --- connections ---
    mutant(
        "older-connection-stays",
        "D-37",
        "A voter that lost its power comes back, and its half-open connections are kept beside the new one.",
        "tests",
        ("kraftd.raft.peers:Peers.identify", "effects += self._replace(peer, outbound=outbound)", "pass"),
        where=(_STORIES, _POWER),
    ),
    mutant(
        "claim-closes-the-voters-connection",
        "D-37",
        "A greeting under a voter's id closes that voter's own connection before anything was proved.",
        "sim",
        (
            "kraftd.raft.claims:Claims.on_claimed",
            "peer_id = event.peer_id",
            "peer_id = event.peer_id\n"
            "    identity = PeerIdentity(peer_id, event.directory_id, 0, event.nonce)\n"
            "    self.raft.out.extend(self.raft.peers._replace(identity, outbound=False))",
        ),
    ),
    mutant(
        "no-challenge-beside-an-open-link",
        "D-37",
        "A link that looks open is believed to be, so a voter back from a power cut waits for keep-alive.",
        "tests",
        (
            "kraftd.raft.claims:Claims.on_claimed",
            "self._plan_challenge(peer_id, now.mono_ms + (CHALLENGE_AFTER_MS if has_nonce else 0))",
            "self._next_challenge_ms[peer_id] = NEVER_MS\n"
            "        if not has_nonce:\n"
            "            self._plan_challenge(peer_id, now.mono_ms)",
        ),
        where=(_STORIES, _POWER),
    ),
    mutant(
        "confirmed-for-as-long-as-it-can-be-reached",
        "D-37",
        "A confirmed connection goes with the one that the nonce was given on, so one way closed is both.",
        "tests",
        (
            "kraftd.raft.claims:Claims.on_closed",
            "given = self._given.pop(connection, None)",
            "given = self._given.pop(connection, None)\n"
            "    for number, (known, _) in list(self._confirmed.items()) if given else ():\n"
            "        if known.node_id == given[0]:\n"
            '            self.raft.out.append(RefusePeer(number, "it cannot be reached"))',
        ),
        where=(
            _STORIES,
            "tests/sim/test_impostors.py::"
            "test_a_confirmed_voter_that_can_be_reached_one_way_only_stays_counted",
        ),
    ),
    mutant(
        "waiting-requests-are-dropped",
        "D-37",
        "What a voter asked before it was confirmed is forgotten at the confirmation.",
        "tests",
        ("kraftd.net.server:InboundConnection.confirm", "for frame in waiting:", "for frame in ():"),
        where=(_NET,),
    ),
    mutant(
        "served-before-confirmation",
        "D-37",
        "Requests under a voter's id are served at once, as that voter's, while the proof is still to come.",
        "sim",
        (
            "kraftd.net.server:InboundConnection.handle",
            "if self._unconfirmed is not None and self._must_wait(self._unconfirmed, frame):",
            "if False:",
        ),
        (
            "kraftd.runtime.network:QuorumNetwork.node_greeted",
            "directory_id, nonce = greeting.directory_id, greeting.nonce",
            "directory_id, nonce = greeting.directory_id, greeting.nonce\n"
            "        self._peers[number] = PeerIdentity(node_id, directory_id, 1, nonce)",
        ),
    ),
    # --- epochs, leaders, addresses, counts ---
    mutant(
        "outsider-moves-the-epoch",
        "D-37",
        "A vote asked for by who is no voter is refused, but its epoch is believed: 2^30, durably and for good.",
        "sim",
        (
            "kraftd.raft.elections:Elections._consider",
            'return ErrorCode.INVALID_REQUEST, False, "no voter"',
            "if not params.pre_vote and params.epoch > raft.epoch:\n"
            '            self.changes.become_unattached(params.epoch, now, "an outsider said so")\n'
            '        return ErrorCode.INVALID_REQUEST, False, "no voter"',
        ),
    ),
    mutant(
        "outsider-gets-a-vote",
        "D-37",
        "A vote goes to who is no voter, and a leader steps down for it.",
        "sim",
        (
            "kraftd.raft.elections:Elections._consider",
            "if params.candidate.id not in raft.quorum.voters:",
            "if False:",
        ),
    ),
    mutant(
        "outsider-is-followed",
        "D-37",
        "Who is no voter announces itself as the leader, and its epoch is believed.",
        "sim",
        (
            "kraftd.raft.announcements:Announcements._check_announcement",
            "or leader_id not in self.raft.quorum.voters",
            "",
        ),
    ),
    mutant(
        "outsiders-endpoint-is-learnt",
        "D-37",
        "Who announces itself as the leader says where it listens, and nodes connect there.",
        "sim",
        (
            "kraftd.raft.announcements:Announcements._check_announcement",
            "or leader_id not in self.raft.quorum.voters",
            "",
        ),
        ("kraftd.raft.state:RaftState.learn", "and not len(self.quorum.voters)", ""),
    ),
    mutant(
        "farewell-by-anybody",
        "D-37",
        "EndQuorumEpoch in the leader's name is believed of whoever says it.",
        "sim",
        (
            "kraftd.raft.announcements:Announcements._check_announcement",
            "event.peer is None or event.peer.node_id != leader_id or",
            "event.peer is None or",
        ),
    ),
    mutant(
        "acknowledgement-for-another",
        "D-37",
        "A fetch counts for the voter that it names, whoever sent it: a write is confirmed that no majority holds.",
        "sim",
        (
            "kraftd.raft.replication:Replication.is_identified",
            "if event.peer is None or event.peer.node_id != replica.id:\n        return False",
            "if event.peer is None or event.peer.node_id != replica.id:\n        return True",
        ),
    ),
    mutant(
        "observer-believes-a-greeting",
        "D-37",
        "Nobody confirms a voter's id at an observer, which takes an epoch from it and then waits for ever.",
        "sim",
        ("kraftd.raft.elections:Elections._consider", "if not raft.quorum.is_voter:", "if False:"),
        (
            "kraftd.raft.announcements:Announcements._check_announcement",
            "if not self.raft.quorum.is_voter:",
            "if False:",
        ),
    ),
    mutant(
        "high-epoch-is-not-believed",
        "D-37",
        "A voter that was lifted far above the others is not believed by anybody, and is out for good.",
        "sim",
        (
            "kraftd.raft.state:RaftState.is_plausible_epoch",
            "epoch <= _EPOCH_ALWAYS_PLAUSIBLE or epoch <= self.epoch + _EPOCH_RISE_MAX",
            "epoch <= self.epoch + _EPOCH_RISE_MAX",
        ),
    ),
    mutant(
        "lifted-voter-brings-nobody-up",
        "D-37",
        "A response from far above moves nobody, so the node that gave it never follows a leader again.",
        "sim",
        (
            "kraftd.raft.node:RaftNode._on_response",
            'self._changes.observe_epoch(header.leader_and_epoch, now, f"told by {event.sender}")',
            "if header.leader_and_epoch.epoch < raft.epoch + (1 << 16):\n"
            '        self._changes.observe_epoch(header.leader_and_epoch, now, f"told by {event.sender}")',
        ),
    ),
    mutant(
        "lifted-voter-comes-down",
        "D-37",
        "A voter that is far above the others takes their lower epoch, where it may have voted before.",
        "sim",
        (
            "kraftd.raft.announcements:Announcements._check_announcement",
            "if epoch < self.raft.epoch:",
            "if epoch < self.raft.epoch < epoch + (1 << 16):",
        ),
        (
            "kraftd.raft.state_changes:StateChanges.observe_epoch",
            "if epoch < raft.epoch:\n        return",
            "if epoch + (1 << 16) < raft.epoch:\n"
            "        self.become_follower(epoch, leader_id, now, why)\n"
            "    if epoch < raft.epoch:\n        return",
        ),
    ),
)
