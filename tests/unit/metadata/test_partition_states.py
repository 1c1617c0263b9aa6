"""The states of a partition: which an image shows, and the whole table of moves."""

from itertools import product

import pytest

from kraftd.metadata.image import EMPTY
from kraftd.metadata.image_builder import apply_all
from kraftd.metadata.partition_states import MOVES, PartitionState, counts_in, is_legal, moves, state_in
from kraftd.records.messages import PartitionChangeRecord, PartitionRecord, RemoveTopicRecord, TopicRecord

A, B = b"a" * 16, b"b" * 16
NON_EXISTENT, NEW, ONLINE, OFFLINE = PartitionState

LEGAL = {
    (NON_EXISTENT, NEW),
    (NEW, ONLINE),
    (NEW, OFFLINE),
    (ONLINE, ONLINE),
    (ONLINE, OFFLINE),
    (OFFLINE, OFFLINE),
    (OFFLINE, ONLINE),
    (OFFLINE, NON_EXISTENT),
}
"""The valid previous states of PartitionStateMachine, turned around."""


@pytest.mark.parametrize(("before", "after"), list(product(PartitionState, repeat=2)))
def test_every_pair_of_states_is_a_legal_move_or_none(before: PartitionState, after: PartitionState) -> None:
    assert is_legal(before, after) == ((before, after) in LEGAL)


def test_every_state_has_moves() -> None:
    assert set(MOVES) == set(PartitionState)


@pytest.mark.parametrize(
    ("before", "after", "path"),
    [
        (NON_EXISTENT, ONLINE, (NEW, ONLINE)),
        (NON_EXISTENT, OFFLINE, (NEW, OFFLINE)),
        (ONLINE, NON_EXISTENT, (OFFLINE, NON_EXISTENT)),
        (OFFLINE, NON_EXISTENT, (NON_EXISTENT,)),
        (ONLINE, OFFLINE, (OFFLINE,)),
        (ONLINE, NEW, None),
        (OFFLINE, NEW, None),
        (NEW, NON_EXISTENT, None),
    ],
)
def test_what_one_record_does_is_one_move_or_two(
    before: PartitionState, after: PartitionState, path: tuple[PartitionState, ...] | None
) -> None:
    assert moves(before, after) == path


def test_the_image_shows_the_state() -> None:
    topic = TopicRecord("orders", A)
    first = PartitionRecord(0, A, replicas=(1, 2), isr=(1, 2), leader=1, directories=(A, A))
    empty = apply_all(EMPTY, [topic], 0)
    there = apply_all(empty, [first], 1)
    offline = apply_all(there, [PartitionChangeRecord(0, A, isr=(1,), leader=-1)], 2)
    gone = apply_all(offline, [RemoveTopicRecord(A)], 3)
    assert state_in(empty, A, 0) is NON_EXISTENT
    assert state_in(empty, A, 0, there) is NEW
    assert state_in(there, A, 0) is ONLINE
    assert state_in(there, A, 0, offline) is ONLINE, "what is committed counts"
    assert state_in(offline, A, 0) is OFFLINE
    assert state_in(gone, A, 0) is NON_EXISTENT
    assert state_in(there, A, 1) is NON_EXISTENT


def test_partitions_are_counted_by_state() -> None:
    topic, other = TopicRecord("orders", A), TopicRecord("other", B)
    led = PartitionRecord(0, A, replicas=(1, 2), isr=(1, 2), leader=1, directories=(A, A))
    lost = PartitionRecord(1, A, replicas=(1, 2), isr=(1,), leader=-1, directories=(A, A))
    born = PartitionRecord(0, B, replicas=(1, 2), isr=(1, 2), leader=1, directories=(A, A))
    committed = apply_all(EMPTY, [topic, led, lost], 0)
    newest = apply_all(committed, [other, born, RemoveTopicRecord(A)], 3)
    assert counts_in(committed) == {NEW: 0, ONLINE: 1, OFFLINE: 1}
    assert counts_in(committed, 1) == {NEW: 1, ONLINE: 1, OFFLINE: 1}
    assert counts_in(newest) == {NEW: 0, ONLINE: 1, OFFLINE: 0}
