"""Sets and removes quotas of users, clients and addresses. Generated from
`proto/rpc/AlterClientQuotas.json`.
"""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags


class AlterClientQuotasRequestEntityData(Struct, frozen=True, gc=False):
    """In `AlterClientQuotasRequestEntryData.entity`. What the entity is made of."""

    entity_type: str = ""
    """`user`, `client-id` or `ip`. (string)"""
    entity_name: str | None = ""
    """Its name; null for the default. (string)"""
    unknown_tags: UnknownTags = ()


class AlterClientQuotasRequestOpData(Struct, frozen=True, gc=False):
    """In `AlterClientQuotasRequestEntryData.ops`. The quotas to set or remove."""

    key: str = ""
    """Name of the quota. (string)"""
    value: float = 0.0
    """The value to set. (float64)"""
    remove: bool = False
    """Whether to remove it instead. (bool)"""
    unknown_tags: UnknownTags = ()


class AlterClientQuotasRequestEntryData(Struct, frozen=True, gc=False):
    """In `AlterClientQuotasRequest.entries`. One entry an entity."""

    entity: tuple[AlterClientQuotasRequestEntityData, ...] = ()
    """What the entity is made of. ([]AlterClientQuotasRequestEntityData)"""
    ops: tuple[AlterClientQuotasRequestOpData, ...] = ()
    """The quotas to set or remove. ([]AlterClientQuotasRequestOpData)"""
    unknown_tags: UnknownTags = ()


class AlterClientQuotasRequest(Struct, frozen=True, gc=False):
    """Sets and removes quotas of users, clients and addresses. The changes, by entity."""

    API_KEY: ClassVar[int] = 49
    NAME: ClassVar[str] = "AlterClientQuotasRequest"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1

    entries: tuple[AlterClientQuotasRequestEntryData, ...] = ()
    """One entry an entity. ([]AlterClientQuotasRequestEntryData)"""
    validate_only: bool = False
    """Check everything, change nothing. (bool)"""
    unknown_tags: UnknownTags = ()


class AlterClientQuotasResponseEntityData(Struct, frozen=True, gc=False):
    """In `AlterClientQuotasResponseEntryData.entity`. What the entity is made of."""

    entity_type: str = ""
    """`user`, `client-id` or `ip`. (string)"""
    entity_name: str | None = ""
    """Its name; null for the default. (string)"""
    unknown_tags: UnknownTags = ()


class AlterClientQuotasResponseEntryData(Struct, frozen=True, gc=False):
    """In `AlterClientQuotasResponse.entries`. One entry an entity."""

    error_code: int = 0
    """0, or why this one was left as it was. (int16)"""
    error_message: str | None = ""
    """What went wrong, for a person to read; null if nothing did. (string)"""
    entity: tuple[AlterClientQuotasResponseEntityData, ...] = ()
    """What the entity is made of. ([]AlterClientQuotasResponseEntityData)"""
    unknown_tags: UnknownTags = ()


class AlterClientQuotasResponse(Struct, frozen=True, gc=False):
    """The outcome for each entity."""

    API_KEY: ClassVar[int] = 49
    NAME: ClassVar[str] = "AlterClientQuotasResponse"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1

    throttle_time_ms: int = 0
    """How long the response was held back because of a quota. (int32)"""
    entries: tuple[AlterClientQuotasResponseEntryData, ...] = ()
    """One entry an entity. ([]AlterClientQuotasResponseEntryData)"""
    unknown_tags: UnknownTags = ()
