"""250 clusters: no promise is broken, enough goes wrong, and each branch is reached or excused."""

import os

import pytest

from tests.sim.branches import excused, unreached
from tests.sim.faults import FAULTS
from tests.sim.node import MANY_RECORDS, WHILE_FLUSHING, WITH_UNFLUSHED_END
from tests.sim.run import explain, run_many
from tests.sim.world import Options

COVERED = range(1, 137)
"""These are run under `coverage`, which takes three times as long."""
SEEDS = 114
FIRST = COVERED.stop
COUNTING = 0.7
"""Half of the clusters have five or seven voters, and some end as soon as they begin: both write less."""
WANTED = {WITH_UNFLUSHED_END: 0.1, MANY_RECORDS: 0.5, WHILE_FLUSHING: 0.5}
"""In how many seeds a slow disk meets an election, and load a flush."""


@pytest.mark.slow
@pytest.mark.timeout(1_500)
def test_the_other_seeds() -> None:
    table = run_many(iter(range(FIRST, FIRST + SEEDS)), Options(), os.cpu_count() or 1)
    if table.failed is not None:
        why = explain(table.failed.seed, Options(), budget_s=60)
        pytest.fail(f"{why}\nseed {table.failed.seed}", pytrace=False)
    print(table)
    assert table.seeds == SEEDS
    assert table.counting >= COUNTING * SEEDS
    fired = {name.removeprefix("fault: ") for name in table.statistics if name.startswith("fault: ")}
    assert len(fired) >= 40
    for what, part in WANTED.items():
        assert table.seen[what] >= part * SEEDS, what
    assert fired <= {fault.name for fault in FAULTS}


@pytest.mark.slow
@pytest.mark.timeout(1_500)
def test_the_first_seeds_reach_every_branch_or_it_is_excused() -> None:
    excuses = excused()
    missed = [branch for branch in unreached(COVERED, os.cpu_count() or 1) if branch.name not in excuses]
    assert not missed, "\n".join(map(str, missed))
