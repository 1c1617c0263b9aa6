"""Topics as kraftd's leader lists and describes them, put together from pages.

A topic of many partitions is in several pages. Where it was deleted and made anew between two of them, which
its id tells, the pages begin with its first partition again.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

from kraftd.cli.options import TOPIC_CHARACTERS_MAX
from kraftd.cli.pages import Listing, ask_pages, is_later_cursor
from kraftd.errors import ErrorCode
from kraftd.metadata.config_schema import ResourceType
from kraftd.metadata.redaction import is_secret_config
from kraftd.protocol.messages import (
    DescribeTopicsRequest,
    DescribeTopicsResponse,
    DescribeTopicsResponsePartition,
    ListConfigsRequest,
    ListConfigsRequestCursor,
    ListConfigsResponse,
    ListTopicsRequest,
    ListTopicsRequestCursor,
    ListTopicsResponse,
    ListTopicsResponseTopic,
)
from kraftd.types import ZERO_UUID, Endpoint, Uuid, uuid_text

Row: TypeAlias = dict[str, Any]

_TOPIC = ResourceType.TOPIC

_NAMES_PER_REQUEST = 128
"""So many of the longest fit into one request, with room to spare."""


# --- all topics, counted


def list_topics(bootstrap: Sequence[Endpoint], timeout_ms: int) -> list[Row]:
    """Every topic, by name; the schema of `topics list`."""
    found: dict[str, Row] = {}

    def take(_: ListTopicsRequest, response: ListTopicsResponse) -> ListTopicsRequest | None:
        for entry in response.topics:
            row, known = _counted(entry), found.get(entry.name)
            if known is not None and known["topic_id"] == row["topic_id"]:
                row = _added(known, row)
            found[entry.name] = row
        cursor = response.next_cursor
        if cursor is None:
            return None
        return ListTopicsRequest(
            ListTopicsRequestCursor(cursor.name, cursor.topic_id, cursor.partition_index)
        )

    listing = Listing("topics", ListTopicsResponse, take, is_later_cursor)
    ask_pages(bootstrap, ListTopicsRequest(), listing, timeout_ms)
    return [found[name] for name in sorted(found)]


def _counted(entry: ListTopicsResponseTopic) -> Row:
    return {
        "topic": entry.name,
        "topic_id": uuid_text(entry.topic_id),
        "partitions": entry.partitions,
        "least_replicas": entry.least_replicas,
        "most_replicas": entry.most_replicas,
        "leaderless": entry.leaderless,
        "under_replicated": entry.under_replicated,
    }


def _added(one: Row, more: Row) -> Row:
    """A topic whose partitions came in two pages."""
    sums = ("partitions", "leaderless", "under_replicated")
    return {
        **one,
        **{name: one[name] + more[name] for name in sums},
        "least_replicas": min(one["least_replicas"], more["least_replicas"]),
        "most_replicas": max(one["most_replicas"], more["most_replicas"]),
    }


# --- some topics, with their partitions


def describe_topics(
    bootstrap: Sequence[Endpoint], names: Sequence[str], timeout_ms: int
) -> tuple[list[Row], list[str]]:
    """Topics in the order of their names, in the schema of `topics describe`; and the names of which there
    is none.
    """
    rows, unknown = describe_partitions(bootstrap, names, timeout_ms)
    for row in rows:
        row["configs"] = _configs_of(bootstrap, row["topic"], timeout_ms)
    return rows, unknown


def describe_partitions(
    bootstrap: Sequence[Endpoint], names: Sequence[str], timeout_ms: int, *, changes: bool = False
) -> tuple[list[Row], list[str]]:
    """As `describe_topics`, but without configs; `changes` as `ask_kraftd` has it."""
    found: dict[str, Row] = {}
    unknown = [name for name in names if len(name) > TOPIC_CHARACTERS_MAX]
    places = {name: at for at, name in enumerate(each for each in names if each not in unknown)}
    wanted = list(places)

    def request_from(at: int, topic_id: Uuid = ZERO_UUID, index: int = 0) -> DescribeTopicsRequest | None:
        some = tuple(wanted[at : at + _NAMES_PER_REQUEST])
        return DescribeTopicsRequest(some, topic_id, index) if some else None

    def take(
        request: DescribeTopicsRequest, response: DescribeTopicsResponse
    ) -> DescribeTopicsRequest | None:
        for entry in response.topics:
            if entry.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                found.pop(entry.name, None)
                unknown.append(entry.name)
                continue
            topic_id = uuid_text(entry.topic_id)
            known = found.get(entry.name)
            before = known["partitions"] if known is not None and known["topic_id"] == topic_id else []
            found[entry.name] = {
                "topic": entry.name,
                "topic_id": topic_id,
                "configs": {},
                "partitions": [*before, *map(_partition, entry.partitions)],
            }
        cursor = response.next_cursor
        if cursor is None:
            return request_from(places[request.names[0]] + len(request.names))
        return request_from(places.get(cursor.name, 0), cursor.topic_id, cursor.partition_index)

    def is_later(request: DescribeTopicsRequest, before: DescribeTopicsRequest) -> bool:
        at, was = places[request.names[0]], places[before.names[0]]
        is_anew = at == was and request.topic_id != before.topic_id
        return is_anew or (at, request.partition_index) > (was, before.partition_index)

    listing = Listing("topics", DescribeTopicsResponse, take, is_later)
    ask_pages(bootstrap, request_from(0), listing, timeout_ms, changes=changes)
    return [found[name] for name in names if name in found], unknown


def _partition(partition: DescribeTopicsResponsePartition) -> Row:
    return {
        "partition": partition.partition_index,
        "leader": partition.leader_id,
        "leader_epoch": partition.leader_epoch,
        "partition_epoch": partition.partition_epoch,
        "replicas": list(partition.replicas),
        "isr": list(partition.isr),
        "elr": list(partition.eligible_leader_replicas),
        "last_known_elr": list(partition.last_known_elr),
        "adding_replicas": list(partition.adding_replicas),
        "removing_replicas": list(partition.removing_replicas),
        "directories": list(map(uuid_text, partition.directories)),
        "leader_recovering": partition.is_leader_recovering,
    }


def _configs_of(bootstrap: Sequence[Endpoint], topic: str, timeout_ms: int) -> dict[str, str | None]:
    """What is set of a topic's configs; None for a secret."""
    found: dict[str, str | None] = {}

    def take(_: ListConfigsRequest, response: ListConfigsResponse) -> ListConfigsRequest | None:
        mine = [entry for entry in response.entries if entry.resource_name == topic]
        for entry in mine:
            found[entry.name] = None if is_secret_config(_TOPIC, entry.name) else entry.value
        cursor = response.next_cursor
        if cursor is None or len(mine) < len(response.entries):
            return None
        return _configs_request(cursor.resource_name, cursor.name)

    listing = Listing("configs", ListConfigsResponse, take, _is_later_config)
    ask_pages(bootstrap, _configs_request(topic, ""), listing, timeout_ms)
    return found


def _is_later_config(request: ListConfigsRequest, before: ListConfigsRequest) -> bool:
    at, was = request.cursor, before.cursor
    return at is not None and was is not None and at.name > was.name


def _configs_request(topic: str, after: str) -> ListConfigsRequest:
    return ListConfigsRequest(_TOPIC, ListConfigsRequestCursor(_TOPIC, topic, after))
