"""What the comparisons with a real Kafka share. All of them are slow: `make interop` and `make slices` run
them.
"""

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.peer import RELEASE, Kafka, kafka_of

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == HERE:
            item.add_marker(pytest.mark.slow)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """Tests that are skipped for one reason are one line of the summary, with their number."""
    report = yield
    if item.path.parent == HERE and report.outcome == "skipped" and isinstance(report.longrepr, tuple):
        report.longrepr = (str(HERE / "peer.py"), None, report.longrepr[2])
    return report


@pytest.fixture(scope="session")
def kafka() -> Kafka:
    """The release whose bytes we write."""
    return kafka_of(RELEASE)


@pytest.fixture(scope="session")
def older_kafka() -> Kafka:
    """The last release that knew every level of metadata.version since the first."""
    return kafka_of("3.9.1")


@pytest.fixture(scope="session")
def kafka_3_5() -> Kafka:
    """The release that wrote `kafka-3.5-three-nodes-59-leaders`."""
    return kafka_of("3.5.2")
