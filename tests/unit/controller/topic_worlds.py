"""Clusters to make topics in, for tests."""

from typing import Any

from kraftd.metadata.image import EMPTY, MetadataImage
from kraftd.metadata.image_builder import apply_all
from kraftd.records.messages import FeatureLevelRecord, RegisterBrokerRecord

LEVEL = 30
ELR = FeatureLevelRecord("eligible.leader.replicas.version", 1)


def directory(number: int) -> bytes:
    """The id of a log directory."""
    return bytes([200, *[number] * 15])


def broker(broker_id: int, **other: Any) -> RegisterBrokerRecord:
    """An active broker with one log directory of its number."""
    plain = {"fenced": False, "rack": None, "log_dirs": (directory(broker_id),), "broker_epoch": broker_id}
    return RegisterBrokerRecord(broker_id=broker_id, **(plain | other))


def cluster(*records: Any, level: int = LEVEL) -> MetadataImage:
    """An image of these records."""
    return apply_all(EMPTY, [FeatureLevelRecord("metadata.version", level), *records], 0)


THREE = (broker(1), broker(2), broker(3))
