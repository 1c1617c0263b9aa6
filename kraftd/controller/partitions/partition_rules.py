"""What the cluster says about partitions: who may lead one, how many must be in sync, and what it may cost.

A `PartitionRules` is made of a context for one decision, slice or read, and makes the change of each
partition; what does not differ between them is looked up once.

A broker may lead if it is registered, neither fenced nor shutting down, and the directory of its replica is
online. A decision about a broker that comes or goes is made before the record that says so is there, so
whoever makes it says who is not to be accepted (`without`), and who is although it is still fenced (`also`).

Nor may one lead, or enter an ISR, that a plan is taking out of all it leads (`Context.leaving`). Say broker 1
is being fenced in slices, because this controller stood still and has not heard of it, and follows broker 2
all the time. The image calls it active until the last slice: broker 2 would bring it back as fast as the
slices take it out, and neither would end. Kafka fences in one step, and refuses from then on. In the
same way a directory that a broker is losing counts as gone.

Follows: Kafka's LeaderAcceptor, and the configs that ReplicationControlManager looks up.
Differs: who is unfenced while it is shutting down leads nothing; in Kafka it is elected once more.
"""

from collections.abc import Collection
from functools import partial
from typing import Final, NamedTuple

from kraftd.controller.configs.effective import BrokerConfigs, number
from kraftd.controller.context import Context, Leaving, ReadContext
from kraftd.controller.decided_elections import DecidedElection
from kraftd.controller.partitions.election import ElectionKind
from kraftd.controller.partitions.partition_change_builder import Rules, Target, decided_change
from kraftd.metadata.config_schema import (
    MIN_IN_SYNC_REPLICAS,
    UNCLEAN_LEADER_ELECTION,
    ResourceType,
)
from kraftd.metadata.election_reasons import Fate, LeaderFate, Leadership, Rule, as_told, reason_of
from kraftd.metadata.feature_levels import ELIGIBLE_LEADER_REPLICAS
from kraftd.metadata.image import MetadataImage
from kraftd.metadata.parts.brokers import BROKERS
from kraftd.metadata.parts.configs import CONFIGS
from kraftd.metadata.parts.features import FEATURES
from kraftd.metadata.parts.topics import TOPICS
from kraftd.metadata.parts.topics.partitions import MIGRATING, UNASSIGNED
from kraftd.records.messages import PartitionChangeRecord, PartitionRecord, RegisterBrokerRecord
from kraftd.types import NodeId, Uuid

_FIRST: Final = 0
_NO_LEADER_CHANGE: Final = PartitionChangeRecord().leader


class TopicRules(NamedTuple):
    """What the configs of a topic say."""

    min_isr: int
    """`min.insync.replicas`, or the number of replicas of its first partition if that is smaller."""
    is_unclean_allowed: bool

    @property
    def election(self) -> ElectionKind:
        """How to look for a leader when one is needed."""
        return ElectionKind.UNCLEAN if self.is_unclean_allowed else ElectionKind.ONLINE


