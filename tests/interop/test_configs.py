"""The names and types of configs are Kafka's: what counts as a secret, and what may be set, hangs on them."""

import pytest

from kraftd.metadata import config_table
from kraftd.metadata.config_schema import topic_names, topic_synonyms
from tests.interop.conftest import HERE
from tests.interop.peer import Kafka

TABLES = {
    "broker": config_table.BROKER,
    "topic": config_table.TOPIC,
    "group": config_table.GROUP,
    "client_metrics": config_table.CLIENT_METRICS,
}

ONLY_DYNAMIC = {
    "follower.replication.throttled.rate": "long",
    "leader.replication.throttled.rate": "long",
    "replica.alter.log.dirs.io.max.bytes.per.second": "long",
}
"""Quotas of a broker's own: set as its dynamic configs, but defined beside those of its file."""


@pytest.fixture(scope="module")
def lines(kafka: Kafka) -> list[tuple[str, str, str]]:
    return [
        (what, name, rest)
        for what, name, rest in map(str.split, kafka.run(HERE / "Configs.java").splitlines())
    ]


@pytest.fixture(scope="module")
def theirs(lines: list[tuple[str, str, str]]) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {resource: {} for resource in TABLES}
    for resource, name, kind in lines:
        if resource in TABLES:
            found[resource][name] = kind
    return found


@pytest.mark.parametrize("resource", TABLES)
def test_names_and_types(theirs: dict[str, dict[str, str]], resource: str) -> None:
    rows = [line.split("|") for line in TABLES[resource].splitlines()]
    assert {name: kind for name, kind, *_ in rows} == theirs[resource] | (
        ONLY_DYNAMIC if resource == "broker" else {}
    )


def test_synonyms(lines: list[tuple[str, str, str]]) -> None:
    of_kafka: dict[str, list[str]] = {}
    for what, name, synonym in lines:
        if what == "synonym":
            of_kafka.setdefault(name, []).append(synonym)
    ours = {
        name: [f"{synonym.name}={synonym.convert('1')}" for synonym in topic_synonyms(name)]
        for name in topic_names()
        if topic_synonyms(name)
    }
    assert ours == of_kafka
