"""A controller tells the active one that it is there, at each start. Generated from
`proto/rpc/ControllerRegistration.json`.
"""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags
from kraftd.types import ZERO_UUID, Uuid


class ControllerRegistrationRequestListener(Struct, frozen=True, gc=False):
    """In `ControllerRegistrationRequest.listeners`. Where it listens."""

    name: str = ""
    """Name of the listener. (string)"""
    host: str = ""
    """Host name or address. (string)"""
    port: int = 0
    """TCP port. (uint16)"""
    security_protocol: int = 0
    """0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL. (int16)"""
    unknown_tags: UnknownTags = ()


class ControllerRegistrationRequestFeature(Struct, frozen=True, gc=False):
    """In `ControllerRegistrationRequest.features`. The features that it knows, with the levels that it
    could run at.
    """

    name: str = ""
    """The feature. (string)"""
    min_supported_version: int = 0
    """Lowest level supported. (int16)"""
    max_supported_version: int = 0
    """Highest level supported. (int16)"""
    unknown_tags: UnknownTags = ()


class ControllerRegistrationRequest(Struct, frozen=True, gc=False):
    """A controller tells the active one that it is there, at each start. What the controller is and what
    it can do.
    """

    API_KEY: ClassVar[int] = 70
    NAME: ClassVar[str] = "ControllerRegistrationRequest"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    controller_id: int = 0
    """Which controller this is. (int32)"""
    incarnation_id: Uuid = ZERO_UUID
    """This start of the process, at random. (uuid)"""
    zk_migration_ready: bool = False
    """Left over from ZooKeeper; always false. (bool)"""
    listeners: tuple[ControllerRegistrationRequestListener, ...] = ()
    """Where it listens. ([]ControllerRegistrationRequestListener)"""
    features: tuple[ControllerRegistrationRequestFeature, ...] = ()
    """The features that it knows, with the levels that it could run at.
    ([]ControllerRegistrationRequestFeature)
    """
    unknown_tags: UnknownTags = ()


class ControllerRegistrationResponse(Struct, frozen=True, gc=False):
    """Whether it was registered."""

    API_KEY: ClassVar[int] = 70
    NAME: ClassVar[str] = "ControllerRegistrationResponse"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    throttle_time_ms: int = 0
    """How long the response was held back because of a quota. (int32)"""
    error_code: int = 0
    """0, or what went wrong with the request as a whole. (int16)"""
    error_message: str | None = ""
    """What went wrong, for a person to read; null if nothing did. (string)"""
    unknown_tags: UnknownTags = ()
