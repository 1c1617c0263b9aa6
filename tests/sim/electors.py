"""Who asks for elections? Somebody who gives preferred leaders their partitions back, of all or of a topic.

An `Elector` sends one ElectLeaders at a time through a broker, as `kafka-leader-election` does. Elections
keep what every change of a partition has to keep, which is judged record by record; here is judged what each
partition is told. Unclean elections are not asked for: they may lose what was acknowledged.
"""

from random import Random
from typing import TYPE_CHECKING, Any

from kraftd.audit.invariant import Violation
from kraftd.errors import ErrorCode
from kraftd.protocol import messages as m
from tests.sim.admin_clients import ELECT, OPERATOR, enveloped, known_as, opened

if TYPE_CHECKING:
    from tests.sim.world import World

OF_ALL_PART = 0.6
PARTITIONS = (0, 1, 5, 40)
"""Of a topic: some that it has mostly, and one that it never has."""
CALLS = 2_000
"""What its calls are noted under."""

OF_THE_WHOLE = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    }
)
OF_ONE = OF_THE_WHOLE | {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    ErrorCode.ELECTION_NOT_NEEDED,
}
"""What may be told of a partition; anything else is a bug of somebody."""


class Elector:
    """One client that asks for elections."""

    def __init__(self, world: "World", random: Random) -> None:
        self._world = world
        self._random = random.random
        self._choice = random.choice
        self._asked = 0
        """Requests so far: an answer to an older one comes too late."""

    def start(self) -> None:
        """Begin to ask."""
        self._world.at(int(self._random() * 4 * self._world.brokers.shape.think_us), self._next)

    def _next(self) -> None:
        world = self._world
        if world.is_over:
            return
        self._asked += 1
        asked, request, keeper = self._asked, self._request(), world.brokers.acl_keeper
        denial = None if keeper is None else keeper.denial(OPERATOR, ELECT)
        brokers = [broker for broker in world.brokers.brokers.values() if broker.is_up]

        def done(response: m.EnvelopeResponse) -> None:
            if asked == self._asked:
                told = opened(world, response, request)
                if told is not None:
                    self.judge(request, told)
                    if keeper is not None:
                        keeper.judge(denial, f"{OPERATOR} is told that an election", _outcome(told))

        world.count("call", CALLS)
        if brokers:
            sent = enveloped(request, asked, known_as(world, OPERATOR))
            self._choice(brokers).forward(sent, done, lambda: None)
        self.start()

    def _request(self) -> m.ElectLeadersRequest:
        topics = [name for admin in self._world.brokers.admins for name in admin.topics]
        if not topics or self._random() < OF_ALL_PART:
            return m.ElectLeadersRequest(topic_partitions=None)
        named = m.ElectLeadersRequestTopicPartitions(self._choice(topics), PARTITIONS)
        return m.ElectLeadersRequest(topic_partitions=(named,))

    def judge(self, request: m.ElectLeadersRequest, response: Any) -> None:
        """Look at what became of a request."""
        told = [one.error_code for each in response.replica_election_results for one in each.partition_result]
        for error in told:
            self._world.statistics[f"elect {error}"] += 1
        wanted = OF_ONE
        if request.topic_partitions is None:
            wanted = OF_ONE - {ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        elif len(told) != len(PARTITIONS):
            raise Violation(f"ElectionsAreServed: {len(PARTITIONS)} partitions are told {told}")
        if response.error_code not in OF_THE_WHOLE or not wanted.issuperset(told):
            raise Violation(f"ElectionsAreServed: {request} ends with {response.error_code}, {told}")


def _outcome(response: Any) -> int | None:
    """No error if somebody was elected, and nothing of one that found nothing to do."""
    told = [one.error_code for each in response.replica_election_results for one in each.partition_result]
    is_silent = response.error_code == ErrorCode.NONE and ErrorCode.NONE not in told
    return None if is_silent else int(response.error_code)
