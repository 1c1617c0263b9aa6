"""Topics are created and deleted: Kafka's own requests to the active controller, and what became of each.

Each topic has an outcome of its own: one that is refused does not keep the others from being made. What
failed is one error that names each topic; what was done is told before it. A change that may have been
appended is never repeated (D-13): somebody else may have changed the same topic since.

Follows: Kafka's CreateTopics (19) and DeleteTopics (20), in whichever version the node serves.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from kraftd.cli.active_controller import ask_controller
from kraftd.cli.client import KafkaConnection, LostError
from kraftd.cli.failures import RefusedError, UsageError
from kraftd.cli.options import NODE_ID_MAX, TOPIC_CHARACTERS_MAX
from kraftd.cli.outcomes import Outcomes, Row, Words, outcomes_of, unknown_outcome
from kraftd.protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsRequestCreatableReplicaAssignment,
    CreateTopicsRequestCreatableTopic,
    CreateTopicsRequestCreatableTopicConfig,
    CreateTopicsResponse,
    CreateTopicsResponseCreatableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsRequestDeleteTopicState,
    DeleteTopicsResponse,
    DeleteTopicsResponseDeletableTopicResult,
)
from kraftd.types import ZERO_UUID, Endpoint, Uuid, uuid_text

_Result: TypeAlias = CreateTopicsResponseCreatableTopicResult | DeleteTopicsResponseDeletableTopicResult

REQUEST_TIMEOUT_MS = 5_000

_BY_ID_SINCE = 6
"""The version of DeleteTopics from which topics may be named by id."""

_LOOK = "topics list"


class Wanted(msgspec.Struct, frozen=True):
    """What the topics to be created shall be like."""

    partitions: int = -1
    replication_factor: int = -1
    """-1: the controller's default, or by the assignments."""
    assignments: tuple[tuple[int, ...], ...] = ()
    """The brokers of each partition's replicas, placed by hand."""
    configs: Mapping[str, str] = {}
    validate_only: bool = False


def create(bootstrap: Sequence[Endpoint], names: Sequence[str], wanted: Wanted, timeout_ms: int) -> Outcomes:
    """Create topics that are all alike."""
    request = _create_request(names, wanted, min(timeout_ms, REQUEST_TIMEOUT_MS))

    def ask(controller: KafkaConnection) -> Outcomes:
        response = _call(controller, request, CreateTopicsResponse, names, request.timeout_ms)
        found = {result.name: result for result in response.topics}
        return _outcomes(names, found, lambda name: _created(found[name], wanted), "created")

    return ask_controller(bootstrap, ask, timeout_ms)


def _create_request(names: Sequence[str], wanted: Wanted, timeout_ms: int) -> CreateTopicsRequest:
    assignments = tuple(
        CreateTopicsRequestCreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
        for index, brokers in enumerate(wanted.assignments)
    )
    configs = tuple(CreateTopicsRequestCreatableTopicConfig(*each) for each in wanted.configs.items())
    return CreateTopicsRequest(
        topics=tuple(
            CreateTopicsRequestCreatableTopic(
                name=name,
                num_partitions=wanted.partitions,
                replication_factor=wanted.replication_factor,
                assignments=assignments,
                configs=configs,
            )
            for name in names
        ),
        timeout_ms=timeout_ms,
        validate_only=wanted.validate_only,
    )


def _created(result: CreateTopicsResponseCreatableTopicResult, wanted: Wanted) -> Row:
    return {
        "topic": result.name,
        "topic_id": _id_or_none(result.topic_id),
        "partitions": result.num_partitions,
        "replication_factor": result.replication_factor,
        "validated_only": wanted.validate_only,
    }


def delete(
    bootstrap: Sequence[Endpoint], names: Sequence[str], topic_ids: Sequence[Uuid], timeout_ms: int
) -> Outcomes:
    """Delete topics, by name or by id."""
    request_timeout_ms = min(timeout_ms, REQUEST_TIMEOUT_MS)
    wanted = [*names, *map(uuid_text, topic_ids)]

    def ask(controller: KafkaConnection) -> Outcomes:
        request = _delete_request(controller, names, topic_ids, request_timeout_ms)
        response = _call(controller, request, DeleteTopicsResponse, wanted, request_timeout_ms)
        found = {**{uuid_text(each.topic_id): each for each in response.responses}}
        found |= {each.name: each for each in response.responses if each.name is not None}
        return _outcomes(wanted, found, lambda name: _deleted(name, found[name]), "deleted")

    return ask_controller(bootstrap, ask, timeout_ms)


def _delete_request(
    controller: KafkaConnection, names: Sequence[str], topic_ids: Sequence[Uuid], timeout_ms: int
) -> DeleteTopicsRequest:
    version = controller.version_of(DeleteTopicsRequest)
    if version is None or version >= _BY_ID_SINCE:
        by_name = [DeleteTopicsRequestDeleteTopicState(name=name) for name in names]
        by_id = [DeleteTopicsRequestDeleteTopicState(topic_id=topic_id) for topic_id in topic_ids]
        return DeleteTopicsRequest(topics=(*by_name, *by_id), timeout_ms=timeout_ms)
    if topic_ids:
        raise RefusedError(f"{controller.endpoint}: it deletes topics by name only; name them")
    return DeleteTopicsRequest(topic_names=tuple(names), timeout_ms=timeout_ms)


def _deleted(wanted: str, result: DeleteTopicsResponseDeletableTopicResult) -> Row:
    return {"topic": result.name or wanted, "topic_id": _id_or_none(result.topic_id)}


def _call(
    controller: KafkaConnection,
    request: CreateTopicsRequest | DeleteTopicsRequest,
    expect: Any,
    names: Sequence[str],
    timeout_ms: int,
) -> Any:
    try:
        return controller.call(request, expect, timeout_ms)
    except LostError as error:
        topics = " and ".join(map(_topic_text, names))
        raise unknown_outcome(f"{topics} was changed", str(error), _LOOK) from error


def _outcomes(
    names: Sequence[str], found: Mapping[str, _Result], row: Callable[[str], Row], done: str
) -> Outcomes:
    results = {name: (each.error_code, each.error_message) for name, each in found.items()}
    return outcomes_of(names, results, row, _topic_text, Words(done, _LOOK))


def _topic_text(name: str) -> str:
    """A topic by its name; one that can have no such name is told, with its beginning, by the node."""
    is_long = len(name) > TOPIC_CHARACTERS_MAX
    return f"a topic with a name of {len(name)} characters" if is_long else f"topic {name}"


def _id_or_none(topic_id: Uuid) -> str | None:
    return None if topic_id == ZERO_UUID else uuid_text(topic_id)


def parse_assignments(text: str) -> tuple[tuple[int, ...], ...]:
    """Read the replicas of each partition, as `kafka-topics --replica-assignment` has them: `1:2,2:3`.

    Raises:
        UsageError: It is something else.
    """
    try:
        found = tuple(tuple(int(broker) for broker in part.split(":")) for part in text.split(","))
    except ValueError:
        found = ()
    if not found or not all(0 <= broker <= NODE_ID_MAX for replicas in found for broker in replicas):
        raise UsageError(f"{text!r} assigns no replicas; write the brokers of each partition, as 1:2,2:3")
    return found
