"""What the committed records may say of brokers, topics and partitions, each record after the one before it.

A `PlacementAuditor` is shown every committed record of a log in its order, once. It keeps brokers and
partitions in a form of its own, so that a mistake of `kraftd.metadata` is seen too: `disagreements` compares
with an image. It raises `Violation` at the first record that breaks a rule:

- broker epochs only rise, and none is given twice; a change names the epoch that the broker is in;
- a leader is in the ISR, the ISR is within the replicas, and no replica is in the ISR and eligible at once;
- whoever enters an ISR, or is elected, is registered, unfenced and not shutting down; the directory of
  whoever is elected works; it was in the ISR, or eligible outside it, or it has to recover, or it comes into
  the ISR by the record that ends a move: the leader before says that it has everything;
- whoever has to recover was elected since its topic allows that, or since nobody in sync or eligible was left
  and it led last (KIP-966): who was until then comes back as another incarnation, or not at all;
- the record that takes replicas away by a move leaves as many in sync as there were without what the move
  brought, or all of them (KAFKA-15665, KAFKA-19975);
- a broker that is fenced, starts anew or is unregistered leads nothing when its own record comes, and is in
  no ISR but as the last one of a partition without a leader; so is a replica whose directory is lost;
- a topic's records come after the topic and before its removal, and neither comes twice.

`leaderless` gives the partitions that could be led and are not: while the controller works off what the
coming of a broker entails, there may be some.

Follows: Kafka's ReplicationControlManager and ClusterControlManager, whose order of records within a plan
this is: the broker's own record last, but for unfencing and the beginning of a controlled shutdown.
Not here: the quorum itself (`invariants`), and when somebody has to be led or unfenced (`tests/sim`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from kraftd.audit.invariant import Violation
from kraftd.records.frame import AnyRecord
from kraftd.records.messages import (
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from kraftd.types import NO_NODE, NodeId, Offset, Uuid

PartitionKey: TypeAlias = tuple[Uuid, int]
"""A topic id and a partition's number."""

_SAME_LEADER = -2
_SAME_STATE, _RECOVERING = -1, 1
_TOPIC, _BROKER = 2, 4
"""The types of resource of the configs of a topic, and of brokers."""
_UNCLEAN = "unclean.leader.election.enable"

_RESERVED_IDS = 100
"""Directory ids below this stand for no directory: unassigned, lost, migrating (KIP-858)."""


class Broker(msgspec.Struct):
    """A registered broker."""

    epoch: int
    incarnation: Uuid
    is_fenced: bool
    is_shutting_down: bool
    directories: frozenset[Uuid]

    @property
    def is_active(self) -> bool:
        """Whether it may lead and be in sync."""
        return not (self.is_fenced or self.is_shutting_down)


class Partition(msgspec.Struct):
    """A partition, as far as the rules are about it."""

    replicas: tuple[NodeId, ...]
    isr: tuple[NodeId, ...]
    leader: NodeId
    leader_epoch: int
    epoch: int
    elr: tuple[NodeId, ...]
    directories: tuple[Uuid, ...]
    is_recovering: bool
    """Whether its leader was not in sync when it was elected."""
    adding: tuple[NodeId, ...] = ()
    removing: tuple[NodeId, ...] = ()
    """The replicas that a move is adding, and those that go when it ends."""
    led_last: tuple[NodeId, ...] = ()
    """Who led before nobody did; empty while somebody does."""

    @property
    def is_moving(self) -> bool:
        """Whether replicas are being moved."""
        return bool(self.adding or self.removing)


