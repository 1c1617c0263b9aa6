"""The first records of a new cluster, by release and feature: ours against Kafka's `kafka-storage`."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from kraftd.metadata.feature_levels import METADATA_VERSION, SUPPORTED, metadata_version_name
from kraftd.metadata.new_cluster import new_cluster_levels, parse_feature
from kraftd.records.batch import scan
from kraftd.storage.bootstrap import encode_bootstrap
from tests.interop.conftest import HERE
from tests.interop.peer import Kafka

METADATA_LEVELS = next(range(f.min_level, f.max_level + 1) for f in SUPPORTED if f.name == METADATA_VERSION)
RELEASES = [
    "3.2",
    "4.0.1",
    "4.4",
    "nonsense",
    *(f"{major}.{minor}" for major in (3, 4) for minor in range(10)),
]
RELEASES += [metadata_version_name(level) for level in METADATA_LEVELS]
FEATURES = [f"{f.name}={level}" for f in SUPPORTED for level in (0, 1, 2, 3) if f.name != METADATA_VERSION]

CASES: list[tuple[str | None, Sequence[str]]] = [
    (None, []),
    *((release, []) for release in RELEASES),
    *((None, [f"{METADATA_VERSION}={level}"]) for level in (6, 7, 20, 25, 30, 31)),
    *(
        (release, [feature])
        for release in (None, "3.3", "3.9", "4.0-IV0", "4.0", "4.1")
        for feature in FEATURES
    ),
    ("4.0", [f"{METADATA_VERSION}=25"]),
    ("4.0", ["share.version=1", "transaction.version=0", "eligible.leader.replicas.version=1"]),
    (None, ["group.version=1", "group.version=0"]),
    (None, ["group.version"]),
    (None, ["nonsense=1"]),
]


@pytest.fixture(scope="module")
def formatted(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A directory for each case, in which Kafka's tool has done its work."""
    root = tmp_path_factory.mktemp("formats")
    return format_all(kafka, [root / str(number) for number in range(len(CASES))])


def format_all(kafka: Kafka, directories: Sequence[Path]) -> list[Path]:
    for directory, (release, features) in zip(directories, CASES, strict=True):
        directory.mkdir()
        config = directory / "node.properties"
        config.write_text(
            "process.roles=controller\nnode.id=1\ncontroller.quorum.voters=1@localhost:9093\n"
            "listeners=CONTROLLER://localhost:9093\ncontroller.listener.names=CONTROLLER\n"
            f"log.dirs={directory}/data\n"
        )
        options = ["format", "-t", "MkU3OEVBNTcwNTJENDM2Qk", "-c", str(config)]
        options += ["--release-version", release] if release is not None else []
        options += [part for feature in features for part in ("--feature", feature)]
        (directory / "options").write_text("\n".join(options))
    kafka.run(HERE / "Formats.java", *directories)
    return list(directories)


def values_of(checkpoint: bytes) -> list[bytes]:
    return [value for batch in scan(checkpoint) if not batch.is_control for value in batch.values()]


def test_a_new_cluster_begins_with_the_records_that_kafka_writes_or_both_refuse(
    formatted: list[Path],
) -> None:
    refused = 0
    for (release, features), directory in zip(CASES, formatted, strict=True):
        file = directory / "data" / "bootstrap.checkpoint"
        try:
            levels = new_cluster_levels(dict(map(parse_feature, features)), release)
        except ValueError:
            refused += 1
            assert (directory / "refusal").exists(), (release, features)
            assert not file.exists()
        else:
            assert file.exists(), (release, features, (directory / "refusal").read_text())
            assert values_of(encode_bootstrap(levels, 0)) == values_of(file.read_bytes()), (release, features)
    assert 0 < refused < len(CASES) / 2
