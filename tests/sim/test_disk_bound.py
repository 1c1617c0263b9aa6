"""The judge of bounded disks sees one that is not cleaned, and knows what has to stay."""

from typing import Any

import pytest

from kraftd.audit.invariants import Violation
from kraftd.raft import LeasedSnapshots, choose_start
from kraftd.raft.snapshots import Snapshots
from kraftd.runtime import log_cleaner
from kraftd.runtime.log_cleaner import LogCleaner
from kraftd.types import OffsetAndEpoch
from tests.sim.disk_bound import HELD, JUDGED
from tests.sim.world import Options, World

SHAPE = (
    ("voters", 3),
    ("observers", 0),
    ("segment_bytes", 2_000),
    ("snapshot_bytes", 2_000),
    ("snapshot_interval_ms", 0),
    ("events_max", 1 << 30),
)


def world_of(**changes: int) -> World:
    return World(4, Options(faults=False, judged=False, changes=(*SHAPE, *changes.items()), events=5_000))


@pytest.mark.covers("CLN-02", "CLN-03")
@pytest.mark.parametrize("changes", [{"retention_bytes": 5_000}, {"retention_ms": 1_000}], ids=str)
def test_what_need_not_stay_goes(changes: dict[str, int]) -> None:
    world = world_of(**{"retention_bytes": -1, "retention_ms": -1, **changes})
    world.run()
    assert world.statistics[JUDGED] > 3


@pytest.mark.parametrize("changes", [{"retention_bytes": 5_000}, {"retention_ms": 1_000}], ids=str)
def test_a_cleaner_that_leaves_all_is_seen(changes: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LogCleaner, "_choose", lambda *_: None)
    world = world_of(**{"retention_bytes": -1, "retention_ms": -1, **changes})
    with pytest.raises(Violation, match=r"DiskIsBounded: node . keeps"):
        world.run()


def test_a_cleaner_that_does_not_look_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LogCleaner, "snapshot_written", lambda *_: None)
    with pytest.raises(Violation, match=r"DiskIsBounded: node . has not looked"):
        world_of().run()


@pytest.fixture
def oldest_is_downloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Observers download the oldest snapshot of each node, whichever that is, for ever."""

    def leased(self: Snapshots, now_ms: int) -> LeasedSnapshots:
        del now_ms
        return LeasedSnapshots(observers=frozenset(self.raft.log.snapshots[:1]))

    monkeypatch.setattr(Snapshots, "leased", leased)


RETAINED = {"retention_bytes": 5_000, "retention_ms": -1}


@pytest.mark.covers("D-24")
@pytest.mark.usefixtures("oldest_is_downloaded")
def test_what_observers_download_stays_for_a_while_only() -> None:
    world = world_of(**RETAINED)
    world.run()
    assert world.statistics[HELD] > 3


@pytest.mark.usefixtures("oldest_is_downloaded")
def test_observers_that_hold_more_than_one_retention_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def choose(*args: Any, leased: LeasedSnapshots, **options: Any) -> OffsetAndEpoch | None:
        return choose_start(*args, leased=LeasedSnapshots(voters=leased.observers), **options)

    monkeypatch.setattr(log_cleaner, "choose_start", choose)
    with pytest.raises(
        Violation, match=r"DiskIsBounded: .* would have to stay if observers downloaded nothing"
    ):
        world_of(**RETAINED).run()


@pytest.mark.usefixtures("oldest_is_downloaded")
def test_a_cut_behind_what_observers_may_hold_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def choose(*args: Any, leased: LeasedSnapshots, **options: Any) -> OffsetAndEpoch | None:
        del leased
        return choose_start(*args, leased=LeasedSnapshots(), **options)

    monkeypatch.setattr(log_cleaner, "choose_start", choose)
    with pytest.raises(Violation, match=r"NothingNeededIsCleaned: .* observers download what ends at"):
        world_of(**RETAINED).run()


def test_a_disk_without_bounds_may_grow() -> None:
    world = world_of(retention_bytes=-1, retention_ms=-1)
    world.run()
    assert world.statistics[JUDGED] > 3
