"""What admins ask: topics, partitions, elections, reassignments, configs, features, quotas, users."""

from typing import Any

from kraftd.metadata.feature_levels import ELIGIBLE_LEADER_REPLICAS, METADATA_VERSION, SUPPORTED
from tests.conformance_kafka.drawing import (
    BAD_NAMES,
    BROKERS,
    NOBODY,
    TOO_MANY,
    TOPICS,
    Body,
    Draw,
    Drawing,
)

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
TOPIC_CONFIGS = (
    ("retention.ms", "1000"),
    ("retention.ms", "-2"),
    ("cleanup.policy", "compact"),
    ("cleanup.policy", "compact,delete"),
    ("cleanup.policy", "compact, delete"),
    ("cleanup.policy", "delete,"),
    ("cleanup.policy", ""),
    ("cleanup.policy", "nonsense"),
    ("min.insync.replicas", "2"),
    ("min.insync.replicas", "0"),
    ("unclean.leader.election.enable", "true"),
    ("unclean.leader.election.enable", "false"),
    ("unclean.leader.election.enable", "true "),
    ("unclean.leader.election.enable", "maybe"),
    ("compression.type", "gzip"),
    ("max.message.bytes", "1000000"),
    ("max.message.bytes", "many"),
    ("segment.bytes", "1"),
    ("no.such.config", "1"),
    ("leader.replication.throttled.replicas", "0:1,1:2"),
    ("leader.replication.throttled.replicas", "0:1, 1:2"),
    ("follower.replication.throttled.replicas", "*"),
)
BROKER_CONFIGS = (
    ("log.retention.ms", "1000"),
    ("log.cleaner.threads", "2"),
    ("min.insync.replicas", "2"),
    ("unclean.leader.election.enable", "false"),
    ("background.threads", "9"),
    ("leader.replication.throttled.rate", "1000"),
)
"""Legal ones: what is not, kraftd's controller refuses and Kafka's does not (`intended`)."""
GROUP_CONFIGS = (
    ("consumer.session.timeout.ms", "50000"),
    ("consumer.session.timeout.ms", "1"),
    ("consumer.heartbeat.interval.ms", "6000"),
    ("no.such.config", "1"),
)
METRICS_CONFIGS = (
    ("metrics", "*"),
    ("interval.ms", "1000"),
    ("interval.ms", "1"),
    ("match", "client_id=a"),
    ("match", "nonsense=["),
    ("no.such.config", "1"),
)
CONFIGS = {
    TOPIC: TOPIC_CONFIGS,
    BROKER: BROKER_CONFIGS,
    GROUP: GROUP_CONFIGS,
    METRICS: METRICS_CONFIGS,
}
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


def create_topics(draw: Drawing) -> Body:
    rng = draw.rng
    topics = []
    for _ in range(rng.choice((1, 1, 2))):
        free = [name for name in TOPICS if name not in draw.account.topics]
        name = rng.choice(free or TOPICS)
        if draw.odd(0.3):
            name = rng.choice((*BAD_NAMES, *TOPICS, "a.b", "a_b"))
        topic: dict[str, Any] = {"name": name, "num_partitions": -1, "replication_factor": -1}
        if draw.odd(0.2):
            topic |= {"num_partitions": rng.choice((0, -2, 1)), "replication_factor": rng.choice((0, -2, 9))}
        size = rng.randint(1, 3)
        indexes: list[int] = [*range(rng.randint(1, 3))]
        if draw.odd(0.2):
            indexes = rng.choice(([1], [0, 2], [0, 0], [-1]))
        topic["assignments"] = [
            {"partition_index": index, "broker_ids": _of_size(draw, size)} for index in indexes
        ]
        if draw.odd(0.2):
            wrong: tuple[Body, ...] = (
                {"replication_factor": 9, "num_partitions": 1},
                {"replication_factor": 1, "num_partitions": 0},
                {"replication_factor": 1, "num_partitions": -2},
                {"replication_factor": 1, "num_partitions": TOO_MANY},
            )
            topic |= {"assignments": [], **rng.choice(wrong)}
        if draw.chance(0.3):
            topic["configs"] = [
                {"name": key, "value": value} for key, value in dict(draw.some(TOPIC_CONFIGS)).items()
            ]
        topics.append(topic)
    return {
        "topics": topics,
        "validate_only": draw.chance(0.08),
        "timeout_ms": draw.patience_ms(is_plain=len(topics) == 1),
    }


