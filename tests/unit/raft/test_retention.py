"""Where a log is to begin: by size and by age, and never past what is needed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftd.raft.retention import KeptSnapshot, LeasedSnapshots, Retention, choose_start
from kraftd.types import OffsetAndEpoch

NOW = 1_000_000
FREELY = 10**9
SEGMENTS = [(0, 100), (50, 100), (120, 100), (200, 100)]


def snapshot(offset: int, age_ms: int = 0, size_bytes: int = 10) -> KeptSnapshot:
    return KeptSnapshot(OffsetAndEpoch(offset, 1), size_bytes, NOW - age_ms)


FOUR = [snapshot(40, 4_000), snapshot(110, 3_000), snapshot(150, 2_000), snapshot(210, 1_000)]


def chosen(size_bytes: int, age_ms: int, **kwargs: object) -> int | None:
    wanted: dict = {"snapshots": FOUR, "safe_offset": FREELY, "leased": LeasedSnapshots()} | kwargs
    snapshots = wanted.pop("snapshots")
    found = choose_start(snapshots, SEGMENTS, Retention(size_bytes, age_ms), NOW, **wanted)
    return None if found is None else found.offset


@pytest.mark.covers("CLN-03")
@pytest.mark.parametrize(
    ("size_bytes", "start"),
    [(440, None), (439, 110), (330, 110), (329, 150), (220, 150), (219, 210), (110, 210), (0, 210)],
)
def test_while_all_is_too_large_the_oldest_goes_and_the_segments_before_the_next(
    size_bytes: int, start: int | None
) -> None:
    assert chosen(size_bytes, -1) == start


@pytest.mark.covers("CLN-04")
@pytest.mark.parametrize(
    ("age_ms", "start"), [(4_000, None), (3_999, 110), (2_500, 150), (1_500, 210), (0, 210)]
)
def test_a_snapshot_that_is_too_old_goes(age_ms: int, start: int | None) -> None:
    assert chosen(-1, age_ms) == start


def test_there_may_be_no_bound() -> None:
    assert chosen(-1, -1) is None


@pytest.mark.covers("CLN-02", "CLN-09")
@pytest.mark.parametrize("snapshots", [[], [snapshot(110, 4_000)]])
def test_the_last_snapshot_stays_and_so_does_the_log(snapshots: list[KeptSnapshot]) -> None:
    assert chosen(0, 0, snapshots=snapshots) is None


@pytest.mark.covers("CLN-05", "D-22")
def test_what_is_not_applied_and_flushed_here_is_not_cut() -> None:
    assert chosen(0, 0, safe_offset=210) == 210
    assert chosen(0, 0, safe_offset=209) == 150
    assert chosen(0, 0, safe_offset=100) is None


def leased_by(voters: set[int] = frozenset(), observers: set[int] = frozenset()) -> LeasedSnapshots:
    return LeasedSnapshots(
        frozenset(OffsetAndEpoch(each, 1) for each in voters),
        frozenset(OffsetAndEpoch(each, 1) for each in observers),
    )


@pytest.mark.covers("D-22", "D-24")
def test_what_is_downloaded_stays_and_the_log_behind_it() -> None:
    assert chosen(0, 0, leased=leased_by(voters={150})) == 150
    assert chosen(0, 0, leased=leased_by(voters={210, 110})) == 110
    assert chosen(0, 0, leased=leased_by(voters={40})) is None


@pytest.mark.covers("D-22", "D-24")
@pytest.mark.parametrize(
    ("size_bytes", "start"),
    [(0, 210), (109, 210), (110, 150), (219, 150), (220, 110), (329, 110), (330, None), (-1, None)],
)
def test_observers_hold_no_more_than_one_retention_beyond_what_stays_anyway(
    size_bytes: int, start: int | None
) -> None:
    """All four snapshots are too old, and observers download each. Each stands for 110 bytes, its segment's
    too; the last one stays anyway.
    """
    assert chosen(size_bytes, 0, leased=leased_by(observers={40, 110, 150, 210})) == start


@pytest.mark.covers("D-22", "D-24")
def test_a_voters_download_stays_whatever_observers_hold() -> None:
    assert chosen(0, 0, leased=leased_by(voters={110}, observers={40})) == 110
    assert chosen(0, 0, leased=leased_by(voters={110}, observers={150})) == 110


@given(
    gaps=st.lists(st.integers(1, 60), max_size=6),
    sizes=st.lists(st.integers(0, 200), min_size=1, max_size=6),
    bounds=st.tuples(st.integers(-1, 1_500), st.integers(-1, 5_000)),
    safe=st.integers(0, 400),
    leased=st.sets(st.integers(0, 400), max_size=2),
    observed=st.sets(st.integers(0, 400), max_size=2),
)
def test_whatever_is_chosen_is_a_snapshot_that_may_be_cut_at_and_enough_is_cut(
    gaps: list[int],
    sizes: list[int],
    bounds: tuple[int, int],
    safe: int,
    leased: set[int],
    observed: set[int],
) -> None:
    snapshots = [snapshot(sum(gaps[: n + 1]), 5_000 - 700 * n) for n in range(len(gaps))]
    segments = [(40 * n, size) for n, size in enumerate(sizes)]
    retention = Retention(*bounds)
    offsets = [each.id.offset for each in snapshots]

    def choose(observers: set[int]) -> int:
        """How many snapshots go; they do for a reason, and none that is needed here or by a voter."""
        start = choose_start(
            snapshots, segments, retention, NOW, safe_offset=safe, leased=leased_by(leased, observers)
        )
        assert start is None or start.offset in offsets[1:]
        assert start is None or start.offset <= min([safe, *leased])
        return 0 if start is None else offsets.index(start.offset)

    def left_of(gone: int) -> int:
        from_offset = offsets[gone] if gone else 0
        ends = [base for base, _ in segments[1:]] + [10**6]
        left = sum(size for end, (_, size) in zip(ends, segments, strict=True) if end > from_offset)
        return left + sum(each.size_bytes for each in snapshots[gone:])

    gone, goes_anyway = choose(observed), choose(set())
    assert gone <= goes_anyway
    assert not 0 <= retention.size_bytes < left_of(gone) - left_of(goes_anyway)
    if goes_anyway + 1 < len(snapshots) and offsets[goes_anyway + 1] <= min([safe, *leased]):
        assert not 0 <= retention.size_bytes < left_of(goes_anyway)
        oldest = snapshots[goes_anyway]
        assert not 0 <= retention.age_ms < NOW - oldest.last_contained_timestamp_ms
