"""AssignReplicasToDirs: a broker tells in which of its log directories replicas are.

A replica in a directory that the broker's registration does not list as online leaves the ISR, with a change
of its own after the one that names the directory. One line of the log tells of all of a request.

A directory that this start of the broker never had is named by another process, whose whole request is
refused. Broker 3 is started twice, on two machines. The second start is not registered, but reads the epoch
of the first one in the log, and says where its own replicas are. Were it believed, they would leave the ISR,
the first start would say where they really are, and leaders would move back and forth as long as both run.

Follows: Kafka's handleAssignReplicasToDirs.
Differs: Kafka believes the second process.
"""

from collections.abc import Sequence
from itertools import islice
from typing import Final

from kraftd.controller.context import Context
from kraftd.controller.event_queue import EventClass
from kraftd.controller.log_directories import directories_of_another
from kraftd.controller.operations import Decided, WriteOperation
from kraftd.controller.partitions.broker_changes import without_broker
from kraftd.controller.partitions.election import ElectionKind
from kraftd.controller.partitions.in_sync import is_current
from kraftd.controller.partitions.partition_change_builder import Target
from kraftd.controller.partitions.partition_rules import PartitionRules
from kraftd.controller.partitions.request_plan import Asked, Decide, Outcome, RequestPlan
from kraftd.controller.plans import SLICE_RECORDS, LogLine, Refused
from kraftd.controller.sessions import Session
from kraftd.errors import ErrorCode
from kraftd.metadata.feature_levels import DIRECTORIES_SINCE
from kraftd.metadata.parts.brokers import BROKERS
from kraftd.metadata.parts.topics import TOPICS
from kraftd.protocol.messages import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    AssignReplicasToDirsResponseDirectoryData,
    AssignReplicasToDirsResponsePartitionData,
    AssignReplicasToDirsResponseTopicData,
)
from kraftd.records.messages import PartitionChangeRecord
from kraftd.types import NO_NODE, Uuid, uuid_text

_TOLD: Final = 3
"""How many directories of another process are named in the log."""

_SLICE_PARTITIONS: Final = SLICE_RECORDS // 2
"""Each has two changes at most."""


def assign_replicas_to_dirs(context: Context, request: AssignReplicasToDirsRequest) -> Decided:
    """The changes that a request leads to."""
    broker = context.image[BROKERS].get(request.broker_id)
    if broker is None or broker.broker_epoch != request.broker_epoch:
        return AssignReplicasToDirsPlan(request)  # refused like any other request of an earlier start
    session = context.sessions.get(request.broker_id, request.broker_epoch)
    of_another = directories_of_another(broker, session, (each.id for each in request.directories))
    told = list(islice(of_another, _TOLD + 1))
    return _refused(context, request, told, session) if told else AssignReplicasToDirsPlan(request)


def refuse(
    _request: AssignReplicasToDirsRequest, error: ErrorCode, _text: str
) -> AssignReplicasToDirsResponse:
    """The response to a request of which nothing was done, or may not have been."""
    return AssignReplicasToDirsResponse(error_code=error)


def _refused(
    context: Context,
    request: AssignReplicasToDirsRequest,
    of_another: Sequence[Uuid],
    session: Session | None,
) -> Decided:
    """The error makes the sender repeat it, ever more seldom, in vain while another start is registered."""
    response = refuse(request, ErrorCode.STALE_BROKER_EPOCH, "")
    if session is None or session.metadata_offset < 0:
        # Node 2 has just become the active controller. Broker 3 repeats what it told node 1, of a directory
        # that has failed by now; node 2 hears of that in its next heartbeat. Nobody is to be blamed before.
        return (), response
    names = ", ".join(map(uuid_text, of_another[:_TOLD])) + (" and others" if len(of_another) > _TOLD else "")
    reason = f"another process has its node.id: the registered one never had the directories {names}"
    if not context.sessions.is_alive(request.broker_id, request.broker_epoch, context.now.mono_ms):
        reason = (
            f"the registered start never had the directories {names}: if the broker was just restarted with "
            "others, this passes once it is registered"
        )
    fields = {
        "broker": request.broker_id,
        "host": context.client.host,
        "error": ErrorCode.STALE_BROKER_EPOCH.name,
        "reason": reason,
    }
    return Refused(response, LogLine("assignment_refused", fields, is_warning=True, key=request.broker_id))