def _of_size(draw: Drawing, size: int) -> list[int]:
    if draw.odd(0.3):
        return draw.brokers()
    up = [number for number, broker in draw.account.brokers.items() if not broker.is_fenced]
    return draw.rng.sample(up if len(up) >= size else BROKERS, size)


def delete_topics(draw: Drawing) -> Body:
    topics: list[Body] = []
    for _ in range(draw.rng.choice((1, 1, 1, 2))):
        name = draw.topic()
        topics.append({"topic_id": f"@topic:{name}"} if draw.chance(0.5) else {"name": name})
    if draw.odd(0.3):
        more: tuple[Body, ...] = (*topics, {"name": None}, {"name": "t1", "topic_id": "@topic:t1"})
        topics += [draw.rng.choice(more)] * draw.rng.choice((1, 1, 2))
    return {"topics": topics, "timeout_ms": draw.patience_ms(is_plain=len(topics) == 1)}


def create_partitions(draw: Drawing) -> Body:
    rng = draw.rng
    topics = []
    for name in {draw.topic(): None for _ in range(rng.choice((1, 1, 2)))}:
        known = draw.account.topics.get(name)
        if known is not None and len({len(each.replicas) for each in known.partitions.values()}) > 1:
            continue  # `intended`: replication-factor-while-moving
        there = len(known.partitions) if known else 1
        more = rng.randint(1, 2)
        count = there + (rng.choice((0, -1, -20, 20_000)) if draw.odd(0.3) else more)
        size = len(known.partitions[0].replicas) if known and 0 in known.partitions else 1
        if draw.odd(0.3):
            size, more = rng.choice(((1, more), (2, more), (3, more), (size, more + 1), (size, 0)))
        assignments: list[Body] | None = [{"broker_ids": _of_size(draw, size)} for _ in range(more)]
        if all(broker.is_fenced for broker in draw.account.brokers.values()) and draw.odd(0.5):
            assignments = None  # nobody could say where they would be placed, were somebody up
        topics.append({"name": name, "count": count, "assignments": assignments})
    if draw.odd(0.1):
        topics += topics[:1]
    if draw.odd(0.03):
        topics = [{"name": name, "count": 2, "assignments": None} for name in short_names(TOO_MANY)]
    return {"topics": topics, "timeout_ms": draw.patience_ms(), "validate_only": draw.chance(0.08)}


def short_names(count: int) -> list[str]:
    """Different names, so short that a response holds all of them, and with hashes that lie apart: Kafka's
    controller looks for each from its hash on.
    """
    return [f"{number * 40_503 % (1 << 16):04x}" for number in range(count)]


def elect_leaders(draw: Drawing) -> Body:
    kind = draw.rng.choice((0, 0, 1))
    if draw.odd(0.1):
        kind = draw.rng.choice((2, -1))
    topics: dict[str, list[int]] = {}
    for _ in range(draw.rng.choice((0, 1, 2, 3, 1, 2, 3))):
        name, index, _ = draw.partition()
        if index not in topics.setdefault(name, []) or draw.odd(0.3):
            topics[name].append(index)
    chosen = (
        None if draw.chance(0.1) else [{"topic": name, "partitions": each} for name, each in topics.items()]
    )
    return {"election_type": kind, "topic_partitions": chosen, "timeout_ms": draw.patience_ms()}


