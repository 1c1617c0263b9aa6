"""Mistakes by a third author, who read the code alone and then looked for what no detector notices.

When they were tried, the simulator noticed four of them within twenty seeds, and unit tests and stories fifteen of
the others. What was left has a test since. Below each stands the scenario that its author had in mind.
"""

from tests.sabotage.mutant import Mutant, mutant

SECOND_READING: tuple[Mutant, ...] = (
    mutant(
        "doubted-candidate-moves-the-epoch",
        "elections",
        "Who is not the one known under its id gets no vote, but the epoch that it asks for is believed.",
        "tests",
        (
            "kraftd.raft.elections:Elections._consider",
            "    barriers = raft.peers.verify_identity(event.peer)\n",
            "    if not params.pre_vote and params.epoch > raft.epoch:\n"
            '        self.changes.become_unattached(params.epoch, now, "asked for votes in it")\n'
            "    barriers = raft.peers.verify_identity(event.peer)\n",
        ),
        where=("tests/unit/raft/test_requests_in.py",),
    ),
    # An old copy of node 3's directory runs (start 4, start 9 is known), restarts as Candidate (its file says it
    # voted for itself in epoch 7; the quorum is at 6) and asks for votes. Nobody grants, but nodes 1 and 2 leave
    # their leader for epoch 7, and the leader resigns: writes fail. The copy does it again with each candidacy.
    mutant(
        "candidate-stays-blank",
        "elections",
        "A voter without records that votes for itself goes on as one that never promised anything.",
        "tests",
        ("kraftd.raft.state_changes:StateChanges.become_candidate", "    raft.mark_initialized()\n", ""),
        where=("tests/unit/raft/test_appending.py",),
    ),
    # New cluster. Node 1 becomes a candidate, is elected, leads, and writes: it stays uninitialized, for a leader's
    # flush does not settle. It restarts so with records and refuses every log with records: node 2 (its
    # records are as complete) cannot win while node 3 is down, although two of three are up; nor does 1 confirm.
    mutant(
        "park-outlives-the-request",
        "elections",
        "A parked fetch is held for as long as the follower waits for its response, or longer.",
        "tests",
        (
            "kraftd.raft.timing:Timing.park_ms",
            "min(self.fetch_max_wait_ms, self.fetch_timeout_ms // 2, self.request_timeout_ms // 2)",
            "min(self.fetch_max_wait_ms, self.fetch_timeout_ms // 2)",
        ),
        where=("tests/unit/raft/test_pieces.py",),
    ),
    # controller.quorum.request.timeout.ms=400, idle cluster (NoOp each 500 ms). Each fetch is parked for 500 ms
    # and given up by the follower after 400: the response is nobody's. After the fetch timeout it campaigns.
    mutant(
        "deadlines-forgotten-at-a-commit",
        "waiters",
        "A commit that lets some appends go forgets the deadlines of those that still wait.",
        "tests",
        (
            "kraftd.raft.accumulator:PendingAppends.take_committed",
            "    if not queue:\n        self.check_at_ms = NEVER_MS\n",
            "    self.check_at_ms = NEVER_MS\n",
        ),
        where=("tests/unit/raft/test_durability.py",),
    ),
    # Two groups wait (100, 110), deadline in 500 ms. 100 is committed, then both followers are cut off. The
    # caller of 110 is told at the end of the leadership (check-quorum, 3 s), not at its deadline.
    mutant(
        "linger-beyond-the-deadline",
        "accumulator",
        "Linger lasts beyond the deadline of an append that waits for company.",
        "tests",
        (
            "kraftd.raft.accumulator:Accumulator.add",
            "    elif waiting.deadline_ms < self._drain_at_ms:\n        self._drain_at_ms = max(now_ms, waiting.deadline_ms)\n",
            "",
        ),
        where=("tests/unit/raft/test_appending.py",),
    ),
    # controller.quorum.append.linger.ms=5000, request.timeout.ms=1000: a lone writer is answered after 5 s.
    mutant(
        "first-above-the-recovery-point-is-believed",
        "recovery",
        "The first batch above the flushed offset is not read again from the disk before it counts.",
        "sim",
        (
            "kraftd.storage.log_scan:LogScan._record_unflushed",
            "self._next >= self._recovery_point.offset",
            "self._next > self._recovery_point.offset",
        ),
    ),
    # The recovery point is 100. Batch 100..101 is written, its fsync fails (EIO), the process ends, the page stays in the
    # cache, clean. The next start reads it, syncs (nothing is dirty), believes it, acknowledges 102 to the
    # leader; a power cut later the batch is gone: a committed record on one disk less than promised.
    mutant(
        "windows-without-overlap",
        "recovery",
        "The search for sound batches behind damage misses one whose head lies across two windows.",
        "tests",
        (
            "kraftd.records.batch_search:plausible_headers",
            "position += last + 1",
            "position += len(window)",
        ),
        where=("tests/unit/storage/test_recovery.py",),
    ),
    # Without a recovery point (Kafka's own directory). A bad sector hits a batch of 1 MiB - 30 bytes that is followed by one
    # more only: the head of that one crosses the window, nothing sound is found, and both are cut as torn.
    mutant(
        "torn-without-a-recovery-point-before-more",
        "recovery",
        "Without a flushed offset a bad end of any segment is cut as torn, and all later segments go.",
        "tests",
        (
            "kraftd.storage.log_scan:LogScan._handle_bad_bytes",
            "if self._recovery_point is None and found is None and self._nothing_after(number):",
            "if self._recovery_point is None and found is None:",
        ),
        where=("tests/unit/storage/test_recovery_properties.py",),
    ),
    # A directory of Kafka's with two segments; the last batch of the first one has a bad byte. The daemon starts,
    # cuts the first segment there and removes the second one: committed records, with a warning only.
    mutant(
        "epochs-of-a-group-but-the-last",
        "epochs",
        "Of a group of batches that brings several epochs only the last one is noted.",
        "sim",
        (
            "kraftd.storage.log:Log.append",
            "        for head in heads:\n            self._epochs.assign(head.epoch, head.base_offset)\n",
            "        self._epochs.assign(last.epoch, last.base_offset)\n",
        ),
    ),
    # Node 3 was off during epochs 4 and 5 and gets both in one response: the file says 3, then 5 from the last batch.
    mutant(
        "truncation-believes-a-bad-head",
        "recovery",
        "A truncation goes by the head of a batch whose checksum it does not prove.",
        "tests",
        (
            "kraftd.storage.log_reader:ReaderView._locate_sound",
            "raise self._damaged(segment, offset) from None",
            "pass",
        ),
        where=("tests/unit/storage/test_reading.py",),
    ),
    # Node 1 truncates to 704; the bad head at 698 says that its batch holds 704, too: committed records are cut off.
    mutant(
        "same-directory-is-outdated",
        "identity",
        "Whoever refuses us is taken for an old copy if it comes with the directory that we know of it.",
        "sim",
        (
            "kraftd.raft.peers:Peers.is_outdated",
            "        and known.directory_id == peer.directory_id\n        and bool(self.identity_conflict(peer))\n",
            "        and known.directory_id == peer.directory_id\n",
        ),
    ),
    # Node 3's disk is replaced by a backup. The leader refuses its fetches with INVALID_VOTER_KEY, node 3 never
    # believes it: it neither mends nor fetches without id, and is out for good; votes of its own do not count.
    mutant(
        "mended-voter-stays-uncounted",
        "identity",
        "A voter that fetched without its id once cannot take over from this leader any more.",
        "tests",
        ("kraftd.raft.leader_state:ReplicaState.on_fetch", "    self.is_uncounted = False\n", ""),
        where=("tests/unit/raft/test_behaviours_leaving.py",),
    ),
    # Node 3 mends under leader 1 and counts again. `kraftctl resign --to 3` is refused: "it fetches without its id,
    # since it is not whole". Node 1 is stopped while node 2 is off: it waits half its time, hands over to nobody.
    mutant(
        "decided-anew-newest-first",
        "controller",
        "What was decided after a refused write is decided anew in the wrong order.",
        "tests",
        (
            "kraftd.controller.uncommitted_writes:UncommittedWrites._rebuild",
            "for write in reversed(later):",
            "for write in later:",
        ),
        where=("tests/unit/controller/test_controller.py",),
    ),
    # Writes A, B, C go to the log in one turn; A is refused (THROTTLING), B and C fit. The controller expects
    # C, then B; the log brings B, then C: InvariantError, the active controller ends.
    mutant(
        "names-of-a-resource-that-shrank",
        "controller",
        "A resource that once had many configs is listed by the names that it had then.",
        "tests",
        (
            "kraftd.metadata.configs_image:_with_names",
            "return names if known is None else names.delete(resource)",
            "return names",
        ),
        where=("tests/unit/metadata/test_image.py",),
    ),
    # Broker default with 257 configs; one is deleted, then another. `configs list` looks up a name that is not
    # there: KeyError in the response to a read, which ends the process. A new name is not listed at all.
    mutant(
        "emptied-resource-stays-in-order",
        "controller",
        "A resource whose last config was deleted stays in the order of resources.",
        "tests",
        (
            "kraftd.metadata.configs_image:ConfigsBuilder._folded",
            "            gone.append(resource)\n            resources = resources.delete(resource)\n",
            "            resources = resources.delete(resource)\n",
        ),
        where=("tests/unit/metadata/test_image.py",),
    ),
    # Broker 7's only config is deleted and set again: `configs list` shows it twice.
    mutant(
        "completion-taken-twice",
        "driver",
        "A completion that a barrier has taken already is taken once more when the loop comes to it.",
        "tests",
        (
            "kraftd.runtime.worker:Worker._finish_one",
            "    if not self._finished.empty():\n        self._finish(self._finished.get_nowait())\n",
            "    self._finish(self._finished.get_nowait())\n",
        ),
        where=("tests/unit/runtime/test_worker.py",),
    ),
    # A follower is told to cut while its flush runs: drain takes the completion, the call that the thread asked
    # for finds nothing: queue.Empty on the loop, and the process ends.
    mutant(
        "damage-of-what-was-cut",
        "driver",
        "Damage that a read found is told under the generation of the moment when it ended.",
        "tests",
        (
            "kraftd.runtime.store:DirectoryStore.read_cold",
            "self._findings.damaged(view.generation, damage)",
            "self._findings.damaged(self._log.generation, damage)",
        ),
        where=("tests/unit/runtime/test_store.py",),
    ),
    # A follower reads old batches in the thread (an observer's fetch before, or where to cut) while it cuts and
    # appends: the view finds bytes of the new history, "damage", and reports it as of the log as it is now. The
    # voter does not count until it was emptied and formatted, although its disk is in order.
    mutant(
        "closed-before-it-was-written",
        "network",
        "A connection that is closed in order loses what was collected for it in this turn.",
        "tests",
        (
            "kraftd.net.connection:FrameConnection.close",
            "    self.flush()\n    self._transport.close()\n",
            "    self._out.clear()\n    self._transport.close()\n",
        ),
        where=("tests/unit/net/test_budgets.py",),
    ),
    # A leader that stops has committed a write, answers it in its last turn, and closes: its client never hears.
    mutant(
        "broken-link-fails-nothing",
        "network",
        "A connection that ends does not fail the requests that wait for their responses on it.",
        "tests",
        (
            "kraftd.net.outbound:OutboundConnection.ended",
            "    for correlation_id in in_flight:\n        handler.request_failed(self.peer, correlation_id, self.end_reason)\n",
            "",
        ),
        where=("tests/unit/net/test_budgets.py",),
    ),
    # The link to a healthy leader breaks (a firewall's reset): the fetch on it counts as under way for 2 s more,
    # which is the fetch timeout: the follower campaigns against a leader that is there.
    mutant(
        "resting-wish-unanswered",
        "waiters",
        "Who asked a young leader to hand over is never answered when that one loses the lead meanwhile.",
        "tests",
        (
            "kraftd.raft.state_changes:StateChanges._end_leadership",
            "for handover in (leader_state.handover, leader_state.requested_handover):",
            "for handover in (leader_state.handover,):",
        ),
        where=("tests/unit/raft/test_behaviours_leaving.py",),
    ),
    # Node 1 leads since 300 ms, is asked to resign (wait: 1 s), and hears of a later epoch: no response, ever.
    mutant(
        "recovery-point-of-the-last-flush",
        "flush-order",
        "The flushed offset of the last flush before a silence is never synced.",
        "tests",
        (
            "kraftd.runtime.store:DirectoryStore._flushed",
            "self._recovery_point_is_dirty = self._recovery_point_is_dirty or report",
            "self._recovery_point_is_dirty = self._recovery_point_is_dirty",
        ),
        where=("tests/unit/runtime/test_store.py",),
    ),
    # No NoOps (metadata.max.idle.interval.ms=0). A burst of writes within a second, then an hour of silence, then a power
    # cut: the recovery point on disk is older than the burst. A bad sector in the burst is taken for torn and cut without
    # doubt: node 3 counts as whole, has forgotten what it acknowledged, and votes for a shorter log.
    mutant(
        "promise-in-one-slot",
        "flush-order",
        "A promise that must be in both slots of the sidecar is made durable in one.",
        "tests",
        (
            "kraftd.storage.sidecar:Sidecar.save_twice",
            "    self.save(local_state)\n    self._write()\n    self.sync()\n",
            "    self.save(local_state)\n",
        ),
        where=("tests/unit/storage/test_forgetting.py",),
    ),
    # Node 3 notes that it is an amnesiac; the slot goes bad; the other one says "whole", with a start counter of
    # before. Node 3 counts again.
    mutant(
        "recovery-point-outlives-the-other-program",
        "recovery",
        "The flushed offset of before is believed although Kafka has written the directory since.",
        "tests",
        (
            "kraftd.storage.opening:open_sidecar",
            "    sidecar.move_recovery_point(None)\n",
            "",
        ),
        where=("tests/unit/storage/test_node_directory.py",),
    ),
    # kraftd flushed up to 1000, Kafka ran on the directory, was told to cut at 900 and wrote to 950. kraftd
    # comes back: "the log ends here, but it had been flushed up to offset 1000": damage that is none.
    mutant(
        "timer-counts-from-the-turn",
        "driver",
        "The timer of the next turn counts from the beginning of this one, however long its barriers took.",
        "sim",
        (
            "kraftd.runtime.driver:Driver._wait_until",
            "left_ms = max(0, wake_at_ms - self._clock().mono_ms)",
            "left_ms = max(0, wake_at_ms - now.mono_ms)",
        ),
    ),
    # Voting takes a sync of 1.5 s on a busy disk; the own election timer (due in 1.2 s) then fires after 2.7 s.
    mutant(
        "handover-to-the-uncounted",
        "elections",
        "A leader hands over to a voter that has caught up and does not count any more.",
        "tests",
        (
            "kraftd.raft.leader_state:LeaderState.find_caught_up",
            "able = (p for p in chosen if p is not None and not p.is_uncounted)",
            "able = (p for p in chosen if p is not None)",
        ),
        where=("tests/unit/raft/test_behaviours_leaving.py",),
    ),
    # Node 1 is asked to resign in favour of node 3, which catches up, and then finds damage while node 1 waits for
    # its own flush. It hands over, answers "successor 3", and nobody leads until node 2 has waited its turn.
    mutant(
        "batch-at-the-high-watermark",
        "high-watermark",
        "Whoever may have committed records only is given the batch that begins at the high watermark.",
        "tests",
        (
            "kraftd.raft.log_mirror:LogMirror.read",
            "bisect_left(bases, limit)",
            "bisect_right(bases, limit)",
        ),
        where=("tests/unit/raft/test_behaviours_machine.py",),
    ),
    # An observer fetches at the high watermark 100 of a leader that has 100..102 unacknowledged, and gets them.
)
