"""Answers and records in a form that two sides have in common, and where two of these differ.

What is mapped, each by one rule:

- topic ids, ACL ids and broker epochs are called by the order in which they came (`account`);
- an id of a topic that no record tells of (CreateTopics that only validates) is called so;
- delegation tokens and their HMACs are called by the order in which they were made: an HMAC has to be what
  the secret makes of the id;
- texts of errors are left out, and times are equal if they are less than `TOLERANCE_MS` apart: both sides
  have one clock, and are asked one after the other;
- NoOps are left out, and what a controller writes of itself.

What is compared as a set, since Kafka's own order is that of a hash map or a shuffle:

- within a record: features, listeners, eligible leader replicas;
- the configs of one resource that follow each other, and the resources of a request for configs;
- the levels that UpdateFeatures writes;
- the configs that DescribeConfigs tells of a resource;
- the outcomes of topics in CreateTopics and CreatePartitions, and the new partitions of the latter;
- what a broker's event does to partitions, whose order depends on topic ids;
- what DeleteTopics and DeleteAcls remove and answer, the ACLs that DescribeAcls finds and the reassignments
  that are listed: the order depends on ids, and that of DeleteTopics is shuffled;
- what ElectLeaders answers, if it is asked of all partitions.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from kraftd.records import messages as m
from tests.conformance_kafka.account import Account
from tests.conformance_kafka.operations import Operation

Value = Any
"""JSON, with bytes."""

LEFT_OUT = frozenset({"error_message", "unknown_tags"})
OWN_RECORDS = (m.NoOpRecord, m.RegisterControllerRecord)
EPOCHS = frozenset({"broker_epoch", "epoch"})
SETS_IN_RECORDS = frozenset({"features", "end_points", "eligible_leader_replicas", "last_known_elr"})
CONFIG_APIS = frozenset({"AlterConfigs", "IncrementalAlterConfigs"})
BROKER_EVENTS = frozenset(
    {"AssignReplicasToDirs", "BrokerRegistration", "BrokerHeartbeat", "UnregisterBroker"}
)
SETS_IN_ANSWERS = {
    "AlterConfigs": ("responses",),
    "IncrementalAlterConfigs": ("responses",),
    "CreateTopics": ("topics",),
    "CreatePartitions": ("results",),
    "DeleteTopics": ("responses",),
    "DeleteAcls": ("matching_acls",),
    "DescribeConfigs": ("configs",),
    "DescribeAcls": ("resources", "acls"),
    "ListPartitionReassignments": ("topics", "partitions"),
}
TOLERANCE_MS = 4_000
NO_RECORD_TELLS = "a topic that no record tells of"


class Difference(NamedTuple):
    """Where two sides did not do the same."""

    index: int
    """Of the operation."""
    operation: Operation
    part: str
    """`answer` or `records`, and behind it where in it; or `images`."""
    kafka: Value
    kraftd: Value

    @property
    def kind(self) -> tuple[str, ...]:
        """What stays the same while a script is shrunk: the API, which part, and short values."""
        if self.part == "images":
            return (self.part,)
        values = [repr(each) for each in (self.kafka, self.kraftd) if isinstance(each, bool | int | None)]
        return self.operation.api, self.part.partition(" ")[0], *values

    def __str__(self) -> str:
        return (
            f"operation {self.index}, {self.operation.api}: {self.part}\n"
            f"  {self.operation.line}\n  Kafka:  {shown(self.kafka)}\n  kraftd: {shown(self.kraftd)}"
        )


def answer(operation: Operation, response: Any, account: Account) -> Value:
    """A response as both sides would have it."""
    value = _mapped(msgspec.to_builtins(response, builtin_types=(bytes,)), account)
    if operation.api == "CreateTopics":
        for topic in value["topics"]:
            if isinstance(topic["topic_id"], bytes) and any(topic["topic_id"]):
                topic["topic_id"] = NO_RECORD_TELLS
    names = SETS_IN_ANSWERS.get(operation.api, ())
    if operation.api == "ElectLeaders" and operation.body.get("topic_partitions") is None:
        names = ("replica_election_results", "partition_result")
    return _with_sets(value, names)


def records(operation: Operation, found: Sequence[tuple[int, Any]], account: Account) -> list[Value]:
    """Versions and records as both sides would have them."""
    values: list[Value] = []
    for version, record in found:
        if not isinstance(record, OWN_RECORDS):
            value = _mapped(msgspec.to_builtins(record, builtin_types=(bytes,)), account)
            values.append({"record": record.NAME, "version": version, **_with_sets(value, SETS_IN_RECORDS)})
    in_runs = _sorted_runs(values, _config_run)
    if operation.api in CONFIG_APIS:
        return _sorted_runs(in_runs, _run_of("ConfigRecord", "ClearElrRecord"))
    if operation.api in BROKER_EVENTS:
        return _sorted_runs(in_runs, _run_of("PartitionChangeRecord"))
    if operation.api == "UpdateFeatures":
        return _sorted_runs(in_runs, _run_of("FeatureLevelRecord"))
    if operation.api == "CreatePartitions":
        return _sorted_runs(in_runs, _run_of("PartitionRecord"))
    if operation.api in ("DeleteTopics", "DeleteAcls"):
        return _sorted_runs(in_runs, _run_of("RemoveTopicRecord", "RemoveAccessControlEntryRecord"))
    if operation.api == "ElectLeaders" and operation.body.get("topic_partitions") is None:
        return _sorted_runs(in_runs, _run_of("PartitionChangeRecord"))
    return in_runs


def differing(kafka: Value, kraftd: Value, where: str = "") -> Iterator[str]:
    """Every place where two values differ: names and indexes by dots, empty if they do as a whole."""
    if type(kafka) is type(kraftd):
        if isinstance(kafka, dict) and kafka.keys() == kraftd.keys():
            for name in kafka:
                if not (_is_time(name) and _is_near(kafka[name], kraftd[name])):
                    yield from differing(kafka[name], kraftd[name], f"{where}.{name}" if where else name)
            return
        if isinstance(kafka, list) and len(kafka) == len(kraftd):
            for index, (ours, theirs) in enumerate(zip(kafka, kraftd, strict=True)):
                yield from differing(ours, theirs, f"{where}.{index}" if where else str(index))
            return
    if type(kafka) is not type(kraftd) or kafka != kraftd:
        yield where


def at(value: Value, where: str) -> Value:
    """What is at a place that `differing` told."""
    for step in where.split(".") if where else ():
        value = value[int(step)] if isinstance(value, list) else value[step]
    return value


def shown(value: Value) -> str:
    """A value as one line."""
    return json.dumps(value, default=lambda each: f"@bytes:{each.hex()}")


def _is_time(name: str) -> bool:
    return "timestamp" in name or name == "throttle_time_ms"


def _is_near(kafka_ms: Any, kraftd_ms: Any) -> bool:
    """Whether two times are nearly equal; zero and less mean something of their own."""
    if not (isinstance(kafka_ms, int) and isinstance(kraftd_ms, int)) or min(kafka_ms, kraftd_ms) <= 0:
        return False
    return abs(kafka_ms - kraftd_ms) < TOLERANCE_MS


def _mapped(value: Value, account: Account, name: str = "") -> Value:
    match value:
        case dict():
            return {key: _mapped(each, account, key) for key, each in value.items() if key not in LEFT_OUT}
        case list() | tuple():
            return [_mapped(each, account, name) for each in value]
        case bytes():
            names = account.topic_names, account.acl_names, account.hmac_names
            return next((each[value] for each in names if value in each), value)
        case str() if name == "token_id":
            return account.token_names.get(value, value)
        case int() if name in EPOCHS:
            return account.epoch_names.get(value, value)
    return value


def _with_sets(value: Value, names: Iterable[str]) -> Value:
    match value:
        case dict():
            inner = {key: _with_sets(each, names) for key, each in value.items()}
            return {
                key: sorted(each, key=shown) if key in names and isinstance(each, list) else each
                for key, each in inner.items()
            }
        case list():
            return [_with_sets(each, names) for each in value]
    return value


def _sorted_runs(values: Sequence[Value], run_of: Callable[[Value], object]) -> list[Value]:
    """The values; those that follow each other and are of one run, in an order of their own."""
    out: list[Value] = []
    run: list[Value] = []
    of: object = None
    for value in values:
        now = run_of(value)
        if now is None or now != of:
            out += sorted(run, key=shown)
            run = []
        of = now
        if now is None:
            out.append(value)
        else:
            run.append(value)
    return out + sorted(run, key=shown)


def _config_run(value: Value) -> object:
    if value["record"] != "ConfigRecord":
        return None
    return value["resource_type"], value["resource_name"]


def _run_of(*names: str) -> Callable[[Value], object]:
    return lambda value: names if value["record"] in names else None
