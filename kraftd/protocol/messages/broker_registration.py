"""A broker tells the active controller that it is there, at each start. Generated from
`proto/rpc/BrokerRegistration.json`.
"""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags
from kraftd.types import ZERO_UUID, Uuid


class BrokerRegistrationRequestListener(Struct, frozen=True, gc=False):
    """In `BrokerRegistrationRequest.listeners`. Where it listens."""

    name: str = ""
    """Name of the listener. (string)"""
    host: str = ""
    """Host name or address. (string)"""
    port: int = 0
    """TCP port. (uint16)"""
    security_protocol: int = 0
    """0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL. (int16)"""
    unknown_tags: UnknownTags = ()


class BrokerRegistrationRequestFeature(Struct, frozen=True, gc=False):
    """In `BrokerRegistrationRequest.features`. The features that it knows, with the levels that it could
    run at.
    """

    name: str = ""
    """The feature. (string)"""
    min_supported_version: int = 0
    """Lowest level supported. (int16)"""
    max_supported_version: int = 0
    """Highest level supported. (int16)"""
    unknown_tags: UnknownTags = ()


class BrokerRegistrationRequest(Struct, frozen=True, gc=False):
    """A broker tells the active controller that it is there, at each start. What the broker is and what
    it can do.
    """

    API_KEY: ClassVar[int] = 62
    NAME: ClassVar[str] = "BrokerRegistrationRequest"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 4

    broker_id: int = 0
    """Which broker this is. (int32)"""
    cluster_id: str = ""
    """The cluster that the broker belongs to. (string)"""
    incarnation_id: Uuid = ZERO_UUID
    """This start of the process, at random. (uuid)"""
    listeners: tuple[BrokerRegistrationRequestListener, ...] = ()
    """Where it listens. ([]BrokerRegistrationRequestListener)"""
    features: tuple[BrokerRegistrationRequestFeature, ...] = ()
    """The features that it knows, with the levels that it could run at.
    ([]BrokerRegistrationRequestFeature)
    """
    rack: str | None = ""
    """Where the broker stands; null if it does not say. (string)"""
    is_migrating_zk_broker: bool = False
    """Left over from ZooKeeper; refused unless false. (bool, since version 1)"""
    log_dirs: tuple[Uuid, ...] = ()
    """Ids of its log directories. ([]uuid, since version 2)"""
    previous_broker_epoch: int = -1
    """The epoch that the broker had when it last stopped in order; -1 if it did not. (int64, since
    version 3)
    """
    unknown_tags: UnknownTags = ()


class BrokerRegistrationResponse(Struct, frozen=True, gc=False):
    """The epoch that the broker has from now on."""

    API_KEY: ClassVar[int] = 62
    NAME: ClassVar[str] = "BrokerRegistrationResponse"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 4

    throttle_time_ms: int = 0
    """How long the response was held back because of a quota. (int32)"""
    error_code: int = 0
    """0, or what went wrong with the request as a whole. (int16)"""
    broker_epoch: int = -1
    """The epoch of this registration; -1 if there is none. (int64)"""
    unknown_tags: UnknownTags = ()
