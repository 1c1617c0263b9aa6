"""Bugs of replication: what is fetched, cut, counted and called committed."""

from tests.sabotage.mutant import mutant

REPLICATION = (
    mutant(
        "hw-before-own-epoch",
        "KAFKA-12619",
        "A leader commits up to where its epoch begins, before a record of its own epoch stands on a majority.",
        "sim",
        (
            "kraftd.raft.replication:Replication.advance",
            "if offset <= led.epoch_start_offset or",
            "if offset < led.epoch_start_offset or",
        ),
    ),
    mutant(
        "old-epoch-by-count",
        "PySyncObj 169",
        "A leader commits whatever stands on a majority, whoever wrote it.",
        "sim",
        (
            "kraftd.raft.replication:Replication.advance",
            "if offset <= led.epoch_start_offset or offset",
            "if offset",
        ),
    ),
    mutant(
        "flush-before-ack",
        "KAFKA-10533",
        "The leader counts its own records towards the majority before it has flushed them.",
        "sim",
        (
            "kraftd.raft.replication:Replication.advance",
            "raft.log.flushed_offset",
            "raft.log.end_offset",
        ),
    ),
    mutant(
        "fetch-before-flush",
        "KAFKA-10533",
        "A follower fetches on, and so acknowledges, before it has flushed what it was given.",
        "sim",
        (
            "kraftd.raft.follower:FollowerRole.fetch",
            "if not raft.log.is_flushed or raft.follower_state.cutting is not None:",
            "if raft.follower_state.cutting is not None:",
        ),
        ("kraftd.raft.state:RaftState.claimed_position", "if flushed == self.log.end_offset:", "if True:"),
    ),
    mutant(
        "single-node-ack",
        "etcd-io/etcd 14370",
        "The only voter answers while its flush is still running.",
        "sim",
        (
            "kraftd.raft.leader_state:LeaderState.majority_offset",
            "own_flushed_offset if voter == me",
            "(own_flushed_offset if self.followers else (1 << 40)) if voter == me",
        ),
        (
            "kraftd.raft.replication:Replication.advance",
            "offset = led.majority_offset(raft.me.id, raft.log.flushed_offset, raft.voters)",
            "offset = min(raft.log.end_offset, led.majority_offset(raft.me.id, raft.log.flushed_offset, raft.voters))",
        ),
        (
            "kraftd.raft.leader:LeaderRole._drain",
            "self.replication.serve_parked(led, now)",
            "self.replication.advance(led, now)\n        self.replication.serve_parked(led, now)",
        ),
    ),
    mutant(
        "flushed-means-end",
        "D-02",
        "A leader takes what it has just written for flushed.",
        "sim",
        (
            "kraftd.raft.leader:LeaderRole._drain",
            "raft.out.append(raft.log.append(base_offset, end_offset, batches))",
            "raft.out.append(raft.log.append(base_offset, end_offset, batches))\n"
            "        raft.log.flushed_offset = raft.log.end_offset",
        ),
    ),
    mutant(
        "minority-commits",
        "D-10",
        "One voter less than a majority is enough to commit.",
        "sim",
        (
            "kraftd.raft.voters:VoterSet.majority_reached",
            "[self.majority - 1]",
            "[max(0, self.majority - 2)]",
        ),
    ),
    mutant(
        "even-quorum",
        "hashicorp/raft 163a55f",
        "Half of an even number of voters counts as a majority.",
        "sim",
        (
            "kraftd.raft.voters:VoterSet.majority_reached",
            "[self.majority - 1]",
            "[(len(self.ids) + 1) // 2 - 1]",
        ),
    ),
    mutant(
        "observers-count",
        "D-10",
        "What an observer has fetched moves the high watermark as if it were a voter's.",
        "sim",
        (
            "kraftd.raft.leader_state:LeaderState.majority_offset",
            "own_flushed_offset if voter == me else self.followers[voter].fetch_offset for voter in voters.ids",
            "own_flushed_offset if voter == me else max(p.fetch_offset for p in "
            "(self.followers[voter], *self.observers.values())) for voter in voters.ids",
        ),
    ),
    mutant(
        "commit-monotone",
        "PySyncObj 166",
        "A follower takes over the leader's high watermark even when it is lower than the one it knew.",
        "sim",
        (
            "kraftd.raft.state:RaftState.commit",
            "if high_watermark > self.high_watermark:",
            "if high_watermark != self.high_watermark:",
        ),
    ),
    mutant(
        "reorder",
        "RaftOS 25",
        "A follower's position goes back, and the leader's high watermark goes back with it.",
        "sim",
        (
            "kraftd.raft.replication:Replication.advance",
            "or offset <= led.high_watermark:",
            "or offset == led.high_watermark:",
        ),
        (
            "kraftd.raft.state:RaftState.commit",
            "if high_watermark > self.high_watermark:",
            "if high_watermark != self.high_watermark:",
        ),
    ),
    mutant(
        "hw-ahead-of-log",
        "D-02",
        "A follower calls committed what the leader has and it has not.",
        "sim",
        (
            "kraftd.raft.follower:FollowerRole.on_fetch_response",
            "raft.commit(min(raft.log.end_offset, data.high_watermark))",
            "raft.commit(data.high_watermark)",
        ),
    ),
    mutant(
        "truncate-below-hw",
        "KAFKA-12460",
        "A follower cuts its log below what it knows to be committed, because a leader says so.",
        "tests",
        (
            "kraftd.raft.follower:FollowerRole._on_diverging",
            "if target < raft.high_watermark:",
            "if False:",
        ),
        ("kraftd.raft.follower:FollowerRole._cut", "if end_offset < raft.high_watermark:", "if False:"),
        where=("tests/stories/test_replication.py",),
    ),
    mutant(
        "hw-then-truncate",
        "KAFKA-14704",
        "A follower raises its high watermark before it has cut what diverges.",
        "sim",
        (
            "kraftd.raft.follower:FollowerRole.on_fetch_response",
            "if data.diverging_epoch.epoch >= 0 and data.diverging_epoch.end_offset >= 0:",
            "if data.diverging_epoch.epoch >= 0 and data.diverging_epoch.end_offset >= 0:\n"
            "        raft.commit(min(raft.log.end_offset, data.high_watermark))",
        ),
    ),
    mutant(
        "fast-failover-chain",
        "KAFKA-6361",
        "Logs are compared by their length only, so after quick failovers two of them differ in the middle.",
        "sim",
        (
            "kraftd.raft.log_mirror:LogMirror.diverges_at",
            "if end.epoch != position.epoch or position.offset > end.offset:",
            "if position.offset > self.end_offset:",
        ),
    ),
    mutant(
        "stale-divergence",
        "KAFKA-18991",
        "A late answer from an older epoch says where the logs part, and what the newer leader gave is cut.",
        "tests",
        (
            "kraftd.raft.state:RaftState.become",
            "self.requests.reset()",
            "self.requests._slots.clear()\n        self.requests._rests.clear()",
        ),
        (
            "kraftd.raft.node:Member._on_response",
            "is_old = answer.leader_and_epoch.epoch < raft.epoch and sent.kind is not Kind.PRE_VOTE",
            "is_old = False",
        ),
        where=("tests/stories/test_late_answers.py",),
    ),
    mutant(
        "diverging-ack",
        "KAFKA-13141",
        "The leader counts the position of a fetch although the follower's log leaves its own there.",
        "sim",
        (
            "kraftd.raft.replication:Replication.on_fetch",
            "diverging = raft.log.diverges_at(ask.position)",
            "diverging = raft.log.diverges_at(ask.position)\n"
            "    if ask.replica.id >= 0:\n"
            "        self._acknowledge(led, ask, now)",
        ),
    ),
    mutant(
        "diskloss-fetch-regress",
        "KAFKA-12181",
        "A follower that lost its disk fetches from a lower offset, and that ends the leader.",
        "sim",
        (
            "kraftd.raft.leader_state:ReplicaState.on_fetch",
            "reached = self._leader_end_seen",
            "if offset < self.fetch_offset:\n"
            '        raise ValueError(f"{self.key} went back from {self.fetch_offset} to {offset}")\n'
            "    reached = self._leader_end_seen",
        ),
    ),
    mutant(
        "control-batch-offset",
        "KAFKA-12331",
        "The record that opens an epoch says offset 0, wherever it stands.",
        "sim",
        (
            "kraftd.raft.leader:LeaderRole._drain",
            "batches.append(self._leader_change(end_offset, now))",
            "batches.append(self._leader_change(0, now))",
        ),
    ),
    mutant(
        "atomic-decision",
        "KAFKA-12376",
        "The records of one decision go into several batches, and a failover keeps only the first.",
        "sim",
        (
            "kraftd.raft.leader:LeaderRole._drain",
            "batches.append(encode_batch(end_offset, led.epoch, now.wall_ms, values))",
            "batches += [encode_batch(end_offset + n, led.epoch, now.wall_ms, [v]) for n, v in enumerate(values)]",
        ),
        ("kraftd.raft.leader:LeaderRole._drain", "raft.log.keep_values(end_offset, values)", "pass"),
    ),
    mutant(
        "poison-request",
        "KAFKA-14204",
        "An append that fits no batch is taken, and no follower can ever be given it.",
        "tests",
        (
            "kraftd.raft.accumulator:is_too_large",
            "return size_bytes + _BATCH_OVERHEAD_BYTES > BATCH_BYTES_MAX or len(records) > APPEND_RECORDS_MAX",
            "return False",
        ),
        where=("tests/stories/test_replication.py",),
    ),
    mutant(
        "hw-one-behind",
        "KAFKA-13959",
        "A parked fetch is not answered when the high watermark moves, so followers hear of it half a second late.",
        "tests",
        (
            "kraftd.raft.leader_state:DelayedFetch.wants_high_watermark",
            "return self.high_watermark < min(high_watermark, self.offset)",
            "return False",
        ),
        where=("tests/stories/test_replication.py",),
    ),
    mutant(
        "fetch-expiry-race",
        "KAFKA-15100",
        "An answer that says where the logs part is held back like an empty one until the wait is over.",
        "tests",
        (
            "kraftd.raft.replication:Replication.on_fetch",
            "if diverging is not None:",
            "if diverging is not None and ask.max_wait_ms == 0:",
        ),
        where=("tests/stories/test_replication.py",),
    ),
    mutant(
        "linger-wakeup",
        "KAFKA-10826",
        "The first append starts no timer, and stays where it is until another one comes.",
        "sim",
        (
            "kraftd.raft.accumulator:Accumulator.add",
            "self._drain_at_ms = now_ms + self._linger_ms",
            "self._drain_at_ms = self._drain_at_ms if self._linger_ms else now_ms",
        ),
    ),
    mutant(
        "read-truncate-race",
        "KAFKA-18723",
        "A batch with a gap before it, a bad checksum or an epoch from the future is appended as it came.",
        "tests",
        ("kraftd.raft.follower:FollowerRole._check", "if batch.base_offset != end_offset:", "if False:"),
        (
            "kraftd.raft.follower:FollowerRole._check",
            "if not last_epoch <= batch.epoch <= raft.epoch:",
            "if False:",
        ),
        where=("tests/stories/test_replication.py",),
    ),
    mutant(
        "bitflip-batch",
        "KAFKA-14104",
        "The checksum of a batch is not looked at.",
        "tests",
        ("kraftd.records.batch:BatchView.check", "if found == self.crc:", "if True:"),
        where=("tests/stories/test_replication.py", "tests/unit/records/test_batch.py"),
    ),
    mutant(
        "hw-checkpoint-missing",
        "KAFKA-16452",
        "A member takes all that it finds in its log for committed when it starts.",
        "sim",
        (
            "kraftd.raft.node:Member.start",
            "raft.update_state(initial_state(raft, raft.state.election, now))",
            "raft.update_state(initial_state(raft, raft.state.election, now))\n    raft.commit(raft.log.end_offset)",
        ),
    ),
    mutant(
        "non-replica-fetch",
        "KAFKA-9672",
        "A member that does not lead answers a fetch as if there were nothing new.",
        "tests",
        (
            "kraftd.raft.state:RaftState.refuse_fetch",
            "rpc.fetch_response(error,",
            "rpc.fetch_response(ErrorCode.NONE,",
        ),
        where=("tests/unit/raft/test_requests_in.py",),
    ),
    mutant(
        "uncommitted-from-disk",
        "D-15",
        "Whoever is no member is given what is not committed, if it comes from the disk.",
        "tests",
        (
            "kraftd.raft.replication:Replication.on_batches_read",
            "may_have_all = fetch.replica_id >= 0 or led.high_watermark >= self.raft.log.end_offset",
            "may_have_all = True",
        ),
        where=("tests/stories/test_replication.py",),
    ),
    mutant(
        "busy-loop",
        "KAFKA-17751",
        "A timer that has nothing to do is not set anew, and the leader is polled without end.",
        "sim",
        (
            "kraftd.raft.leader:LeaderRole.poll",
            "led.begin_at_ms = now_ms + raft.timing.begin_quorum_ms",
            "pass",
        ),
    ),
    mutant(
        "busy-loop-observer",
        "KAFKA-19605",
        "An observer that nobody answers asks for another turn at once, for ever.",
        "sim",
        (
            "kraftd.raft.request_manager:RequestManager.next_ready_ms",
            "idle = (self._rests.get((peer, kind), 0) for peer in peers if (peer, kind) not in self._slots)",
            "idle = (0 for peer in peers if (peer, kind) not in self._slots)",
        ),
    ),
    mutant(
        "one-flush-each",
        "D-16",
        "Every append begins a flush of its own, although one is running.",
        "tests",
        (
            "kraftd.raft.log_mirror:LogMirror.flush",
            "if self._flushing or self.is_flushed:",
            "if self.is_flushed:",
        ),
        where=("tests/stories/test_replication.py", "tests/unit/raft/test_pieces.py"),
    ),
    mutant(
        "divergence-is-fatal",
        "D-14",
        "A leader whose log parts from ours below the high watermark ends our process.",
        "tests",
        (
            "kraftd.raft.follower:FollowerRole._reject_leader",
            "self.rejection = why",
            "raise ValueError(why)",
        ),
        where=("tests/stories/test_replication.py",),
    ),
    mutant(
        "authz-error-not-fatal",
        "KAFKA-20109",
        "One peer that refuses us with an error we did not expect ends our process.",
        "tests",
        (
            "kraftd.raft.node:Member._on_response",
            "if answer.top_error:",
            "if answer.top_error:\n        raise ValueError(answer.top_error)",
        ),
        where=("tests/unit/raft/test_requests_in.py", "tests/stories/test_replication.py"),
    ),
    mutant(
        "malformed-rpc",
        "hashicorp/raft e59f65d",
        "A fetch whose numbers make no sense is taken at its word.",
        "tests",
        ("kraftd.raft.replication:Replication._check", "if not rpc.is_sane(ask):", "if False:"),
        where=("tests/unit/raft/test_requests_in.py",),
    ),
    mutant(
        "foreign-cluster",
        "KAFKA-12440",
        "Requests of another cluster are served.",
        "tests",
        (
            "kraftd.raft.rpc:_cluster_error",
            "return ErrorCode.INCONSISTENT_CLUSTER_ID if theirs is not None and theirs != ours else None",
            "return None",
        ),
        where=("tests/unit/raft/test_requests_in.py",),
    ),
)
