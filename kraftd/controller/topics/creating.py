"""CreateTopics: topics with their partitions and configs, each as a whole or not at all.

The records of a topic are the topic, its configs, and its partitions; all topics of a request are written
together. A request that only validates is decided in the same way, and writes nothing.

Follows: createTopics of Kafka's ReplicationControlManager and ControllerApis: which errors there are and
which comes first, `-1` for the counts of the configuration file, the configs in force in the result. What has
no other error counts for the client's quota, also where a request only validates.
Differs: a response has room for the configs of some thirty topics; of those beyond, it says that they are not
told (POLICY_VIOLATION, beside the topic's own outcome).
"""

from collections import Counter
from typing import Final

from kraftd.controller.configs.configuration_control import set_at_creation
from kraftd.controller.configs.effective import BrokerConfigs, EffectiveConfig
from kraftd.controller.context import Context
from kraftd.controller.operations import WriteOperation
from kraftd.controller.partitions.by_hand import bad_assignment, check_by_hand
from kraftd.controller.policy_checks import check_topic
from kraftd.controller.refused import RefusedError
from kraftd.controller.response_room import OutcomeRoom, PageRoom, entry_bytes
from kraftd.controller.topics.names import check_new_name
from kraftd.controller.topics.new_partitions import (
    TOO_MANY_PARTITIONS,
    NewPartitions,
    Replicas,
    none_active,
)
from kraftd.controller.topics.topic_ids import new_topic_id
from kraftd.errors import ErrorCode
from kraftd.metadata.acl_kinds import AclOperation, AclResource
from kraftd.metadata.parts.topics import TOPICS
from kraftd.protocol.limits import OPERATION_RECORDS_MAX
from kraftd.protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsRequestCreatableTopic,
    CreateTopicsResponse,
    CreateTopicsResponseCreatableTopicConfigs,
    CreateTopicsResponseCreatableTopicResult,
)
from kraftd.records.frame import AnyRecord
from kraftd.records.messages import TopicRecord
from kraftd.types import METADATA_TOPIC, Uuid

_DEFAULT: Final = -1
_TOO_MANY_TOPICS: Final = (
    "Not appended: one response cannot tell what became of so many topics. Split the request."
)


def create_topics(
    context: Context, request: CreateTopicsRequest
) -> tuple[list[AnyRecord], CreateTopicsResponse]:
    """The records that a request leads to, and its response for when they are committed."""
    times = Counter(topic.name for topic in request.topics)
    outcomes = OutcomeRoom(list(times))
    if not outcomes.holds_all:
        return [], refuse(request, ErrorCode.POLICY_VIOLATION, _TOO_MANY_TOPICS)
    rights = context.rights
    may_create_all = rights.has(AclOperation.CREATE, AclResource.CLUSTER)
    wanted = sum(
        _partitions_wanted(context, topic)
        for topic in request.topics
        if times[topic.name] == 1
        and topic.name != METADATA_TOPIC
        and (may_create_all or rights.has(AclOperation.CREATE, AclResource.TOPIC, topic.name))
    )
    if wanted > OPERATION_RECORDS_MAX:
        return [], refuse(request, ErrorCode.POLICY_VIOLATION, TOO_MANY_PARTITIONS)
    creation = _Creation(context)
    results = []
    for topic in {each.name: each for each in request.topics}.values():
        try:
            if times[topic.name] > 1:
                raise RefusedError(ErrorCode.INVALID_REQUEST, "Each topic may appear only once.")
            if not may_create_all and topic.name != METADATA_TOPIC:
                rights.check(AclOperation.CREATE, AclResource.TOPIC, topic.name)
            results.append(creation.create(topic))
        except RefusedError as refused:
            results.append(_failure(topic.name, refused.code, outcomes.text(str(refused))))
        if len(creation.records) > OPERATION_RECORDS_MAX:
            return [], refuse(request, ErrorCode.POLICY_VIOLATION, TOO_MANY_PARTITIONS)
    records = [] if request.validate_only else creation.records
    throttle_ms = context.mutation_quota.throttle_ms
    return records, CreateTopicsResponse(throttle_time_ms=throttle_ms, topics=tuple(results))


def refuse(request: CreateTopicsRequest, error: ErrorCode, text: str) -> CreateTopicsResponse:
    """The response to topics that were not made, or may not have been, with the error for each."""
    names = list(dict.fromkeys(topic.name for topic in request.topics))
    outcomes = OutcomeRoom(names)
    return CreateTopicsResponse(
        topics=tuple(_failure(name, error, outcomes.text(text)) for name in names[: outcomes.count])
    )


