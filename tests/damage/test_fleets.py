"""Folders of several nodes: each log is judged, whatever is wrong with another, and no other file is."""

import shutil
from pathlib import Path

import pytest

from kraftd.records import names
from tests.damage.damaged_node import CLUSTER, OTHER_CLUSTER, DamagedNode
from tests.unit.cli.kraftctl import Kraftctl

PARTITION_METADATA = "version: 0\ntopic_id: m6qrZpMMQosgIQP3JXZSuA\n"


@pytest.fixture
def kraftctl(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Kraftctl:
    monkeypatch.chdir(tmp_path)
    return Kraftctl(capsys)


def same_id(home: Path) -> None:
    """Give a node of the other cluster this cluster's id, as a tutorial does."""
    [line] = [
        one
        for one in (CLUSTER / "node-1" / names.META_PROPERTIES).read_text().splitlines()
        if "cluster" in one
    ]
    path = home / names.META_PROPERTIES
    path.write_text(
        "".join(f"{line if 'cluster' in one else one}\n" for one in path.read_text().splitlines())
    )


def test_two_clusters_under_one_id_are_told_apart_by_their_folders(
    kraftctl: Kraftctl, tmp_path: Path
) -> None:
    DamagedNode(tmp_path / "fleet" / "a" / "node-1", CLUSTER / "node-1")
    DamagedNode(tmp_path / "fleet" / "a" / "node-2", CLUSTER / "node-2")
    other = DamagedNode(tmp_path / "fleet" / "b" / "node-3", OTHER_CLUSTER / "node-3")
    same_id(other.home)
    outcome = kraftctl("log", "verify", "fleet", "-o", "json")
    assert outcome.code == 1
    assert [log["is_whole"] for log in outcome.data["logs"]] == [True] * 3
    [problem] = {pair["problem"] for pair in outcome.data["pairs"] if pair["problem"]}
    assert "two clusters that share the id" in problem
    assert all(home in problem for home in ("fleet/a/node-1", "fleet/a/node-2", "fleet/b/node-3"))
    assert not [pair["note"] for pair in outcome.data["pairs"] if pair["note"]]


def test_a_copy_of_a_node_is_no_other_cluster(kraftctl: Kraftctl, tmp_path: Path) -> None:
    DamagedNode(tmp_path / "fleet" / "node-1", CLUSTER / "node-1")
    DamagedNode(tmp_path / "fleet" / "node-1-of-before", CLUSTER / "node-1")
    outcome = kraftctl("log", "verify", "fleet")
    assert outcome.code == 0
    assert "two clusters" not in outcome.out


def test_what_is_missing_of_a_log_is_not_said_to_agree(kraftctl: Kraftctl, tmp_path: Path) -> None:
    for number in (1, 2, 3):
        DamagedNode(tmp_path / "fleet" / f"node-{number}", CLUSTER / f"node-{number}")
    (tmp_path / "fleet" / "node-2" / names.LOG_DIRECTORY / names.segment_name(777)).unlink()
    outcome = kraftctl("log", "verify", "fleet")
    assert outcome.code == 1
    last = outcome.out.splitlines()[-1]
    assert "agree batch by batch where they can be read" in last
    assert "fleet/node-2 from offset 777 to 1247" in last


def test_a_file_that_cannot_be_read_costs_its_own_nodes_verdict_only(
    kraftctl: Kraftctl, tmp_path: Path
) -> None:
    DamagedNode(tmp_path / "fleet" / "node-1", CLUSTER / "node-1")
    damage = DamagedNode(tmp_path / "fleet" / "node-2", CLUSTER / "node-2")
    path = damage.snapshot(738)
    path.unlink()
    path.mkdir()
    outcome = kraftctl("log", "verify", "fleet", "-o", "json")
    one, two = outcome.data["logs"]
    assert (one["is_whole"], two["is_whole"]) == (True, False)
    assert [problem.endswith(f"{path.name}: is a directory, not a file") for problem in two["problems"]] == [
        True
    ]


def test_a_topics_partition_is_no_metadata_log(kraftctl: Kraftctl, tmp_path: Path) -> None:
    node = DamagedNode(tmp_path / "fleet" / "broker" / "node-1", CLUSTER / "node-1")
    partition = tmp_path / "fleet" / "broker" / "data" / "orders-0"
    partition.mkdir(parents=True)
    shutil.copyfile(node.segment(354), partition / names.segment_name(0))
    (partition / names.PARTITION_METADATA).write_text(PARTITION_METADATA)
    assert kraftctl("log", "verify", "fleet").code == 0
    segment = f"fleet/broker/data/orders-0/{names.segment_name(0)}"
    for words in (("verify",), ("dump",), ("state",), ("state", segment)):
        outcome = kraftctl("log", *words[:1], *(words[1:] or ("fleet/broker/data/orders-0",)))
        assert (outcome.code, outcome.out) == (1, "")
        assert outcome.err.count("\n") == 1
        assert "is a partition of a topic, not the metadata log" in outcome.err


def test_damage_between_two_points_is_told_by_diff_and_history(kraftctl: Kraftctl, tmp_path: Path) -> None:
    node = DamagedNode(tmp_path / "node")
    spot = node.flip(2303, 70)
    for words in (("diff", "node", "2303", "2308"), ("history", "node", "broker", "12")):
        outcome = kraftctl("log", *words)
        assert outcome.code == 1, words
        assert (
            f"{spot.path.name} at byte {spot.byte}, offset 2303: the checksum is" in outcome.out + outcome.err
        )


@pytest.mark.parametrize("suffix", [".log", "-0000000001.checkpoint"])
def test_a_name_that_no_offset_can_be_is_told_alike_by_all(
    kraftctl: Kraftctl, tmp_path: Path, suffix: str
) -> None:
    node = DamagedNode(tmp_path / "node")
    path = node.log / ("9" * 20 + suffix)
    path.write_bytes(b"")
    sentence = f"node/{names.LOG_DIRECTORY}/{path.name}: offset {'9' * 20} is out of range\n"
    file = str(path.relative_to(tmp_path))
    for words in (("dump", file), ("state", file), ("history", file, "broker", "12")):
        outcome = kraftctl("log", *words)
        assert outcome.code == 1, words
        assert (outcome.out + outcome.err).count(sentence) == 1, words
    assert sentence.strip() in kraftctl("log", "verify", "node", "-o", "json").data["logs"][0]["problems"]