def _moved_away(draw: Drawing) -> Body | None:
    """A partition that leaves its leader, which then proposes the ISR that completes the move; None if there
    is no such partition now.
    """
    up = [number for number, each in draw.account.brokers.items() if not (each.is_fenced or each.is_stopping)]
    places = [
        (topic.name, index, partition.leader)
        for topic in draw.account.topics.values()
        for index, partition in topic.partitions.items()
        if partition.leader in up and not partition.is_moving and not partition.elr
    ]
    least = (
        2 if draw.has_elr else 1
    )  # `intended`: eligible-after-a-move, where fewer are left than have to be
    if not places or len(up) <= least:
        return None
    name, index, leader = draw.rng.choice(places)
    target = draw.some([each for each in up if each != leader], least, 2)
    place = f"{name}/{index}"
    in_sync = [{"broker_id": each, "broker_epoch": f"@epoch:{each}"} for each in (leader, *target)]
    proposal = {
        "partition_index": index,
        "leader_epoch": f"@leader-epoch:{place}",
        "new_isr_with_epochs": in_sync,
        "partition_epoch": f"@partition-epoch:{place}",
    }
    topics = [{"topic_id": f"@topic:{name}", "partitions": [proposal]}]
    body = {"broker_id": leader, "broker_epoch": f"@epoch:{leader}", "topics": topics}
    draw.pending.append(draw.operation("AlterPartition", body))
    return {"topics": [{"name": name, "partitions": [{"partition_index": index, "replicas": target}]}]}


def reassign(draw: Drawing) -> Body:
    if not draw.is_odd and draw.chance(0.15) and (moved := _moved_away(draw)) is not None:
        return moved
    topics: dict[str, list[Body]] = {}
    for _ in range(draw.rng.choice((1, 1, 2))):
        name, index, partition = draw.partition()
        if draw.has_elr and partition is not None and {*partition.isr, *partition.elr} & {*partition.adding}:
            continue  # `intended`: eligible-after-a-move
        target: list[int] | None = draw.brokers(4)
        if partition is not None and draw.has_elr:  # in Kafka who leaves stays eligible
            target = draw.some({*partition.replicas, *draw.brokers()} & {*BROKERS}, 5, 5)
        is_moving = partition is not None and bool(partition.is_moving or partition.elr)
        if is_moving or draw.odd(0.2):  # `intended`: a-move-that-is-changed
            target = None
        if partition is not None and partition.is_moving and not partition.elr and draw.chance(0.4):
            target = [each for each in partition.replicas if each not in partition.removing]  # the same again
        if all(each["partition_index"] != index for each in topics.get(name, ())):
            topics.setdefault(name, []).append({"partition_index": index, "replicas": target})
    return {
        "allow_replication_factor_change": draw.chance(0.8),
        "timeout_ms": draw.patience_ms(),
        "topics": [{"name": name, "partitions": each} for name, each in topics.items()],
    }


def list_reassignments(draw: Drawing) -> Body:
    if draw.chance(0.5):
        return {"topics": None}
    topics = {draw.topic(): [draw.rng.choice((0, 1, 2))] for _ in range(2)}
    return {"topics": [{"name": name, "partition_indexes": each} for name, each in topics.items()]}


def _resources(draw: Drawing) -> list[tuple[int, str]]:
    rng = draw.rng
    choices: list[tuple[int, str]] = []
    for _ in range(rng.choice((1, 1, 2))):
        kind = rng.choice((TOPIC, TOPIC, TOPIC, BROKER, BROKER, GROUP, METRICS))
        name = {
            TOPIC: draw.topic,
            BROKER: lambda: rng.choice(("", "", *map(str, draw.account.brokers))),
            GROUP: lambda: rng.choice(("g1", "g2")),
            METRICS: lambda: rng.choice(("m1", "m2")),
        }[kind]()
        if draw.odd(0.15):
            kind, name = rng.choice(
                (
                    (BROKER, "x"),
                    (BROKER, "-1"),
                    (TOPIC, ""),
                    (GROUP, ""),
                    (METRICS, ""),
                    (LOGGER, "2"),
                    (LOGGER, "x"),
                )
            )
        choices.append((kind, name))
    if draw.odd(0.05):
        return [(rng.choice((0, 1, 3, 64)), "x")]
    return choices if draw.odd(0.2) else [*dict.fromkeys(choices)]


