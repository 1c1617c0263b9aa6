"""AssignReplicasToDirs: a broker tells in which of its log directories replicas are.

A replica in a directory that the broker's registration does not list as online leaves the ISR, with a change
of its own after the one that names the directory. A long request is decided in slices.

Follows: Kafka's handleAssignReplicasToDirs.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Final

from kraftd.controller.context import Context
from kraftd.controller.event_queue import EventClass
from kraftd.controller.operations import Decided, WriteOperation
from kraftd.controller.partitions.broker_changes import without_broker
from kraftd.controller.partitions.election import ElectionKind
from kraftd.controller.partitions.in_sync import is_current
from kraftd.controller.partitions.partition_change_builder import Target
from kraftd.controller.partitions.partition_rules import PartitionRules, has_online_directory
from kraftd.controller.plans import SLICE_RECORDS, Plan
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
from kraftd.records.messages import PartitionChangeRecord, PartitionRecord
from kraftd.types import Uuid

_SLICE_PARTITIONS: Final = SLICE_RECORDS // 2
"""Each has two changes at most."""


def assign_replicas_to_dirs(context: Context, request: AssignReplicasToDirsRequest) -> Decided:
    """The changes that a request leads to."""
    plan = AssignReplicasToDirsPlan(request)
    if plan.partition_count > _SLICE_PARTITIONS:
        return plan
    records, _ = plan.advance(context)
    return records, plan.response()


def refuse(
    _request: AssignReplicasToDirsRequest, error: ErrorCode, _text: str
) -> AssignReplicasToDirsResponse:
    """The response to a request of which nothing was done, or may not have been."""
    return AssignReplicasToDirsResponse(error_code=error)


class AssignReplicasToDirsPlan(Plan):
    """A request that is decided in slices."""

    kind = AssignReplicasToDirsRequest.NAME

    def __init__(self, request: AssignReplicasToDirsRequest) -> None:
        self.partition_count = sum(
            len(topic.partitions) for directory in request.directories for topic in directory.topics
        )
        self._request = request
        self._left = self._every_replica()
        self._error = ErrorCode.NONE
        self._outcomes: list[ErrorCode] = []
        """Of each partition, in the order of the request."""

    def advance(self, context: Context) -> tuple[list[PartitionChangeRecord], bool]:
        """The changes of the next replicas of the request."""
        request = self._request
        if context.image.metadata_version < DIRECTORIES_SINCE:
            self._error = ErrorCode.UNSUPPORTED_VERSION
        elif not is_current(context.image, request.broker_id, request.broker_epoch):
            self._error = ErrorCode.STALE_BROKER_EPOCH
        if self._error is not ErrorCode.NONE:
            return [], True
        replicas = list(islice(self._left, _SLICE_PARTITIONS))
        return self._changes(context, replicas), len(replicas) < _SLICE_PARTITIONS

    def response(self) -> AssignReplicasToDirsResponse:
        """The outcome for each replica."""
        if self._error is not ErrorCode.NONE:
            return AssignReplicasToDirsResponse(error_code=self._error)
        outcomes = iter(self._outcomes)
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

    def _every_replica(self) -> Iterator[tuple[Uuid, Uuid, int]]:
        for directory in self._request.directories:
            for topic in directory.topics:
                for one in topic.partitions:
                    yield directory.id, topic.topic_id, one.partition_index

    def _changes(
        self, context: Context, replicas: list[tuple[Uuid, Uuid, int]]
    ) -> list[PartitionChangeRecord]:
        """The changes of some replicas, given by directory, topic and partition: first where they are, then
        that they are out of sync.
        """
        me, topics = self._request.broker_id, context.image[TOPICS]
        broker = context.image[BROKERS].get(me)
        rules, rules_without_me = PartitionRules(context), PartitionRules(context, without=(me,))
        placed: list[PartitionChangeRecord | None] = []
        offline: dict[tuple[Uuid, int], PartitionRecord] = {}
        for directory, topic_id, partition_id in replicas:
            partition = topics.partition(topic_id, partition_id)
            if partition is None:
                is_known = topics.get(topic_id) is not None
                self._outcomes.append(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_known else ErrorCode.UNKNOWN_TOPIC_ID
                )
            elif me not in partition.replicas:
                self._outcomes.append(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            else:
                self._outcomes.append(ErrorCode.NONE)
                target = Target(directories={me: directory})
                placed.append(rules.change(partition, target, ElectionKind.ONLINE))
                if broker is not None and not has_online_directory(broker, directory):
                    offline[topic_id, partition_id] = partition
        out_of_sync = [
            rules_without_me.change(partition, Target(isr=without_broker(partition.isr, me)))
            for _, partition in sorted(offline.items())
        ]
        return [change for change in (*placed, *out_of_sync) if change is not None]


ASSIGN_REPLICAS_TO_DIRS = WriteOperation(
    AssignReplicasToDirsRequest, assign_replicas_to_dirs, refuse, event_class=EventClass.REPLICAS
)
