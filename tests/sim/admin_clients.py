"""Who makes topics? Admin clients, which reach the active controller through a broker.

An `AdminClient` creates and deletes topics and adds partitions, one request at a time; the broker that it is
connected to forwards each in an Envelope. A broker makes a topic by itself, too, with a bare CreateTopics, as
for `__consumer_offsets`. What was acknowledged is remembered: at the end of the seed it must be there, and
what was refused for good must not.

Where there is an authorizer, each has a principal of its own, and what is denied to it must not be done
(`acl_keeper`).

A request whose outcome nobody knows may have been done once, and not later than its deadline at the broker.

Not here: how a broker forwards (`broker_process`), and when topics are judged (`brokers`).
"""

from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

from kraftd.audit.invariant import Violation
from kraftd.errors import ErrorCode
from kraftd.metadata.acl_kinds import AclOperation
from kraftd.metadata.image import MetadataImage
from kraftd.metadata.parts.topics import TOPICS
from kraftd.protocol import messages as m
from kraftd.protocol.kafka_codec import KAFKA
from kraftd.protocol.principal import ANONYMOUS, Principal
from tests.principals import encode_principal

if TYPE_CHECKING:
    from tests.sim.acl_keeper import Rule
    from tests.sim.world import World

CREATE, DELETE, GROW = "create", "delete", "grow"
MOVE, ELECT = "move", "elect"
ALLOWED_BY = {
    CREATE: AclOperation.CREATE,
    DELETE: AclOperation.DELETE,
    GROW: AclOperation.ALTER,
    MOVE: AclOperation.ALTER,
    ELECT: AclOperation.ALTER,
}
"""Which right each request needs: of its topic, the last two of the cluster."""
OPERATOR = "User:operator"
"""Who moves replicas and asks for elections, where there is an authorizer."""
TOPICS_MAX = 12
"""Of one client, at a time."""
PARTITIONS = (1, 2, 3, 6, 12)
GROWTH = 2
AGAIN_US = 500_000
BARE_PART = 0.2
"""How many topics are made by a broker itself."""
CONFIGURED_PART = 0.3
UNCLEAN = "unclean.leader.election.enable"
MIN_ISR = "min.insync.replicas"

EXPECTED = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        36,  # TOPIC_ALREADY_EXISTS
        37,  # INVALID_PARTITIONS
        38,  # INVALID_REPLICATION_FACTOR
        39,  # INVALID_REPLICA_ASSIGNMENT
        100,  # UNKNOWN_TOPIC_ID
    }
)
"""How a request may end; anything else is a bug of somebody."""


_DONE_BEFORE = {CREATE: 36, DELETE: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, GROW: 37}
"""The errors that say that a request was carried out already."""


class Known(msgspec.Struct):
    """A topic, as its only user knows it."""

    name: str
    partitions: int
    """How many it has at least."""
    is_there: bool | None
    """None if nobody knows."""
    in_doubt: int = 0
    """Requests whose outcome is unknown."""


