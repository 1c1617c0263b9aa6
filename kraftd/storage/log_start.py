"""Where an opened log begins, by the snapshots beside it (D-23).

A whole snapshot is a committed state, so it is believed over a log that does not reach it or that holds
another record before its end: such a log is *replaced* by the snapshot. A log that reaches it *continues* it.
Of a log whose front was cut, everything below the oldest snapshot that it continues is of no use to anybody,
and so is what a snapshot covers and the disk has lost: the log begins at the snapshot after it.

Example: node 2 wrote a snapshot at 120, which the others had committed, and had itself flushed up to 100 when
its power failed. Its log ends at 100, and it begins anew at 120. Had the log been replaced by a snapshot of a
leader when the power failed, it would look the same, or end anywhere below: any of it is the old log, and the
snapshot is the new one.

Pure: `judge_start` says it, `log` does it.
Follows: SNAP-21 to SNAP-25, LOG-12.
Differs: Kafka lets a log begin at its first segment after each start (Q-17), and does not compare the record
before a snapshot's end with it.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from kraftd.records.epoch_checkpoint import epoch_of
from kraftd.storage.damage import Damage
from kraftd.storage.epoch_checkpoint import entries_from, with_lost_epochs
from kraftd.storage.log_scan import Recovered
from kraftd.types import Epoch, EpochEntry, Offset, OffsetAndEpoch


class OpenReport(msgspec.Struct, frozen=True):
    """What an opening found, for the operator and to decide whether this copy counts (D-06)."""

    damage: tuple[Damage, ...] = ()
    torn: tuple[str, ...] = ()
    """What was cut off the end, or would be by an opening that may write."""
    incomplete: tuple[str, ...] = ()
    """Signs that the directory is a copy that ends before its log did."""
    notes: tuple[str, ...] = ()
    snapshots: tuple[OffsetAndEpoch, ...] = ()
    """Those that the log goes on from, oldest first, of the ones that the opening was told of."""


class LogStart(NamedTuple):
    """What was decided."""

    at: OffsetAndEpoch
    """The offset at which the log begins, and the epoch of the record before it; 0 if that is not known."""
    snapshots: tuple[OffsetAndEpoch, ...] = ()
    """Those that the log continues, oldest first."""
    epochs: tuple[EpochEntry, ...] = ()
    """Of its batches, and of what was lost, as far as they are known."""
    damage: tuple[Damage, ...] = ()
    """What is lost of what the log should hold."""
    notes: tuple[str, ...] = ()
    """What is no loss: one line each."""
    is_replaced: bool = False
    """Whether nothing of the log counts: it begins and ends there."""


def judge_start(
    recovered: Recovered,
    snapshots: Sequence[OffsetAndEpoch],
    checkpoint_epochs: tuple[EpochEntry, ...],
    recovery_point: OffsetAndEpoch | None,
) -> LogStart:
    """Decide where a log begins.

    Args:
        recovered: What the segments hold.
        snapshots: Oldest first. The newest one was proved to be whole.
        checkpoint_epochs: The entries of `leader-epoch-checkpoint`: they know the epochs of what was lost.
        recovery_point: The flushed offset and its epoch; None if unknown.
    """
    segments = recovered.segments
    base_offset = segments[0].base_offset if segments else 0
    if snapshots and _is_replaced_by(recovered, base_offset, snapshots[-1]):
        newest = snapshots[-1]
        return LogStart(newest, (newest,), notes=_left_behind(recovered, newest), is_replaced=True)
    continued = tuple(one for one in snapshots if _continues(recovered, base_offset, one))
    covered_to: Offset = continued[-1].offset if continued else 0
    covered = [damage for damage in recovered.damage if damage.end_offset <= covered_to]
    damage = recovered.damage[len(covered) :]
    epochs = _epochs_of(recovered, damage, checkpoint_epochs, recovery_point)
    needed = max([base_offset, *(each.end_offset for each in covered)])
    if needed == 0:
        return LogStart(OffsetAndEpoch(0, 0), continued, epochs, damage)
    usable = tuple(one for one in continued if one.offset >= needed)
    at = usable[0] if usable else OffsetAndEpoch(base_offset, 0)
    notes = tuple(covered_text(each, at.offset) for each in covered)
    return LogStart(at, usable, entries_from(epochs, at.offset), damage, notes)


def _is_replaced_by(recovered: Recovered, base_offset: Offset, snapshot: OffsetAndEpoch) -> bool:
    sound_end = recovered.segments[-1].end_offset if recovered.segments else base_offset
    if snapshot.offset > sound_end:
        # What a flush had covered above the snapshot and is lost is damage: it stays, and the log with it.
        return recovered.end_offset <= snapshot.offset
    return base_offset < snapshot.offset and _epoch_before(recovered, snapshot.offset) not in {
        None,
        snapshot.epoch,
    }


def _continues(recovered: Recovered, base_offset: Offset, snapshot: OffsetAndEpoch) -> bool:
    if not base_offset <= snapshot.offset <= recovered.end_offset:
        return False
    known = _epoch_before(recovered, snapshot.offset) if snapshot.offset > base_offset else None
    return known in {None, snapshot.epoch}


def _epoch_before(recovered: Recovered, offset: Offset) -> Epoch | None:
    """The epoch of the record before an offset; None if the disk has lost it, or if it lies before the log's
    start in a segment that was not read.
    """
    if any(damage.offset < offset <= damage.end_offset for damage in recovered.damage):
        return None
    known = epoch_of(recovered.epochs, offset - 1, unknown=-1)
    return known if known >= 0 else None


def _epochs_of(
    recovered: Recovered,
    damage: tuple[Damage, ...],
    checkpoint_epochs: tuple[EpochEntry, ...],
    recovery_point: OffsetAndEpoch | None,
) -> tuple[EpochEntry, ...]:
    if not recovered.damage:
        return recovered.epochs
    lost = [(each.offset, each.end_offset) for each in recovered.damage]
    end = None
    if damage and recovery_point is not None and recovered.end_offset == recovery_point.offset:
        end = EpochEntry(recovery_point.epoch, damage[-1].offset)
    return with_lost_epochs(recovered.epochs, checkpoint_epochs, lost, end)


def _left_behind(recovered: Recovered, snapshot: OffsetAndEpoch) -> tuple[str, ...]:
    if not recovered.segments:
        return ()
    directory = recovered.segments[0].path.parent
    text = (
        f"{directory}: the snapshot at offset {snapshot.offset} in epoch {snapshot.epoch} takes the place of "
        f"the log, which ends at offset {recovered.end_offset} or differs before"
    )
    return (text,)


def covered_text(damage: Damage, start_offset: Offset) -> str:
    """The line for damage that costs nothing, because a snapshot holds what was there."""
    where = f"{damage.file} at byte {damage.position_bytes} (offset {damage.offset})"
    return f"{where}: {damage.text}; no loss: the log begins at the snapshot at offset {start_offset} now"
