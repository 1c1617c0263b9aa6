"""Kafka's names of the numbers in records, as its own tools print them."""

from collections.abc import Mapping
from typing import Final

from kraftd.metadata.config_schema import ResourceType

CONFIG_RESOURCES: Final[Mapping[int, str]] = {
    ResourceType.TOPIC: "topic",
    ResourceType.BROKER: "broker",
    ResourceType.BROKER_LOGGER: "broker-logger",
    ResourceType.CLIENT_METRICS: "client-metrics",
    ResourceType.GROUP: "group",
}

ACL_RESOURCES: Final = {
    1: "any",
    2: "topic",
    3: "group",
    4: "cluster",
    5: "transactional id",
    6: "delegation token",
    7: "user",
}
ACL_OPERATIONS: Final = {
    1: "ANY",
    2: "ALL",
    3: "READ",
    4: "WRITE",
    5: "CREATE",
    6: "DELETE",
    7: "ALTER",
    8: "DESCRIBE",
    9: "CLUSTER_ACTION",
    10: "DESCRIBE_CONFIGS",
    11: "ALTER_CONFIGS",
    12: "IDEMPOTENT_WRITE",
    13: "CREATE_TOKENS",
    14: "DESCRIBE_TOKENS",
    15: "TWO_PHASE_COMMIT",
}
ACL_PERMISSIONS: Final = {1: "ANY", 2: "DENY", 3: "ALLOW"}
PREFIXED: Final = 4
"""The pattern type of an ACL that speaks of all names that begin so."""

SCRAM_MECHANISMS: Final = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
ZK_MIGRATION_STATES: Final = {
    0: "none",
    1: "pre-migration",
    2: "migration",
    3: "post-migration",
}


def name_of(names: Mapping[int, str], number: int) -> str:
    """The name of a number; the number itself where it has none."""
    return names.get(number, str(number))
