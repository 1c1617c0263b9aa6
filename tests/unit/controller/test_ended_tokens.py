"""Delegation tokens that have ended are removed by the active controller, every interval."""

from kraftd.controller.timers import REMOVE_ENDED_TOKENS
from kraftd.controller.token_secret import TokenSecret, TokenSettings
from kraftd.metadata.feature_levels import bootstrap_records
from kraftd.metadata.parts.delegation_tokens import DELEGATION_TOKENS
from kraftd.records.messages import DelegationTokenRecord, RemoveDelegationTokenRecord
from kraftd.types import NEVER_MS
from tests.unit.controller.broker_world import BrokerWorld

INTERVAL_MS = 60_000
TOKENS = TokenSettings(TokenSecret("nobody-knows"), expiry_check_interval_ms=INTERVAL_MS)
WALL_MS = 0
"""What the wall clock of a `BrokerWorld` shows for ever."""


def token(token_id, end):
    return DelegationTokenRecord("User:a", "User:a", (), -9, 9, end, token_id)


def world_of(*tokens, settings=TOKENS):
    return BrokerWorld(log=[*bootstrap_records(), *tokens], tokens=settings)


def removed(world):
    return [record.token_id for record in world.records(RemoveDelegationTokenRecord)]


def test_they_are_removed_after_the_interval_and_not_before() -> None:
    world = world_of(token("a", WALL_MS - 1), token("b", WALL_MS))
    world.wait(INTERVAL_MS - 1)
    assert removed(world) == []
    world.wait(1)
    assert removed(world) == ["a"]
    assert [each.token_id for each in world.image[DELEGATION_TOKENS].values()] == ["b"]
    assert world.line("delegation_tokens_ended") == {"tokens": 1}


def test_the_next_interval_begins_with_the_last_look() -> None:
    world = world_of()
    world.wait(INTERVAL_MS)
    world.append(token("a", WALL_MS - 1))
    world.wait(INTERVAL_MS - 1)
    assert removed(world) == []
    world.wait(1)
    assert removed(world) == ["a"]


def test_a_new_leader_waits_for_the_whole_interval() -> None:
    world = world_of(token("a", WALL_MS - 1))
    world.wait(INTERVAL_MS - 1)
    world.lead(world.epoch + 1)
    world.wait(INTERVAL_MS - 1)
    assert removed(world) == []
    world.wait(1)
    assert removed(world) == ["a"]


def test_without_a_secret_nothing_is_looked_for() -> None:
    world = world_of(token("a", WALL_MS - 1), settings=None)
    assert world.controller._active.timers.wake_at_ms == NEVER_MS
    world.wait(10 * INTERVAL_MS)
    assert removed(world) == []


def test_many_are_removed_in_one_look() -> None:
    ids = [f"t{number:04}" for number in range(700)]
    world = world_of(*(token(each, WALL_MS - 1) for each in ids))
    world.wait(INTERVAL_MS)
    assert removed(world) == ids
    assert world.line("delegation_tokens_ended") == {"tokens": 700}


def test_what_the_log_refused_is_removed_later_and_an_alarm_until_then() -> None:
    world = world_of(token("a", WALL_MS - 1))
    world.now_ms += INTERVAL_MS
    write = world.controller.poll(world.now)
    assert write.kind == REMOVE_ENDED_TOKENS
    world.waiting.append((write, None))
    world.refuse()
    assert any(REMOVE_ENDED_TOKENS in each for each in world.controller.alarms)
    world.wait(2_000)
    assert removed(world) == ["a"]
    assert world.controller.alarms == []
