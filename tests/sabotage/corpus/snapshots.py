"""Bugs of snapshots: where one is made, what it holds, and when it counts."""

from tests.sabotage.mutant import mutant

BYTES = ("tests/unit/records/test_snapshot.py",)
FILES = ("tests/unit/storage/test_snapshots.py",)
KEPT = ("tests/unit/storage/test_snapshot_files.py",)
POINTS = ("tests/unit/raft/test_snapshot_points.py",)
WRITING = ("tests/unit/runtime/test_snapshotter.py",)
LOADING = ("tests/unit/runtime/test_snapshot_loader.py",)
APPLYING = ("tests/unit/runtime/test_applier.py",)
SETTLING = ("tests/unit/metadata/test_settling.py",)
CONTROLLER = ("tests/unit/controller/test_controller.py",)
STARTING = ("tests/unit/raft/test_behaviours_starting.py",)

SNAPSHOTS = (
    mutant(
        "snapshot-off-by-one",
        "KAFKA-14618",
        "A snapshot is named by the offset of its last record, not by the one after it.",
        "sim",
        (
            "kraftd.raft.snapshot_points:end_of",
            "OffsetAndEpoch(batch.end_offset, batch.epoch)",
            "OffsetAndEpoch(batch.end_offset - 1, batch.epoch)",
        ),
    ),
    mutant(
        "snapshot-batch-align",
        "KAFKA-14619",
        "A snapshot ends in the middle of a batch.",
        "sim",
        (
            "kraftd.raft.snapshot_points:end_of",
            "OffsetAndEpoch(batch.end_offset, batch.epoch)",
            "OffsetAndEpoch(batch.base_offset + 1, batch.epoch)",
        ),
    ),
    mutant(
        "snapshot-starvation",
        "KAFKA-14300",
        "Each new point begins the wait anew, and a leader under load never writes.",
        "tests",
        (
            "kraftd.runtime.snapshotter:Snapshotter.applied",
            "if before is None else before.since_ms",
            "if True else 0",
        ),
        where=WRITING,
    ),
    mutant(
        "lost-snapshots-stay-lost",
        "D-19",
        "A leader whose snapshots went bad gives nobody the state before its log, until the next point.",
        "tests",
        (
            "kraftd.runtime.snapshotter:Snapshotter.applied",
            "and self._lacks_one()",
            "and False",
        ),
        where=WRITING,
    ),
    mutant(
        "lost-snapshots-move-the-points",
        "D-19",
        "One that replaces lost snapshots moves the later points of this node alone.",
        "tests",
        (
            "kraftd.runtime.snapshotter:Snapshotter.applied",
            "end_of(batch) if replaces_lost else self._points.take(batch)",
            "self._points.take(batch)",
        ),
        where=WRITING,
    ),
    mutant(
        "snapshot-of-the-wall-clock",
        "D-19",
        "Batches carry the time at which they were written, and no two files of one id are equal.",
        "sim",
        (
            "kraftd.runtime.snapshotter:Snapshotter._begin",
            "timestamp_ms = point.last_contained_timestamp_ms",
            "timestamp_ms = now.wall_ms",
        ),
    ),
    mutant(
        "snapshot-of-the-present",
        "D-19",
        "What is written is the image when the node's turn comes, not that of the point.",
        "sim",
        (
            "kraftd.runtime.snapshotter:Snapshotter._begin",
            "to_values(kept.image)",
            "to_values(self._image())",
        ),
    ),
    mutant(
        "snapshot-in-transaction",
        "D-19",
        "A snapshot is made inside a transaction, and whoever loads it misses what was pending.",
        "tests",
        (
            "kraftd.runtime.snapshotter:_why_impossible",
            "if image.transaction is not None:",
            "if False:",
        ),
        where=WRITING,
    ),
    mutant(
        "snapshot-failure-ends-process",
        "D-20",
        "A full disk ends a node that had promised nothing of what it could not write.",
        "tests",
        (
            "kraftd.runtime.snapshotter:write_piece",
            "return error",
            "raise",
        ),
        where=WRITING,
    ),
    mutant(
        "footer-not-required",
        "Q-21",
        "A file that was cut between two batches passes for a whole snapshot.",
        "tests",
        (
            "kraftd.records.snapshot:SnapshotDecoder.finish",
            "if problem := self._check.missing():",
            "if problem := '':",
        ),
        where=BYTES,
    ),
    mutant(
        "gap-in-a-snapshot",
        "SNAP-17",
        "A batch of a snapshot may be missing.",
        "tests",
        (
            "kraftd.records.snapshot:SnapshotCheck._gap",
            "if self._is_after_damage or view.base_offset == self.end:",
            "if view.base_offset >= self.end:",
        ),
        where=BYTES,
    ),
    mutant(
        "snapshot-is-not-read-back",
        "D-20",
        "A snapshot counts although the disk holds something else.",
        "tests",
        (
            "kraftd.storage.snapshots:SnapshotWriter._prove",
            "prove(self._part, self._id, self._read)",
            "(self.size_bytes, 0)",
        ),
        where=FILES,
    ),
    mutant(
        "snapshot-renamed-before-sync",
        "D-20",
        "A snapshot has its name before its bytes are on the disk.",
        "crash",
        (
            "kraftd.storage.snapshots:SnapshotWriter.append",
            'self._own("fdatasync", lambda: fs.fdatasync(self._handle))',
            "pass",
        ),
        (
            "kraftd.storage.snapshots:SnapshotWriter.freeze",
            'self._own("fsync", lambda: fs.fsync(handle))',
            "pass",
        ),
    ),
    mutant(
        "snapshot-name-is-not-synced",
        "D-20",
        "A snapshot counts whose name a power cut takes.",
        "crash",
        (
            "kraftd.storage.snapshots:SnapshotWriter.freeze",
            "self._disk.sync_directory(self._directory)",
            "pass",
        ),
    ),
    mutant(
        "part-counts",
        "SNAP-24",
        "What was being written when the process ended stays for ever.",
        "crash",
        ("kraftd.storage.snapshots:remove_leftovers", "disk.remove(directory / name)", "pass"),
    ),
    mutant(
        "restore-at-offset-zero",
        "D-18",
        "A restored state machine does not know the offset of what it holds.",
        "sim",
        (
            "kraftd.controller.quorum_controller:QuorumController._restored",
            "self._image, self._applied_offset = image, at.offset",
            "self._image = image",
        ),
    ),
    mutant(
        "snapshot-over-image",
        "KAFKA-14894",
        "A snapshot is loaded over what was there: what was deleted meanwhile lives on.",
        "tests",
        (
            "kraftd.controller.quorum_controller:QuorumController.restore",
            "return ImageRestore(at, self._restored)",
            "restore = ImageRestore(at, self._restored)\n"
            "    restore._builder = type(restore._builder)(self._image)\n"
            "    return restore",
        ),
        where=CONTROLLER,
    ),
    mutant(
        "settled-in-one-piece",
        "D-35",
        "What is left of a restore once all records were added is done in one piece.",
        "tests",
        (
            "kraftd.runtime.snapshot_loader:SnapshotLoader._step",
            "if load.restore.settle():",
            "while load.restore.settle():\n        pass\n    if False:",
        ),
        where=LOADING,
    ),
    mutant(
        "moves-merged-at-once",
        "D-35",
        "A step of settling merges all that a broker gained, as many as that are.",
        "tests",
        (
            "kraftd.metadata.parts.topics.broker_index:BrokerIndexBuilder._merge",
            "added[:max_added]",
            "added[:]",
        ),
        where=SETTLING,
    ),
    mutant(
        "names-sorted-at-once",
        "D-35",
        "The names of topics are left to be sorted when the image of a snapshot is made.",
        "tests",
        (
            "kraftd.metadata.parts.topics.builder:TopicsBuilder.settling",
            "if not self._base_names:",
            "if False:",
        ),
        where=SETTLING,
    ),
    mutant(
        "settled-moves-twice",
        "D-35",
        "Of a broker's moves that were merged in part, the first are merged again, and the last never.",
        "tests",
        (
            "kraftd.metadata.parts.topics.broker_index:BrokerIndexBuilder._merge",
            "del added[: len(now)], removed[:]",
            "del added[-len(now) :], removed[:]",
        ),
        where=SETTLING,
    ),
    mutant(
        "applied-index-atomic",
        "etcd-io/etcd 13766",
        "The applied offset is a snapshot's before the state is.",
        "tests",
        (
            "kraftd.runtime.applier:Applier.load_snapshot",
            'self._cold, self._unreadable = [], ""',
            'self._cold, self._unreadable, self.applied_offset = [], "", snapshot_id.offset',
        ),
        where=APPLYING,
    ),
    mutant(
        "empty-follower",
        "KAFKA-15076",
        "A start applies the whole log though it has a snapshot.",
        "sim",
        (
            "kraftd.runtime.controller_server:ControllerServer.start",
            "if snapshots := self._directory.usable_snapshots:",
            "if False:",
        ),
    ),
    mutant(
        "behind-node-leads",
        "D-23",
        "A node that restores a large snapshot campaigns like the others, and the quorum waits for it.",
        "tests",
        (
            "kraftd.raft.state_changes:initial_state",
            "BEHIND_DELAY_MS if raft.is_behind else 0",
            "0",
        ),
        where=STARTING,
    ),
    mutant(
        "start-knows-no-high-watermark",
        "D-23",
        "A start forgets that its snapshot is committed: it truncates below it, and does not know how far it is behind.",
        "tests",
        ("kraftd.raft.node:RaftNode.start", "raft.commit(self._committed_before)", "raft.commit(-1)"),
        where=STARTING,
    ),
    mutant(
        "read-from-before-the-snapshot",
        "LSN-06",
        "Batches that were read of the former log are applied behind the snapshot that replaced it.",
        "tests",
        (
            "kraftd.runtime.applier:Applier._cold_read",
            "if self._loader.is_loading or offset != self.applied_offset:",
            "if False:",
        ),
        where=APPLYING,
    ),
    mutant(
        "damaged-snapshot-counts",
        "D-23",
        "A snapshot that lacks its end is restored.",
        "tests",
        ("kraftd.runtime.snapshot_loader:SnapshotLoader._finish", "load.decoder.finish()", "pass"),
        where=LOADING,
    ),
    mutant(
        "restored-before-it-is-proved",
        "D-23",
        "The state machine takes over a snapshot's state before its last bytes were looked at.",
        "tests",
        (
            "kraftd.runtime.snapshot_loader:SnapshotLoader._finish",
            "load.decoder.finish()",
            "load.restore.finish()\n    load.decoder.finish()",
        ),
        where=LOADING,
    ),
    mutant(
        "snapshot-below-the-log",
        "D-23",
        "In place of a damaged snapshot one is loaded that the log does not reach back to.",
        "tests",
        (
            "kraftd.runtime.snapshot_loader:SnapshotLoader._replace_damaged",
            "if max(start, self._applied_offset) <= info.id.offset < snapshot_id.offset",
            "if info.id.offset < snapshot_id.offset",
        ),
        where=LOADING,
    ),
    mutant(
        "points-from-before-the-load",
        "D-19",
        "Behind a loaded snapshot points are counted as before it: the first batch is one.",
        "tests",
        (
            "kraftd.runtime.snapshotter:Snapshotter.loaded",
            "self._points.skip_to(SnapshotPoint(info.id, info.last_contained_timestamp_ms))",
            "pass",
        ),
        where=WRITING,
    ),
    mutant(
        "stale-snapshot-write",
        "Redpanda 9c024b2",
        "An image from before a loaded snapshot is written behind it, and counts as the newest.",
        "tests",
        ("kraftd.runtime.snapshotter:Snapshotter._note", "self.newest.id.offset < info.id.offset", "True"),
        where=WRITING,
    ),
    mutant(
        "start-from-a-snapshot-ahead",
        "D-23",
        "A start restores a snapshot that the log does not reach: the records between the two are never applied.",
        "tests",
        (
            "kraftd.storage.node_directory:NodeDirectory.usable_snapshots",
            "if info.id.offset <= self.log.end_offset",
            "if info.id.offset >= 0",
        ),
        where=("tests/unit/storage/test_node_snapshots.py",),
    ),
    mutant(
        "snapshot-large",
        "KAFKA-14222",
        "A snapshot of more than two pieces is never finished: what was written of it still counts as waiting.",
        "tests",
        ("kraftd.runtime.snapshotter:Snapshotter._written", "write.queued -= 1", "pass"),
        where=WRITING,
    ),
    mutant(
        "snapshot-trigger",
        "KAFKA-13968",
        "Once one is due, a snapshot is made at each batch.",
        "tests",
        (
            "kraftd.raft.snapshot_points:SnapshotPoints.take",
            "= batch.end_offset, batch.timestamp_ms, 0",
            "= batch.end_offset, batch.timestamp_ms, self._bytes",
        ),
        where=POINTS,
    ),
    mutant(
        "snapshot-offset-meta",
        "Kafka 11386",
        "A snapshot says that it stands for what was written up to now, not up to its last record.",
        "sim",
        (
            "kraftd.runtime.snapshotter:Snapshotter._begin",
            "last_contained_timestamp_ms=timestamp_ms",
            "last_contained_timestamp_ms=now.wall_ms",
        ),
    ),
    mutant(
        "snapshot-gc",
        "KAFKA-12205",
        "Old snapshots stay for ever, and the disk fills.",
        "sim",
        (
            "kraftd.storage.snapshot_files:SnapshotFiles.remove_before",
            "self.remove(gone)",
            "pass",
        ),
    ),
    mutant(
        "cleaner-never-looks",
        "CLN-02",
        "The cleaner waits for its minute, however much is written until then.",
        "sim",
        ("kraftd.runtime.log_cleaner:LogCleaner.snapshot_written", "self._due_ms = 0", "pass"),
    ),
    mutant(
        "retention-by-age-forgotten",
        "CLN-03",
        "A snapshot may become as old as it likes, as long as there is room.",
        "sim",
        (
            "kraftd.raft.retention:Retention.is_exceeded_by",
            "or 0 <= self.age_ms < age_ms",
            "",
        ),
    ),
    mutant(
        "revert-after-control-batch",
        "KAFKA-13100",
        "A control batch does not count as applied: the next controller ends at the first record behind it.",
        "sim",
        (
            "kraftd.controller.quorum_controller:QuorumController.apply",
            "self._applied_offset = batch.end_offset",
            "self._applied_offset = batch.end_offset if batch.records else self._applied_offset",
        ),
    ),
    mutant(
        "bootstrap-format",
        "KAFKA-14183",
        "A bootstrap file without its footer is read, and a new cluster begins with half of its levels.",
        "tests",
        ("kraftd.storage.bootstrap:read_bootstrap", "decoder.finish()", "pass"),
        where=("tests/unit/storage/test_bootstrap.py",),
    ),
    mutant(
        "double-snapshot",
        "etcd-io/etcd 18055",
        "A snapshot begins while one is being written, which is never finished then.",
        "tests",
        (
            "kraftd.runtime.snapshotter:Snapshotter.run",
            "if self._write is None:\n        self._begin(now)",
            "if self._kept is not None:\n        self._begin(now)",
        ),
        where=WRITING,
    ),
    mutant(
        "corrupt-is-not-empty",
        "NATS 4410",
        "An empty file passes for the snapshot of an empty cluster.",
        "tests",
        (
            "kraftd.records.snapshot:SnapshotCheck.missing",
            "if self.is_complete:",
            "if self.is_complete or not self.end:",
        ),
        where=BYTES,
    ),
    mutant(
        "snapshot-gone-at-start",
        "KAFKA-13098",
        "A snapshot that goes between the listing and the opening is damage, for which others are not used.",
        "tests",
        ("kraftd.storage.snapshot_files:survey_snapshots", "if disk.fs.exists(path):", "if True:"),
        where=KEPT,
    ),
)
