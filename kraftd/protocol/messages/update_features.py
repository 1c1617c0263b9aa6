"""Raises or lowers the levels of features that the whole cluster runs at. Generated from
`proto/rpc/UpdateFeatures.json`.
"""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags


class UpdateFeaturesRequestFeatureUpdateKey(Struct, frozen=True, gc=False):
    """In `UpdateFeaturesRequest.feature_updates`. One entry a feature."""

    feature: str = ""
    """The feature. (string)"""
    max_version_level: int = 0
    """The level wanted; below 1, the feature shall be off. (int16)"""
    allow_downgrade: bool = False
    """Whether the level may be lowered, in version 0. (bool, only in version 0)"""
    upgrade_type: int = 1
    """1 raises only, 2 lowers without loss, 3 lowers with loss. (int8, since version 1)"""
    unknown_tags: UnknownTags = ()


class UpdateFeaturesRequest(Struct, frozen=True, gc=False):
    """Raises or lowers the levels of features that the whole cluster runs at. The levels wanted."""

    API_KEY: ClassVar[int] = 57
    NAME: ClassVar[str] = "UpdateFeaturesRequest"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2

    timeout_ms: int = 60000
    """How long the request may take. (int32)"""
    feature_updates: tuple[UpdateFeaturesRequestFeatureUpdateKey, ...] = ()
    """One entry a feature. ([]UpdateFeaturesRequestFeatureUpdateKey)"""
    validate_only: bool = False
    """Check everything, change nothing. (bool, since version 1)"""
    unknown_tags: UnknownTags = ()


class UpdateFeaturesResponseUpdatableFeatureResult(Struct, frozen=True, gc=False):
    """In `UpdateFeaturesResponse.results`. One entry a feature, up to version 1."""

    feature: str = ""
    """The feature. (string, versions 0 to 1)"""
    error_code: int = 0
    """0, or why this one was left as it was. (int16, versions 0 to 1)"""
    error_message: str | None = ""
    """What went wrong, for a person to read; null if nothing did. (string, versions 0 to 1)"""
    unknown_tags: UnknownTags = ()


class UpdateFeaturesResponse(Struct, frozen=True, gc=False):
    """Whether all of them are in force now."""

    API_KEY: ClassVar[int] = 57
    NAME: ClassVar[str] = "UpdateFeaturesResponse"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2

    throttle_time_ms: int = 0
    """How long the response was held back because of a quota. (int32)"""
    error_code: int = 0
    """0, or what went wrong with the request as a whole. (int16)"""
    error_message: str | None = ""
    """What went wrong, for a person to read; null if nothing did. (string)"""
    results: tuple[UpdateFeaturesResponseUpdatableFeatureResult, ...] = ()
    """One entry a feature, up to version 1. ([]UpdateFeaturesResponseUpdatableFeatureResult, versions 0
    to 1)
    """
    unknown_tags: UnknownTags = ()
