"""What happened to this topic, partition, broker or config: each change, when, and which leader wrote it.

`history_of` folds the whole log once and looks closely only at the records that may concern the subject. The
changes of a metadata transaction count when it ends; those of one that was aborted, or has no end here, never
were, and a note says so. Where the log begins after 0, the first entries are what its oldest snapshot holds.

Where a leader changed, the entry says why and by which rule (`metadata.election_reasons`). That stands now
and then behind the change, in what became of the broker that led, so it is told once the whole log is folded.
"""

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from kraftd.errors import MalformedError
from kraftd.logtools.batch_reader import Batch
from kraftd.logtools.errors import UnanswerableError
from kraftd.logtools.finding import listed_again
from kraftd.logtools.node_files import NodeFiles
from kraftd.logtools.node_log import read_log
from kraftd.logtools.problem import Problem, ProblemKind
from kraftd.logtools.quorum_facts import controls_of
from kraftd.logtools.state import earliest, with_leader
from kraftd.metadata.broker_moments import BROKER_RECORDS, BrokerMoments, MomentsReader, Place
from kraftd.metadata.election_log import ElectionLog
from kraftd.metadata.election_reasons import Election, Leadership, leadership_of
from kraftd.metadata.image import EMPTY, MetadataImage
from kraftd.metadata.image_builder import ImageBuilder
from kraftd.metadata.image_diff import changes_by
from kraftd.metadata.impossible import ImpossibleRecordError
from kraftd.metadata.part import HistorySubject
from kraftd.metadata.parts.brokers import BROKERS
from kraftd.metadata.parts.topics import TOPICS
from kraftd.metadata.views import Change
from kraftd.records.frame import AnyRecord, RawRecord, decode_record, record_name
from kraftd.records.messages import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    NoOpRecord,
    PartitionChangeRecord,
)
from kraftd.types import NO_NODE, Epoch, NodeId, Offset, Uuid

_TRANSACTION_RECORDS = (BeginTransactionRecord, EndTransactionRecord, AbortTransactionRecord)


class HistoryEntry(msgspec.Struct, frozen=True):
    """One change. `record` is the kind that made it; empty for what a snapshot holds."""

    offset: Offset
    timestamp_ms: int
    epoch: Epoch
    leader_id: NodeId
    record: str
    change: Change
    election: Election | None = None
    """Why the leader of a partition changed, where that is the change."""


class History(msgspec.Struct, frozen=True):
    """All changes in a log, from `start_offset` to `end_offset`."""

    log: NodeFiles
    start_offset: Offset
    end_offset: Offset
    entries: tuple[HistoryEntry, ...]
    unknown_kinds: tuple[tuple[int, int], ...] = ()
    """Kinds folded past, with how many records: the history may be incomplete for them."""
    notes: tuple[str, ...] = ()
    damage: Problem | None = None
    """Why it ends before the log does."""


def history_of(log: NodeFiles, subject: HistorySubject, name: str, *, show_secrets: bool = False) -> History:
    """Everything that happened to one entity.

    Args:
        log: Where to look.
        subject: What kind of entity.
        name: A topic's name, `TOPIC-PARTITION`, a broker's id, or a config's name, which may be followed by
            ` of ` and whose it is, as `retention.ms of topic orders`.
        show_secrets: Tell values that may be secrets.

    Raises:
        UnanswerableError: The log never speaks of it, or cannot be read.
    """

    def search(listed: NodeFiles) -> History:
        search = _HistorySearch(listed, subject, name, show_secrets=show_secrets)
        search.run()
        return search.result()

    return listed_again(log, search)


class _Led(NamedTuple):
    """What a record made of a partition."""

    key: tuple[Uuid, int]
    before: Leadership
    after: Leadership
    at: Place


class _Found(NamedTuple):
    """An entry, and what elections are told from."""

    entry: HistoryEntry
    led: _Led | None = None


