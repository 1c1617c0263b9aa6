"""Bugs of snapshots that go bad on nodes that run, of slow links to them, and what a review planted beside them."""

from tests.sabotage.mutant import Mutant, mutant

_TRANSFER = ("tests/unit/runtime/test_snapshot_transfer.py",)
_LOADER = ("tests/unit/runtime/test_snapshot_loader.py",)
_FETCH = ("tests/unit/raft/test_snapshot_fetch.py",)
_NODE = ("tests/unit/storage/test_node_snapshots.py",)

SNAPSHOTS_THAT_ROT: tuple[Mutant, ...] = (
    mutant(
        "cut-short-is-no-room",
        "D-22",
        "A leader whose snapshot was cut short keeps a voter waiting for what is not there, and both for ever.",
        "tests",
        (
            "kraftd.runtime.snapshot_transfer:_PieceRead.step",
            "if data or not read.max_bytes else _NOT_THERE",
            "if True else _NOT_THERE",
        ),
        where=_TRANSFER,
    ),
    mutant(
        "damaged-at-its-load-counts",
        "D-22",
        "The log is cut at a snapshot that could not be loaded, with the one that was loaded instead.",
        "tests",
        (
            "kraftd.runtime.snapshot_loader:SnapshotLoader._replace_damaged",
            "if not self.stuck_reason:",
            "if False:",
        ),
        where=_LOADER,
    ),
    mutant(
        "the-only-one-counts-no-more",
        "D-23",
        "The only snapshot that leads to a state is given up at the first read that the disk refuses.",
        "tests",
        (
            "kraftd.runtime.snapshot_loader:SnapshotLoader._replace_damaged",
            "if not self.stuck_reason:",
            "if True:",
        ),
        where=_LOADER,
    ),
    mutant(
        "newer-one-by-whole-pieces",
        "KAFKA-19541",
        "A piece that came too late is forgotten with the next snapshot, which is asked for by whole ones again.",
        "tests",
        ("kraftd.raft.snapshot_fetch:SnapshotFetch._begin", "self._halve()", "pass"),
        where=_FETCH,
    ),
    mutant(
        "late-piece-of-the-former-one",
        "REQ-02",
        "The late piece of a snapshot that is not wanted any more ends the download of the newer one.",
        "tests",
        (
            "kraftd.raft.snapshot_fetch:SnapshotFetch._begin",
            "raft.requests.forget(RequestKind.FETCH_SNAPSHOT)",
            "pass",
        ),
        where=_FETCH,
    ),
    mutant(
        "errors-are-silence",
        "D-40",
        "A leader that answers with errors is suspected as one that does not answer.",
        "tests",
        (
            "kraftd.raft.follower:FollowerRole.on_fetch_response",
            "if error not in _NO_SIGN_OF_A_LEADER and raft.leader_id == sent.to:",
            "if False:",
        ),
        where=("tests/unit/raft/test_suspicion.py",),
    ),
    mutant(
        "any-answer-is-of-a-leader",
        "D-40",
        "A leader that says it does not lead any more is waited for until the fetch timeout.",
        "tests",
        (
            "kraftd.raft.follower:FollowerRole.on_fetch_response",
            "if error not in _NO_SIGN_OF_A_LEADER and raft.leader_id == sent.to:",
            "if error and raft.leader_id == sent.to:",
        ),
        where=("tests/unit/raft/test_suspicion.py",),
    ),
    mutant(
        "idle-watchers-take-all-room",
        "D-38",
        "Watchers that wait for a record far ahead keep all others from what is in memory.",
        "tests",
        (
            "kraftd.runtime.committed_fetches:CommittedFetches.serve",
            "(WATCHERS_MAX if only_waits else 2 * WATCHERS_MAX)",
            "WATCHERS_MAX",
        ),
        where=("tests/unit/runtime/test_committed_fetches.py",),
    ),
    mutant(
        "named-at-the-start-of-the-log",
        "CLN-06",
        "What takes the place of a lost snapshot, just where the log begins, is thrown away.",
        "tests",
        (
            "kraftd.storage.node_directory:NodeDirectory.add_snapshot",
            "info.id.offset >= self.log.start_offset",
            "info.id.offset > self.log.start_offset",
        ),
        where=_NODE,
    ),
    mutant(
        "committed-behind-damage",
        "D-23",
        "What a sidecar knows as committed is applied behind damage, where other records may come to stand.",
        "tests",
        (
            "kraftd.storage.node_directory:NodeDirectory.open",
            "min([believed, *(damage.offset for damage in report.damage)])",
            "believed",
        ),
        where=_NODE,
    ),
    mutant(
        "proved-for-each-who-asks",
        "D-24",
        "Each download that begins during a proof has the file read once more.",
        "tests",
        (
            "kraftd.runtime.snapshot_check:SnapshotCheck.check",
            "if snapshot_id in self._lately_proved() or snapshot_id == self._reading:",
            "if snapshot_id in self._lately_proved():",
        ),
        where=("tests/unit/runtime/test_snapshot_check.py",),
    ),
    mutant(
        "observers-lease-as-long-as-voters",
        "D-24",
        "What an observer loads is kept for an election timeout longer, which it has no use for.",
        "tests",
        (
            "kraftd.raft.snapshot_leases:SnapshotLeases.leased",
            "if now_ms - lease.renewed_ms <= self._span_ms",
            "if now_ms - lease.renewed_ms <= self._voters_span_ms",
        ),
        where=("tests/unit/raft/test_snapshot_observers.py",),
    ),
    mutant(
        "begins-in-no-snapshot",
        "SNAP-25",
        "An export whose log begins later, without the snapshot of what was before, is called sound.",
        "tests",
        (
            "kraftd.logtools.integrity:missing_beginning",
            "or [*_missing_snapshot(node)]",
            "or []",
        ),
        where=("tests/unit/cli/test_export.py",),
    ),
    mutant(
        "directory-in-a-retired-files-place",
        "CLN-06",
        "A cut or an installation ends the process where a directory has the name that a retired file would get.",
        "tests",
        ("kraftd.storage.removal:retire", "if disk.fs.is_directory(deleted(path)):", "if False:"),
        where=_NODE,
    ),
    mutant(
        "observer-waits-for-the-voters",
        "D-06",
        "An observer that has forgotten what it acknowledged to nobody is never whole again.",
        "tests",
        ("kraftd.raft.rejoin:Rejoin.try_complete", "if not self._quorum.is_voter:", "if False:"),
        where=("tests/stories/test_identity.py", "tests/sim/test_verdict.py"),
    ),
    mutant(
        "observer-counts-with-holes",
        "D-06",
        "An observer counts as whole before its log holds all that is committed.",
        "tests",
        (
            "kraftd.raft.rejoin:Rejoin.try_complete",
            "or not 0 <= high_watermark <= flushed_offset",
            "",
        ),
        where=("tests/stories/test_identity.py",),
    ),
    mutant(
        "late-read-of-the-former-file",
        "SNAP-20",
        "A read of a rotten snapshot that ends late condemns the one that has taken its name meanwhile.",
        "tests",
        (
            "kraftd.runtime.snapshot_transfer:SnapshotTransfer._tell",
            "if self._snapshots.still_counts(info):",
            "if self._snapshots.get(read.id) is not None:",
        ),
        where=_TRANSFER,
    ),
    mutant(
        "late-proof-of-the-former-file",
        "D-20",
        "The check of a rotten snapshot condemns the one that has taken its name meanwhile.",
        "tests",
        (
            "kraftd.runtime.snapshot_check:SnapshotCheck._on_read",
            "elif self._snapshots.still_counts(proof.reader.info):",
            "elif self._snapshots.get(snapshot_id) is not None:",
        ),
        where=("tests/unit/runtime/test_snapshot_check.py",),
    ),
    mutant(
        "lost-votes-of-a-log-without-records",
        "D-06",
        "`info` says of a node that has lost its votes with an empty log that it was never started.",
        "tests",
        ("kraftd.logtools.inspection:_Inspector._at_no_log", "or finding.amnesia:", "or False:"),
        where=("tests/unit/logtools/test_inspection.py",),
    ),
)