def _configs(draw: Drawing, kind: int) -> list[tuple[str, str]]:
    table = CONFIGS.get(kind, TOPIC_CONFIGS)
    return [*dict(draw.some(table, 1, 2)).items()]


def _too_many_configs(draw: Drawing) -> list[Body]:
    """A resource with more configs than an operation may write; none if no broker is registered."""
    if not draw.account.brokers or not draw.odd(0.03):
        return []
    configs = [{"name": f"x{number}", "value": "1"} for number in range(TOO_MANY)]
    broker = draw.rng.choice([*draw.account.brokers])
    return [{"resource_type": BROKER, "resource_name": str(broker), "configs": configs}]


def alter_incrementally(draw: Drawing) -> Body:
    rng = draw.rng
    if too_many := _too_many_configs(draw):
        return {"resources": too_many}
    resources = []
    for kind, name in _resources(draw):
        configs: list[Body] = []
        for key, value in _configs(draw, kind):
            operation = rng.choice((SET, SET, SET, SET, DELETE, APPEND, SUBTRACT))
            if kind not in (TOPIC, BROKER, GROUP):  # `intended`: lists-of-client-metrics
                operation = SET
            told = None if operation == DELETE else value
            configs.append({"name": key, "config_operation": operation, "value": told})
        resources.append({"resource_type": kind, "resource_name": name, "configs": configs})
    return _validated(draw, {"resources": resources, "validate_only": draw.chance(0.08)})


def alter_configs(draw: Drawing) -> Body:
    if too_many := _too_many_configs(draw):
        return {"resources": too_many}
    resources = [
        {
            "resource_type": kind,
            "resource_name": name,
            "configs": [{"name": key, "value": value} for key, value in _configs(draw, kind)],
        }
        for kind, name in _resources(draw)
    ]
    return _validated(draw, {"resources": resources, "validate_only": draw.chance(0.08)})


def _validated(draw: Drawing, body: Body) -> Body:
    """A request for configs; one that only validates may be about a broker that is not there (`intended`:
    config-of-an-unregistered-broker-validated).
    """
    if not body["validate_only"] or not draw.chance(0.4):
        return body
    configs = [{"name": "background.threads", "value": "9"}]
    return {
        **body,
        "resources": [{"resource_type": BROKER, "resource_name": str(NOBODY), "configs": configs}],
    }


def update_features(draw: Drawing) -> Body:
    rng = draw.rng
    updates: list[dict[str, Any]] = []
    features = draw.some(SUPPORTED, 1, 2)
    if draw.odd(0.2):  # named twice, with levels and types of their own
        features.append(features[0])
    for each in features:
        level = rng.randint(each.min_level, each.max_level)
        if each.name == METADATA_VERSION:
            now = draw.account.features.get(METADATA_VERSION, 0)
            level = rng.choice((now, min(now + 1, each.max_level), now, 7, now - 1))
        if draw.odd(0.3):
            level = rng.choice((99, -1, 0))
        name = "no.such.feature" if draw.odd(0.15) else each.name
        updates.append(
            {"feature": name, "max_version_level": level, "upgrade_type": rng.choice((1, 1, 1, 2, 3, 0))}
        )
    is_dropping = any(  # `intended`: eligible-after-a-downgrade
        each["feature"] == ELIGIBLE_LEADER_REPLICAS and each["max_version_level"] < 1 for each in updates
    )
    return {"feature_updates": updates, "validate_only": is_dropping or draw.chance(0.7)}


