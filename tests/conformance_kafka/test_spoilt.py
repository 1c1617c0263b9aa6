"""What is changed on the way from Kafka to the comparison is noticed: in answers, in records, in the image.

It needs Java and Maven: `pytest tests/conformance_kafka/test_spoilt.py -m slow`.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from kraftd.protocol import messages as m
from kraftd.records import messages as r
from tests.conformance_kafka import images
from tests.conformance_kafka.run import Bench, drawn
from tests.conformance_kafka.scenes import NEWEST
from tests.conformance_kafka.sides import Appended, Pair
from tests.interop.peer import RELEASE, kafka_of

SEED = 103
OPERATIONS_MAX = 2_000

Spoil = Callable[[Any], Any]


def answer(kind: type[Any], change: Callable[[Any], Any]) -> Spoil:
    """Changes the responses of one kind."""
    return lambda said: change(said) if type(said) is kind else said


def record(kind: type[Any], change: Callable[[Any], Any]) -> Spoil:
    """Changes the records of one kind."""

    def spoil(said: Any) -> Any:
        if isinstance(said, Appended) and type(said.record) is kind:
            changed = change(said.record)
            return None if changed is None else said._replace(record=changed)
        return said

    return spoil


def first_topic(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def changed(said: Any) -> Any:
        return replace(said, topics=(*map(change, said.topics[:1]), *said.topics[1:]))

    return changed


SPOILT: dict[str, Spoil] = {
    "an error of a heartbeat": answer(
        m.BrokerHeartbeatResponse, lambda said: replace(said, error_code=said.error_code ^ 1)
    ),
    "whether a broker is fenced": answer(
        m.BrokerHeartbeatResponse, lambda said: replace(said, is_fenced=not said.is_fenced)
    ),
    "an error of a topic": answer(
        m.CreateTopicsResponse, first_topic(lambda topic: replace(topic, error_code=36 - topic.error_code))
    ),
    "the configs of a new topic": answer(
        m.CreateTopicsResponse, first_topic(lambda topic: replace(topic, configs=topic.configs[:-1]))
    ),
    "an ACL that is not told": answer(
        m.DescribeAclsResponse, lambda said: replace(said, resources=said.resources[1:])
    ),
    "a leader": record(r.PartitionChangeRecord, lambda change: replace(change, leader=-1)),
    "the order of replicas": record(
        r.PartitionRecord, lambda partition: replace(partition, replicas=partition.replicas[::-1])
    ),
    "a rack": record(r.RegisterBrokerRecord, lambda broker: replace(broker, rack="z")),
    "a config that is lost": record(r.ConfigRecord, lambda _config: None),
    "the version of a record": lambda said: (
        said._replace(version=said.version + 1) if isinstance(said, Appended) else said
    ),
}


class _Spoiled:
    """A bench whose Kafka is misread as the test says."""

    def __init__(self) -> None:
        self.spoil: Spoil = lambda said: said

    def pair(self, pair: Pair) -> Pair:
        pair.kafka.spoil = self._now
        return pair

    def _now(self, said: Any) -> Any:
        return self.spoil(said)


@pytest.fixture(scope="module")
def misread() -> _Spoiled:
    return _Spoiled()


@pytest.fixture(scope="module")
def bench(misread: _Spoiled, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    kafka = kafka_of(RELEASE)
    folder = tmp_path_factory.mktemp("conformance")
    bench = Bench(folder, lambda below: misread.pair(Pair(kafka, below, NEWEST)))
    yield bench
    bench.close()


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.timeout(600)
@pytest.mark.parametrize("what", SPOILT)
def test_what_is_misread_is_noticed(bench: Bench, misread: _Spoiled, what: str) -> None:
    bench.comparison()
    misread.spoil = SPOILT[what]
    try:
        done, found, _ = drawn(bench, SEED, OPERATIONS_MAX)
    finally:
        misread.spoil = lambda said: said
    assert found is not None
    assert len(done) < OPERATIONS_MAX


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.timeout(600)
def test_an_image_that_is_misread_is_noticed(bench: Bench) -> None:
    _, found, _ = drawn(bench, SEED, 100)
    assert found is None
    log = bench.pair.kafka.log
    at = max(index for index, each in enumerate(log) if isinstance(each.record, r.RegisterBrokerRecord))
    log[at] = log[at]._replace(record=replace(log[at].record, rack="z"))
    assert "z" in images.complaint(bench.pair)
