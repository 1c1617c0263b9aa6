"""Bugs of the disk: what is written when, what a crash leaves, and what a bad byte means."""

from tests.sabotage.mutant import mutant

CRASHES = ("tests/crash/test_storage_crashes.py",)

STORAGE = (
    mutant(
        "dirsync-new-segment",
        "KAFKA-3968",
        "The directory of a new segment is not synced, and a power cut takes the whole file.",
        "crash",
        (
            "kraftd.storage.segment_chain:SegmentChain.add",
            "self._disk.sync_directory(self._directory)",
            "pass",
        ),
        ("kraftd.storage.segment_chain:SegmentChain.add", "self.names_dirty = True", "pass"),
    ),
    mutant(
        "rename-before-fsync",
        "KAFKA-15312",
        "A small file is renamed before it is synced, and a power cut leaves it empty.",
        "crash",
        ("kraftd.storage.disk:Disk.replace", "self.sync(handle, scratch)", "pass"),
    ),
    mutant(
        "state-replace-window",
        "ClickHouse 111454",
        "The old file is removed before the new one has its name, and a crash between leaves neither.",
        "crash",
        (
            "kraftd.storage.disk:Disk.replace",
            "self.rename(scratch, path)",
            "self.remove(path)\n"
            "    self.sync_directory(path.parent)\n"
            '    self._change("rename", scratch, lambda: self.fs.rename(scratch, path))',
        ),
    ),
    mutant(
        "rename-is-not-synced",
        "D-02",
        "The election file has its new name only in memory when the vote is answered.",
        "crash",
        ("kraftd.storage.disk:Disk.replace", "self.sync_directory(path.parent)", "pass"),
    ),
    mutant(
        "lazyfs-kill",
        "etcd-io/etcd 14143",
        "What a killed process left in the page cache is taken for durable by the next one.",
        "crash",
        (
            "kraftd.storage.recovery:_disk_agrees",
            "disk.sync(segment.handle, segment.path)",
            "pass",
        ),
    ),
    mutant(
        "clean-looking-pages",
        "D-04",
        "After a failed sync the page cache is believed, which the disk does not agree with.",
        "tests",
        (
            "kraftd.storage.recovery:_disk_agrees",
            "disk.drop_cache(segment.handle, segment.path)",
            "pass",
        ),
        where=("tests/unit/storage/test_recovery.py",),
    ),
    mutant(
        "cut-is-not-synced",
        "D-03",
        "A truncated file is not synced before the next append.",
        "crash",
        (
            "kraftd.storage.segment_chain:SegmentChain._truncate_segment",
            "self._disk.sync(segment.handle, segment.path)",
            "pass",
        ),
    ),
    mutant(
        "truncate-order",
        "KAFKA-12153",
        "The log is cut before what is said of its flushed offset, and a crash between makes the cut look like damage.",
        "crash",
        (
            "kraftd.storage.log:Log.truncate",
            "self._recovery_points.move_recovery_point(at)",
            "pass",
        ),
        (
            "kraftd.storage.log:Log.truncate",
            "self._epochs.truncate(new_end)",
            "self._epochs.truncate(new_end)\n"
            "    if self._recovery_points is not None:\n"
            "        self._recovery_points.move_recovery_point(OffsetAndEpoch(flushed, self._epochs.epoch_of(flushed - 1)))",
        ),
    ),
    mutant(
        "recovery-point-before-sync",
        "D-05",
        "The flushed offset is noted before the flush has run.",
        "crash",
        (
            "kraftd.storage.log:Log.append",
            "self.end_offset = end_offset",
            "self.end_offset = end_offset\n"
            "    if self._recovery_points is not None:\n"
            "        self._recovery_points.raise_recovery_point(OffsetAndEpoch(end_offset, last.epoch))\n"
            "        self._recovery_points.sync()",
        ),
    ),
    mutant(
        "flush-the-last-segment-only",
        "D-03",
        "A flush syncs the active segment, and not the one that was closed since the last flush.",
        "crash",
        (
            "kraftd.storage.log:Log.begin_flush",
            "for segment in reversed(self._segments):",
            "for segment in self._segments[-1:]:",
        ),
    ),
    mutant(
        "one-slot",
        "D-05",
        "The sidecar writes over the only good copy of itself.",
        "crash",
        (
            "kraftd.storage.sidecar:Sidecar._write",
            "slot = 1 - self._durable_slot",
            "slot = self._durable_slot",
        ),
    ),
    mutant(
        "start-counter-stays",
        "D-05",
        "A start takes the counter of the one before it, and a restored copy cannot be told from the original.",
        "crash",
        (
            "kraftd.storage.node_directory:NodeDirectory._assess_health",
            "start_counter=remembered.start_counter + 1",
            "start_counter=max(1, remembered.start_counter)",
        ),
    ),
    mutant(
        "short-write",
        "D-03",
        "A write that took only a part is taken for whole.",
        "tests",
        ("kraftd.storage.disk:Disk.write_all", "if written != size_bytes:", "if False:"),
        ("kraftd.storage.disk:Disk.write", "if written != len(data):", "if False:"),
        where=CRASHES,
    ),
    mutant(
        "failure-is-retried",
        "D-03",
        "After a failed sync the disk is asked again, and answers that all is well.",
        "tests",
        ("kraftd.storage.disk:Disk._fail_with", "self.failure = failure", "pass"),
        where=CRASHES,
    ),
    mutant(
        "midlog-bitrot-vote",
        "design of Kafka's LogLoader",
        "A bad byte in the middle of the log cuts it there, and the shorter log votes for a stale candidate.",
        "tests",
        (
            "kraftd.storage.log_scan:LogScan._handle_bad_bytes",
            "if self._recovery_point is not None and self._next >= self._recovery_point.offset:",
            "if True:",
        ),
        where=("tests/unit/storage/test_recovery.py",),
    ),
    mutant(
        "vote-file-lost",
        "design of Kafka's FileQuorumStateStore",
        "An election file that is gone is taken for one that never was, and votes are given twice.",
        "tests",
        (
            "kraftd.storage.election_store:judge_election",
            "is_expected = local_state is None or checksum in {local_state.old_election, local_state.new_election}",
            "is_expected = data is None or local_state is None or checksum in {local_state.old_election, local_state.new_election}",
        ),
        where=("tests/unit/storage/test_election_store.py",),
    ),
    mutant(
        "vote-file-bitflip",
        "design of Kafka's FileQuorumStateStore",
        "An election file with a flipped digit is believed.",
        "tests",
        (
            "kraftd.storage.election_store:judge_election",
            "is_expected = local_state is None or checksum in {local_state.old_election, local_state.new_election}",
            "is_expected = data is not None",
        ),
        where=("tests/unit/storage/test_election_store.py",),
    ),
    mutant(
        "qs-unknown-version",
        "KAFKA-15412",
        "An election file of an unknown version is read as if it were version 0.",
        "tests",
        (
            "kraftd.records.quorum_state:decode",
            "if version == 0:",
            "if version != 1:",
        ),
        where=("tests/unit/storage/test_election_store.py", "tests/unit/records/test_small_files.py"),
    ),
    mutant(
        "double-open",
        "KAFKA-14557",
        "Two processes open the same directory and write into one log.",
        "tests",
        ("kraftd.storage.opening:take_lock", "if not disk.fs.lock(handle):", "if False:"),
        where=("tests/unit/storage/test_node_directory.py",),
    ),
    mutant(
        "start-without-snapshot",
        "KAFKA-14240",
        "A log that begins above offset 0 is served, although nobody has the state before it.",
        "tests",
        ("kraftd.storage.opening:unusable_log", "if start_offset == 0 or", "if True or"),
        where=("tests/unit/storage/test_node_directory.py",),
    ),
    mutant(
        "io-task-death",
        "KAFKA-14644",
        "A job of the flush thread fails, nobody hears of it, and the process lives on as a shell.",
        "tests",
        ("kraftd.runtime.worker:Worker._finish", "raise finished", "return"),
        where=("tests/unit/runtime/test_worker.py",),
    ),
    mutant(
        "config-bounds",
        "KAFKA-18837",
        "A negative timeout is accepted.",
        "tests",
        ("kraftd.runtime.config_values:parse_integer", "if not low <= value <= high:", "if value > high:"),
        where=("tests/unit/runtime/test_config.py",),
    ),
    mutant(
        "downgrade-state-file",
        "KAFKA-14371",
        "A field that seems unused is left out of the election file, and older versions cannot read it.",
        "tests",
        ("kraftd.records.quorum_state:encode", '{"clusterId": "", **common,', "{**common,"),
        where=("tests/unit/records/test_small_files.py",),
    ),
    mutant(
        "flush-is-not-waited-for",
        "D-03",
        "A truncation does not wait for the flush that runs.",
        "tests",
        ("kraftd.runtime.store:DirectoryStore.truncate", "self.drain()", "pass"),
        where=("tests/unit/runtime/test_store.py",),
    ),
    mutant(
        "barrier-after-its-message",
        "D-02",
        "What must be durable first is carried out after everything else.",
        "tests",
        (
            "kraftd.runtime.effect_executor:EffectExecutor.run",
            "for effect in effects:",
            "for effect in reversed(effects):",
        ),
        where=("tests/unit/runtime/test_effect_executor.py",),
    ),
)