class PlacementAuditor:
    """The rules, and what they have to remember."""

    def __init__(self) -> None:
        self.brokers: dict[NodeId, Broker] = {}
        self.partitions: dict[PartitionKey, Partition] = {}
        self._topics: dict[Uuid, str] = {}
        self._names: set[str] = set()
        self._removed: set[Uuid] = set()
        self._unclean: dict[str, str] = {}
        """What is set of unclean elections, by topic; of all topics by the empty name."""
        self._highest_epochs: dict[NodeId, int] = {}
        """The highest epoch that each broker ever had."""
        self._passed_over: dict[NodeId, str] = {}
        """Brokers, in sync or eligible, in whose place another was elected uncleanly, and of what."""
        self._of_broker: dict[NodeId, set[PartitionKey]] = {}
        """The partitions that each broker is in the ISR of."""
        self._checks: Mapping[type[Any], Callable[[Any, Offset], None]] = {
            RegisterBrokerRecord: self._register,
            UnregisterBrokerRecord: self._unregister,
            BrokerRegistrationChangeRecord: self._change_registration,
            TopicRecord: self._add_topic,
            RemoveTopicRecord: self._remove_topic,
            ConfigRecord: self._set_config,
            PartitionRecord: self._add_partition,
            PartitionChangeRecord: self._change_partition,
            ClearElrRecord: self._clear_elr,
        }

    def on_record(self, record: AnyRecord, offset: Offset) -> None:
        """Take the next committed record.

        Raises:
            Violation: It breaks a rule.
        """
        check = self._checks.get(type(record))
        if check is not None:
            check(record, offset)

    def leaderless(self) -> Iterator[PartitionKey]:
        """The partitions without a leader that somebody who is acceptable could lead (facts of elections:
        a member of the ISR, or, that being empty, an eligible replica).
        """
        for key, partition in self.partitions.items():
            if partition.leader == NO_NODE and self._could_lead(partition):
                yield key

    def disagreements(self, partitions: Iterable[PartitionRecord]) -> Iterator[str]:
        """Compare partitions of an image with what is kept here; a sentence for each that differs."""
        for record in partitions:
            mine = self.partitions.get((record.topic_id, record.partition_id))
            theirs = _partition_of(record)
            if mine != theirs:
                yield f"{_name(record)} is {theirs} in the image, and the records made it {mine}"

    # -- brokers

    def _register(self, record: RegisterBrokerRecord, offset: Offset) -> None:
        broker_id, epoch = record.broker_id, record.broker_epoch
        before = self.brokers.get(broker_id)
        is_amended = before is not None and before.incarnation == record.incarnation_id
        if before is not None and is_amended:
            if before.epoch != epoch:
                raise _broken(
                    offset,
                    "OneEpochAnIncarnation",
                    f"broker {broker_id} in epoch {before.epoch} gets {epoch} and is the same incarnation",
                )
        else:
            self._check_new_epoch(broker_id, epoch, offset)
            self._check_leads_nothing(broker_id, "is registered anew", offset)
            self._passed_over.pop(broker_id, None)
        self._highest_epochs[broker_id] = max(epoch, self._highest_epochs.get(broker_id, epoch))
        if record.fenced and (before is None or not before.is_fenced):
            self._check_leads_nothing(broker_id, "is fenced", offset)
        self.brokers[broker_id] = Broker(
            epoch,
            record.incarnation_id,
            record.fenced,
            record.in_controlled_shutdown,
            frozenset(record.log_dirs),
        )

    def _check_new_epoch(self, broker_id: NodeId, epoch: int, offset: Offset) -> None:
        highest = self._highest_epochs.get(broker_id, -1)
        if epoch <= highest:
            raise _broken(
                offset, "BrokerEpochsRise", f"broker {broker_id} gets epoch {epoch} and had {highest}"
            )
        if epoch > offset:
            text = f"broker {broker_id} gets epoch {epoch} in a record at {offset}"
            raise _broken(offset, "BrokerEpochsAreOffsets", text)

    def _unregister(self, record: UnregisterBrokerRecord, offset: Offset) -> None:
        self._in_epoch(record.broker_id, record.broker_epoch, offset)
        self._check_leads_nothing(record.broker_id, "is unregistered", offset)
        del self.brokers[record.broker_id]
        self._passed_over.pop(record.broker_id, None)

    def _change_registration(self, record: BrokerRegistrationChangeRecord, offset: Offset) -> None:
        broker = self._in_epoch(record.broker_id, record.broker_epoch, offset)
        if record.fenced > 0:
            self._check_leads_nothing(record.broker_id, "is fenced", offset)
            broker.is_fenced = True
        elif record.fenced < 0:
            text = self._passed_over.pop(record.broker_id, "")
            if text:
                raise _broken(offset, "UncleanLeadersAreAllowed", f"{text}; {record.broker_id} was left")
            broker.is_fenced = False
        if record.in_controlled_shutdown > 0:
            broker.is_shutting_down = True
        if record.log_dirs:
            broker.directories = frozenset(record.log_dirs)
            self._check_left_lost_directories(record.broker_id, broker, offset)

    def _in_epoch(self, broker_id: NodeId, epoch: int, offset: Offset) -> Broker:
        broker = self.brokers.get(broker_id)
        if broker is None or broker.epoch != epoch:
            is_in = "is not registered" if broker is None else f"is in epoch {broker.epoch}"
            text = f"broker {broker_id} {is_in}, and a record names epoch {epoch}"
            raise _broken(offset, "ChangesNameTheEpoch", text)
        return broker

    def _check_leads_nothing(self, broker_id: NodeId, what: str, offset: Offset) -> None:
        for key in self._of_broker.get(broker_id, ()):
            partition = self.partitions[key]
            if partition.leader != NO_NODE or len(partition.isr) > 1:
                text = f"broker {broker_id} {what}, and {_name_of(key)} is {partition}"
                raise _broken(offset, "WhoIsFencedHasLeft", text)

    def _check_left_lost_directories(self, broker_id: NodeId, broker: Broker, offset: Offset) -> None:
        for key in self._of_broker.get(broker_id, ()):
            partition = self.partitions[key]
            has_left = partition.leader == NO_NODE and len(partition.isr) == 1
            if not has_left and not _is_online(broker, partition, broker_id):
                text = f"broker {broker_id} loses the directory of {_name_of(key)}, which is {partition}"
                raise _broken(offset, "WhoseDirectoryIsLostHasLeft", text)

    # -- topics

    def _add_topic(self, record: TopicRecord, offset: Offset) -> None:
        known = record.topic_id in self._topics or record.topic_id in self._removed
        if known or record.name in self._names:
            text = f"topic {record.name} comes twice, or its id {record.topic_id.hex()} does"
            raise _broken(offset, "TopicsComeOnce", text)
        self._topics[record.topic_id] = record.name
        self._names.add(record.name)

    def _remove_topic(self, record: RemoveTopicRecord, offset: Offset) -> None:
        name = self._topics.pop(record.topic_id, None)
        if name is None:
            text = f"topic {record.topic_id.hex()} is removed and was not there"
            raise _broken(offset, "TopicsComeOnce", text)
        self._names.discard(name)
        self._unclean.pop(name, None)
        self._removed.add(record.topic_id)
        for key in [key for key in self.partitions if key[0] == record.topic_id]:
            self._move(key, self.partitions.pop(key).isr, ())

    def _set_config(self, record: ConfigRecord, offset: Offset) -> None:
        is_gone = record.resource_type == _TOPIC and record.resource_name not in self._names
        if is_gone and record.value is not None:
            text = f"{record.name} is set on {record.resource_name}, which is no topic"
            raise _broken(offset, "ConfigsHaveTheirTopic", text)
        is_of_all = record.resource_type == _BROKER and not record.resource_name
        if record.name == _UNCLEAN and (is_of_all or record.resource_type == _TOPIC):
            if record.value is None:
                self._unclean.pop(record.resource_name, None)
            else:
                self._unclean[record.resource_name] = record.value

    # -- partitions

    def _add_partition(self, record: PartitionRecord, offset: Offset) -> None:
        key = record.topic_id, record.partition_id
        if record.topic_id not in self._topics or key in self.partitions:
            text = f"{_name(record)} comes twice, or without its topic"
            raise _broken(offset, "TopicsComeOnce", text)
        after = _partition_of(record)
        self._check_shape(key, after, offset)
        self._check_who_enters(key, after, after.isr, offset)
        self._check_who_is_elected(key, after, offset)
        self.partitions[key] = after
        self._move(key, (), after.isr)

    def _change_partition(self, record: PartitionChangeRecord, offset: Offset) -> None:
        key = record.topic_id, record.partition_id
        before = self.partitions.get(key)
        if before is None:
            raise _broken(offset, "TopicsComeOnce", f"{_name(record)} changes and is not there")
        after = _after(before, record)
        self._check_shape(key, after, offset)
        entering = [member for member in after.isr if member not in before.isr]
        self._check_who_enters(key, after, entering, offset)
        if after.leader not in (before.leader, NO_NODE):
            self._check_who_is_elected(key, after, offset)
            self._check_was_in_sync(key, before, after, offset)
        self._check_copies(key, before, after, offset)
        self.partitions[key] = after
        self._move(key, before.isr, after.isr)

    def _check_shape(self, key: PartitionKey, partition: Partition, offset: Offset) -> None:
        replicas, isr = set(partition.replicas), set(partition.isr)
        for is_broken, rule in (
            (len(replicas) != len(partition.replicas), "ReplicasComeOnce"),
            (len(isr) != len(partition.isr) or not isr <= replicas, "IsrIsWithinTheReplicas"),
            (partition.leader != NO_NODE and partition.leader not in isr, "LeadersAreInTheIsr"),
            (bool(isr & set(partition.elr)), "EligibleReplicasAreOutOfTheIsr"),
            (not set(partition.elr) <= replicas, "EligibleReplicasAreReplicas"),
            (len(partition.directories) != len(partition.replicas), "ReplicasHaveDirectories"),
        ):
            if is_broken:
                raise _broken(offset, rule, f"{_name_of(key)} becomes {partition}")

    def _check_who_enters(
        self, key: PartitionKey, after: Partition, entering: Sequence[NodeId], offset: Offset
    ) -> None:
        for member in entering:
            broker = self.brokers.get(member)
            if broker is None or not broker.is_active:
                text = f"broker {member} ({broker}) enters the ISR of {_name_of(key)}, which becomes {after}"
                raise _broken(offset, "WhoEntersAnIsrIsActive", text)

    def _check_who_is_elected(self, key: PartitionKey, after: Partition, offset: Offset) -> None:
        broker = self.brokers.get(after.leader)
        acceptable = broker is not None and broker.is_active and _is_online(broker, after, after.leader)
        if after.leader != NO_NODE and not acceptable:
            text = f"broker {after.leader} ({broker}) is elected for {_name_of(key)}, which becomes {after}"
            raise _broken(offset, "WhoIsElectedIsAcceptable", text)

    def _check_was_in_sync(
        self, key: PartitionKey, before: Partition, after: Partition, offset: Offset
    ) -> None:
        was_in_sync = after.leader in before.isr or after.leader in before.elr
        if was_in_sync or _has_arrived(before, after) or _is_brought_in(before, after):
            return
        text = f"broker {after.leader} comes to lead {_name_of(key)}, which was {before}"
        if not after.is_recovering:
            raise _broken(offset, "UncleanLeadersRecover", text)
        if self._is_unclean_allowed(key[0]):
            return
        if before.led_last != (after.leader,):
            raise _broken(offset, "UncleanLeadersAreAllowed", text)
        # Whoever was left has stopped uncleanly, which its own record says only after this one.
        self._passed_over |= dict.fromkeys((*before.isr, *before.elr), text)

    def _is_unclean_allowed(self, topic_id: Uuid) -> bool:
        value = self._unclean.get(self._topics[topic_id], self._unclean.get("", "false"))
        return value.strip().lower() == "true"

    def _check_copies(self, key: PartitionKey, before: Partition, after: Partition, offset: Offset) -> None:
        if before.replicas == after.replicas or set(before.replicas) <= set(after.replicas):
            return
        had = len(set(before.isr).difference(before.adding))
        is_unclean = after.is_recovering and after.leader != before.leader
        if len(after.isr) < min(had, len(after.replicas)) and not is_unclean:
            text = f"{_name_of(key)} was {before} and becomes {after}"
            raise _broken(offset, "MovesKeepCopies", text)

    def _clear_elr(self, record: ClearElrRecord, offset: Offset) -> None:
        del offset
        for key, partition in self.partitions.items():
            if (partition.elr or partition.led_last) and record.topic_name in ("", self._topics[key[0]]):
                partition.elr = partition.led_last = ()
                partition.epoch += 1

    def _could_lead(self, partition: Partition) -> bool:
        for member in partition.isr or partition.elr:
            broker = self.brokers.get(member)
            if broker is not None and broker.is_active and _is_online(broker, partition, member):
                return True
        return False

    def _move(self, key: PartitionKey, before: Sequence[NodeId], after: Sequence[NodeId]) -> None:
        for member in before:
            self._of_broker[member].discard(key)
        for member in after:
            self._of_broker.setdefault(member, set()).add(key)


