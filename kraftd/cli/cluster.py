"""Brokers and topics in a few numbers, for `kraftctl status` and `health`: what is fenced, what is offline.

Every node tells what its own image says; the newest image that answered is believed. The first of many are
named.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from kraftd.cli.survey import Survey
from kraftd.protocol.messages import DescribeNodeResponse

Json: TypeAlias = dict[str, Any]

_FIELDS: Final[Mapping[str, str]] = {
    "active_brokers": "active_broker_count",
    "fenced_brokers": "fenced_broker_count",
    "stopping_brokers": "stopping_broker_count",
    "topics": "topic_count",
    "partitions": "partition_count",
    "offline_partitions": "offline_partition_count",
    "fenced_broker_ids": "fenced_brokers",
    "offline_partition_names": "offline_partitions",
}
"""Key of the schema, and the field of DescribeNode that it is."""

_VALUE_WIDTH: Final = 55
"""What a terminal of 80 columns has room for beside the labels."""

TROUBLES: Final = ("FencedBrokers", "OfflinePartitions")
"""The labels of what somebody should look at."""


def cluster_data(found: Survey) -> Json:
    """What the newest image says, in the schema of `status`; null if nobody answered."""
    responses = [view.response for view in found.reachable if view.response]
    newest = max(responses, key=_age_of, default=None)
    if newest is None:
        return dict.fromkeys(_FIELDS)
    return {key: _plain(getattr(newest, field)) for key, field in _FIELDS.items()}


def _age_of(response: DescribeNodeResponse) -> int:
    return response.applied_offset


def _plain(value: int | tuple[int | str, ...]) -> int | list[int | str]:
    return list(value) if isinstance(value, tuple) else value


def cluster_labels(data: Mapping[str, Any]) -> list[tuple[str, object]]:
    """The labels of a table: none for a cluster that has neither brokers nor topics."""
    if not any(data[key] for key in ("active_brokers", "fenced_brokers", "topics")):
        return []
    pairs: list[tuple[str, object]] = [
        ("ActiveBrokers", _active_text(data)),
        ("Topics", f"{data['topics']}, of {data['partitions']} partitions"),
    ]
    if data["fenced_brokers"]:
        pairs.append(("FencedBrokers", _named(data["fenced_brokers"], data["fenced_broker_ids"])))
    if data["offline_partitions"]:
        names = _named(data["offline_partitions"], data["offline_partition_names"])
        pairs.append(("OfflinePartitions", names))
    return pairs


def _active_text(data: Mapping[str, Any]) -> str:
    stopping = data["stopping_brokers"]
    return f"{data['active_brokers']}" + (f", {stopping} of them shutting down" if stopping else "")


def _named(count: int, names: list[int | str]) -> str:
    """How many there are, with the names of the first of them, as far as a line of a terminal has room."""
    shown = [str(name) for name in names[:1]]
    for name in names[1:]:
        if len(_listed(count, [*shown, str(name)])) > _VALUE_WIDTH:
            break
        shown.append(str(name))
    return _listed(count, shown)


def _listed(count: int, names: Sequence[str]) -> str:
    more = count - len(names)
    return f"{count}: {', '.join([*names, *([f'and {more} more'] if more > 0 else [])])}"
