"""What was the state at this offset, or at that time?

`state_at` folds a log with the daemon's own rules, from the nearest snapshot that is whole; `advanced` goes
on from a state. Whole batches only: an offset inside one steps back to where it begins, and the state says
so. What cannot be read ends the fold before it: then `damage` tells why, and the state is the one there.

A single log does not tell which of its last records are committed. `State.known_committed` is what its
snapshots, or the manifest of an export, prove (`commit`).

Not here: how it is shown (`tree`, and `kraftd.cli`).
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from kraftd.errors import MalformedError
from kraftd.logtools.batch_reader import Batch, base_offset_of, reason_of
from kraftd.logtools.commit import proofs_of
from kraftd.logtools.errors import FileGoneError, UnanswerableError
from kraftd.logtools.finding import find_log, listed_again
from kraftd.logtools.node_files import LogFile, NodeFiles
from kraftd.logtools.node_log import read_log, times_of
from kraftd.logtools.points import Point
from kraftd.logtools.problem import Problem, ProblemKind, in_file
from kraftd.logtools.quorum_facts import QuorumFacts, controls_of
from kraftd.logtools.snapshot_reader import read_snapshot
from kraftd.metadata.image import EMPTY, MetadataImage
from kraftd.metadata.image_builder import ImageBuilder
from kraftd.metadata.impossible import ImpossibleRecordError
from kraftd.records.frame import record_name
from kraftd.records.messages import SnapshotHeaderRecord
from kraftd.types import NO_NODE, Epoch, Offset, OffsetAndEpoch

NEVER_ENDS: Offset = (1 << 63) - 1
"""After every offset: as far as the log goes."""


class State(msgspec.Struct, frozen=True):
    """The image at one point of a log, and how it came to be."""

    log: NodeFiles
    image: MetadataImage = EMPTY
    end_offset: Offset = 0
    epoch: Epoch = 0
    """Of the last record that is in the state."""
    timestamp_ms: int = -1
    """Of the newest record that is in it."""
    quorum: QuorumFacts = QuorumFacts()
    snapshot: OffsetAndEpoch | None = None
    """What the fold began with."""
    record_count: int = 0
    """How many were folded after it."""
    notes: tuple[str, ...] = ()
    damage: Problem | None = None
    """Why the fold ended before the point that was asked for."""

    @property
    def known_committed(self) -> Offset:
        """Up to where the node's files prove by themselves that its records are committed; 0 if nowhere."""
        return max((proof.end_offset for proof in proofs_of(self.log, NEVER_ENDS)), default=0)

    @property
    def unknown_text(self) -> str:
        """Which records have no part in the image; empty if it is whole."""
        kinds = ", ".join(f"{count} {record_name(kind)}" for kind, count in self.image.unknown_kinds())
        return f"records that this program does not know are left out: {kinds}" if kinds else ""


def state_at(log: NodeFiles, at: Point | None = None) -> State:
    """The state at a point, by default at the end of the log.

    The files of a running node are listed again if its cleaner removed some of them meanwhile.

    Raises:
        UnanswerableError: The files do not reach that point, or no state before it can be had.
    """
    return listed_again(log, lambda listed: _state_at(listed, at))


def _state_at(log: NodeFiles, at: Point | None) -> State:
    _require_readable(log)
    end, _ = _end_of(log, at)
    base = _nearest(log, end)
    state = continued(base, at)
    return msgspec.structs.replace(state, notes=(*base.notes, *state.notes))


def continued(start: State, at: Point | None = None) -> State:
    """The state at a later point of the log that a state is of.

    Raises:
        UnanswerableError: The files do not reach that point.
    """
    end, notes = _end_of(start.log, at)
    state = advanced(start, end)
    if at is not None and at.offset is not None and state.damage is None:
        notes += _explain_end(state, at.offset)
    transaction = state.image.transaction
    if transaction is not None:
        name = f" {transaction.name!r}" if transaction.name else ""
        notes.append(
            f"offset {state.end_offset} lies inside the transaction{name} that began at "
            f"{transaction.begin_offset}: the state is the one before it"
        )
    return msgspec.structs.replace(state, quorum=with_leader(state), notes=tuple(notes))


def advanced(start: State, end: Offset = NEVER_ENDS) -> State:
    """The state at a later offset of the same log, or as far as the log can be folded.

    Raises:
        UnanswerableError: A segment cannot be read.
    """
    builder, quorum, count = ImageBuilder(start.image), start.quorum, 0
    offset, epoch, newest = start.end_offset, start.epoch, start.timestamp_ms
    damage: Problem | None = None
    for item in _from(start, end):
        if isinstance(item, Problem):
            damage = None if item.kind is ProblemKind.TORN else item
            break
        view = item.view
        try:
            quorum = quorum.after(controls_of(view), view.epoch)
            values = view.values()[max(offset - view.base_offset, 0) :]
            builder.apply_values(values, max(offset, view.base_offset))
        except (ImpossibleRecordError, MalformedError) as error:
            # Half of the batch is folded in: fold once more, up to its beginning.
            reason = error.reason if isinstance(error, ImpossibleRecordError) else reason_of(error)
            return msgspec.structs.replace(advanced(start, view.base_offset), damage=item.as_problem(reason))
        count += len(values)
        offset, epoch, newest = view.end_offset, view.epoch, max(newest, view.max_timestamp)
    return msgspec.structs.replace(
        start,
        image=builder.image(),
        end_offset=offset,
        epoch=epoch,
        timestamp_ms=newest,
        quorum=quorum,
        record_count=start.record_count + count,
        damage=damage,
    )


