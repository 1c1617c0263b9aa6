"""What is seen of a node while it runs: one that oversleeps, and one whose decision raised."""

import pytest

from kraftd.controller.configs import configuration_control
from kraftd.runtime.driver import Driver
from kraftd.types import Now
from tests.firing import fires
from tests.sim.fault_base import S
from tests.sim.world import World


@pytest.mark.covers("D-01")
def test_a_node_that_oversleeps_is_seen(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    arm = Driver._arm

    def arm_late(driver: Driver, now: Now) -> None:
        arm(driver, now)
        if driver._timer is not None:
            driver._timer.cancel()
            driver._timer = driver._loop.call_later(30.0, driver._timer_fired)

    world.run_for(5 * S)
    monkeypatch.setattr(Driver, "_arm", arm_late)
    with fires("NobodyOversleeps", r"\d wants a turn at \d+ ms, and sleeps until \d+ ms"):
        world.run_for(20 * S)


@pytest.mark.covers("D-14")
def test_a_decision_that_raises_is_seen(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise KeyError("no such thing")

    monkeypatch.setattr(configuration_control, "_written", broken)
    with fires("NoDecisionRaises", r"node \d: .*KeyError: 'no such thing'"):
        world.run_for(10 * S)