class PartitionRules:
    """The rules of all partitions, for one decision. Good for the image that it was made of."""

    def __init__(
        self,
        context: Context | ReadContext,
        *,
        without: Collection[NodeId] = (),
        also: Collection[NodeId] = (),
        fate: Fate = Fate.LOST,
    ) -> None:
        """`fate` is what becomes of those in `without`."""
        self._image = context.image
        self._configs = BrokerConfigs(context.image, context.settings)
        self._leaving = context.leaving
        self._without = context.leaving.brokers.union(without)
        self._also = also
        self._fates = dict.fromkeys(context.leaving.brokers, Fate.LOST) | dict.fromkeys(without, fate)
        self._elections = context.elections if isinstance(context, Context) else []
        self._topics: dict[Uuid, TopicRules] = {}
        self._brokers: dict[NodeId, RegisterBrokerRecord | None] = {}
        self._level = context.image.metadata_version
        self._has_elr = has_elr(context.image)

    def change(
        self, partition: PartitionRecord, target: Target, election: ElectionKind | None = None
    ) -> PartitionChangeRecord | None:
        """The change that makes of a partition what it shall become, None if it is that.

        The election is the one that the topic allows, unless another is asked for.
        """
        topic = self.of_topic(partition.topic_id)
        rules = Rules(
            self._level,
            self._has_elr,
            topic.min_isr,
            partial(self.accepts, partition),
            self.default_directory,
        )
        change, rule = decided_change(partition, target, election or topic.election, rules)
        if change is not None and change.leader not in (_NO_LEADER_CHANGE, partition.leader):
            self._note(partition, change, rule)
        return change

    def of_topic(self, topic_id: Uuid) -> TopicRules:
        """What the configs of a topic say."""
        found = self._topics.get(topic_id)
        if found is None:
            found = self._topics[topic_id] = self._topic_rules(topic_id)
        return found

    def default_directory(self, broker_id: NodeId) -> Uuid:
        """Where a broker puts a new replica: in its only directory, or it tells later."""
        return default_directory(self._image, broker_id, self._leaving)

    def accepts(self, partition: PartitionRecord, broker_id: NodeId) -> bool:
        """Whether a broker can lead a partition now."""
        if broker_id not in self._brokers:
            self._brokers[broker_id] = self._acceptable(broker_id)
        broker = self._brokers[broker_id]
        if broker is None or broker_id not in partition.replicas:
            return False
        directory = partition.directories[partition.replicas.index(broker_id)]
        return self._leaving.has_online_directory(broker, directory)

    def _note(self, partition: PartitionRecord, change: PartitionChangeRecord, rule: Rule) -> None:
        """Note why another broker leads a partition now, for the statistics."""
        before = Leadership(partition.leader, partition.isr, partition.replicas)
        isr = partition.isr if change.isr is None else change.isr
        replicas = partition.replicas if change.replicas is None else change.replicas
        reason, _ = reason_of(before, Leadership(change.leader, isr, replicas), self._fate(partition))
        self._elections.append(DecidedElection(change, reason, as_told(rule, reason)))

    def _fate(self, partition: PartitionRecord) -> LeaderFate:
        """What becomes of the broker that leads a partition."""
        broker = self._image[BROKERS].get(partition.leader)
        if broker is None or broker.fenced:
            return LeaderFate(Fate.LOST)
        if broker.in_controlled_shutdown:
            return LeaderFate(Fate.SHUTTING_DOWN)
        if partition.leader in self._fates:
            return LeaderFate(self._fates[partition.leader])
        return LeaderFate(Fate.ACTIVE if self.accepts(partition, partition.leader) else Fate.LOST)

    def _acceptable(self, broker_id: NodeId) -> RegisterBrokerRecord | None:
        broker = self._image[BROKERS].get(broker_id)
        if broker is None or broker_id in self._without:
            return None
        is_unfenced = broker_id in self._also and not broker.in_controlled_shutdown
        return broker if is_unfenced or is_active(broker) else None

    def _topic_rules(self, topic_id: Uuid) -> TopicRules:
        topics = self._image[TOPICS]
        topic, first = topics.get(topic_id), topics.partition(topic_id, _FIRST)
        value_of = partial(self._topic_config, "" if topic is None else topic.name)
        min_isr = number(MIN_IN_SYNC_REPLICAS, value_of(MIN_IN_SYNC_REPLICAS))
        unclean = value_of(UNCLEAN_LEADER_ELECTION) or ""
        replicas = min_isr if first is None else len(first.replicas)
        # With blanks around it, true can be set and is no permission: Kafka's controller reads false there.
        return TopicRules(min(min_isr, replicas), unclean.lower() == "true")

    def _topic_config(self, topic: str, name: str) -> str | None:
        """The value in force of a topic's config."""
        own = self._image[CONFIGS].get(ResourceType.TOPIC, topic, name)
        return own if own is not None else self._configs.topic_config(name, {}).value


def is_active(broker: RegisterBrokerRecord) -> bool:
    """Whether a broker may lead and be in sync, as the image has it."""
    return not (broker.fenced or broker.in_controlled_shutdown)


def active_brokers(context: Context) -> dict[NodeId, int]:
    """The brokers that may be in sync in what is decided now, each with its epoch."""
    return {
        broker.broker_id: broker.broker_epoch
        for broker in context.image[BROKERS].values()
        if is_active(broker) and broker.broker_id not in context.leaving.brokers
    }


def default_directory(image: MetadataImage, broker_id: NodeId, leaving: Leaving) -> Uuid:
    """Where a broker puts a new replica: in its only directory, or it tells later."""
    broker = image[BROKERS].get(broker_id)
    if broker is None:
        return UNASSIGNED
    directories = leaving.rest_of(broker).log_dirs
    if not directories:
        return MIGRATING
    return directories[0] if len(directories) == 1 else UNASSIGNED


def has_elr(image: MetadataImage) -> bool:
    """Whether the cluster keeps eligible leader replicas."""
    return image[FEATURES].level(ELIGIBLE_LEADER_REPLICAS) > 0
