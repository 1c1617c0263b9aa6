"""Fixtures of the simulator's tests."""

from collections.abc import Iterator

import pytest

from kraftd.types import NodeId
from tests.sim.broker_story import Story
from tests.sim.fault_base import S
from tests.sim.world import Options, World

SHAPE = (("voters", 3), ("observers", 0), ("clients", 2), ("resign_part", 0.0), ("latency_us", (100, 2_000)))


@pytest.fixture
def world() -> Iterator[World]:
    """Three voters at work, to which nothing happens."""
    world = World(7, Options(faults=False, changes=SHAPE))
    for node in world.nodes.values():
        node.start()
    for client in world.clients:
        client.start()
    assert world.run_until(lambda: world.acknowledged >= 3, 30 * S)
    yield world
    world.close()


@pytest.fixture
def story() -> Iterator[Story]:
    story = Story()
    yield story
    story.world.close()


@pytest.fixture
def ids(story: Story) -> tuple[NodeId, ...]:
    return tuple(broker.id for broker in story.brokers)
