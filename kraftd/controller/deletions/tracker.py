"""Keeps the newest replicas that were taken away, each with its state, until their data is gone.

Every node folds the committed records that it applies into its tracker, so that a new active controller has
it already. What brokers report, only the active controller hears: a new one takes what it has not heard of
for started, or, where the broker is down, for ineligible, until the broker's next heartbeat; and whoever was
fenced behind a deletion, and is ready when it is first heard of, may have been starting. A snapshot tells
of no deletion: behind one the tracker begins anew, and says where.

An entry is what one record took away from one log directory of a broker: all of it has one state. A broker
renames the log of a replica that is taken away to `…-delete`, and removes that after
`log.segment.delete.delay.ms`. One that was down when it should have, and was started anew, renames it to
`…-stray`, and nobody ever removes that. `is_set_aside` tells of these.

In a directory that is offline nothing is renamed, whatever its broker reports: an entry of it is ineligible,
and no heartbeat moves it, until the broker is started anew with the directory, and finds the data. Of what
was renamed less than a minute before the directory failed nobody knows whether it was: it is told as set
aside. So is a replica of which nobody knows where it is, while its broker has lost any directory. And once
the broker was started anew without the directory, nobody knows whether that was replaced: the data may be
gone with it (`may_be_replaced`). A replica that is assigned to its broker again, in another directory, leaves
an old copy there (`is_old_copy`): the entry goes on until the broker is started with that directory, which it
is only without one of the two.

Follows: the TopicDeletionManager of Kafka's controller before KRaft; what brokers do, LogManager of Kafka
4.3. Differs: nothing waits for it.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from itertools import islice, takewhile
from typing import Final, TypeAlias

import msgspec

from kraftd.controller.deletions.lost_directories import LostDirectories
from kraftd.controller.deletions.removals import Added, Removed, found_in
from kraftd.metadata.image import MetadataImage
from kraftd.metadata.parts.brokers import BROKERS
from kraftd.metadata.parts.topics import TOPICS
from kraftd.metadata.parts.topics.partitions import LOST, MIGRATING, UNASSIGNED
from kraftd.metadata.replica_states import (
    RemovalReason,
    ReplicaState,
    lost_in,
    lost_when_removed,
    removed_state,
    steps,
)
from kraftd.records.committed import CommittedBatch
from kraftd.records.messages import RegisterBrokerRecord
from kraftd.types import Epoch, NodeId, Now, Offset, Uuid

REPLICAS_MAX: Final = 10_000
"""So many are kept at most, and so many does it look at in one batch, in record order: for 10,000 topics a
third of the time that the image takes for them.
"""

MOVES_MAX: Final = 1_000
"""So many entries does one heartbeat move, in 2 ms; what it tells of the rest is heard with the next one."""

DELETE_DELAY_MS: Final = 60_000
"""How long a broker keeps a log that it has renamed: the default of `log.segment.delete.delay.ms`."""

READS_WITHIN_MS: Final = 60_000
"""A broker that is not fenced for so long and a session's length after a record was alive behind it, and has
read it, for all that a node knows that did not hear. That time is counted between batches of one leader: the
clocks of two may differ.
"""

PASSED_MAX_MS: Final = 5_000
"""No more time than this is taken to have passed between two batches: leaders write some each second, and who
sets a clock forward makes no time pass.
"""

_NOWHERE: Final = frozenset((UNASSIGNED, MIGRATING))
"""What the directory of a replica is called of which nobody knows where it is."""

_Place: TypeAlias = tuple[Offset, NodeId]
_Key: TypeAlias = tuple[Offset, NodeId, Uuid]
_Entries: TypeAlias = "OrderedDict[_Key, Entry]"
"""The oldest first. Of a plain dict that loses its oldest ones, the first is found slower each time."""


class Entry(msgspec.Struct):
    """What one record took away from one directory of a broker. Changed by the tracker alone."""

    removed: Removed
    state: ReplicaState
    removed_ms: int
    """When the record was written; as all times here, of the wall clock, but where it is said."""
    passed_ms: int
    """What time the tracker had counted by then."""
    since_ms: int
    """When it came into its state."""
    is_heard: bool
    """Whether this node was the active controller all the time, and heard all that its broker reported; what
    that reports while the directory is offline tells nothing, and need not be heard.
    """
    was_down: bool = False
    """Whether its broker was fenced, or not registered, behind the record: it may have been starting."""
    may_be_unread: bool = False
    """Whether its broker went down before it is known to have read the record."""
    is_read_at_start: bool = False
    """Whether its broker may have read the record while it was starting."""
    is_set_aside: bool = False
    """Whether its broker was started anew before it had read the record: the data is there as `…-stray`. Or
    it lies, or may lie, in a directory that failed, and comes back with that or with nothing.
    """
    reported_mono_ms: int = 0
    """When its broker reported that it has read the record, on the monotonic clock."""
    lost_in: int | None = None
    """The epoch in which its broker has lost the directory; None if it has it, or nobody knows."""
    may_be_replaced: bool = False
    """Whether its broker is not known to have had the directory in that epoch: it was started without it."""

    @property
    def key(self) -> _Key:
        """By which entries are ordered."""
        return self.removed.offset, self.removed.broker_id, self.removed.directory

    @property
    def is_directory_offline(self) -> bool:
        """Whether its broker cannot delete it, since the directory is offline."""
        return self.lost_in is not None and self.state is ReplicaState.DELETION_INELIGIBLE

    @property
    def is_certain(self) -> bool:
        """Whether it was heard of all the time; and of what cannot be deleted, whether it is there."""
        return self.is_heard and not (self.is_directory_offline and self.may_be_replaced)


class DeletionTracker:
    """The newest removals of one node. Mutable."""

    def __init__(self, session_timeout_ms: int, refused: Callable[[Entry, ReplicaState], None]) -> None:
        """Keep nothing yet; `refused` is told of each move that no table allows."""
        self._reads_within_ms = READS_WITHIN_MS + session_timeout_ms
        self.begin_offset: Offset = 0
        """Nothing is known of what was taken away before this."""
        self.dropped_count = 0
        """The replicas that are not kept, since newer ones were, and the partitions that were not looked at:
        at least so many replicas are missing.
        """
        self.illegal_count = 0
        """The moves that no table allows, and that were not made."""
        self._refused = refused
        self._entries: _Entries = OrderedDict()
        self._replica_count = 0
        self._waiting: dict[NodeId, _Entries] = {}
        """What a broker has not reported to have read, the oldest first; of directories that it has."""
        self._lost: dict[NodeId, _Entries] = {}
        """What lies in directories that it has lost."""
        self._lost_directories = LostDirectories()
        self._renamed: dict[NodeId, _Entries] = {}
        """What it has renamed and will remove, the oldest first."""
        self._moved: dict[tuple[Uuid, int, NodeId], Entry] = {}
        """What waits and may come back: by topic, partition and broker."""
        self._passed_ms = 0
        """The time that has passed for certain, by the batches."""
        self._last_batch: tuple[Epoch, int] = (-1, 0)
        """The epoch and the time of the last one."""
        self._starting: dict[NodeId, int] = {}
        """The epoch of each broker that is starting, as this leader heard."""
        self._epochs: dict[NodeId, int] = {}
        """Of each broker that was heard of, and was not starting."""
        self._is_active = False

    def __len__(self) -> int:
        return len(self._entries)

    def entries(self, after: _Place = (-1, -1)) -> Iterator[Entry]:
        """Every entry behind this offset and broker, in that order."""
        return (entry for key, entry in self._entries.items() if key[:2] > after)

    # -- what happens

    def applied(self, batch: CommittedBatch, before: MetadataImage, after: MetadataImage) -> None:
        """Take in a batch that made an image of another."""
        now_ms = batch.timestamp_ms
        epoch, last_ms = self._last_batch
        self._last_batch = batch.epoch, now_ms
        if batch.epoch == epoch and now_ms > last_ms:
            self._passed_ms += min(now_ms - last_ms, PASSED_MAX_MS)
        topics_before = before[TOPICS]
        has_new_brokers = before[BROKERS] is not after[BROKERS]
        has_new_topics = topics_before is not after[TOPICS]
        if not has_new_brokers and not has_new_topics:
            return
        if has_new_brokers:
            self._lost_directories.applied(before, after)
        if has_new_topics:
            found = found_in(batch.records, batch.base_offset, topics_before, REPLICAS_MAX)
            for each in found.moves:
                if isinstance(each, Removed):
                    self._add(each, now_ms, after)
                else:
                    self._assigned_again(each, now_ms)
            self.dropped_count += found.left_out
        if has_new_brokers:
            self._look_at_directories(before, after, now_ms)
        self._look_at_brokers(after, now_ms)
        self._drop_oldest()

    def heard(
        self,
        broker_id: NodeId,
        broker_epoch: Epoch,
        reported: Offset,
        now: Now,
        failed: frozenset[Uuid] = frozenset(),
        *,
        is_starting: bool = False,
    ) -> None:
        """Take in how far a registered broker says that it has read the log. One that is starting, and does
        not want to be unfenced yet, has not looked at its logs: what is deleted when it does, it sets aside.
        So may one that was not heard of before it was ready, except what was deleted while it was unfenced.
        Of what lies in a directory that it says has failed it tells nothing, though that be registered still.
        """
        if is_starting:
            self._starting[broker_id] = broker_epoch
            return
        waiting = self._waiting.get(broker_id, OrderedDict())
        was_starting = self._starting.pop(broker_id, None) == broker_epoch
        is_new = self._epochs.get(broker_id) != broker_epoch
        if was_starting or is_new:
            for entry in waiting.values():
                is_read_now = entry.was_down and entry.removed.offset <= reported
                entry.is_read_at_start = entry.is_read_at_start or was_starting or is_read_now
        has_lost = bool(failed or self._lost_directories.of(broker_id, broker_epoch))
        read = [*islice(_read(waiting, reported, failed), MOVES_MAX)]
        for entry in read:
            is_anew = entry.may_be_unread and broker_epoch > entry.removed.offset
            is_hidden = has_lost and entry.removed.directory in _NOWHERE
            entry.is_set_aside = is_anew or entry.is_read_at_start or is_hidden
            entry.reported_mono_ms = now.mono_ms
            self._end_waiting(entry)
            self._move(entry, removed_state(entry.removed.offset, reported, is_up=True), now.wall_ms)
            if not entry.is_set_aside:
                self._renamed.setdefault(broker_id, OrderedDict())[entry.key] = entry
        if failed:
            self._set_aside(broker_id, {*failed, *_NOWHERE})
        renamed = self._renamed.get(broker_id, OrderedDict())
        if is_new:
            for entry in renamed.values():
                entry.reported_mono_ms = now.mono_ms  # a broker that was started anew begins its minute anew
        self._epochs[broker_id] = broker_epoch
        for entry in [*islice(_removed(renamed, now.mono_ms), MOVES_MAX - len(read))]:
            del renamed[entry.key]
            self._move(entry, ReplicaState.NON_EXISTENT, now.wall_ms)

    def leads(self, *, is_self: bool) -> None:
        """Note that this node has become the active controller, or has stopped being it: what brokers
        reported meanwhile it has not heard, or will not hear.
        """
        self._is_active = is_self
        self._starting.clear()
        for waiting in self._waiting.values():
            for entry in waiting.values():
                entry.is_heard = False

    def restored(self, at: Offset) -> None:
        """A snapshot took the place of everything before: begin anew."""
        self.begin_offset, self.dropped_count = at, 0
        self._replica_count = 0
        for known in (self._entries, self._waiting, self._lost, self._renamed, self._moved):
            known.clear()
        self._lost_directories.clear()

    # -- inside

    def _add(self, removed: Removed, now_ms: int, image: MetadataImage) -> None:
        # It goes through Offline, whatever it was: all others may become that.
        offline, passed_ms = ReplicaState.OFFLINE, self._passed_ms
        epoch = lost_when_removed(image[BROKERS].get(removed.broker_id), removed.directory)
        is_lost = epoch is not None
        entry = Entry(
            removed,
            offline,
            now_ms,
            passed_ms,
            now_ms,
            is_heard=self._is_active or is_lost,
            was_down=not _is_up(image, removed.broker_id),
            may_be_unread=is_lost,
            lost_in=epoch,
            may_be_replaced=epoch is not None and self._may_be_replaced(removed, epoch),
        )
        self._entries[entry.key] = entry
        self._replica_count += len(removed.partitions)
        self._move(entry, removed_state(0, -1, is_up=True, is_lost=is_lost), now_ms)
        known = self._lost if is_lost else self._waiting
        known.setdefault(removed.broker_id, OrderedDict())[entry.key] = entry
        if removed.reason is RemovalReason.REASSIGNED:
            self._moved[removed.topic_id, removed.partitions[0], removed.broker_id] = entry

    def _assigned_again(self, added: Added, now_ms: int) -> None:
        """A replica is back that was to be deleted: what becomes of its data is the partition's again."""
        entry = self._moved.get((added.topic_id, added.partition, added.broker_id))
        # In another directory than one that is offline it is made anew: an old copy stays in that.
        if entry is not None and (entry.lost_in is None or entry.removed.directory == added.directory):
            self._is_back(entry, now_ms)

    def _is_back(self, entry: Entry, now_ms: int) -> None:
        self._end_waiting(entry)
        self._move(entry, ReplicaState.OFFLINE, now_ms)

    def _look_at_brokers(self, image: MetadataImage, now_ms: int) -> None:
        """Move what waits for brokers that went down or came back."""
        for broker_id, waiting in self._waiting.items():
            state = removed_state(0, -1, is_up=_is_up(image, broker_id))
            oldest, newest = next(iter(waiting.values())), next(reversed(waiting.values()))
            if oldest.state is state and newest.state is state:
                continue  # as all between: what was there before has one state, and what is new another
            for entry in waiting.values():
                self._wait(entry, state, now_ms)

    def _look_at_directories(self, before: MetadataImage, after: MetadataImage, now_ms: int) -> None:
        """Note what lies in directories that brokers have lost, and in those that they have again."""
        for broker_id in {*self._waiting, *self._lost, *self._renamed}:
            was, broker = before[BROKERS].get(broker_id), after[BROKERS].get(broker_id)
            if broker is None or (was is not None and _starts(was) == _starts(broker)):
                continue
            has_less = was is not None and not {*was.log_dirs} <= {*broker.log_dirs}
            renamed = {one.removed.directory for one in self._renamed.get(broker_id, {}).values()}
            lost = {each for each in renamed if lost_in(None, broker, each) is not None}
            self._set_aside(broker_id, {*lost, *_NOWHERE} if has_less else lost)
            known = {**self._waiting.pop(broker_id, {}), **self._lost.pop(broker_id, {})}
            for key, entry in sorted(known.items()):
                is_found = entry.lost_in is not None and _lost_now(entry, broker) is None
                if is_found and _is_assigned(entry.removed, after):
                    self._is_back(entry, now_ms)  # it was started, so there is one copy
                    continue
                self._look_at_directory(entry, broker, now_ms)
                where = self._waiting if entry.lost_in is None else self._lost
                where.setdefault(broker_id, OrderedDict())[key] = entry

    def _set_aside(self, broker_id: NodeId, directories: AbstractSet[Uuid]) -> None:
        """Of what was renamed, and may lie in these directories, which failed, nobody knows what is there."""
        renamed = self._renamed.get(broker_id, OrderedDict())
        for entry in [one for one in renamed.values() if one.removed.directory in directories]:
            entry.is_set_aside = True
            del renamed[entry.key]

    def _look_at_directory(self, entry: Entry, broker: RegisterBrokerRecord, now_ms: int) -> None:
        was_lost = entry.lost_in is not None
        entry.lost_in = _lost_now(entry, broker)
        is_lost = entry.lost_in is not None
        entry.may_be_replaced = is_lost and self._may_be_replaced(entry.removed, broker.broker_epoch)
        self._wait(entry, removed_state(0, -1, is_up=not broker.fenced, is_lost=is_lost), now_ms)
        if was_lost and not is_lost:
            entry.is_heard = entry.is_heard and self._is_active  # from here on what is reported counts

    def _may_be_replaced(self, removed: Removed, broker_epoch: Epoch) -> bool:
        """Whether a broker that does not have a directory is not known to have lost it in this epoch: of one
        whose name nobody knows, whether it has lost any.
        """
        lost = self._lost_directories.of(removed.broker_id, broker_epoch)
        return not lost if removed.directory == LOST else removed.directory not in lost

    def _wait(self, entry: Entry, state: ReplicaState, now_ms: int) -> None:
        """Move an entry of a broker that went down or came back, or whose directory did."""
        if entry.state is not state:
            self._move(entry, state, now_ms)
            is_soon = self._passed_ms - entry.passed_ms < self._reads_within_ms
            entry.may_be_unread = entry.may_be_unread or entry.is_heard or is_soon

    def _move(self, entry: Entry, state: ReplicaState, now_ms: int) -> None:
        """Move an entry to a state, by the table; what that does not allow is told, and not done."""
        if not steps(entry.state, state):
            self.illegal_count += 1
            self._refused(entry, state)
            return
        entry.state, entry.since_ms = state, now_ms

    def _end_waiting(self, entry: Entry) -> None:
        removed = entry.removed
        for waiting in (self._waiting, self._lost, self._renamed):
            of_broker = waiting.get(removed.broker_id)
            if of_broker is not None and of_broker.pop(entry.key, None) is not None and not of_broker:
                del waiting[removed.broker_id]
        for partition in removed.partitions if removed.reason is RemovalReason.REASSIGNED else ():
            key = removed.topic_id, partition, removed.broker_id
            if self._moved.get(key) is entry:  # and not a newer one: the replica came back, and left again
                del self._moved[key]

    def _drop_oldest(self) -> None:
        while self._replica_count > REPLICAS_MAX and len(self._entries) > 1:
            entry = next(iter(self._entries.values()))
            del self._entries[entry.key]
            self._end_waiting(entry)
            self._replica_count -= len(entry.removed.partitions)
            self.dropped_count += len(entry.removed.partitions)


