"""Who moves replicas? An operator, who asks a broker that is up, for one partition at a time.

A partition is moved to some brokers, moved elsewhere before it has arrived, moved back, or its move is
called off. It is not judged whether it arrives: a broker that shall hold it may never come back. What is
acknowledged stays, as ever (`broker_data`), and each record is judged (`kraftd.audit.placements`).

Differs: nothing is called off for a topic that may elect uncleanly. As in Kafka, its first replica leads
then, and no record says that it may lack something.
Not here: what else clients ask for (`admin_clients`).
"""

from random import Random
from typing import TYPE_CHECKING, Any, Final

from kraftd.audit.invariant import Violation
from kraftd.audit.placements import PartitionKey
from kraftd.controller.partitions.partition_change_builder import is_reassigning
from kraftd.errors import ErrorCode
from kraftd.metadata.config_schema import ResourceType
from kraftd.metadata.image import MetadataImage
from kraftd.metadata.parts.brokers import BROKERS
from kraftd.metadata.parts.configs import CONFIGS
from kraftd.metadata.parts.topics import TOPICS
from kraftd.protocol import messages as m
from kraftd.records.messages import PartitionRecord
from kraftd.types import NodeId
from tests.sim.admin_clients import MOVE, OPERATOR, UNCLEAN, enveloped, known_as, opened

if TYPE_CHECKING:
    from tests.sim.acl_keeper import Rule
    from tests.sim.world import World

ARRIVED: Final = "a partition moved"
REPLICAS_MAX: Final = 3
CALLED_OFF_PART: Final = 0.3
"""How many of the moves that are met under way are called off."""
PATIENCE_US: Final = 3_000_000
"""How long to wait for an answer."""

EXPECTED: Final = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,  # a broker was unregistered, or calling off would lose records
        ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    }
)
"""How a request may end; anything else is a bug of somebody."""


class Mover:
    """The operator. Its random numbers are its own."""

    def __init__(self, world: "World", random: Random) -> None:
        self._world = world
        self._random = random
        self._asked = 0
        """Requests so far: an answer to an older one comes too late."""
        self._is_change = False
        """Whether what was asked for last is to change something."""
        self._wanted: dict[PartitionKey, tuple[NodeId, ...]] = {}

    def start(self) -> None:
        """Begin to work."""
        self._rest()

    def _rest(self) -> None:
        self._world.at(int(self._random.random() * 2 * self._world.brokers.shape.think_us), self._next)

    def _next(self) -> None:
        world = self._world
        if world.is_over:
            return
        up = [broker for broker in world.brokers.brokers.values() if broker.is_up]
        broker = self._random.choice(up) if up else None
        request = None if broker is None else self._request(broker.disk.log.image)
        if broker is None or request is None:
            self._rest()
            return
        self._asked += 1
        asked, keeper = self._asked, world.brokers.acl_keeper
        # Where nothing is to be changed, a leader that is none any more may say that it is so.
        denial = keeper.denial(OPERATOR, MOVE) if keeper is not None and self._is_change else None
        sent = broker.forward(
            enveloped(request, asked, known_as(world, OPERATOR)),
            lambda response: self._done(asked, opened(world, response, request), denial),
            lambda: self._done(asked, None),
        )
        if not sent:
            self._rest()
            return
        world.at(PATIENCE_US, lambda: self._done(asked, None))

    def _done(self, asked: int, response: Any, denial: "Rule | None" = None) -> None:
        """An answer, or none in time: it may come to pass yet."""
        world = self._world
        if asked != self._asked or world.is_over:
            return
        self._asked += 1
        error = None if response is None else response.responses[0].partitions[0].error_code
        world.statistics[f"move {'unknown' if error is None else error}"] += 1
        if error is not None and error not in EXPECTED:
            raise Violation(f"AdminRequestsAreServed: a move ends with error {error}")
        if world.brokers.acl_keeper is not None:
            world.brokers.acl_keeper.judge(denial, f"{OPERATOR} is told that a move", error)
        self._rest()

    # -- what is asked for

    def _request(self, image: MetadataImage) -> m.AlterPartitionReassignmentsRequest | None:
        """A move of a partition of this image; None if it has none."""
        self._look(image)
        topics = image[TOPICS]
        there = sorted((topic.name, topic.topic_id) for topic in topics.topics())
        if not there:
            return None
        name, topic_id = self._random.choice(there)
        number = self._random.randrange(topics.partition_count_of(topic_id))
        partition = topics.partition(topic_id, number)
        if partition is None:
            return None
        wanted = self._replicas(image, name, partition)
        self._is_change = wanted != partition.replicas
        if wanted is not None:
            self._wanted[topic_id, number] = wanted
        one = m.AlterPartitionReassignmentsRequestReassignablePartition(number, wanted)
        topic = m.AlterPartitionReassignmentsRequestReassignableTopic(name, (one,))
        return m.AlterPartitionReassignmentsRequest(timeout_ms=30_000, topics=(topic,))

    def _replicas(
        self, image: MetadataImage, name: str, partition: PartitionRecord
    ) -> tuple[NodeId, ...] | None:
        """The brokers that shall hold a partition; None if its move is to be called off."""
        random = self._random
        is_unclean = image[CONFIGS].get(ResourceType.TOPIC, name, UNCLEAN) is not None
        if is_reassigning(partition):
            if random.random() < CALLED_OFF_PART and not is_unclean:
                return None
            if random.random() < CALLED_OFF_PART:
                return tuple(one for one in partition.replicas if one not in partition.adding_replicas)
        brokers = sorted(broker.broker_id for broker in image[BROKERS].values())
        return tuple(random.sample(brokers, random.randint(1, min(REPLICAS_MAX, len(brokers)))))

    def _look(self, image: MetadataImage) -> None:
        """Count what has arrived since."""
        for key, wanted in list(self._wanted.items()):
            partition = image[TOPICS].partition(*key)
            if partition is not None and partition.replicas == wanted and not is_reassigning(partition):
                self._world.statistics[ARRIVED] += 1
                del self._wanted[key]
