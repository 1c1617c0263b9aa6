"""Bugs of what a start takes without reading it: what is taken, what is read of it, and the check afterwards."""

from tests.sabotage.mutant import mutant

TAKEN = ("tests/unit/storage/test_unread_segments.py",)
CHECKER = ("tests/unit/runtime/test_log_checker.py",)

UNREAD = (
    mutant(
        "taken-and-never-checked",
        "D-23",
        "What a start has taken is never read, and damage there is never told.",
        "sim",
        (
            "kraftd.storage.unread_segments:UnreadSegments.next_check",
            "return None if segment is None else SegmentCheck(self._disk, segment, self._epochs.entries)",
            "return None",
        ),
    ),
    mutant(
        "stop-waits-for-the-check",
        "D-23",
        "A clean stop waits until every snapshot was checked, with the loop standing still.",
        "tests",
        (
            "kraftd.runtime.controller_server:ControllerServer.stop_workers",
            "worker.finish()",
            "(worker.drain(), worker.stop())",
        ),
        where=("tests/unit/runtime/test_snapshot_check.py",),
    ),
    mutant(
        "results-are-lost-at-the-end",
        "D-17",
        "Of what a thread still did when the process was stopped, nobody takes the result.",
        "tests",
        ("kraftd.runtime.worker:Worker.finish", "self.drain()", "pass"),
        where=("tests/unit/runtime/test_worker.py",),
    ),
    mutant(
        "segment-that-is-gone-is-read-on",
        "D-22",
        "A segment that the log was cut in front of is checked to its end, and keeps its file so long.",
        "tests",
        ("kraftd.runtime.log_checker:LogChecker.run", "self._drop_what_is_gone()", "pass"),
        where=CHECKER,
    ),
    mutant(
        "covered-damage-is-a-loss",
        "D-23",
        "A node whose snapshot holds what its disk has lost does not count any more.",
        "sim",
        (
            "kraftd.runtime.log_checker:LogChecker.damaged",
            "if start is not None:",
            "if False:",
        ),
    ),
    mutant(
        "damaged-segment-is-given",
        "D-15",
        "What a start has taken unread is given to others without a look at its checksums.",
        "tests",
        (
            "kraftd.storage.log_reader:ReaderView._read_sound",
            "pass  # the sound batches before it are returned; a read that begins here raises",
            "sound = len(data)",
        ),
        where=TAKEN,
    ),
    mutant(
        "tail-from-the-unread",
        "D-15",
        "The memory that fetches are served from is filled with what nobody has read.",
        "tests",
        (
            "kraftd.storage.log_reader:ReaderView.tail",
            "or max_bytes <= 0 or segment.is_unread:",
            "or max_bytes <= 0:",
        ),
        where=TAKEN,
    ),
    mutant(
        "taken-above-the-snapshot",
        "D-23",
        "A start takes a segment that goes on behind the snapshot.",
        "tests",
        (
            "kraftd.storage.unread_segments:take_covered",
            "if later.base_offset <= min(newest.offset, recovery_point.offset)",
            "if segment.base_offset <= min(newest.offset, recovery_point.offset)",
        ),
        where=TAKEN,
    ),
    mutant(
        "taken-above-the-flushed",
        "D-04",
        "A start takes for durable what only a snapshot says was written.",
        "tests",
        (
            "kraftd.storage.unread_segments:take_covered",
            "if later.base_offset <= min(newest.offset, recovery_point.offset)",
            "if later.base_offset <= newest.offset",
        ),
        where=TAKEN,
    ),
    mutant(
        "epochs-are-believed",
        "CLN-08",
        "A start believes `leader-epoch-checkpoint` about segments that it does not read.",
        "tests",
        (
            "kraftd.storage.unread_segments:take_covered",
            "covered and not _epochs_agree(disk, [segment for segment, _ in covered], newest, epochs)",
            "False",
        ),
        where=TAKEN,
    ),
    mutant(
        "stale-index-is-believed",
        "LOG-15",
        "A read of an unread segment begins wherever its index file says.",
        "tests",
        (
            "kraftd.storage.log_reader:ReaderView._start_before",
            "if segment.base_offset <= head.base_offset <= head.last_offset == segment.base_offset + last:",
            "if True:",
        ),
        where=TAKEN,
    ),
    mutant(
        "check-of-what-was-cut",
        "D-22",
        "A check tells of damage in a segment that is not the log's any more.",
        "tests",
        (
            "kraftd.storage.unread_segments:UnreadSegments.finish",
            "return check.damage if is_needed else None",
            "return check.damage",
        ),
        where=TAKEN,
    ),
    mutant(
        "check-lets-go-of-its-file",
        "D-22",
        "The file of a segment goes while a check reads it.",
        "tests",
        (
            "kraftd.storage.unread_segments:SegmentCheck.__init__",
            "segment.pins.count += 1",
            "segment.pins.count += 0",
        ),
        where=TAKEN,
    ),
    mutant(
        "cut-is-asked-for-once",
        "D-23",
        "A cut that was refused for a download is forgotten, and the damage stays.",
        "tests",
        (
            "kraftd.runtime.log_checker:LogChecker._ask",
            "self._ask_at_ms = now.mono_ms + ASK_INTERVAL_MS",
            "self._ask_at_ms = NEVER_MS",
        ),
        where=CHECKER,
    ),
    mutant(
        "bad-snapshot-covers",
        "D-06",
        "Damage counts for nothing because of a snapshot that is damaged itself.",
        "tests",
        (
            "kraftd.runtime.log_checker:LogChecker._snapshot_over",
            "if one.offset >= end_offset and self._is_usable(one))",
            "if one.offset >= end_offset)",
        ),
        where=CHECKER,
    ),
    mutant(
        "check-in-the-way",
        "D-24",
        "The check reads on while others wait for the disk.",
        "tests",
        (
            "kraftd.runtime.log_checker:LogChecker._read_on",
            "if self._worker.pending:",
            "if False:",
        ),
        where=CHECKER,
    ),
)
