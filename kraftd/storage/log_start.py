"""Where an opened log begins, by the snapshots beside it (D-23).

A log that holds all that its node ever acknowledged needs no snapshot that it does not reach, or that says
another record: such a snapshot is *needless*, and the log goes on without it (`needless_snapshots`). Else a
whole snapshot is a committed state, so it is believed over a log that does not reach it or that holds another
record before its end: such a log is *replaced* by the snapshot. A log that reaches it *continues* it. Of a
log whose front was cut, everything below the oldest snapshot that it continues is of no use to anybody, and
so is what a snapshot covers and the disk has lost: the log begins at the snapshot after it.

Example: node 2 wrote a snapshot at 120, which the others had committed, and had itself flushed up to 100 when
its power failed. Its log ends at 100, and the sidecar knows of no more: nobody counts on node 2 for what lies
above. It goes on at 100, and fetches the rest. Were the file another cluster's, put there by mistake, node 2
would be a voter that counts, with a state that nobody here has written.

Had the power failed while a leader's snapshot took the log's place, the sidecar would say 120, for that is
durable before a segment goes. The log ends at 100, or anywhere below: any of it is the old log, and the
snapshot is the new one. Without a sidecar that knows, as in a directory that Kafka wrote, it is the same.

Of several snapshots with one end offset, in several epochs, one can be of this log: that of which the log,
the sidecar or the next record say so; if nothing does, that of the newest epoch (`_one_of_each_offset`).

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


def needless_snapshots(
    recovered: Recovered, snapshots: Sequence[OffsetAndEpoch], recovery_point: OffsetAndEpoch
) -> tuple[OffsetAndEpoch, ...]:
    """The newest snapshots, those that would take the log's place though it lacks nothing without them.

    They must not come into effect later either, once the log has grown past their ends.

    Args:
        recovered: What the segments hold, all of them read.
        snapshots: Oldest first.
        recovery_point: The flushed offset and its epoch, as this program's own sidecar knows them. It may be
            too low, by less than a second of flushes, and never lies behind an installation: that moves it
            first, in both slots (D-21).

    Returns:
        None if there is no log, or it does not hold what was flushed, or it begins above 0 and no other
        snapshot leads to it. A directory without a log lacks all: its segments were set aside, say, since the
        only snapshot that led to them was damaged, and the power failed before the next log began.
    """
    if not recovered.segments:
        return ()
    base_offset = recovered.segments[0].base_offset
    holds_all = (
        not recovered.damage
        and base_offset <= recovery_point.offset <= recovered.end_offset
        and _epoch_before(recovered, recovery_point.offset) in {None, recovery_point.epoch}
    )
    needed = list(snapshots)
    while holds_all and needed and _is_replaced_by(recovered, base_offset, needed[-1]):
        needed.pop()
    if base_offset and not any(_continues(recovered, base_offset, one) for one in needed):
        return ()
    return tuple(snapshots[len(needed) :])


def may_be_needless(
    snapshot: OffsetAndEpoch, recovery_point: OffsetAndEpoch, epochs: Sequence[EpochEntry]
) -> bool:
    """Whether the small files alone leave it open that a snapshot would take the log's place: the log must be
    read to know.
    """
    known = epoch_of(epochs, snapshot.offset - 1, unknown=snapshot.epoch)
    return snapshot.offset > recovery_point.offset or known != snapshot.epoch


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
    snapshots = _one_of_each_offset(snapshots, recovered, checkpoint_epochs, recovery_point)
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


def _one_of_each_offset(
    snapshots: Sequence[OffsetAndEpoch],
    recovered: Recovered,
    checkpoint_epochs: Sequence[EpochEntry],
    recovery_point: OffsetAndEpoch | None,
) -> tuple[OffsetAndEpoch, ...]:
    """One snapshot for each end offset, the same at every start: two of them cannot be of one log.

    Node 3 holds 384-1 and, copied there by mistake, 384-2. Its log was cut at 384, so that the record before
    is not there, but the next one is of epoch 1: epochs never descend, and 384-2 is not of this log.
    """
    best: dict[Offset, OffsetAndEpoch] = {}
    for one in snapshots:
        both = (best.get(one.offset, one), one)
        best[one.offset] = max(
            both, key=lambda each: _agreement(each, recovered, checkpoint_epochs, recovery_point)
        )
    return tuple(one for one in snapshots if best[one.offset] == one)


def _agreement(
    snapshot: OffsetAndEpoch,
    recovered: Recovered,
    checkpoint_epochs: Sequence[EpochEntry],
    recovery_point: OffsetAndEpoch | None,
) -> tuple[bool, bool, bool, Epoch]:
    """How well a snapshot fits what is known of the record before its end; the most certain comes first."""
    is_reached = snapshot.offset <= recovered.end_offset
    following = epoch_of(recovered.epochs or checkpoint_epochs, snapshot.offset, unknown=snapshot.epoch)
    return (
        not is_reached or _epoch_before(recovered, snapshot.offset) in {None, snapshot.epoch},
        recovery_point is None or recovery_point.offset != snapshot.offset or recovery_point == snapshot,
        not is_reached or snapshot.epoch <= following,
        snapshot.epoch,
    )


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
