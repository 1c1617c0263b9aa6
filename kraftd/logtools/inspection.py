"""A node's directory as its own start would find it, without changing a byte of it: for `kraftctl info`.

Entered by `inspect_directory`. What is wrong is told in the lines that the start itself would give, by the
same code of `kraftd.storage`. So problems are lines of text here, and no `Problem`. What the sidecar says of
a log, and so what a flush had covered, is told as a `Problem` by `own_state`; any other question to a
directory, of whatever program, is for `node_files` and `integrity`.

Takes no lock and creates no file. While a node is running in the directory, its newest bytes may look
unfinished; they are reported as torn, which is no problem.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from kraftd.controller.committed_records import ImageRestore
from kraftd.errors import KraftdError, MalformedError, StorageError
from kraftd.logtools.own_state import sidecar_problem
from kraftd.records import names
from kraftd.records.meta_properties import MetaProperties
from kraftd.records.snapshot import SnapshotDecoder
from kraftd.storage.bootstrap import ZERO_CHECKPOINT, read_bootstrap, read_zero_checkpoint
from kraftd.storage.disk import Disk
from kraftd.storage.election_store import judge_election
from kraftd.storage.filesystem import Access, FileSystem
from kraftd.storage.log import Log
from kraftd.storage.log_start import OpenReport
from kraftd.storage.opening import (
    has_partition_metadata,
    needless_of,
    needless_text,
    no_directory,
    read_properties,
    unusable_log,
)
from kraftd.storage.presence import lost_log
from kraftd.storage.removal import leftovers, no_file_text
from kraftd.storage.sidecar import SidecarState, read_sidecar
from kraftd.storage.snapshot_files import SnapshotSurvey, damage_of, instead_text, survey_snapshots
from kraftd.storage.snapshots import PIECE_BYTES
from kraftd.types import Election, EpochEntry, Offset, OffsetAndEpoch

_LOOKS_MAX: Final = 3
"""How often a directory is looked at in which a running node removes and adds files meanwhile."""


class SegmentFacts(msgspec.Struct, frozen=True):
    """One segment file."""

    file: str
    base_offset: Offset
    size_bytes: int


class DirectoryFacts(msgspec.Struct, frozen=True):
    """What is in a directory. Fields stay empty where it has nothing, or nothing that can be read."""

    path: str
    formatted: bool = False
    properties: MetaProperties | None = None
    bootstrap_records: int | None = None
    sidecar: SidecarState | None = None
    election: Election | None = None
    """What `quorum-state` says, believed or not."""
    log_start_offset: Offset = 0
    log_end_offset: Offset = 0
    log_end_epoch: int = 0
    epochs: tuple[EpochEntry, ...] = ()
    segments: tuple[SegmentFacts, ...] = ()
    snapshots: tuple[OffsetAndEpoch, ...] = ()
    problems: tuple[str, ...] = ()
    """What keeps a node from counting, or makes the copy useless: one line each, with what to do."""
    notes: tuple[str, ...] = ()
    """What is worth knowing and no fault."""


def inspect_directory(fs: FileSystem, path: Path) -> DirectoryFacts:
    """Find out what a directory holds. Never raises for what is in it: faults are `problems`.

    Faults that may come of a running node's cleaner are looked for once more: it removes a segment after it
    was listed, and before it is opened.
    """
    disk = Disk(fs)
    if not fs.is_directory(path):
        return DirectoryFacts(str(path), problems=(f"{path}: is not a directory",))
    for _ in range(_LOOKS_MAX):
        before = _large_files(disk, path / names.LOG_DIRECTORY)
        facts = _inspected(disk, path)
        if not facts.problems or _large_files(disk, path / names.LOG_DIRECTORY) == before:
            break
    return facts


def _large_files(disk: Disk, log_path: Path) -> list[str]:
    """The names of the segments and snapshots that are there now; none where the directory cannot be read."""
    try:
        return [name for name in disk.names(log_path) if name.endswith((names.LOG, names.CHECKPOINT))]
    except StorageError:
        return []


def _inspected(disk: Disk, path: Path) -> DirectoryFacts:
    inspector = _Inspector(disk, path)
    inspector.at_properties()
    inspector.at_bootstrap()
    inspector.at_sidecar()
    inspector.at_log()
    return inspector.facts()


class _Inspector:
    """One inspection, file by file."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self._path = path
        self._log_path = path / names.LOG_DIRECTORY
        self._found: dict[str, object] = {}
        self._problems: list[str] = []
        self._notes: list[str] = []
        self._state: SidecarState | None = None
        self._survey = SnapshotSurvey()

    def facts(self) -> DirectoryFacts:
        """What was found."""
        found = {**self._found, "problems": tuple(self._problems), "notes": tuple(self._notes)}
        return msgspec.structs.replace(DirectoryFacts(str(self._path)), **found)

    def at_properties(self) -> None:
        """Look at `meta.properties`."""
        file = self._path / names.META_PROPERTIES
        try:
            properties = read_properties(self._disk, file)
        except StorageError as error:
            self._problems.append(str(error))
            return
        if properties is None:
            advice = "name a node's directory, or make this one with `kraftctl format`"
            self._problems.append(f"{self._path}: holds no {names.META_PROPERTIES}: {advice}")
        else:
            self._found.update(formatted=True, properties=properties)

    def at_bootstrap(self) -> None:
        """Look at `bootstrap.checkpoint`."""
        try:
            values = read_bootstrap(self._disk, self._path / names.BOOTSTRAP_CHECKPOINT)
            self._found["bootstrap_records"] = None if values is None else len(values)
        except KraftdError as error:
            self._problems.append(str(error))

    def at_sidecar(self) -> None:
        """Look at the sidecar file, `kraftd.state`."""
        reading = read_sidecar(self._disk, self._path / names.SIDECAR)
        self._state = reading.state
        self._found["sidecar"] = reading.state
        if problem := sidecar_problem(reading):
            self._problems.append(problem)
        elif reading.state is not None:
            self._problems += [f"not counted yet: {reason}" for reason in reading.state.local_state.reasons]

    def at_log(self) -> None:
        """Look at the metadata directory."""
        self._survey = survey_snapshots(self._disk, self._log_path)
        newest = self._survey.ids[-1] if self._survey.ids else None
        gone = lost_log(self._disk, self._path, self._state, newest)
        if gone:
            self._problems.append(gone)
            return
        if not self._disk.fs.is_directory(self._log_path):
            self._at_no_log()
            return
        try:
            self._at_partition_metadata()
            self._at_zero_checkpoint()
            self._at_leftovers()
            self._at_segments()
        except StorageError as error:
            self._problems.append(str(error))

    def _at_no_log(self) -> None:
        """Look at a directory without a metadata directory, which may have held votes and no records."""
        local_state = self._state.local_state if self._state is not None else None
        finding = judge_election(self._log_path / names.QUORUM_STATE, None, local_state)
        if problem := no_directory(self._disk, self._log_path) or finding.amnesia:
            self._problems.append(problem)
        elif self._found.get("formatted"):
            self._notes.append(f"{self._log_path}: not there yet: this node was never started")

    def _at_partition_metadata(self) -> None:
        file = self._log_path / names.PARTITION_METADATA
        try:
            if not has_partition_metadata(self._disk, file):
                self._notes.append(f"{file}: is missing; it is written at the next start")
        except StorageError as error:
            self._problems.append(str(error))

    def _at_zero_checkpoint(self) -> None:
        """Look at the snapshot at offset 0, where Kafka's formatter puts the first voters."""
        try:
            zero = read_zero_checkpoint(self._disk, self._log_path)
        except StorageError as error:
            self._problems.append(str(error))
            return
        if zero is not None and zero.has_voters:
            self._notes.append(
                f"{self._log_path / ZERO_CHECKPOINT}: holds the first voters of a quorum with dynamic "
                "voters: kraftd does not start in this directory"
            )

    def _at_leftovers(self) -> None:
        """Look at unfinished snapshots and at removed files, of which a running node has some."""
        for name in leftovers(self._disk, self._log_path):
            path = self._log_path / name
            if self._disk.fs.is_directory(path):
                self._notes.append(no_file_text(path))
            else:
                self._notes.append(f"{path}: promises nothing: the next start removes it")

    def _at_segments(self) -> None:
        quorum_state = self._log_path / names.QUORUM_STATE
        local_state = self._state.local_state if self._state is not None else None
        finding = judge_election(quorum_state, self._disk.read_file(quorum_state), local_state)
        recovery_point = (
            self._state.recovery_point if self._state is not None and not finding.written_elsewhere else None
        )
        needless = needless_of(self._disk, self._log_path, recovery_point, self._survey)
        if needless:
            self._survey = survey_snapshots(self._disk, self._log_path, without=needless)
            self._notes += [needless_text(self._log_path, one) for one in needless]
        survey = self._survey
        log, report = Log.open(
            self._disk,
            self._log_path,
            recovery_point=recovery_point,
            snapshots=survey.ids,
            read_only=True,
        )
        log.abandon()
        self._found.update(
            election=finding.election,
            log_start_offset=log.start_offset,
            log_end_offset=log.end_offset,
            log_end_epoch=log.last_record_epoch,
            epochs=log.epochs,
            segments=self._segments(),
            snapshots=self._snapshots(),
        )
        end = OffsetAndEpoch(log.end_offset, log.last_record_epoch)
        self._at_election(finding.election, finding.amnesia, end)
        self._problems += [str(damage) for damage in report.damage]
        # Of a log that holds all that was flushed a start believes the batches.
        (self._problems if recovery_point is None else self._notes).extend(report.incomplete)
        self._notes += [*report.torn, *report.notes, *survey.strange]
        self._at_snapshots(report, log.start_offset)

    def _at_election(self, election: Election, amnesia: str, end: OffsetAndEpoch) -> None:
        if amnesia:
            self._problems.append(amnesia)
        elif election.epoch < end.epoch:
            self._problems.append(
                f"{self._log_path / names.QUORUM_STATE}: knows epoch {election.epoch}, but the log has "
                f"records of epoch {end.epoch}: a vote may be forgotten"
            )
        elif election.epoch > end.epoch and end.offset > 0:
            self._notes.append(
                f"{self._log_path / names.QUORUM_STATE}: knows epoch {election.epoch}, "
                f"the last record is of epoch {end.epoch}"
            )

    def _at_snapshots(self, report: OpenReport, log_start_offset: Offset) -> None:
        """Say which snapshots are not whole, and what the state is made of instead."""
        survey, used = self._survey, report.snapshots
        older = [(one, damage_of(self._disk, self._log_path, one)) for one in survey.ids[:-1]]
        damaged = sorted(
            [*survey.damaged, *((one, text) for one, text in older if text)],
            key=lambda each: each[0].log_order,
        )
        try:
            lost = unusable_log(self._disk, self._log_path, survey)
        except StorageError as error:
            self._problems.append(str(error))
            return
        if lost:
            self._problems += [text for _, text in damaged if not lost.startswith(text)]
            self._problems.append(lost)
            return
        self._notes += [f"{text}; {instead_text(used)}" for _, text in damaged]
        if used:
            self._at_newest_snapshot(used, log_start_offset)

    def _at_newest_snapshot(self, used: Sequence[OffsetAndEpoch], log_start_offset: Offset) -> None:
        """Restore the newest snapshot as the node does first, and say what keeps it from that."""
        try:
            self._restore(used[-1])
        except MalformedError as error:
            if len(used) > 1 or log_start_offset == 0:
                self._notes.append(f"{error}; {instead_text(used[:-1])}")
            else:
                self._problems.append(f"{error}; nothing else leads to the state before the log")
        except KraftdError as error:
            self._problems.append(str(error))

    def _restore(self, snapshot_id: OffsetAndEpoch) -> None:
        path = self._log_path / names.snapshot_name(snapshot_id)
        decoder = SnapshotDecoder(str(path), snapshot_id.epoch)
        restore = ImageRestore(snapshot_id, lambda *_: None)
        for piece in _pieces(self._disk, path):
            for batch in decoder.feed(piece):
                restore.add(batch.values(), f"{path} at byte {decoder.batch_position}")

    def _segments(self) -> tuple[SegmentFacts, ...]:
        """The segment files as they lie there, whatever becomes of them."""
        found = []
        for name in self._disk.names(self._log_path):
            segment = names.parse_segment_name(name)
            if segment is not None and segment.suffix == "log":
                path = self._log_path / name
                found.append(SegmentFacts(str(path), segment.base_offset, self._size_of(path)))
        return tuple(sorted(found, key=lambda each: each.base_offset))

    def _size_of(self, path: Path) -> int:
        handle = self._disk.open(path, Access.READ)
        try:
            return self._disk.size(handle, path)
        finally:
            self._disk.close(handle)

    def _snapshots(self) -> tuple[OffsetAndEpoch, ...]:
        found = []
        for name in self._disk.names(self._log_path):
            try:
                snapshot_id = names.parse_snapshot_name(name)
            except MalformedError:
                continue  # the survey has told of it
            if snapshot_id is not None and not name.endswith(names.DELETED):
                found.append(snapshot_id)
        return tuple(sorted(found, key=lambda snapshot_id: snapshot_id.log_order))


def _pieces(disk: Disk, path: Path) -> Iterator[bytes]:
    handle = disk.open(path, Access.READ)
    try:
        position = 0
        while piece := disk.read(handle, PIECE_BYTES, position, path):
            yield piece
            position += len(piece)
    finally:
        disk.close(handle)
