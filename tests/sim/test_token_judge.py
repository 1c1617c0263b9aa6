"""Delegation tokens in a small cluster, and the judge of them, who sees what he is there for."""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from kraftd.controller import delegation_token_control
from kraftd.controller.delegation_token_control import EndedTokens
from kraftd.controller.plans import LogLine
from kraftd.metadata.entities import Entities
from kraftd.records.committed import CommittedBatch
from kraftd.records.frame import AnyRecord
from kraftd.records.messages import DelegationTokenRecord, RemoveDelegationTokenRecord
from tests.firing import fires
from tests.sim.broker_story import Story
from tests.sim.fault_base import S
from tests.sim.token_clients import LOOK_MS, SECRET, TokenJudge, token_settings
from tests.sim.world import Options, World


@pytest.fixture
def story() -> Iterator[Story]:
    story = Story(token_clients=2)
    yield story
    story.world.close()


def judge_of(story: Story) -> TokenJudge:
    assert story.cluster.token_judge is not None
    return story.cluster.token_judge


def judged(story: Story) -> None:
    story.cluster.converge(story.world.auditor.committed[0], 5 * S)


def ended_by_themselves(judge: TokenJudge) -> set[str]:
    return judge.gone - judge.end_asked


@pytest.mark.covers("D-18")
def test_tokens_live_until_they_end_and_never_come_back_whoever_leads(story: Story) -> None:
    judge = judge_of(story)
    for _ in range(3):
        story.run(20 * S)
        story.leader.crash()
        story.run(2 * S)
        for node in story.world.nodes.values():
            if not node.is_up:
                node.start()
    story.run(30 * S)
    judged(story)
    assert len(judge.gone) > 20
    assert len(ended_by_themselves(judge)) > 5
    assert len(judge.gone & judge.end_asked) > 5


@pytest.mark.covers("D-35")
def test_an_ended_token_is_removed_the_next_time_that_ended_ones_are_looked_for(story: Story) -> None:
    judge = judge_of(story)
    story.run(60 * S)
    assert ended_by_themselves(judge)
    assert 0 < judge.latest_ms <= LOOK_MS + 500


# -- the judge


def test_tokens_that_end_and_stay_are_seen(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EndedTokens, "advance", lambda _self, _context: ((), True))
    story.until(lambda: bool(judge_of(story).ended(story.leader.clock.wall_ms())))
    with fires("EndedTokensAreRemoved", "are there"):
        judged(story)


def test_tokens_that_are_removed_too_early_are_seen(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delegation_token_control, "_has_ended", lambda _token, _now: True)
    with fires("TokensAreThereUntilTheyEnd", "nobody asked"):
        story.run(30 * S)


