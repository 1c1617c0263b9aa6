"""A broker is free again to lead and to be in sync. Not written since 3.3: BrokerRegistrationChange says
it. Generated from `proto/records/UnfenceBrokerRecord.json`.
"""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags


class UnfenceBrokerRecord(Struct, frozen=True, gc=False):
    """A broker is free again to lead and to be in sync. Not written since 3.3: BrokerRegistrationChange
    says it.
    """

    API_KEY: ClassVar[int] = 8
    NAME: ClassVar[str] = "UnfenceBrokerRecord"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    id: int = 0
    """The broker. (int32)"""
    epoch: int = 0
    """The epoch of its registration. (int64)"""
    unknown_tags: UnknownTags = ()
