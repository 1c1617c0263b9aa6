"""How do committed batches reach the state machine without stopping the loop?

Entered through the interpreter's `Machine` port: `commit` raises the target, and once a turn, after all
effects, `run` applies what it may: from the core's in-memory tail, or, for a node that starts or lags, from
the store through a thread, in both cases a slice at a time. When a slice is done the core hears `Applied`.

Any exception of the state machine is fatal (D-18): it could not have applied the same batch again.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from kraftd.controller.controller import APPLY
from kraftd.raft.effects import LeaderChanged
from kraftd.raft.events import Applied
from kraftd.raft.state_machine import StateMachine
from kraftd.records.batch import BatchView, scan
from kraftd.records.committed import CommittedBatch
from kraftd.runtime.driver import Driver
from kraftd.types import NodeId, Now, Offset

_SLICE_BYTES = 256 << 10
_SLICE_MS = 10


class CommittedLog(Protocol):
    """Where committed batches come from."""

    def committed_batches(self, from_offset: Offset, max_bytes: int) -> list[bytes] | None:
        """From memory, or None if they are no longer there."""

    def take_values(self, base_offset: Offset) -> Sequence[bytes] | None:
        """What the batch there holds, if nobody has to read it out of the batch; once."""

    def read_cold(self, offset: Offset, max_bytes: int, done: Callable[[bytes], None]) -> None:
        """From the store, in a thread; `done` is called on the loop."""


class Applier:
    """Feeds one state machine, in order, each committed batch once."""

    def __init__(
        self,
        me: NodeId,
        machine: StateMachine,
        log: CommittedLog,
        driver: Driver,
        observe: Callable[[str, int, int], None],
        *,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.applied_offset: Offset = 0
        self.applied_timestamp_ms = -1
        self.stuck_because = ""
        """Why nothing more can be applied; empty if all is well."""
        self._me = me
        self._machine = machine
        self._log = log
        self._driver = driver
        self._observe = observe
        self._clock_ns = clock_ns
        self._target: Offset = 0
        self._is_reading = False
        self._spent_turn = -1
        """The turn whose time is used up: the core's reaction to `Applied` leads here again within it."""
        self._cold: list[CommittedBatch] = []

    @property
    def target_offset(self) -> Offset:
        """Up to where batches are known to be committed."""
        return self._target

    def commit(self, high_watermark: Offset) -> None:
        """Implements `Machine`."""
        self._target = max(self._target, high_watermark)

    def leader_changed(self, change: LeaderChanged) -> None:
        """Implements `Machine`."""
        self._machine.leader_changed(change.epoch, change.leader_id, is_self=change.leader_id == self._me)

    def run(self, now: Now) -> None:  # noqa: ARG002 - a chore's signature
        """Implements `Chore`: apply a slice, and ask for another turn if there is more."""
        if self.applied_offset >= self._target or self._is_reading or self.stuck_because:
            return
        if self._spent_turn == self._driver.turns:
            return
        before = self.applied_offset
        started_ns = self._clock_ns()
        while self._apply_slice():
            if self._clock_ns() - started_ns >= _SLICE_MS * 1_000_000:
                self._spent_turn = self._driver.turns
                self._driver.wake()
                break
        if self.applied_offset > before:
            self._observe(APPLY, 0, (self._clock_ns() - started_ns) // 1_000)
            self._driver.deliver(Applied(self.applied_offset))

    def _apply_slice(self) -> bool:
        """Apply what is at hand; whether it is worth trying again at once."""
        before = self.applied_offset
        batches, self._cold = self._cold, []
        if not batches and before < self._target:
            buffers = self._log.committed_batches(before, _SLICE_BYTES)
            if buffers is None:
                self._is_reading = True
                self._log.read_cold(before, _SLICE_BYTES, self._take_cold)
                return False
            batches = committed(map(BatchView, buffers), self._log.take_values)
        for batch in batches:
            if batch.end_offset > self._target:
                break
            if batch.base_offset >= self.applied_offset:
                self._machine.apply(batch)
                self.applied_offset = batch.end_offset
                self.applied_timestamp_ms = batch.timestamp_ms
        return before < self.applied_offset < self._target

    def _take_cold(self, data: bytes) -> None:
        self._is_reading = False
        self._cold = committed(scan(data), self._log.take_values)
        if not self._cold:
            self.stuck_because = f"the log cannot be read at offset {self.applied_offset}, which is committed"
        self._driver.wake()


def committed(
    batches: Iterable[BatchView], take_values: Callable[[Offset], Sequence[bytes] | None]
) -> list[CommittedBatch]:
    """The batches as the state machine gets them. Those in memory are proved already, those read are not."""
    return [
        CommittedBatch(
            base_offset=view.base_offset,
            end_offset=view.end_offset,
            epoch=view.epoch,
            timestamp_ms=view.max_timestamp,
            records=() if view.is_control else take_values(view.base_offset) or view.values(),
        )
        for view in batches
    ]
