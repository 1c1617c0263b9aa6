"""The states of partitions and replicas over time, and the elections in between, as rows.

`StateHistory` is given the steps of partitions in their order, and knows from the beginning what becomes of
brokers (`BrokerMoments`), so that it needs no look at a record about one. The states, the moves that they may
make and the reasons of elections are the controller's own (`metadata.partition_states`, `replica_states`,
`election_reasons`). A move that no table allows is counted, and not made.

A log does not hold what brokers report in heartbeats. Of a replica it tells whether its broker is
registered, not fenced and has the directory; not whether the replica can be read. Of one that was taken away
it tells late that the data is gone: a broker is unfenced once it has applied its own registration, so who was
registered after the removal and unfenced then has applied that, too, unless the directory was offline still.
`known_by` says which it is.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

import msgspec

from kraftd.metadata.broker_moments import BrokerMoments, Moment, Place
from kraftd.metadata.election_log import ElectionLog
from kraftd.metadata.election_reasons import Election, Fate
from kraftd.metadata.partition_states import PartitionState as State
from kraftd.metadata.partition_states import moves, state_of_leader
from kraftd.metadata.replica_states import (
    ReplicaState,
    assigned_state,
    lost_in,
    lost_when_removed,
    removed_state,
    steps,
)
from kraftd.records.messages import RegisterBrokerRecord
from kraftd.replay.image.entity_history import FoldRow, PartitionStep
from kraftd.types import NO_NODE, NodeId, Offset, Uuid

BY_REGISTRATION: Final = "registration"
"""By what is registered of the broker."""
BY_REMOVAL: Final = "removal"
"""By the record that took the replica away: since then nothing tells that its broker has applied it."""
BY_RESTART: Final = "restart"
"""By the broker's return in an incarnation that was registered after that record."""

_Key: TypeAlias = tuple[Uuid, int]


class Since(NamedTuple):
    """A moment of the log; None is before it."""

    offset: Offset | None
    timestamp: int | None
    """Microseconds."""


class PartitionStateRow(NamedTuple):
    """A row of the table of states of partitions."""

    cluster_id: str
    topic_id: str
    topic: str
    partition_id: int
    state: str
    from_offset: Offset | None
    from_time: int | None
    to_offset: Offset | None
    to_time: int | None


class ReplicaStateRow(NamedTuple):
    """A row of the table of states of replicas."""

    cluster_id: str
    topic_id: str
    topic: str
    partition_id: int
    broker_id: NodeId
    state: str
    known_by: str
    from_offset: Offset | None
    from_time: int | None
    to_offset: Offset | None
    to_time: int | None


class ElectionRow(NamedTuple):
    """A row of the table of elections."""

    cluster_id: str
    offset: Offset
    epoch: int
    timestamp: int | None
    topic_id: str
    topic: str
    partition_id: int
    leader_before: NodeId
    leader: NodeId
    reason: str
    rule: str
    why: str
    without_leader_ms: int | None


class _Partition(msgspec.Struct):
    """A partition that is there, or whose replicas are not all known to be gone. Mutable."""

    topic_id: str
    topic: str
    state: State
    since: Since
    replicas: dict[NodeId, tuple[ReplicaState, Since]]
    directories: dict[NodeId, Uuid]


class _Removed(msgspec.Struct):
    """A replica that was taken away. Mutable."""

    offset: Offset
    """Of the record that took it away, or of the start that has its directory again: who has applied that has
    deleted it, or set it aside.
    """
    directory: Uuid
    lost_in: int | None
    """The epoch in which its broker has lost the directory; None if it has it, or nobody knows."""


class StateRows(NamedTuple):
    """What is certain by now, of each table."""

    partition_states: list[PartitionStateRow]
    replica_states: list[ReplicaStateRow]
    elections: list[ElectionRow]


