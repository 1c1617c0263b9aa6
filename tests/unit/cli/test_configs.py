"""`configs`: written at the leader, through elections, and read as of now."""

import re

import pytest

from kraftd.errors import ErrorCode
from kraftd.protocol.messages import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeConfigsResponseDescribeConfigsResourceResult,
    DescribeConfigsResponseDescribeConfigsResult,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    IncrementalAlterConfigsResponseAlterConfigsResourceResponse,
    ListConfigsRequest,
    ListConfigsResponse,
    ListConfigsResponseEntry,
    ListConfigsResponseNextCursor,
)
from kraftd.types import NO_NODE
from tests.unit.cli.kraftctl import Kraftctl, Outcome
from tests.unit.cli.scripted import ScriptedKafkaNode, ScriptedQuorum


def altered(error: ErrorCode = ErrorCode.NONE, message: str | None = None) -> IncrementalAlterConfigsResponse:
    outcome = IncrementalAlterConfigsResponseAlterConfigsResourceResponse(
        error_code=error, error_message=message, resource_type=4
    )
    return IncrementalAlterConfigsResponse(responses=(outcome,))


def configs(kraftctl: Kraftctl, quorum: ScriptedQuorum, *more: object) -> Outcome:
    return kraftctl("--bootstrap-controller", quorum.bootstrap, "configs", *more)


def changes(quorum: ScriptedQuorum, node_id: int = 2) -> list[tuple[str, str, int, str | None]]:
    return [
        (resource.resource_name, config.name, config.config_operation, config.value)
        for request in quorum.nodes[node_id].seen
        if isinstance(request, IncrementalAlterConfigsRequest)
        for resource in request.resources
        for config in resource.configs
    ]


