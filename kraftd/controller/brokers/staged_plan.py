"""What an event in the life of a broker entails: changes of its partitions, and the broker's own record; or
what an election changes, in partitions whoever holds them.

The stages of a `StagedPlan` follow one another. What takes something away from a broker, like its fencing,
has the broker's record last: until it is there the event counts as not done, and a new active controller,
which knows nothing of it, does it again. What gives it something, like its unfencing, has the record first.

Not here: which changes an event means for a partition (`controller.partitions.broker_changes`), and when an
event happens (`heartbeats`, `registration`, `unregistering`, `controller.timers`).
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import msgspec

from kraftd.controller.context import Context
from kraftd.controller.partitions.broker_changes import PartitionChanges
from kraftd.controller.plans import SLICE_RECORDS, LeftOut, LogLine, Plan
from kraftd.controller.sessions import BrokerSessions
from kraftd.metadata.image import MetadataImage
from kraftd.metadata.parts.brokers import BROKERS
from kraftd.records.frame import AnyRecord
from kraftd.records.messages import PartitionChangeRecord
from kraftd.types import NodeId, Offset, Uuid

_Last: TypeAlias = Callable[[Context, Offset], Sequence[AnyRecord]]
"""The records that end a stage, given the offset of the first of them."""


def _nothing(_context: Context, _offset: Offset) -> Sequence[AnyRecord]:
    return ()


class Stage(msgspec.Struct):
    """One thing that happens to a broker, or to partitions whoever holds them. Mutable, owned by its plan."""

    name: str
    """What to call it in the log; empty if no line is to tell of it."""
    fields: Mapping[str, object]
    """What to tell of it there."""
    first: Sequence[AnyRecord] = ()
    """The records before the changes of partitions."""
    changes: PartitionChanges | None = None
    last: _Last = _nothing
    """The records after them, in the same slice as the last change."""
    is_leaving: bool = False
    """Whether the broker leads nothing after it."""
    lost_directories: frozenset[Uuid] = frozenset()
    """The log directories that the broker has no more after it."""
    is_told_anyway: bool = True
    """Whether a line tells of it though it changed no partition."""

    @property
    def is_told(self) -> bool:
        """Whether a line tells of it."""
        has_changed = self.changes is not None and self.changes.counts.changed > 0
        return bool(self.name) and (self.is_told_anyway or has_changed)

    def line(self) -> LogLine:
        """The line that says that it is done, with how many partitions it changed."""
        counts = self.changes.counts if self.changes is not None else None
        if counts is None or not counts.changed:
            return LogLine(self.name, self.fields)
        moved = {"partitions": counts.changed, "new_leaders": counts.moved, "offline": counts.offline}
        return LogLine(self.name, {**self.fields, **moved})


class StagedPlan(Plan):
    """Stages, one after another, and the response to whoever caused them."""

    kind = "BrokerEvent"

    def __init__(
        self,
        about: NodeId | None,
        stages: Sequence[Stage],
        *,
        response: Any = None,
        when_appended: Callable[[BrokerSessions, Offset, int], None] | None = None,
    ) -> None:
        """Make a plan about one broker, or about partitions whoever holds them (None). `when_appended` tells
        the sessions what is true from its last slice on (`Plan.appended`).
        """
        self.about = about
        self.is_leaving = any(stage.is_leaving for stage in stages)
        self.lost_directories = frozenset().union(*(stage.lost_directories for stage in stages))
        self._stages = tuple(stages)
        self._at = 0
        self._firsts: Sequence[Sequence[AnyRecord]] = ()
        """What each stage had to begin with before the newest slice."""
        self._newest = 0
        """The stage of that slice: no slice holds records of two."""
        self._response = response
        self._when_appended = when_appended

    def advance(self, context: Context) -> tuple[Sequence[AnyRecord], bool]:
        """The next slice. A stage is decided on the image after the one before it."""
        self._firsts = [stage.first for stage in self._stages]
        records: list[AnyRecord] = []
        while self._at < len(self._stages):
            self._newest = self._at
            stage = self._stages[self._at]
            records += stage.first
            stage.first = ()
            if stage.changes is not None:
                changes, is_done = stage.changes.next(context, SLICE_RECORDS - len(records) - 1)
                records += changes
                if not is_done:
                    return records, False
            records += stage.last(context, context.next_offset + len(records))
            self._at += 1
            if records:
                break
        return records, self._at == len(self._stages)

    def is_repeated_by_broker(self, image: MetadataImage) -> bool:
        """Whether the broker has not lost yet the directories that it is to lose.

        It names them in every heartbeat. A timer that looked for leaders first would elect it in a directory
        that is listed still, and that it cannot read.
        """
        broker = None if self.about is None else image[BROKERS].get(self.about)
        return broker is not None and not self.lost_directories.isdisjoint(broker.log_dirs)

    def response(self) -> Any:
        """The response that was given."""
        return self._response

    def appended(self, sessions: BrokerSessions, end_offset: Offset, now_ms: int) -> None:
        """Note what is true from the last slice on."""
        if self._when_appended is not None:
            self._when_appended(sessions, end_offset, now_ms)

    def lines(self) -> Sequence[LogLine]:
        """One line a stage, but for those of which there is nothing to tell."""
        return [stage.line() for stage in self._stages if stage.is_told]

    def leave_out(self, record: AnyRecord, error: Exception) -> bool:
        """Go back to before the newest slice, and on without a partition whose change cannot be made."""
        changes = self._stages[self._newest].changes
        if changes is None or not isinstance(record, PartitionChangeRecord):
            return False
        self._at = self._newest
        for stage, first in zip(self._stages, self._firsts, strict=True):
            stage.first = first
        return changes.leave_out(record.topic_id, record.partition_id, error)

    def failures(self) -> Sequence[LeftOut]:
        """The partitions that were left out."""
        return [
            LeftOut.partition(*failed)
            for stage in self._stages
            if stage.changes is not None
            for failed in stage.changes.failures
        ]

    def again(self) -> Callable[[], Plan]:
        """What makes a plan of what was left out."""
        changes = [stage.changes for stage in self._stages if stage.changes is not None]
        return partial(plan_of_left_out, self.about, changes)


def plan_of_left_out(about: NodeId | None, changes: Sequence[PartitionChanges]) -> Plan:
    """What failed in these changes, once more."""
    failed = [each for each in changes if each.failures]
    return StagedPlan(about, [Stage("", {}, changes=each.of_left_out()) for each in failed])
