"""Which state may follow which, and how far the epoch moves with it: one table, as data.

Three readers share the table: `check_move`, through which every move passes; the test that tries every pair
at every epoch; and whoever draws it. A "no" is a bug in this program, never news from a peer (that is checked
before), so it raises `InvariantError`, and nothing has changed yet when it does.

Follows: section 1.2 with KIP-996, D-07 and D-09.
Differs: a resigned leader never follows within the epoch that it led; more endpoints for the same leader are
not a move at all.
"""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import TypeAlias

from kraftd.errors import InvariantError
from kraftd.raft.states import (
    Candidate,
    EpochState,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Unattached,
)
from kraftd.types import NO_NODE, Epoch


class Step(Enum):
    """How far the epoch may move along with a transition."""

    SAME = "same"
    NEXT = "next"
    HIGHER = "higher"
    EITHER = "either"

    def allows(self, source: Epoch, target: Epoch) -> bool:
        """Whether the epoch may go from `source` to `target`."""
        match self:
            case Step.SAME:
                return target == source
            case Step.NEXT:
                return target == source + 1
            case Step.HIGHER:
                return target > source
            case Step.EITHER:
                return target >= source


Role: TypeAlias = type[EpochState]

ROLES: tuple[Role, ...] = (Unattached, Prospective, Candidate, Follower, Leader, Resigned)

TRANSITIONS: Mapping[tuple[Role, Role], Step] = MappingProxyType(
    {
        (Unattached, Unattached): Step.EITHER,  # higher epoch seen; or vote given in this one
        (Unattached, Prospective): Step.SAME,  # election timeout
        (Unattached, Follower): Step.EITHER,  # leader found
        (Prospective, Unattached): Step.EITHER,  # refused, and no leader known; or vote given
        (Prospective, Candidate): Step.NEXT,  # a majority would elect it
        (Prospective, Follower): Step.EITHER,  # leader found, or found to be still there
        (Candidate, Unattached): Step.EITHER,  # higher epoch seen; or its log is damaged
        (Candidate, Prospective): Step.SAME,  # no majority in time
        (Candidate, Follower): Step.EITHER,  # another candidate won
        (Candidate, Leader): Step.SAME,  # majority granted
        (Follower, Unattached): Step.HIGHER,  # higher epoch seen
        (Follower, Prospective): Step.SAME,  # leader lost
        (Follower, Candidate): Step.NEXT,  # named successor by its leader
        (Follower, Follower): Step.HIGHER,  # leader found in a higher epoch
        (Leader, Unattached): Step.HIGHER,  # higher epoch seen
        (Leader, Follower): Step.HIGHER,  # leader found in a higher epoch
        (Leader, Resigned): Step.SAME,  # hands over, stops, is damaged, or the majority stopped fetching
        (Resigned, Unattached): Step.HIGHER,  # higher epoch seen, or nobody took over
        (Resigned, Follower): Step.HIGHER,  # successor found
    }
)


def check_move(source: EpochState, target: EpochState, why: str) -> None:
    """Make sure that `target` may follow `source`.

    Within an epoch a leader once known and a vote once given never change: only news may be added (D-07).

    Raises:
        InvariantError: The table has no such move, or an election would be rewritten.
    """
    step = TRANSITIONS.get((type(source), type(target)))
    if step is None or not step.allows(source.epoch, target.epoch):
        raise InvariantError(f"no way from {source} to {target} ({why})")
    if source.epoch == target.epoch:
        before, after = source.election, target.election
        if before.leader_id not in (NO_NODE, after.leader_id) or before.voted not in (None, after.voted):
            raise InvariantError(f"{target} forgets who led or got the vote in {source} ({why})")


def render(transitions: Mapping[tuple[Role, Role], Step]) -> str:
    """Draw the table as text: rows are where a member comes from, columns where it goes."""
    names = [role.__name__ for role in ROLES]
    width = max(len(name) for name in names) + 2
    lines = ["from \\ to".ljust(width + 2) + "".join(name.ljust(width) for name in names)]
    for source in ROLES:
        cells = (transitions.get((source, target)) for target in ROLES)
        row = "".join((step.value if step else "-").ljust(width) for step in cells)
        lines.append(source.__name__.ljust(width + 2) + row)
    return "\n".join(line.rstrip() for line in lines)
