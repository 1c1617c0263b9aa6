"""Mistakes by authors who had seen no detector: each read the code alone, and planted what a review could overlook.

They were tried against the simulator and against the tests when they were written; `docs/promises.md` says who
noticed what. Below each stands the scenario that its author had in mind.
"""

from tests.sabotage.mutant import Mutant, mutant

INDEPENDENT: tuple[Mutant, ...] = (
    # --- elections -------------------------------------------------------------------------------------------
    mutant(
        "quorum-once-heard-counts-for-ever",
        "elections",
        "Who was heard for one span of check-quorum counts in all later spans, so a leader with too few followers never resigns.",
        "sim",
        (
            "kraftd.raft.leader_state:CheckQuorum.record_fetch",
            "self._progressed.clear()\n        self.deadline_ms = now_ms + self._span_ms",
            "self.deadline_ms = now_ms + self._span_ms",
        ),
    ),
    # 5 voters, node 1 leads, 2 and 3 were heard once. Then 1 and 2 are cut off from 3, 4, 5. Each fetch
    # of 2 alone starts the time anew: node 1 leads on for ever, commits nothing, and keeps its callers
    # waiting until each deadline. With 3 voters one other is enough anyway, and nothing is wrong.
    mutant(
        "damaged-candidate-restarts-as-one",
        "elections",
        "A voter that voted for itself and finds its log damaged at the next start goes on with its candidacy.",
        "tests",
        (
            "kraftd.raft.state_changes:initial_state",
            "voted.matches(raft.me) and raft.may_vote and leader_id == NO_NODE",
            "voted.matches(raft.me) and raft.quorum.is_voter and leader_id == NO_NODE",
        ),
        where=("tests/unit/raft/test_behaviours_starting.py",),
    ),
    # A record is committed on nodes 1 and 2 in epoch 4. Node 1 becomes a candidate of epoch 5, is killed,
    # and its start finds the flushed record gone (bad sector). It begins as candidate of epoch 5 all the
    # same, node 3, which never had the record, grants, and node 1 leads: node 2 is told to cut what is
    # committed.
    mutant(
        "damaged-successor-campaigns",
        "elections",
        "A voter that is not whole takes up the leadership if the farewell names it first.",
        "tests",
        (
            "kraftd.raft.announcements:Announcements._campaign_as_successor",
            "if not raft.may_vote or raft.is_stopping or state.epoch_ended:",
            "if not raft.quorum.is_voter or raft.is_stopping or state.epoch_ended:",
        ),
        where=("tests/unit/raft/test_reactions.py",),
    ),
    # Node 1 hands over; node 2 has caught up. While EndQuorumEpoch is on its way, node 2's applier reads
    # a bad byte (LogDamaged), or node 3 tells it that its directory is not the one known
    # (INVALID_VOTER_KEY). Node 2 campaigns in the next epoch although nothing that it promised can be
    # relied on, and leads with a hole.
    mutant(
        "vote-leaves-it-blank",
        "elections",
        "A voter without records that gives its vote goes on as one that never promised anything.",
        "tests",
        (
            "kraftd.raft.elections:Elections._consider",
            "raft.mark_initialized()\n        if raft.state.election.voted is None:",
            "if raft.state.election.voted is None:",
        ),
        where=("tests/unit/raft/test_requests_in.py",),
    ),
    # New cluster. Node 3 votes for node 1 (empty logs). Node 1 leads, its LeaderChange reaches node 2
    # only, and node 1 dies. Node 2 asks node 3, which still calls itself uninitialized and refuses a log with
    # records; node 3's log is too short for node 2. Two of three voters are up, and nobody leads until
    # node 1 is back.
    mutant(
        "leader-grants-pre-votes",
        "elections",
        "A leader grants the pre-vote of a voter whose log is as complete as its own.",
        "sim",
        (
            "kraftd.raft.elections:Elections._why_no_pre_vote",
            'return "this node leads"',
            "return self._why_not_electable(params)",
        ),
    ),
    # 3 voters, nothing is written. Node 3 was cut off for some seconds and has the whole log. When it is
    # back its next round of pre-votes reaches node 1, the leader, before its fetch does: 1 and 3 are a
    # majority. Node 3 opens a new epoch and deposes a leader that was healthy and followed by node 2.
    # --- epochs ----------------------------------------------------------------------------------------------
    mutant(
        "cut-keeps-the-epoch-that-begins-there",
        "epochs",
        "A log that is cut where an epoch begins still says that it ends in that epoch.",
        "sim",
        (
            "kraftd.raft.log_mirror:EpochCache.truncate",
            "keep = bisect_left(self._starts, end_offset)",
            "keep = bisect_right(self._starts, end_offset)",
        ),
    ),
    # Node 2 led epoch 3 from offset 10 on and reached nobody; node 1 leads epoch 4 from offset 12 on.
    # Node 2 cuts at 10, but its next fetch says (10, epoch 3): it diverges again at 10, cuts nothing,
    # fetches again, without end. It never catches up before it restarts, and claims an epoch of which it
    # has no record.
    mutant(
        "epochs-begin-with-their-response",
        "epochs",
        "A follower notes that an epoch begins where the response began that brought it, not at its own batch.",
        "sim",
        (
            "kraftd.raft.follower:FollowerRole._append",
            "raft.log.epochs.assign(batch.epoch, batch.base_offset)",
            "raft.log.epochs.assign(batch.epoch, base_offset)",
        ),
    ),
    # Node 2 catches up over [6, 12) in one response: 6..9 are of epoch 2, 10 and 11 of epoch 3. It notes
    # epoch 3 at 6. Later node 2 leads epoch 4, and node 3 comes with (10, epoch 2), all of it committed:
    # node 2 says that epoch 2 ends at 6, and node 3 shuns its leader for a cut below the high watermark.
    mutant(
        "pursuit-outlives-its-epoch",
        "epochs",
        "What a follower knows of its leader, the leader's high watermark above all, is kept into the next epoch.",
        "tests",
        (
            "kraftd.raft.state:RaftState.transition_to",
            "self.requests.reset()\n        self.follower_state = FollowerState()",
            "self.requests.reset()",
        ),
        where=("tests/unit/raft/test_behaviours_rejoining.py",),
    ),
    # 5 voters; node 3 forgot (floor: epoch 5) and follows node 1 of epoch 5, which says: committed up to
    # 50. 50..59 get committed on 1 and 2 and the disk that node 3 lost. Node 2 leads epoch 6; node 3's
    # flush of 50 ends: epoch 6 > 5 and 50 <= 50, so it is whole before node 2 said anything. It then
    # elects node 4 at 50.
    mutant(
        "late-answer-revives-an-ended-epoch",
        "epochs",
        "A late good response of a leader that has said goodbye makes a waiting successor a follower in touch again.",
        "tests",
        (
            "kraftd.raft.follower:FollowerRole._record_good_fetch",
            "if not state.epoch_ended:",
            "if raft.leader_id == state.leader_id:",
        ),
        where=("tests/unit/raft/test_behaviours_announcements.py",),
    ),
    # Node 1 answers node 3's fetch and resigns; EndQuorumEpoch comes on another connection and overtakes
    # the response. Node 2, the first successor, is down. Node 3 takes the answer in: its campaign is called
    # off, it refuses pre-votes, and nobody leads until the fetch timeout, instead of a moment.
    mutant(
        "end-of-an-epoch-never-held",
        "epochs",
        "Asked for an epoch that it never held, a log names that epoch instead of the one before it.",
        "tests",
        (
            "kraftd.raft.log_mirror:EpochCache.end_of",
            "return OffsetAndEpoch(self._starts[floor + 1], self._epochs[floor])",
            "return OffsetAndEpoch(self._starts[floor + 1], epoch)",
        ),
        where=("tests/unit/raft/test_pieces.py",),
    ),
    # Leader node 1: epoch 2 up to 10, epoch 4 from there. Node 2 wrote 8 and 9 in epoch 3 and reached
    # nobody. Its fetch (10, epoch 3) is within "epoch 3 up to 10": nothing diverges, epoch 4 is appended
    # behind 8 and 9, and node 2 commits other records there than everybody else. Epochs that both hold
    # are told apart.
    # --- divergence ------------------------------------------------------------------------------------------
    mutant(
        "cut-where-the-leaders-epoch-ends",
        "divergence",
        "A follower cuts at the leader's end of the last common epoch, even if its own part of it ends before.",
        "tests",
        (
            "kraftd.raft.truncation:Truncation.on_diverging",
            "min(ours.offset, theirs.offset) if ours.epoch == theirs.epoch",
            "theirs.offset if ours.epoch == theirs.epoch",
        ),
        where=("tests/unit/raft/test_fetching.py",),
    ),
    # Node 1 wrote 8 and 9 in epoch 2 alone; node 2 led epoch 3 from 8 on, alone; node 1 leads epoch 4
    # with 8 and 9. Node 2 is told (10, epoch 2). It must cut at 8, where its epoch 2 ends, but cuts at
    # 10: 8 and 9 of epoch 3 stay, it is told the same again, and never follows again.
    mutant(
        "cut-takes-one-batch-more",
        "divergence",
        "A cut in the middle of an epoch that falls on a batch boundary takes the batch before it, too.",
        "sim",
        (
            "kraftd.raft.log_mirror:LogMirror.boundary_at_most",
            "index = bisect_right(self._bases, offset) - 1",
            "index = bisect_left(self._bases, offset) - 1",
        ),
    ),
    # Node 1 led epoch 2 and wrote 12 and 13 alone; 10 and 11, one batch before, are committed. Node 2
    # leads epoch 3 from 12 on and tells node 1 (12, epoch 2). Node 1 looks for a cut at 10: if it knows
    # 12 to be committed it shuns its leader, else it cuts what it acknowledged and may elect somebody
    # without it.
    mutant(
        "cold-cut-takes-a-whole-batch",
        "divergence",
        "If the disk must tell where a batch ends, the cut takes the batch that ends just where it is wanted.",
        "tests",
        (
            "kraftd.raft.truncation:Truncation.on_batches_read",
            "whole = batch.end_offset <= pending_truncation[1]",
            "whole = batch.end_offset < pending_truncation[1]",
        ),
        where=("tests/unit/raft/test_behaviours_durability.py",),
    ),
    # As before, but the end of node 1's log is not in memory (small tail, or just started): the cold read
    # brings the batch [10, 12), which ends where the leader's log parts. Node 1 cuts at 10, below what is
    # committed: it shuns the leader of the whole epoch.
    mutant(
        "cut-batch-stays-in-memory",
        "divergence",
        "A truncation leaves the first batch that it cuts in the tail in memory.",
        "sim",
        (
            "kraftd.raft.log_mirror:LogMirror.truncate",
            "index = bisect_left(self._bases, end_offset)",
            "index = bisect_right(self._bases, end_offset)",
        ),
    ),
    # Node 2 cuts [15, 17) of epoch 3 and takes [15, 17) of epoch 4 from node 1. Its state machine is at
    # 12 and reads on: 12..15, then the cut batch, then the good one, which is passed over as applied. It
    # has applied what was never committed. As a leader it would also serve both.
    mutant(
        "asks-again-while-it-cuts",
        "divergence",
        "A follower that waits for the disk to say where to cut fetches on meanwhile.",
        "tests",
        (
            "kraftd.raft.follower:FollowerRole.fetch",
            "if not raft.log.is_flushed or raft.follower_state.pending_truncation is not None:",
            "if not raft.log.is_flushed:",
        ),
        where=("tests/unit/raft/test_fetching.py",),
    ),
    # Node 2 diverges below its tail, and its disk takes longer than a round trip. Each answer in between
    # says again that the logs part, begins another cold read and makes the one before void: when a read
    # ends it is not the newest. Node 2 never cuts, as long as the disk is slower than the network.
    # --- high-watermark --------------------------------------------------------------------------------------
    mutant(
        "late-fetch-hears-no-news",
        "high-watermark",
        "A fetch that is parked after the news were told is not told of a high watermark that it does not know.",
        "tests",
        (
            "kraftd.raft.replication:Replication._park",
            "if not fetch.wants_high_watermark(leader_state.high_watermark):",
            "if fetch.is_follower or not fetch.wants_high_watermark(leader_state.high_watermark):",
        ),
        where=("tests/unit/raft/test_requests_in.py",),
    ),
    # Node 2's acknowledgement commits a record; a millisecond later the parked fetches are told. Node 3
    # flushes more slowly: its fetch comes 5 ms after that, with the old high watermark, and is parked for
    # half a second. Until then, or until somebody writes, node 3 does not apply what is committed.
    mutant(
        "mends-by-its-own-high-watermark",
        "high-watermark",
        "A voter that forgot compares what it has flushed with its own high watermark instead of the leader's.",
        "tests",
        (
            "kraftd.raft.follower:FollowerRole._poll_rejoin",
            "raft.epoch, raft.follower_state.leader_high_watermark, raft.log.flushed_offset",
            "raft.epoch, raft.high_watermark, raft.log.flushed_offset",
        ),
        where=("tests/unit/raft/test_behaviours_rejoining.py",),
    ),
    # Record 60 is committed on node 1 and on the disk that node 3 loses. Node 1 is elected anew by node
    # 2, and gives node 3 a first slice of its log, 0..49. Node 3's own high watermark is 50, no more than
    # it holds, so it counts again. Node 1 dies, node 3 elects node 2, which holds 50, and record 60 is
    # gone.
    mutant(
        "second-flush-only-of-followers",
        "high-watermark",
        "What a leader wrote while a flush was running is not flushed when that one ends.",
        "tests",
        (
            "kraftd.raft.node:RaftNode._on_flushed",
            "raft.flush()\n    if raft.leader_state is not None:\n        self._replication.advance(raft.leader_state, now)\n    else:\n",
            "if raft.leader_state is not None:\n        self._replication.advance(raft.leader_state, now)\n    else:\n        raft.flush()\n",
        ),
        where=("tests/unit/raft/test_durability.py",),
    ),
    # Node 3 is down; node 1 leads, its flush of append A is slow, and append B is written meanwhile. A's
    # flush ends, none begins for B. B stands flushed on node 2 only, and is not committed before somebody
    # appends again: its caller times out. With all three up nodes 2 and 3 commit B, and nothing is to be
    # seen.
    mutant(
        "flush-covers-what-came-later",
        "high-watermark",
        "A flush that ends covers what was appended after it had begun, too.",
        "sim",
        (
            "kraftd.raft.log_mirror:LogMirror.on_flushed",
            "self.flushed_offset = max(self.flushed_offset, end_offset)",
            "self.flushed_offset = self.end_offset",
        ),
    ),
    # Node 1 leads and flushes up to 10; meanwhile it appends 10 and 11, which node 2 flushes and
    # acknowledges. The flush up to 10 ends, node 1 counts itself with 12 and commits 12. Node 1 loses its
    # power, and node 2 its disk or its life: nodes 1 and 3 elect a leader without 10 and 11, which were
    # acknowledged.
    # --- reads -----------------------------------------------------------------------------------------------
    mutant(
        "each-turn-begins-a-round",
        "reads",
        "A round of confirmation that waits for its responses is begun anew in each turn of the leader.",
        "sim",
        (
            "kraftd.raft.reads:Reads.wants_round",
            "not self._on_round and ",
            "",
        ),
    ),
    # 5 voters: a read needs two responses to one round. Node 2's response comes, the turn after it begins
    # round 2 and expects no responses to round 1 any more: those of 3, 4, 5 are dropped, and so on. Reads
    # time out while everybody is healthy. With 3 voters one response is enough, so it takes a busy leader
    # there.
    mutant(
        "repeated-round-expects-no-older-response",
        "reads",
        "A round that takes longer than its repetition is begun anew, and its responses are dropped.",
        "tests",
        (
            "kraftd.raft.leader:LeaderRole.poll",
            "elif reads.retry_at_ms <= now_ms:",
            "elif reads.retry_at_ms <= now_ms and raft.requests.forget(RequestKind.CONFIRM) is None:",
        ),
        where=("tests/unit/raft/test_behaviours_announcements.py",),
    ),
    mutant(
        "lost-round-is-not-repeated",
        "reads",
        "A round whose requests failed is not sent again: its reads wait until their deadline.",
        "tests",
        ("kraftd.raft.leader:LeaderRole.poll", "elif reads.retry_at_ms <= now_ms:", "elif False:"),
        where=("tests/unit/raft/test_behaviours_announcements.py",),
    ),
    mutant(
        "whoever-answers-confirms",
        "reads",
        "A confirmation counts whoever stands behind the voter's connection, even an old copy of its disk.",
        "tests",
        (
            "kraftd.raft.leader:LeaderRole.on_begin_response",
            "if raft.peers.is_trusted(raft.peers.outbound_identity(sent.to)):",
            "if raft.peers.outbound_identity(sent.to) is not None:",
        ),
        where=("tests/stories/test_identity.py",),
    ),
    # Node 3 voted for node 2 in epoch 6, and node 2 leads, while node 1 still leads epoch 5. Node 3 comes
    # back with an older copy of its directory, epoch 5, and takes itself for whole. Node 1 remembers its
    # later start, doubts it, and takes its confirmation all the same: it answers a read from before epoch
    # 6.
    mutant(
        "a-refusal-confirms",
        "reads",
        "Any answer in the leader's epoch confirms it, even one that says no.",
        "tests",
        (
            "kraftd.raft.leader:LeaderRole.on_begin_response",
            "or error != ErrorCode.NONE",
            "",
        ),
        where=("tests/stories/test_identity.py",),
    ),
    # 5 voters. Node 3, start 7, elected node 2 in epoch 6 with 5; then an older copy of its directory
    # starts, as 7, too. Node 4, still in epoch 5, tells it so: it forgot. Node 1, cut off from 2 and 5,
    # knows start 6 and trusts it. Its round gets a yes of 4 and INVALID_VOTER_KEY of 3, counts both, and
    # answers a stale read.
    mutant(
        "reads-of-the-first-moment-wait",
        "reads",
        "Reads that came before the first record of the epoch was committed are never told what to wait for.",
        "tests",
        (
            "kraftd.raft.replication:Replication.advance",
            "is_first = leader_state.high_watermark < 0\n    leader_state.high_watermark = offset\n",
            "leader_state.high_watermark = offset\n    is_first = leader_state.high_watermark < 0\n",
        ),
        where=("tests/stories/test_handing_over.py",),
    ),
    # Node 2 has just won, and a client's read arrives before its LeaderChange is committed. The round
    # succeeds, the record commits and is applied, but the read has no offset to wait for: it is answered
    # with a timeout at its deadline, although the cluster is healthy. Reads that come a moment later are
    # good.
    mutant(
        "round-takes-in-who-comes-later",
        "reads",
        "A round is on the very list of all reads, so a read that comes after it was sent is confirmed by it.",
        "tests",
        (
            "kraftd.raft.reads:Reads.begin_round",
            "self._on_round = [read for read in self._reads if not read.confirmed]",
            "self._on_round = self._reads",
        ),
        where=("tests/stories/test_handing_over.py",),
    ),
    # Node 1 sends a round for read A. Node 2 answers and then votes for node 3, which commits a write.
    # The response is slow. Read B comes to node 1 after that write, and joins the list that is on the
    # round: the response from before confirms both, and B does not see the write.
    # --- waiters ---------------------------------------------------------------------------------------------
    mutant(
        "cold-fetch-left-behind",
        "waiters",
        "When leadership ends, fetches that wait for a cold read are never answered.",
        "tests",
        (
            "kraftd.raft.state_changes:StateChanges._end_leadership",
            "for fetch in (*leader_state.purgatory.take_all(), *leader_state.cold_reads.values()):",
            "for fetch in leader_state.purgatory.take_all():",
        ),
        where=("tests/stories/test_identity.py",),
    ),
    # Node 4, an observer that is far behind, fetches from node 1, which must read its disk for that.
    # Before the read ends node 1 learns of epoch 6. The read ends, nobody leads here, and nobody answers:
    # the observer waits for its whole request timeout, and the request stays open on its connection.
    mutant(
        "later-waiter-puts-off-the-check",
        "waiters",
        "Each new group of appends moves the moment at which deadlines are looked at behind its own deadline.",
        "sim",
        ("kraftd.raft.accumulator:PendingAppends.add", "earliest = self.check_at_ms", "earliest = NEVER_MS"),
    ),
    # Node 1 is cut off from its followers, but not from its clients, which append every 100 ms with a
    # deadline of 1 s each. The deadline of the first is not looked at before that of the newest: nobody
    # is answered until check-quorum ends the leadership, 3 s on.
    mutant(
        "waits-for-where-it-begins",
        "waiters",
        "An append waits for the offset at which its records begin, not for their end.",
        "tests",
        (
            "kraftd.raft.leader:LeaderRole._drain",
            "end_offset += len(append.records)\n            pending_appends.append(PendingAppend(end_offset, append.token, append.deadline_ms))\n",
            "pending_appends.append(PendingAppend(end_offset, append.token, append.deadline_ms))\n            end_offset += len(append.records)\n",
        ),
        where=("tests/unit/raft/test_appending.py",),
    ),
    # Node 1 has written [10, 12) and, while that is under way, [12, 14). The first is committed: the high
    # watermark is 12, and the caller of the second is told that it is committed, too. Node 1 dies before
    # anybody fetched it, and an acknowledged record is gone. A lone writer sees nothing of it.
    mutant(
        "second-wish-to-resign-hides-the-first",
        "waiters",
        "Who asks a young leader to hand over while another one's wish still rests takes its place unanswered.",
        "sim",
        (
            "kraftd.raft.resignation:Resignation._on_resign",
            "elif (other := leader_state.handover or leader_state.requested_handover) is not None:",
            "elif (other := leader_state.handover) is not None:",
        ),
    ),
    # Node 1 has led for 200 ms (`min_leader_ms` is 1 s). An operator asks it to hand over: that rests
    # until then. Half a second later another operator asks: the new wish is written over the old one,
    # whose caller never gets a ResignDone.
    mutant(
        "stopping-forgets-the-wish-to-resign",
        "waiters",
        "A leader that is stopped while a wish to hand over still rests never answers that wish.",
        "tests",
        (
            "kraftd.raft.resignation:Resignation._on_shutdown",
            "asked = leader_state.handover or leader_state.requested_handover",
            "asked = leader_state.handover",
        ),
        where=("tests/unit/raft/test_behaviours_leaving.py",),
    ),
    # Node 1 has led for 200 ms, an operator asks it to hand over, and it is sent SIGTERM 100 ms later.
    # The hand-over that rested is dropped for that of the stopping process, and nobody tells the operator.
    # A hand-over that had begun already is answered.
    mutant(
        "deadline-wakes-nobody",
        "waiters",
        "The leader does not wake up for the deadline of an append that waits for its commit.",
        "sim",
        (
            "kraftd.raft.leader_state:LeaderState.next_deadline_ms",
            "self.pending_appends.check_at_ms,",
            "",
        ),
    ),
    # Node 1's followers are cut off without a word, and one append with a deadline of 300 ms is in its
    # log. No fetch comes and none is parked, so the next turn is the next heartbeat: the caller hears of
    # its timeout up to a second late. With any traffic another event makes a turn in time.
    # --- flush-order -----------------------------------------------------------------------------------------
    mutant(
        "flush-answers-for-the-whole-log",
        "flush-order",
        "A flush that ends is reported up to the end of the log as it is then, not up to what the job covered.",
        "sim",
        (
            "kraftd.storage.log:Log.flush_done",
            "return job.generation, job.end_offset",
            "return job.generation, self.end_offset",
        ),
    ),
    # Node 1 leads; the flush of batch A is slow, batch B is appended meanwhile. The job of A ends: the
    # core takes B for flushed, asks for no flush of it, and commits it with node 2. Node 1 loses its
    # power and B with it; nodes 1 and 3 elect without node 2: a committed record is lost.
    mutant(
        "next-flush-as-silent-as-the-last",
        "flush-order",
        "A flush that was asked for while one ran for the recovery point alone ends without being reported to the raft.",
        "sim",
        (
            "kraftd.runtime.store:DirectoryStore._flushed",
            "self._begin_flush(self._driver.now().mono_ms, report=True)",
            "self._begin_flush(self._driver.now().mono_ms, report=report)",
        ),
    ),
    # Node 2 was idle for a second, so the store syncs its recovery point (report=False) on a slow disk. A batch is
    # appended meanwhile and its flush is wanted. That flush ends in silence: the core waits for it for
    # ever, so follower 2 never fetches again (a lone voter never commits again).
    mutant(
        "sync-of-an-older-state-counts",
        "flush-order",
        "A flush job that synced an older state of the sidecar makes a newer, unsynced one count as durable.",
        "tests",
        (
            "kraftd.storage.sidecar:Sidecar.synced",
            "if sequence and sequence == self._unsynced_sequence:",
            "if sequence and self._unsynced_sequence:",
        ),
        where=("tests/unit/storage/test_sidecar.py",),
    ),
    # Node 1: a flush job with the recovery point runs (state 10). An election is written meanwhile: state 11 is
    # synced into slot B, state 12 only noted in slot A. The job ends: slot A counts as durable, and state
    # 13 is written over B, the only durable copy. A power cut that tears it leaves the state from before
    # the election.
    mutant(
        "flush-goes-on-for-leaders-only",
        "flush-order",
        "What was appended while a flush ran is flushed next only if this node still leads when it ends.",
        "tests",
        (
            "kraftd.raft.node:RaftNode._on_flushed",
            "    raft.flush()\n    if raft.leader_state is not None:\n",
            "    if raft.leader_state is not None:\n        raft.flush()\n",
        ),
        where=("tests/stories/test_old_promises.py",),
    ),
    # Node 1 leads, flushes A slowly, appends B, and steps down for node 2. The flush of A ends while node
    # 1 follows: nobody flushes B, the log is never flushed as a whole, and a follower fetches only then:
    # node 1 is of no use until it restarts. With node 3 down nothing is committed any more.
    mutant(
        "epoch-of-the-first-batch-of-a-group",
        "flush-order",
        "Whether a group of batches brings a new epoch is judged by its first batch, not by its last.",
        "sim",
        (
            "kraftd.storage.log:Log.append",
            "if last.epoch != self._epochs.last_epoch:",
            "if heads[0].epoch != self._epochs.last_epoch:",
        ),
    ),
    # Node 3 lags; one response brings batches of epoch 3, which it knows, and the first one of epoch 4,
    # which is not noted. The next append notes epoch 4, but one batch too late. After a restart that one
    # batch disagrees with leader-epoch-checkpoint: flushed bytes are called damaged, and node 3 does not
    # count any more.
    mutant(
        "election-file-before-its-voucher",
        "flush-order",
        "The election file is in its place before the sidecar has noted that it may be.",
        "tests",
        (
            "kraftd.storage.election_store:ElectionStore.write",
            "    self._sidecar.save(\n",
            "    self._put(line)\n    self._sidecar.save(\n",
        ),
        (
            "kraftd.storage.election_store:ElectionStore.write",
            "    self._put(line)\n",
            "",
        ),
        where=("tests/unit/storage/test_election_store.py",),
    ),
    # Node 2 dies between the two: its own file of epoch 7 is nobody's, so another program must have
    # written it, and the flushed offset is void. Pages that the power cut took from the unflushed end,
    # with sound ones behind, are damage then instead of a torn end, and lost flushed bytes at the end are
    # cut without a word.
    mutant(
        "start-is-noted-and-not-synced",
        "flush-order",
        "The counter of a start is only in the page cache when the first message of that start leaves.",
        "sim",
        (
            "kraftd.storage.node_directory:NodeDirectory._assess_health",
            "self._sidecar.save_twice(",
            "self._sidecar.write_unsynced(",
        ),
    ),
    # Node 3 starts as start 8, the others remember 8 with its random id, and it loses its power before
    # anything was synced. It is start 8 again, with another id: for nodes 1 and 2 an old copy of its
    # directory. It is refused, takes itself for an amnesiac, and with node 2 down there is no quorum.
    # --- recovery --------------------------------------------------------------------------------------------
    mutant(
        "torn-right-at-the-recovery-point",
        "recovery",
        "Bad bytes that begin exactly at the flushed offset are kept as damage instead of being cut as torn.",
        "sim",
        (
            "kraftd.storage.log_scan:LogScan._handle_bad_bytes",
            "if self._recovery_point is not None and self._next >= self._recovery_point.offset:",
            "if self._recovery_point is not None and self._next > self._recovery_point.offset:",
        ),
    ),
    # Node 1's recovery point (100) is synced, then batches 100 and 101 are written, not flushed, and a power cut
    # keeps the second of the two only. The opening takes 100 for damaged, and node 1 is not counted until
    # it is formatted. Without a sound one behind, the hole is reported one start later, when a new
    # segment follows it.
    mutant(
        "epoch-that-began-at-the-cut-stays",
        "recovery",
        "A truncation leaves the epoch in `leader-epoch-checkpoint` that began exactly where the log is cut.",
        "tests",
        (
            "kraftd.storage.epoch_checkpoint:EpochCheckpoint.truncate",
            "if entry.start_offset < end_offset",
            "if entry.start_offset <= end_offset",
        ),
        where=("tests/unit/storage/test_log.py",),
    ),
    # Node 1 has epoch 2 from offset 5 and led epoch 3 from 10; it is cut at 10, and epoch 3 stays. Leader
    # 2 (epoch 4) sends more of epoch 2 from 10 on: noting it after 3 drops the true beginning at 5. After
    # a restart the one batch at 5 disagrees with the file, and is flushed: damage, and node 1 does not
    # count.
    mutant(
        "second-segment-read-from-the-middle",
        "recovery",
        "Of an unflushed end over two segments the second one is read again from where the first one's began.",
        "tests",
        (
            "kraftd.storage.recovery:_disk_agrees",
            "        found = again\n        position = 0\n",
            "        found = again\n",
        ),
        where=("tests/unit/storage/test_recovery.py",),
    ),
    # Node 1 is killed just after it rolled a segment: the end of the old one and the beginning of the new
    # one lie above the recovery point. The new one is read again from the position of the old one: three times
    # other bytes than before, "replace the disk", and node 1 does not start any more.
    mutant(
        "old-file-is-the-one-of-the-start",
        "recovery",
        "Each write of an election names as its predecessor the file that was there when the process started.",
        "sim",
        ("kraftd.storage.election_store:ElectionStore.write", "    self._checksum = checksum\n", ""),
    ),
    # Node 2 writes epoch 5, later epoch 6, and loses its power between sidecar and rename of the second.
    # The file of epoch 5 is neither the old one that the sidecar names nor the new one: "a vote may be
    # forgotten", although none is. Node 2 does not count; with node 3 down nobody is elected.
    mutant(
        "blank-for-one-start-only",
        "recovery",
        "A wiped node that restarts before it has any record takes itself for whole.",
        "tests",
        (
            "kraftd.storage.node_directory:NodeDirectory._assess_health",
            "self.uninitialized = not reasons and (empty or was_uninitialized)",
            "self.uninitialized = not reasons and empty",
        ),
        where=("tests/unit/storage/test_node_directory.py",),
    ),
    # Nodes 1 and 3 hold a committed record, node 2 does not. Node 3 is wiped and formatted; its first
    # start writes an election file at once, and a restart finds that: whole. Node 1 is off; node 2, which
    # never met node 3 before, asks for its vote, gets it, and leads without the record.
    mutant(
        "other-file-of-the-same-epoch",
        "recovery",
        "An election file that nobody vouches for is believed in the epoch written last, though it lacks the vote.",
        "tests",
        (
            "kraftd.storage.election_store:judge_election",
            "if election.epoch > known_epoch:",
            "if election.epoch >= known_epoch:",
        ),
        where=("tests/unit/storage/test_election_store.py",),
    ),
    # Node 3 learns of epoch 7 (first file), then votes for node 1 in it (second file). Its disk, or an
    # operator, brings the first file back. It is taken for another program's, the vote is forgotten, and
    # node 3 votes for node 2 in epoch 7: two leaders in one epoch.
    # --- identity --------------------------------------------------------------------------------------------
    mutant(
        "floor-of-an-earlier-loss",
        "identity",
        "Who finds out that promises were lost mends by the epochs that it heard before it knew.",
        "tests",
        (
            "kraftd.raft.rejoin:Rejoin.hear_all_anew",
            "self._epoch_to_exceed, self._highest = None, 0",
            "self._highest = 0",
        ),
        where=("tests/unit/raft/test_behaviours_rejoining.py",),
    ),
    # Node 3 heard all voters in epoch 5. In epoch 9 a copy of its directory runs for a moment, votes for
    # node 2 in 10 (the response is late), and ends; the original is told that it is not the one. Its floor
    # is still 5, so the leader of epoch 9 makes it whole at once, and it votes for node 1 in 10: a vote
    # given twice.
    mutant(
        "mended-and-told-to-nobody",
        "identity",
        "Who is whole again does not ask the other voters under its id, so that only the leader knows.",
        "tests",
        (
            "kraftd.raft.rejoin:Rejoin.try_complete",
            "    self.not_accepted_by, self.refused_by = frozenset(self._quorum.others), frozenset()\n",
            "",
        ),
        where=("tests/stories/test_identity.py",),
    ),
    # Node 3 got a new disk and mends under leader 1. Node 2 has only seen it fetch without id, which it
    # keeps in memory, and restarts: it still remembers the old directory. Leader 1 dies: 2 does not count
    # the vote of 3, and refuses to give 3 one. Nobody leads until node 1 is back.
    *(
        mutant(
            name,
            "identity",
            why,
            "tests",
            edit,
            where=(
                "tests/stories/test_identity.py::test_who_was_away_when_a_voter_became_whole_again_is_told_that_it_knew",
            ),
        )
        for name, why, edit in (
            (
                "whole-again-and-lost-anew",
                "Who is whole again takes the word of a voter that was away for news of another loss.",
                (
                    "kraftd.raft.follower:FollowerRole.on_fetch_response",
                    "if not is_outdated and sent.to not in raft.rejoin.not_accepted_by:",
                    "if not is_outdated:",
                ),
            ),
            (
                "whole-again-and-never-told",
                "A voter that was away is asked by an id that it refuses, and not told that this start knew.",
                ("kraftd.raft.rejoin:Rejoin.record_refusal", "self.refused_by |= {voter}", "pass"),
            ),
            (
                "introduced-and-taken-for-accepted",
                "The answer to a fetch without id is taken for the word of a voter that has accepted the id.",
                (
                    "kraftd.raft.probing:Probing.on_response",
                    "rejoin.record_introduction(voter)",
                    "rejoin.record_acceptance(voter)",
                ),
            ),
            (
                "leader-whole-again-asks-nobody",
                "Who is whole again and leads does not ask the voters that were away.",
                (
                    "kraftd.raft.probing:Probing._targets",
                    "to_probe = rejoin.not_accepted_by | (rejoin.unheard if is_follower else frozenset())",
                    "to_probe = rejoin.not_accepted_by | rejoin.unheard if is_follower else frozenset()",
                ),
            ),
        )
    ),
    mutant(
        "late-vote-of-an-old-copy",
        "identity",
        "The vote of an old copy of a directory counts if it arrives after the copy has said that it forgot.",
        "tests",
        (
            "kraftd.raft.replication:Replication.on_fetch",
            "raft.requests.forget_votes_of(event.peer.node_id)",
            "pass",
        ),
        where=(
            "tests/stories/test_identity.py::test_a_vote_that_an_old_copy_gave_before_it_knew_is_not_counted_when_it_knows",
        ),
    ),
    mutant(
        "announced-and-taken-for-known",
        "identity",
        "A voter that takes an announcement is taken for one that knows who sent it.",
        "tests",
        (
            "kraftd.raft.probing:Probing.on_response",
            "sent.kind in TELL_WHO_WE_ARE",
            "sent.kind in RequestKind",
        ),
        where=(
            "tests/stories/test_identity.py::test_who_takes_our_announcements_has_not_said_whom_it_takes_us_for",
        ),
    ),
    mutant(
        "introduced-over-and-over",
        "identity",
        "A voter that refused this node, and is gone, is told each 20 ms that this start knew of its loss.",
        "tests",
        (
            "kraftd.raft.follower:FollowerRole.failure_backoff_ms",
            "sent.kind in (RequestKind.PROBE, RequestKind.INTRODUCTION)",
            "sent.kind is RequestKind.PROBE",
        ),
        where=(
            "tests/unit/raft/test_behaviours_rejoining.py::test_a_voter_that_refused_and_is_gone_is_told_again_once_a_second",
        ),
    ),
    mutant(
        "any-answer-accepts",
        "identity",
        "Whatever a voter answers to a fetch by an id is taken for its word that it accepts that.",
        "tests",
        ("kraftd.raft.probing:Probing.on_response", "elif header.error in _ACCEPTED:", "else:"),
        where=(
            "tests/unit/raft/test_behaviours_rejoining.py::test_who_counts_again_asks_a_voter_until_its_id_is_accepted",
        ),
    ),
    mutant(
        "inbound-end-takes-the-link",
        "identity",
        "When any connection of a peer ends, it is forgotten who answers on our own connection to it.",
        "tests",
        (
            "kraftd.raft.peers:Peers.close",
            "    if peer is not None and self._outbound.get(peer.node_id, (None,))[0] == connection:\n        del self._outbound[peer.node_id]\n",
            "    if peer is not None:\n        self._outbound.pop(peer.node_id, None)\n",
        ),
        where=("tests/stories/test_identity.py",),
    ),
    # Node 2's connection to node 1 breaks and comes back, that of node 1 to node 2 stands all the time.
    # Node 1 does not know any more who answers there: votes that 2 grants and rounds of reads that 2
    # confirms do not count, for as long as the link stands. With node 3 down, node 1 can neither win nor
    # answer a read.
    mutant(
        "own-doubt-goes-with-hearsay",
        "identity",
        "Making a node forget the others also clears the doubt that its own disk raised, if theirs came first.",
        "tests",
        (
            "kraftd.storage.forgetting:_is_reported_by_others_only",
            " and REASON_SEPARATOR not in reason",
            "",
        ),
        where=("tests/unit/storage/test_forgetting.py",),
    ),
    # Node 3 was told that it is an old copy, and on a later start its election file is gone too: both
    # reasons are one text that begins with the hearsay. The operator runs forget-peers, node 3 counts as
    # whole, and votes once more in an epoch in which it has voted.
    mutant(
        "forgetful-and-not-relearning",
        "identity",
        "Who finds out that it forgot still takes voters that are connected already for strangers.",
        "tests",
        (
            "kraftd.raft.follower:FollowerRole._record_amnesia",
            "        raft.out.extend(raft.peers.accept_current_peers())\n",
            "",
        ),
        where=("tests/stories/test_identity.py",),
    ),
    # Node 3 runs on a backup from before node 2 got a new disk. It connects to both, doubts node 2, and
    # only then hears from node 1 that it is the old one itself. What 2 answers over the standing link is
    # never heard, so node 3 never rejoins. With node 2 down later there are node 1 and one that does not
    # count.
    mutant(
        "forgetful-makes-others-doubt",
        "identity",
        "A node that forgot tells others, by its old memory, that they are not who they say.",
        "tests",
        (
            "kraftd.raft.replication:Replication.is_identified",
            "not raft.peers.refuses(event.peer)",
            "False",
        ),
        where=("tests/unit/raft/test_behaviours_rejoining.py",),
    ),
    # Node 3 runs on a backup from before node 2 got a new disk, and knows that it forgot. Node 2
    # restarts, is confirmed, and asks 3 before 3's own link to it is good: INVALID_VOTER_KEY. Node 2
    # takes itself for an amnesiac; two of three do not count, and no later epoch can begin that would
    # mend them.
    mutant(
        "each-claim-puts-the-challenge-off",
        "identity",
        "Each new claim under a voter's id moves the challenge that is planned already to a later moment.",
        "tests",
        (
            "kraftd.raft.claims:Claims._plan_challenge",
            "self._next_challenge_ms[peer_id] = min(max(at_ms, allowed_ms), planned_ms)",
            "self._next_challenge_ms[peer_id] = max(at_ms, allowed_ms)",
        ),
        where=("tests/stories/test_claims.py",),
    ),
    # Machine 2 lost its power and is back; node 1's link to it looks open, so only a challenge brings a
    # nonce there. Somebody greets as node 2 every 40 ms: each time the challenge is due 50 ms later, and
    # never sent. Node 2 is refused again and again, and with node 3 down nobody leads.
    # --- controller ------------------------------------------------------------------------------------------
    mutant(
        "timed-out-is-withdrawn",
        "controller",
        "A write whose time was up is taken back from the image although it stands in the log.",
        "sim",
        (
            "kraftd.controller.quorum_controller:QuorumController.finished",
            "if error not in (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT) and active is not None:",
            "if error is not ErrorCode.NONE and active is not None:",
        ),
    ),
    # Node 1 leads, its follower is cut off for longer than the request timeout: write A is answered with
    # a time-out and withdrawn; an APPEND is decided without it. The follower returns, A is committed, and
    # the controller finds records that it never wrote: the leader's process dies.
    mutant(
        "password-among-the-synonyms",
        "controller",
        "A describe with synonyms tells the values of passwords in the list of where a value comes from.",
        "tests",
        (
            "kraftd.controller.configs.describe_configs:_describe_one",
            "synonyms=_synonyms(visible) if with_synonyms else (),",
            "synonyms=_synonyms(places) if with_synonyms else (),",
        ),
        where=("tests/unit/controller/test_readers_and_statistics.py",),
    ),
    # ssl.keystore.password is set for broker 1. DescribeConfigs with include_synonyms hides it in
    # `value`, and tells it in the first synonym: whoever may ask reads it.
    mutant(
        "characters-are-taken-for-bytes",
        "controller",
        "A name or value that is not ASCII may be longer than a record can hold.",
        "tests",
        (
            "kraftd.controller.configs.broker_rules:is_too_long",
            "return len(text) > TEXT_BYTES_MAX or text_bytes(text) > TEXT_BYTES_MAX",
            "return len(text) > TEXT_BYTES_MAX",
        ),
        where=("tests/unit/controller/test_configuration_control.py",),
    ),
    # A client sets an unknown config of broker 1 to 20,000 times "é": 40,000 bytes. It is not refused,
    # the record cannot be encoded, the exception leaves the controller, and the leader's process ends.
    # The client repeats the request at the next leader, until no quorum is left.
    mutant(
        "read-is-made-when-it-arrives",
        "controller",
        "What a read answers is taken from the image when it arrives, not when it is confirmed and applied.",
        "tests",
        (
            "kraftd.controller.quorum_controller:QuorumController._read",
            "    return NeedsRead(\n        request.NAME,\n        respond=lambda: self._respond(operation, request),\n",
            "    response = self._respond(operation, request)\n    return NeedsRead(\n        request.NAME,\n        respond=lambda: response,\n",
        ),
        where=("tests/unit/controller/test_controller.py",),
    ),
    # Node 1 leads and has committed more than it applies in a turn. A write is acknowledged at its
    # commit; a read that arrives after that waits until it is applied, as it must, but its response was
    # made before: the acknowledged write is not in it.
    mutant(
        "activation-refused-and-not-repeated",
        "controller",
        "A controller whose first records were refused for another reason than throttling never writes them.",
        "tests",
        (
            "kraftd.controller.quorum_controller:QuorumController.finished",
            "if write.kind == ACTIVATE:",
            "if write.kind == ACTIVATE and error is ErrorCode.THROTTLING_QUOTA_EXCEEDED:",
        ),
        where=("tests/unit/controller/test_controller.py",),
    ),
    # Node 1 wins with much to apply, and is asked to hand over before its controller is active: its first
    # records are refused with NOT_CONTROLLER. No successor catches up in time, so node 1 leads on: the
    # transaction that its predecessor left open is never aborted (on a new cluster: metadata.version is
    # never set), and it decides on.
    mutant(
        "two-of-one-resource",
        "controller",
        "A request that holds just two resources is not looked at for one that appears twice.",
        "tests",
        (
            "kraftd.controller.configs.configuration_control:_repeated_resources",
            "if len(request.resources) < 2:",
            "if len(request.resources) <= 2:",
        ),
        where=("tests/unit/controller/test_configuration_control.py",),
    ),
    # One request names broker 1 twice, APPEND a and APPEND b to the same list. Both are decided on the
    # image before the request and both are said to have succeeded; the second record replaces the first,
    # and a is lost.
    mutant(
        "registered-by-an-earlier-start",
        "controller",
        "A controller does not register again if an earlier start of it did, wherever that one listened.",
        "tests",
        (
            "kraftd.controller.controller_registration:missing_registration",
            "image[CONTROLLERS].get(me.id) == me:",
            "image[CONTROLLERS].get(me.id) is not None:",
        ),
        where=("tests/unit/controller/test_controller.py",),
    ),
    # Node 2 moves to another port, or to a newer version with other feature levels, restarts and leads.
    # The image holds the registration of its earlier start: brokers connect to where nobody is.
    # --- configs in bulk -------------------------------------------------------------------------------------
    mutant(
        "run-keeps-the-first",
        "D-18",
        "Of many changes of a config in one batch the first one counts, not the last.",
        "tests",
        (
            "kraftd.metadata.config_runs:last_of_each",
            "last[value[:text_at]] = value",
            "last.setdefault(value[:text_at], value)",
        ),
        where=("tests/unit/metadata/test_config_runs.py",),
    ),
    # Leader 1 decides on the newest value of a config, its followers keep an older one: their images differ.
    mutant(
        "run-names-a-config-without-its-resource",
        "D-18",
        "Changes of one config of two resources of the same batch are taken for changes of one.",
        "tests",
        (
            "kraftd.metadata.config_runs:last_of_each",
            "last[value[:text_at]] = value",
            "last[value[name_at:text_at]] = value",
        ),
        where=("tests/unit/metadata/test_config_runs.py",),
    ),
    # Broker 1 and broker 2 get the same config in one request: on the followers only broker 2 has it.
    mutant(
        "run-does-not-look-at-tags",
        "D-18",
        "A config record that ends where its tagged fields should be counted is applied in bulk.",
        "tests",
        (
            "kraftd.metadata.config_runs:last_of_each",
            "not _RESOURCE_AT < name_at < text_at < tags_at == len(value) - 1\n"
            "                or value[tags_at]",
            "not _RESOURCE_AT < name_at < text_at < tags_at",
        ),
        where=("tests/unit/metadata/test_config_runs.py",),
    ),
    # A record with a tag that nothing here knows is applied without it: the next snapshot has lost it.
    # --- driver ----------------------------------------------------------------------------------------------
    mutant(
        "turn-wanted-within-a-turn",
        "driver",
        "Who asks for another turn while one is under way does not get it.",
        "tests",
        (
            "kraftd.runtime.driver:Driver._turn",
            "    self._turn_is_due = False\n    self._is_busy = True\n",
            "    self._is_busy = True\n",
        ),
        (
            "kraftd.runtime.driver:Driver._turn",
            "    self._is_busy = False\n    self._end_turn()\n",
            "    self._is_busy = False\n    self._turn_is_due = False\n    self._end_turn()\n",
        ),
        where=("tests/unit/runtime/test_driver.py",),
    ),
    # Node 2 restarts with a long log, or wins while it has much to apply. The applier works for 10 ms and
    # asks for another turn, which does not come: it goes on at the next timer, half a second later. The
    # controller is told to lead, and reads are answered, many times too late.
    mutant(
        "only-effects-are-worth-a-turn",
        "driver",
        "An event without effects leads to no turn, so what it made due waits for the timer set before.",
        "sim",
        (
            "kraftd.runtime.driver:Driver.deliver",
            "    if effects or not self._raft_node.is_idle:\n",
            "    if effects:\n",
        ),
        (
            "kraftd.runtime.driver:Driver.deliver",
            "    else:\n        self._rest(now, self._raft_node.wake_at_ms)\n",
            "    else:\n        self._now = None\n",
        ),
    ),
    # Leader 1 dies; node 2 hears that the connection is gone, and means to ask for pre-votes within 100
    # ms. There is no effect, hence no turn, and its timer still stands at the fetch timeout: the cluster
    # has no leader for two seconds.
    mutant(
        "skipped-turn-loses-a-deadline",
        "driver",
        "An event that needs no turn does not move the timer, whatever has to be done sooner because of it.",
        "tests",
        (
            "kraftd.runtime.driver:Driver.deliver",
            "    else:\n        self._rest(now, self._raft_node.wake_at_ms)\n",
            "    else:\n        self._now = None\n",
        ),
        where=("tests/unit/runtime/test_driver.py",),
    ),
    # Leader 1 parks a fetch of node 2, which has to be answered in 150 ms; its timer stands at the NoOp in
    # 400 ms. Node 2 hears nothing for so long, and asks for pre-votes.
    mutant(
        "parked-fetch-without-its-deadline",
        "driver",
        "A request that has no effect does not move the timer, though it has to be answered sooner.",
        "tests",
        (
            "kraftd.runtime.driver:Driver.deliver",
            "min(self._raft_node.wake_at_ms, self._timer_at_ms)",
            "self._timer_at_ms",
        ),
        where=("tests/unit/runtime/test_driver.py",),
    ),
    # Leader 1 parks a fetch, and applies a batch three seconds later: to the raft node it is still three
    # seconds ago, in all that it times, until the next turn.
    mutant(
        "parked-fetch-stops-the-clock",
        "driver",
        "The clocks that were read for a fetch that was parked are those of all that comes until the next turn.",
        "tests",
        (
            "kraftd.runtime.driver:Driver.deliver",
            "        self._now = None\n        self._wait_until",
            "        self._wait_until",
        ),
        where=("tests/unit/runtime/test_driver.py",),
    ),
    mutant(
        "each-flush-syncs-twice",
        "D-05",
        "Each flush of a busy leader syncs the sidecar as well, and each client waits for it.",
        "tests",
        (
            "kraftd.runtime.store:DirectoryStore._begin_flush",
            "since_flush_ms >= _IDLE_MS",
            "since_flush_ms >= 0",
        ),
        where=("tests/unit/runtime/test_store.py",),
    ),
    # Leader 1 parks a fetch that does not know the newest high watermark. It is told at the next heartbeat,
    # not in a millisecond.
    mutant(
        "skipped-turn-keeps-its-time",
        "driver",
        "The clocks that were read for an event without a turn are those of all that comes until the next turn.",
        "tests",
        ("kraftd.runtime.driver:Driver._rest", "    self._now = None\n", ""),
        where=("tests/unit/runtime/test_driver.py",),
    ),
    # Leader 1 has been idle for a second; the fetches that came then are taken for a second old, and
    # check-quorum is a second off.
    mutant(
        "turn-ends-before-its-events-do",
        "driver",
        "What an event within a turn makes due waits for the next turn, which nothing may bring.",
        "tests",
        (
            "kraftd.runtime.driver:Driver._run_events",
            "return has_effects or not raft_node.is_idle or raft_node.wake_at_ms <= now.mono_ms",
            "return has_effects",
        ),
        where=("tests/unit/runtime/test_driver.py",),
    ),
    # The state machine of node 2 has applied all there is, and node 2 has a read to answer or a round to
    # begin: it does so at the next heartbeat.
    mutant(
        "idle-although-a-read-was-waited-for",
        "D-12",
        "What comes of records that were applied is left for the next event.",
        "tests",
        ("kraftd.raft.node:RaftNode.handle", "if not raft.out:", "if True:"),
        where=("tests/unit/raft/test_idle.py",),
    ),
    # A read that is confirmed is answered with the next change of somebody else.
    mutant(
        "idle-whatever-a-handover-waits-for",
        "D-09",
        "A leader that hands over is idle although a flush has just ended its wait.",
        "tests",
        (
            "kraftd.raft.node:RaftNode._stay_idle",
            "if leader_state is None or leader_state.handover is not None:",
            "if leader_state is None:",
        ),
        where=("tests/unit/raft/test_idle.py",),
    ),
    # Leader 1 hands over to node 2, which holds all there is before node 1's own disk does. Node 1 leads on
    # until the deadline, refuses all appends meanwhile, and says then that nobody has caught up.
    mutant(
        "idle-leader-forgets-whom-it-has-to-tell",
        "D-10",
        "A leader that a flush or a fetch leaves idle wakes when it would have without them.",
        "tests",
        (
            "kraftd.raft.node:RaftNode._stay_idle",
            "self._due_ms = min(self._due_ms, leader_state.next_response_ms())",
            "pass",
        ),
        where=("tests/unit/raft/test_idle.py",),
    ),
    mutant(
        "node-zero-never-leaves",
        "driver",
        "The core does not hear of the end of a connection to or from node 0.",
        "tests",
        ("kraftd.runtime.network:QuorumNetwork._ended", "if node_id is not None:", "if node_id:"),
        where=("tests/unit/runtime/test_network.py",),
    ),
    # Nodes 0, 1 and 2; node 0 leads and dies. Nobody hears that its connections ended: the others wait
    # for the fetch timeout, a resigning leader names node 0 as within reach, and nonces given on
    # connections that ended long ago still confirm whoever shows them as node 0.
    mutant(
        "size-of-the-frame-before",
        "driver",
        "A frame of which only up to four bytes came at first is cut by the size of the last one that was split.",
        "tests",
        (
            "kraftd.protocol.framing:FrameReader._take_partial",
            "    self._partial = bytearray()\n    self._size = 0\n",
            "    self._partial = bytearray()\n",
        ),
        where=("tests/unit/protocol/test_framing.py",),
    ),
    # Follower 2 reads a response of 200 KB in several pieces. Later a read ends two bytes into the next,
    # short response: the reader waits for 200 KB more. Nothing is wrong with the connection, but no response
    # comes from it any more; or two frames are taken for one and the connection is closed.
    mutant(
        "only-later-tasks-have-deadlines",
        "driver",
        "What is to be done before the core's part of a turn never leads to a turn by itself.",
        "sim",
        (
            "kraftd.runtime.driver:Driver.start",
            "for c in (*before, *after) if isinstance(c, TimedTurnTask)",
            "for c in after if isinstance(c, TimedTurnTask)",
        ),
    ),
    # A lone voter gets more requests in one turn than it may serve in it. The rest waits for a next turn,
    # which is due at once, but nobody asks for it: these callers wait until something else happens, most
    # of a second later. The same holds for a new controller's first records and its NoOps.
    mutant(
        "a-length-is-enough-to-begin",
        "driver",
        "A read that ends right behind the length of a frame ends its connection.",
        "sim",
        ("kraftd.protocol.framing:FrameReader.take", "if left > LENGTH_BYTES:", "if left >= LENGTH_BYTES:"),
    ),
    # Leader 1 sends node 2 two responses back to back; TCP cuts the stream after the four bytes of the
    # second length. Node 2 looks for a fifth one, IndexError, and closes the good connection: it takes
    # its leader for lost and asks for pre-votes, and all requests on their way have failed.
    mutant(
        "applied-means-the-target",
        "driver",
        "After each slice the core is told that all that is committed has been applied.",
        "sim",
        (
            "kraftd.runtime.applier:Applier.run",
            "self._driver.deliver(Applied(self.applied_offset))",
            "self._driver.deliver(Applied(self._target))",
        ),
    ),
    # Node 2 becomes leader with more to apply than fits into 10 ms. After the first slice the core
    # believes that all is applied: its controller is told to lead from half of the state and repeats its
    # first records, and reads are answered without acknowledged writes.
)
