"""Which APIs a node speaks, and in which versions. Generated from `proto/rpc/ApiVersions.json`."""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags


class ApiVersionsRequest(Struct, frozen=True, gc=False):
    """Which APIs a node speaks, and in which versions. Asks a node what it speaks."""

    API_KEY: ClassVar[int] = 18
    NAME: ClassVar[str] = "ApiVersionsRequest"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 4

    client_software_name: str = ""
    """What the client is. (string, since version 3)"""
    client_software_version: str = ""
    """Which version of it. (string, since version 3)"""
    unknown_tags: UnknownTags = ()


class ApiVersionsResponseApiVersion(Struct, frozen=True, gc=False):
    """In `ApiVersionsResponse.api_keys`. Every API of the node."""

    api_key: int = 0
    """The API's number. (int16)"""
    min_version: int = 0
    """Lowest version spoken. (int16)"""
    max_version: int = 0
    """Highest version spoken. (int16)"""
    unknown_tags: UnknownTags = ()


class ApiVersionsResponseSupportedFeatureKey(Struct, frozen=True, gc=False):
    """In `ApiVersionsResponse.supported_features`. Levels of each feature that the node could run at."""

    name: str = ""
    """The feature. (string, since version 3)"""
    min_version: int = 0
    """Lowest level supported. (int16, since version 3)"""
    max_version: int = 0
    """Highest level supported. (int16, since version 3)"""
    unknown_tags: UnknownTags = ()


class ApiVersionsResponseFinalizedFeatureKey(Struct, frozen=True, gc=False):
    """In `ApiVersionsResponse.finalized_features`. Levels that the whole cluster runs at."""

    name: str = ""
    """The feature. (string, since version 3)"""
    max_version_level: int = 0
    """Highest level in force. (int16, since version 3)"""
    min_version_level: int = 0
    """Lowest level in force. (int16, since version 3)"""
    unknown_tags: UnknownTags = ()


class ApiVersionsResponse(Struct, frozen=True, gc=False):
    """What the node speaks."""

    API_KEY: ClassVar[int] = 18
    NAME: ClassVar[str] = "ApiVersionsResponse"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 4

    error_code: int = 0
    """0, or what went wrong with the request as a whole. (int16)"""
    api_keys: tuple[ApiVersionsResponseApiVersion, ...] = ()
    """Every API of the node. ([]ApiVersionsResponseApiVersion)"""
    throttle_time_ms: int = 0
    """How long the response was held back because of a quota. (int32, since version 1)"""
    supported_features: tuple[ApiVersionsResponseSupportedFeatureKey, ...] = ()
    """Levels of each feature that the node could run at. ([]ApiVersionsResponseSupportedFeatureKey, tag
    0, since version 3)
    """
    finalized_features_epoch: int = -1
    """Offset as of which the finalized levels hold; -1 if unknown. (int64, tag 1, since version 3)"""
    finalized_features: tuple[ApiVersionsResponseFinalizedFeatureKey, ...] = ()
    """Levels that the whole cluster runs at. ([]ApiVersionsResponseFinalizedFeatureKey, tag 2, since
    version 3)
    """
    zk_migration_ready: bool = False
    """Left over from ZooKeeper; always false. (bool, tag 3, since version 3)"""
    unknown_tags: UnknownTags = ()