def load_snapshot(log: NodeFiles, snapshot: LogFile) -> State:
    """The state that a snapshot holds.

    Raises:
        UnanswerableError: It is not whole, or its records make no state.
    """
    builder, quorum = ImageBuilder(EMPTY), QuorumFacts()
    for item in read_snapshot(snapshot, with_records=False):
        if isinstance(item, Problem):
            raise UnanswerableError(item)
        try:
            quorum = quorum.after(controls_of(item.view), snapshot.id.epoch)
            builder.apply_values(item.view.values(), item.view.base_offset)
        except ImpossibleRecordError as error:
            raise UnanswerableError(item.as_problem(error.reason, error.offset)) from error
        except MalformedError as error:
            raise UnanswerableError(item.as_problem(reason_of(error))) from error
    return State(
        log,
        image=builder.image(),
        end_offset=snapshot.id.offset,
        epoch=snapshot.id.epoch,
        timestamp_ms=snapshot_time_ms(snapshot),
        quorum=quorum,
        snapshot=snapshot.id,
    )


def snapshot_time_ms(snapshot: LogFile) -> int:
    """The time of the last record that a snapshot stands for, by its header; -1 if that does not tell.

    Raises:
        UnanswerableError: The file cannot be opened or read.
    """
    first = next(read_snapshot(snapshot, with_records=False), None)
    try:
        controls = controls_of(first.view) if isinstance(first, Batch) else ()
    except MalformedError:
        return -1
    header = next(iter(controls), None)
    return header.last_contained_log_timestamp if isinstance(header, SnapshotHeaderRecord) else -1


def _from(start: State, end: Offset) -> Iterator[Batch | Problem]:
    """The batches from a state on that end at or before `end`; a problem if the log does not continue it."""
    expected: Offset | None = start.end_offset
    for item in read_log(start.log, start.end_offset):
        if isinstance(item, Batch):
            view = item.view
            if expected is not None and expected < min(end, view.base_offset):
                reason = f"the offsets up to {view.base_offset} are missing"
                kind = ProblemKind.INCOMPLETE
                yield in_file(item.path, reason, kind=kind, position_bytes=item.position, offset=expected)
                return
            if view.end_offset > end:
                return
            expected = None
        elif item.offset >= end:
            return
        yield item


def refreshed(state: State) -> State:
    """The state at the end of a log that has gone on since; the same object where it has not.

    Where a running node has cut what the state was made of, the state is made anew.

    Raises:
        UnanswerableError: The files are gone, or cannot be read.
    """
    log = find_log(Path(state.log.named))
    last = next((item for item in read_log(log, state.end_offset - 1)), None)
    if isinstance(last, Batch) and (last.view.end_offset, last.view.epoch) == (state.end_offset, state.epoch):
        newer = advanced(msgspec.structs.replace(state, log=log))
        return newer if newer.end_offset > state.end_offset else state
    if last is None and state.snapshot is not None and state.snapshot.offset == state.end_offset:
        return state  # nothing follows the snapshot yet
    return state_at(log)


def earliest(log: NodeFiles) -> State:
    """The first state that a log can tell: empty at 0, or that of its oldest whole snapshot.

    Raises:
        UnanswerableError: There is none.
    """
    _require_readable(log)
    if log.start_offset == 0 and not any(snapshot.id.offset == 0 for snapshot in log.snapshots):
        return State(log) if log.segments else _nearest(log, NEVER_ENDS)
    return _oldest_of_snapshot(log) or _nearest(log, NEVER_ENDS)


def _oldest_of_snapshot(log: NodeFiles) -> State | None:
    """The state of the oldest whole snapshot that the log goes on from."""
    for snapshot in log.snapshots:
        if not log.segments or snapshot.id.offset >= log.start_offset:
            try:
                return load_snapshot(log, snapshot)
            except FileGoneError:
                raise
            except UnanswerableError:
                continue
    return None


def _require_readable(log: NodeFiles) -> None:
    """Refuse to answer for a log whose last segment cannot be read: that of any other shows as a gap.

    Raises:
        UnanswerableError: The last segment cannot be read.
    """
    last = log.segments[-1].offset if log.segments else -1
    for problem in log.problems:
        if base_offset_of(Path(problem.file)) > last:
            raise UnanswerableError(problem)