def _partition_of(record: PartitionRecord) -> Partition:
    return Partition(
        record.replicas,
        record.isr,
        record.leader,
        record.leader_epoch,
        record.partition_epoch,
        record.eligible_leader_replicas or (),
        record.directories or (bytes(16),) * len(record.replicas),
        record.leader_recovery_state == _RECOVERING,
        record.adding_replicas,
        record.removing_replicas,
        record.last_known_elr or (),
    )


def _after(before: Partition, change: PartitionChangeRecord) -> Partition:
    """The partition after a change, which names only what is new."""
    is_same_leader = change.leader == _SAME_LEADER
    elr = change.eligible_leader_replicas
    return Partition(
        before.replicas if change.replicas is None else change.replicas,
        before.isr if change.isr is None else change.isr,
        before.leader if is_same_leader else change.leader,
        before.leader_epoch if is_same_leader else before.leader_epoch + 1,
        before.epoch + 1,
        before.elr if elr is None else elr,
        before.directories if change.directories is None else change.directories,
        _is_recovering(before, change.leader_recovery_state),
        before.adding if change.adding_replicas is None else change.adding_replicas,
        before.removing if change.removing_replicas is None else change.removing_replicas,
        before.led_last if change.last_known_elr is None else change.last_known_elr,
    )


