"""ElectLeaders: whoever runs the cluster has leaders elected now, of partitions that are named or of all.

A preferred election gives a partition back to its first replica. An unclean one gives a partition that nobody
leads to any replica that is there, whatever its topic allows: it may lose records, and is asked for by hand
alone. What a timer would do later is thus done now, partition by partition, and each is told its outcome.

Follows: electLeaders and electLeader of Kafka's ReplicationControlManager, and the errors of its
ElectLeadersRequest. A request of version 0 has no type, which is the preferred one. A partition that is named
twice is decided twice, on the same image if both are in one slice.
Differs: one request names, or finds in need, 10,000 partitions at most; above, nothing is done
(POLICY_VIOLATION). Kafka counts those that change. A response about all partitions leaves out topics of which
nothing is told; in Kafka's they stand there without partitions.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, islice
from typing import Final, NamedTuple

from kraftd.controller.context import Context
from kraftd.controller.operations import Decided, WriteOperation
from kraftd.controller.partitions.election import ElectionKind
from kraftd.controller.partitions.partition_change_builder import Target
from kraftd.controller.partitions.partition_rules import PartitionRules
from kraftd.controller.partitions.request_plan import Asked, Decide, Outcome, RequestPlan
from kraftd.controller.plans import SLICE_RECORDS, LogLine
from kraftd.controller.response_room import OutcomeRoom, quoted
from kraftd.errors import ErrorCode
from kraftd.metadata.parts.topics import TOPICS
from kraftd.metadata.parts.topics.broker_index import PartitionList
from kraftd.metadata.parts.topics.image import TopicsImage
from kraftd.protocol.limits import OPERATION_RECORDS_MAX
from kraftd.protocol.messages import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    ElectLeadersResponsePartitionResult,
    ElectLeadersResponseReplicaElectionResult,
)
from kraftd.records.messages import PartitionRecord
from kraftd.types import NO_NODE, ZERO_UUID, Uuid

_TOO_MANY: Final = (
    f"Not appended: more than {OPERATION_RECORDS_MAX} partitions in one request. Split it, by topics."
)
_FAILED: Final = "The decision failed, which is a defect of this program; the controller's log says where."


class _Told(NamedTuple):
    """What is told of one partition."""

    partition_id: int
    error: ErrorCode
    text: str | None = None


class _Of(NamedTuple):
    """Partitions of one topic, in the order in which they are told."""

    name: str
    topic_id: Uuid
    """All zero if no topic has that name."""
    partition_ids: Sequence[int]


class _Election(NamedTuple):
    """One type of election that can be asked for."""

    kind: ElectionKind
    is_needed: Callable[[PartitionRecord], bool]
    in_need: tuple[Callable[[TopicsImage], PartitionList], ...]
    """The lists that together hold all partitions of which `is_needed` is true."""
    not_needed: str
    """What is told of the others."""
    error: ErrorCode
    """What is told if it changes nothing."""
    text: str


ELECTIONS: Final[Mapping[int, _Election]] = {
    0: _Election(
        ElectionKind.PREFERRED,
        lambda partition: partition.leader != partition.replicas[0],
        (TopicsImage.partitions_not_preferred, TopicsImage.partitions_without_leader),
        "The preferred replica leads already.",
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        "The preferred replica is not in sync, its broker is not active, or its log directory is offline.",
    ),
    1: _Election(
        ElectionKind.UNCLEAN,
        lambda partition: partition.leader == NO_NODE,
        (TopicsImage.partitions_without_leader,),
        "The partition has a leader.",
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        "No active broker has a replica in a log directory that is online.",
    ),
}
"""By the number that Kafka's ElectionType has on the wire."""


def elect_leaders(context: Context, request: ElectLeadersRequest) -> Decided:
    """The plan of a request."""
    if _is_empty(request):
        return [], ElectLeadersResponse()
    election = ELECTIONS.get(request.election_type)
    if election is None:
        text = f"Election type {request.election_type} is unknown: 0 is preferred, 1 unclean."
        return [], refuse(request, ErrorCode.INVALID_REQUEST, text)
    topics = context.image[TOPICS]
    listed = [each(topics) for each in election.in_need] if request.topic_partitions is None else ()
    if _is_too_long(request) or sum(map(len, listed)) > OPERATION_RECORDS_MAX:
        return [], refuse(request, ErrorCode.POLICY_VIOLATION, _TOO_MANY)
    asked = _named(topics, request) if request.topic_partitions is not None else _listed(topics, listed)
    return ElectLeadersPlan(request, asked, election, context.client.host)


def refuse(request: ElectLeadersRequest, error: ErrorCode, text: str) -> ElectLeadersResponse:
    """The response to a request of which nothing was done, or may not have been.

    The error is that of the response and of each partition: in version 0 there is no other place for it.
    """
    named = (request.topic_partitions or ())[:OPERATION_RECORDS_MAX]
    left, outcomes = OPERATION_RECORDS_MAX, []
    for topic in named:
        told = [_Told(number, error, text) for number in topic.partitions[:left]]
        left -= len(told)
        outcomes.append((topic.topic, told))
    return ElectLeadersResponse(error_code=error, replica_election_results=_results(outcomes))


