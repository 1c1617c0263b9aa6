"""Mistakes that no judge noticed when they were first tried: each is small, and each needs two rare things to meet.

Most of them lose or show what they must not only if a slow disk meets an election, or a backup a campaign. Each
has a story or a unit test since; those that seeds of the simulator notice as well are given to the simulator.
"""

from tests.sabotage.mutant import Mutant, mutant

_MET = "tests/stories/test_old_promises.py"
_READS = ("tests/unit/raft/test_behaviours_announcements.py",)
_APPENDING = "tests/unit/raft/test_appending.py"

OVERLOOKED: tuple[Mutant, ...] = (
    mutant(
        "claims-newest-epoch",
        "D-02",
        "A candidate with an unflushed end claims the flushed offset with the epoch of the unflushed end.",
        "sim",
        (
            "kraftd.raft.state:RaftState.durable_position",
            "OffsetAndEpoch(flushed, self.log.epoch_before(flushed))",
            "OffsetAndEpoch(flushed, self.log.last_epoch)",
        ),
    ),
    mutant(
        "leads-from-flushed",
        "D-02",
        "A new leader's epoch begins at the flushed offset of its log, not at the end.",
        "sim",
        (
            "kraftd.raft.state_changes:StateChanges.become_leader",
            "start_offset = raft.log.end_offset",
            "start_offset = raft.log.flushed_offset",
        ),
    ),
    mutant(
        "unvouched-grant-counts",
        "D-06",
        "A vote that was granted by somebody else than the voter known under that id counts.",
        "sim",
        (
            "kraftd.raft.elections:Elections._count",
            'granted, why = False, "it is not the voter known under that id"',
            "pass",
        ),
    ),
    mutant(
        "commit-is-of-the-last-answer",
        "HWM-02",
        "The prepared good response is used again by the same node in a later epoch, as long as the high watermark "
        "is the same.",
        "sim",
        (
            "kraftd.raft.replication:Replication._good_response",
            "key = (leader_state.epoch, leader_state.high_watermark, version, self.raft.log.start_offset)",
            "key = (0, leader_state.high_watermark, version, self.raft.log.start_offset)",
        ),
    ),
    mutant(
        "round-keeps-its-answers",
        "D-12",
        "Who confirmed an earlier round counts in the next one.",
        "sim",
        ("kraftd.raft.reads:Reads.begin_round", "self._acknowledged.clear()", "pass"),
    ),
    mutant(
        "round-keeps-its-answers-of-five",
        "D-12",
        "The same, where a single answer more makes a majority.",
        "tests",
        ("kraftd.raft.reads:Reads.begin_round", "self._acknowledged.clear()", "pass"),
        where=_READS,
    ),
    mutant(
        "repeated-round-takes-new-reads-along",
        "D-12",
        "A round is sent again under its number, and an answer to its first sending confirms a later read.",
        "tests",
        (
            "kraftd.raft.reads:Reads.repeat_round",
            "return self.round",
            "self._on_round = [read for read in self._reads if not read.confirmed]\n    return self.round",
        ),
        where=_READS,
    ),
    mutant(
        "round-is-repeated-for-nobody",
        "D-12",
        "Voters are asked to confirm the leader for reads whose time is up.",
        "tests",
        (
            "kraftd.raft.reads:Reads._take",
            "self.retry_at_ms = NEVER_MS",
            "pass",
        ),
        where=_READS,
    ),
    mutant(
        "second-group-waits-by-the-first",
        "D-13",
        "Of a drain with several groups only the last one's waiters are kept.",
        "tests",
        (
            "kraftd.raft.leader:LeaderRole._drain",
            "leader_state.pending_appends.add(pending_appends)",
            "pending = pending_appends",
        ),
        (
            "kraftd.raft.leader:LeaderRole._drain",
            "if batches:",
            'if "pending" in locals():\n        leader_state.pending_appends.add(pending)\n    if batches:',
        ),
        where=(_APPENDING,),
    ),
    mutant(
        "weight-stays",
        "ACC-07",
        "The newest group weighs on the accumulator's limit after it was committed.",
        "tests",
        (
            "kraftd.raft.leader_state:LeaderState.record_committed",
            "queue[0][0] <= high_watermark",
            "queue[0][0] < high_watermark",
        ),
        where=(_APPENDING,),
    ),
    mutant(
        "mends-at-unknown-watermark",
        "D-06",
        "A later leader that does not know its high watermark yet (-1) makes a voter whole at once.",
        "tests",
        (
            "kraftd.raft.rejoin:Rejoin.try_complete",
            "or not 0 <= high_watermark <= flushed_offset:",
            "or not high_watermark <= flushed_offset:",
        ),
        where=(_MET,),
    ),
    mutant(
        "aware-of-any-start",
        "D-06",
        "Once a voter was seen to know that it forgot, any older copy of that directory is believed too.",
        "tests",
        (
            "kraftd.raft.peers:Peers.rejects",
            "and self._aware.get(peer.node_id) != peer",
            "and peer.node_id not in self._aware",
        ),
        where=(_MET,),
    ),
    mutant(
        "old-epoch-tells-nothing",
        "D-06",
        "A vote asked in an older epoch is refused without a look at who asks, who then takes the voter for heard.",
        "tests",
        (
            "kraftd.raft.elections:Elections._consider",
            "if event.peer is not None and raft.peers.refuses(event.peer):",
            "if False:",
        ),
        where=(_MET,),
    ),
    mutant(
        "empty-is-default",
        "configs",
        "An APPEND to a list that was set to nothing begins from the default.",
        "sim",
        (
            "kraftd.controller.configs.configuration_control:_new_value",
            'current if current is not None else key.default or ""',
            'current or key.default or ""',
        ),
    ),
    mutant(
        "timer-is-never-earlier",
        "D-01",
        "A timer that is armed is left alone, although something is due before it.",
        "sim",
        ("kraftd.runtime.driver:Driver._wait_until", "if self._timer_at_ms <= wake_at_ms:", "if True:"),
    ),
    mutant(
        "cold-tail-is-applied",
        "D-18",
        "Batches that were read from the disk are applied up to what was read, not up to what is committed.",
        "sim",
        (
            "kraftd.runtime.committed_log:CommittedLog.batches",
            "walk(ending_by(data, committed))",
            "walk(data)",
        ),
        (
            "kraftd.runtime.applier:Applier._cold_read",
            "self._batches = batches",
            "some = list(batches)\n        self._batches = iter(some)\n"
            "        self._target = max([self._target, *(b.end_offset for b in some[:2])])",
        ),
    ),
)