def test_set_is_one_request_to_the_leader(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    quorum.nodes[2].responses[IncrementalAlterConfigsRequest] = lambda _: altered()
    outcome = configs(kraftctl, quorum, "set", "log.retention.ms=1000", "compression.type=a=b")
    assert outcome.code == 0
    assert outcome.out == "Completed updating default config for brokers in the cluster.\n"
    assert changes(quorum) == [("", "log.retention.ms", 0, "1000"), ("", "compression.type", 0, "a=b")]


def test_delete_of_one_brokers_config(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    quorum.nodes[2].responses[IncrementalAlterConfigsRequest] = lambda _: altered()
    outcome = configs(kraftctl, quorum, "delete", "log.retention.ms", "--broker", 11)
    assert outcome.out == "Completed updating config for broker 11.\n"
    assert changes(quorum) == [("11", "log.retention.ms", 1, None)]


def test_a_name_that_kafka_does_not_define_needs_force(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    quorum.nodes[2].responses[IncrementalAlterConfigsRequest] = lambda _: altered()
    outcome = configs(kraftctl, quorum, "set", "log.retenton.ms=1")
    assert outcome.code == 64
    assert "did you mean log.retention.ms?" in outcome.err
    assert changes(quorum) == []
    assert configs(kraftctl, quorum, "set", "log.retenton.ms=1", "--force").code == 0
    assert changes(quorum) == [("", "log.retenton.ms", 0, "1")]


def test_a_name_with_a_line_break_is_deleted_without_force_or_refused_by_the_leader(
    kraftctl: Kraftctl, quorum: ScriptedQuorum
) -> None:
    """An older kraftd may have set it; nobody else takes it, so that no force would help."""
    quorum.nodes[2].responses[IncrementalAlterConfigsRequest] = lambda _: altered()
    assert configs(kraftctl, quorum, "delete", "a\nb").code == 0
    assert changes(quorum) == [("", "a\nb", 1, None)]
    quorum.nodes[2].responses[IncrementalAlterConfigsRequest] = lambda _: altered(
        ErrorCode.INVALID_CONFIG, "The name 'a\\nb' holds a line break or control character."
    )
    outcome = configs(kraftctl, quorum, "delete", "a\nb")
    assert (outcome.code, outcome.err.count("\n")) == (4, 1)
    assert "force" not in outcome.err


def test_a_value_the_controller_refuses_is_4(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    quorum.nodes[2].responses[IncrementalAlterConfigsRequest] = lambda _: altered(
        ErrorCode.INVALID_CONFIG, "log.retention.ms must be a number"
    )
    outcome = configs(kraftctl, quorum, "set", "log.retention.ms=x")
    assert outcome.code == 4
    assert outcome.err == "kraftctl: cluster is left as it was: log.retention.ms must be a number\n"


@pytest.mark.parametrize("fault", [ErrorCode.NOT_CONTROLLER, ErrorCode.THROTTLING_QUOTA_EXCEEDED])
def test_a_change_follows_the_leader_through_an_election(
    kraftctl: Kraftctl, quorum: ScriptedQuorum, fault: ErrorCode
) -> None:
    def lose(_: object) -> object:
        quorum.lead(3, epoch=8)
        return altered(fault)

    quorum.nodes[2].responses[IncrementalAlterConfigsRequest] = lose
    quorum.nodes[3].responses[IncrementalAlterConfigsRequest] = lambda _: altered()
    assert configs(kraftctl, quorum, "set", "log.retention.ms=1").code == 0
    assert changes(quorum, 3) == [("", "log.retention.ms", 0, "1")]


def test_a_change_longer_than_a_node_takes_is_not_sent(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    quorum.nodes[2].responses[IncrementalAlterConfigsRequest] = lambda _: altered()
    assert (
        configs(kraftctl, quorum, "set", "--force", *(f"n{at}={'v' * 30_000}" for at in range(34))).code == 0
    )
    before = len(changes(quorum))
    outcome = configs(kraftctl, quorum, "set", "--force", *(f"n{at}={'v' * 30_000}" for at in range(35)))
    assert outcome.code == 64
    [line] = outcome.err.splitlines()
    assert re.search(r"a request of 105\d{4} bytes, and a node takes 1048576 at most", line)
    assert len(changes(quorum)) == before


@pytest.mark.usefixtures("patient")
def test_a_paused_follower_does_not_delay_a_change(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    quorum.nodes[3].silent = True
    quorum.nodes[2].responses[IncrementalAlterConfigsRequest] = lambda _: altered()
    assert configs(kraftctl, quorum, "set", "log.retention.ms=1").code == 0


@pytest.mark.parametrize("next_leader", [3, NO_NODE])
@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (ErrorCode.REQUEST_TIMED_OUT, "it was not committed in time"),
        (None, "the node closed the connection without a response"),
    ],
)
@pytest.mark.parametrize("change", [("set", "log.retention.ms=1"), ("delete", "log.retention.ms")])
def test_a_change_that_may_have_been_made_is_not_repeated(
    kraftctl: Kraftctl,
    quorum: ScriptedQuorum,
    change: tuple[str, str],
    fault: ErrorCode | None,
    why: str,
    next_leader: int,
) -> None:
    """None: the old leader dies with the request in its hands. Whoever leads next may hold the change, and
    somebody else may have changed the same config since.
    """

    def lose(_: object) -> object:
        quorum.lead(next_leader, epoch=8)
        return None if fault is None else altered(fault, "Appended, outcome unknown")

    quorum.nodes[2].responses[IncrementalAlterConfigsRequest] = lose
    quorum.nodes[3].responses[IncrementalAlterConfigsRequest] = lambda _: altered()
    outcome = configs(kraftctl, quorum, *change)
    assert outcome.code == 5
    assert outcome.err == (
        "kraftctl: whether the change of cluster was made is unknown: "
        f"{quorum.nodes[2].address}: {why}; read the values before repeating it\n"
    )
    assert len(changes(quorum, 2)) == 1
    assert changes(quorum, 3) == []


def test_without_a_leader_a_change_ends_with_5(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    quorum.lead(NO_NODE)
    outcome = configs(kraftctl, quorum, "set", "log.retention.ms=1", "--timeout-ms", 200)
    assert outcome.code == 5
    assert outcome.err.startswith("kraftctl: no leader: ")


def test_get_tells_values_and_where_they_come_from(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    def describe(request: DescribeConfigsRequest) -> DescribeConfigsResponse:
        [resource] = request.resources
        assert (resource.resource_type, resource.resource_name) == (4, "7")
        found = (
            DescribeConfigsResponseDescribeConfigsResourceResult(
                name="log.retention.ms", value="1000", config_source=3
            ),
            DescribeConfigsResponseDescribeConfigsResourceResult(
                name="ssl.key.password", value=None, is_sensitive=True, config_source=2
            ),
        )
        result = DescribeConfigsResponseDescribeConfigsResult(
            resource_type=4, resource_name="7", configs=found
        )
        return DescribeConfigsResponse(results=(result,))

    quorum.nodes[2].responses[DescribeConfigsRequest] = describe
    names = ("ssl.key.password", "log.retention.ms", "log.retention.bytes")
    outcome = configs(kraftctl, quorum, "get", "--broker", 7, *names)
    assert [line.split() for line in outcome.out.splitlines()] == [
        ["Entity", "Name", "Value", "Source"],
        ["broker", "7", "ssl.key.password", "[redacted]", "DYNAMIC_BROKER_CONFIG"],
        ["broker", "7", "log.retention.ms", "1000", "DYNAMIC_DEFAULT_BROKER_CONFIG"],
        ["broker", "7", "log.retention.bytes", "(none)", "-"],
    ]


def described(*found: DescribeConfigsResponseDescribeConfigsResourceResult) -> DescribeConfigsResponse:
    result = DescribeConfigsResponseDescribeConfigsResult(resource_type=4, configs=found)
    return DescribeConfigsResponse(results=(result,))


def test_a_name_that_is_neither_defined_nor_set_is_refused_and_the_others_are_told(
    kraftctl: Kraftctl, quorum: ScriptedQuorum
) -> None:
    quorum.nodes[2].responses[DescribeConfigsRequest] = lambda _: described(
        DescribeConfigsResponseDescribeConfigsResourceResult(
            name="log.retention.ms", value="1000", config_source=3
        )
    )
    outcome = configs(kraftctl, quorum, "get", "log.retenton.ms", "log.retention.ms", "-o", "json")
    assert outcome.code == 4
    assert [row["name"] for row in outcome.data] == ["log.retention.ms"]
    assert outcome.err == (
        "kraftctl: Kafka 4.3 defines no broker config log.retenton.ms (did you mean log.retention.ms?), "
        "and none of that name is set\n"
    )


def test_a_name_that_is_not_defined_and_set_all_the_same_is_told(
    kraftctl: Kraftctl, quorum: ScriptedQuorum
) -> None:
    quorum.nodes[2].responses[DescribeConfigsRequest] = lambda _: described(
        DescribeConfigsResponseDescribeConfigsResourceResult(name="a.plugin", value=None, config_source=3)
    )
    outcome = configs(kraftctl, quorum, "get", "a.plugin")
    assert (outcome.code, outcome.err.count("\n")) == (0, 1)
    assert outcome.out.splitlines()[1].split() == [
        "cluster",
        "a.plugin",
        "[redacted]",
        "DYNAMIC_DEFAULT_BROKER_CONFIG",
    ]


def test_a_password_that_nobody_set_is_none(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    quorum.nodes[2].responses[DescribeConfigsRequest] = lambda _: described(
        DescribeConfigsResponseDescribeConfigsResourceResult(
            name="ssl.key.password", value=None, is_sensitive=True, config_source=5
        )
    )
    outcome = configs(kraftctl, quorum, "get", "ssl.key.password")
    assert outcome.out.splitlines()[1].split() == ["cluster", "ssl.key.password", "(none)", "DEFAULT_CONFIG"]


def test_list_begins_with_the_cluster_and_hides_secrets(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    entries = tuple(
        ListConfigsResponseEntry(resource_type=4, resource_name=resource, name=name, value=value)
        for resource, name, value in [
            ("10", "log.retention.ms", "1"),
            ("9", "ssl.key.password", "tell nobody"),
            ("", "min.insync.replicas", "2"),
        ]
    )
    quorum.nodes[2].responses[ListConfigsRequest] = lambda _: ListConfigsResponse(entries=entries)
    outcome = configs(kraftctl, quorum, "list", "-o", "json")
    assert [(row["entity"], row["value"]) for row in outcome.data] == [
        ("cluster", "2"),
        ("broker 9", None),
        ("broker 10", "1"),
    ]
    only = configs(kraftctl, quorum, "list", "--broker", 10, "-o", "json")
    assert [row["entity"] for row in only.data] == ["broker 10"]


def page_of(request: ListConfigsRequest, length: int = 2, total: int = 7) -> ListConfigsResponse:
    """A page of seven configs of the cluster."""
    start = 0 if request.cursor is None else int(request.cursor.name[1:]) + 1
    entries = tuple(
        ListConfigsResponseEntry(resource_type=4, resource_name="", name=f"n{at}", value=str(at))
        for at in range(start, min(start + length, total))
    )
    more = start + length < total
    cursor = ListConfigsResponseNextCursor(4, "", entries[-1].name) if more else None
    return ListConfigsResponse(entries=entries, next_cursor=cursor)


def test_list_follows_the_pages_to_the_end(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    quorum.nodes[2].responses[ListConfigsRequest] = page_of
    rows = configs(kraftctl, quorum, "list", "-o", "json").data
    assert [row["name"] for row in rows] == [f"n{at}" for at in range(7)]


def test_list_goes_on_at_the_next_leader(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    def lose(request: ListConfigsRequest) -> ListConfigsResponse | None:
        if request.cursor is None:
            return page_of(request)
        quorum.lead(3, epoch=8)
        return None

    quorum.nodes[2].responses[ListConfigsRequest] = lose
    quorum.nodes[3].responses[ListConfigsRequest] = page_of
    rows = configs(kraftctl, quorum, "list", "-o", "json").data
    assert [row["name"] for row in rows] == [f"n{at}" for at in range(7)]
    first = next(request for request in quorum.nodes[3].seen if isinstance(request, ListConfigsRequest))
    assert first.cursor is not None


def test_a_listing_that_does_not_go_on_is_not_followed_for_ever(
    kraftctl: Kraftctl, quorum: ScriptedQuorum
) -> None:
    stuck = ListConfigsResponse(next_cursor=ListConfigsResponseNextCursor(4, "", "n1"))
    quorum.nodes[2].responses[ListConfigsRequest] = lambda _: stuck
    outcome = configs(kraftctl, quorum, "list")
    assert outcome.code == 4
    assert "does not come after the last" in outcome.err


def test_list_of_one_broker_begins_and_ends_there(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    def one(request: ListConfigsRequest) -> ListConfigsResponse:
        assert request.cursor is not None
        assert (request.cursor.resource_type, request.cursor.resource_name) == (4, "7")
        entries = tuple(ListConfigsResponseEntry(4, broker, "n", "1") for broker in ("7", "8"))
        return ListConfigsResponse(entries=entries, next_cursor=ListConfigsResponseNextCursor(4, "8", "n"))

    quorum.nodes[2].responses[ListConfigsRequest] = one
    assert [row["entity"] for row in configs(kraftctl, quorum, "list", "--broker", 7, "-o", "json").data] == [
        "broker 7"
    ]


def test_get_asks_for_half_where_all_is_too_much(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    def describe(request: DescribeConfigsRequest) -> DescribeConfigsResponse:
        names = request.resources[0].configuration_keys or ()
        error = ErrorCode.POLICY_VIOLATION if len(names) > 2 else ErrorCode.NONE
        found = tuple(
            DescribeConfigsResponseDescribeConfigsResourceResult(name=name, value="v", config_source=3)
            for name in names
        )
        result = DescribeConfigsResponseDescribeConfigsResult(
            error_code=error, resource_type=4, configs=() if error else found
        )
        return DescribeConfigsResponse(results=(result,))

    quorum.nodes[2].responses[DescribeConfigsRequest] = describe
    names = [f"n{at}" for at in range(9)]
    rows = configs(kraftctl, quorum, "get", *names, "-o", "json").data
    assert [(row["name"], row["source"]) for row in rows] == [
        (name, "DYNAMIC_DEFAULT_BROKER_CONFIG") for name in names
    ]


def test_a_change_that_the_response_does_not_name_is_not_done(
    kraftctl: Kraftctl, quorum: ScriptedQuorum
) -> None:
    quorum.nodes[2].responses[IncrementalAlterConfigsRequest] = lambda _: IncrementalAlterConfigsResponse()
    assert configs(kraftctl, quorum, "set", "log.retention.ms=1").code == 4


@pytest.mark.parametrize(
    "arguments",
    [
        ("get", "log.\udcff"),
        ("get", "a\nb"),
        ("set", "log.\udcff=1", "--force"),
        ("set", "a\nb=1", "--force"),
        ("set", "a\n=1", "--force"),
        ("set", "log.retention.ms=\udcff"),
        ("delete", "\udcff", "--force"),
        ("list", "--broker", 1 << 31),
        ("get", "log.retention.ms", "--broker", 99999999999999999999),
    ],
)
def test_what_can_be_no_name_or_broker_is_a_usage_error(
    kraftctl: Kraftctl, quorum: ScriptedQuorum, arguments: tuple[object, ...]
) -> None:
    outcome = configs(kraftctl, quorum, *arguments)
    assert outcome.code == 64
    assert len(outcome.err.splitlines()) == 1
    assert not any(node.seen for node in quorum.nodes.values())


@pytest.mark.parametrize(
    ("command", "so"),
    [
        (("set", "log.retention.ms=1"), "nothing was changed; "),
        (("delete", "log.retention.ms"), "nothing was changed; "),
        (("get", "log.retention.ms"), ""),
    ],
)
def test_without_a_leader_a_change_is_told_as_not_made(
    kraftctl: Kraftctl, quorum: ScriptedQuorum, command: tuple[str, ...], so: str
) -> None:
    quorum.lead(NO_NODE)
    outcome = configs(kraftctl, quorum, *command, "--timeout-ms", 100)
    says = f"kraftctl: no leader: nobody campaigns; {so}kraftctl status shows every node's view\n"
    assert outcome == (5, "", says)


def test_which_config_is_set_twice_is_told(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    outcome = configs(
        kraftctl, quorum, "set", "log.retention.ms=1", "log.cleaner.threads=2", "log.retention.ms=3"
    )
    assert outcome == (64, "", "kraftctl: log.retention.ms is set twice; name each once\n")


def test_kafkas_own_controllers_are_asked_in_kafkas_protocol(kraftctl: Kraftctl) -> None:
    node = ScriptedKafkaNode(1)
    node.responses[IncrementalAlterConfigsRequest] = lambda _: altered()
    config = DescribeConfigsResponseDescribeConfigsResourceResult(
        name="log.retention.ms", value="1000", config_source=3
    )
    result = DescribeConfigsResponseDescribeConfigsResult(resource_type=4, configs=(config,))
    node.responses[DescribeConfigsRequest] = lambda _: DescribeConfigsResponse(results=(result,))

    def asked(*more: object) -> Outcome:
        return kraftctl("--bootstrap-controller", node.address, "configs", *more)

    assert asked("set", "log.retention.ms=1000").out.startswith("Completed updating default config")
    assert asked("get", "log.retention.ms", "-o", "json").data[0]["value"] == "1000"
    listed = asked("list")
    assert (listed.code, listed.out, listed.err.count("\n")) == (4, "", 1)
    assert "is a node of Apache Kafka, which cannot tell kraftctl about configs that are set" in listed.err
    node.close()
