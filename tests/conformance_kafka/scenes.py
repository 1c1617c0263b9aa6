"""What no draw meets in a few hundred operations: scenes, each a few operations that prepare one refusal.

A scene is a generator, so that an operation may depend on what became of those before it. Each has a world:
the settings, and the level of `metadata.version`, that both sides have for it (`WORLDS`). A scene leaves
nothing that `resetting` cannot take away, except in the worlds that have only one.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple, TypeAlias

import msgspec

from kraftd.metadata.feature_levels import (
    ELIGIBLE_LEADER_REPLICAS,
    METADATA_VERSION,
    NEW_CLUSTER_LEVELS,
)
from tests.conformance_kafka.account import Account
from tests.conformance_kafka.acl_requests import ANY_TOPIC
from tests.conformance_kafka.admin_requests import BROKER, GROUP, METRICS, TOPIC, short_names
from tests.conformance_kafka.broker_requests import registration
from tests.conformance_kafka.drawing import TOO_MANY, Body, Drawing
from tests.conformance_kafka.operations import BY_NAME, HERE, Operation

Scene: TypeAlias = Callable[[Account], Iterator[Operation]]

NEWEST = NEW_CLUSTER_LEVELS[METADATA_VERSION]
BEFORE_MUCH = 8
"""A level before SCRAM, directories and delegation tokens."""
ELSEWHERE = "127.0.0.2"
"""An address from which ANONYMOUS may do nothing."""
PUBLISHED_S = 1.5
"""By then Kafka's controller has heard from its own image what was written."""
HALF = TOO_MANY // 2 + 1
ANYTHING: Body = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
"""A filter that meets every ACL."""


def _ask(api: str, version: int = -1, **body: Any) -> Operation:
    return Operation(api, BY_NAME[api].max_version if version < 0 else version, body)


def _registered(account: Account, broker: int, **changes: Any) -> Operation:
    body = registration(Drawing(Random(broker), account, {}), broker)
    return _ask("BrokerRegistration", **{**body, **changes})


def _beat(broker: int, **wants: bool) -> Operation:
    return _ask(
        "BrokerHeartbeat",
        broker_id=broker,
        broker_epoch=f"@epoch:{broker}",
        current_metadata_offset="@end",
        **wants,
    )


def _created(name: str, *replicas: Sequence[int], configs: Sequence[Any] = ()) -> Operation:
    assignments = [
        {"partition_index": index, "broker_ids": [*brokers]} for index, brokers in enumerate(replicas)
    ]
    topic = {
        "name": name,
        "num_partitions": -1,
        "replication_factor": -1,
        "assignments": assignments,
        "configs": [*configs],
    }
    return _ask("CreateTopics", topics=[topic], timeout_ms=60_000)


def of_what_the_cluster_is(_account: Account) -> Iterator[Operation]:
    """DescribeCluster: its errors for who wants to hear of brokers, or of nobody knows whom."""
    yield _ask("DescribeCluster", 0)
    for version in (1, 2):
        for endpoint_type in (1, 3, -1):
            yield _ask("DescribeCluster", version, endpoint_type=endpoint_type)


def what_is_configured(account: Account) -> Iterator[Operation]:
    """DescribeConfigs: what is told of each type of resource, and the errors of what is not there."""
    yield _registered(account, 2)
    yield _beat(2)
    yield _created("t0", (2,), configs=[{"name": "retention.ms", "value": "7"}])
    for kind, name, config, value in (
        (BROKER, "", "log.retention.ms", "9"),
        (GROUP, "g1", "consumer.session.timeout.ms", "50000"),
        (METRICS, "m1", "interval.ms", "1000"),
    ):
        configs = [{"name": config, "config_operation": 0, "value": value}]
        resource = {"resource_type": kind, "resource_name": name, "configs": configs}
        yield _ask("IncrementalAlterConfigs", resources=[resource])
    named = ["retention.ms", "segment.ms", "interval.ms", "no.such.config"]
    after_s = PUBLISHED_S
    for keys in (None, [], named):
        for kind, name in (
            (TOPIC, "t0"),
            (TOPIC, "t1"),
            (TOPIC, "a/b"),
            (TOPIC, ""),
            (BROKER, ""),
            (BROKER, "2"),
            (BROKER, "two"),
            (GROUP, "g1"),
            (METRICS, "m1"),
            (METRICS, "m2"),
            (METRICS, ""),
            (0, "x"),
            (99, "x"),
        ):
            asked = [{"resource_type": kind, "resource_name": name, "configuration_keys": keys}]
            told = _ask("DescribeConfigs", resources=asked, include_synonyms=keys != named)
            yield msgspec.structs.replace(told, after_s=after_s)
            after_s = 0.0


def more_acls_than_go_at_once(_account: Account) -> Iterator[Operation]:
    """DeleteAcls: INVALID_REQUEST of a filter that meets more than an operation may remove."""
    whose = ("User:carol", "User:dave")
    for principal in whose:
        names = (f"acl{number}" for number in range(HALF))
        acls = [{**ANY_TOPIC, "principal": principal, "resource_name": name} for name in names]
        yield _ask("CreateAcls", creations=acls)
    yield _ask("DeleteAcls", filters=[ANYTHING])
    for principal in whose:
        yield _ask("DeleteAcls", filters=[{**ANYTHING, "principal_filter": principal}])


