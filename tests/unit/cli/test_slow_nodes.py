"""A node that is slow is told as such: whether it is kraftd's or Kafka's, only its answers say."""

from collections.abc import Iterator, Mapping
from typing import ClassVar

import pytest

from kraftd.protocol import messages as m
from kraftd.protocol.codec import Codec
from kraftd.protocol.kafka_codec import KAFKA
from tests.unit.cli.kraftctl import Kraftctl
from tests.unit.cli.scripted import CLUSTER_ID, ScriptedKafkaNode, ScriptedNodeOfBoth

pytestmark = pytest.mark.usefixtures("quick")


class SlowKafkaNode(ScriptedKafkaNode):
    """One that has not closed the connection yet, on which our handshake came."""

    codecs: ClassVar[Mapping[int, Codec]] = ScriptedNodeOfBoth.codecs


SILENT = "no response within 100 ms"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node has 100 ms to answer."""
    monkeypatch.setattr("kraftd.cli.survey.survey.__defaults__", (100,))
    monkeypatch.setattr("kraftd.cli.health.REQUEST_TIMEOUT_MS", 100)
    monkeypatch.setattr("kraftd.cli.active_controller.REQUEST_TIMEOUT_MS", 100)
    monkeypatch.setattr("kraftd.cli.log_stream.TIMEOUT_MS", 100)


@pytest.fixture
def node() -> Iterator[ScriptedNodeOfBoth]:
    """The only voter of a quorum of kraftd, which leads."""
    node = ScriptedNodeOfBoth(1)
    node.responses[m.DescribeNodeRequest] = lambda _: m.DescribeNodeResponse(
        cluster_id=CLUSTER_ID, node_id=1, role="leader", is_voter=True, epoch=7, leader_id=1, voted_id=1
    )
    node.responses[m.ListTopicsRequest] = lambda _: m.ListTopicsResponse()
    node.responses[m.DescribeConfigsRequest] = lambda _: m.DescribeConfigsResponse()
    yield node
    node.close()


@pytest.mark.parametrize(
    "command",
    [
        ["topics", "list"],
        ["configs", "list"],
        ["configs", "get", "log.retention.ms"],
        ["brokers", "list"],
        ["events"],
        ["replication"],
        ["status"],
        ["watch"],
    ],
    ids=" ".join,
)
def test_a_slow_node_of_kraftd_is_none_of_kafka(
    kraftctl: Kraftctl, node: ScriptedNodeOfBoth, command: list[str]
) -> None:
    node.ignored = 100
    outcome = kraftctl("--bootstrap-controller", node.address, *command)
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert outcome.err.startswith("kraftctl: no node answers: ")
    assert (SILENT in outcome.err, "Kafka" in outcome.err) == (True, False)


def test_a_slow_node_of_kraftd_is_not_healthy_and_none_of_kafka(
    kraftctl: Kraftctl, node: ScriptedNodeOfBoth
) -> None:
    node.ignored = 100
    outcome = kraftctl("--bootstrap-controller", node.address, "health")
    assert outcome.code == 5
    assert (SILENT in outcome.out, "Kafka" in outcome.out) == (True, False)


@pytest.mark.parametrize("command", [["topics", "list"], ["configs", "get", "log.retention.ms"]])
def test_a_node_of_kraftd_that_was_silent_for_a_while_is_asked_again(
    kraftctl: Kraftctl, node: ScriptedNodeOfBoth, command: list[str]
) -> None:
    node.ignored = 1
    outcome = kraftctl("--bootstrap-controller", node.address, *command)
    assert "Kafka" not in outcome.err
    assert outcome.code == 0, outcome.err


def test_it_is_not_asked_again_when_the_time_is_up(kraftctl: Kraftctl, node: ScriptedNodeOfBoth) -> None:
    node.ignored = 1
    more = ("topics", "list", "--timeout-ms", 50)
    outcome = kraftctl("--bootstrap-controller", node.address, *more)
    assert (outcome.code, SILENT in outcome.err) == (2, True)


def test_a_controller_of_kafka_that_is_slow_to_refuse_is_told_as_such(kraftctl: Kraftctl) -> None:
    kafka = SlowKafkaNode(1)
    kafka.ignored = 100
    outcome = kraftctl("--bootstrap-controller", kafka.address, "topics", "list")
    kafka.close()
    assert outcome.code == 4
    assert (
        f"{kafka.address} is a node of Apache Kafka, which cannot tell kraftctl about topics" in outcome.err
    )


def test_a_controller_of_kafka_that_does_not_answer_at_all_is_silent(kraftctl: Kraftctl) -> None:
    kafka = ScriptedKafkaNode(1)
    kafka.silent = True
    outcome = kraftctl("--bootstrap-controller", kafka.address, "topics", "list")
    kafka.close()
    assert (outcome.code, "Apache" in outcome.err) == (2, False)


def test_kraftd_serves_nothing_by_which_kafkas_nodes_are_known() -> None:
    assert not KAFKA.apis.keys() & {0, 52}
