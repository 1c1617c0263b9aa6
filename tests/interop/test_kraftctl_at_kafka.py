"""`kraftctl` at a real Kafka: what Kafka serves works, what it does not serve is one line."""

import os
from collections.abc import Callable, Iterator
from typing import TypeAlias

import pytest

from kraftd.types import uuid_text
from tests.interop.controllers import BROKER, Controllers
from tests.interop.peer import Kafka
from tests.unit.cli.kraftctl import Kraftctl, Outcome

Ask: TypeAlias = Callable[..., Outcome]
"""Runs `kraftctl` against a node of Kafka, by its id."""


@pytest.fixture(scope="module")
def controllers(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controllers]:
    folder = tmp_path_factory.mktemp("kafka")
    made = Controllers(
        kafka, folder / "said", {1: folder / "1", 2: folder / "2", 3: folder / "3"}, broker=folder / "b"
    )
    made.format(uuid_text(os.urandom(16)), [1, 2, 3, BROKER])
    with made:
        made.wait_leader()
        made.create_topic("by-kafka")
        yield made


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str], controllers: Controllers) -> Ask:
    kraftctl = Kraftctl(capsys)
    return lambda node, *more: kraftctl(
        "--bootstrap-controller", f"127.0.0.1:{controllers.ports[node]}", *more
    )


def test_topics_are_created_and_deleted_at_any_controller_and_at_a_broker(ask: Ask) -> None:
    for node in (1, 2, 3, BROKER):
        name = f"by-kraftctl-{node}"
        more = ("--partitions", 2, "--replication-factor", 1, "--config", "retention.ms=1000")
        made = ask(node, "topics", "create", name, *more)
        assert (made.code, made.out) == (0, f"Created topic {name}: 2 partitions, 1 replica.\n"), made.err
        again = ask(node, "topics", "create", name)
        assert again.code == 4
        assert again.err == f"kraftctl: topic {name} was not created: Topic '{name}' already exists.\n"
        gone = ask(node, "topics", "delete", name)
        assert (gone.code, gone.out) == (0, f"Deleted topic {name}.\n"), gone.err


def test_what_kafka_refuses_is_one_line_with_its_own_words(ask: Ask) -> None:
    refused = ask(1, "topics", "create", "much", "--replication-factor", 7)
    assert (refused.code, refused.out, refused.err.count("\n")) == (4, "", 1)
    assert "replication" in refused.err
    absent = ask(2, "topics", "delete", "nothing")
    assert (absent.code, absent.err.count("\n")) == (4, 1)
    assert "topic nothing was not deleted" in absent.err
    checked = ask(3, "topics", "create", "checked", "--validate-only")
    assert checked.out.startswith("Topic checked can be created")
    assert ask(3, "topics", "delete", "checked").code == 4


@pytest.mark.parametrize(
    "command", [("topics", "list"), ("topics", "describe", "by-kafka"), ("brokers", "list")]
)
@pytest.mark.parametrize(("node", "what"), [(1, "a node of Apache Kafka"), (BROKER, "a broker of Kafka")])
def test_what_only_kraftd_serves_is_refused_by_name(
    ask: Ask, node: int, what: str, command: tuple[str, ...]
) -> None:
    outcome = ask(node, *command)
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (4, "", 1)
    assert f"is {what}, which cannot tell kraftctl about {command[0]}" in outcome.err


def test_leaders_are_elected_at_any_controller_and_at_a_broker(ask: Ask) -> None:
    for node in (1, 2, 3, BROKER):
        led = ask(node, "elect", "--preferred", "--topic", "by-kafka", "--partition", 0, "-o", "json")
        assert led.code == 0, led.err
        assert [(row["partition"], row["outcome"]) for row in led.data] == [(0, "not needed")]
        absent = ask(node, "elect", "--unclean", "--topic", "by-kafka", "--partition", 99)
        assert (absent.code, absent.err.count("\n")) == (4, 1)
        assert absent.err == "kraftctl: no leader was elected for by-kafka-99\n"
        assert "No such partition as by-kafka-99" in absent.out
        assert ask(node, "elect", "--unclean", "--all").err == "kraftctl: no partition needs it\n"
    unnamed = ask(1, "elect", "--preferred", "--topic", "by-kafka")
    assert (unnamed.code, unnamed.err.count("\n")) == (4, 1)
    assert "which partitions topic by-kafka has is not known, name them" in unnamed.err


@pytest.mark.parametrize("node", [2, BROKER])
def test_configs_are_set_got_and_deleted(ask: Ask, node: int) -> None:
    done = ask(node, "configs", "set", "log.retention.ms=1234567")
    assert (done.code, done.out.startswith("Completed updating default config")) == (0, True), done.err
    (row,) = ask(node, "configs", "get", "log.retention.ms", "-o", "json").data
    assert (row["value"], row["source"]) == ("1234567", "DYNAMIC_DEFAULT_BROKER_CONFIG")
    assert ask(node, "configs", "delete", "log.retention.ms").code == 0
    assert ask(node, "configs", "list").code == 4


def test_a_value_that_a_broker_of_kafka_refuses_is_one_line(ask: Ask) -> None:
    """Its controllers take any value of a broker's config: brokers look at what they forward."""
    refused = ask(BROKER, "configs", "set", "log.retention.ms=x")
    assert (refused.code, refused.out, refused.err.count("\n")) == (4, "", 1)
