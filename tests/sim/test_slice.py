"""Five hundred clusters on all cores: no promise is broken, and enough goes wrong in enough of them."""

import os

import pytest

from tests.sim.faults import FAULTS
from tests.sim.run import explain, run_many
from tests.sim.world import Options

SEEDS = 500
FIRST = 1


@pytest.mark.slow
@pytest.mark.timeout(1_500)
def test_five_hundred_seeds() -> None:
    table = run_many(iter(range(FIRST, FIRST + SEEDS)), Options(), os.cpu_count() or 1)
    if table.failed is not None:
        why = explain(table.failed.seed, Options(), budget_s=60)
        pytest.fail(f"{why}\nseed {table.failed.seed}", pytrace=False)
    print(table)
    assert table.seeds == SEEDS
    assert table.counting >= 0.8 * SEEDS
    fired = {name.removeprefix("fault: ") for name in table.statistics if name.startswith("fault: ")}
    assert len(fired) >= 40
    assert fired <= {fault.name for fault in FAULTS}
