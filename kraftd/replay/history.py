"""What the log says of brokers and partitions over time, as rows: made while it is folded.

A row is kept back while a transaction is open, and forgotten if that is aborted, so that every row is a
change that happened. Only what the rows show is followed (leader, ISR, replicas); the state itself is the
image's.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from kraftd.records import messages as m
from kraftd.records.frame import AnyRecord
from kraftd.types import Offset, Uuid, uuid_text

NO_CHANGE: Final = -2
"""The leader of a PartitionChangeRecord that does not change it."""


class FoldRow(NamedTuple):
    """A record of the log, and of what batch it is. Times are milliseconds."""

    batch_base_offset: Offset
    offset: Offset
    epoch: int
    timestamp_ms: int
    value: bytes


Row: TypeAlias = dict[str, Any]


class Shown(msgspec.Struct, frozen=True):
    """What the rows show of a partition."""

    leader: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]


class History:
    """Collects rows; `take` gives those that are certain."""

    def __init__(self, cluster_id: str) -> None:
        self._cluster_id = cluster_id
        self._done: list[Row] = []
        self._pending: list[Row] | None = None
        self._undo: list[Callable[[], None]] = []

    def take(self) -> list[Row]:
        """The rows since the last time, without those of an open transaction."""
        done, self._done = self._done, []
        return done

    def add(self, record: AnyRecord, row: FoldRow) -> None:
        """Look at a record that has just been folded."""
        match record:
            case m.BeginTransactionRecord():
                self._pending, self._undo = [], []
            case m.EndTransactionRecord():
                self._done += self._pending or ()
                self._pending = None
            case m.AbortTransactionRecord():
                for undo in reversed(self._undo):
                    undo()
                self._pending = None
            case _:
                for found in self._rows(record):
                    self._keep(row, found)

    def _keep(self, row: FoldRow, found: Row) -> None:
        time = {"timestamp": row.timestamp_ms * 1000 if row.timestamp_ms >= 0 else None}
        full = {"cluster_id": self._cluster_id, "offset": row.offset, "epoch": row.epoch, **time, **found}
        (self._done if self._pending is None else self._pending).append(full)

    def _on_abort(self, undo: Callable[[], None]) -> None:
        if self._pending is not None:
            self._undo.append(undo)

    def _rows(self, record: AnyRecord) -> Iterator[Row]:
        raise NotImplementedError


class Registrations(History):
    """Changes of brokers' registrations."""

    def _rows(self, record: AnyRecord) -> Iterator[Row]:
        match record:
            case m.RegisterBrokerRecord():
                yield _registration(record.broker_id, record.broker_epoch, "registered") | {
                    "fenced": record.fenced,
                    "in_controlled_shutdown": record.in_controlled_shutdown,
                    "rack": record.rack,
                    "incarnation_id": uuid_text(record.incarnation_id),
                }
            case m.UnregisterBrokerRecord():
                yield _registration(record.broker_id, record.broker_epoch, "unregistered")
            case m.FenceBrokerRecord():
                yield _registration(record.id, record.epoch, "fenced") | {"fenced": True}
            case m.UnfenceBrokerRecord():
                yield _registration(record.id, record.epoch, "unfenced") | {"fenced": False}
            case m.BrokerRegistrationChangeRecord():
                event = {1: "fenced", -1: "unfenced"}.get(record.fenced, "changed")
                yield _registration(record.broker_id, record.broker_epoch, event) | {
                    "fenced": {1: True, -1: False}.get(record.fenced),
                    "in_controlled_shutdown": {1: True, -1: False}.get(record.in_controlled_shutdown),
                }
            case _:
                return


def _registration(broker_id: int, broker_epoch: int, event: str) -> Row:
    return {"broker_id": broker_id, "broker_epoch": broker_epoch, "event": event}


class PartitionChanges(History):
    """Changes of partitions' leaders, ISRs and replicas."""

    def __init__(self, cluster_id: str) -> None:
        super().__init__(cluster_id)
        self._names: dict[Uuid, str] = {}
        self._partitions: dict[Uuid, dict[int, Shown]] = {}

    def _rows(self, record: AnyRecord) -> Iterator[Row]:
        match record:
            case m.TopicRecord():
                self._names[record.topic_id] = record.name
                self._partitions[record.topic_id] = {}
            case m.PartitionRecord():
                now = Shown(record.leader, record.isr, record.replicas)
                yield self._put(record.topic_id, record.partition_id, now)
            case m.PartitionChangeRecord():
                before = self._partitions[record.topic_id][record.partition_id]
                now = Shown(
                    before.leader if record.leader == NO_CHANGE else record.leader,
                    before.isr if record.isr is None else record.isr,
                    before.replicas if record.replicas is None else record.replicas,
                )
                if now != before:
                    yield self._put(record.topic_id, record.partition_id, now)
            case m.RemoveTopicRecord():
                gone = self._partitions[record.topic_id]
                for partition_id in sorted(gone):
                    yield self._row(record.topic_id, partition_id, gone[partition_id], None)
                del self._partitions[record.topic_id]
                self._on_abort(lambda: self._partitions.update({record.topic_id: gone}))
            case _:
                return

    def _put(self, topic_id: Uuid, partition_id: int, now: Shown) -> Row:
        entries = self._partitions[topic_id]
        before = entries.get(partition_id)
        entries[partition_id] = now
        if before is None:
            self._on_abort(lambda: entries.__delitem__(partition_id))
        else:
            self._on_abort(lambda: entries.update({partition_id: before}))
        return self._row(topic_id, partition_id, before, now)

    def _row(self, topic_id: Uuid, partition_id: int, before: Shown | None, now: Shown | None) -> Row:
        event = "created" if before is None else "removed" if now is None else "changed"
        shown = now or before or Shown(-1, (), ())
        was = () if before is None else before.isr
        return {
            "topic_id": uuid_text(topic_id),
            "topic": self._names[topic_id],
            "partition_id": partition_id,
            "event": event,
            "leader_before": None if before is None else before.leader,
            "leader": None if now is None else now.leader,
            "isr_before": None if before is None else before.isr,
            "isr": None if now is None else now.isr,
            "isr_removed": [node for node in was if now is not None and node not in now.isr],
            "isr_added": [node for node in shown.isr if before is not None and node not in was],
            "replicas": shown.replicas,
        }
