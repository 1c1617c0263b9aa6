"""The judge of snapshots sees what it is there for."""

from types import SimpleNamespace
from typing import Any

import pytest

from kraftd.audit.invariants import Violation
from kraftd.storage.snapshots import SnapshotInfo
from kraftd.types import OffsetAndEpoch
from tests.sim.ledger import Ledger
from tests.sim.snapshots import SnapshotJudge


def node(start_offset: int, *offsets: int, end_offset: int = 99, wounds: Any = ()) -> Any:
    infos = tuple(SnapshotInfo(OffsetAndEpoch(offset, 1), 10, 5) for offset in offsets)
    directory = SimpleNamespace(
        log=SimpleNamespace(start_offset=start_offset, end_offset=end_offset),
        snapshots=SimpleNamespace(infos=infos),
    )
    world = SimpleNamespace(
        fault_budget=SimpleNamespace(wounds=wounds), statistics={"starts from a snapshot": 0}
    )
    return SimpleNamespace(id=1, directory=directory, world=world)


@pytest.mark.covers("SIMX-12")
@pytest.mark.parametrize(
    ("start_offset", "offsets", "is_covered"),
    [(0, (), True), (40, (40,), True), (40, (30, 50), True), (40, (30,), False), (40, (), False)],
)
def test_a_log_stands_on_a_snapshot_or_begins_at_0(
    start_offset: int, offsets: tuple[int, ...], is_covered: bool
) -> None:
    judge, judged = SnapshotJudge(Ledger()), node(start_offset, *offsets)
    if is_covered:
        judge.on_start(judged)
    else:
        with pytest.raises(Violation, match="StartIsCovered: node 1 begins at 40"):
            judge.on_start(judged)


@pytest.mark.covers("D-23")
def test_a_start_applies_nothing_that_a_snapshot_stands_for() -> None:
    judge = SnapshotJudge(Ledger())
    judge.on_applied_first(node(0, 40, 120), 40)
    judge.on_applied_first(node(0), 3)
    judge.on_applied_first(node(0, 40, wounds=(1,)), 3)
    with pytest.raises(Violation, match="RestartIsBounded: node 1 applies up to 39, and has 40"):
        judge.on_applied_first(node(0, 40), 39)
