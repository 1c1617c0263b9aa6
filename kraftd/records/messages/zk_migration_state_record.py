"""How far the cluster had moved away from ZooKeeper. Only read: nothing has written it since 4.0.
Generated from `proto/records/ZkMigrationStateRecord.json`.
"""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags


class ZkMigrationStateRecord(Struct, frozen=True, gc=False):
    """How far the cluster had moved away from ZooKeeper. Only read: nothing has written it since 4.0."""

    API_KEY: ClassVar[int] = 21
    NAME: ClassVar[str] = "ZkMigrationStateRecord"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    zk_migration_state: int = 0
    """0 never had it, 1 moving, 2 about to, 3 done. (int8)"""
    unknown_tags: UnknownTags = ()
