"""A cluster of brokers and topics as an image, for tests of what the controller decides about them."""

from collections.abc import Sequence

from kraftd.controller.context import NO_CLIENT, Context, ControllerSettings
from kraftd.controller.sessions import BrokerSessions
from kraftd.metadata.feature_levels import ELIGIBLE_LEADER_REPLICAS, METADATA_VERSION
from kraftd.metadata.image import EMPTY
from kraftd.metadata.image_builder import apply_all
from kraftd.metadata.parts.topics import TOPICS
from kraftd.metadata.parts.topics.partitions import UNASSIGNED
from kraftd.records.frame import AnyRecord
from kraftd.records.messages import (
    BrokerRegistrationChangeRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from kraftd.types import NodeId, Now, Uuid
from tests.contexts import NewestImage

FENCE, UNFENCE, STOP = 1, -1, 1


class Cluster:
    """An image, and a context for decisions on it."""

    def __init__(self, *, brokers: Sequence[NodeId] = (1, 2, 3), level: int = 30, elr: bool = False) -> None:
        self.image = EMPTY
        self.settings = ControllerSettings()
        self.sessions = BrokerSessions(9_000)
        self.apply(FeatureLevelRecord(METADATA_VERSION, level))
        if elr:
            self.apply(FeatureLevelRecord(ELIGIBLE_LEADER_REPLICAS, 1))
        for broker in brokers:
            self.register(broker)

    def context(self, version: int = 3) -> Context:
        now = Now(1_000, 1_000)
        return Context(
            NewestImage(self.image),
            now,
            version,
            1_000,
            self.sessions,
            self.settings,
            NO_CLIENT,
            seed=1,
        )

    def apply(self, *records: AnyRecord) -> None:
        self.image = apply_all(self.image, records, 0)

    def register(
        self,
        broker: NodeId,
        log_dirs: tuple[Uuid, ...] = (),
        *,
        epoch: int | None = None,
        fenced: bool = False,
    ) -> None:
        """Register a broker, in the epoch of ten times its id unless another is given."""
        self.apply(
            RegisterBrokerRecord(
                broker_id=broker,
                incarnation_id=bytes((*bytes(15), broker)),
                broker_epoch=epoch_of(broker) if epoch is None else epoch,
                fenced=fenced,
                log_dirs=log_dirs or (directory(broker),),
            )
        )

    def change(self, broker: NodeId, **what: int) -> None:
        """Change a registration: `fenced=FENCE`, `fenced=UNFENCE`, `in_controlled_shutdown=STOP`."""
        self.apply(BrokerRegistrationChangeRecord(broker_id=broker, broker_epoch=epoch_of(broker), **what))

    def topic(self, name: str, *partitions: PartitionRecord, topic_id: Uuid | None = None) -> Uuid:
        """Create a topic with partitions, each as `led(...)` gives it."""
        topic_id = topic_id or name.encode().ljust(16, b"_")
        self.apply(TopicRecord(name, topic_id))
        self.apply(
            *(
                PartitionRecord(
                    partition_id=number,
                    topic_id=topic_id,
                    replicas=one.replicas,
                    isr=one.isr,
                    leader=one.leader,
                    leader_epoch=one.leader_epoch,
                    partition_epoch=one.partition_epoch,
                    adding_replicas=one.adding_replicas,
                    removing_replicas=one.removing_replicas,
                    leader_recovery_state=one.leader_recovery_state,
                    directories=one.directories,
                    eligible_leader_replicas=one.eligible_leader_replicas,
                    last_known_elr=one.last_known_elr,
                )
                for number, one in enumerate(partitions)
            )
        )
        return topic_id

    def partition(self, topic_id: Uuid, partition_id: int = 0) -> PartitionRecord:
        partition = self.image[TOPICS].partition(topic_id, partition_id)
        assert partition is not None
        return partition

    def work_off(self, changes, limit: int = 512) -> list[list[PartitionChangeRecord]]:
        """Every slice of what a broker's event entails, each applied before the next is asked for."""
        slices = []
        is_last = False
        while not is_last:
            records, is_last = changes.next(self.context(), limit)
            self.apply(*records)
            slices.append(records)
        return slices


def decided(plan, context) -> tuple[list[PartitionChangeRecord], object]:
    """What a request that needs one slice or none leads to: its records and its response."""
    if isinstance(plan, tuple):
        return plan
    records, is_last = plan.advance(context)
    assert is_last
    return list(records), plan.response()


def led(
    replicas: tuple[NodeId, ...],
    isr: tuple[NodeId, ...] | None = None,
    leader: NodeId | None = None,
    **fields,
) -> PartitionRecord:
    """A partition whose first member of the ISR leads, and all are in sync."""
    isr = replicas if isr is None else isr
    return PartitionRecord(
        replicas=replicas,
        isr=isr,
        leader=isr[0] if leader is None else leader,
        leader_epoch=fields.pop("leader_epoch", 3),
        partition_epoch=fields.pop("partition_epoch", 5),
        directories=fields.pop("directories", (UNASSIGNED,) * len(replicas)),
        **fields,
    )


def epoch_of(broker: NodeId) -> int:
    return broker * 10


def directory(number: int) -> Uuid:
    return b"directory".ljust(15, b"_") + bytes((number,))
