"""What changes in one broker's registration; what is absent stays. Generated from
`proto/records/BrokerRegistrationChangeRecord.json`.
"""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags
from kraftd.types import Uuid


class BrokerRegistrationChangeRecord(Struct, frozen=True, gc=False):
    """What changes in one broker's registration; what is absent stays."""

    API_KEY: ClassVar[int] = 17
    NAME: ClassVar[str] = "BrokerRegistrationChangeRecord"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 3

    broker_id: int = 0
    """The broker. (int32)"""
    broker_epoch: int = 0
    """The epoch of its registration. (int64)"""
    fenced: int = 0
    """1 fenced, -1 no longer, 0 no change. (int8, tag 0)"""
    in_controlled_shutdown: int = 0
    """1 it hands over before it stops, 0 no change. (int8, tag 1, since version 1)"""
    log_dirs: tuple[Uuid, ...] = ()
    """Ids of its log directories that work; empty is no change. ([]uuid, tag 2, since version 2)"""
    cordoned_log_dirs: tuple[Uuid, ...] | None = None
    """Ids of those that get no new replicas; null is no change. ([]uuid, tag 3, since version 3)"""
    unknown_tags: UnknownTags = ()
