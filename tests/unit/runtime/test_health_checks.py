"""Alive is not ready: what must not restart a node, and what must keep traffic away from it."""

from typing import Any

import msgspec
import pytest

from kraftd.runtime.health_checks import DISK_STUCK_MS, LAG_MAX, HealthInput, livez, readyz

WELL = HealthInput(
    leader_id=2,
    is_leader=False,
    role="follower",
    why_not_following=None,
    high_watermark=100,
    applied_offset=100,
    last_contact_ms_ago=30,
    fetch_timeout_ms=2_000,
    flush_running_ms=0,
    is_whole=True,
    alarms=(),
)


def failing(checks: list[Any]) -> set[str]:
    return {check.name for check in checks if not check.ok}


def test_a_node_that_is_well_is_live_and_ready() -> None:
    assert failing(livez(WELL)) == set()
    assert failing(readyz(WELL)) == set()


@pytest.mark.parametrize(
    ("change", "not_ready"),
    [
        ({"leader_id": -1, "why_not_following": "2 of 3 silent"}, {"leader"}),
        ({"last_contact_ms_ago": 2_001}, {"contact"}),
        ({"last_contact_ms_ago": -1}, {"contact"}),
        ({"high_watermark": -1, "applied_offset": 0}, {"high_watermark", "applied"}),
        ({"high_watermark": 100 + LAG_MAX + 1}, {"applied"}),
        ({"is_whole": False}, {"whole"}),
        ({"alarms": ("not_whole: a file is gone",)}, {"alarms"}),
    ],
)
def test_what_makes_a_node_unready_never_makes_it_dead(change: dict[str, Any], not_ready: set[str]) -> None:
    node = msgspec.structs.replace(WELL, **change)
    assert failing(readyz(node)) == not_ready
    assert failing(livez(node)) == set()


def test_a_leader_needs_no_contact_with_itself() -> None:
    assert failing(readyz(msgspec.structs.replace(WELL, is_leader=True, last_contact_ms_ago=-1))) == set()


def test_a_disk_that_does_not_answer_needs_a_restart() -> None:
    assert failing(livez(msgspec.structs.replace(WELL, flush_running_ms=DISK_STUCK_MS + 1))) == {"disk"}


def test_a_failed_check_says_why() -> None:
    node = msgspec.structs.replace(WELL, leader_id=-1, why_not_following="1 of 2 votes needed: 3 silent")
    leader = next(check for check in readyz(node) if check.name == "leader")
    assert leader.detail == "1 of 2 votes needed: 3 silent"