def _nearest(log: NodeFiles, end: Offset) -> State:
    """The newest snapshot that is whole and not after `end`, or the empty state where the log begins at 0."""
    damaged = list[str]()
    for snapshot in reversed(log.snapshots):
        if snapshot.id.offset > end:
            continue
        if log.segments and snapshot.id.offset < log.start_offset and snapshot.id.offset != end:
            break  # it does not reach the log, but its own state is known
        try:
            return msgspec.structs.replace(load_snapshot(log, snapshot), notes=_passed_over(damaged))
        except FileGoneError:
            raise
        except UnanswerableError as error:
            if not log.segments and len(log.snapshots) == 1:
                raise
            damaged.append(str(error))
    if not log.segments and not log.snapshots:
        raise UnanswerableError(
            f"{log.log_directory} holds neither segment nor snapshot: this node was never started, or lost "
            "them"
        )
    if log.start_offset > 0 or not log.segments:
        raise UnanswerableError(_why_unknown(log, damaged))
    return State(log, notes=_passed_over(damaged))


def _passed_over(damaged: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"{error}; an earlier state was taken" for error in damaged)


def _why_unknown(log: NodeFiles, damaged: Sequence[str]) -> str:
    """Why a log that begins above 0 has no state at an offset, and which snapshots are no help."""
    first = _oldest_of_snapshot(log)
    known = (
        "no whole snapshot holds the state there"
        if first is None
        else f"the first state that can be known is that of the snapshot at offset {first.end_offset}"
    )
    text = f"{log.named}: the log begins at offset {log.start_offset}, and {known}"
    older = [str(one.id.offset) for one in log.snapshots if 0 < one.id.offset < log.start_offset]
    if older:
        damaged = [
            *damaged,
            f"of snapshots before it only their own offsets can be asked: {', '.join(older)}",
        ]
    return "; ".join([f"{text}: what was before cannot be known", *damaged])


def _end_of(log: NodeFiles, at: Point | None) -> tuple[Offset, list[str]]:
    """The offset that a point stands for."""
    if at is None or at.time_ms is None:
        return (NEVER_ENDS if at is None or at.offset is None else at.offset), []
    end, older, notes = NEVER_ENDS, 0, list[str]()
    has_batches = False
    for batch in times_of(log):
        has_batches = True
        if end == NEVER_ENDS and batch.max_timestamp_ms > at.time_ms:
            end = batch.base_offset
        elif end != NEVER_ENDS and batch.max_timestamp_ms <= at.time_ms:
            older += 1
    if older:
        batches = f"{older} later batches carry times" if older > 1 else "1 later batch carries a time"
        notes.append(
            f"{batches} at or before {at.text}: a clock went back; the state is that at offset {end}"
        )
    if not has_batches and log.start_offset > 0:
        end = log.start_offset
    if end == log.start_offset > 0 and not is_of_snapshot(log, end, at.time_ms):
        raise UnanswerableError(f"{log.named}: the log begins at offset {end}, after {at.text}")
    if end == 0:
        notes.append(f"the log begins after {at.text}")
    return end, notes


def is_of_snapshot(log: NodeFiles, offset: Offset, time_ms: int) -> bool:
    """Whether a snapshot ends at an offset and holds nothing that is newer than a time.

    Raises:
        UnanswerableError: It cannot be opened or read.
    """
    return any(
        snapshot_time_ms(snapshot) <= time_ms for snapshot in log.snapshots if snapshot.id.offset == offset
    )


def _explain_end(state: State, wanted: Offset) -> list[str]:
    """Why the state is not exactly at the offset that was asked for.

    Raises:
        UnanswerableError: The log ends before it.
    """
    if state.end_offset >= wanted:
        return []
    follows = next((item for item in read_log(state.log, state.end_offset) if isinstance(item, Batch)), None)
    if follows is None:
        hint = "; a time is written 2026-01-31T12:00:00" if wanted > 1 << 40 else ""
        raise UnanswerableError(f"{state.log.named}: the log ends at offset {state.end_offset}{hint}")
    return [f"offset {wanted} lies inside a batch; the state is that at its beginning, {state.end_offset}"]


def with_leader(state: State) -> QuorumFacts:
    """Who led, also where the fold began after he had said so."""
    quorum = state.quorum
    if quorum.leader_epoch == state.epoch or not state.log.segments:
        return quorum
    manifest = state.log.manifest
    if manifest is not None and manifest.epoch == state.epoch and manifest.leader_id != NO_NODE:
        return msgspec.structs.replace(quorum, leader_epoch=state.epoch, leader_id=manifest.leader_id)
    entries = state.log.epochs or ()
    start = next((entry.start_offset for entry in entries if entry.epoch == state.epoch), NEVER_ENDS)
    if not state.log.start_offset <= start < state.end_offset:
        return quorum
    for item in read_log(state.log, start):
        if isinstance(item, Problem) or item.view.base_offset != start:
            break
        found = QuorumFacts().after(controls_of(item.view), item.view.epoch)
        known = msgspec.structs.replace(found, kraft_version=quorum.kraft_version)
        return known if not quorum.voters else msgspec.structs.replace(known, voters=quorum.voters)
    return quorum
