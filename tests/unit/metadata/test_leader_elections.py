"""Elections of partition leaders, counted by kind and reason where records change partitions."""

from typing import Any

import pytest

from kraftd.metadata.image import EMPTY, MetadataImage, to_records
from kraftd.metadata.image_builder import apply_all
from kraftd.metadata.parts.topics import TOPICS
from kraftd.records.messages import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    PartitionChangeRecord,
    PartitionRecord,
    TopicRecord,
)

A = b"a" * 16


def world(**what: Any) -> MetadataImage:
    """A topic with a partition that brokers 1, 2 and 3 hold, led by the first."""
    known: dict[str, Any] = {"replicas": (1, 2, 3), "isr": (1, 2, 3), "leader": 1} | what
    directories = tuple(bytes([one]) * 16 for one in known["replicas"])
    return apply_all(
        EMPTY, [TopicRecord("orders", A), PartitionRecord(0, A, directories=directories, **known)], 0
    )


def change(**what: Any) -> PartitionChangeRecord:
    return PartitionChangeRecord(partition_id=0, topic_id=A, **what)


def counts_after(before: MetadataImage, *changes: PartitionChangeRecord) -> dict[tuple[str, str], int]:
    return dict(apply_all(before, changes, 10)[TOPICS].leader_elections)


@pytest.mark.parametrize(
    ("before", "changed", "election"),
    [
        ({}, {"isr": (2, 3), "leader": 2}, ("in_sync", "leader_left")),
        ({"isr": (1,)}, {"leader": -1}, ("none", "leader_left")),
        ({"isr": (1,)}, {"isr": (), "leader": -1, "eligible_leader_replicas": (1,)}, ("none", "leader_left")),
        ({"isr": (1,), "leader": -1}, {"leader": 1}, ("in_sync", "no_leader")),
        ({"leader": 3}, {"leader": 1}, ("in_sync", "preferred")),
        ({"leader": 3}, {"leader": 2}, ("in_sync", "other")),
        (
            {"isr": (), "leader": -1, "eligible_leader_replicas": (3,)},
            {"isr": (3,), "leader": 3, "eligible_leader_replicas": ()},
            ("eligible", "no_leader"),
        ),
        (
            {"isr": (1,), "eligible_leader_replicas": (2,)},
            {"isr": (2,), "leader": 2, "eligible_leader_replicas": ()},
            ("eligible", "leader_left"),
        ),
        (
            {"isr": (1,), "leader": -1},
            {"isr": (3,), "leader": 3, "leader_recovery_state": 1},
            ("unclean", "no_leader"),
        ),
        (
            {"removing_replicas": (1,)},
            {"replicas": (2, 3), "isr": (2, 3), "leader": 2, "removing_replicas": (), "directories": (A, A)},
            ("in_sync", "reassigned"),
        ),
    ],
)
def test_an_election_is_counted_by_kind_and_reason(
    before: dict[str, Any], changed: dict[str, Any], election: tuple[str, str]
) -> None:
    assert counts_after(world(**before), change(**changed)) == {election: 1}


@pytest.mark.parametrize(
    "changed",
    [
        {"isr": (1, 2)},
        {"leader": 1},
        {"isr": (1,), "eligible_leader_replicas": (2,)},
        {"leader_recovery_state": 0},
    ],
)
def test_a_change_without_another_leader_is_no_election(changed: dict[str, Any]) -> None:
    assert counts_after(world(), change(**changed)) == {}


def test_elections_add_up_and_are_no_part_of_the_state() -> None:
    moved = apply_all(
        world(), [change(isr=(2, 3), leader=2), change(isr=(3,), leader=3), change(isr=(3, 1))], 10
    )
    assert dict(moved[TOPICS].leader_elections) == {("in_sync", "leader_left"): 2}
    loaded = apply_all(EMPTY, to_records(moved), 0)
    assert dict(loaded[TOPICS].leader_elections) == {}
    assert (loaded[TOPICS], loaded.hash()) == (moved[TOPICS], moved.hash())


def test_what_a_transaction_took_back_is_not_counted() -> None:
    image = apply_all(
        world(), [BeginTransactionRecord("x"), change(isr=(2, 3), leader=2), AbortTransactionRecord("no")], 10
    )
    assert dict(image[TOPICS].leader_elections) == {}
