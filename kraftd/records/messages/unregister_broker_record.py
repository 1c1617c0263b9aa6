"""A broker is gone for good. Generated from `proto/records/UnregisterBrokerRecord.json`."""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags


class UnregisterBrokerRecord(Struct, frozen=True, gc=False):
    """A broker is gone for good."""

    API_KEY: ClassVar[int] = 1
    NAME: ClassVar[str] = "UnregisterBrokerRecord"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    broker_id: int = 0
    """The broker. (int32)"""
    broker_epoch: int = 0
    """The epoch of the registration that ends. (int64)"""
    unknown_tags: UnknownTags = ()
