"""Plans: what they spread, and how little they copy."""

from collections import Counter
from collections.abc import Mapping
from random import Random

import pytest

from kraftd.cli.reassignment_file import Assignment
from kraftd.cli.reassignment_plan import spread

NO_RACKS: Mapping[int, str | None] = dict.fromkeys((1, 2, 3))
TWO_RACKS = {1: "a", 2: "a", 3: "b", 4: "b"}


def partitions(*replicas: tuple[int, ...]) -> Assignment:
    return {("t", number): each for number, each in enumerate(replicas)}


def after(present: Assignment, planned: Assignment) -> Assignment:
    return {**present, **planned}


def copied(present: Assignment, planned: Assignment) -> int:
    """How many replicas are copied."""
    return sum(len({*planned[key]} - {*present[key]}) for key in planned)


def test_what_is_spread_already_stays() -> None:
    assert spread(partitions((1, 2), (2, 3), (3, 1)), NO_RACKS) == {}


def test_a_new_broker_gets_its_share_and_nothing_else_is_copied() -> None:
    present = partitions((1, 2), (2, 1), (1, 2), (2, 1), (1, 2), (2, 1))
    planned = spread(present, NO_RACKS)
    there = after(present, planned)
    assert Counter(one for each in there.values() for one in each) == {1: 4, 2: 4, 3: 4}
    assert Counter(each[0] for each in there.values()) == {1: 2, 2: 2, 3: 2}
    assert copied(present, planned) == 4


def test_a_broker_that_goes_is_replaced_and_nothing_else_is_copied() -> None:
    present = partitions((1, 2), (2, 9), (9, 1), (1, 2))
    planned = spread(present, NO_RACKS)
    assert copied(present, planned) == 2
    assert all(9 not in each for each in after(present, planned).values())


def test_each_rack_has_a_replica_before_one_has_two() -> None:
    present = partitions((1, 2), (2, 1), (3, 4), (4, 3))
    planned = spread(present, TWO_RACKS)
    for each in after(present, planned).values():
        assert {TWO_RACKS[one] for one in each} == {"a", "b"}
    assert copied(present, planned) == 4


def test_racks_go_before_equal_shares() -> None:
    """Rack b has one broker: it holds a replica of each partition, or else two would be in rack a."""
    planned = spread(partitions((1, 2), (2, 1), (1, 2)), {1: "a", 2: "a", 3: "b"})
    assert all(3 in each for each in planned.values())


def test_brokers_without_a_rack_are_a_rack() -> None:
    planned = spread(partitions((1, 2)), {1: None, 2: None, 3: "b"})
    assert {*planned["t", 0]} >= {3}


def test_a_factor_adds_to_unused_racks_and_takes_from_those_used_twice() -> None:
    grown = spread(partitions((1, 3)), {**TWO_RACKS, 5: "c"}, factor=3)
    assert [*grown.values()] == [(1, 3, 5)]
    shrunk = spread(partitions((1, 2, 3)), TWO_RACKS, factor=2)
    assert [*shrunk.values()] == [(1, 3)]


def test_who_leads_is_shared_without_copying() -> None:
    present = partitions((1, 2, 3), (1, 2, 3), (1, 3, 2))
    planned = spread(present, NO_RACKS)
    assert Counter(each[0] for each in after(present, planned).values()) == {1: 1, 2: 1, 3: 1}
    assert copied(present, planned) == 0


def test_leaders_are_shared_by_way_of_others() -> None:
    """1 and 3 have no partition in common."""
    present = partitions((1, 2), (1, 2), (1, 2), (2, 3), (2, 3), (3, 2))
    racks = {1: "a", 2: "b", 3: "a"}
    leads = Counter(each[0] for each in after(present, spread(present, racks)).values())
    assert max(leads.values()) - min(leads.values()) <= 1


@pytest.mark.parametrize("seed", range(60))
def test_whatever_there_is_the_plan_is_spread_and_a_second_one_has_nothing_to_do(seed: int) -> None:
    random = Random(seed)
    ids = range(1, random.randint(3, 9))
    racks = {one: random.choice((None, "a", "b", "c")) if seed % 3 else None for one in ids}
    everybody = [*ids, 50, 51]
    most = min(4, len(racks))
    present = partitions(
        *(tuple(random.sample(everybody, random.randint(1, most))) for _ in range(random.randint(1, 30)))
    )
    factor = random.choice((None, random.randint(1, most)))
    planned = spread(present, racks, factor)
    there = after(present, planned)
    for key, replicas in there.items():
        assert {*replicas} <= {*racks}
        assert len({*replicas}) == len(replicas) == (factor or len(present[key]))
        assert len({racks[one] for one in replicas}) == min(len(replicas), len({*racks.values()}))
    assert all(planned[key] != present[key] for key in planned)
    assert spread(there, racks, factor) == {}
    if seed % 3 == 0:
        loads = Counter(dict.fromkeys(ids, 0))
        loads.update(one for each in there.values() for one in each)
        assert max(loads.values()) - min(loads.values()) <= 1, "without racks all hold as many"


def test_ten_thousand_partitions_are_planned_in_a_moment() -> None:
    present = partitions(*(((1, 2, 3),) * 10_000))
    planned = spread(present, {one: "abc"[one % 3] for one in range(1, 7)})
    leads = Counter(each[0] for each in after(present, planned).values())
    assert max(leads.values()) - min(leads.values()) <= 1
