"""A cluster for each test, and what its nodes said when a test fails."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from cluster import Cluster

QUICK = {
    "controller.quorum.election.timeout.ms": "300",
    "controller.quorum.fetch.timeout.ms": "600",
    "controller.quorum.request.timeout.ms": "600",
}
"""Timeouts for tests about what happens, not about how long it takes."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.process)


@pytest.fixture
def start(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Callable[..., Cluster]]:
    """Start a cluster; it ends with the test."""
    clusters: list[Cluster] = []

    def make(size: int = 3, *, settings: dict[str, str] | None = None, **options: Any) -> Cluster:
        folder = tmp_path / f"cluster-{len(clusters)}"
        cluster = Cluster(folder, size, settings=QUICK | (settings or {}), **options)
        clusters.append(cluster)
        return cluster

    yield make
    for cluster in clusters:
        for node in cluster:
            print(f"--- node {node.node_id} said last:\n{node.last_lines(40)}")
        cluster.close()
