"""The parts of the image: kinds of entities, each with all that is known of it here (`kraftd.metadata.part`).

A new kind of entity is a module here, and a line in `PARTS`. The order of that list is the order in which
differences are told.
"""

from typing import Any, Final

from kraftd.metadata.part import Part
from kraftd.metadata.parts.acls import ACLS
from kraftd.metadata.parts.brokers import BROKERS
from kraftd.metadata.parts.client_quotas import CLIENT_QUOTAS
from kraftd.metadata.parts.configs import CONFIGS
from kraftd.metadata.parts.controllers import CONTROLLERS
from kraftd.metadata.parts.delegation_tokens import DELEGATION_TOKENS
from kraftd.metadata.parts.features import FEATURES
from kraftd.metadata.parts.producer_ids import PRODUCER_IDS
from kraftd.metadata.parts.scram import SCRAM
from kraftd.metadata.parts.topics import TOPICS
from kraftd.metadata.parts.zk_migration import ZK_MIGRATION

PARTS: Final[tuple[Part[Any, Any], ...]] = (
    FEATURES,
    BROKERS,
    CONTROLLERS,
    TOPICS,
    CONFIGS,
    CLIENT_QUOTAS,
    PRODUCER_IDS,
    ACLS,
    SCRAM,
    DELEGATION_TOKENS,
    ZK_MIGRATION,
)