def _is_up(image: MetadataImage, broker_id: NodeId) -> bool:
    broker = image[BROKERS].get(broker_id)
    return broker is not None and not broker.fenced


def is_old_copy(entry: Entry, image: MetadataImage) -> bool:
    """Whether it lies in a directory that is offline while the replica is its broker's again, in another
    directory: with both a Kafka broker does not start (LogManager: duplicate log directories).
    """
    return entry.is_directory_offline and _is_assigned(entry.removed, image)


def _is_assigned(removed: Removed, image: MetadataImage) -> bool:
    """Whether a replica that was moved away is back."""
    if removed.reason is not RemovalReason.REASSIGNED:
        return False
    partition = image[TOPICS].partition(removed.topic_id, removed.partitions[0])
    return partition is not None and removed.broker_id in partition.replicas


def _lost_now(entry: Entry, broker: RegisterBrokerRecord) -> Epoch | None:
    return lost_in(entry.lost_in, broker, entry.removed.directory)


def _read(waiting: Mapping[_Key, Entry], reported: Offset, failed: frozenset[Uuid]) -> Iterator[Entry]:
    """What a broker that has read so far has renamed: the oldest, without what is in failed directories."""
    of_it = takewhile(lambda entry: entry.removed.offset <= reported, waiting.values())
    return (entry for entry in of_it if entry.removed.directory not in failed)


def _removed(renamed: Mapping[_Key, Entry], mono_ms: int) -> Iterator[Entry]:
    """What it has removed by now of that."""
    return takewhile(lambda entry: mono_ms - entry.reported_mono_ms >= DELETE_DELAY_MS, renamed.values())


def _starts(broker: RegisterBrokerRecord) -> tuple[int, tuple[Uuid, ...]]:
    """Which start of a broker is registered, and with which directories."""
    return broker.broker_epoch, broker.log_dirs


def move_fields(entry: Entry, state: ReplicaState) -> dict[str, object]:
    """What is to be said of a move that no table allows."""
    removed = entry.removed
    return {
        "topic": removed.topic,
        "partition": removed.partitions[0],
        "broker": removed.broker_id,
        "offset": removed.offset,
        "from": entry.state.label,
        "to": state.label,
    }
