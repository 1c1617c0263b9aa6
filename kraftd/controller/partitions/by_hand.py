"""Whether brokers that somebody chose can hold a partition.

Asked of new partitions (CreateTopics, CreatePartitions) and of those that are moved.

Follows: validateManualPartitionAssignment of Kafka's ReplicationControlManager.
"""

from collections.abc import Sequence

from kraftd.controller.refused import RefusedError
from kraftd.errors import ErrorCode
from kraftd.metadata.image import MetadataImage
from kraftd.metadata.parts.brokers import BROKERS
from kraftd.types import NodeId


def check_by_hand(image: MetadataImage, replicas: Sequence[NodeId], factor: int | None = None) -> None:
    """Refuse replicas that cannot be, by INVALID_REPLICA_ASSIGNMENT. They may be fenced or shutting down.

    Raises:
        RefusedError: They are none, not on registered brokers, one twice, or not as many as `factor`.
    """
    if not replicas:
        raise bad_assignment("A partition has no replicas.")
    brokers = image[BROKERS]
    before = None
    for broker_id in sorted(replicas):
        if brokers.get(broker_id) is None:
            raise bad_assignment(f"Broker {broker_id} is not registered.")
        if broker_id == before:
            raise bad_assignment(f"Broker {broker_id} has more than one replica of a partition.")
        before = broker_id
    if factor is not None and len(replicas) != factor:
        raise bad_assignment(
            f"A partition has {len(replicas)} replica(s), and those before it have {factor}."
        )


def bad_assignment(text: str) -> RefusedError:
    """Why replicas that somebody chose cannot be."""
    return RefusedError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
