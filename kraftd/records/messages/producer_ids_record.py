"""A block of producer ids is given to a broker. Generated from `proto/records/ProducerIdsRecord.json`."""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags


class ProducerIdsRecord(Struct, frozen=True, gc=False):
    """A block of producer ids is given to a broker."""

    API_KEY: ClassVar[int] = 15
    NAME: ClassVar[str] = "ProducerIdsRecord"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    broker_id: int = 0
    """Who asked for it. (int32)"""
    broker_epoch: int = -1
    """The epoch of its registration. (int64)"""
    next_producer_id: int = 0
    """The first id that is not given out yet. (int64)"""
    unknown_tags: UnknownTags = ()
