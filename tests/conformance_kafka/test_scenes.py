"""The scenes that take seconds only, each in its world. The others: `make conformance-kafka ARGS=--pairs`.

It needs Java and Maven, and takes a minute: `pytest tests/conformance_kafka/test_scenes.py -m slow`.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance_kafka import scenes
from tests.conformance_kafka.error_pairs import impossible
from tests.conformance_kafka.run import Bench, maker, played
from tests.conformance_kafka.scenes import WORLDS, World
from tests.interop.peer import RELEASE, kafka_of

QUICK = (
    scenes.of_what_the_cluster_is,
    scenes.what_is_configured,
    scenes.a_quota_that_is_used_up,
    scenes.what_is_too_new,
    scenes.what_is_off,
    scenes.a_stranger,
)
REACHED_MIN = 3
"""How many errors each meets at least."""


@pytest.fixture(params=[world for world in WORLDS if {*world.scenes} & {*QUICK}], ids=lambda each: each.name)
def world(request: pytest.FixtureRequest) -> World:
    kafka_of(RELEASE)
    found: World = request.param
    return found


@pytest.fixture
def bench(world: World, tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path, maker(world.level, world=world))
    yield bench
    bench.close()


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.timeout(600)
def test_kraftd_and_kafka_do_the_same_in_every_world(world: World, bench: Bench) -> None:
    for scene in world.scenes:
        if scene in QUICK:
            done, found, reach = played(bench, scene)
            assert found is None, f"{scene.__name__}, {len(done)} operations: {found}"
            assert len({pair for pair in reach.codes if pair[1]}) >= REACHED_MIN
            assert impossible(reach.codes) == []
