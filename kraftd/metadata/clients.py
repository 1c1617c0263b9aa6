"""What the image keeps about clients: keys and canonical records of quotas, producer ids, ACLs and logins.

In a canonical quota the entity's parts are by type, the last of a type counts. Canonical producer ids name
the next id only, not the broker that asked for the block before it.

Follows: Kafka's ClientQuotasDelta, ProducerIdsDelta, AclsDelta, ScramDelta and DelegationTokenDelta.
Differs: a SCRAM credential that is not there cannot be removed; Kafka's controller refuses that too, its
image does not look.
"""

from typing import TypeAlias

import msgspec

from kraftd.metadata.entities import Entities
from kraftd.metadata.impossible import ImpossibleRecordError
from kraftd.records.messages import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    DelegationTokenRecord,
    ProducerIdsRecord,
    RemoveAccessControlEntryRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from kraftd.types import Offset, Uuid

QuotaEntity: TypeAlias = tuple[tuple[str, bool, str], ...]
"""Type of each part, whether it has a name (the default of the type has none), the name."""

QuotaKey: TypeAlias = tuple[QuotaEntity, str]
ScramKey: TypeAlias = tuple[int, str]
"""Mechanism and user."""

Quotas: TypeAlias = Entities[QuotaKey, ClientQuotaRecord]
ProducerIds: TypeAlias = Entities[int, ProducerIdsRecord]
Acls: TypeAlias = Entities[Uuid, AccessControlEntryRecord]
Scram: TypeAlias = Entities[ScramKey, UserScramCredentialRecord]
Tokens: TypeAlias = Entities[str, DelegationTokenRecord]

THE_ONLY = 0
"""The key of what there is one of."""

_NO_BROKER = -1


def with_quota(quotas: Quotas, record: ClientQuotaRecord) -> Quotas:
    """The quotas after one was set or removed; removing one that is not there does nothing."""
    last = {part.entity_type: part for part in record.entity}
    parts = tuple(last[entity_type] for entity_type in sorted(last))
    entity = tuple((part.entity_type, part.entity_name is not None, part.entity_name or "") for part in parts)
    key = (entity, record.key)
    return (
        quotas.remove(key)
        if record.remove
        else quotas.put(key, msgspec.structs.replace(record, entity=parts))
    )


def with_producer_ids(producer_ids: ProducerIds, record: ProducerIdsRecord) -> ProducerIds:
    """The next producer id after a block was handed out."""
    kept = msgspec.structs.replace(record, broker_id=_NO_BROKER, broker_epoch=_NO_BROKER)
    return producer_ids.put(THE_ONLY, kept)


def without_acl(acls: Acls, record: RemoveAccessControlEntryRecord, offset: Offset) -> Acls:
    """The ACLs after one was removed.

    Raises:
        ImpossibleRecordError: It is not there.
    """
    if acls.get(record.id) is None:
        raise ImpossibleRecordError(offset, f"there is no ACL with the id {record.id.hex()}")
    return acls.remove(record.id)


def with_scram(scram: Scram, record: UserScramCredentialRecord) -> Scram:
    """The credentials after one was set."""
    return scram.put((record.mechanism, record.name), record)


def without_scram(scram: Scram, record: RemoveUserScramCredentialRecord, offset: Offset) -> Scram:
    """The credentials after one was removed.

    Raises:
        ImpossibleRecordError: It is not there.
    """
    key = (record.mechanism, record.name)
    if scram.get(key) is None:
        which = f"of mechanism {record.mechanism} for user {record.name}"
        raise ImpossibleRecordError(offset, f"there is no SCRAM credential {which}")
    return scram.remove(key)
