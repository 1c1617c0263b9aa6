"""`configs`: a value that may be a secret is not told, by whatever node it was."""

import pytest

from kraftd.protocol.messages import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeConfigsResponseDescribeConfigsResourceResult,
    DescribeConfigsResponseDescribeConfigsResult,
    IncrementalAlterConfigsRequest,
    ListConfigsRequest,
    ListConfigsResponse,
    ListConfigsResponseEntry,
)
from tests.unit.cli.kraftctl import Kraftctl
from tests.unit.cli.scripted import ScriptedQuorum
from tests.unit.cli.test_configs import altered, changes, configs

STRANGER = "some.plugin.token"
"""Kafka does not define it, so it may hold anything."""


@pytest.mark.parametrize("output", ["table", "json", "yaml"])
@pytest.mark.parametrize("words", [("get", STRANGER), ("list",)])
@pytest.mark.parametrize("told", [None, "s3cret"])
def test_a_name_that_nobody_knows_is_shown_and_its_value_is_not(
    kraftctl: Kraftctl, quorum: ScriptedQuorum, words: tuple[str, ...], output: str, told: str | None
) -> None:
    entry = ListConfigsResponseEntry(resource_type=4, resource_name="", name=STRANGER, value=told)
    found = DescribeConfigsResponseDescribeConfigsResourceResult(name=STRANGER, value=told, config_source=3)
    result = DescribeConfigsResponseDescribeConfigsResult(resource_type=4, configs=(found,))
    responses = quorum.nodes[2].responses
    responses[ListConfigsRequest] = lambda _: ListConfigsResponse(entries=(entry,))
    responses[DescribeConfigsRequest] = lambda _: DescribeConfigsResponse(results=(result,))
    hidden = configs(kraftctl, quorum, *words, "-o", output)
    assert hidden.code == 0
    assert STRANGER in hidden.out
    assert "s3cret" not in hidden.out + hidden.err
    if output == "table":
        assert hidden.out.splitlines()[1].split() == [
            "cluster",
            STRANGER,
            "[redacted]",
            "DYNAMIC_DEFAULT_BROKER_CONFIG",
        ]


@pytest.mark.parametrize(
    ("assignment", "more"), [("ssl.key.password=s3cret", ()), (f"{STRANGER}=s3cret", ("--force",))]
)
def test_what_was_set_is_confirmed_without_it(
    kraftctl: Kraftctl, quorum: ScriptedQuorum, assignment: str, more: tuple[str, ...]
) -> None:
    quorum.nodes[2].responses[IncrementalAlterConfigsRequest] = lambda _: altered()
    outcome = configs(kraftctl, quorum, "set", assignment, *more, "-o", "json")
    assert outcome.data["changes"] == [{"name": assignment.partition("=")[0], "value": "[redacted]"}]
    assert changes(quorum)[0][3] == "s3cret"
