"""The record that makes of a partition what it shall become, None if it is that already.

Whoever wants a change says what the partition shall be (`Target`); what follows from that is worked out here:
whether it completes a reassignment, who leads, which replicas out of the ISR stay eligible to lead (ELR),
when the leader's epoch must rise, and where replicas are.

Not here: who may ask for what (`in_sync`, `broker_changes`), and what the cluster says (`partition_rules`).
Follows: Kafka's PartitionChangeBuilder, with which `make interop` compares it record by record.
Differs: only replicas are eligible. In Kafka, one that a reassignment removes may stay so, and every election
that comes across it fails. The order within an ELR is ascending; in Kafka it is that of a hash set.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import msgspec

from kraftd.controller.partitions.election import Candidates, ElectionKind, elect
from kraftd.metadata.election_reasons import Rule
from kraftd.metadata.feature_levels import DIRECTORIES_SINCE, NO_EPOCH_RISE_ON_SHRINK_SINCE
from kraftd.records.messages import PartitionChangeRecord, PartitionRecord
from kraftd.types import NO_NODE, NodeId, Uuid

RECOVERED: Final = 0
RECOVERING: Final = 1

_NO_CHANGE: Final = PartitionChangeRecord()
_NO_LEADER_CHANGE: Final = _NO_CHANGE.leader
_NO_RECOVERY_CHANGE: Final = _NO_CHANGE.leader_recovery_state

_Ids = tuple[NodeId, ...]


class Target(msgspec.Struct, frozen=True):
    """What a partition shall become; None is "as it is"."""

    isr: _Ids | None = None
    replicas: _Ids | None = None
    removing: _Ids | None = None
    adding: _Ids | None = None
    recovery: int | None = None
    directories: Mapping[NodeId, Uuid] = {}
    """Where replicas are, for those of which it is new."""
    unclean: _Ids = ()
    """Who stopped uncleanly, and may have lost records: no ELR keeps them."""


class Rules(NamedTuple):
    """What the cluster says about one partition."""

    metadata_version: int
    has_elr: bool
    """Whether eligible leader replicas are kept."""
    min_isr: int
    """With fewer in sync nothing is acknowledged with acks=all; no more than there are replicas."""
    is_acceptable: Callable[[NodeId], bool]
    """Whether a broker can lead it now."""
    default_directory: Callable[[NodeId], Uuid]
    """Where a broker puts a new replica."""


class _Assignment(NamedTuple):
    """Who has the partition, and who of them is in sync."""

    replicas: _Ids
    isr: _Ids
    removing: _Ids
    adding: _Ids


class _Leadership(NamedTuple):
    """The outcome of an election, as fields of a record; None is no change."""

    leader: NodeId
    isr: _Ids | None
    elr: _Ids
    recovery: int
    rule: Rule


class DecidedChange(NamedTuple):
    """What becomes of a partition."""

    change: PartitionChangeRecord | None
    rule: Rule
    """By which rule its leader is the one; of one that stays, this means nothing."""


def partition_change(
    partition: PartitionRecord, target: Target, election: ElectionKind, rules: Rules
) -> PartitionChangeRecord | None:
    """The change that makes of a partition what it shall become, with all that follows from it."""
    return decided_change(partition, target, election, rules).change


def decided_change(
    partition: PartitionRecord, target: Target, election: ElectionKind, rules: Rules
) -> DecidedChange:
    """The same, and by which rule the leader was chosen."""
    after = _with_reassignment_completed(
        _Assignment(
            partition.replicas if target.replicas is None else target.replicas,
            partition.isr if target.isr is None else target.isr,
            partition.removing_replicas if target.removing is None else target.removing,
            partition.adding_replicas if target.adding is None else target.adding,
        )
    )
    leadership = _leadership(partition, after, target.unclean, election, rules)
    leader, isr, elr, recovery, rule = leadership
    if target.recovery is not None and target.recovery != partition.leader_recovery_state:
        recovery = target.recovery
    if leader == _NO_LEADER_CHANGE and _needs_new_epoch(partition, after.replicas, isr, rules):
        leader = partition.leader
    replicas = after.replicas or partition.replicas
    change = PartitionChangeRecord(
        partition_id=partition.partition_id,
        topic_id=partition.topic_id,
        isr=isr,
        leader=leader,
        replicas=None if replicas == partition.replicas else replicas,
        removing_replicas=None if after.removing == partition.removing_replicas else after.removing,
        adding_replicas=None if after.adding == partition.adding_replicas else after.adding,
        leader_recovery_state=recovery,
        directories=_directories(partition, after.replicas, target.directories, rules),
        eligible_leader_replicas=None if elr == (partition.eligible_leader_replicas or ()) else elr,
        last_known_elr=_last_known_elr(partition, leader, rules),
    )
    return DecidedChange(None if _is_no_change(change) else change, rule)


def is_reassigning(partition: PartitionRecord) -> bool:
    """Whether the replicas of a partition are being moved."""
    return bool(partition.removing_replicas or partition.adding_replicas)


def _with_reassignment_completed(after: _Assignment) -> _Assignment:
    """What is left once a reassignment is complete; what was given, while it is not.

    It is complete once all that are added are in sync, and one that stays. If replicas become fewer, all that
    stay must be: nobody else is there to have the records. While they do not, another sick replica does not
    hold it up (KAFKA-15665, KAFKA-19975).
    """
    replicas, isr, removing, adding = after
    if not (removing or adding):
        return after
    staying = tuple(one for one in replicas if one not in removing)
    in_sync = tuple(one for one in isr if one not in removing)
    if removing and not (staying and in_sync):
        return after
    needed = (*adding, *staying) if len(adding) < len(removing) else adding
    if not set(needed).issubset(in_sync):
        return after
    return _Assignment(staying, in_sync, (), ())


def _leadership(
    partition: PartitionRecord, after: _Assignment, unclean: _Ids, election: ElectionKind, rules: Rules
) -> _Leadership:
    """Hold an election, and say what changes with it."""
    isr, has_elr = after.isr, rules.has_elr
    elr = _eligible(partition, after, unclean, rules)
    leader, is_unclean, rule = elect(
        election,
        Candidates(
            partition.leader,
            after.replicas,
            isr,
            elr,
            partition.last_known_elr or (),
            has_elr,
            rules.is_acceptable,
        ),
    )
    recovery = _NO_RECOVERY_CHANGE
    if leader == partition.leader:
        leader = _NO_LEADER_CHANGE
    elif is_unclean:
        # Who may lack records leads: nobody else is known to have what it has, nor to be able to catch up.
        if partition.leader_recovery_state != RECOVERING:
            recovery = RECOVERING
        return _Leadership(leader, (leader,), (), recovery, rule)
    elif leader in elr:
        isr, elr = (leader,), tuple(one for one in elr if one != leader)
    # Without ELR the last member stays in the ISR when it goes: that is how it is known to have everything.
    is_new = isr != partition.isr and (isr or has_elr)
    return _Leadership(leader, isr if is_new else None, elr if has_elr else (), recovery, rule)


def _eligible(partition: PartitionRecord, after: _Assignment, unclean: _Ids, rules: Rules) -> _Ids:
    """Who is out of the ISR and still has all records that were acknowledged with acks=all.

    Say nodes 1 and 2 are in sync, two must be, and node 2 stops: from then on nothing is acknowledged, so
    node 2 misses nothing, until the ISR is large enough again. Who holds no replica any more is not eligible:
    it deletes its records, and would miss all of them if it came back.
    """
    before = partition.eligible_leader_replicas or ()
    if not rules.has_elr:
        return before
    if len(after.isr) >= rules.min_isr:
        return ()
    eligible = {*before, *partition.isr}.difference(after.isr, unclean).intersection(after.replicas)
    return before if eligible == set(before) else tuple(sorted(eligible))


def _needs_new_epoch(partition: PartitionRecord, replicas: _Ids, isr: _Ids | None, rules: Rules) -> bool:
    """Whether the leader's epoch rises without a new leader.

    It does when a replica leaves, so that the leader learns of it; and, for brokers before 3.6, when the ISR
    shrinks (KAFKA-15021).
    """
    if replicas != partition.replicas and not set(partition.replicas).issubset(replicas):
        return True
    return (
        isr is not None
        and rules.metadata_version < NO_EPOCH_RISE_ON_SHRINK_SINCE
        and not set(partition.isr).issubset(isr)
    )


def _last_known_elr(partition: PartitionRecord, leader: NodeId, rules: Rules) -> _Ids | None:
    """Who led last, kept from when nobody leads until somebody does; None for no change."""
    if not rules.has_elr:
        return None
    if leader == NO_NODE:
        return None if partition.last_known_elr else (partition.leader,)
    return () if leader >= 0 and partition.last_known_elr else None


def _directories(
    partition: PartitionRecord, replicas: _Ids, targets: Mapping[NodeId, Uuid], rules: Rules
) -> tuple[Uuid, ...] | None:
    """Where the replicas are, None if that is where they were or has no name yet."""
    if rules.metadata_version < DIRECTORIES_SINCE or not replicas:
        return None
    if not targets and replicas == partition.replicas:
        return None
    known = {**dict(zip(partition.replicas, partition.directories, strict=True)), **targets}
    after = tuple(known[one] if one in known else rules.default_directory(one) for one in replicas)
    return None if after == partition.directories else after


def _is_no_change(change: PartitionChangeRecord) -> bool:
    return (
        change.isr is None
        and change.leader == _NO_LEADER_CHANGE
        and change.replicas is None
        and change.removing_replicas is None
        and change.adding_replicas is None
        and change.leader_recovery_state == _NO_RECOVERY_CHANGE
        and change.directories is None
        and change.eligible_leader_replicas is None
        and change.last_known_elr is None
    )
