"""The features a cluster can agree on, and what each level of `metadata.version` is called and brings.

Follows: Kafka 4.3.1's feature levels, and what its formatter writes into a new `bootstrap.checkpoint`.
Not here: which level a cluster is at, which the image knows.
"""

from collections.abc import Mapping

import msgspec

from kraftd.records.messages import FeatureLevelRecord

METADATA_VERSION = "metadata.version"
ELIGIBLE_LEADER_REPLICAS = "eligible.leader.replicas.version"
KRAFT_VERSION = "kraft.version"
"""Not set by a FeatureLevelRecord: it lives in the control records of the quorum."""


class SupportedFeature(msgspec.Struct, frozen=True):
    """The levels of a feature that this program can run at; 0 is "off"."""

    name: str
    min_level: int
    max_level: int


SUPPORTED = (
    SupportedFeature(ELIGIBLE_LEADER_REPLICAS, 0, 1),
    SupportedFeature("group.version", 0, 1),
    SupportedFeature(KRAFT_VERSION, 0, 1),
    SupportedFeature(METADATA_VERSION, 7, 30),
    SupportedFeature("share.version", 0, 1),
    SupportedFeature("streams.version", 0, 1),
    SupportedFeature("transaction.version", 0, 2),
)

_OTHER_FEATURES = sorted(f.name for f in SUPPORTED if f.name not in (METADATA_VERSION, KRAFT_VERSION))

NEW_CLUSTER_LEVELS: Mapping[str, int] = {
    name: next(f.max_level for f in SUPPORTED if f.name == name)
    for name in (METADATA_VERSION, *_OTHER_FEATURES)
}
"""The levels that a newly formatted cluster starts with: the newest ones, in Kafka's order."""

LEVELS_WITH_NEW_METADATA = (7, 8, 11, 13, 14, 15, 17, 23, 30)
"""The levels of `metadata.version` that brought records, or fields of records, of their own."""

SCRAM_SINCE = 11
"""The first `metadata.version` with records of SCRAM credentials."""

NO_EPOCH_RISE_ON_SHRINK_SINCE = 12
"""The first `metadata.version` in which an ISR can shrink without a new leader epoch."""

TRANSACTIONS_SINCE = 13
"""The first `metadata.version` with Begin, End and AbortTransaction records."""

DELEGATION_TOKENS_SINCE = 14
"""The first `metadata.version` with records of delegation tokens."""

REGISTER_CONTROLLER_SINCE = 15
"""The first `metadata.version` with RegisterController records."""

DIRECTORIES_SINCE = 17
"""The first `metadata.version` in which replicas and brokers name their log directories."""

ELIGIBLE_LEADER_REPLICAS_SINCE = 23
"""The first `metadata.version` with eligible leader replicas."""

REQUIRED_METADATA_VERSION: Mapping[str, int] = {ELIGIBLE_LEADER_REPLICAS: ELIGIBLE_LEADER_REPLICAS_SINCE}
"""The `metadata.version` without which a feature cannot be on (KIP-1022)."""

CORDONED_LOG_DIRS_SINCE = 30
"""The first `metadata.version` in which a broker's log directories can be cordoned."""

REGISTRATION_CHANGES_SINCE = 6
"""The first `metadata.version` in which a change of a broker's registration is one record."""

CONTROLLED_SHUTDOWN_SINCE = 7
"""The first `metadata.version` in which a registration says that a broker is shutting down."""

ZK_MIGRATION_SINCE = 8
"""The first `metadata.version` with the state of a migration from ZooKeeper."""

NO_OP_SINCE = 5
"""The first `metadata.version` with NoOp records."""

_NAMES = {
    1: "3.0-IV1",
    2: "3.1-IV0",
    3: "3.2-IV0",
    4: "3.3-IV0",
    5: "3.3-IV1",
    6: "3.3-IV2",
    7: "3.3-IV3",
    8: "3.4-IV0",
    9: "3.5-IV0",
    10: "3.5-IV1",
    11: "3.5-IV2",
    12: "3.6-IV0",
    13: "3.6-IV1",
    14: "3.6-IV2",
    15: "3.7-IV0",
    16: "3.7-IV1",
    17: "3.7-IV2",
    18: "3.7-IV3",
    19: "3.7-IV4",
    20: "3.8-IV0",
    21: "3.9-IV0",
    22: "4.0-IV0",
    23: "4.0-IV1",
    24: "4.0-IV2",
    25: "4.0-IV3",
    26: "4.1-IV0",
    27: "4.1-IV1",
    28: "4.2-IV0",
    29: "4.2-IV1",
    30: "4.3-IV0",
    31: "4.4-IV0",
}


def is_supported(name: str, level: int) -> bool:
    """Whether this program can run in a cluster that has this feature at this level. Off is always fine."""
    return level == 0 or any(f.name == name and f.min_level <= level <= f.max_level for f in SUPPORTED)


def bootstrap_records() -> tuple[FeatureLevelRecord, ...]:
    """The records of `NEW_CLUSTER_LEVELS`: what a newly formatted cluster starts with."""
    return tuple(
        FeatureLevelRecord(name=name, feature_level=level) for name, level in NEW_CLUSTER_LEVELS.items()
    )


def metadata_version_name(level: int) -> str:
    """Kafka's name of a level, as `4.3-IV0`; the number itself for a level nobody has named yet."""
    return _NAMES.get(level, str(level))