def more_unknown_topics_than_go_at_once(_account: Account) -> Iterator[Operation]:
    """DeleteTopics: UNKNOWN_TOPIC_OR_PARTITION of each of 10,001 names, of which none makes a record."""
    names = short_names(TOO_MANY)
    yield _ask("DeleteTopics", topics=[{"name": name} for name in names], timeout_ms=60_000)
    yield _ask("DeleteTopics", 5, topic_names=names, timeout_ms=60_000)


def more_elections_than_at_once(account: Account) -> Iterator[Operation]:
    """ElectLeaders: POLICY_VIOLATION where each of 10,001 partitions would get another leader."""
    yield from _many_partitions(account)
    yield _beat(3)
    yield _beat(2, want_fence=True)
    yield _ask("ElectLeaders", election_type=1, topic_partitions=None, timeout_ms=60_000)


def more_partitions_than_are_left_at_once(account: Account) -> Iterator[Operation]:
    """UnregisterBroker: POLICY_VIOLATION of a broker that leads 10,001 partitions (`intended`)."""
    yield from _many_partitions(account)
    yield _ask("UnregisterBroker", broker_id=2)


def _many_partitions(account: Account) -> Iterator[Operation]:
    """Of brokers 2 and 3; since only 2 is up, nobody has to choose where they are placed."""
    for broker in (2, 3):
        yield _registered(account, broker)
    yield _beat(2)
    for name in ("many0", "many1"):
        topic = {"name": name, "num_partitions": HALF, "replication_factor": 2}
        yield _ask("CreateTopics", topics=[topic], timeout_ms=60_000)


def a_quota_that_is_used_up(account: Account) -> Iterator[Operation]:
    """THROTTLING_QUOTA_EXCEEDED of whoever creates and deletes; older versions are told to wait only."""
    yield _registered(account, 2)
    yield _beat(2)
    yield _created("t0", (2,))
    yield _quota(remove=False)
    used = _as_anonymous(_created("t1", (2,)))
    yield Operation(used.api, used.version, used.body, used.forwarded, after_s=PUBLISHED_S)
    refused = (
        _created("t2", (2,)),
        _ask("CreatePartitions", topics=[{"name": "t0", "count": 2, "assignments": None}], timeout_ms=60_000),
        _ask("DeleteTopics", topics=[{"name": "t0"}], timeout_ms=60_000),
    )
    for each in refused:
        yield _as_anonymous(each)
    older = {"CreateTopics": 5, "CreatePartitions": 2, "DeleteTopics": 4}
    bodies = (
        refused[0].body,
        {"topics": [{"name": "t0", "count": 2, "assignments": [{"broker_ids": [2]}]}], "timeout_ms": 60_000},
        {"topic_names": ["t1"], "timeout_ms": 60_000},
    )
    for (api, version), body in zip(older.items(), bodies, strict=True):
        yield _as_anonymous(Operation(api, version, body))
    yield _quota(remove=True)
    last = _as_anonymous(_ask("DeleteTopics", topics=[{"name": "t2"}], timeout_ms=60_000))
    yield Operation(last.api, last.version, last.body, last.forwarded, after_s=PUBLISHED_S)


def _quota(*, remove: bool) -> Operation:
    """So little that a partition takes hours."""
    entity = [{"entity_type": "user", "entity_name": "ANONYMOUS"}]
    change = {"key": "controller_mutation_rate", "value": 0.0001, "remove": remove}
    return _ask("AlterClientQuotas", entries=[{"entity": entity, "ops": [change]}])


def _as_anonymous(operation: Operation) -> Operation:
    return Operation(operation.api, operation.version, operation.body, forwarded=True)


def what_is_too_new(account: Account) -> Iterator[Operation]:
    """UNSUPPORTED_VERSION of what an old level does not know."""
    upsertion = {"name": "alice", "mechanism": 1, "iterations": 4096, "salt": "@bytes:00"}
    upsertions = [{**upsertion, "salted_password": f"@bytes:{'00' * 32}"}]
    yield _ask("AlterUserScramCredentials", upsertions=upsertions)
    yield _registered(account, 2)
    yield _beat(2)
    yield _created("t0", (2,))
    partitions = [{"topic_id": "@topic:t0", "partitions": [{"partition_index": 0}]}]
    directories = [{"id": "@id:directory 0 of 2", "topics": partitions}]
    yield _ask("AssignReplicasToDirs", broker_id=2, broker_epoch="@epoch:2", directories=directories)
    yield from _tokens()
    yield CONTROLLER


def _tokens() -> Iterator[Operation]:
    bodies: Mapping[str, Mapping[str, Any]] = {
        "CreateDelegationToken": {"max_lifetime_ms": -1},
        "RenewDelegationToken": {"hmac": "@hmac:0", "renew_period_ms": -1},
        "ExpireDelegationToken": {"hmac": "@hmac:0", "expiry_time_period_ms": -1},
    }
    for api, body in bodies.items():
        yield Operation(api, BY_NAME[api].max_version, body, forwarded=True, principal="alice")


