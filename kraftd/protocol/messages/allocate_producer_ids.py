"""A broker takes a block of producer ids, to hand them out. Generated from
`proto/rpc/AllocateProducerIds.json`.
"""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags


class AllocateProducerIdsRequest(Struct, frozen=True, gc=False):
    """A broker takes a block of producer ids, to hand them out. Asks for one block."""

    API_KEY: ClassVar[int] = 67
    NAME: ClassVar[str] = "AllocateProducerIdsRequest"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    broker_id: int = 0
    """Which broker this is. (int32)"""
    broker_epoch: int = -1
    """The epoch of the broker's registration. (int64)"""
    unknown_tags: UnknownTags = ()


class AllocateProducerIdsResponse(Struct, frozen=True, gc=False):
    """The block that is this broker's alone."""

    API_KEY: ClassVar[int] = 67
    NAME: ClassVar[str] = "AllocateProducerIdsResponse"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    throttle_time_ms: int = 0
    """How long the response was held back because of a quota. (int32)"""
    error_code: int = 0
    """0, or what went wrong with the request as a whole. (int16)"""
    producer_id_start: int = 0
    """The first id of the block. (int64)"""
    producer_id_len: int = 0
    """How many ids it has. (int32)"""
    unknown_tags: UnknownTags = ()
