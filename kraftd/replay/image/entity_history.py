"""What the log says of brokers and partitions over time, as rows: made while it is folded.

A row is kept back while a transaction is open, and forgotten if that is aborted, so that every row is a
change that happened. Only what rows are told from is followed of a partition; the state itself is the
image's.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, Generic, NamedTuple, TypeVar

import msgspec

from kraftd.metadata.election_reasons import Leadership, leadership_of
from kraftd.metadata.feature_levels import ELIGIBLE_LEADER_REPLICAS
from kraftd.metadata.parts.topics.partitions import MIGRATING
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


class PartitionState(msgspec.Struct, frozen=True, gc=False):
    """What is followed of a partition."""

    led: Leadership
    directories: tuple[Uuid, ...]


class _Topic(NamedTuple):
    """A topic, and what is followed of its partitions."""

    id_text: str
    name: str
    partitions: dict[int, PartitionState]


class PartitionStep(NamedTuple):
    """What a record made of a partition: None is "not there"."""

    row: FoldRow
    topic_id: Uuid
    topic_id_text: str
    topic: str
    partition_id: int
    before: PartitionState | None
    now: PartitionState | None
    is_shown: bool
    """Whether it is a row of the table of changes: those show the leader, the ISR and the replicas."""

    @property
    def key(self) -> tuple[Uuid, int]:
        """Which partition it is."""
        return self.topic_id, self.partition_id


class PartitionSteps(CertainRows[PartitionStep]):
    """Changes of partitions, one after another."""

    def __init__(self, cluster_id: str) -> None:
        super().__init__(cluster_id)
        self._topics: dict[Uuid, _Topic] = {}
        self._directories: dict[tuple[Uuid, ...], tuple[Uuid, ...]] = {}
        """Each list of directories once: partitions by the thousand have the same."""

    def _look(self, record: AnyRecord, row: FoldRow) -> None:
        match record:
            case m.PartitionChangeRecord():
                before = self._topics[record.topic_id].partitions[record.partition_id]
                now = self._changed(before, record)
                if now != before:
                    self._put(row, record, now, is_shown=_shown(now) != _shown(before))
            case m.PartitionRecord():
                now = PartitionState(
                    leadership_of(record), self._directories_of(record.directories, record.replicas)
                )
                self._put(row, record, now, is_shown=True)
            case m.TopicRecord():
                self._topics[record.topic_id] = _Topic(uuid_text(record.topic_id), record.name, {})
            case m.RemoveTopicRecord():
                gone = self._topics.pop(record.topic_id)
                for partition_id, before in sorted(gone.partitions.items()):
                    place = record.topic_id, gone.id_text, gone.name, partition_id
                    self._keep(PartitionStep(row, *place, before, None, is_shown=True))
                if self._pending is not None:
                    self._on_abort(lambda: self._topics.update({record.topic_id: gone}))
            case m.ClearElrRecord(topic_name=name):
                self._clear_elr(topic for topic in self._topics.values() if name in ("", topic.name))
            case m.FeatureLevelRecord(name=name, feature_level=0) if name == ELIGIBLE_LEADER_REPLICAS:
                self._clear_elr(self._topics.values())

    def _changed(self, before: PartitionState, record: m.PartitionChangeRecord) -> PartitionState:
        old = before.led
        replicas = old.replicas if record.replicas is None else record.replicas
        led = Leadership(
            old.leader if record.leader == NO_CHANGE else record.leader,
            old.isr if record.isr is None else record.isr,
            replicas,
            old.elr if record.eligible_leader_replicas is None else record.eligible_leader_replicas,
            old.last_known_elr if record.last_known_elr is None else record.last_known_elr,
            old.is_recovering if record.leader_recovery_state < 0 else bool(record.leader_recovery_state),
        )
        listed = before.directories if record.directories is None else record.directories
        return PartitionState(led, self._directories_of(listed, replicas))

    def _directories_of(self, listed: tuple[Uuid, ...], replicas: tuple[NodeId, ...]) -> tuple[Uuid, ...]:
        """Where the replicas are; where nothing is said of any, none has a name."""
        if len(listed) != len(replicas):
            listed = (MIGRATING,) * len(replicas)
        return self._directories.setdefault(listed, listed)

    def _clear_elr(self, topics: Iterable[_Topic]) -> None:
        """Nobody is eligible any more. No leader, ISR or replica changes, so there is no step."""
        for topic in topics:
            for partition_id, before in topic.partitions.items():
                if before.led.elr or before.led.last_known_elr:
                    led = msgspec.structs.replace(before.led, elr=(), last_known_elr=())
                    topic.partitions[partition_id] = PartitionState(led, before.directories)
                    if self._pending is not None:
                        self._on_abort(partial(_put_back, topic.partitions, partition_id, before))

    def _put(
        self,
        row: FoldRow,
        record: m.PartitionRecord | m.PartitionChangeRecord,
        now: PartitionState,
        *,
        is_shown: bool,
    ) -> None:
        topic, partition_id = self._topics[record.topic_id], record.partition_id
        before = topic.partitions.get(partition_id)
        topic.partitions[partition_id] = now
        if self._pending is not None:
            self._on_abort(partial(_put_back, topic.partitions, partition_id, before))
        place = record.topic_id, topic.id_text, topic.name, partition_id
        self._keep(PartitionStep(row, *place, before, now, is_shown))


def change_row(cluster_id: str, step: PartitionStep) -> PartitionChange:
    """The row of the table of changes that a step is."""
    before, now = step.before, step.now
    leader_before, was = (None, None) if before is None else (before.led.leader, before.led.isr)
    leader, isr = (None, None) if now is None else (now.led.leader, now.led.isr)
    shown = now or before
    return PartitionChange(
        cluster_id,
        step.row.offset,
        step.row.epoch,
        step.row.timestamp_us,
        step.topic_id_text,
        step.topic,
        step.partition_id,
        "created" if before is None else "removed" if now is None else "changed",
        leader_before,
        leader,
        was,
        isr,
        _without(was, isr),
        _without(isr, was),
        () if shown is None else shown.led.replicas,
    )


def _shown(state: PartitionState) -> tuple[NodeId, tuple[NodeId, ...], tuple[NodeId, ...]]:
    return state.led.leader, state.led.isr, state.led.replicas


def _put_back(
    partitions: dict[int, PartitionState], partition_id: int, before: PartitionState | None
) -> None:
    if before is None:
        del partitions[partition_id]
    else:
        partitions[partition_id] = before


def _without(nodes: tuple[NodeId, ...] | None, others: tuple[NodeId, ...] | None) -> Sequence[NodeId]:
    """Those that are not among the others; nobody where one of the two is not there."""
    if nodes is None or others is None or nodes is others:
        return ()
    return [node for node in nodes if node not in others]
