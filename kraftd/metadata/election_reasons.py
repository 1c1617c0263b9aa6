"""Why a partition got another leader, and by which rule that leader was chosen: one vocabulary for all.

Kafka's controller of old had four strategies of election, each called for its own reason; KRaft's has one
procedure, and no record says why it was held. So the reason is computed: from the partition before and after,
and from what had become of the broker that led (`Fate`). The active controller knows that when it decides;
whoever reads a log infers it from the records about brokers (`broker_moments`). Both ask `election_of`.

    nobody led                                          offline
    who led holds no replica any more                   reassignment
    who led is shutting down                            controlled_shutdown
    who led was fenced, unregistered, started anew,
    or lost the directory                               offline
    who led could have gone on, and the first replica
    leads now                                           preferred
    anything else                                       unknown, with why

The first line that is true counts. The first leader of a new partition was not elected in this sense.

Follows: the leader election strategies of Kafka's PartitionStateMachine (offline, reassign, preferred,
controlled shutdown), and the elections of KRaft's PartitionChangeBuilder.
"""

from enum import Enum, StrEnum
from typing import Final, NamedTuple

import msgspec

from kraftd.records.messages import PartitionRecord
from kraftd.types import NO_NODE, NodeId


class Reason(StrEnum):
    """Why a leader was looked for."""

    OFFLINE = "offline"
    """Nobody led, or the broker that led was lost."""
    REASSIGNMENT = "reassignment"
    """The broker that led holds no replica any more."""
    PREFERRED = "preferred"
    """The first replica got the lead back from one that could have gone on."""
    CONTROLLED_SHUTDOWN = "controlled_shutdown"
    """The broker that led shuts down in good order."""
    UNKNOWN = "unknown"
    """It cannot be told; `Election.why` says why not."""


class Rule(StrEnum):
    """What made the new leader the one."""

    IN_SYNC = "in_sync"
    """The first of the replicas, in the order of the assignment, that is in sync and alive."""
    PREFERRED_REPLICA = "preferred_replica"
    """The first of all replicas."""
    ELIGIBLE = "eligible"
    """The first of the eligible leader replicas (ELR) that is alive: nobody was in sync."""
    LAST_KNOWN_LEADER = "last_known_leader"
    """Who led last, before nobody was in sync or eligible. It may lack records."""
    UNCLEAN = "unclean"
    """Any replica that is alive. It may lack records."""
    NOBODY = "nobody"
    """None could lead."""


class Fate(Enum):
    """What had become of the broker that led."""

    ACTIVE = "active"
    """Nothing: it could have gone on."""
    SHUTTING_DOWN = "shutting_down"
    LOST = "lost"
    """Fenced, unregistered, started anew, or without the directory of its replica."""


class LeaderFate(NamedTuple):
    """What had become of the broker that led, and how that is known."""

    fate: Fate
    why: str = ""
    """As `broker 1 was fenced at offset 17`; of ACTIVE, what was looked for in vain."""


class Leadership(msgspec.Struct, frozen=True, gc=False):
    """What of a partition an election is told from."""

    leader: NodeId
    """-1 is nobody."""
    isr: tuple[NodeId, ...]
    replicas: tuple[NodeId, ...]
    elr: tuple[NodeId, ...] = ()
    last_known_elr: tuple[NodeId, ...] = ()
    is_recovering: bool = False
    """Whether an unclean leader has not recovered yet."""


class Election(NamedTuple):
    """Why another broker leads a partition, or none."""

    reason: Reason
    rule: Rule
    why: str
    """What the reason is known by; of UNKNOWN, what is missing."""


def leadership_of(partition: PartitionRecord) -> Leadership:
    """What of a partition elections are told from."""
    return Leadership(
        partition.leader,
        partition.isr,
        partition.replicas,
        partition.eligible_leader_replicas or (),
        partition.last_known_elr or (),
        bool(partition.leader_recovery_state),
    )


def election_of(before: Leadership, after: Leadership, leader: LeaderFate) -> Election | None:
    """Why and by which rule the leader of a partition changed; None if it did not.

    Args:
        before: The partition before the change.
        after: The partition after it.
        leader: What had become of the broker that led before; means nothing if nobody did.
    """
    if before.leader == after.leader:
        return None
    reason, why = reason_of(before, after, leader)
    return Election(reason, rule_of(before, after, reason), why)


def reason_of(before: Leadership, after: Leadership, leader: LeaderFate) -> tuple[Reason, str]:
    """Why the leader changed, and how that is known."""
    old = before.leader
    if old == NO_NODE:
        return Reason.OFFLINE, "nobody led"
    if old not in after.replicas:
        return Reason.REASSIGNMENT, f"broker {old} holds no replica any more"
    if leader.fate is Fate.SHUTTING_DOWN:
        return Reason.CONTROLLED_SHUTDOWN, leader.why
    if leader.fate is Fate.LOST:
        return Reason.OFFLINE, leader.why
    if old in after.isr and after.leader == after.replicas[0]:
        return Reason.PREFERRED, f"broker {old} could have gone on, and the first replica leads"
    untold = leader.why or f"broker {old} is active"
    what = "stays in sync" if old in after.isr else "left the ISR"
    return Reason.UNKNOWN, f"broker {old} {what}; {untold}"


def rule_of(before: Leadership, after: Leadership, reason: Reason) -> Rule:
    """By which rule the leader was chosen, as the partition before and after the change tells.

    An unclean election makes the partition recovering, and its ISR the leader alone. One in a partition that
    is recovering already shows by its leader, which was neither in sync nor eligible before.
    """
    leader = after.leader
    if leader == NO_NODE:
        return Rule.NOBODY
    has_all = leader in (before.isr or before.elr)
    is_unclean = after.is_recovering and (not before.is_recovering or not has_all) and after.isr == (leader,)
    if is_unclean:
        is_last = not before.isr and not before.elr and before.last_known_elr == (leader,)
        return Rule.LAST_KNOWN_LEADER if is_last else Rule.UNCLEAN
    if leader in before.elr:
        return Rule.ELIGIBLE
    return as_told(Rule.IN_SYNC, reason)


def as_told(rule: Rule, reason: Reason) -> Rule:
    """The rule of an election within the ISR, as it is called.

    Who looks first at the first replica and who goes through all of them finds the same one. That it is the
    first one matters only where it got the lead back.
    """
    if rule not in _WITHIN_THE_ISR:
        return rule
    return Rule.PREFERRED_REPLICA if reason is Reason.PREFERRED else Rule.IN_SYNC


_WITHIN_THE_ISR: Final = (Rule.IN_SYNC, Rule.PREFERRED_REPLICA)
