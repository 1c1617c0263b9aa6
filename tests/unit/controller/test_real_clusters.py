"""A controller behind the log of a real cluster, brokers and topics and all."""

from pathlib import Path

import pytest

from kraftd.controller.quorum_controller import QuorumController
from kraftd.metadata.image import EMPTY, to_records
from kraftd.metadata.image_builder import apply_all
from kraftd.metadata.parts.controllers import ControllerRegistration
from kraftd.records.batch import scan
from kraftd.records.committed import CommittedBatch
from tests.fixtures import clusters

FROM_BEFORE_FEATURES = "kafka-before-3.3-three-nodes"
"""Refused at start: its log has no metadata.version."""


def log_of(cluster: Path) -> Path:
    """The log of the first node."""
    return min(cluster.rglob("__cluster_metadata-0"))


WHOLE = [
    cluster
    for cluster in clusters()
    if cluster.name != FROM_BEFORE_FEATURES and (log_of(cluster) / f"{0:020}.log").exists()
]


@pytest.mark.parametrize("cluster", WHOLE, ids=lambda path: path.name)
def test_the_log_of_a_real_cluster_is_applied_and_can_be_made_anew_from_its_image(cluster):
    directory = log_of(cluster)
    controller = QuorumController(me=ControllerRegistration(9, bytes(16), False, (), ()), bootstrap=[])
    for segment in sorted(directory.glob("*.log")):
        for batch in scan(segment.read_bytes(), path=segment.name):
            controller.apply(
                CommittedBatch(batch.base_offset, batch.end_offset, batch.epoch, 0, batch.values())
            )
    image = controller.image
    records = list(to_records(image))
    assert records
    assert not image.is_partial
    again = apply_all(EMPTY, records, 0)
    assert again == image
    assert again.hash() == image.hash()
