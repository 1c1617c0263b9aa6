"""One node's directory: everything that it keeps on disk, opened in the order that keeps its promises.

Default layout: `.lock`, `meta.properties`, `bootstrap.checkpoint`, the sidecar file `kraftd.state` and
`__cluster_metadata-0/`. Opening takes the lock, reads the ids of the node and the cluster, compares the
election file with the sidecar, opens the log, and raises the start counter, durably, before any message of
this start can be sent. What it finds wrong is returned as values (`damage`, `amnesia`, `uninitialized`); only
what makes a start pointless is an error.

A crash while opening leaves a directory that opens the same way again: the metadata directory is created
before its `partition.metadata`, the sidecar is created whole, and every later step only adds to it.

Not here: the steps of an opening (`opening`), formatting (`formatting`), reading without changing anything
(`kraftd.logtools.inspection`).
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec

from kraftd.errors import InvariantError, StorageError
from kraftd.records import names
from kraftd.records.meta_properties import MetaProperties
from kraftd.storage.bootstrap import read_bootstrap, read_zero_checkpoint
from kraftd.storage.disk import Disk
from kraftd.storage.election_store import ElectionFinding, ElectionStore
from kraftd.storage.filesystem import FileSystem
from kraftd.storage.log import Log
from kraftd.storage.log_start import OpenReport
from kraftd.storage.opening import (
    FORMAT_OR_MOUNT,
    identify,
    keep_only_usable_log,
    open_sidecar,
    prepare_log_directory,
    record_incomplete_copy,
    refuse_second_log,
    segments_aside,
    set_needless_aside,
    sort_snapshots,
    take_lock,
)
from kraftd.storage.presence import PresenceCheck, lost_log
from kraftd.storage.removal import Removal, remove_leftovers
from kraftd.storage.segment import LogConfig
from kraftd.storage.sidecar import Sidecar, bounded, read_sidecar, remember_peer
from kraftd.storage.snapshot_files import SnapshotFiles, survey_snapshots
from kraftd.storage.snapshots import SnapshotInfo
from kraftd.types import Election, HealthKind, NodeId, Offset, OffsetAndEpoch, PeerIdentity, Uuid


class NodeDirectory:
    """An open and locked directory. Made by `NodeDirectory.open` only; called from one thread."""

    def __init__(
        self,
        disk: Disk,
        path: Path,
        lock: int,
        properties: MetaProperties,
        sidecar: Sidecar,
        log: Log,
        elections: ElectionStore,
        snapshots: SnapshotFiles,
    ) -> None:
        self.disk = disk
        self.path = path
        self.log = log
        self.snapshots = snapshots
        self.high_watermark: Offset = 0
        """What was known to be committed before this start, of what is here; 0 if nothing was (D-23)."""
        self.report = OpenReport()
        self._lock = lock
        self._properties = properties
        self._sidecar = sidecar
        self._elections = elections
        self.election = Election()
        """The election read at the opening; with amnesia only an epoch."""
        self.amnesia: tuple[str, ...] = ()
        """Why promises of this node may be forgotten; empty if they are not (D-06)."""
        self.uninitialized = False
        """Whether neither records nor promises were noted: a new node, or a wiped one."""
        self.warnings: tuple[str, ...] = ()
        """What an operator should see, although this node counts."""
        self.start_id: Uuid = b""
        """The random id of this start."""
        self._obsolete: tuple[Path, ...] = ()
        self._aside = segments_aside(disk, path / names.LOG_DIRECTORY)

    @classmethod
    def open(
        cls,
        fs: FileSystem,
        path: Path,
        *,
        node_id: NodeId,
        random_uuid: Callable[[], Uuid],
        cluster_id: str | None = None,
        voter_ids: Sequence[NodeId] = (),
        quorum_state_version: int = 0,
        config: LogConfig | None = None,
        other_log_dirs: Sequence[Path] = (),
    ) -> "NodeDirectory":
        """Open a formatted directory for a daemon.

        Args:
            fs: How the disk is reached.
            path: `metadata.log.dir`.
            node_id: The configured id; must agree with `meta.properties`.
            random_uuid: Makes the id of this start, and a directory id if Kafka wrote none.
            cluster_id: Checked against `meta.properties` if given.
            voter_ids: Static voters, listed in `quorum-state` version 0.
            quorum_state_version: 0 while the voters are static.
            config: When segments roll.
            other_log_dirs: Must not hold a metadata log too.

        Raises:
            StorageError: Not formatted, in use, another node's or cluster's, or not readable at all.
            StorageFailure: The disk refused a write.
        """
        disk = Disk(fs)
        if not fs.is_directory(path):
            raise StorageError(f"{path}: no such directory: {FORMAT_OR_MOUNT}")
        refuse_second_log(fs, path, other_log_dirs)
        with ExitStack() as undo:
            lock = take_lock(disk, path)
            undo.callback(disk.close, lock)
            # Names that a killed process left can be seen but may not be durable: those of the sidecar and
            # the log directory.
            disk.sync_directory(path)
            properties = identify(disk, path, node_id, cluster_id, random_uuid)
            log_path = path / names.LOG_DIRECTORY
            survey = survey_snapshots(disk, log_path)
            newest = survey.ids[-1] if survey.ids else None
            gone = lost_log(disk, path, read_sidecar(disk, path / names.SIDECAR).state, newest)
            if gone:
                raise StorageError(gone)
            prepare_log_directory(disk, log_path)
            finding, sidecar, warnings = open_sidecar(disk, path)
            undo.callback(sidecar.close, sync=False)
            survey, needless = set_needless_aside(disk, log_path, sidecar.recovery_point, survey)
            warnings += needless
            set_aside = keep_only_usable_log(disk, log_path, sidecar, survey)
            warnings += set_aside
            if finding.written_elsewhere:
                record_incomplete_copy(disk, log_path, sidecar, survey.ids)
            believed = sidecar.high_watermark
            log, report = Log.open(
                disk, log_path, recovery_points=sidecar, config=config, snapshots=survey.ids
            )
            undo.callback(log.abandon)
            warnings += remove_leftovers(disk, log_path)
            elections = ElectionStore(
                disk, log_path, sidecar, finding.checksum, version=quorum_state_version, voter_ids=voter_ids
            )
            snapshots, told = sort_snapshots(disk, log_path, survey, log, report)
            warnings += survey.strange if set_aside else told
            self = cls(disk, path, lock, properties, sidecar, log, elections, snapshots)
            self.report = report
            self.start_id = random_uuid()
            self.warnings = (*warnings, *report.torn, *report.notes)
            self.high_watermark = min([believed, *(damage.offset for damage in report.damage)])
            elections.prepare(finding)
            self._assess_health(finding)
            undo.pop_all()
        return self

    def _assess_health(self, finding: ElectionFinding) -> None:
        """Decide whether this node has forgotten promises, and write that with the new start, in one sync
        (D-05, D-06).
        """
        remembered = self._sidecar.local_state
        reasons = list(remembered.reasons) if remembered.health == HealthKind.AMNESIA else []
        election = finding.election
        last_epoch = self.log.last_record_epoch
        if finding.amnesia:
            reasons.append(finding.amnesia)
        elif last_epoch > election.epoch:
            reasons.append(
                f"{self.path / names.LOG_DIRECTORY / names.QUORUM_STATE}: knows epoch {election.epoch}, "
                f"but the log has records of epoch {last_epoch}: a vote may be forgotten"
            )
        if finding.amnesia or last_epoch > election.epoch:
            election = Election(epoch=max(election.epoch, last_epoch))
        self.election = election
        self.amnesia = tuple(dict.fromkeys(reasons))
        # Node 3 is wiped and formatted again: it has no records and no election file, like a new node.
        # It stays uninitialized, also over a restart, until it has given a vote or has flushed records: which
        # the core notes, and looks for at a start.
        empty = finding.checksum < 0 and self.log.end_offset == 0 and not self.report.damage
        was_uninitialized = remembered.health == HealthKind.UNINITIALIZED and not finding.written_elsewhere
        self.uninitialized = not reasons and (empty or was_uninitialized)
        kept = HealthKind.UNINITIALIZED if self.uninitialized else HealthKind.WHOLE
        self._sidecar.save_twice(
            msgspec.structs.replace(
                remembered,
                old_election=self._elections.checksum,
                new_election=self._elections.checksum,
                election_epoch=max(election.epoch, remembered.election_epoch),
                election=election,
                start_counter=remembered.start_counter + 1,
                health=HealthKind.AMNESIA if self.amnesia else kept,
                reasons=bounded(self.amnesia),
            )
        )

    # -- who we are ----------------------------------------------------------------------------

    @property
    def cluster_id(self) -> str:
        """The id of the cluster that this directory belongs to."""
        return self._properties.cluster_id or ""

    @property
    def directory_id(self) -> Uuid:
        """The id of this directory; a wiped one gets another."""
        return self._properties.directory_id or b""

    @property
    def start_counter(self) -> int:
        """How often this directory was opened; raised and synced before anything is sent (D-05)."""
        return self._sidecar.local_state.start_counter

    @property
    def peers(self) -> tuple[PeerIdentity, ...]:
        """The identity behind each voter id, as far as it was seen."""
        return self._sidecar.local_state.peers

    @property
    def damage(self) -> tuple[str, ...]:
        """The lost parts of the log, one text each; empty if none (D-06)."""
        return tuple(str(damage) for damage in self.report.damage)

    def presence_check(self) -> PresenceCheck:
        """Return the check that names still lead to our open files: a value that is run in a thread."""
        return PresenceCheck(
            self.disk.fs,
            (self._lock, self.path / names.LOCK),
            (self.log.active_file, self._sidecar.file),
            self.log.generation,
            self.log.start_offset,
        )

    def is_current(self, check: PresenceCheck) -> bool:
        """Whether what a check looked for is still what must be there."""
        return (check.generation, check.start_offset) == (self.log.generation, self.log.start_offset)

    def bootstrap_records(self) -> tuple[bytes, ...]:
        """Return the framed records that a new cluster begins with; none if no file has any."""
        zero = read_zero_checkpoint(self.disk, self.path / names.LOG_DIRECTORY)
        if zero is not None and zero.values:
            return zero.values
        return read_bootstrap(self.disk, self.path / names.BOOTSTRAP_CHECKPOINT) or ()

    @property
    def known_committed(self) -> Offset:
        """Up to where the log was known to be committed before this start; -1 if nothing is known (D-23)."""
        return max([self.high_watermark, *(one.offset for one in self.usable_snapshots)]) or -1

    # -- snapshots -----------------------------------------------------------------------------

    @property
    def usable_snapshots(self) -> tuple[OffsetAndEpoch, ...]:
        """The snapshots that the log goes on from, oldest first.

        Node 3 may have applied, and written down, what others had made durable, and lost the end of its own
        log with the power; or it crashed before it installed what it had downloaded. A snapshot behind the
        log's end is of use once the log has reached it.
        """
        return tuple(info.id for info in self.snapshots.infos if info.id.offset <= self.log.end_offset)

    def take_removal(self) -> Removal:
        """Return the files that were retired and that nobody reads any more: the caller removes them."""
        segments, snapshots = self.log.take_removal(), self.snapshots.take_removal()
        others, self._obsolete = self._obsolete, ()
        return Removal(self.disk.fs, segments.handles, segments.paths + snapshots.paths + others)

    def add_snapshot(self, info: SnapshotInfo) -> bool:
        """Count a snapshot that this node has written or received. Returns False if the log begins behind it
        by now: a later one took the log's place meanwhile, or it was cut, and the file goes (SNAP-05).
        """
        self.snapshots.add(info)
        if info.id.offset >= self.log.start_offset:
            return True
        self.snapshots.remove((info.id,))
        return False

    def raise_high_watermark(self, offset: Offset) -> None:
        """Note what is known to be committed, for the next start: the next flush writes it down."""
        self._sidecar.raise_high_watermark(offset)

    def write_high_watermark(self) -> None:
        """Write it down now, unless it is: for a flush that makes the sidecar durable."""
        self._sidecar.write_high_watermark()

    # -- barriers ------------------------------------------------------------------------------

    def write_election(self, election: Election) -> None:
        """Make an election durable: `PersistElection`."""
        self._elections.write(election)
        self.election = election

    def remember_peer(self, peer: PeerIdentity) -> None:
        """Write durably which identity a voter id belongs to: `RememberPeer`."""
        self._sidecar.save_twice(remember_peer(self._sidecar.local_state, peer))

    def remember_state_health(self, health: HealthKind, reasons: Sequence[str] = ()) -> None:
        """Write durably whether this node's promises can be relied on: `RememberStateHealth`."""
        local_state = self._sidecar.local_state
        self._sidecar.save_twice(
            msgspec.structs.replace(local_state, health=health, reasons=bounded(reasons))
        )

    def install_snapshot(self, snapshot_id: OffsetAndEpoch, generation: int) -> None:
        """Put a snapshot in the place of the log, durably: `InstallSnapshot` (D-21).

        Afterwards the log begins and ends at the snapshot's end, all of it is flushed, and the snapshots
        before it are gone.

        Raises:
            InvariantError: It does not count, a flush still runs, or the generation did not rise.
        """
        if self.snapshots.get(snapshot_id) is None:
            raise InvariantError(f"the snapshot {snapshot_id} cannot be installed: it does not count")
        self.log.replace(snapshot_id, generation)
        self._sidecar.raise_high_watermark(snapshot_id.offset)
        self.snapshots.remove_before(snapshot_id)
        self._obsolete, self._aside = self._obsolete + self._aside, ()

    def cut_front(self, start: OffsetAndEpoch) -> None:
        """Let the log begin at the end of a snapshot, durably: `CutLog` (D-22). Those before it go.

        Raises:
            InvariantError: It does not count, the log begins later already, or is not flushed up to there.
        """
        if self.snapshots.get(start) is None:
            raise InvariantError(f"the log cannot begin at {start}: that snapshot does not count")
        self.log.cut_front(start)
        self.snapshots.remove_before(start)

    # -- the end -------------------------------------------------------------------------------

    def close(self) -> None:
        """Flush, and release the lock. After a failure of the disk only release the lock.

        No flush may be running.
        """
        sound = self.disk.failure is None
        if sound:
            self.log.close()
            self._elections.close()
        else:
            self.log.abandon()
        self._sidecar.close(sync=sound)
        self.disk.close(self._lock)

    def abandon(self) -> None:
        """Close all files as a crash would: nothing is flushed. For tests and simulators."""
        self.log.abandon()
        self._sidecar.close(sync=False)
        self.disk.close(self._lock)
