"""What old logs say of the migration from ZooKeeper; kept and written again, as Kafka did before 4.0.

It is in no folder and no table: Kafka shows it nowhere either.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from kraftd.metadata import kafka_names
from kraftd.metadata.feature_levels import ZK_MIGRATION_SINCE
from kraftd.metadata.kafka_names import name_of
from kraftd.metadata.part import (
    THE_ONLY,
    Builder,
    Changes,
    EntityPart,
    Image,
    ImageComparison,
    ImageView,
    RecordKind,
)
from kraftd.metadata.views import Change, TreeNode
from kraftd.records.messages import ZkMigrationStateRecord
from kraftd.types import Offset


def _apply(builder: Builder, record: ZkMigrationStateRecord, _offset: Offset) -> None:
    builder.put(ZK_MIGRATION, builder.state(ZK_MIGRATION).put(THE_ONLY, record))


class ZkMigration(EntityPart[int, ZkMigrationStateRecord]):
    """The one record of the state."""

    kinds = (RecordKind(ZkMigrationStateRecord, _apply, levels=(ZK_MIGRATION_SINCE,)),)
    snapshot_order = 0

    def describe(self, differences: Changes[ZkMigrationStateRecord], _: ImageComparison) -> Iterator[Change]:
        for change in differences:
            old, new = (
                None if one is None else one.zk_migration_state for one in (change.before, change.after)
            )
            text = f"state is {name_of(kafka_names.ZK_MIGRATION_STATES, -1 if new is None else new)}"
            yield Change("zk migration", "", "state", text, old, new)

    def sections(self, _view: ImageView) -> Mapping[str, Callable[[], TreeNode]]:
        return {}

    def overview_count(self, _image: Image) -> None:
        return None


ZK_MIGRATION: Final = ZkMigration()
