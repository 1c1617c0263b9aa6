"""Help for a terminal of 80 columns: plain text, in which every flag is whole."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from kraftd.cli.main import COMMANDS, app
from tests.unit.cli.kraftctl import Kraftctl

ROOT = typer.main.get_command(app)


def below(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command by the words that call it, groups and the program itself among them."""
    yield words, command
    context = typer.Context(command)
    for name in command.list_commands(context) if hasattr(command, "list_commands") else ():
        yield from below(command.get_command(context, name), (*words, name))


ALL = dict(below(ROOT))


def test_every_command_is_looked_at() -> None:
    assert {words[0] for words in ALL if words} == {*COMMANDS}
    assert ("reassign", "execute") in ALL


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_every_flag_is_whole_and_no_line_is_too_long(
    kraftctl: Kraftctl, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    outcome = kraftctl(*words, "--help")
    assert outcome.code == 0
    assert max(map(len, outcome.out.splitlines())) <= 80
    shown = outcome.out.replace(",", " ").split()
    for parameter in ALL[words].params:
        flags = [flag for flag in parameter.opts if flag.startswith("-")]
        assert {*flags} <= {*shown}, "cut short, or missing"


def test_where_logs_are_read_from_is_said(kraftctl: Kraftctl) -> None:
    assert "state --from, a running quorum" in " ".join(kraftctl("log", "--help").out.split())
    dump = " ".join(kraftctl("log", "dump", "--help").out.split())
    assert "a node's directory stands for its segments alone" in dump


def test_what_a_command_does_is_told_whole_in_its_group(
    kraftctl: Kraftctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = " ".join(kraftctl("topics", "--help").out.split())
    assert (
        "deletions Show where data of deleted topics and of replicas that were moved away still is, and why."
        in text
    )
    assert "With -o json" not in " ".join(kraftctl("reassign", "--help").out.split()), (
        "the first paragraph alone"
    )


@pytest.mark.parametrize(
    "words",
    [
        ("brokers", "describe", "-1"),
        ("brokers", "describe", "1", "-23"),
        ("brokers", "can-stop", "-1"),
        ("brokers", "pending", "-7"),
        ("partitions", "explain", "-1"),
        ("topics", "describe", "-1"),
    ],
    ids=" ".join,
)
def test_a_negative_id_is_no_option_that_nobody_knows(kraftctl: Kraftctl, words: tuple[str, ...]) -> None:
    outcome = kraftctl("--bootstrap-controller", "127.0.0.1:1", *words)
    assert (outcome.code, outcome.out) == (64, "")
    assert outcome.err == (
        f"kraftctl: {words[-1]} is negative; ids and numbers here are not; "
        f"see kraftctl {words[0]} {words[1]} --help\n"
    )


def test_an_option_that_nobody_knows_is_named(kraftctl: Kraftctl) -> None:
    assert "No such option: -x" in kraftctl("brokers", "describe", "-x").err


def test_every_command_but_watch_takes_an_output() -> None:
    leaves = [words for words in ALL if words and not any(longer[:-1] == words for longer in ALL)]
    without = [
        words for words in leaves if not any("--output" in parameter.opts for parameter in ALL[words].params)
    ]
    assert without == [("watch",)]


def test_the_readme_says_so() -> None:
    readme = (Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8")
    assert "Every command takes `-o table|json|yaml`, but `watch`" in readme
