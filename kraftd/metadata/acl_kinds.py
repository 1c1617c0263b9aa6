"""What an access control entry is about: Kafka's numbers of resources, patterns, operations and permissions.

A number that nothing here knows is UNKNOWN, as in Kafka: an entry of a newer release keeps it, and a request
with it is refused.

Not here: the words for people (`kafka_names`), and what an entry allows (`kraftd.controller.authorizer`).
"""

from enum import IntEnum
from typing import Final

WILDCARD: Final = "*"
"""Any name, as that of a literal pattern; any host."""

ANY_USER: Final = "User:*"
"""Whoever it is, whatever kind of principal."""

CLUSTER_NAME: Final = "kafka-cluster"
"""The only resource of type CLUSTER."""


class _Kind(IntEnum):
    """Numbers of which any other one is UNKNOWN."""

    @classmethod
    def _missing_(cls, value: object) -> "_Kind | None":
        return cls(0) if isinstance(value, int) and value != 0 else None


class AclResource(_Kind):
    """What something is done to. ANY is for filters."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class AclPattern(_Kind):
    """How a resource is named: as it is, or by what its name begins with. ANY and MATCH are for filters."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    """Whatever is about a resource of this name: its own entries, those of `*`, and of prefixes of it."""
    LITERAL = 3
    PREFIXED = 4


class AclOperation(_Kind):
    """What somebody may be allowed to do. ANY is for filters, ALL is every one of them."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclPermission(_Kind):
    """Whether it is allowed. ANY is for filters."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3
