"""Five hundred clusters on all cores: no promise is broken, and enough goes wrong in enough of them."""

import os

import pytest

from tests.sim.faults import FAULTS
from tests.sim.node import MANY_RECORDS, WHILE_FLUSHING, WITH_UNFLUSHED_TAIL
from tests.sim.run import explain, run_many
from tests.sim.world import Options

SEEDS = 500
FIRST = 1
COUNTING = 0.7
"""Half of the clusters have five or seven voters, and some end as soon as they begin: both write less."""
WANTED = {WITH_UNFLUSHED_TAIL: 0.1, MANY_RECORDS: 0.5, WHILE_FLUSHING: 0.5}
"""In how many seeds a slow disk meets an election, and load a flush."""


@pytest.mark.slow
@pytest.mark.timeout(1_500)
def test_five_hundred_seeds() -> None:
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
