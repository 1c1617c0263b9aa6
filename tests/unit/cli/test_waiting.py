"""Whoever waits for a leader is told so, once, and not if the wait is soon over."""

import re
import time
from pathlib import Path

import pytest

from kraftd.cli import waiting
from kraftd.cli.reassignment_file import assignment_line
from kraftd.protocol import messages as m
from kraftd.types import NO_NODE
from tests.unit.cli.kraftctl import Kraftctl
from tests.unit.cli.scripted import ScriptedQuorum
from tests.unit.cli.test_topics import KafkaQuorum

LINE = r"kraftctl: waiting for {}, until about \d\d:\d\d:\d\dZ \(\d+ s more\)\n"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "TOLD_AFTER_S", 0.05)
    monkeypatch.setattr(waiting, "_WORTH_MS", 400)


@pytest.mark.parametrize("form", ["table", "json"])
def test_a_long_wait_is_told_once(kraftctl: Kraftctl, quorum: ScriptedQuorum, form: str) -> None:
    quorum.lead(NO_NODE, epoch=9)
    told, end = waited(kraftctl, quorum.bootstrap, "-o", form, "topics", "list")
    assert re.fullmatch(LINE.format("the leader"), told)
    assert end.startswith("kraftctl: no leader: ")


@pytest.mark.parametrize("command", [("elect", "--preferred", "--all"), ("reassign", "cancel", "--all")])
def test_a_long_wait_for_kafkas_nodes_is_told_too(kraftctl: Kraftctl, command: tuple[str, ...]) -> None:
    kafka = KafkaQuorum()
    kafka.active = NO_NODE
    told, end = waited(kraftctl, kafka.bootstrap, *command)
    assert re.fullmatch(LINE.format("the leader"), told)
    assert "no active controller is known there; nothing was changed; " in end
    for node in kafka.nodes.values():
        node.close()


@pytest.mark.parametrize(
    "command", [("reassign", "execute", "--file"), ("elect", "--preferred", "--topic", "orders")]
)
def test_of_a_change_that_had_to_look_first_it_is_said_that_nothing_was_changed(
    kraftctl: Kraftctl, quorum: ScriptedQuorum, tmp_path: Path, command: tuple[str, ...]
) -> None:
    quorum.lead(NO_NODE, epoch=9)
    file = tmp_path / "plan.json"
    file.write_text(assignment_line({("orders", 0): (1,)}))
    _, end = waited(kraftctl, quorum.bootstrap, *command, *([str(file)] if command[-1] == "--file" else []))
    assert end.startswith("kraftctl: no leader: nobody campaigns; nothing was changed; ")


def waited(kraftctl: Kraftctl, bootstrap: str, *command: str) -> list[str]:
    """The lines on standard error of a command that waits in vain."""
    outcome = kraftctl("--bootstrap-controller", bootstrap, *command, "--timeout-ms", 400)
    assert (outcome.code, outcome.out) == (5, "")
    return outcome.err.splitlines(keepends=True)


def test_a_short_wait_is_not_told(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    quorum.lead(NO_NODE, epoch=9)
    outcome = kraftctl("--bootstrap-controller", quorum.bootstrap, "topics", "list", "--timeout-ms", 399)
    assert outcome.err.count("\n") == 1


def test_an_answer_in_time_is_not_told(
    kraftctl: Kraftctl, quorum: ScriptedQuorum, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "TOLD_AFTER_S", 2.0)
    quorum.nodes[2].responses[m.ListTopicsRequest] = lambda _: m.ListTopicsResponse()
    outcome = kraftctl("--bootstrap-controller", quorum.bootstrap, "topics", "list")
    assert (outcome.code, outcome.err) == (0, "kraftctl: there is no topic\n")


def test_pages_that_come_are_no_wait(capsys: pytest.CaptureFixture[str]) -> None:
    waiting.begin()
    with waiting.patience("the leader", 10_000):
        waiting.answered()
        time.sleep(0.1)
    assert capsys.readouterr().err == ""
