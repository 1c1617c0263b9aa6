"""`random-uuid`, `format`, `info`: before the first start, and after the last."""

import json
import shutil
from pathlib import Path

import pytest

from kraftd.net.handshake import Identity
from kraftd.protocol.limits import CLUSTER_ID_BYTES_MAX, HEAD_BYTES_MAX_BEFORE_HANDSHAKE
from kraftd.protocol.msgpack_codec import MSGPACK
from kraftd.types import parse_uuid
from tests.fixtures import klog
from tests.unit.cli.kraftctl import Kraftctl


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "node.properties"
    path.write_text(
        "process.roles=controller\nnode.id=4\ncontroller.quorum.voters=4@localhost:9093\n"
        "listeners=CONTROLLER://localhost:9093\ncontroller.listener.names=CONTROLLER\n"
        f"log.dirs={tmp_path / 'data'}\n"
    )
    return path


def test_a_random_uuid_is_fit_for_a_command_line(kraftctl: Kraftctl) -> None:
    drawn = {kraftctl("random-uuid").out.strip() for _ in range(100)}
    assert len(drawn) == 100
    assert all(len(parse_uuid(text)) == 16 and not text.startswith("-") for text in drawn)
    assert len(kraftctl("random-uuid", "-o", "json").data["uuid"]) == 22


def test_format_makes_what_info_finds(kraftctl: Kraftctl, config: Path, tmp_path: Path) -> None:
    outcome = kraftctl("format", "-c", config, "-t", "my-cluster")
    data = tmp_path / "data"
    assert outcome.code == 0
    assert outcome.out == f"Formatting metadata directory {data} with metadata.version 4.3-IV0.\n"
    found = kraftctl("info", data, "-o", "json")
    assert found.code == 0
    assert found.data["metadata"]["cluster_id"] == "my-cluster"
    assert found.data["metadata"]["node_id"] == 4
    assert len(parse_uuid(found.data["metadata"]["directory_id"])) == 16
    assert found.data["problems"] == []


@pytest.mark.parametrize(
    "cluster_id", ["MkU3OEVBNTcwNTJENDM2Qk", "x", "größer 1", "x" * CLUSTER_ID_BYTES_MAX]
)
def test_any_text_can_be_a_cluster_id_as_in_kafka(
    kraftctl: Kraftctl, config: Path, tmp_path: Path, cluster_id: str
) -> None:
    assert kraftctl("format", "-c", config, "-t", cluster_id).code == 0
    assert kraftctl("info", tmp_path / "data", "-o", "json").data["metadata"]["cluster_id"] == cluster_id
    greeting = b"".join(MSGPACK.encode_request(1, 1, "x", Identity(cluster_id, "x").greeting()))
    assert len(greeting) < HEAD_BYTES_MAX_BEFORE_HANDSHAKE


@pytest.mark.parametrize(
    ("cluster_id", "why"),
    [
        ("", "which is not empty"),
        (" x", "neither begins nor ends with a blank"),
        ("x\ty", "holds no control character"),
        ("ö" * 16_384, "a cluster id of 32768 bytes is longer than nodes can tell each other"),
    ],
)
def test_what_nodes_could_not_tell_each_other_is_no_cluster_id(
    kraftctl: Kraftctl, config: Path, tmp_path: Path, cluster_id: str, why: str
) -> None:
    outcome = kraftctl("format", "-c", config, "-t", cluster_id)
    assert (outcome.code, outcome.err.count("\n")) == (64, 1)
    assert why in outcome.err
    assert not (tmp_path / "data").exists()


def test_a_formatted_directory_is_refused_unless_told(
    kraftctl: Kraftctl, config: Path, tmp_path: Path
) -> None:
    kraftctl("format", "-c", config, "-t", "my-cluster")
    before = (tmp_path / "data" / "meta.properties").read_bytes()
    again = kraftctl("format", "-c", config, "-t", "my-cluster")
    assert again.code == 1
    assert "already formatted" in again.err
    ignored = kraftctl("format", "-c", config, "-t", "my-cluster", "--ignore-formatted", "-o", "json")
    assert ignored.code == 0
    assert (ignored.data["already_formatted"], ignored.data["files"]) == (True, [])
    assert (tmp_path / "data" / "meta.properties").read_bytes() == before


def test_another_clusters_directory_is_never_ignored(kraftctl: Kraftctl, config: Path) -> None:
    kraftctl("format", "-c", config, "-t", "my-cluster")
    outcome = kraftctl("format", "-c", config, "-t", "yours", "--ignore-formatted")
    assert outcome.code == 1
    assert "belongs to node 4 of cluster my-cluster, not to node 4 of cluster yours" in outcome.err