def test_a_token_that_is_made_again_is_seen(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    story.until(lambda: bool(judge_of(story).gone))
    gone = min(judge_of(story).gone)
    monkeypatch.setattr(delegation_token_control, "_new_id", lambda _context: gone)
    with fires("EndedTokensStayGone", f"{gone} is made again"):
        story.run(30 * S)


def test_an_image_that_keeps_what_was_removed_is_seen(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    remove = Entities.remove

    def kept(self: Entities[Any, Any], key: object) -> Entities[Any, Any]:
        return self if isinstance(key, str) else remove(self, key)

    monkeypatch.setattr(Entities, "remove", kept)
    with fires("TokensAreWhatTheRecordsSay", "an image differs in"):
        story.run(60 * S)


def test_a_line_of_the_log_that_shows_an_hmac_is_seen(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    def told(_self: EndedTokens) -> list[LogLine]:
        hmacs = [token.hmac.hex() for client in story.cluster.token_clients for token in client.tokens]
        return [LogLine("delegation_tokens_ended", {"tokens": hmacs})]

    monkeypatch.setattr(EndedTokens, "lines", told)
    with fires("SecretsAreNotShown", "delegation_tokens_ended"):
        story.run(30 * S)


def test_the_trace_shows_no_secret_and_is_read_for_them() -> None:
    lines: list[str] = []
    options = Options(faults=False, brokers=True, broker_changes=(("token_clients", 1),))
    world = World(3, options, sink=lines.append)
    try:
        for node in world.nodes.values():
            world.at(0, node.start)
        world.brokers.start()
        assert world.run_until(lambda: bool(world.brokers.token_clients[0].tokens), 60 * S)
        assert lines
        with fires("SecretsAreNotShown", "holds one"):
            world.tell(1, "token", hmac=world.brokers.token_clients[0].tokens[0].hmac)
    finally:
        world.close()


def test_a_client_that_was_told_of_what_is_not_in_the_log_is_seen(story: Story) -> None:
    judge = judge_of(story)
    story.run(10 * S)
    token = next(iter(judge.there.values()))
    judge.told(token.token_id, token.expiration_timestamp)
    judged(story)
    judge.told(token.token_id, 5)
    with fires("TokensAreAsAcknowledged", f"{token.token_id} was to end at 5"):
        judged(story)


TOKEN = DelegationTokenRecord(
    owner="User:a",
    requester="User:a",
    issue_timestamp=1_000,
    max_timestamp=9_000,
    expiration_timestamp=5_000,
    token_id="t",
)
RENEWED = msgspec.structs.replace(TOKEN, expiration_timestamp=8_000)
REMOVED = RemoveDelegationTokenRecord("t")


def batch(at_ms: int, *values: bytes) -> CommittedBatch:
    return CommittedBatch(0, 1, 1, at_ms, values, 100)


@pytest.mark.parametrize(
    ("records", "seen"),
    [
        ([(TOKEN, 1_000), (RENEWED, 2_000)], "TokensChangeOnRequest"),
        ([(TOKEN, 1_000), (msgspec.structs.replace(TOKEN, owner="User:b"), 2_000)], "TokensChangeOnRequest"),
        ([(msgspec.structs.replace(TOKEN, expiration_timestamp=9_001), 1_000)], "TokensEnd"),
        ([(TOKEN, 1_000), (REMOVED, 5_000)], "TokensAreThereUntilTheyEnd"),
        ([(REMOVED, 5_000)], "TokensAreRemovedOnce"),
        ([(TOKEN, 1_000), (REMOVED, 5_001), (REMOVED, 5_001)], "TokensAreRemovedOnce"),
        ([(TOKEN, 1_000), (REMOVED, 5_001), (TOKEN, 6_000)], "EndedTokensStayGone"),
    ],
)
def test_records_that_must_not_be_are_seen(records: list[tuple[AnyRecord, int]], seen: str) -> None:
    judge = TokenJudge()
    for record, at_ms in records[:-1]:
        judge.on_record(record, batch(at_ms))
    with fires(seen, "t"):
        judge.on_record(records[-1][0], batch(records[-1][1]))


def test_a_renewal_that_was_decided_in_time_may_be_stamped_once_the_process_goes_on() -> None:
    judge = TokenJudge()
    judge.change_asked.add("t")
    judge.on_record(TOKEN, batch(1_000))
    judge.on_record(RENEWED, batch(5_000 + 8_000), held_up_ms=8_000)
    assert judge.there["t"] == RENEWED


def test_a_token_that_is_renewed_after_its_end_is_seen() -> None:
    judge = TokenJudge()
    judge.change_asked.add("t")
    judge.on_record(TOKEN, batch(1_000))
    judge.on_record(RENEWED, batch(5_000))
    with fires("EndedTokensStayGone", "is renewed at 9001"):
        judge.on_record(msgspec.structs.replace(TOKEN, expiration_timestamp=8_500), batch(9_001))


SHOWN: list[Callable[[bytes], str]] = [
    lambda hmac: hmac.hex(),
    lambda hmac: str([b"x" + hmac]),
    lambda _: SECRET,
]


@pytest.mark.parametrize("shown", SHOWN, ids=["hexadecimal", "bytes", "secret"])
def test_a_secret_is_seen_in_whatever_form(shown: Callable[[bytes], str]) -> None:
    judge = TokenJudge()
    hmac = token_settings().secret.hmac_of("t")
    judge.hide(hmac)
    judge.check_line(f"a line about {TOKEN}")
    judge.on_batch(batch(1_000, b"t"))
    with fires("SecretsAreNotShown", "a line"):
        judge.check_line(f"a line with {shown(hmac)}")
    with fires("SecretsAreNotShown", "records at 0"):
        judge.on_batch(batch(1_000, b"x" + hmac))