class _Creation:
    """The topics of one request, one after the other. Mutable."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._partitions = NewPartitions(context)
        self._brokers = BrokerConfigs(context.image, context.settings)
        self._ids: set[Uuid] = set()
        self._room = PageRoom()
        self.records: list[AnyRecord] = []

    def create(self, topic: CreateTopicsRequestCreatableTopic) -> CreateTopicsResponseCreatableTopicResult:
        """Add the records of a topic; its outcome.

        Raises:
            RefusedError: It cannot be made. No record was added.
        """
        if topic.name == METADATA_TOPIC:
            raise RefusedError(ErrorCode.INVALID_REQUEST, f"{METADATA_TOPIC} is the controllers' own log.")
        check_new_name(self._context.image[TOPICS], topic.name)
        configs = set_at_creation(self._context, self._brokers, topic.name, topic.configs)
        assignments = self._by_hand(topic) if topic.assignments else self._placed(topic)
        check_topic(
            self._context, topic.name, configs.values, assignments, is_by_hand=bool(topic.assignments)
        )
        self._context.mutation_quota.take(len(assignments))
        topic_id = new_topic_id(self._context, topic.name, self._ids)
        self._ids.add(topic_id)
        self.records.append(TopicRecord(topic.name, topic_id))
        self.records += configs.records
        self.records += [
            self._partitions.record(topic_id, number, replicas) for number, replicas in enumerate(assignments)
        ]
        if not self._context.rights.has(AclOperation.DESCRIBE_CONFIGS, AclResource.TOPIC, topic.name):
            return CreateTopicsResponseCreatableTopicResult(
                name=topic.name,
                topic_id=topic_id,
                error_message=None,
                topic_config_error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            )
        # Thousands of topics in a request: where there is no room for the first one's configs, the others'
        # need not be looked up.
        told = None if self._room.is_full else self._told(self._brokers.topic_configs(configs.values))
        return CreateTopicsResponseCreatableTopicResult(
            name=topic.name,
            topic_id=topic_id,
            error_message=None,
            topic_config_error_code=ErrorCode.NONE if told is not None else ErrorCode.POLICY_VIOLATION,
            num_partitions=len(assignments),
            replication_factor=len(assignments[0]),
            configs=told,
        )

    def _by_hand(self, topic: CreateTopicsRequestCreatableTopic) -> list[Replicas]:
        """The replicas that the request chose, by partition."""
        for field, value in (
            ("replication factor", topic.replication_factor),
            ("number of partitions", topic.num_partitions),
        ):
            if value != _DEFAULT:
                text = f"Replicas are placed by hand, so the {field} must be left at -1, and is {value}."
                raise RefusedError(ErrorCode.INVALID_REQUEST, text)
        found: dict[int, Replicas] = {}
        factor = None
        for assignment in topic.assignments:
            number, replicas = assignment.partition_index, assignment.broker_ids
            if number in found:
                raise bad_assignment(f"Partition {number} appears more than once.")
            check_by_hand(self._context.image, replicas, factor)
            factor = len(replicas)
            if not self._partitions.in_sync(replicas):
                raise none_active(number)
            found[number] = replicas
        if found.keys() != set(range(len(found))):
            raise bad_assignment("Partitions must be numbered from 0 on, without a gap.")
        return [found[number] for number in range(len(found))]

    def _placed(self, topic: CreateTopicsRequestCreatableTopic) -> list[Replicas]:
        """Replicas placed by the controller, by partition."""
        settings = self._context.settings
        replicas, partitions = topic.replication_factor, topic.num_partitions
        if replicas < _DEFAULT or replicas == 0:
            text = f"A replication factor is at least 1, or -1 for the default, not {replicas}."
            raise RefusedError(ErrorCode.INVALID_REPLICATION_FACTOR, text)
        if partitions < _DEFAULT or partitions == 0:
            text = f"A topic has at least 1 partition, or -1 for the default, not {partitions}."
            raise RefusedError(ErrorCode.INVALID_PARTITIONS, text)
        return self._partitions.placed(
            settings.num_partitions if partitions == _DEFAULT else partitions,
            settings.default_replication_factor if replicas == _DEFAULT else replicas,
        )

    def _told(
        self, configs: list[EffectiveConfig]
    ) -> tuple[CreateTopicsResponseCreatableTopicConfigs, ...] | None:
        """The configs in force, None if the response has no room for them."""
        for config in configs:
            if not self._room.add(entry_bytes(config.name, config.value)):
                return None
        return tuple(
            CreateTopicsResponseCreatableTopicConfigs(
                name=config.name,
                value=None if config.is_sensitive else config.value,
                config_source=config.source,
                is_sensitive=config.is_sensitive,
            )
            for config in configs
        )


def _partitions_wanted(context: Context, topic: CreateTopicsRequestCreatableTopic) -> int:
    if topic.assignments:
        return len(topic.assignments)
    return (
        context.settings.num_partitions if topic.num_partitions == _DEFAULT else max(topic.num_partitions, 0)
    )


def _failure(name: str, error: ErrorCode, text: str | None) -> CreateTopicsResponseCreatableTopicResult:
    return CreateTopicsResponseCreatableTopicResult(name=name, error_code=error, error_message=text)


CREATE_TOPICS = WriteOperation(
    CreateTopicsRequest, create_topics, refuse, has_timeout=True, strict_quota_since=6
)
