"""The first records of a new cluster, against what a real Kafka 4.3 wrote from the same bootstrap."""

import pytest

from kraftd.controller.activation import activation_records, registration_of
from kraftd.controller.context import ControllerSettings
from kraftd.metadata.image import EMPTY
from kraftd.records.batch import scan
from kraftd.records.frame import decode_record, encode_record
from kraftd.types import Endpoint
from tests.fixtures import klogs

CLUSTERS = ["generated-kafka-4.3-dynamic-voters", "generated-kafka-4.3-eligible-leader-replicas"]


def data_batches(path):
    return [batch for batch in scan(path.read_bytes(), path=path.name) if not batch.is_control]


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_a_new_cluster_begins_with_the_very_bytes_of_kafka(cluster):
    node = klogs() / cluster / "node-1"
    bootstrap = [
        decode_record(value)
        for batch in data_batches(node / "bootstrap.checkpoint")
        for value in batch.values()
    ]
    first = data_batches(node / "__cluster_metadata-0" / f"{0:020}.log")[0]
    me = registration_of(1, bytes(16), [Endpoint("h", 1)])
    *ours, _registration = map(encode_record, activation_records(EMPTY, bootstrap, me, ControllerSettings()))
    assert ours == first.values()