ENTITIES: tuple[list[tuple[str, str | None]], ...] = (
    [("user", "alice")],
    [("user", None)],
    [("client-id", "c1")],
    [("client-id", None)],
    [("user", "bob"), ("client-id", "c1")],
    [("client-id", "c1"), ("user", "bob")],
    [("user", None), ("client-id", None)],
    [("ip", "127.0.0.1")],
    [("ip", None)],
)
ODD_ENTITIES: tuple[list[tuple[str, str | None]], ...] = (
    [],
    [("user", "")],
    [("user", "a"), ("user", "b")],
    [("nothing", "x")],
    [("ip", "not an address")],
    [("user", "a"), ("ip", "127.0.0.1")],
    [("ip", "")],
)


QUOTAS = ("producer_byte_rate", "consumer_byte_rate")
"""Not those that slow down who asks here."""


def alter_quotas(draw: Drawing) -> Body:
    rng = draw.rng
    entries = []
    for entity in draw.some(ENTITIES, 1, 2):
        if draw.odd(0.5):
            entity = rng.choice(ODD_ENTITIES)
        operations = []
        for key in draw.some(QUOTAS, 1, 2):
            if entity and entity[0][0] == "ip":
                key = "connection_creation_rate"
            value = rng.choice((1.0, 1000.0, 55.5))
            if draw.odd(0.4):
                key, value = rng.choice(
                    (("no_such_quota", 1.0), (key, 0.0), (key, -1.0), (key, 0.5), (key, 1e30), ("", 1.0))
                )
            operations.append({"key": key, "value": value, "remove": draw.chance(0.3)})
        parts = [{"entity_type": kind, "entity_name": name} for kind, name in entity]
        entries.append({"entity": parts, "ops": operations})
    if draw.odd(0.1):
        entries += entries[:1]
    if draw.odd(0.03):
        both = [{"key": key, "value": 1.0, "remove": False} for key in QUOTAS]
        entries = [
            {"entity": [{"entity_type": "user", "entity_name": f"u{number}"}], "ops": both}
            for number in range(TOO_MANY // len(QUOTAS) + 1)
        ]
    return {"entries": entries, "validate_only": draw.chance(0.08)}


def alter_scram(draw: Drawing) -> Body:
    rng = draw.rng
    users = ("alice", "bob", "carol")
    deletions, upsertions = [], []
    for user in draw.some(users, 1, 2):
        if draw.odd(0.2):
            user = rng.choice(("", "nobody"))
        mechanism = rng.choice((0, 3)) if draw.odd(0.2) else rng.choice((1, 2))
        if ((user, mechanism) in draw.account.scram and draw.chance(0.6)) or draw.odd(0.3):
            deletions.append({"name": user, "mechanism": mechanism})
            if not draw.odd(0.3):
                continue
        upsertions.append(
            {
                "name": user,
                "mechanism": mechanism,
                "iterations": rng.choice((4095, 16385, 0, -1)) if draw.odd(0.4) else rng.choice((4096, 8192)),
                "salt": f"@bytes:{rng.randbytes(8).hex()}",
                "salted_password": f"@bytes:{rng.randbytes(32).hex()}",
            }
        )
    return {"deletions": deletions, "upsertions": upsertions}


ADMIN_REQUESTS: dict[str, tuple[int, Draw]] = {
    "CreateTopics": (10, create_topics),
    "DeleteTopics": (3, delete_topics),
    "CreatePartitions": (5, create_partitions),
    "ElectLeaders": (6, elect_leaders),
    "AlterPartitionReassignments": (8, reassign),
    "ListPartitionReassignments": (3, list_reassignments),
    "IncrementalAlterConfigs": (8, alter_incrementally),
    "AlterConfigs": (4, alter_configs),
    "UpdateFeatures": (3, update_features),
    "AlterClientQuotas": (4, alter_quotas),
    "AlterUserScramCredentials": (4, alter_scram),
}
