"""Where snapshots are made is a function of the log, and who writes when needs no message."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftd.raft.snapshot_points import SHORTEST_TURN_MS, SnapshotPoint, SnapshotPoints, write_delay_ms
from kraftd.records.committed import CommittedBatch
from kraftd.types import OffsetAndEpoch

T0 = 1_700_000_000_000


def batch(base: int, *, size: int = 100, at: int = T0, epoch: int = 1) -> CommittedBatch:
    return CommittedBatch(base, base + 1, epoch, at, (), size)


def found(points: SnapshotPoints, batches: list[CommittedBatch]) -> list[SnapshotPoint]:
    return [points.take(each) for each in batches if points.is_due(each)]


@pytest.mark.covers("D-19", "SNAP-03")
def test_a_point_is_the_end_of_the_batch_at_which_the_bytes_are_reached() -> None:
    batches = [batch(offset, size=100, at=T0 + offset, epoch=1 + offset // 5) for offset in range(12)]
    assert found(SnapshotPoints(300, 0), batches) == [
        SnapshotPoint(OffsetAndEpoch(3, 1), T0 + 2),
        SnapshotPoint(OffsetAndEpoch(6, 2), T0 + 5),
        SnapshotPoint(OffsetAndEpoch(9, 2), T0 + 8),
        SnapshotPoint(OffsetAndEpoch(12, 3), T0 + 11),
    ]


@pytest.mark.covers("D-19")
def test_or_at_which_the_time_has_passed_by_the_timestamps_of_the_log() -> None:
    batches = [batch(offset, at=T0 + 400 * offset) for offset in range(9)]
    ids = [point.id.offset for point in found(SnapshotPoints(1 << 60, 1_000), batches)]
    assert ids == [4, 7]
    assert found(SnapshotPoints(1 << 60, 0), batches) == [], "0 is no interval"


@pytest.mark.covers("D-19")
def test_where_none_can_be_made_the_next_batch_is_due() -> None:
    points = SnapshotPoints(300, 0)
    due = [points.is_due(batch(offset)) for offset in range(5)]
    assert due == [False, False, True, True, True]
    assert points.take(batch(4)).id.offset == 5
    assert [points.is_due(batch(offset)) for offset in range(5, 8)] == [False, False, True]


@pytest.mark.covers("D-19")
@given(
    st.lists(st.tuples(st.integers(1, 500), st.integers(-50, 900)), max_size=60),
    st.integers(1, 2_000),
    st.integers(0, 3_000),
    st.integers(0, 20),
)
def test_a_node_that_starts_with_a_snapshot_goes_on_like_one_that_never_stopped(
    drawn: list[tuple[int, int]], bytes_max: int, interval_ms: int, which: int
) -> None:
    at, batches = T0, []
    for offset, (size, later) in enumerate(drawn):
        at += later
        batches.append(batch(offset, size=size, at=at))
    whole = found(SnapshotPoints(bytes_max, interval_ms), batches)
    if not whole:
        return
    newest = whole[which % len(whole)]
    again = found(SnapshotPoints(bytes_max, interval_ms, newest), batches)
    assert again == [point for point in whole if point.id.offset > newest.id.offset]


@pytest.mark.covers("D-19")
def test_voters_write_one_after_the_other_and_the_leader_last() -> None:
    delays = {node: write_delay_ms(node, (3, 1, 2), 4_000, is_leader=node == 1) for node in (1, 2, 3)}
    assert delays == {1: 12_000, 2: 4_000, 3: 8_000}
    assert write_delay_ms(1, (1, 2, 3), 4_000, is_leader=False) == 0
    assert write_delay_ms(9, (1, 2, 3), 4_000, is_leader=False) == 12_000, "an observer waits like a leader"
    assert write_delay_ms(2, (1, 2, 3), 3, is_leader=False) == SHORTEST_TURN_MS
