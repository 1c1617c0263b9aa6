"""Feeds snapshots and committed batches to the state machine without stopping the loop.

`commit` raises the target, and in each turn, after the effects of a `poll`, `run` applies what is
committed, batch by batch, and begins none after five milliseconds: from memory, or, on a node that starts or
lags, from the disk through a thread. After the batches of a `run` the raft node is told `Applied`, once.

`load_snapshot` replaces the state by a snapshot's, as long in each turn; the log behind it is applied
afterwards. Until it is loaded nobody is told of its offset: nobody leads on half a state (D-23).
Where nothing leads to a state, the raft node is told `ApplyStuck`.

Any exception of the state machine is fatal (D-18): it could not apply the same batch again.

`StateMachine` is all that one needs to know to put another one behind the log. kraftd's own is
`kraftd.controller`.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Protocol

from kraftd.raft.effects import LeaderChanged
from kraftd.raft.events import Applied, ApplyStuck
from kraftd.records.committed import CommittedBatch
from kraftd.runtime.committed_log import CommittedLog
from kraftd.runtime.driver import Driver, TimedTurnTask
from kraftd.runtime.snapshot_loader import Restorable, SnapshotLoader
from kraftd.storage.snapshots import SnapshotInfo
from kraftd.types import Epoch, NodeId, Now, Offset, OffsetAndEpoch

_PORTION_BYTES = 256 << 10
_RUN_MS = 5
"""After so long nothing more is begun: most batches, and steps of a load, take 1 ms or less, some take 5."""

APPLY = "Apply"
"""The kind under which applying is counted among the events of the controller."""


class StateMachine(Restorable, Protocol):
    """Applies the log. Deterministic: the same batches give the same state on every node, and so does a
    snapshot with the batches behind it.

    Calls come from the one loop, never concurrently; any exception ends the process (D-18).
    """

    def apply(self, batch: CommittedBatch) -> None:
        """Apply one committed batch; batches come in order, each once, without gaps but for what a restored
        snapshot stands for.
        """

    def leader_changed(self, epoch: Epoch, leader_id: NodeId, *, is_self: bool) -> None:
        """Learn the leader of an epoch. With `is_self` the machine may decide and append in this epoch from
        now on; without, it must drop what it has not seen committed.
        """


class Applier(TimedTurnTask):
    """Applies each committed batch once, in order, to one state machine; what a snapshot stands for, not."""

    def __init__(
        self,
        me: NodeId,
        state_machine: StateMachine,
        log: CommittedLog,
        loader: SnapshotLoader,
        driver: Driver,
        observe: Callable[[str, int, int, int], None],
        *,
        clock_ns: Callable[[], int],
        applied: Callable[[CommittedBatch], None] = lambda _: None,
        loaded: Callable[[SnapshotInfo], None] = lambda _: None,
        caught_up: Callable[[], None] = lambda: None,
    ) -> None:
        """Begin before the first batch; `applied` is shown each batch after the state machine was, `loaded`
        each snapshot. `caught_up` is called once, when all that is known to be committed is applied.
        """
        self.applied_offset: Offset = 0
        self.applied_timestamp_ms = -1
        self._me = me
        self._state_machine = state_machine
        self._log = log
        self._loader = loader
        self._driver = driver
        self._observe = observe
        self._clock_ns = clock_ns
        self._applied, self._loaded = applied, loaded
        self._caught_up: Callable[[], None] | None = caught_up
        self._target: Offset = 0
        self._is_reading = False
        self._spent_turn = -1
        """The turn in which `_RUN_MS` are used up: its `run` may be called again after `Applied`."""
        self._run_ends_ns = 0
        self._batches: Iterator[CommittedBatch] | None = None
        """What was read from the disk, or had no time; None if the log is to be asked."""
        self._unreadable = ""
        self._is_stuck = False
        """Whether there was a `stuck_reason` in the last `run`."""

    @property
    def has_caught_up(self) -> bool:
        """Whether all that was known to be committed has once been applied; nobody leads before."""
        return self._caught_up is None

    @property
    def stuck_reason(self) -> str:
        """Why nothing more can be applied; empty if nothing is wrong."""
        return self._unreadable or self._loader.stuck_reason

    @property
    def alarms(self) -> Sequence[str]:
        """What is wrong with the log or the snapshots, as far as it was found while they were applied."""
        stuck = self.stuck_reason
        return (*self._loader.alarms, f"apply_stuck: {stuck}") if stuck else self._loader.alarms

    @property
    def loaded_percent(self) -> int:
        """How much is loaded of the snapshot that is being loaded; 100 if none is."""
        return self._loader.percent

    @property
    def loaded_count(self) -> int:
        """How many snapshots were loaded since the start."""
        return self._loader.loaded_count

    def load_snapshot(self, snapshot_id: OffsetAndEpoch) -> None:
        """Replace the state by that of a snapshot, also if another one is being loaded (LSN-06)."""
        self._batches, self._unreadable = None, ""
        self._loader.load(snapshot_id, self._state_machine, self.applied_offset, self._on_loaded)
        self._driver.wake()

    def commit(self, high_watermark: Offset) -> None:
        """Note that everything before `high_watermark` is committed."""
        self._target = max(self._target, high_watermark)

    def leader_changed(self, change: LeaderChanged) -> None:
        """Tell the state machine who leads."""
        is_self = change.leader_id == self._me
        self._state_machine.leader_changed(change.epoch, change.leader_id, is_self=is_self)

    def run(self, now: Now) -> None:
        """Restore or apply until `_RUN_MS` are over, and schedule another turn if there is more."""
        if now.mono_ms >= self._loader.retry_at_ms:
            self._loader.retry()
        is_loading, was_stuck = self._loader.is_loading, self._is_stuck
        self._is_stuck = bool(self.stuck_reason)
        if self._is_stuck and not was_stuck:
            self._driver.deliver(ApplyStuck())
        if self._caught_up is not None:
            self._look_whether_caught_up(self._caught_up)
        if not is_loading and (self.applied_offset >= self._target or self._is_reading or self.stuck_reason):
            return
        if self._spent_turn == self._driver.turns:
            return
        before = self.applied_offset
        started_ns = self._clock_ns()
        self._run_ends_ns = started_ns + _RUN_MS * 1_000_000
        work = self._loader.step if is_loading else self._apply_portion
        while work():
            if self._clock_ns() >= self._run_ends_ns:
                self._spent_turn = self._driver.turns
                self._driver.wake()
                break
        if self.applied_offset > before:
            self._observe(APPLY, 0, (self._clock_ns() - started_ns) // 1_000, now.wall_ms)
            if self._caught_up is not None:
                self._look_whether_caught_up(self._caught_up)
            self._driver.deliver(Applied(self.applied_offset))

    def wake_at_ms(self) -> int:
        """When a snapshot that could not be read is tried again; NEVER_MS without one."""
        return self._loader.retry_at_ms

    def _look_whether_caught_up(self, caught_up: Callable[[], None]) -> None:
        if 0 < self._target <= self.applied_offset and not self._loader.is_loading:
            self._caught_up = None
            caught_up()

    def _apply_portion(self) -> bool:
        """Apply the batches at hand while there is time. Returns whether more can be applied at once."""
        before, left = self.applied_offset, self._batches
        self._batches = None
        # Time may have ended with the last one that was at hand: then the log is asked.
        if left is None or not self._apply(left):
            batches = self._log.batches(before, _PORTION_BYTES, partial(self._cold_read, before))
            if batches is None:
                self._is_reading = True
                return False
            self._apply(batches)
        return before < self.applied_offset < self._target

    def _apply(self, batches: Iterator[CommittedBatch]) -> bool:
        """Apply these, and keep those for which there is no time. Returns whether there was one."""
        batch = None
        for batch in batches:
            # Of a batch that is committed in part, the rest may still be truncated.
            if batch.end_offset > self._target:
                break
            if batch.base_offset >= self.applied_offset:
                self._state_machine.apply(batch)
                self.applied_offset = batch.end_offset
                self.applied_timestamp_ms = batch.timestamp_ms
                self._applied(batch)
                if batch.end_offset < self._target and self._clock_ns() >= self._run_ends_ns:
                    self._batches = batches
                    break
        return batch is not None

    def _on_loaded(self, info: SnapshotInfo) -> None:
        """The state machine is at the end of a snapshot; the log goes on there."""
        self.applied_offset, self.applied_timestamp_ms = info.id.offset, info.last_contained_timestamp_ms
        self._batches, self._unreadable = None, ""
        self._loaded(info)
        self._driver.wake()

    def _cold_read(self, offset: Offset, batches: Iterator[CommittedBatch] | None) -> None:
        self._is_reading = False
        self._driver.wake()  # nothing was applied while it was read, whatever has become of it
        # Node 3 reads at 40 when it installs a snapshot that ends at 90. What comes back is of the log that
        # it had before, which may have held other records above 90.
        if self._loader.is_loading or offset != self.applied_offset:
            return
        if batches is None:
            self._unreadable = f"the log cannot be read at offset {self.applied_offset}, which is committed"
        else:
            self._batches = batches
