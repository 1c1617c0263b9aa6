"""Forty clusters with brokers: nothing is broken or lost, brokers go and come, leaders go inside plans."""

import os

import pytest

from tests.sim.broker_replicas import CUT
from tests.sim.brokers import GOES_AND_COMES
from tests.sim.fault_brokers import BROKER_FAULTS
from tests.sim.mover import ARRIVED
from tests.sim.node import INSIDE_A_PLAN
from tests.sim.run import explain, run_many
from tests.sim.world import BROKERS

FIRST = 10_001
SEEDS = 40
COUNTING = 0.5
WANTED = {GOES_AND_COMES: 0.5, INSIDE_A_PLAN: 0.25}
"""In how many of the seeds that count."""


@pytest.mark.slow
@pytest.mark.timeout(1_500)
def test_clusters_with_brokers() -> None:
    table = run_many(iter(range(FIRST, FIRST + SEEDS)), BROKERS, os.cpu_count() or 1)
    if table.failed is not None:
        why = explain(table.failed.seed, BROKERS, budget_s=60)
        pytest.fail(f"{why}\nseed {table.failed.seed} with brokers", pytrace=False)
    print(table)
    assert table.seeds == SEEDS
    assert table.counting >= COUNTING * SEEDS
    for what, part in WANTED.items():
        assert table.seen[what] >= part * table.counting, what
    assert table.statistics[ARRIVED] >= SEEDS
    for what in (CUT, *(f"denied {error}" for error in (29, 31))):  # not authorized
        assert table.statistics[what] >= SEEDS / 10, what
    fired = {name.removeprefix("fault: ") for name in table.statistics if name.startswith("fault: ")}
    assert fired >= {fault.name for fault in BROKER_FAULTS}