class AdminClient:
    """One client; nobody else touches its topics."""

    def __init__(self, number: int, world: "World", random: Random) -> None:
        self.number = number
        self._world = world
        self._random = random.random
        self._choice = random.choice
        self.topics: dict[str, Known] = {}
        self._principal = principal_of(number)
        self._made = 0
        self._asked = 0
        """Requests so far: an answer to an older one comes too late."""

    def start(self) -> None:
        """Begin to work."""
        self._rest()

    # -- the life of a client

    def _rest(self) -> None:
        think_us = self._world.brokers.shape.think_us
        self._world.at(int(self._random() * 2 * think_us), self._next)

    def _next(self) -> None:
        world = self._world
        if world.is_over:
            return
        brokers = [broker for broker in world.brokers.brokers.values() if broker.is_up]
        if not brokers:
            self._rest()
            return
        broker = self._choice(brokers)
        kind, request, topic = self._choose()
        self._asked += 1
        asked = self._asked
        inner = self._random() >= BARE_PART or kind != CREATE
        topic.in_doubt += 1
        keeper = world.brokers.acl_keeper
        denial = keeper.denial(self._principal, kind) if inner and keeper is not None else None

        def done(response: Any) -> None:
            if asked == self._asked:
                told = opened(world, response, request) if inner else response
                self._done(kind, topic, told, denial)

        def failed() -> None:
            if asked == self._asked:
                self._done(kind, topic, None, None)

        sent = enveloped(request, asked, known_as(world, self._principal)) if inner else request
        world.count("call", 1_000 + self.number)
        if not broker.forward(sent, done, failed):
            topic.in_doubt -= 1
            self._rest()
            return
        patience_us = int((1 + self._random()) * world.shape.patience_us * 2)
        world.at(patience_us, lambda: self._stop_waiting(asked))

    def _stop_waiting(self, asked: int) -> None:
        """No answer in time; it may come to pass yet."""
        if asked == self._asked and not self._world.is_over:
            self._asked += 1
            self._world.statistics["admin unknown"] += 1
            self._rest()

    def _choose(self) -> tuple[str, Any, Known]:
        there = [topic for topic in self.topics.values() if topic.is_there and not topic.in_doubt]
        draw = self._random()
        if there and draw < 0.2:
            topic = self._choice(there)
            return GROW, self._grow(topic), topic
        if there and (draw < 0.45 or len(there) >= TOPICS_MAX):
            topic = self._choice(there)
            return DELETE, _delete(topic.name), topic
        self._made += 1
        topic = Known(f"topic-{self.number}-{self._made}", self._choice(PARTITIONS), None)
        self.topics[topic.name] = topic
        return CREATE, self._create(topic), topic

    def _create(self, topic: Known) -> m.CreateTopicsRequest:
        shape = self._world.brokers.shape
        factor = min(self._choice((1, 2, 3, 3, 3)), shape.brokers)
        configs = []
        if self._random() < CONFIGURED_PART:
            configs.append(m.CreateTopicsRequestCreatableTopicConfig(name=UNCLEAN, value="true"))
        if self._random() < CONFIGURED_PART:
            configs.append(m.CreateTopicsRequestCreatableTopicConfig(name=MIN_ISR, value="2"))
        made = m.CreateTopicsRequestCreatableTopic(
            name=topic.name,
            num_partitions=topic.partitions,
            replication_factor=factor,
            configs=tuple(configs),
        )
        return m.CreateTopicsRequest(topics=(made,), timeout_ms=30_000)

    def _grow(self, topic: Known) -> m.CreatePartitionsRequest:
        count = topic.partitions + GROWTH
        grown = m.CreatePartitionsRequestCreatePartitionsTopic(name=topic.name, count=count, assignments=None)
        return m.CreatePartitionsRequest(topics=(grown,), timeout_ms=30_000)

    # -- what it is told

    def _done(self, kind: str, topic: Known, response: Any, denial: "Rule | None") -> None:
        world = self._world
        error = _error_of(response)
        world.statistics[f"{kind} {'unknown' if error is None else error}"] += 1
        if error is not None and error not in EXPECTED:
            raise Violation(f"AdminRequestsAreServed: {kind} of {topic.name} ends with error {error}")
        if world.brokers.acl_keeper is not None:
            what = f"{self._principal} is told that {kind} of {topic.name}"
            world.brokers.acl_keeper.judge(denial, what, error)
        if error is None or error == ErrorCode.REQUEST_TIMED_OUT:
            topic.is_there = None
        else:
            topic.in_doubt -= 1
            self._learn(kind, topic, error)
        self._asked += 1
        self._rest()

    def _learn(self, kind: str, topic: Known, error: int) -> None:
        """What an answer says of a topic that nobody else touches. A broker may have sent a request twice, so
        that what was done by the first is the reason to refuse the second, or that the second is denied by a
        rule which is younger than the first.
        """
        world = self._world
        if error == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            topic.is_there = None
        elif error in (ErrorCode.NONE, _DONE_BEFORE[kind]):
            topic.is_there = kind != DELETE
            topic.partitions += GROWTH if kind == GROW else 0
            world.statistics["admin done"] += 1
        elif kind == CREATE and not topic.in_doubt:
            topic.is_there = False

    # -- judgement

    def complaint(self, image: MetadataImage) -> str | None:
        """What of this client's topics is not as it was told."""
        topics = image[TOPICS]
        for topic in self.topics.values():
            topic_id = topics.id_of(topic.name)
            if topic.in_doubt or topic.is_there is None:
                continue
            if topic.is_there != (topic_id is not None):
                return f"{topic} is {'not ' if topic_id is None else ''}there"
            if topic_id is not None:
                count = sum(1 for _ in topics.partitions(topic_id))
                if count != topic.partitions:
                    return f"{topic} has {count} partitions"
        return None


def _delete(name: str) -> m.DeleteTopicsRequest:
    return m.DeleteTopicsRequest(
        topics=(m.DeleteTopicsRequestDeleteTopicState(name=name),), timeout_ms=30_000
    )


def principal_of(number: int) -> str:
    """Who an admin client is where there is an authorizer."""
    return f"User:admin-{number}"


def known_as(world: "World", who: str) -> Principal:
    """Who a client is to the controllers: without an authorizer, nobody."""
    if world.brokers.acl_keeper is None:
        return ANONYMOUS
    return Principal("User", who.removeprefix("User:"))


def enveloped(request: Any, number: int, principal: Principal = ANONYMOUS) -> m.EnvelopeRequest:
    """A client's request, as a broker forwards it."""
    frame = b"".join(KAFKA.encode_request(request.MAX_VERSION, number, "admin", request))
    return m.EnvelopeRequest(
        request_data=frame[4:],
        request_principal=encode_principal(principal),
        client_host_address=b"\x7f\0\0\x01",
    )


def opened(world: "World", response: m.EnvelopeResponse, request: Any) -> Any:
    """The response inside an envelope; None if there is none."""
    if response.error_code != ErrorCode.NONE or response.response_data is None:
        world.statistics[f"envelope error {response.error_code}"] += 1
        return None
    undecoded = KAFKA.read_response(response.response_data)
    return undecoded.decode((request.API_KEY, request.MAX_VERSION))


def _error_of(response: Any) -> int | None:
    """The error of the only topic of a response; None if there is no response."""
    if response is None:
        return None
    for name in ("topics", "results", "responses"):
        parts = getattr(response, name, None)
        if parts:
            error: int = parts[0].error_code
            return error
    return None
