"""Bugs in how an election becomes durable, and in what a leader that stops does before it closes its files."""

from tests.sabotage.mutant import mutant

_LEAVING = "tests/unit/raft/test_behaviours_leaving.py"
_ANNOUNCEMENTS = "tests/unit/raft/test_behaviours_announcements.py"

_STORE = "tests/unit/storage/test_election_store.py"
_CRASHES = ("tests/crash/test_storage_crashes.py",)

SLOTS = (
    mutant(
        "vote-before-the-slot",
        "D-41",
        "A vote is answered, and its file overwritten, before the slot of the sidecar is durable: torn, both are lost.",
        "crash",
        (
            "kraftd.storage.election_store:ElectionStore.write",
            "self._sidecar.save(",
            "self._sidecar.write_unsynced(",
        ),
    ),
    mutant(
        "vote-before-the-file",
        "D-41",
        "A vote is answered once the sidecar has it: Kafka, started after a power cut, would give it again.",
        "crash",
        (
            "kraftd.storage.election_store:ElectionStore._put",
            "self._disk.sync_data(handle, self._path)",
            "pass",
        ),
    ),
    mutant(
        "older-election-believed",
        "D-41",
        "Of sidecar and file the older is believed, although the disk lost the write of the newer.",
        "tests",
        (
            "kraftd.storage.election_store:_begun",
            "if checksum_of(data) == old:\n        return election",
            "if checksum_of(data) == old:\n        return None",
        ),
        where=(f"{_STORE}::TestUnfinished::test_the_newer_of_sidecar_and_file_is_believed_and_written",),
    ),
    mutant(
        "torn-election-is-amnesia",
        "D-41",
        "A torn file is taken for a lost one, and each power cut in an election may cost a voter.",
        "crash",
        (
            "kraftd.storage.election_store:_begun",
            "return election if data is not None and is_ours and not _is_whole(data) else None",
            "return None",
        ),
    ),
    mutant(
        "one-place-for-elections",
        "D-41",
        "The file is overwritten in the same place: torn, the numbers of two elections make a third one for Kafka.",
        "tests",
        ("kraftd.storage.election_store:ElectionStore._put", "self._place ^= line != self._line", "pass"),
        where=(_STORE,),
    ),
    mutant(
        "same-election-elsewhere",
        "D-41",
        "An election that is written again goes to the other place: torn, no checksum tells that it is unfinished.",
        "tests",
        (
            "kraftd.storage.election_store:ElectionStore._put",
            "self._place ^= line != self._line",
            "self._place ^= 1",
        ),
        where=(_STORE,),
    ),
    mutant(
        "election-in-the-page-cache",
        "D-04",
        "What a killed process had written over the file and not synced is believed, and a power cut takes it.",
        "crash",
        ("kraftd.storage.disk:Disk.read_durable", "self.drop_cached(path)", "pass"),
    ),
    mutant(
        "stopped-with-spaces",
        "D-41",
        "A clean stop leaves the file with two places, which is not what Kafka writes.",
        "tests",
        ("kraftd.storage.election_store:ElectionStore.close", "if self._line is not None:", "if False:"),
        where=(f"{_STORE}::test_a_clean_stop_leaves_kafkas_bytes_and_a_start_makes_room",),
    ),
    mutant(
        "log-closed-before-the-hand-over",
        "D-09",
        "A leader that stops closes its files as soon as it has voted, while its successor needs the disk.",
        "tests",
        (
            "kraftd.raft.resignation:Resignation._awaits_successor",
            "if not self._was_handed_over or raft.is_epoch_committed:",
            "if True:",
        ),
        where=(
            f"{_LEAVING}::test_a_leader_that_stops_votes_for_its_successor_and_follows_it_up_to_its_first_commit",
        ),
    ),
    mutant(
        "successor-awaited-for-ever",
        "D-09",
        "A leader that stops waits for a successor that never commits anything up to its own deadline.",
        "tests",
        (
            "kraftd.raft.resignation:Resignation._awaits_successor",
            "return now.mono_ms < self._follows_until_ms",
            "return True",
        ),
        where=(
            f"{_LEAVING}::test_a_leader_that_stops_waits_for_its_successor_no_longer_than_a_fetch_timeout_or_its_deadline",
        ),
    ),
    mutant(
        "epoch-told-before-its-vote-is-asked-for",
        "D-09",
        "The successor answers EndQuorumEpoch with its new epoch, and the old leader writes that and its vote one by one.",
        "tests",
        (
            "kraftd.raft.announcements:Announcements.on_end_request",
            "raft.reply(event.handle, rpc.end_response(error, raft.leader_and_epoch(event.version)))\n    if error is ErrorCode.NONE and isinstance(raft.state, Follower):\n        self._campaign_as_successor(raft.state, params, now)",
            "if error is ErrorCode.NONE and isinstance(raft.state, Follower):\n        self._campaign_as_successor(raft.state, params, now)\n    raft.reply(event.handle, rpc.end_response(error, raft.leader_and_epoch(event.version)))",
        ),
        where=(f"{_ANNOUNCEMENTS}::test_the_old_leader_is_answered_before_the_next_epoch_begins",),
    ),
    mutant(
        "flushed-before-its-epoch-is-noted",
        "D-05",
        "A batch is acknowledged before leader-epoch-checkpoint has its epoch, and a restart cuts it as torn.",
        "crash",
        ("kraftd.storage.log:Log.begin_flush", "if saves_epochs:", "if False:"),
    ),
    mutant(
        "epoch-noted-at-some-time",
        "D-05",
        "A flush counts although nobody has written where the epoch of its batches begins.",
        "tests",
        ("kraftd.runtime.store:DirectoryStore.submit_flush", "self._log.save_epochs()", "pass"),
        where=(
            "tests/unit/runtime/test_store.py::test_where_an_epoch_begins_is_on_disk_before_its_flush_counts_and_after_the_sockets",
        ),
    ),
)
