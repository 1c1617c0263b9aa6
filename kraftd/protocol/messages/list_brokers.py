"""The registered brokers with their sessions, a page at a time. Each page is linearizable; the pages are
of different moments. Generated from `proto/rpc/ListBrokers.json`.
"""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags
from kraftd.types import ZERO_UUID, Uuid


class ListBrokersRequest(Struct, frozen=True, gc=False):
    """The registered brokers with their sessions, a page at a time. Each page is linearizable; the pages
    are of different moments. Asks for all brokers, or for some.
    """

    API_KEY: ClassVar[int] = 20010
    NAME: ClassVar[str] = "ListBrokersRequest"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    broker_ids: tuple[int, ...] | None = None
    """Which brokers; null for all. ([]int32)"""
    after_broker_id: int = -1
    """After which broker to begin; -1 for the first page. It need not exist. (int32)"""
    unknown_tags: UnknownTags = ()


class ListBrokersResponseListener(Struct, frozen=True, gc=False):
    """In `ListBrokersResponseBroker.listeners`. Where it listens."""

    name: str = ""
    """Name of the listener. (string)"""
    host: str = ""
    """Host name. (string)"""
    port: int = 0
    """TCP port. (uint16)"""
    unknown_tags: UnknownTags = ()


class ListBrokersResponseBroker(Struct, frozen=True, gc=False):
    """In `ListBrokersResponse.brokers`. One entry a broker."""

    broker_id: int = 0
    """Its id. (int32)"""
    broker_epoch: int = 0
    """The epoch of its registration. (int64)"""
    incarnation_id: Uuid = ZERO_UUID
    """The start of its process that registered. (uuid)"""
    is_fenced: bool = False
    """Whether it is fenced. (bool)"""
    in_controlled_shutdown: bool = False
    """Whether it is about to stop. (bool)"""
    rack: str | None = None
    """Its rack, or null. (string)"""
    listeners: tuple[ListBrokersResponseListener, ...] = ()
    """Where it listens. ([]ListBrokersResponseListener)"""
    log_dirs: tuple[Uuid, ...] = ()
    """Its log directories that are online. ([]uuid)"""
    cordoned_log_dirs: tuple[Uuid, ...] = ()
    """Those of them that get no new replicas. ([]uuid)"""
    leader_count: int = 0
    """How many partitions it leads. (int32)"""
    in_sync_count: int = 0
    """How many partitions it is in sync with. (int32)"""
    replica_count: int = 0
    """How many partitions it holds. (int32)"""
    last_contact_ms: int = -1
    """Milliseconds since its last heartbeat; -1 if this leader had none. (int64)"""
    metadata_offset: int = -1
    """The last offset of the metadata log that it said it has; -1 while unknown. (int64)"""
    unknown_tags: UnknownTags = ()


class ListBrokersResponse(Struct, frozen=True, gc=False):
    """A page of brokers, ordered by id. Who is not registered is left out."""

    API_KEY: ClassVar[int] = 20010
    NAME: ClassVar[str] = "ListBrokersResponse"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    error_code: int = 0
    """0, or what went wrong. (int16)"""
    error_message: str | None = None
    """What went wrong, for a person to read; null if nothing did. (string)"""
    applied_offset: int = 0
    """The image holds everything before it. (int64)"""
    session_timeout_ms: int = -1
    """After how long without a heartbeat a broker is fenced. (int32)"""
    brokers: tuple[ListBrokersResponseBroker, ...] = ()
    """One entry a broker. ([]ListBrokersResponseBroker)"""
    next_after_broker_id: int = -1
    """After which broker the next page begins; -1 if there is no next page. (int32)"""
    unknown_tags: UnknownTags = ()
