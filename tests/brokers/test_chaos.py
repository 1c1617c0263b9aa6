"""Half a minute in which controllers and brokers are hurt at random, and a run of it that is interrupted.

On controllers and brokers of its own; the first file of `make brokers`, so that no others run beside them.
"""

import signal
from pathlib import Path

import pytest

from tests.chaos.broker_load import GROUPS
from tests.chaos.brokers import BROKER_FAULTS
from tests.chaos.interruption import interrupt
from tests.chaos.run import chaos
from tests.interop.peer import Kafka


@pytest.fixture(autouse=True)
def is_on_kraftd(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--controllers") == "kafka":
        pytest.skip("Kafka's controllers have no proxies between them")


@pytest.mark.timeout(1_200)
def test_nothing_acknowledged_is_lost_and_everybody_comes_back(
    kafka: Kafka, capsys: pytest.CaptureFixture[str]
) -> None:
    report, folder = chaos(30, seed=1, kafka=kafka, brokers=3)
    with capsys.disabled():
        print(f"\n{report}\n{folder or ''}")
    assert report.problems == []
    assert folder is None
    assert set(report.faults) & set(BROKER_FAULTS)
    assert report.brokers is not None
    assert report.brokers.acknowledged == report.brokers.sent > 1000
    assert set(report.brokers.taken) == set(GROUPS)
    assert set(report.brokers.admin) >= {"create", "alter"}


def test_an_interrupted_run_leaves_no_broker_behind(kafka: Kafka, tmp_path: Path) -> None:
    interrupt(signal.SIGINT, tmp_path, "--brokers", "1", "--only", "broker kill", after="SIGKILL broker")
