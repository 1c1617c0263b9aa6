"""Both controllers side by side, for all tests of a module."""

from collections.abc import Iterator

import pytest

from tests.conformance_kafka.run import Bench
from tests.conformance_kafka.scenes import NEWEST
from tests.conformance_kafka.sides import Pair
from tests.interop.peer import RELEASE, kafka_of


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """They are started once, and brought back to their beginning; skips where there is no Kafka."""
    kafka = kafka_of(RELEASE)
    bench = Bench(tmp_path_factory.mktemp("conformance"), lambda folder: Pair(kafka, folder, NEWEST))
    yield bench
    bench.close()
