"""Who leads a partition: one election, its kinds as data.

An election goes through the steps of its kind (`STEPS`) and takes the first broker that one of them finds. A
clean step finds only replicas that have every committed record: those of the ISR or, once that is empty, the
eligible leader replicas (ELR). An unclean one may lose records, and says so.

Not here: what else changes with the leader (`partition_change_builder`), and which brokers are acceptable
(`partition_rules`).
Follows: the elections in Kafka's PartitionChangeBuilder.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from kraftd.metadata.election_reasons import Rule
from kraftd.types import NO_NODE, NodeId


class ElectionKind(Enum):
    """The kinds of elections."""

    ONLINE = "online"
    """Keep the leader, or find another without losing records; the last known leader if nobody is left."""
    PREFERRED = "preferred"
    """The first replica leads if it can without losing records; else as ONLINE."""
    UNCLEAN = "unclean"
    """Keep the partition online, at the price of records if need be."""


class Candidates(NamedTuple):
    """What of a partition an election looks at: as it will be, but for its leader and last known ELR."""

    leader: NodeId
    """Who leads now, -1 if nobody does."""
    replicas: tuple[NodeId, ...]
    isr: tuple[NodeId, ...]
    elr: tuple[NodeId, ...]
    last_known_elr: tuple[NodeId, ...]
    """If it is one broker, the one that led last before the ISR and the ELR were empty."""
    has_elr: bool
    """Whether the cluster keeps eligible leader replicas."""
    is_acceptable: Callable[[NodeId], bool]
    """Whether a broker can lead anything now: it is active, and the directory of its replica is online."""

    def is_valid(self, broker_id: NodeId) -> bool:
        """Whether a broker can lead without losing records."""
        return broker_id in (self.isr or self.elr) and self.is_acceptable(broker_id)


class Elected(NamedTuple):
    """The outcome of an election; nobody is -1."""

    leader: NodeId
    is_unclean: bool
    rule: Rule
    """What found it."""


_Step: TypeAlias = Callable[[Candidates], NodeId]
"""Finds a broker, or -1."""


def elect(kind: ElectionKind, candidates: Candidates) -> Elected:
    """Who leads from here on; it may be who leads now."""
    for step, is_unclean in STEPS[kind]:
        leader = step(candidates)
        if leader != NO_NODE:
            return Elected(leader, is_unclean, _rule(step, leader, candidates))
    return _NOBODY


def _rule(step: _Step, leader: NodeId, candidates: Candidates) -> Rule:
    rule = _RULES[step]
    return Rule.ELIGIBLE if rule in _CLEAN_RULES and leader not in candidates.isr else rule


def _the_preferred(candidates: Candidates) -> NodeId:
    first = candidates.replicas[0]
    return first if candidates.is_valid(first) else NO_NODE


def _the_leader(candidates: Candidates) -> NodeId:
    return candidates.leader if candidates.is_valid(candidates.leader) else NO_NODE


def _a_valid_one(candidates: Candidates) -> NodeId:
    return next(filter(candidates.is_valid, candidates.replicas), NO_NODE)


def _the_last_known(candidates: Candidates) -> NodeId:
    """The last leader before nobody was left.

    Say node 1 led alone and stopped uncleanly, so that it may have lost the end of its log: nobody has more
    than it, so it leads again once it is back, and never while it is not (KAFKA-19522).
    """
    if not candidates.has_elr or candidates.isr or candidates.elr or len(candidates.last_known_elr) != 1:
        return NO_NODE
    (last,) = candidates.last_known_elr
    return last if candidates.is_acceptable(last) else NO_NODE


def _anyone(candidates: Candidates) -> NodeId:
    return next(filter(candidates.is_acceptable, candidates.replicas), NO_NODE)


_CLEAN: Final = False
_UNCLEAN: Final = True
_NOBODY: Final = Elected(NO_NODE, _CLEAN, Rule.NOBODY)

_RULES: Final[Mapping[_Step, Rule]] = {
    _the_preferred: Rule.PREFERRED_REPLICA,
    _the_leader: Rule.IN_SYNC,
    _a_valid_one: Rule.IN_SYNC,
    _the_last_known: Rule.LAST_KNOWN_LEADER,
    _anyone: Rule.UNCLEAN,
}
"""What each step is called."""
_CLEAN_RULES: Final = (Rule.IN_SYNC, Rule.PREFERRED_REPLICA)

STEPS: Final[dict[ElectionKind, tuple[tuple[_Step, bool], ...]]] = {
    ElectionKind.ONLINE: (
        (_the_leader, _CLEAN),
        (_a_valid_one, _CLEAN),
        (_the_last_known, _UNCLEAN),
    ),
    ElectionKind.PREFERRED: (
        (_the_preferred, _CLEAN),
        (_the_leader, _CLEAN),
        (_a_valid_one, _CLEAN),
        (_the_last_known, _UNCLEAN),
    ),
    ElectionKind.UNCLEAN: (
        (_the_leader, _CLEAN),
        (_a_valid_one, _CLEAN),
        (_the_last_known, _UNCLEAN),
        (_anyone, _UNCLEAN),
    ),
}
"""Where each kind of election looks for a leader, and whether it may lose records there."""
