"""Which brokers the replicas of new partitions go to."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftd.controller.context import Leaving
from kraftd.controller.refused import RefusedError
from kraftd.controller.topics.java_random import JavaRandom
from kraftd.controller.topics.placement import StripedReplicaPlacer, UsableBroker, usable_brokers
from kraftd.errors import ErrorCode
from tests.unit.controller.topic_worlds import broker, cluster, directory

RACKS = st.sampled_from([None, "a", "b", "c"])


@st.composite
def brokers(draw):
    """Some brokers, at least one of them unfenced."""
    racks = draw(st.lists(st.tuples(RACKS, st.booleans()), min_size=1, max_size=12))
    found = [UsableBroker(number, rack, is_fenced) for number, (rack, is_fenced) in enumerate(racks)]
    return (
        found
        if any(not each.is_fenced for each in found)
        else [*found, UsableBroker(99, None, is_fenced=False)]
    )


def test_numbers_are_those_that_java_draws():
    random = JavaRandom(42)
    assert [random.below(10) for _ in range(8)] == [0, 3, 8, 4, 0, 5, 5, 8]
    assert [random.below(8) for _ in range(4)] == [5, 0, 7, 3]
    items = [1, 2, 3, 4, 5, 6]
    random.shuffle(items)
    assert items == [4, 6, 5, 2, 3, 1]


def test_numbers_that_would_be_uneven_are_drawn_again_as_in_java():
    random = JavaRandom(-7)
    drawn = [random.below((1 << 30) + 1) for _ in range(6)]
    assert drawn == [577934662, 314447087, 677675436, 184135245, 425474944, 988357177]


@given(st.data())
def test_no_broker_has_a_partition_twice_and_none_that_is_fenced_is_first(data):
    usable = data.draw(brokers())
    fenced = {each.id for each in usable if each.is_fenced}
    placer = StripedReplicaPlacer(JavaRandom(data.draw(st.integers())), usable)
    replicas = data.draw(st.integers(1, len(usable)))
    placer.check(replicas)
    for _ in range(40):
        placed = placer.place(replicas)
        assert len(set(placed)) == len(placed) == replicas
        assert set(placed) <= {each.id for each in usable}
        assert placed[0] not in fenced


@given(st.integers(), st.integers(1, 6), st.integers(1, 3))
def test_no_rack_has_a_second_replica_before_each_has_one(seed, replicas, brokers_a_rack):
    usable = [
        UsableBroker(10 * rack + one, "abc"[rack], is_fenced=False)
        for rack in range(3)
        for one in range(brokers_a_rack)
    ]
    placer = StripedReplicaPlacer(JavaRandom(seed), usable)
    for _ in range(20):
        placed = placer.place(min(replicas, len(usable)))
        by_rack = Counter(broker_id // 10 for broker_id in placed)
        assert max(by_rack.values()) - min(by_rack[rack] for rack in range(3)) <= 1


def test_leaders_are_spread_over_all_brokers():
    usable = [UsableBroker(number, None, is_fenced=False) for number in range(5)]
    placer = StripedReplicaPlacer(JavaRandom(1), usable)
    leaders = Counter(placer.place(3)[0] for _ in range(1000))
    assert set(leaders) == set(range(5))
    assert max(leaders.values()) - min(leaders.values()) < 60


def test_fenced_brokers_come_last():
    usable = [UsableBroker(number, None, is_fenced=number > 2) for number in range(5)]
    placer = StripedReplicaPlacer(JavaRandom(3), usable)
    for _ in range(30):
        assert set(placer.place(3)) == {0, 1, 2}
        assert set(placer.place(4)) > {0, 1, 2}


@pytest.mark.parametrize(
    ("usable", "replicas", "why"),
    [
        ([], 1, "none is registered"),
        ([UsableBroker(1, None, is_fenced=True)], 1, "fenced"),
        ([UsableBroker(1, None, is_fenced=False)], 2, "2 needs as many brokers, and 1 can"),
        ([UsableBroker(1, None, is_fenced=False)], 0, "at least 1"),
        ([UsableBroker(1, None, is_fenced=False)], -3, "at least 1"),
    ],
)
def test_what_cannot_be_had_is_refused(usable, replicas, why):
    with pytest.raises(RefusedError, match=why) as refused:
        StripedReplicaPlacer(JavaRandom(1), usable).check(replicas)
    assert refused.value.code is ErrorCode.INVALID_REPLICATION_FACTOR


def test_who_is_shutting_down_or_has_nowhere_to_put_a_replica_gets_none():
    two = (directory(1), directory(2))
    image = cluster(
        broker(1, in_controlled_shutdown=True),
        broker(2, in_controlled_shutdown=True, fenced=True),
        broker(3, log_dirs=two, cordoned_log_dirs=two),
        broker(4, log_dirs=two, cordoned_log_dirs=two[:1]),
        broker(5, log_dirs=two, cordoned_log_dirs=()),
        broker(6, log_dirs=()),
        broker(7, fenced=True, rack="r"),
    )
    assert [each.id for each in usable_brokers(image, Leaving())] == [2, 4, 5, 6, 7]
    assert usable_brokers(image, Leaving())[-1] == UsableBroker(7, "r", is_fenced=True)


def test_a_directory_that_its_broker_is_losing_takes_no_replica():
    two = (directory(1), directory(2))
    image = cluster(
        broker(3, log_dirs=two, cordoned_log_dirs=two[:1]),
        broker(4, log_dirs=two, cordoned_log_dirs=two[:1]),
        broker(5, log_dirs=two, cordoned_log_dirs=()),
    )
    losing = {4: frozenset(two[1:]), 5: frozenset(two[1:])}
    assert [each.id for each in usable_brokers(image, Leaving(directories=losing))] == [3, 5]
