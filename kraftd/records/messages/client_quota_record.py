"""One quota of one kind of client. Generated from `proto/records/ClientQuotaRecord.json`."""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags


class ClientQuotaRecordEntityData(Struct, frozen=True, gc=False):
    """In `ClientQuotaRecord.entity`. Whom it is for: all of these together."""

    entity_type: str = ""
    """`user`, `client-id` or `ip`. (string)"""
    entity_name: str | None = ""
    """Its name; null is everyone without a quota of their own. (string)"""
    unknown_tags: UnknownTags = ()


class ClientQuotaRecord(Struct, frozen=True, gc=False):
    """One quota of one kind of client."""

    API_KEY: ClassVar[int] = 14
    NAME: ClassVar[str] = "ClientQuotaRecord"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    entity: tuple[ClientQuotaRecordEntityData, ...] = ()
    """Whom it is for: all of these together. ([]ClientQuotaRecordEntityData)"""
    key: str = ""
    """Which quota, such as `producer_byte_rate`. (string)"""
    value: float = 0.0
    """The limit from here on; without meaning when it is removed. (float64)"""
    remove: bool = False
    """Whether the quota is taken away. (bool)"""
    unknown_tags: UnknownTags = ()