class AssignReplicasToDirsPlan(RequestPlan[Uuid, ErrorCode]):
    """A request, decided in slices. What is asked of a replica is the directory that it is in."""

    kind = AssignReplicasToDirsRequest.NAME

    def __init__(self, request: AssignReplicasToDirsRequest) -> None:
        asked = [
            Asked(topic.topic_id, one.partition_index, directory.id)
            for directory in request.directories
            for topic in directory.topics
            for one in topic.partitions
        ]
        super().__init__(asked, _SLICE_PARTITIONS)
        self._request = request
        self._lost: dict[tuple[Uuid, int], tuple[Uuid, PartitionChangeRecord]] = {}
        """The directory of each replica that leaves the ISR for it, and that change."""

    def complaint(self, context: Context) -> ErrorCode:
        """Whether another incarnation of the sender is registered, or directories are not known yet."""
        if context.image.metadata_version < DIRECTORIES_SINCE:
            return ErrorCode.UNSUPPORTED_VERSION
        is_ours = is_current(context.image, self._request.broker_id, self._request.broker_epoch)
        return ErrorCode.NONE if is_ours else ErrorCode.STALE_BROKER_EPOCH

    def decision(self, context: Context) -> Decide[Uuid, ErrorCode]:
        """Where a replica is, and then, if that is not online, that it is out of sync."""
        me, topics = self._request.broker_id, context.image[TOPICS]
        broker = context.image[BROKERS].get(me)
        rules, rules_without_me = PartitionRules(context), PartitionRules(context, without=(me,))

        def decide(asked: Asked[Uuid]) -> Outcome[ErrorCode]:
            partition = topics.partition(asked.topic_id, asked.partition_id)
            if partition is None:
                is_known = topics.get(asked.topic_id) is not None
                return Outcome(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_known else ErrorCode.UNKNOWN_TOPIC_ID
                )
            if me not in partition.replicas:
                return Outcome(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            target = Target(directories={me: asked.what})
            placed = rules.change(partition, target, ElectionKind.ONLINE)
            if broker is None or context.leaving.has_online_directory(broker, asked.what):
                return Outcome(ErrorCode.NONE, placed)
            out_of_sync = Target(isr=without_broker(partition.isr, me))
            left = rules_without_me.change(partition, out_of_sync)
            if left is not None:
                self._lost[asked.topic_id, asked.partition_id] = asked.what, left
            return Outcome(ErrorCode.NONE, placed, left)

        return decide

    def lines(self) -> Sequence[LogLine]:
        """What the replicas in directories that are not online cost, if there are any."""
        lost = [each for key, each in self._lost.items() if key not in self.failed_partitions]
        if not lost:
            return ()
        leaders = [change.leader for _, change in lost]
        fields = {
            "broker": self._request.broker_id,
            "epoch": self._request.broker_epoch,
            "directories": sorted({uuid_text(directory) for directory, _ in lost}),
            "partitions": len(lost),
            "new_leaders": sum(leader >= 0 for leader in leaders),
            "offline": leaders.count(NO_NODE),
        }
        return (LogLine("replicas_not_online", fields, is_warning=True, key=self._request.broker_id),)

    def failed(self, asked: Asked[Uuid]) -> ErrorCode:  # noqa: ARG002 - all are told the same
        """The error of a replica that no decision could be made about."""
        return ErrorCode.UNKNOWN_SERVER_ERROR

    def response(self) -> AssignReplicasToDirsResponse:
        """The outcome for each replica."""
        if self.error is not ErrorCode.NONE:
            return AssignReplicasToDirsResponse(error_code=self.error)
        outcomes = iter(self.told)
        return AssignReplicasToDirsResponse(
            directories=tuple(
                AssignReplicasToDirsResponseDirectoryData(
                    directory.id,
                    tuple(
                        AssignReplicasToDirsResponseTopicData(
                            topic.topic_id,
                            tuple(
                                AssignReplicasToDirsResponsePartitionData(one.partition_index, next(outcomes))
                                for one in topic.partitions
                            ),
                        )
                        for topic in directory.topics
                    ),
                )
                for directory in self._request.directories
            )
        )


ASSIGN_REPLICAS_TO_DIRS = WriteOperation(
    AssignReplicasToDirsRequest, assign_replicas_to_dirs, refuse, event_class=EventClass.REPLICAS
)
