"""What is known about the clusters that a real Kafka wrote is found from headers and control records."""

import shutil
from pathlib import Path

import pytest

from kraftd.logtools.commit import CommitRule, CommitStatus
from kraftd.logtools.finding import find_fleet
from kraftd.logtools.node_files import by_cluster
from kraftd.logtools.problem import ProblemKind
from kraftd.replay.cluster_scan import ClusterSurvey, survey_clusters
from tests.fixtures import klog, klogs
from tests.replay.logs import leader_change, noops, write_node


def survey(*paths: Path) -> ClusterSurvey:
    ((key, nodes),) = by_cluster(find_fleet(paths)[0]).items()
    return survey_clusters(key, nodes)[0]


def test_every_cluster_at_hand_is_found_once() -> None:
    folders = sorted(path for path in klogs().iterdir() if path.is_dir())
    assert len(by_cluster(find_fleet([klogs()])[0])) == len(folders)
    assert len(find_fleet([klogs(), *folders])[0]) == len(find_fleet([klogs()])[0])


def test_59_leaders_and_a_tail_that_one_node_holds() -> None:
    found = survey(klog("kafka-3.5-three-nodes-59-leaders"))
    assert (found.reference.start_offset, found.reference.end_offset) == (0, 30638)
    assert found.reference.node.node_id == 1
    assert len(found.reference.leader_records) == len(found.reference.epochs) == 59
    assert (found.reference.epochs[0].epoch, found.reference.epochs[-1].epoch) == (3, 190)
    assert found.voters == {1, 2, 3}
    assert found.verdict.bounds[0].status_of(30637) is CommitStatus.UNCOMMITTED
    assert found.verdict.bounds[0].status_of(30636) is CommitStatus.COMMITTED
    assert found.problems == ()


def test_an_incomplete_copy_is_reported_for_every_node() -> None:
    found = survey(klog("kafka-3.8-three-nodes-incomplete-export"))
    assert [p.kind for p in found.problems] == [ProblemKind.INCOMPLETE] * 3
    assert "ends at offset 13057, but leader-epoch-checkpoint knows that epoch 5 begins at 16147" in (
        found.problems[0].text
    )
    assert found.verdict.committed_end == 13057


def test_two_segments_are_one_log() -> None:
    found = survey(klog("kafka-4.0-two-segments"))
    assert [file.offset for file in found.reference.node.segments] == [0, 14667]
    assert found.reference.end_offset == 23767
    assert [span.start_offset for span in found.reference.epochs] == [0, 3442, 3612, 14667, 21698]


def test_three_different_ends_of_a_dynamic_quorum() -> None:
    found = survey(klog("generated-kafka-4.3-dynamic-voters"))
    assert [node.end_offset for node in found.nodes] == [1688, 1690, 1691]
    assert len(found.reference.voter_sets) == 5
    assert found.reference.voter_sets[3].voters == {1, 3}
    assert found.verdict.committed_end == 1688
    statuses = [found.verdict.bounds[2].status_of(offset) for offset in (1687, 1688, 1690)]
    assert statuses == [CommitStatus.COMMITTED, CommitStatus.UNKNOWN, CommitStatus.UNCOMMITTED]


def test_one_node_alone_is_unknown_beyond_its_newest_snapshot() -> None:
    found = survey(klog("kafka-3.5-three-nodes-59-leaders") / "node-3")
    assert found.verdict.proof.rule is CommitRule.SNAPSHOT
    assert (found.verdict.committed_end, found.verdict.known) == (28870, False)
    assert "voters 1, 2" in found.verdict.bounds[0].why_unknown


def test_a_directory_below_the_named_one_is_found() -> None:
    found = survey(klog("kafka-3.6-63-topics"))
    assert found.reference.node.directory.endswith("node-1/data")
    assert found.cluster_id == "MkU3OEVBNTcwNTJENDM2Qg"


@pytest.mark.parametrize("cluster", [p.name for p in sorted(klogs().iterdir()) if p.is_dir()])
def test_the_nodes_of_every_cluster_agree(cluster: str) -> None:
    found = survey(klog(cluster))
    assert not any(one.is_parted for row in found.comparisons for one in row)
    assert not [p for p in found.problems if p.kind is ProblemKind.DAMAGED]


def test_a_damaged_node_does_not_decide_anything(tmp_path: Path) -> None:
    cluster = tmp_path / "cluster"
    shutil.copytree(klog("kafka-3.5-three-nodes-59-leaders"), cluster)
    segment = cluster / "node-1" / "__cluster_metadata-0" / "00000000000000000000.log"
    segment.chmod(0o600)
    data = bytearray(segment.read_bytes())
    data[1_000_000] ^= 0xFF
    segment.write_bytes(data)
    found = survey(cluster)
    assert found.reference.node.node_id == 2
    damage = found.problems
    assert [p.kind for p in damage] == [ProblemKind.DAMAGED], "the rest of the log is there and whole"
    assert damage[0].position_bytes <= 1_000_000 < damage[0].position_bytes + 1000
    assert found.verdict.bounds[1].status_of(30636) is not CommitStatus.UNCOMMITTED


def test_two_clusters_under_one_id_are_surveyed_each_by_itself(tmp_path: Path) -> None:
    """A tutorial's id; a second log of the first cluster belongs to it by what it holds."""
    for name, leader in (("a", 1), ("b", 2)):
        log = leader_change(0, 1, leader) + noops(1, leader, 9)
        write_node(tmp_path / name, log, node_id=1, epoch=leader)
    write_node(tmp_path / "c", leader_change(0, 1, 1) + noops(1, 1, 4), node_id=2)
    ((key, nodes),) = by_cluster(find_fleet([tmp_path])[0]).items()
    first, second = survey_clusters(key, nodes)
    assert (first.cluster_id, second.cluster_id) == (
        f"{key} in {tmp_path / 'a'}",
        f"{key} in {tmp_path / 'b'}",
    )
    assert [node.node.home.name for node in first.nodes] == ["a", "c"]
    assert not any(one.is_parted for row in first.comparisons for one in row)
    for found in (first, second):
        [shared] = [p for p in found.problems if p.kind is ProblemKind.DIVERGED]
        assert f"2 clusters share the id {key}" in shared.text
        assert {node.node.cluster_id for node in found.nodes} == {found.cluster_id}


def test_logs_that_share_no_offset_are_not_said_to_agree(tmp_path: Path) -> None:
    write_node(tmp_path / "a", leader_change(0, 1, 1) + noops(1, 1, 9), node_id=1)
    write_node(tmp_path / "b", noops(20, 1, 5), node_id=2, base_offset=20, epochs=((1, 20),))
    found = survey(tmp_path)
    assert found.compared_batches == 0
    assert [p.text for p in found.problems if p.kind is ProblemKind.NOTE] == [
        "shares no offset with the log of node 2: nothing says whether they are of one cluster"
    ]


def test_only_batches_that_both_logs_hold_are_counted_as_compared(tmp_path: Path) -> None:
    log = leader_change(0, 1, 1) + noops(1, 1, 9)
    write_node(tmp_path / "a", log, node_id=1)
    write_node(tmp_path / "b", noops(6, 1, 4), node_id=2, base_offset=6, epochs=((1, 6),))
    assert survey(tmp_path).compared_batches == 4
