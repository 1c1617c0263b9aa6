"""`configs`: a value that may be a password leaves only when it was asked for, a password never."""

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
def test_a_value_of_a_name_that_nobody_knows_is_told_only_on_demand(
    kraftctl: Kraftctl, quorum: ScriptedQuorum, words: tuple[str, ...], output: str
) -> None:
    entry = ListConfigsResponseEntry(resource_type=4, resource_name="", name=STRANGER, value="s3cret")
    found = DescribeConfigsResponseDescribeConfigsResourceResult(
        name=STRANGER, value="s3cret", config_source=3
    )
    result = DescribeConfigsResponseDescribeConfigsResult(resource_type=4, configs=(found,))
    responses = quorum.nodes[2].responses
    responses[ListConfigsRequest] = lambda _: ListConfigsResponse(entries=(entry,))
    responses[DescribeConfigsRequest] = lambda _: DescribeConfigsResponse(results=(result,))
    hidden = configs(kraftctl, quorum, *words, "-o", output)
    assert hidden.code == 0
    assert STRANGER in hidden.out
    assert "s3cret" not in hidden.out + hidden.err
    assert "s3cret" in configs(kraftctl, quorum, *words, "-o", output, "--show-secrets").out


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
