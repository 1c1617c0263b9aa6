"""Is this process alive (`livez`), and is it of use (`readyz`)? Pure functions of `HealthInput`.

*Live* means that a restart would not help: the loop turns and the disk answers. A node without a leader,
behind, or with an alarm is live. *Ready* means that it follows or leads a quorum and is up to date. The HTTP
server and the log show the results.

Follows: etcd's split of health into livez and readyz, with sub-checks and exclusion.
"""

from collections.abc import Sequence

import msgspec

from kraftd.types import NO_NODE, Offset

DISK_STUCK_MS = 10_000
"""A flush that runs longer counts as stuck."""

LAG_MAX = 1_000
"""How many committed records the image of a ready node may be behind."""


class HealthInput(msgspec.Struct, frozen=True):
    """What the checks look at."""

    leader_id: int
    is_leader: bool
    role: str
    why_not_following: str | None
    high_watermark: Offset
    applied_offset: Offset
    last_contact_ms_ago: int
    """Milliseconds since the last response of the leader; -1 if there was none."""
    fetch_timeout_ms: int
    flush_running_ms: int
    """Milliseconds since the running flush began; 0 if none runs."""
    is_whole: bool
    alarms: Sequence[str]


class Check(msgspec.Struct, frozen=True):
    """The result of one check."""

    name: str
    ok: bool
    detail: str = ""


def livez(node: HealthInput) -> list[Check]:
    """The checks whose failure a restart may mend."""
    stuck = node.flush_running_ms > DISK_STUCK_MS
    return [
        Check("loop", ok=True),
        Check(
            "disk",
            ok=not stuck,
            detail=f"a flush runs for {node.flush_running_ms} ms" if stuck else "",
        ),
    ]


def readyz(node: HealthInput) -> list[Check]:
    """The checks that this node is an up-to-date part of a working quorum."""
    has_leader = node.leader_id != NO_NODE
    silent = has_leader and not node.is_leader and not 0 <= node.last_contact_ms_ago <= node.fetch_timeout_ms
    known = node.high_watermark >= 0
    behind = max(node.high_watermark, 0) - node.applied_offset
    return [
        Check("leader", ok=has_leader, detail="" if has_leader else node.why_not_following or "no leader"),
        Check("contact", ok=not silent, detail="the leader has not answered lately" if silent else ""),
        Check("high_watermark", ok=known, detail="" if known else "nothing is known to be committed"),
        Check(
            "applied",
            ok=known and behind <= LAG_MAX,
            detail=f"the image is {behind} records behind" if behind > LAG_MAX else "",
        ),
        Check(
            "whole",
            ok=node.is_whole,
            detail="" if node.is_whole else "not counted as a voter",
        ),
        Check("alarms", ok=not node.alarms, detail="; ".join(node.alarms)),
    ]
