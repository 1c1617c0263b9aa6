"""What the comparisons with a real Kafka share. All of them are slow: `make interop` and `make slices` run
them.
"""

from pathlib import Path

import pytest

from tests.interop.peer import RELEASE, Kafka, kafka_of

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == HERE:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def kafka() -> Kafka:
    """The release whose bytes we write."""
    return kafka_of(RELEASE)


@pytest.fixture(scope="session")
def older_kafka() -> Kafka:
    """The last release that knew every level of metadata.version since the first."""
    return kafka_of("3.9.1")
