"""What holds for every test: golden files can be accepted, behaviours are cited by ids that exist, and
nothing is skipped silently in CI.

`--rewrite` (by `make rewrite`) lets a story write its golden trace instead of comparing with it. With `CI`
set, a test that is skipped because a tool or a fixture is missing fails: a skip that nobody reads is a test
that nobody has.

Hypothesis does not watch the clock here: on a machine with other work on it, that is a coin to toss.
"""

import os
import signal
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.conformance.catalogue import unknown_among

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Started in the background: what ignores an interrupt hands that down to every program it starts, and
    # here some of those are interrupted on purpose.
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("kraftd", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("kraftd")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="accept what was seen as the golden traces")
    parser.addoption(
        "--controllers",
        choices=("kraftd", "kafka"),
        default="kraftd",
        help="whose controllers the brokers of tests/brokers stand on",
    )
    parser.addoption(
        "--outage-s",
        type=float,
        default=15.0,
        help="how long tests/brokers/test_faults.py leaves the brokers without any controller",
    )
    parser.addoption(
        "--releases",
        default="4.1.1",
        help="whose brokers tests/brokers/test_releases.py runs, such as 3.9.1,4.0.2; or all",
    )


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be written, not compared."""
    return bool(request.config.getoption("--rewrite"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for marker in item.iter_markers("covers"):
            if unknown := unknown_among(marker.args):
                raise pytest.UsageError(f"{item.nodeid} covers what is no behaviour: {', '.join(unknown)}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    report = yield
    return _refuse_skip(report) if not hasattr(report, "wasxfail") else report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, Any]:
    report = yield
    return _refuse_skip(report)


def _refuse_skip(report: Any) -> Any:
    if os.environ.get("CI") and report.outcome == "skipped":
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        report.outcome = "failed"
        report.longrepr = f"{reason}\nIn CI nothing is skipped: install what is missing, or mend the test."
    return report
