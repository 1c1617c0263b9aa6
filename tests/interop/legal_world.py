"""What exists in a log of legal records, as far as one has to know it to write the next."""

from dataclasses import dataclass, field
from random import Random
from typing import Final

from kraftd.metadata.feature_levels import ELIGIBLE_LEADER_REPLICAS
from kraftd.metadata.record_versions import SINCE
from kraftd.records import messages as m

BROKERS: Final = range(1, 9)
LEVELS_WITH_MIGRATION: Final = range(7, 22)
"""Of Kafka 3.9, whose brokers may come from ZooKeeper."""
ZK_MIGRATION_SINCE: Final = SINCE[m.ZkMigrationStateRecord][0]


@dataclass
class Partition:
    """What has to be known of a partition to change it."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    has_elr: bool = False
    """Whether anybody is eligible outside the ISR, also if the feature was switched off since."""


@dataclass
class Topic:
    """A topic that exists."""

    id: bytes
    name: str
    partitions: dict[int, Partition] = field(default_factory=dict)

    def forget_elr(self) -> None:
        """Nobody is eligible outside an ISR any more."""
        for partition in self.partitions.values():
            partition.has_elr = False


@dataclass
class World:
    """What exists."""

    level: int
    last_level: int
    features: dict[str, int] = field(default_factory=dict)
    brokers: dict[int, int] = field(default_factory=dict)
    topics: dict[str, Topic] = field(default_factory=dict)
    acls: list[bytes] = field(default_factory=list)
    scram: list[tuple[str, int]] = field(default_factory=list)

    @property
    def is_migrating(self) -> bool:
        """Whether brokers may still be on their way from ZooKeeper, which Kafka 4 knows nothing of."""
        return self.last_level == LEVELS_WITH_MIGRATION[-1] and self.level >= ZK_MIGRATION_SINCE

    @property
    def has_elr(self) -> bool:
        """Whether eligible leader replicas are in use."""
        return bool(self.features.get(ELIGIBLE_LEADER_REPLICAS))


def config_of(rng: Random, resource_type: int, resource_name: str) -> m.ConfigRecord:
    """One config of few, set or removed."""
    value = rng.choice((None, None, "", "1", "ü", f"{rng.random()}"))
    return m.ConfigRecord(resource_type, resource_name, f"config.{rng.randint(0, 5)}", value)
