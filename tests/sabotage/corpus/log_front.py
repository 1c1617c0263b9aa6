"""Bugs of where a log begins: cut at a snapshot, replaced by one, and what is kept of it."""

from tests.sabotage.mutant import mutant

FRONT = ("tests/unit/storage/test_log_front.py",)
DIRECTORY = ("tests/unit/storage/test_node_snapshots.py",)
FILES = ("tests/unit/storage/test_snapshot_files.py",)
CLEANER = ("tests/unit/runtime/test_log_cleaner.py",)
EXPORTS = ("tests/unit/runtime/test_log_export.py",)
BOUNDS = ("tests/unit/raft/test_retention.py",)

LOG_FRONT = (
    mutant(
        "retention-hole",
        "KAFKA-14238",
        "A cut takes a segment too many, and there is a hole behind the snapshot.",
        "crash",
        (
            "kraftd.storage.segment_chain:SegmentChain.retire_front",
            "self.segments[1].base_offset <= start_offset:",
            "self.segments[0].base_offset <= start_offset:",
        ),
    ),
    mutant(
        "cut-takes-its-snapshot",
        "D-22",
        "With the front of the log goes the snapshot that holds it.",
        "tests",
        (
            "kraftd.storage.snapshot_files:SnapshotFiles.remove_before",
            "info.id.log_order < start.log_order]",
            "info.id.log_order <= start.log_order]",
        ),
        where=DIRECTORY,
    ),
    mutant(
        "damaged-snapshots-stay",
        "SNAP-24",
        "What does not count stays for ever, with a line at each start.",
        "tests",
        (
            "kraftd.storage.snapshot_files:SnapshotFiles.remove_before",
            "if snapshot_id.offset < start.offset and is_file:",
            "if False:",
        ),
        where=DIRECTORY,
    ),
    mutant(
        "damaged-older-snapshot-counts",
        "D-23",
        "An older snapshot turns out damaged, and the log is cut at it all the same.",
        "tests",
        (
            "kraftd.runtime.snapshot_check:SnapshotCheck._on_read",
            "self._snapshots.mark_damaged(snapshot_id)",
            "pass",
        ),
        where=("tests/unit/runtime/test_snapshot_check.py",),
    ),
    mutant(
        "damaged-snapshots-go",
        "D-23",
        "A start removes what the disk may give back tomorrow, although the log reaches back to it.",
        "tests",
        ("kraftd.storage.opening:sort_snapshots", "elif snapshot_id.offset < first_offset:", "elif True:"),
        where=DIRECTORY,
    ),
    mutant(
        "cut-past-flushed",
        "D-22",
        "The log is cut at what a power failure may take from it.",
        "tests",
        (
            "kraftd.storage.log:Log.cut_front",
            "start.offset <= self.flushed_offset:",
            "start.offset <= self.end_offset:",
        ),
        where=FRONT,
    ),
    mutant(
        "cut-past-applied",
        "CLN-05",
        "What is not applied here yet is cut off.",
        "tests",
        (
            "kraftd.raft.retention:choose_start",
            "min([safe_offset, *(snapshot_id.offset for snapshot_id in leased.voters)])",
            "min([1 << 62, *(snapshot_id.offset for snapshot_id in leased.voters)])",
        ),
        where=BOUNDS,
    ),
    mutant(
        "cut-what-is-downloaded",
        "D-22",
        "A snapshot goes while a replica downloads it, which begins anew for ever.",
        "tests",
        (
            "kraftd.raft.retention:choose_start",
            "min([safe_offset, *(snapshot_id.offset for snapshot_id in leased.voters)])",
            "safe_offset",
        ),
        where=BOUNDS,
    ),
    mutant(
        "cut-raises-generation",
        "D-22",
        "Each cut voids the reads and flushes that are under way.",
        "tests",
        (
            "kraftd.storage.log:Log.cut_front",
            "self._start = start",
            "self._start = start\n    self.generation += 1",
        ),
        where=FRONT,
    ),
    mutant(
        "cut-under-reader",
        "D-22",
        "A file is closed while another thread reads it, and the next one to open a file gets its handle.",
        "tests",
        (
            "kraftd.storage.segment_chain:SegmentChain.take_removal",
            "free = [segment for segment in self._retired if not segment.pins.count]",
            "free = list(self._retired)",
        ),
        (
            "kraftd.storage.segment_chain:SegmentChain.take_removal",
            "self._retired = [segment for segment in self._retired if segment.pins.count]",
            "self._retired = []",
        ),
        where=FRONT,
    ),
    mutant(
        "export-holds-nothing",
        "D-22",
        "A log that is cut during an export takes its files away, and the client begins anew.",
        "tests",
        (
            "kraftd.runtime.log_export:_Export.touch",
            "(self._log.reader_view().pin(), self._snapshots.hold())",
            "()",
        ),
        where=EXPORTS,
    ),
    mutant(
        "export-holds-for-ever",
        "D-24",
        "Whoever asks for a byte now and then keeps what was cut on the disk.",
        "tests",
        (
            "kraftd.runtime.log_export:_Export.touch",
            "min(now_ms + IDLE_MS, self._last_ms)",
            "now_ms + IDLE_MS",
        ),
        (
            "kraftd.runtime.log_export:_Export.touch",
            "if not self.void and now_ms < self._last_ms:",
            "if not self.void:",
        ),
        where=EXPORTS,
    ),
    mutant(
        "pin-forgotten",
        "D-22",
        "A cold read lets its files go before it has ended.",
        "tests",
        (
            "kraftd.runtime.store:DirectoryStore.read_cold",
            "self._log.reader_view().pin()",
            "self._log.reader_view()",
        ),
        ("kraftd.runtime.store:DirectoryStore.read_cold", "view.release()", "pass"),
        where=("tests/unit/runtime/test_store.py",),
    ),
    mutant(
        "pin-never-released",
        "D-22",
        "Whoever has read a segment once keeps its file, and the disk fills.",
        "tests",
        ("kraftd.runtime.store:DirectoryStore.read_cold", "view.release()", "pass"),
        where=("tests/unit/runtime/test_store.py",),
    ),
    mutant(
        "removed-files-are-kept",
        "CLN-06",
        "What was let go stays under its other name, and the disk fills.",
        "tests",
        (
            "kraftd.runtime.log_cleaner:LogCleaner._remove",
            "if removal.handles or removal.paths:",
            "if False:",
        ),
        where=CLEANER,
    ),
    mutant(
        "cleaned-behind-a-slow-applier",
        "CLN-05",
        "What is flushed is cut, be it applied or not.",
        "tests",
        (
            "kraftd.runtime.log_cleaner:LogCleaner._choose",
            "min(log.flushed_offset, self._applied_offset())",
            "log.flushed_offset",
        ),
        where=CLEANER,
    ),
    mutant(
        "epoch-lost-with-the-front",
        "CLN-08",
        "The epoch that began before the log's new start is forgotten.",
        "tests",
        (
            "kraftd.storage.epoch_checkpoint:entries_from",
            "(EpochEntry(entries[slots - 1].epoch, start_offset), *entries[slots:])",
            "entries[slots:]",
        ),
        where=FRONT,
    ),
    mutant(
        "hint-not-moved-by-install",
        "D-21",
        "A snapshot takes the log's place before what is said of its flushed offset moves: a crash makes it damage.",
        "tests",
        (
            "kraftd.storage.log:Log._empty_at",
            "self._recovery_points.move_recovery_point(snapshot)",
            "pass",
        ),
        where=(
            "tests/crash/test_storage_crashes.py::test_an_installation_leaves_the_old_log_or_the_new_one",
        ),
    ),
    mutant(
        "install-keeps-epochs",
        "D-21",
        "The epochs of the log that was replaced stay.",
        "tests",
        ("kraftd.storage.log:Log._empty_at", "self._epochs.clear()", "pass"),
        where=FRONT,
    ),
    mutant(
        "install-during-flush",
        "D-21",
        "A snapshot takes the log's place while the old one is being flushed.",
        "tests",
        (
            "kraftd.storage.log:Log.replace",
            'self._check_barrier("a snapshot in the log\'s place", generation)',
            "pass",
        ),
        where=FRONT,
    ),
    mutant(
        "empty-log-of-epoch-0",
        "LOG-12",
        "A log that begins and ends at a snapshot says that its last record is of epoch 0.",
        "tests",
        (
            "kraftd.storage.log:Log.last_epoch",
            "self._epochs.last_epoch or self._start.epoch",
            "self._epochs.last_epoch",
        ),
        where=FRONT,
    ),
    mutant(
        "start-keeps-what-differs",
        "D-23",
        "A log that holds another record before a snapshot's end is taken for its continuation.",
        "tests",
        (
            "kraftd.storage.log_start:_is_replaced_by",
            "return base_offset < snapshot.offset and",
            "return False and",
        ),
        where=FRONT,
    ),
    mutant(
        "lost-records-pass-for-a-snapshot",
        "D-05",
        "A snapshot takes the place of a log that has lost what was flushed behind it.",
        "tests",
        (
            "kraftd.storage.log_start:_is_replaced_by",
            "return recovered.end_offset <= snapshot.offset",
            "return True",
        ),
        where=FRONT,
    ),
    mutant(
        "damaged-snapshot-is-listed",
        "D-20",
        "A snapshot is believed for its header, and what follows it is damaged.",
        "tests",
        ("kraftd.storage.snapshot_files:survey_snapshots", "is_proof=not found", "is_proof=False"),
        where=FILES,
    ),
    mutant(
        "set-aside-and-counted",
        "D-06",
        "A node whose only snapshot is damaged begins anew, and votes as if it had never promised anything.",
        "tests",
        ("kraftd.storage.opening:keep_only_usable_log", "_record_amnesia(sidecar, text)", "pass"),
        where=DIRECTORY,
    ),
    mutant(
        "committed-hint-ahead",
        "D-23",
        "A start takes for committed what it had heard of and not flushed.",
        "tests",
        (
            "kraftd.storage.sidecar:Sidecar.high_watermark",
            "min(self._high_watermark, self._recovery_point.offset)",
            "self._high_watermark",
        ),
        where=DIRECTORY,
    ),
    mutant(
        "committed-hint-of-another-program",
        "D-23",
        "After Kafka has written the directory, what was known before is still believed.",
        "tests",
        (
            "kraftd.storage.sidecar:Sidecar.move_recovery_point",
            "min(self._high_watermark, at.offset) if at is not None else 0",
            "self._high_watermark",
        ),
        where=DIRECTORY,
    ),
)
