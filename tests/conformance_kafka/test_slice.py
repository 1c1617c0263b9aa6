"""1,500 operations of three seeds on kraftd's controller and on Kafka's: a slice of `make conformance-kafka`.

It needs Java and Maven, and takes a minute or two: `pytest tests/conformance_kafka/test_slice.py -m slow`.
"""

from pathlib import Path

import pytest

from tests.conformance_kafka.comparing import Reach
from tests.conformance_kafka.error_pairs import listed, missing, pairs_of, reachable
from tests.conformance_kafka.run import REFUSED_MIN, Bench, drawn
from tests.conformance_kafka.scenes import NEWEST
from tests.conformance_kafka.twins import Twins
from tests.interop.peer import RELEASE, kafka_of

SEEDS = (3, 7, 8)
OPERATIONS = 500
PAIRS_MIN = 60
"""How many pairs of an API and an error code these seeds reach at least."""

pytestmark = [pytest.mark.slow, pytest.mark.process, pytest.mark.timeout(600)]


def test_kraftd_and_kafka_do_the_same(bench: Bench) -> None:
    reach = Reach()
    for seed in SEEDS:
        _, found, reached = drawn(bench, seed, OPERATIONS)
        assert found is None, f"make conformance-kafka SEED={seed} OPS={OPERATIONS}: {found}"
        reach.take(reached)
    assert reach.operations == len(SEEDS) * OPERATIONS
    assert reach.refused >= REFUSED_MIN * reach.operations
    assert reach.images >= len(SEEDS)
    assert len(reachable()) - len(missing(reach.codes)) >= PAIRS_MIN


def test_the_list_of_errors_is_that_of_kafkas_byte_code() -> None:
    assert pairs_of(kafka_of(RELEASE)) == listed()


def test_a_controller_that_takes_over_goes_on_as_if_nothing_had_been(tmp_path: Path) -> None:
    bench = Bench(tmp_path, lambda folder: Twins(folder, NEWEST, None, failover_every=25))
    try:
        _, found, reach = drawn(bench, 1, 101, has_sessions=False)
    finally:
        bench.close()
    assert found is None, found
    assert reach.operations == 101