class StateHistory:
    """Tells the states of the partitions that it is given. Mutable."""

    def __init__(self, cluster_id: str, moments: Sequence[Moment]) -> None:
        self.illegal_moves = 0
        """Those that no table allows."""
        self._cluster_id = cluster_id
        self._moments = sorted(moments, key=lambda moment: moment.offset)
        self._next_moment = 0
        self._log: ElectionLog[tuple[PartitionStep, int | None]] = ElectionLog(BrokerMoments(self._moments))
        self._partitions: dict[_Key, _Partition] = {}
        self._of_broker: dict[NodeId, dict[_Key, None]] = {}
        """The partitions that each broker has or had a replica of, in the order in which it got them."""
        self._brokers: dict[NodeId, RegisterBrokerRecord] = {}
        self._registered_at: dict[NodeId, Offset] = {}
        self._reported: dict[NodeId, Offset] = {}
        """How far each broker is known to have applied the log."""
        self._removed: dict[tuple[_Key, NodeId], _Removed] = {}
        self._rows = StateRows([], [], [])

    def take(self) -> StateRows:
        """The rows that are certain since the last time."""
        rows, self._rows = self._rows, StateRows([], [], [])
        return rows

    def add(self, found: Iterable[PartitionStep]) -> None:
        """Look at the next steps."""
        for step in found:
            self._moments_before(max(step.row.offset, 0))
            self._step(step)

    def end(self) -> None:
        """Nothing comes any more: what holds now holds until the end of the log."""
        self._moments_before(None)
        for (step, without_ms), election in self._log.end():
            self._elected(step, without_ms, election)
        for key, known in self._partitions.items():
            if known.state is not State.NON_EXISTENT:
                self._partition_row(key, known, _END)
            for broker_id, (state, since) in known.replicas.items():
                self._replica_row(key, known, broker_id, state, since, _END)
        self._partitions = {}

    # -- partitions

    def _step(self, step: PartitionStep) -> None:
        key, at = step.key, _since(step.row)
        known = self._partitions.get(key)
        if known is None:
            known = _Partition(step.topic_id_text, step.topic, State.NON_EXISTENT, at, {}, {})
            self._partitions[key] = known
        if step.before is not None and step.now is not None:
            self._election(step, known)
        state = State.NON_EXISTENT if step.now is None else state_of_leader(step.now.led.leader)
        if state is not known.state:
            if moves(known.state, state) is None:
                self.illegal_moves += 1
            else:
                if known.state is not State.NON_EXISTENT and known.since != at:
                    self._partition_row(key, known, at)
                known.state, known.since = state, at
        self._replicas(step, known, at)
        if not known.replicas and known.state is State.NON_EXISTENT:
            del self._partitions[key]

    def _election(self, step: PartitionStep, known: _Partition) -> None:
        before, now, row = step.before, step.now, step.row
        if before is None or now is None:
            return
        without_ms: int | None = None if now.led.leader == NO_NODE else 0
        if before.led.leader == NO_NODE and now.led.leader != NO_NODE:
            since, until = known.since.timestamp, row.timestamp_us
            without_ms = None if since is None or until is None else (until - since) // 1000
        at = Place(row.offset, row.batch_base_offset, row.epoch)
        about = step, without_ms
        for (of_step, ms), election in self._log.changed(step.key, before.led, now.led, at, about):
            self._elected(of_step, ms, election)

    def _elected(self, step: PartitionStep, without_ms: int | None, election: Election) -> None:
        if step.before is None or step.now is None:
            return
        self._rows.elections.append(
            ElectionRow(
                self._cluster_id,
                step.row.offset,
                step.row.epoch,
                step.row.timestamp_us,
                step.topic_id_text,
                step.topic,
                step.partition_id,
                step.before.led.leader,
                step.now.led.leader,
                election.reason.value,
                election.rule.value,
                election.why,
                without_ms,
            )
        )

    def _partition_row(self, key: _Key, known: _Partition, to: Since) -> None:
        place = self._cluster_id, known.topic_id, known.topic, key[1]
        self._rows.partition_states.append(PartitionStateRow(*place, known.state.value, *known.since, *to))

    # -- replicas

    def _replicas(self, step: PartitionStep, known: _Partition, at: Since) -> None:
        """What becomes of the replicas of a partition with a step of it."""
        now = step.now
        assigned = {} if now is None else dict(zip(now.led.replicas, now.directories, strict=True))
        if assigned == known.directories:
            return
        before, known.directories = known.directories, assigned
        for broker_id, directory in assigned.items():
            self._of_broker.setdefault(broker_id, {})[step.key] = None
            self._removed.pop((step.key, broker_id), None)
            if known.replicas.get(broker_id, _NEW_REPLICA)[0] in _DELETIONS:
                self._move(step.key, known, broker_id, ReplicaState.OFFLINE, at)
            state = assigned_state(self._brokers.get(broker_id), directory)
            self._move(step.key, known, broker_id, state, at)
        for broker_id in [one for one in known.replicas if one not in assigned]:
            if (step.key, broker_id) not in self._removed:
                directory = before[broker_id]
                lost = lost_when_removed(self._brokers.get(broker_id), directory)
                self._removed[step.key, broker_id] = _Removed(step.row.offset, directory, lost)
                self._move(step.key, known, broker_id, self._after_removal(step.key, broker_id), at)

    def _after_removal(self, key: _Key, broker_id: NodeId) -> ReplicaState:
        broker, removed = self._brokers.get(broker_id), self._removed[key, broker_id]
        is_up = broker is not None and not broker.fenced
        reported, is_lost = self._reported.get(broker_id, -1), removed.lost_in is not None
        return removed_state(removed.offset, reported, is_up=is_up, is_lost=is_lost)

    def _move(self, key: _Key, known: _Partition, broker_id: NodeId, state: ReplicaState, at: Since) -> None:
        """A replica is in another state from here on, if there is such a move."""
        before, since = known.replicas.get(broker_id, (ReplicaState.NON_EXISTENT, at))
        if before is state:
            return
        if not steps(before, state):
            self.illegal_moves += 1
            return
        if before is not ReplicaState.NON_EXISTENT and since != at:
            self._replica_row(key, known, broker_id, before, since, at)
        known.replicas[broker_id] = state, at

    def _replica_row(
        self,
        key: _Key,
        known: _Partition,
        broker_id: NodeId,
        state: ReplicaState,
        since: Since,
        to: Since,
    ) -> None:
        place = self._cluster_id, known.topic_id, known.topic, key[1], broker_id
        known_by = _KNOWN_BY.get(state, BY_REGISTRATION)
        self._rows.replica_states.append(ReplicaStateRow(*place, state.label, known_by, *since, *to))

    # -- brokers

    def _moments_before(self, offset: Offset | None) -> None:
        """Look at what became of brokers before an offset; at all that is left, if None."""
        while self._next_moment < len(self._moments):
            moment = self._moments[self._next_moment]
            if offset is not None and moment.offset >= offset:
                return
            self._next_moment += 1
            self._moment(moment)

    def _moment(self, moment: Moment) -> None:
        """What becomes of the replicas of a broker with a moment of it."""
        broker_id = moment.broker_id
        was = self._brokers.get(broker_id)
        if not moment.is_registered:
            self._brokers.pop(broker_id, None)
        else:
            self._brokers[broker_id] = RegisterBrokerRecord(
                broker_id,
                broker_epoch=moment.broker_epoch,
                fenced=moment.after is Fate.LOST,
                log_dirs=moment.log_dirs,
            )
        if moment.is_registration:
            self._registered_at[broker_id] = moment.offset
        if moment.after is not Fate.LOST:
            self._reported[broker_id] = self._registered_at.get(broker_id, -1)
        if self._brokers.get(broker_id) == was:
            return
        at = Since(*((moment.offset, _us(moment.timestamp_ms)) if moment.offset >= 0 else _START))
        for key in list(self._of_broker.get(broker_id, ())):
            self._of_moment(key, broker_id, at)

    def _of_moment(self, key: _Key, broker_id: NodeId, at: Since) -> None:
        known = self._partitions[key]
        if broker_id in known.directories:
            state = assigned_state(self._brokers.get(broker_id), known.directories[broker_id])
            self._move(key, known, broker_id, state, at)
            return
        removed = self._removed[key, broker_id]
        was_lost = removed.lost_in is not None
        removed.lost_in = lost_in(removed.lost_in, self._brokers.get(broker_id), removed.directory)
        if was_lost and removed.lost_in is None:
            removed.offset = self._registered_at[broker_id]
        state = self._after_removal(key, broker_id)
        self._move(key, known, broker_id, state, at)
        if state is ReplicaState.DELETION_SUCCESSFUL:
            self._replica_row(key, known, broker_id, state, at, at)
            del known.replicas[broker_id], self._removed[key, broker_id], self._of_broker[broker_id][key]
            if not known.replicas and known.state is State.NON_EXISTENT:
                del self._partitions[key]


_START: Final = Since(None, None)
_END: Final = Since(None, None)
_NEW_REPLICA: Final = (ReplicaState.NON_EXISTENT, _START)
_DELETIONS: Final = (ReplicaState.DELETION_STARTED, ReplicaState.DELETION_INELIGIBLE)
_KNOWN_BY: Final = {
    **dict.fromkeys(_DELETIONS, BY_REMOVAL),
    ReplicaState.DELETION_SUCCESSFUL: BY_RESTART,
}


def _since(row: FoldRow) -> Since:
    """When a record was; one of the snapshot that the log begins with, before it."""
    return Since(row.offset, row.timestamp_us) if row.offset >= 0 else _START


def _us(timestamp_ms: int) -> int | None:
    return timestamp_ms * 1000 if timestamp_ms >= 0 else None