def what_is_off(account: Account) -> Iterator[Operation]:
    """SECURITY_DISABLED, DELEGATION_TOKEN_AUTH_DISABLED, TOPIC_DELETION_DISABLED: nothing is configured."""
    yield _ask("CreateAcls", creations=[{**ANY_TOPIC, "resource_name": "t0"}])
    yield _ask("DeleteAcls", filters=[ANYTHING])
    yield _ask("DescribeAcls", **ANYTHING)
    yield from _tokens()
    yield _registered(account, 2)
    yield _beat(2)
    yield _created("t0", (2,))
    for version in range(BY_NAME["DeleteTopics"].min_version, 6):
        yield _ask("DeleteTopics", version, topic_names=["t0", "nothing"], timeout_ms=60_000)
    topics = [{"topic_id": "@topic:t0"}, {"name": "nothing"}]
    yield _ask("DeleteTopics", topics=topics, timeout_ms=60_000)


def a_stranger(account: Account) -> Iterator[Operation]:
    """CLUSTER_AUTHORIZATION_FAILED of what brokers ask directly, from where nobody may ask it."""
    everything = {
        "resource_type": 4,
        "resource_name": "kafka-cluster",
        "resource_pattern_type": 3,
        "principal": "User:ANONYMOUS",
        "host": HERE,
        "operation": 2,
        "permission_type": 3,
    }
    yield _ask("CreateAcls", creations=[everything])
    yield Operation("DescribeAcls", 3, ANYTHING, after_s=PUBLISHED_S)
    yield _registered(account, 2)
    yield _beat(2)
    yield _created("t0", (2,))
    of_t0 = {"topic_id": "@topic:t0", "partitions": [{"partition_index": 0}]}
    me: Mapping[str, Any] = {"broker_id": 2, "broker_epoch": "@epoch:2"}
    for each in (
        _registered(account, 3),
        _beat(2),
        _ask("AlterPartition", topics=[of_t0], **me),
        _ask("AssignReplicasToDirs", directories=[{"id": "@id:directory 0 of 2", "topics": [of_t0]}], **me),
        _ask("AllocateProducerIds", **me),
        _ask("DescribeAcls", **ANYTHING),
        _ask("UnregisterBroker", broker_id=2),
        _ask("DescribeCluster", endpoint_type=2),
        CONTROLLER,
    ):
        yield Operation(each.api, each.version, each.body, host=ELSEWHERE)


def more_brokers_than_an_upgrade_changes(account: Account) -> Iterator[Operation]:
    """UpdateFeatures: POLICY_VIOLATION of eligible leader replicas, which take a config from each broker."""
    yield _level(0)
    for broker in range(10, 10 + TOO_MANY):
        yield _registered(account, broker, log_dirs=[f"@id:directory of {broker}"])
    for first in (0, HALF):
        names = range(10 + first, min(10 + first + HALF, 10 + TOO_MANY))
        configs = [{"name": "min.insync.replicas", "config_operation": 0, "value": "2"}]
        resources = [
            {"resource_type": BROKER, "resource_name": str(name), "configs": configs} for name in names
        ]
        yield _ask("IncrementalAlterConfigs", resources=resources)
    yield _level(1)


def _level(level: int) -> Operation:
    kind = 1 if level else 2
    update = {"feature": ELIGIBLE_LEADER_REPLICAS, "max_version_level": level, "upgrade_type": kind}
    return _ask("UpdateFeatures", feature_updates=[update])


CONTROLLER = _ask(
    "ControllerRegistration",
    controller_id=1,
    incarnation_id="@id:another life of 1",
    listeners=[{"name": "CONTROLLER", "host": "c1", "port": 9093, "security_protocol": 0}],
)
"""Where it must not succeed: it would take the place of the one that is there."""


class World(NamedTuple):
    """What both sides are started with, and what is played there."""

    name: str
    scenes: tuple[Scene, ...]
    level: int = NEWEST
    settings: Mapping[str, str | None] = {}
    """Beside those of `sides`; None leaves one of these out."""


USUAL = World(
    "usual",
    (
        of_what_the_cluster_is,
        what_is_configured,
        a_quota_that_is_used_up,
        more_acls_than_go_at_once,
        more_unknown_topics_than_go_at_once,
        more_elections_than_at_once,
        more_partitions_than_are_left_at_once,
    ),
)
WORLDS: tuple[World, ...] = (
    USUAL,
    World("old", (what_is_too_new,), BEFORE_MUCH),
    World(
        "bare",
        (what_is_off,),
        settings={
            "authorizer.class.name": None,
            "super.users": None,
            "delegation.token.secret.key": None,
            "delete.topic.enable": "false",
            "min.insync.replicas": "2",
        },
    ),
    World(
        "guarded",
        (a_stranger,),
        settings={"super.users": "User:root", "allow.everyone.if.no.acl.found": "true"},
    ),
    World("full", (more_brokers_than_an_upgrade_changes,)),
)
