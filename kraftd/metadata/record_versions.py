"""Which kinds and versions of metadata records a cluster may write, by its `metadata.version`.

Every member of a cluster, and every older one that may still join it, reads all that the finalized level
allows; so nobody may write more. `newest_versions` is the table for one level, `encode_allowed` the door
that everything goes through that a controller writes.

Reading has no such limit: what a version of this program knows it reads at any level.

Follows: Kafka's MetadataVersion, with which `make interop` compares the table, and the places that ask it.
"""

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from kraftd.errors import InvariantError
from kraftd.metadata.feature_levels import (
    CORDONED_LOG_DIRS_SINCE,
    DELEGATION_TOKENS_SINCE,
    DIRECTORIES_SINCE,
    ELIGIBLE_LEADER_REPLICAS_SINCE,
    NO_OP_SINCE,
    REGISTER_CONTROLLER_SINCE,
    SCRAM_SINCE,
    TRANSACTIONS_SINCE,
    metadata_version_name,
)
from kraftd.records.frame import AnyRecord, RawRecord, encode_record, record_name
from kraftd.records.messages import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    Record,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
    ZkMigrationStateRecord,
)

_ALWAYS = 0
_FIRST = 1
_NEVER = ()
"""Others have replaced it: only old logs hold it."""

_REGISTRATION_CHANGES_SINCE = 6
_CONTROLLED_SHUTDOWN_SINCE = 7
_ZK_MIGRATION_SINCE = 8

SINCE: Final[Mapping[type[Record], tuple[int, ...]]] = {
    RegisterBrokerRecord: (
        _FIRST,
        _CONTROLLED_SHUTDOWN_SINCE,
        _ZK_MIGRATION_SINCE,
        DIRECTORIES_SINCE,
        CORDONED_LOG_DIRS_SINCE,
    ),
    UnregisterBrokerRecord: (_FIRST,),
    TopicRecord: (_FIRST,),
    PartitionRecord: (_FIRST, DIRECTORIES_SINCE, ELIGIBLE_LEADER_REPLICAS_SINCE),
    ConfigRecord: (_FIRST,),
    PartitionChangeRecord: (_FIRST, DIRECTORIES_SINCE, ELIGIBLE_LEADER_REPLICAS_SINCE),
    FenceBrokerRecord: _NEVER,
    UnfenceBrokerRecord: _NEVER,
    RemoveTopicRecord: (_FIRST,),
    DelegationTokenRecord: (DELEGATION_TOKENS_SINCE,),
    UserScramCredentialRecord: (SCRAM_SINCE,),
    FeatureLevelRecord: (_ALWAYS,),
    ClientQuotaRecord: (_FIRST,),
    ProducerIdsRecord: (_FIRST,),
    BrokerRegistrationChangeRecord: (
        _REGISTRATION_CHANGES_SINCE,
        _CONTROLLED_SHUTDOWN_SINCE,
        DIRECTORIES_SINCE,
        CORDONED_LOG_DIRS_SINCE,
    ),
    AccessControlEntryRecord: (_FIRST,),
    RemoveAccessControlEntryRecord: (_FIRST,),
    NoOpRecord: (NO_OP_SINCE,),
    ZkMigrationStateRecord: (_ZK_MIGRATION_SINCE,),
    RemoveUserScramCredentialRecord: (SCRAM_SINCE,),
    BeginTransactionRecord: (TRANSACTIONS_SINCE,),
    EndTransactionRecord: (TRANSACTIONS_SINCE,),
    AbortTransactionRecord: (TRANSACTIONS_SINCE,),
    RemoveDelegationTokenRecord: (DELEGATION_TOKENS_SINCE,),
    RegisterControllerRecord: (REGISTER_CONTROLLER_SINCE,),
    ClearElrRecord: (ELIGIBLE_LEADER_REPLICAS_SINCE,),
}
"""The level since which each version of a kind may be written, version 0 first."""


@lru_cache(maxsize=64)
def newest_versions(level: int) -> Mapping[type[Record], int]:
    """The newest version of each kind that may be written at a level; of other kinds none may be."""
    allowed = {
        kind: sum(since <= level for since in levels) - 1
        for kind, levels in SINCE.items()
        if levels and levels[0] <= level
    }
    return MappingProxyType(allowed)


def encode_allowed(record: AnyRecord, level: int) -> bytes:
    """A record as the value of a log record, in the newest version that a level allows.

    Raises:
        InvariantError: The level allows no such record: whoever decided on it did not ask.
        UnencodableError: The record says what that version cannot.
    """
    version = None if isinstance(record, RawRecord) else newest_versions(level).get(type(record))
    if version is None:
        name = record_name(record.api_key) if isinstance(record, RawRecord) else record.NAME
        raise InvariantError(f"no {name} may be written at metadata.version {metadata_version_name(level)}")
    return encode_record(record, version)
