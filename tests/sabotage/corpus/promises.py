"""Bugs of promises: waiters, linearizable reads, generations, and who is counted at all."""

from tests.sabotage.mutant import mutant

PROMISES = (
    # --- waiters ---
    mutant(
        "ack-after-truncate",
        "Redpanda c230235",
        "An append succeeds when its offset is committed, although another leader wrote what stands there now.",
        "sim",
        (
            "kraftd.raft.state_changes:StateChanges._end_leadership",
            "for pending in leader_state.pending_appends.take_all():\n        raft.out.append(AppendDone(pending.token, ErrorCode.REQUEST_TIMED_OUT))",
            "raft.orphans = leader_state.pending_appends.take_all()",
        ),
        (
            "kraftd.raft.state:RaftState.commit",
            "self.out.append(Commit(high_watermark))",
            "self.out.append(Commit(high_watermark))\n"
            "        from kraftd.raft.effects import AppendDone, ErrorCode\n"
            '        done = [w for w in getattr(self, "orphans", ()) if w.end_offset <= high_watermark]\n'
            "        self.out += [AppendDone(w.token, ErrorCode.NONE, w.end_offset) for w in done]\n"
            '        self.orphans = [w for w in getattr(self, "orphans", ()) if w not in done]',
        ),
    ),
    mutant(
        "unknown-is-called-refused",
        "D-13",
        "An append that stands in the log when leadership ends is answered as not appended, so a client repeats it.",
        "sim",
        (
            "kraftd.raft.state_changes:StateChanges._end_leadership",
            "raft.out.append(AppendDone(pending.token, ErrorCode.REQUEST_TIMED_OUT))",
            "raft.out.append(AppendDone(pending.token, ErrorCode.NOT_CONTROLLER))",
        ),
    ),
    mutant(
        "waiters-left-behind",
        "D-13",
        "When leadership ends, whoever waits for a commit is never answered.",
        "sim",
        (
            "kraftd.raft.state_changes:StateChanges._end_leadership",
            "raft.out.append(AppendDone(pending.token, ErrorCode.REQUEST_TIMED_OUT))",
            "pass",
        ),
    ),
    mutant(
        "resign-parked-fetch",
        "KAFKA-10677",
        "A leader that resigns leaves the fetches parked, and the followers learn of it late.",
        "tests",
        (
            "kraftd.raft.state_changes:StateChanges._end_leadership",
            "for fetch in (*leader_state.purgatory.take_all(), *leader_state.cold_reads.values()):",
            "for fetch in ():",
        ),
        where=(
            "tests/unit/raft/test_serving.py",
            "tests/unit/raft/test_behaviours_leaving.py",
            "tests/unit/raft/test_reactions.py",
        ),
    ),
    mutant(
        "no-deadline",
        "KAFKA-12778",
        "The deadline of an append is not looked at, and its caller waits for ever.",
        "sim",
        ("kraftd.raft.accumulator:PendingAppends.take_expired", "if now_ms < self.check_at_ms:", "if True:"),
        ("kraftd.raft.accumulator:PendingAppends.add", "self.check_at_ms = earliest", "pass"),
    ),
    mutant(
        "unattached-tells-itself",
        "LSN-11",
        "Who led the epoch before it was restarted, and does not count since, is told that it leads.",
        "tests",
        (
            "kraftd.raft.state_changes:StateChanges.become_unattached",
            "leader_id if leader_id != raft.me.id else NO_NODE",
            "leader_id",
        ),
        where=("tests/unit/raft/test_behaviours_starting.py",),
    ),
    mutant(
        "decided-in-another-epoch",
        "D-13",
        "What was decided in an older epoch is appended by the leader of a newer one.",
        "tests",
        (
            "kraftd.raft.leader:LeaderRole._taking_appends",
            "epoch != leader_state.epoch",
            "epoch > leader_state.epoch",
        ),
        where=("tests/stories/test_replication.py", "tests/unit/raft/test_requests_in.py"),
    ),
    # --- linearizable reads ---
    mutant(
        "readindex-ctx-reuse",
        "etcd-io/etcd 20418",
        "A response to an older round of confirmation confirms a read that came after it was sent.",
        "tests",
        (
            "kraftd.raft.reads:Reads.acknowledge",
            "if round_ != self.round or not self._on_round:",
            "if not self._on_round:",
        ),
        ("kraftd.raft.leader:LeaderRole.poll", "raft.requests.forget(RequestKind.CONFIRM)", "pass"),
        where=("tests/stories/test_handing_over.py",),
    ),
    mutant(
        "readindex-new-leader",
        "etcd-io/etcd 7331",
        "A new leader answers reads before a record of its own epoch is committed.",
        "chaos",
        (
            "kraftd.raft.leader:LeaderRole.on_read",
            "required_offset = leader_state.high_watermark if leader_state.high_watermark >= 0 else None",
            "required_offset = max(0, self.raft.high_watermark)",
        ),
    ),
    mutant(
        "readindex-flush",
        "Redpanda 20330df",
        "A read is answered without asking anybody whether this node still leads.",
        "sim",
        (
            "kraftd.raft.reads:Reads.add",
            "read.confirmed = self._quorum.followers_needed == 0",
            "read.confirmed = True",
        ),
    ),
    mutant(
        "read-by-old-fetches",
        "D-12",
        "A fetch that arrives confirms the leader, however old it is.",
        "tests",
        (
            "kraftd.raft.replication:Replication._acknowledge",
            "if follower.on_fetch(offset, raft.log.end_offset, now):",
            "leader_state.reads.acknowledge(params.replica.id, leader_state.reads.round)\n"
            "    if follower.on_fetch(offset, raft.log.end_offset, now):",
        ),
        where=("tests/stories/test_handing_over.py",),
    ),
    mutant(
        "read-before-applied",
        "D-12",
        "A read is answered as soon as the leader is confirmed, from a state that has not got that far.",
        "tests",
        (
            "kraftd.raft.reads:Reads.take_ready",
            "and read.required_offset <= applied_offset",
            "",
        ),
        where=("tests/stories/test_handing_over.py",),
    ),
    mutant(
        "old-copy-confirms",
        "D-06",
        "A node that may have promised itself to a later leader confirms an earlier one.",
        "tests",
        (
            "kraftd.raft.announcements:Announcements.on_begin_request",
            "or not raft.rejoin.can_confirm_leader",
            "",
        ),
        where=("tests/stories/test_identity.py",),
    ),
    # --- generations ---
    mutant(
        "truncate-during-flush",
        "Redpanda 2327254",
        "A flush that began before a truncation counts for what was appended after it.",
        "tests",
        ("kraftd.raft.log_mirror:LogMirror.on_flushed", "if generation != self.generation:", "if False:"),
        (
            "kraftd.raft.log_mirror:LogMirror.on_flushed",
            "if end_offset > self.end_offset:",
            "if False:",
        ),
        where=("tests/stories/test_replication.py",),
    ),
    mutant(
        "generation-in-the-log",
        "D-03",
        "A flush job from before a truncation raises the flushed offset of the log on disk.",
        "tests",
        (
            "kraftd.storage.log:Log.flush_done",
            "if job.generation == self.generation and",
            "if",
        ),
        where=("tests/unit/storage/test_log.py",),
    ),
    # --- who is counted ---
    mutant(
        "forgetful-voter-votes",
        "D-06",
        "A voter whose promises are forgotten gives votes and campaigns like any other.",
        "sim",
        ("kraftd.raft.elections:Elections._why_not_electable", "if not raft.rejoin.is_whole:", "if False:"),
    ),
    mutant(
        "forgetful-voter-is-counted",
        "D-06",
        "What a voter with another disk fetches is counted for the one that was known under its id.",
        "tests",
        (
            "kraftd.raft.peers:Peers.identity_conflict",
            "if known is None or known == peer:",
            "if True:",
        ),
        where=(
            "tests/stories/test_identity.py::test_a_wiped_voter_is_uncounted_until_a_leader_was_elected_without_it",
        ),
    ),
    mutant(
        "disowned-too-late",
        "D-06",
        "What a voter acknowledged on a disk that is gone still counts.",
        "tests",
        (
            "kraftd.raft.leader_state:LeaderState.reset_follower",
            "if self.follower(node_id) is not None:",
            "if False:",
        ),
        where=("tests/stories/test_identity.py",),
    ),
    mutant(
        "mends-in-the-same-epoch",
        "D-06",
        "A voter that forgot counts again under a leader that its forgotten vote may have elected.",
        "tests",
        (
            "kraftd.raft.rejoin:Rejoin.try_complete",
            " or leader_epoch <= self._epoch_to_exceed",
            "",
        ),
        where=(
            "tests/stories/test_identity.py::test_a_node_that_forgot_waits_for_every_voters_epoch_and_for_a_leader_after_the_highest",
        ),
    ),
    mutant(
        "mends-before-all-are-heard",
        "D-06",
        "A voter that forgot does not wait for the epochs of all the others.",
        "tests",
        (
            "kraftd.raft.rejoin:Rejoin.record_response",
            "if not self.unheard and self._epoch_to_exceed is None:",
            "if self._epoch_to_exceed is None:",
        ),
        where=(
            "tests/stories/test_identity.py::test_a_node_that_forgot_waits_for_every_voters_epoch_and_for_a_leader_after_the_highest",
        ),
    ),
    mutant(
        "blank-elects-a-stale-one",
        "D-06",
        "A voter with neither records nor promises votes for anybody with records.",
        "tests",
        (
            "kraftd.raft.elections:Elections._why_not_electable",
            "if raft.rejoin.health.uninitialized and params.position.offset > 0:",
            "if False:",
        ),
        where=("tests/stories/test_identity.py::test_a_blank_voter_judges_no_log_with_records",),
    ),
    mutant(
        "killed-candidate-stays-blank",
        "D-06",
        "A voter that was killed between its first vote and the note that it is new no more calls itself new for good.",
        "tests",
        (
            "kraftd.raft.state_changes:report_health",
            "elif stored.voted is not None or raft.log.end_offset > 0:",
            "elif raft.log.end_offset > 0:",
        ),
        where=(
            "tests/stories/test_identity.py::test_who_is_killed_in_its_first_candidacy_leads_after_it_and_is_blank_no_more",
            "tests/unit/raft/test_behaviours_starting.py",
        ),
    ),
    mutant(
        "killed-follower-stays-blank",
        "D-06",
        "A voter that was killed between its first flush and the note that it is new no more calls itself new again.",
        "tests",
        (
            "kraftd.raft.state_changes:report_health",
            "elif stored.voted is not None or raft.log.end_offset > 0:",
            "elif stored.voted is not None:",
        ),
        where=("tests/unit/raft/test_behaviours_starting.py",),
    ),
    mutant(
        "backup-is-not-noticed",
        "D-06",
        "A directory that was restored from a backup is taken for the one that it was copied from.",
        "tests",
        (
            "kraftd.raft.peers:Peers.identity_conflict",
            "if peer.start_counter > known.start_counter:",
            "if True:",
        ),
        where=("tests/stories/test_identity.py",),
    ),
    mutant(
        "amnesia-is-forgotten",
        "D-06",
        "A node that forgot and restarts believes that it is whole.",
        "tests",
        (
            "kraftd.raft.follower:FollowerRole._record_amnesia",
            "raft.out.append(RememberStateHealth(HealthKind.AMNESIA, raft.rejoin.health.amnesia))",
            "pass",
        ),
        where=("tests/stories/test_identity.py",),
    ),
    # --- the state machine ---
    mutant(
        "lead-before-caught-up",
        "KAFKA-15345",
        "The controller is told to lead when it has applied what came before its epoch, not the epoch's own first record.",
        "tests",
        (
            "kraftd.raft.leader:LeaderRole.on_applied",
            "raft.applied_offset > leader_state.epoch_start_offset",
            "raft.applied_offset >= leader_state.epoch_start_offset",
        ),
        where=("tests/stories/test_replication.py",),
    ),
    mutant(
        "apply-pagination",
        "etcd-io/raft 8ecce32",
        "What is committed is applied in slices, and the rest of a slice is forgotten.",
        "tests",
        (
            "kraftd.runtime.applier:Applier._apply",
            "self.applied_offset = batch.end_offset",
            "self.applied_offset = self._target",
        ),
        where=("tests/unit/runtime/test_applier.py",),
    ),
    mutant(
        "apply-uncommitted",
        "KAFKA-14857",
        "The state machine is given batches above the high watermark.",
        "tests",
        (
            "kraftd.runtime.applier:Applier._apply",
            "if batch.end_offset > self._target:",
            "if False:",
        ),
        where=("tests/unit/runtime/test_applier.py",),
    ),
    mutant(
        "replay-fault-fatal",
        "KAFKA-14275",
        "A standby swallows what its state machine could not apply, and leads later with a hole.",
        "tests",
        (
            "kraftd.runtime.applier:Applier._apply",
            "self._state_machine.apply(batch)",
            "try:\n                self._state_machine.apply(batch)\n            except Exception:\n                pass",
        ),
        where=("tests/unit/runtime/test_applier.py",),
    ),
    mutant(
        "controller-renounce-orphans-leader",
        "KAFKA-12631",
        "A controller whose state machine failed goes on as if nothing had happened.",
        "tests",
        (
            "kraftd.controller.quorum_controller:QuorumController.apply",
            "raise InvariantError(",
            "print(",
        ),
        where=("tests/unit/controller/test_controller.py",),
    ),
    mutant(
        "offset-prediction",
        "KAFKA-15213",
        "A controller takes the next committed batch for what it wrote itself without comparing.",
        "tests",
        (
            "kraftd.controller.uncommitted_writes:UncommittedWrites.commit",
            "if values[position:end] != write.records:",
            "if False:",
        ),
        where=(
            "tests/unit/controller/test_controller.py",
            "tests/unit/controller/test_uncommitted_writes_model.py",
        ),
    ),
    mutant(
        "read-of-the-uncommitted",
        "KAFKA-14457",
        "A controller answers reads from what it has decided, not from what is committed.",
        "tests",
        (
            "kraftd.controller.quorum_controller:QuorumController._respond",
            "operation.read(self._image, self",
            "operation.read(self._active.uncommitted.image if self._active else self._image, self",
        ),
        where=("tests/unit/controller/test_controller.py",),
    ),
    mutant(
        "withdrawn-stays",
        "D-18",
        "What the log refused stays in the image that the controller decides on.",
        "tests",
        (
            "kraftd.controller.uncommitted_writes:UncommittedWrites.withdraw",
            "self._refused.add(write)",
            "pass",
        ),
        where=(
            "tests/unit/controller/test_controller.py",
            "tests/unit/controller/test_uncommitted_writes_model.py",
        ),
    ),
    mutant(
        "everything-in-one-answer",
        "D-38",
        "A page of a listing holds all that is set: 14 bytes of a question cost the whole image.",
        "tests",
        ("kraftd.controller.response_room:PageRoom.add", "self._bytes -= size_bytes", "pass"),
        where=("tests/unit/controller/test_response_room.py",),
    ),
    mutant(
        "page-begins-with-the-last",
        "D-38",
        "The next page repeats the config that the last one ended with.",
        "tests",
        (
            "kraftd.metadata.configs_image:ConfigsImage._names_of",
            "(name for name in names.since(after) if name != after)",
            "names.since(after)",
        ),
        where=("tests/unit/controller/test_response_room.py", "tests/unit/metadata/test_sorted_keys.py"),
    ),
    mutant(
        "description-cut-in-silence",
        "D-38",
        "What does not fit into a description is left out, and nobody is told.",
        "tests",
        (
            "kraftd.controller.configs.describe_configs:_describe",
            "if not room.add(_bytes_of(found)):\n                raise RefusedError(ErrorCode.POLICY_VIOLATION, _TOO_MUCH)",
            "if not room.add(_bytes_of(found)):\n                break",
        ),
        where=("tests/unit/controller/test_response_room.py",),
    ),
    mutant(
        "answer-of-any-length",
        "D-38",
        "A response leaves that is longer than the client that asked takes.",
        "tests",
        (
            "kraftd.protocol.msgpack_codec:MsgpackCodec.encode_response",
            "if len(buffers[0]) > HEAD_BYTES_MAX:",
            "if False:",
        ),
        where=("tests/unit/protocol/test_codec.py",),
    ),
    mutant(
        "outcome-left-out",
        "D-13",
        "A change is appended although its response has no room for what became of each resource.",
        "tests",
        (
            "kraftd.controller.configs.configuration_control:_decide",
            "if not room.holds_all:",
            "if False:",
        ),
        where=("tests/unit/controller/test_response_room.py",),
    ),
    mutant(
        "line-break-in-a-name",
        "D-14",
        "A config gets a name that breaks the line it is shown in.",
        "tests",
        (
            "kraftd.controller.configs.broker_rules:_name_complaint",
            "if has_control_characters(name):",
            "if False:",
        ),
        where=("tests/unit/controller/test_configuration_control.py",),
    ),
    mutant(
        "any-claim-is-followed",
        "D-37",
        "Whoever says that it leads has the followers of every other one.",
        "tests",
        (
            "kraftd.cli.survey:_follows",
            "(said.leader_id, said.epoch) == (leader.node_id, _epoch_of(leader))",
            "True",
        ),
        where=("tests/unit/cli/test_quorum.py",),
    ),
    mutant(
        "first-claim-has-won",
        "D-37",
        "A hand-over is done when any node says that it leads a later epoch.",
        "tests",
        (
            "kraftd.cli.resign:_NewLeaderWatch.record",
            "or followers < majority_of(len(self._voters))",
            "",
        ),
        where=("tests/unit/cli/test_resign.py",),
    ),
)
