"""Which kinds and versions of metadata records a cluster may write, by its `metadata.version`.

Every node of a cluster, and every older one that may still join it, reads all that the finalized level
allows; so nobody may write more. Each part of the image declares the levels of its records; `newest_versions`
is the table for one level, `encode_allowed` the door that everything goes through that a controller writes.

Reading has no such limit: what a version of this program knows it reads at any level.

Follows: Kafka's MetadataVersion, with which `make interop` compares the table, and the places that ask it.
"""

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from kraftd.errors import InvariantError
from kraftd.metadata.feature_levels import NO_OP_SINCE, TRANSACTIONS_SINCE, metadata_version_name
from kraftd.metadata.registry import KINDS
from kraftd.records.frame import AnyRecord, RawRecord, encode_record, record_name
from kraftd.records.messages import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    EndTransactionRecord,
    NoOpRecord,
    Record,
)

SINCE: Final[Mapping[type[Record], tuple[int, ...]]] = {
    **{record: kind.levels for record, kind in KINDS.items()},
    NoOpRecord: (NO_OP_SINCE,),
    BeginTransactionRecord: (TRANSACTIONS_SINCE,),
    EndTransactionRecord: (TRANSACTIONS_SINCE,),
    AbortTransactionRecord: (TRANSACTIONS_SINCE,),
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

    A change of a broker's registration is in the oldest version that can say it, as Kafka writes it.

    Raises:
        InvariantError: The level allows no such record: whoever decided on it did not ask.
        UnencodableError: The record says what that version cannot.
    """
    version = None if isinstance(record, RawRecord) else newest_versions(level).get(type(record))
    if version is None:
        name = record_name(record.api_key) if isinstance(record, RawRecord) else record.NAME
        raise InvariantError(f"no {name} may be written at metadata.version {metadata_version_name(level)}")
    if type(record) is BrokerRegistrationChangeRecord:
        version = min(version, _version_that_says(record))
    return encode_record(record, version)


def _version_that_says(record: BrokerRegistrationChangeRecord) -> int:
    """One that says nothing at all tells of a broker that has lost its last log directory."""
    if record.cordoned_log_dirs is not None:
        return 3
    if record.log_dirs or not (record.fenced or record.in_controlled_shutdown):
        return 2
    return 1 if record.in_controlled_shutdown else 0
