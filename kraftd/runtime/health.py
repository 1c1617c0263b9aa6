"""Is this process alive, and is it of use? Two questions that must not be mixed up.

Entered through `livez` and `readyz`, with what the node knows of itself. *Live* means that a restart would
not help: the loop turns and the disk answers. A node without a leader, behind, or alarmed is live. *Ready*
means that it follows or leads a quorum and is up to date. Pure functions; the HTTP pages and the log show
what they say.

Follows: the split that etcd's operators learned to want (livez, readyz, sub-checks, exclusion).
"""

from collections.abc import Sequence

import msgspec

from kraftd.types import NO_NODE, Offset

DISK_STUCK_MS = 10_000
"""A flush that takes longer is no flush any more."""

LAG_MAX = 1_000
"""How many committed records the image may be behind before the node stops counting as up to date."""


class Vitals(msgspec.Struct, frozen=True):
    """What health is judged by."""

    leader_id: int
    is_leader: bool
    role: str
    no_leader_reason: str | None
    high_watermark: Offset
    applied_offset: Offset
    last_contact_ms: int
    """Since when the leader has been silent; -1 if it never spoke."""
    fetch_timeout_ms: int
    flush_running_ms: int
    """For how long the current flush has been running; 0 if none is."""
    is_whole: bool
    alarms: Sequence[str]


class Check(msgspec.Struct, frozen=True):
    """One thing that was looked at."""

    name: str
    ok: bool
    detail: str = ""


def livez(vitals: Vitals) -> list[Check]:
    """Would a restart help if one of these fails? Only then is it here."""
    stuck = vitals.flush_running_ms > DISK_STUCK_MS
    return [
        Check("loop", ok=True),
        Check("disk", ok=not stuck, detail=f"a flush runs for {vitals.flush_running_ms} ms" if stuck else ""),
    ]


def readyz(vitals: Vitals) -> list[Check]:
    """Is this node a useful part of a working quorum now?"""
    has_leader = vitals.leader_id != NO_NODE
    silent = (
        has_leader and not vitals.is_leader and not 0 <= vitals.last_contact_ms <= vitals.fetch_timeout_ms
    )
    known = vitals.high_watermark >= 0
    behind = max(vitals.high_watermark, 0) - vitals.applied_offset
    return [
        Check("leader", ok=has_leader, detail="" if has_leader else vitals.no_leader_reason or "no leader"),
        Check("contact", ok=not silent, detail="the leader has not answered lately" if silent else ""),
        Check("high_watermark", ok=known, detail="" if known else "nothing is known to be committed"),
        Check(
            "applied",
            ok=known and behind <= LAG_MAX,
            detail=f"the image is {behind} records behind" if behind > LAG_MAX else "",
        ),
        Check("whole", ok=vitals.is_whole, detail="" if vitals.is_whole else "not counted as a member"),
        Check("alarms", ok=not vitals.alarms, detail="; ".join(vitals.alarms)),
    ]