def _has_arrived(before: Partition, after: Partition) -> bool:
    """Whether a change ends a move, and does not call it off."""
    stays = tuple(one for one in before.replicas if one not in before.removing)
    return before.is_moving and not after.is_moving and after.replicas == stays


def _is_brought_in(before: Partition, after: Partition) -> bool:
    """Whether the leader itself says that its successor has everything: nobody else makes an ISR larger.

    Broker 1 asks to have broker 2 in the ISR, and its directory fails before that is decided. Both are in the
    ISR then, and broker 2 leads.
    """
    return before.leader != NO_NODE and set(before.isr) < set(after.isr)


def _is_recovering(before: Partition, state: int) -> bool:
    return before.is_recovering if state == _SAME_STATE else state == _RECOVERING


def _is_online(broker: Broker, partition: Partition, member: NodeId) -> bool:
    """Whether the directory of a replica works, as far as its broker said which do."""
    at = partition.replicas.index(member)
    directory = partition.directories[at]
    if not broker.directories or int.from_bytes(directory, "big") == 0:
        return True
    if int.from_bytes(directory, "big") < _RESERVED_IDS:
        return directory != _LOST
    return directory in broker.directories


_LOST: Uuid = bytes(15) + b"\x02"
"""The directory of a replica whose directory is gone, which it was in is not known."""


def _name(record: PartitionRecord | PartitionChangeRecord) -> str:
    return _name_of((record.topic_id, record.partition_id))


def _name_of(key: PartitionKey) -> str:
    return f"partition {key[1]} of {key[0].hex()[-8:]}"


def _broken(offset: Offset, rule: str, text: str) -> Violation:
    return Violation(f"{rule}: at offset {offset}: {text}")
