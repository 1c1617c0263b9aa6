"""The elections that the active controller has decided: why each was held, and by which rule it was won.

A decision notes them while it is made (`PartitionRules`), since no record says why. Of these notes counts
what is committed: a `Write` carries the elections of its records, and `UncommittedWrites` counts them once
the log gives it back.

Not here: the vocabulary (`metadata.election_reasons`), and the counts that every node makes of the records it
applies (`election_counts`).
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from kraftd.metadata.election_reasons import Reason, Rule
from kraftd.records.frame import AnyRecord
from kraftd.records.messages import PartitionChangeRecord

ReasonAndRule: TypeAlias = tuple[Reason, Rule]


class DecidedElection(NamedTuple):
    """A change of a partition by which another broker leads it, or none."""

    change: PartitionChangeRecord
    reason: Reason
    rule: Rule


def elections_in(
    decided: Sequence[DecidedElection], records: Sequence[AnyRecord]
) -> tuple[ReasonAndRule, ...]:
    """Those of the elections whose changes are among the records, as they are counted."""
    if not decided:
        return ()
    written = set(map(id, records))
    return tuple([(one.reason, one.rule) for one in decided if id(one.change) in written])
