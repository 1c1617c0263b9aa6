"""How often partitions got another leader: by kind of election and by reason, read off each change of one.

The image carries the counts (`TopicsImage.leader_elections`), so that the active controller, which decides on
images and never reads again what it wrote, and all other nodes count the same. They are no state of the
cluster: no hash, comparison or snapshot has them, and an image from a snapshot begins with none.

Follows: `updateElectionStats` of Kafka's TopicDelta. Its unclean elections and its elections from eligible
leader replicas are the two kinds of these names here.
"""

from typing import Final, TypeAlias

from immutables import Map

from kraftd.metadata.parts.topics.broker_index import Assignment

RECOVERING: Final = 1
"""The leader recovery state that an unclean election sets."""

IN_SYNC: Final = "in_sync"
"""Another replica of the ISR leads."""
ELIGIBLE: Final = "eligible"
"""One of the eligible leader replicas (ELR) leads: the ISR was empty."""
UNCLEAN: Final = "unclean"
"""A replica leads that may lack records."""
NOBODY: Final = "none"
"""Nobody leads from here on."""
KINDS: Final = (IN_SYNC, ELIGIBLE, UNCLEAN, NOBODY)

NO_LEADER: Final = "no_leader"
"""Nobody led."""
REASSIGNED: Final = "reassigned"
"""Who led holds no replica any more."""
LEADER_LEFT: Final = "leader_left"
"""Who led is not in sync any more: it was fenced, shuts down, or lost the directory."""
PREFERRED: Final = "preferred"
"""Who led could have gone on; the first replica leads again."""
OTHER: Final = "other"
REASONS: Final = (NO_LEADER, REASSIGNED, LEADER_LEFT, PREFERRED, OTHER)

Election: TypeAlias = tuple[str, str]
"""A kind and a reason."""
ElectionCounts: TypeAlias = "Map[Election, int]"

NO_ELECTIONS: Final[ElectionCounts] = Map()


def election_of(before: Assignment, after: Assignment, recovery: int) -> Election:
    """What kind of election a change of the leader was, and why it was held.

    `recovery` is the leader recovery state as the change has it, -1 for no change.
    """
    old_leader, leader = before[2], after[2]
    if recovery == RECOVERING:
        kind = UNCLEAN
    elif leader < 0:
        kind = NOBODY
    else:
        kind = ELIGIBLE if leader in before[3] else IN_SYNC
    return kind, _reason(old_leader, after)


def _reason(old_leader: int, after: Assignment) -> str:
    replicas, isr, leader, _, _ = after
    if old_leader < 0:
        return NO_LEADER
    if old_leader not in replicas:
        return REASSIGNED
    # Where no ELR is kept, the last one in sync stays in the ISR when it goes.
    if leader < 0 or old_leader not in isr:
        return LEADER_LEFT
    return PREFERRED if leader == replicas[0] else OTHER
