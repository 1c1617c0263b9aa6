"""Bugs of snapshots: where one is made, what it holds, and when it counts."""

from tests.sabotage.mutant import mutant

BYTES = ("tests/unit/records/test_snapshot.py",)
FILES = ("tests/unit/storage/test_snapshots.py",)
WRITING = ("tests/unit/runtime/test_snapshotter.py",)

SNAPSHOTS = (
    mutant(
        "snapshot-off-by-one",
        "KAFKA-14618",
        "A snapshot is named by the offset of its last record, not by the one after it.",
        "sim",
        (
            "kraftd.raft.snapshot_points:SnapshotPoints.take",
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
            "kraftd.raft.snapshot_points:SnapshotPoints.take",
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
            "kraftd.runtime.snapshotter:Snapshotter.applied",
            "image.transaction is not None or not image.metadata_version",
            "not image.metadata_version",
        ),
        where=WRITING,
    ),
    mutant(
        "snapshot-failure-ends-process",
        "D-20",
        "A full disk ends a node that had promised nothing of what it could not write.",
        "tests",
        (
            "kraftd.runtime.snapshotter:_write_piece",
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
)
