"""`kraftctl log state` against Kafka's metadata shell, on snapshots that Kafka wrote: the same cluster.

Kafka drops names of configs that it does not define when it loads them (KAFKA-19851). kraftd keeps them, as
the log has them; the comparison lists them by name.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fixtures import klog

from kraftd.metadata.config_table import TOPIC
from kraftd.metadata.feature_levels import metadata_version_name
from tests.interop.peer import HERE, Kafka
from tests.interop.test_both_ways_dump import kraftctl

META = "__cluster_metadata-0"
SNAPSHOTS = {
    "kafka-3.5": ("kafka-3.5-three-nodes-59-leaders", f"node-1/{META}/{28869:020}-{189:010}.checkpoint"),
    "kafka-3.6": ("kafka-3.6-63-topics", f"node-1/data/{META}/{14926:020}-{1:010}.checkpoint"),
    "kafka-4.1": ("kafka-4.1-newest-records", f"node-1/{META}/{7209:020}-{1:010}.checkpoint"),
    "dynamic-voters": (
        "generated-kafka-4.3-dynamic-voters",
        f"node-2/{META}/{1503:020}-{4:010}.checkpoint",
    ),
    "eligible-leader-replicas": (
        "generated-kafka-4.3-eligible-leader-replicas",
        f"node-2/{META}/{1062:020}-{1:010}.checkpoint",
    ),
}
DROPPED = {"kafka-3.6": {"message.timestamp.difference.max.ms": 42}}
"""Which names Kafka drops, and how often they are there."""
_PARTITION = re.compile(r"(\w+)=(\[[^]]*]|[^,()]+)")
_FIELDS = {
    "replicas": "replicas",
    "isr": "isr",
    "removingReplicas": "removingReplicas",
    "addingReplicas": "addingReplicas",
    "elr": "eligibleLeaderReplicas",
    "lastKnownElr": "lastKnownElr",
    "leader": "leader",
    "leaderEpoch": "leaderEpoch",
    "partitionEpoch": "partitionEpoch",
}
"""How the shell calls what a partition's record calls otherwise."""


def shell(kafka: Kafka, snapshot: Path) -> dict[str, Any]:
    """Kafka's image of a snapshot, as its shell prints it."""
    return parsed(kafka.run(HERE / "Shell.java", snapshot, "tree", "/image"))


def parsed(tree: str) -> dict[str, Any]:
    """Directories end with a colon, what is deeper is in them, and a file is a line of text in its own."""
    root: dict[str, Any] = {}
    path: list[tuple[dict[str, Any], str]] = []
    for line in tree.splitlines():
        text = line.lstrip(" ")
        depth = (len(line) - len(text)) // 2
        del path[depth:]
        here = path[-1][0][path[-1][1]] if path else root
        if text.endswith(":"):
            here[text[:-1]] = {}
            path.append((here, text[:-1]))
        else:
            folder, name = path[-1]
            folder[name] = text
    return root


def configs_of(image: dict[str, Any]) -> dict[tuple[str, str, str], str]:
    """Every config of ours: type and name of the resource as the shell writes them, name and value."""
    return {
        (kind.replace("-", "_").upper(), "" if resource == "<default>" else resource, name): value
        for kind, resources in image["configs"].items()
        for resource, configs in resources.items()
        for name, value in configs.items()
    }


def configs_in(tree: dict[str, Any]) -> dict[tuple[str, str, str], str]:
    return {
        (*resource.partition(":")[::2], name): value or ""
        for resource, configs in tree["configs"].items()
        for name, value in configs.items()
    }


def partitions_of(image: dict[str, Any]) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    for topic, parts in image["topics"].items():
        for number, partition in parts.items():
            if number != "id":
                yield (
                    topic,
                    parts["id"],
                    number,
                    {theirs: partition.get(ours, []) for theirs, ours in _FIELDS.items()},
                )


def partitions_in(tree: dict[str, Any]) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    for topic in tree["topics"]["byId"].values():
        for number, text in topic.items():
            if number not in {"id", "name"}:
                found = dict(_PARTITION.findall(text.removeprefix("PartitionRegistration")))
                yield topic["name"], topic["id"], number, {name: json.loads(found[name]) for name in _FIELDS}


def brokers_in(tree: dict[str, Any]) -> dict[str, tuple[int, str, bool, bool]]:
    found = {}
    for node, text in tree["cluster"]["brokers"].items():
        fields = dict(re.findall(r"(\w+)=([\w.-]+)", text))
        found[node] = (
            int(fields["epoch"]),
            fields["incarnationId"],
            fields["fenced"] == "true",
            fields["inControlledShutdown"] == "true",
        )
    return found


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_the_state_is_what_kafkas_shell_shows(kafka: Kafka, name: str) -> None:
    cluster, file = SNAPSHOTS[name]
    snapshot = klog(cluster) / file
    image = json.loads(kraftctl("log", "state", "-o", "json", "--show-secrets", snapshot))["image"]
    tree = shell(kafka, snapshot)

    ours, theirs = configs_of(image), configs_in(tree)
    dropped = sorted(key for key in ours if key not in theirs)
    print(*("dropped by Kafka: " + " ".join(key) for key in dropped), sep="\n")
    assert {key: value for key, value in ours.items() if key in theirs} == theirs
    counts = {config: sum(key[2] == config for key in dropped) for _, _, config in dropped}
    assert counts == DROPPED.get(name, {})
    assert not {config for _, _, config in dropped} & {row.split("|")[0] for row in TOPIC.splitlines()}

    assert sorted(partitions_of(image), key=repr) == sorted(partitions_in(tree), key=repr)
    assert {
        node: (
            broker["brokerEpoch"],
            broker["incarnationId"],
            broker["fenced"],
            broker.get("inControlledShutdown", False),
        )
        for node, broker in image["brokers"].items()
    } == brokers_in(tree)
    assert set(image["controllers"]) == set(tree["cluster"]["controllers"])
    assert set(image["acls"]) == set(tree["acls"]["byId"])
    assert set(image["delegationTokens"]) == set(tree["delegationToken"])
    assert {mechanism: set(users) for mechanism, users in image["scram"].items()} == {
        mechanism: set(users) for mechanism, users in tree["scram"].items() if users
    }
    finalized = {
        feature: int(level)
        for feature, level in (
            (key.partition("finalized_")[2], value) for key, value in tree["features"].items()
        )
        if feature
    }
    level = image["features"].pop("metadata.version")
    assert image["features"] == finalized
    assert tree["features"]["metadataVersion"] == f"Optional[{metadata_version_name(level)}]"
    assert image["producerIds"].get("nextProducerId", -1) == int(tree["producerIds"]["nextProducerId"])