def _is_empty(request: ElectLeadersRequest) -> bool:
    """Whether it names no topic; with null it asks for all."""
    return request.topic_partitions is not None and not request.topic_partitions


def _is_too_long(request: ElectLeadersRequest) -> bool:
    named = request.topic_partitions or ()
    return max(len(named), sum(len(topic.partitions) for topic in named)) > OPERATION_RECORDS_MAX


def _named(topics: TopicsImage, request: ElectLeadersRequest) -> list[_Of]:
    """What a request names, in its order."""
    return [
        _Of(topic.topic, topics.id_of(topic.topic) or ZERO_UUID, topic.partitions)
        for topic in request.topic_partitions or ()
    ]


def _listed(topics: TopicsImage, listed: Iterable[PartitionList]) -> list[_Of]:
    """The partitions of lists, in the order of their topics' names."""
    ids: defaultdict[Uuid, list[int]] = defaultdict(list)
    for topic_id, partition_id in chain.from_iterable(listed):
        ids[topic_id].append(partition_id)
    known = ((topics.get(topic_id), sorted(numbers)) for topic_id, numbers in ids.items())
    return sorted(_Of(topic.name, topic.topic_id, numbers) for topic, numbers in known if topic is not None)


class ElectLeadersPlan(RequestPlan[str, _Told]):
    """A request, decided in slices. What goes with a partition is the name of its topic."""

    kind = ElectLeadersRequest.NAME

    def __init__(
        self, request: ElectLeadersRequest, asked: Sequence[_Of], election: _Election, host: str
    ) -> None:
        super().__init__(
            [Asked(each.topic_id, number, each.name) for each in asked for number in each.partition_ids],
            SLICE_RECORDS,
        )
        self._is_about_all = request.topic_partitions is None
        self._topics = asked
        self._election = election
        self._host = host

    def complaint(self, context: Context) -> ErrorCode:  # noqa: ARG002 - the image changes nothing of it
        """Nothing can be wrong with the whole request any more."""
        return ErrorCode.NONE

    def decision(self, context: Context) -> Decide[str, _Told]:
        """Who leads a partition from now on."""
        topics, rules, election = context.image[TOPICS], PartitionRules(context), self._election

        def decide(asked: Asked[str]) -> Outcome[_Told]:
            number = asked.partition_id
            partition = topics.partition(asked.topic_id, number)
            if partition is None:
                is_there = topics.get(asked.topic_id) is not None
                name = quoted(asked.what)
                text = (
                    f"Topic {name} has no partition {number}." if is_there else f"There is no topic {name}."
                )
                return Outcome(_Told(number, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text))
            if not election.is_needed(partition):
                return Outcome(_Told(number, ErrorCode.ELECTION_NOT_NEEDED, election.not_needed))
            change = rules.change(partition, Target(), election.kind)
            if change is None:
                return Outcome(_Told(number, election.error, election.text))
            return Outcome(_Told(number, ErrorCode.NONE), change)

        return decide

    def failed(self, asked: Asked[str]) -> _Told:
        """The error of a partition that no decision could be made about."""
        return _Told(asked.partition_id, ErrorCode.UNKNOWN_SERVER_ERROR, _FAILED)

    def response(self) -> ElectLeadersResponse:
        """The outcome for each partition; of all partitions, for those that needed an election."""
        told = iter(self.told)
        outcomes = [(topic.name, list(islice(told, len(topic.partition_ids)))) for topic in self._topics]
        if self._is_about_all:
            needed = ((name, [one for one in of if _was_needed(one)]) for name, of in outcomes)
            outcomes = [(name, of) for name, of in needed if of]
        return ElectLeadersResponse(replica_election_results=_results(outcomes))

    def lines(self) -> Sequence[LogLine]:
        """One line, if a leader was elected."""
        elected = sum(told.error is ErrorCode.NONE for told in self.told)
        if not elected:
            return ()
        fields = {"election": self._election.kind.value, "partitions": elected, "asked_by": self._host}
        return (LogLine("leaders_elected", fields),)


def _was_needed(told: _Told) -> bool:
    """Whether a partition that nobody named was still there by its turn, and needed an election."""
    return told.error not in (ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _results(
    outcomes: Sequence[tuple[str, Sequence[_Told]]],
) -> tuple[ElectLeadersResponseReplicaElectionResult, ...]:
    """The outcomes by topic, with texts as long as there is room for them."""
    room = OutcomeRoom([*(name for name, _ in outcomes), *[""] * sum(len(told) for _, told in outcomes)])
    return tuple(
        ElectLeadersResponseReplicaElectionResult(
            topic=name,
            partition_result=tuple(
                ElectLeadersResponsePartitionResult(
                    one.partition_id, one.error, None if one.text is None else room.text(one.text)
                )
                for one in told
            ),
        )
        for name, told in outcomes
    )


ELECT_LEADERS = WriteOperation(
    ElectLeadersRequest, elect_leaders, refuse, has_timeout=True, is_empty=_is_empty
)
