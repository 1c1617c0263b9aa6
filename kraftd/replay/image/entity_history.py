"""What the log says of brokers and partitions over time, as rows: made while it is folded.

A row is kept back while a transaction is open, and forgotten if that is aborted, so that every row is a
change that happened. Only what the rows show is followed (leader, ISR, replicas); the state itself is the
image's.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Generic, NamedTuple, TypeVar

import msgspec

from kraftd.records import messages as m
from kraftd.records.frame import AnyRecord
from kraftd.types import NodeId, Offset, Uuid, uuid_text

NO_CHANGE: Final = -2
"""The leader of a PartitionChangeRecord that does not change it."""


class FoldRow(NamedTuple):
    """A record of the log, and of what batch it is. Times are milliseconds."""

    batch_base_offset: Offset
    offset: Offset
    epoch: int
    timestamp_ms: int
    value: bytes

    @property
    def timestamp_us(self) -> int | None:
        """Its time as the tables have it."""
        return self.timestamp_ms * 1000 if self.timestamp_ms >= 0 else None


class Registration(NamedTuple):
    """A row of the table of registrations."""

    cluster_id: str
    offset: Offset
    epoch: int
    timestamp: int | None
    broker_id: NodeId
    broker_epoch: int
    event: str
    fenced: bool | None = None
    in_controlled_shutdown: bool | None = None
    rack: str | None = None
    incarnation_id: str | None = None


class PartitionChange(NamedTuple):
    """A row of the table of changes of partitions."""

    cluster_id: str
    offset: Offset
    epoch: int
    timestamp: int | None
    topic_id: str
    topic: str
    partition_id: int
    event: str
    leader_before: NodeId | None
    leader: NodeId | None
    isr_before: Sequence[NodeId] | None
    isr: Sequence[NodeId] | None
    isr_removed: Sequence[NodeId]
    isr_added: Sequence[NodeId]
    replicas: Sequence[NodeId]


R = TypeVar("R")


class CertainRows(Generic[R]):
    """Collects rows; `take` gives those that are certain."""

    def __init__(self, cluster_id: str) -> None:
        self._cluster_id = cluster_id
        self._done: list[R] = []
        self._pending: list[R] | None = None
        self._undo: list[Callable[[], None]] = []

    def __len__(self) -> int:
        """How many rows are certain."""
        return len(self._done)

    def take(self) -> list[R]:
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
                self._look(record, row)

    def _keep(self, found: R) -> None:
        (self._done if self._pending is None else self._pending).append(found)

    def _on_abort(self, undo: Callable[[], None]) -> None:
        """Have something undone if the transaction is aborted that is open."""
        self._undo.append(undo)

    def _look(self, record: AnyRecord, row: FoldRow) -> None:
        raise NotImplementedError


class Registrations(CertainRows[Registration]):
    """Changes of brokers' registrations."""

    def _look(self, record: AnyRecord, row: FoldRow) -> None:
        of_row = (self._cluster_id, row.offset, row.epoch, row.timestamp_us)
        match record:
            case m.RegisterBrokerRecord():
                self._keep(
                    Registration(
                        *of_row,
                        record.broker_id,
                        record.broker_epoch,
                        "registered",
                        record.fenced,
                        record.in_controlled_shutdown,
                        record.rack,
                        uuid_text(record.incarnation_id),
                    )
                )
            case m.UnregisterBrokerRecord():
                self._keep(Registration(*of_row, record.broker_id, record.broker_epoch, "unregistered"))
            case m.FenceBrokerRecord():
                self._keep(Registration(*of_row, record.id, record.epoch, "fenced", fenced=True))
            case m.UnfenceBrokerRecord():
                self._keep(Registration(*of_row, record.id, record.epoch, "unfenced", fenced=False))
            case m.BrokerRegistrationChangeRecord():
                self._keep(
                    Registration(
                        *of_row,
                        record.broker_id,
                        record.broker_epoch,
                        {1: "fenced", -1: "unfenced"}.get(record.fenced, "changed"),
                        {1: True, -1: False}.get(record.fenced),
                        {1: True, -1: False}.get(record.in_controlled_shutdown),
                    )
                )


class _PartitionState(msgspec.Struct, frozen=True, gc=False):
    """What the rows show of a partition."""

    leader: NodeId
    isr: tuple[NodeId, ...]
    replicas: tuple[NodeId, ...]


class _Topic(NamedTuple):
    """A topic, and what is shown of its partitions."""

    id_text: str
    name: str
    partitions: dict[int, _PartitionState]


class PartitionChanges(CertainRows[PartitionChange]):
    """Changes of partitions' leaders, ISRs and replicas."""

    def __init__(self, cluster_id: str) -> None:
        super().__init__(cluster_id)
        self._topics: dict[Uuid, _Topic] = {}

    def _look(self, record: AnyRecord, row: FoldRow) -> None:
        match record:
            case m.PartitionChangeRecord():
                before = self._topics[record.topic_id].partitions[record.partition_id]
                now = _PartitionState(
                    before.leader if record.leader == NO_CHANGE else record.leader,
                    before.isr if record.isr is None else record.isr,
                    before.replicas if record.replicas is None else record.replicas,
                )
                if now != before:
                    self._put(row, record.topic_id, record.partition_id, now)
            case m.PartitionRecord():
                now = _PartitionState(record.leader, record.isr, record.replicas)
                self._put(row, record.topic_id, record.partition_id, now)
            case m.TopicRecord():
                self._topics[record.topic_id] = _Topic(uuid_text(record.topic_id), record.name, {})
            case m.RemoveTopicRecord():
                gone = self._topics.pop(record.topic_id)
                for partition_id, before in sorted(gone.partitions.items()):
                    self._keep(self._row(row, gone, partition_id, before, None))
                if self._pending is not None:
                    self._on_abort(lambda: self._topics.update({record.topic_id: gone}))

    def _put(self, row: FoldRow, topic_id: Uuid, partition_id: int, now: _PartitionState) -> None:
        topic = self._topics[topic_id]
        partitions = topic.partitions
        before = partitions.get(partition_id)
        partitions[partition_id] = now
        if self._pending is not None:
            self._on_abort(partial(_put_back, partitions, partition_id, before))
        self._keep(self._row(row, topic, partition_id, before, now))

    def _row(
        self,
        row: FoldRow,
        topic: _Topic,
        partition_id: int,
        before: _PartitionState | None,
        now: _PartitionState | None,
    ) -> PartitionChange:
        leader_before, was = (None, None) if before is None else (before.leader, before.isr)
        leader, isr = (None, None) if now is None else (now.leader, now.isr)
        shown = now or before or _NOTHING
        return PartitionChange(
            self._cluster_id,
            row.offset,
            row.epoch,
            row.timestamp_us,
            topic.id_text,
            topic.name,
            partition_id,
            "created" if before is None else "removed" if now is None else "changed",
            leader_before,
            leader,
            was,
            isr,
            _without(was, isr),
            _without(isr, was),
            shown.replicas,
        )


def _put_back(
    partitions: dict[int, _PartitionState], partition_id: int, before: _PartitionState | None
) -> None:
    if before is None:
        del partitions[partition_id]
    else:
        partitions[partition_id] = before


_NOTHING: Final = _PartitionState(-1, (), ())


def _without(nodes: tuple[NodeId, ...] | None, others: tuple[NodeId, ...] | None) -> Sequence[NodeId]:
    """Those that are not among the others; nobody where one of the two is not there."""
    if nodes is None or others is None or nodes is others:
        return ()
    return [node for node in nodes if node not in others]
