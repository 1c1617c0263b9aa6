"""What the option parser says of words that can mean nothing to any command."""

import pytest

from tests.unit.cli.kraftctl import Kraftctl


@pytest.mark.parametrize(
    "command",
    [
        ["log", "verify", ""],
        ["log", "verify", "somewhere", ""],
        ["log", "dump", ""],
        ["log", "state", ""],
        ["log", "history", "", "topic", "orders"],
        ["log", "diff", "", "1", "2"],
        ["info", ""],
        ["forget-peers", ""],
        ["shell", ""],
        ["export", "", "OUT"],
        ["export", "1", ""],
        ["replay", ""],
        ["metrics", ""],
        ["format", "-t", "x", "-c", ""],
        ["reassign", "verify", "--file", ""],
        ["topics", "describe", ""],
        ["configs", "get", ""],
        ["elect", "--preferred", "--topic", ""],
    ],
    ids=" ".join,
)
def test_an_empty_text_is_no_name_and_not_the_current_directory(
    kraftctl: Kraftctl, command: list[str]
) -> None:
    outcome = kraftctl("--bootstrap-controller", "127.0.0.1:1", *command)
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (64, "", 1)
    assert ": it is empty, and names nothing; see kraftctl " in outcome.err


@pytest.mark.parametrize(
    ("command", "numbers"),
    [
        (["brokers", "describe", "1", "x"], "0 to 2147483647"),
        (["configs", "list", "--broker", "x"], "0 to 2147483647"),
        (["watch", "--from", "x"], "0 to 9223372036854775807"),
        (["brokers", "pending", "1", "--limit", "x"], "1 on"),
    ],
    ids=["argument", "option", "offset", "without end"],
)
def test_what_is_no_number_is_told_with_the_numbers_that_there_may_be(
    kraftctl: Kraftctl, command: list[str], numbers: str
) -> None:
    outcome = kraftctl(*command)
    assert (outcome.code, outcome.out) == (64, "")
    assert f"'x' is not a valid number from {numbers}; see kraftctl " in outcome.err