class _HistorySearch:
    """One pass over a log."""

    def __init__(self, log: NodeFiles, subject: HistorySubject, name: str, *, show_secrets: bool) -> None:
        self._log, self._subject, self._name = log, subject, name
        self._show_secrets = show_secrets
        self._base = earliest(log)
        self._filter = subject.filter_for(name, self._base.image)
        self._end = self._base.end_offset
        self._builder = ImageBuilder(self._base.image)
        self._quorum = with_leader(self._base)
        self._entries: list[_Found] = []
        self._pending: list[_Found] | None = None
        base = self._base.image
        self._brokers = MomentsReader(base[BROKERS].values(), self._base.end_offset, base.metadata_version)
        self._pending_since: Offset = -1
        self._notes: list[str] = []
        self._damage: Problem | None = None

    def run(self) -> None:
        """Fold the log."""
        base = self._base
        first = self._changes(EMPTY, base.image)
        self._add_entries(first, base.end_offset, base.timestamp_ms, "")
        if base.end_offset > 0:
            self._notes.append(
                f"the first state is that of the snapshot at offset {base.end_offset}: "
                "what was before is not here"
            )
        for item in read_log(self._log, base.end_offset):
            if isinstance(item, Problem):
                self._damage = None if item.kind is ProblemKind.TORN else item
                break
            try:
                self._quorum = self._quorum.after(controls_of(item.view), item.view.epoch)
                self._apply_batch(item)
            except (ImpossibleRecordError, MalformedError) as error:
                reason = error.reason if isinstance(error, ImpossibleRecordError) else str(error)
                self._damage = item.as_problem(reason)
                break
            self._end = item.view.end_offset

    def result(self) -> History:
        """What was found."""
        if self._pending is not None:
            self._drop_pending(f"the transaction that began at {self._pending_since} has no end in this log")
        image = EMPTY if self._damage is not None else self._builder.image()
        if not self._entries and not self._notes_of_changes():
            raise UnanswerableError(self._nothing(image))
        return History(
            self._log,
            self._base.end_offset,
            self._end,
            _with_elections(self._entries, BrokerMoments(self._brokers.moments)),
            tuple(image.unknown_kinds()),
            tuple(self._notes),
            self._damage,
        )

    # -- one batch -----------------------------------------------------------------------------

    def _apply_batch(self, item: Batch) -> None:
        view, builder = item.view, self._builder
        for offset, value in enumerate(view.values(), view.base_offset):
            record = decode_record(value)
            if offset < self._base.end_offset or type(record) is NoOpRecord:
                continue
            if isinstance(record, (*_TRANSACTION_RECORDS, *BROKER_RECORDS)):
                self._brokers.add(record, offset, view.base_offset, view.epoch)
            if isinstance(record, _TRANSACTION_RECORDS):
                builder.apply(record, offset)
                self._at_transaction(record, offset)
            elif self._filter.matches_record(record):
                before = _inside(builder.image())
                builder.apply(record, offset)
                kind = record_name(record.api_key if isinstance(record, RawRecord) else record.API_KEY)
                after = _inside(builder.image())
                found = self._changes(before, after, record)
                led = _led(record, before, after, Place(offset, view.base_offset, view.epoch))
                self._add_entries(found, offset, view.max_timestamp, kind, view.epoch, led)
            else:
                builder.apply(record, offset)

    def _at_transaction(self, record: AnyRecord, offset: Offset) -> None:
        """A transaction begins, ends or is undone."""
        match record:
            case BeginTransactionRecord():
                self._pending, self._pending_since = [], offset
            case EndTransactionRecord():
                self._entries += self._pending or []
                self._pending = None
            case _:
                self._drop_pending(f"the transaction from {self._pending_since} to {offset} was aborted")

    def _drop_pending(self, why: str) -> None:
        if self._pending:
            count = len(self._pending)
            self._notes.append(f"{why}: {count} change{'' if count == 1 else 's'} in it never held")
        self._pending = None

    def _changes(
        self, before: MetadataImage, after: MetadataImage, record: AnyRecord | None = None
    ) -> Iterator[Change]:
        """What is about the subject of all that differs, or of what one record may have changed."""
        found = changes_by(
            record,
            before,
            after,
            show_secrets=self._show_secrets,
            with_consequences=self._subject.with_consequences,
        )
        return filter(self._filter.matches_change, found)

    def _add_entries(
        self,
        found: Iterator[Change],
        offset: Offset,
        timestamp_ms: int,
        kind: str,
        epoch: Epoch = -1,
        led: _Led | None = None,
    ) -> None:
        entries = self._entries if self._pending is None else self._pending
        leader = self._quorum.leader_id if self._quorum.leader_epoch == epoch else NO_NODE
        at = self._base.epoch if epoch < 0 else epoch
        for change in found:
            # The leader is told first: of the entries of a record, that is the one of the election.
            entries.append(_Found(HistoryEntry(offset, timestamp_ms, at, leader, kind, change), led))
            led = None

    # -- nothing found -------------------------------------------------------------------------

    def _notes_of_changes(self) -> bool:
        return any("never held" in note for note in self._notes)

    def _nothing(self, image: MetadataImage) -> str:
        text = f"{self._log.named}: nothing in this log, from offset {self._base.end_offset} to {self._end}, "
        text += f"is about {self._subject.word} {self._name}"
        near = get_close_matches(self._name, list(self._subject.names(image)), n=1)
        text += f"; did you mean {near[0]}?" if near else ""
        return text if self._damage is None else f"{text}; the log is damaged: {self._damage}"


def _led(record: AnyRecord, before: MetadataImage, after: MetadataImage, at: Place) -> _Led | None:
    """What a record made of a partition; None if it does not change one."""
    if not isinstance(record, PartitionChangeRecord):
        return None
    key = record.topic_id, record.partition_id
    was, now = before[TOPICS].partition(*key), after[TOPICS].partition(*key)
    return None if was is None or now is None else _Led(key, leadership_of(was), leadership_of(now), at)


def _with_elections(found: Sequence[_Found], moments: BrokerMoments) -> tuple[HistoryEntry, ...]:
    """The entries, with why leaders changed."""
    log: ElectionLog[int] = ElectionLog(moments)
    elections = {
        index: election
        for number, (_, led) in enumerate(found)
        if led is not None
        for index, election in log.changed(*led, number)
    }
    elections.update(log.end())
    return tuple(
        replace(one.entry, election=elections[number]) if number in elections else one.entry
        for number, one in enumerate(found)
    )


def _inside(image: MetadataImage) -> MetadataImage:
    """What the next record changes: the pending side of an open transaction, if there is one."""
    return image if image.transaction is None else image.transaction.pending
