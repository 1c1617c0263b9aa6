"""What became of brokers, moment by moment, as records tell: what had become of one when it lost a partition.

A broker leaves what it leads when it is fenced, shuts down, is unregistered, is started anew or loses a log
directory. Of these only a controlled shutdown is in the log before the partitions change. The others come
after them: in the same batch where Kafka wrote it; in a later one where an event was decided in slices. So
`infer` looks at what the broker was, at all of the batch, and then at what came next of it in the same
epoch: a plan that is decided in slices does not outlive the leader that began it. A broker that is found
active in all of that has the fate ACTIVE, and the text says where was looked.

Before metadata.version 3.3-IV3 a controlled shutdown leaves no record. Whoever is fenced later may have been
shutting down when it lost its partitions, so there a later batch says nothing.

Follows: the order of records in handleBrokerFenced, handleBrokerInControlledShutdown,
handleBrokerUnregistered and handleDirectoriesOffline of Kafka's ReplicationControlManager.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from kraftd.metadata.election_reasons import Election, Fate, LeaderFate, Leadership, Reason, election_of
from kraftd.metadata.feature_levels import CONTROLLED_SHUTDOWN_SINCE, METADATA_VERSION
from kraftd.records.frame import AnyRecord
from kraftd.records.messages import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from kraftd.types import NO_NODE, Epoch, NodeId, Offset, Uuid

BROKER_RECORDS: Final = (
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
    FenceBrokerRecord,
    UnfenceBrokerRecord,
    BrokerRegistrationChangeRecord,
    FeatureLevelRecord,
)
"""What tells of brokers, and which of their moments leave records."""


class Moment(msgspec.Struct, frozen=True, array_like=True):
    """Something that became of a broker."""

    broker_id: NodeId
    offset: Offset
    batch_base_offset: Offset
    epoch: Epoch
    what: str
    """As `was fenced`."""
    after: Fate
    """What the broker is from then on. LOST: it is fenced or not registered."""
    cause: Fate | None
    """For which fate a broker leaves what it leads at that moment; None if it does not."""
    is_controlled: bool = False
    """Whether it shuts down, fenced or not."""
    log_dirs: tuple[Uuid, ...] = ()
    is_shutdown_told: bool = True
    """Whether a controlled shutdown would have left a record."""
    is_registered: bool = True
    """Whether the broker is registered from then on."""
    is_registration: bool = False
    timestamp_ms: int = -1
    broker_epoch: int = -1
    """Which start of the broker is registered from then on."""


class Place(NamedTuple):
    """Where a record stands."""

    offset: Offset
    batch_base_offset: Offset
    epoch: Epoch


class Inferred(NamedTuple):
    """Why a leader changed, as far as a log tells."""

    election: Election
    until: Offset | None
    """Where the reason stands, if that is in a later batch. Who led, back before that, speaks against it
    (`refuted`)."""


class _FoundFate(NamedTuple):
    told: LeaderFate
    at: Offset | None = None
    """Where the log says so, if that is in a later batch."""


_NOBODY: Final = _FoundFate(LeaderFate(Fate.LOST))


class MomentsReader:
    """Reads the moments of brokers out of records, in the order of a log. Mutable."""

    def __init__(
        self, registered: Iterable[RegisterBrokerRecord] = (), at: Offset = -1, level: int = 0
    ) -> None:
        """Begin with these brokers and this metadata.version, as a snapshot that ends at `at` has them."""
        self.moments: list[Moment] = []
        self._level = level
        self._timestamp_ms = -1
        self._newest: dict[NodeId, Moment] = {}
        self._before: tuple[int, dict[NodeId, Moment]] | None = None
        """What it was when the transaction began that is open."""
        for record in registered:
            self.add(record, at - 1, at - 1, -1)

    def add(
        self,
        record: AnyRecord,
        offset: Offset,
        batch_base_offset: Offset,
        epoch: Epoch,
        timestamp_ms: int = -1,
    ) -> None:
        """Look at a record that can follow those before it."""
        self._timestamp_ms = timestamp_ms
        match record:
            case BeginTransactionRecord():
                self._before = len(self.moments), dict(self._newest)
            case EndTransactionRecord():
                self._before = None
            case AbortTransactionRecord() if self._before is not None:
                count, self._newest = self._before
                del self.moments[count:]
                self._before = None
            case RegisterBrokerRecord():
                self._add(_registered(record, offset, batch_base_offset, epoch))
            case UnregisterBrokerRecord(broker_id=broker_id):
                place = broker_id, offset, batch_base_offset, epoch
                gone = Moment(*place, "was unregistered", Fate.LOST, Fate.LOST, is_registered=False)
                self._add(gone)
            case FenceBrokerRecord() | UnfenceBrokerRecord():
                fenced = 1 if isinstance(record, FenceBrokerRecord) else -1
                change = BrokerRegistrationChangeRecord(record.id, record.epoch, fenced=fenced)
                self._change(change, offset, batch_base_offset, epoch)
            case BrokerRegistrationChangeRecord():
                self._change(record, offset, batch_base_offset, epoch)
            case FeatureLevelRecord(name=name, feature_level=level) if name == METADATA_VERSION:
                self._level = level

    def _add(self, moment: Moment) -> None:
        is_told = self._level >= CONTROLLED_SHUTDOWN_SINCE
        moment = replace(moment, is_shutdown_told=is_told, timestamp_ms=self._timestamp_ms)
        self._newest[moment.broker_id] = moment
        self.moments.append(moment)

    def _change(
        self,
        record: BrokerRegistrationChangeRecord,
        offset: Offset,
        batch_base_offset: Offset,
        epoch: Epoch,
    ) -> None:
        known = self._newest.get(record.broker_id)
        if known is None:
            return
        is_controlled = known.is_controlled or record.in_controlled_shutdown == 1
        is_fenced = {1: True, -1: False}.get(record.fenced, known.after is Fate.LOST)
        after = Fate.LOST if is_fenced else Fate.SHUTTING_DOWN if is_controlled else Fate.ACTIVE
        cause, what = None, "was unfenced" if record.fenced == -1 else "changed"
        if record.fenced == 1:
            cause, what = Fate.LOST, "was fenced"
        elif record.in_controlled_shutdown == 1:
            cause, what = Fate.SHUTTING_DOWN, "began a controlled shutdown"
        elif record.log_dirs and not set(known.log_dirs).issubset(record.log_dirs):
            cause, what = Fate.LOST, "lost a log directory"
        elif _names_nothing(record):
            cause, what = Fate.LOST, "lost all its log directories"
        place = record.broker_id, offset, batch_base_offset, epoch
        log_dirs = tuple(record.log_dirs) or known.log_dirs
        self._add(
            Moment(*place, what, after, cause, is_controlled, log_dirs, broker_epoch=known.broker_epoch)
        )


def _names_nothing(change: BrokerRegistrationChangeRecord) -> bool:
    """Whether a change says nothing: it would name the log directories that are left, and none is."""
    return change == BrokerRegistrationChangeRecord(change.broker_id, change.broker_epoch)


def _registered(
    record: RegisterBrokerRecord, offset: Offset, batch_base_offset: Offset, epoch: Epoch
) -> Moment:
    """A registration: whatever the broker led before, it leads no more."""
    is_controlled = record.in_controlled_shutdown
    after = Fate.LOST if record.fenced else Fate.SHUTTING_DOWN if is_controlled else Fate.ACTIVE
    place = record.broker_id, offset, batch_base_offset, epoch
    what = "was registered fenced" if record.fenced else "was registered"
    return Moment(
        *place,
        what,
        after,
        Fate.LOST,
        is_controlled,
        tuple(record.log_dirs),
        is_registration=True,
        broker_epoch=record.broker_epoch,
    )


class BrokerMoments:
    """The moments of a whole log, by broker."""

    def __init__(self, moments: Iterable[Moment]) -> None:
        self._by_broker: dict[NodeId, list[Moment]] = {}
        for moment in moments:
            self._by_broker.setdefault(moment.broker_id, []).append(moment)

    def __iter__(self) -> Iterator[Moment]:
        """All of them, broker by broker."""
        for moments in self._by_broker.values():
            yield from moments

    def infer(self, before: Leadership, after: Leadership, at: Place) -> Inferred | None:
        """Why the leader of a partition changed with the record at a place; None if it did not.

        Who leaves also leaves the ISR, unless nobody else is there to lead. So of a broker that stays in it
        while another one leads, what becomes of it later is no reason.
        """
        old = before.leader
        stays = old in after.isr and after.leader != NO_NODE
        found = self._fate(old, at, is_over=stays) if old != NO_NODE else _NOBODY
        election = election_of(before, after, found.told)
        if election is None:
            return None
        is_by_fate = election.why == found.told.why
        return Inferred(election, found.at if is_by_fate else None)

    def _fate(self, broker_id: NodeId, at: Place, *, is_over: bool) -> _FoundFate:
        """What had become of a broker that ceased to lead; if `is_over`, before that record."""
        moments = self._by_broker.get(broker_id, ())
        next_at = bisect_left(moments, at.offset, key=lambda moment: moment.offset)
        if next_at == 0:
            return _FoundFate(LeaderFate(Fate.ACTIVE, f"nothing is told here of broker {broker_id} before"))
        known = moments[next_at - 1]
        if known.after is not Fate.ACTIVE:
            return _FoundFate(LeaderFate(known.after, _text(known)))
        if is_over:
            return _FoundFate(LeaderFate(Fate.ACTIVE))
        for moment in _of_batch(moments, next_at, at.batch_base_offset):
            if moment.cause is not None:
                return _FoundFate(LeaderFate(moment.cause, _text(moment)))
        later = takewhile(lambda moment: moment.epoch == at.epoch, moments[next_at:])
        for moment in later:
            if moment.cause is not None and not moment.is_shutdown_told:
                text = f"{_text(moment)}, and a controlled shutdown before that would have left no record"
                return _FoundFate(LeaderFate(Fate.ACTIVE, text))
            if moment.cause is not None:
                return _FoundFate(LeaderFate(moment.cause, _text(moment)), moment.offset)
        text = f"nothing is told of broker {broker_id} by the end of epoch {at.epoch}"
        return _FoundFate(LeaderFate(Fate.ACTIVE, text))


def refuted(election: Election, broker_id: NodeId, offset: Offset) -> Election:
    """An election whose reason was looked for later, of a broker that was back before that."""
    why = f"broker {broker_id} ceased to lead, and was back at offset {offset} before anything became of it"
    return Election(Reason.UNKNOWN, election.rule, why)


def _of_batch(moments: Sequence[Moment], at: int, batch_base_offset: Offset) -> Iterator[Moment]:
    """Those in one batch, of which `at` is the first behind an offset in it: what comes next, first."""
    yield from takewhile(lambda moment: moment.batch_base_offset == batch_base_offset, moments[at:])
    before = reversed(moments[:at])
    yield from takewhile(lambda moment: moment.batch_base_offset == batch_base_offset, before)


def _text(moment: Moment) -> str:
    where = f" at offset {moment.offset}" if moment.offset >= 0 else " in the first snapshot"
    return f"broker {moment.broker_id} {moment.what}{where}"
