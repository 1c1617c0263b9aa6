"""What the log refuses is as if it had never been decided, in every image that is made later.

Kafka's controller keeps what is decided and not committed in timeline structures. To take it back raised as a
leader renounced (KAFKA-14035), and to remove a topic raised while partitions of another had no leader, since
the wrong count was looked up (KAFKA-14170). Both ended the controller.
"""

import pytest

from kraftd.controller.cluster_summary import summary_of
from kraftd.errors import ErrorCode
from kraftd.metadata.image import EMPTY
from kraftd.metadata.image_builder import apply_all
from kraftd.protocol.messages import (
    CreatePartitionsRequest,
    CreatePartitionsRequestCreatePartitionsTopic,
    CreateTopicsRequest,
    CreateTopicsRequestCreatableTopic,
    DeleteTopicsRequest,
    DeleteTopicsRequestDeleteTopicState,
)
from tests.unit.controller.broker_world import BrokerWorld


def creation(name):
    topic = CreateTopicsRequestCreatableTopic(name, num_partitions=2, replication_factor=2)
    return CreateTopicsRequest(topics=(topic,))


def growth(name):
    topic = CreatePartitionsRequestCreatePartitionsTopic(name, count=4)
    return CreatePartitionsRequest(topics=(topic,), timeout_ms=60_000)


def deletion(name):
    topic = DeleteTopicsRequestDeleteTopicState(name=name)
    return DeleteTopicsRequest(topics=(topic,), timeout_ms=60_000)


LIVES = {
    "created": [creation("new")],
    "created-and-grown": [creation("new"), growth("new")],
    "created-and-deleted": [creation("new"), deletion("new")],
    "grown-and-deleted": [growth("old"), deletion("old")],
    "deleted": [deletion("old")],
    "deleted-and-created-anew": [deletion("old"), creation("old")],
    "deleted-created-and-deleted": [deletion("old"), creation("old"), deletion("old")],
}


@pytest.fixture
def world():
    """Two brokers that are up, a topic of theirs, and one of broker 4 alone, which is fenced."""
    made = BrokerWorld()
    made.up(4, 5, 6)
    made.topic(9, (4,), (4,))
    assert made.beat(4, want_fence=True).is_fenced
    assert made.ask(creation("old"), version=7).topics[0].error_code == ErrorCode.NONE
    assert summary_of(made.image).offline_partitions == 2
    return made


def is_the_fold_of_its_log(world):
    return world.image == apply_all(EMPTY, world.log, 0)


@pytest.mark.parametrize("life", LIVES.values(), ids=LIVES)
@pytest.mark.parametrize("is_refused_at_once", [True, False])
def test_what_the_log_refuses_leaves_nothing_behind(world, life, is_refused_at_once):
    """Topics come and go in writes that are refused; after that the same is decided, and committed."""
    before, at = world.image, len(world.log)
    for request in life:
        world.send(request, version=6)
        if is_refused_at_once:
            world.refuse()
            assert world.controller._active.uncommitted.image == before
    world.refuse()
    assert world.controller._active.uncommitted.image == before
    assert (world.image, len(world.log)) == (before, at)
    for request in life:
        world.ask(request, version=6)
        assert is_the_fold_of_its_log(world)
    assert world.controller.in_flight == 0
    assert world.controller.error_count == 0


@pytest.mark.parametrize("life", LIVES.values(), ids=LIVES)
def test_what_a_lost_leadership_takes_with_it_leaves_nothing_behind(world, life):
    """The leader renounces with all of it on the way, leads again, and does the same."""
    before = world.image
    for request in life:
        world.send(request, version=6)
    world.controller.leader_changed(world.epoch, -1, is_self=False)
    world.refuse(ErrorCode.NOT_CONTROLLER)
    assert world.image == before
    world.lead(world.epoch + 1)
    for request in life:
        world.ask(request, version=6)
        assert is_the_fold_of_its_log(world)
    assert world.controller.error_count == 0