def test_a_dry_run_writes_nothing(kraftctl: Kraftctl, config: Path, tmp_path: Path) -> None:
    outcome = kraftctl("format", "-c", config, "-t", "my-cluster", "--dry-run", "-o", "json")
    assert outcome.code == 0
    assert [Path(file).name for file in outcome.data["files"]] == ["bootstrap.checkpoint", "meta.properties"]
    assert not (tmp_path / "data").exists()


def test_the_environment_overrides_the_file(
    kraftctl: Kraftctl, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KRAFTD_LOG_DIRS", str(tmp_path / "elsewhere"))
    kraftctl("format", "-c", config, "-t", "my-cluster")
    assert (tmp_path / "elsewhere" / "meta.properties").exists()


def test_all_mistakes_of_a_config_are_one_line(kraftctl: Kraftctl, tmp_path: Path) -> None:
    bad = tmp_path / "bad.properties"
    bad.write_text("node.id=x\n")
    outcome = kraftctl("format", "-c", bad, "-t", "my-cluster")
    assert outcome.code == 1
    assert outcome.err.count("\n") == 1
    assert "; node.id: 'x'" in outcome.err
    assert "; listeners: missing" in outcome.err


def test_info_knows_what_kafka_left(kraftctl: Kraftctl) -> None:
    node = klog("generated-kafka-4.3-dynamic-voters") / "node-1"
    for directory in (node, node / "__cluster_metadata-0"):
        outcome = kraftctl("info", directory)
        assert outcome.code == 0
        assert (
            "Found metadata: {cluster.id=stOFWCzIS8aMMyZ69vRxHA, directory.id=bdiOSsLnSP2KHQXC7qr7gQ, "
            in outcome.out
        )
        assert "Found election: {epoch=5, leader.id=2, voted.id=2}" in outcome.out
        assert "Found log: {start.offset=0, end.offset=1688, end.epoch=4, " in outcome.out


def test_problems_are_told_with_byte_and_offset_and_exit_1(kraftctl: Kraftctl, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(klog("generated-kafka-4.3-dynamic-voters") / "node-1", copy)
    segment = copy / "__cluster_metadata-0" / "00000000000000000000.log"
    segment.chmod(0o600)
    data = bytearray(segment.read_bytes())
    data[174 + 70] ^= 1
    segment.write_bytes(data)
    outcome = kraftctl("info", copy)
    assert outcome.code == 0, "a whole snapshot holds what the damaged batch said"
    assert f"{segment} at byte 174 (offset 3): " in outcome.out
    assert "; no loss: the log begins at the snapshot at offset " in outcome.out
    for snapshot in copy.rglob("*.checkpoint"):
        snapshot.unlink()
    before = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    outcome = kraftctl("info", copy)
    assert outcome.code == 1
    assert "Found problem" in outcome.out
    assert f"{segment} at byte 174 (offset 3): " in outcome.out
    assert {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("directory", ["", "no/such"])
def test_what_is_no_nodes_directory_is_a_problem(kraftctl: Kraftctl, tmp_path: Path, directory: str) -> None:
    outcome = kraftctl("info", tmp_path / directory, "-o", "json")
    assert outcome.code == 1
    assert len(json.loads(outcome.out)["problems"]) == 1


def test_a_cluster_for_older_brokers_is_formatted_for_their_release(
    kraftctl: Kraftctl, config: Path, tmp_path: Path
) -> None:
    options = ("--release-version", "4.0.1", "--feature", "group.version=0", "-f", "share.version=1")
    outcome = kraftctl("format", "-c", config, "-t", "my-cluster", *options, "-o", "json")
    assert outcome.code == 0
    assert outcome.data["metadata_version"] == "4.0-IV3"
    assert outcome.data["features"] == {"metadata.version": 25, "share.version": 1, "transaction.version": 2}
    assert (tmp_path / "data" / "bootstrap.checkpoint").exists()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--release-version", "2.8"), "'2.8' is no release that kraftd can run at"),
        (("--feature", "nonsense=1"), "'nonsense' is no feature"),
        (
            ("-f", "transaction.version=1", "-f", "transaction.version=2"),
            "transaction.version is given twice, as 1 and as 2; give it once",
        ),
        (("-r", "4.0", "-f", "metadata.version=25"), "leave one of them out"),
    ],
)
def test_levels_that_no_cluster_can_have_are_one_line_and_nothing_is_written(
    kraftctl: Kraftctl, config: Path, tmp_path: Path, options: tuple[str, ...], why: str
) -> None:
    outcome = kraftctl("format", "-c", config, "-t", "my-cluster", *options)
    assert (outcome.code, outcome.err.count("\n")) == (64, 1)
    assert why in outcome.err
    assert not (tmp_path / "data").exists()
