"""Up to where to fold: by default no record that may not be committed, and never in silence."""

from pathlib import Path

import pytest

from kraftd.logtools.commit import CommitStatus
from kraftd.logtools.finding import find_fleet
from kraftd.logtools.node_files import by_cluster
from kraftd.logtools.points import NotAPointError, Point, parse_point
from kraftd.records.batch import encode_batch
from kraftd.replay.cluster_scan import ClusterSurvey, survey_clusters
from kraftd.replay.errors import ReplayError
from kraftd.replay.image.fold import fold_task
from kraftd.replay.image.fold_plan import plan_fold
from kraftd.types import OffsetAndEpoch
from tests.fixtures import klog
from tests.replay.logs import NO_OP, START_MS, leader_change, noops, write_manifest, write_node
from tests.unit.logtools.logs import write_snapshot


def survey(*paths: Path) -> ClusterSurvey:
    ((key, nodes),) = by_cluster(find_fleet(paths)[0]).items()
    return survey_clusters(key, nodes)[0]


@pytest.fixture
def export(tmp_path: Path) -> ClusterSurvey:
    """One node of three, ten records, committed below 8 when it was copied."""
    write_node(tmp_path, leader_change(0, 1, 1) + noops(1, 1, 9))
    write_manifest(tmp_path, high_watermark=8, end_offset=10)
    return survey(tmp_path)


def test_an_offset_and_a_time_are_told_apart() -> None:
    assert parse_point("1234") == Point("1234", offset=1234)
    assert parse_point("2023-11-14T22:13:20") == Point("2023-11-14T22:13:20", time_ms=START_MS)
    assert parse_point("2023-11-14T23:13:20+01:00").time_ms == START_MS
    with pytest.raises(NotAPointError, match="neither an offset"):
        parse_point("yesterday")


def test_an_export_is_folded_to_its_high_watermark(export: ClusterSurvey) -> None:
    plan = plan_fold(export, None)
    assert (plan.end_offset, plan.status, plan.notes) == (8, CommitStatus.COMMITTED, ())


def test_asking_beyond_the_committed_end_is_possible_and_said(export: ClusterSurvey) -> None:
    plan = plan_fold(export, parse_point("10"))
    assert (plan.end_offset, plan.status) == (10, CommitStatus.UNKNOWN)
    assert "offsets 8 to 9 are folded in, but may not be committed" in plan.notes[0]


def test_an_offset_beyond_the_log_is_refused(export: ClusterSurvey) -> None:
    with pytest.raises(ReplayError, match="holds offsets 0 to 9"):
        plan_fold(export, parse_point("11"))


def test_a_copy_of_one_node_is_folded_whole_and_marked() -> None:
    plan = plan_fold(survey(klog("kafka-3.5-three-nodes-59-leaders") / "node-3"), None)
    assert (plan.end_offset, plan.status) == (30637, CommitStatus.UNKNOWN)
    assert "offsets 28,870 to 30,636 are folded in, but may not be committed" in plan.notes[0]


def test_an_uncommitted_tail_is_left_out() -> None:
    plan = plan_fold(survey(klog("kafka-3.5-three-nodes-59-leaders")), None)
    assert (plan.end_offset, plan.status) == (30637, CommitStatus.COMMITTED)


def test_an_offset_inside_a_batch_steps_back(tmp_path: Path) -> None:
    write_node(tmp_path, noops(0, 1, 2) + encode_batch(2, 1, START_MS, [NO_OP] * 5), voters=(1,))
    plan = plan_fold(survey(tmp_path), parse_point("4"))
    assert plan.end_offset == 2
    assert "offset 4 lies inside a batch" in plan.notes[0]


def test_a_time_ends_before_the_first_later_batch(tmp_path: Path) -> None:
    times = [0, 10, 30, 20, 40]
    log = b"".join(encode_batch(o, 1, START_MS + t, [NO_OP]) for o, t in enumerate(times))
    write_node(tmp_path, log, voters=(1,))
    found = survey(tmp_path)
    at = Point("then", time_ms=START_MS + 20)
    assert plan_fold(found, at).end_offset == 2
    assert "1 later batches carry a time at or before then" in plan_fold(found, at).notes[0]
    assert plan_fold(found, Point("now", time_ms=START_MS + 99)).end_offset == 5
    assert plan_fold(found, Point("before", time_ms=START_MS - 1)).end_offset == 0


def test_a_node_whose_log_is_sound_is_preferred(tmp_path: Path) -> None:
    log = leader_change(0, 1, 1) + noops(1, 1, 9)
    for node_id in (1, 2, 3):
        write_node(tmp_path / f"node-{node_id}", log, node_id=node_id)
    damaged = bytearray(log)
    damaged[300] ^= 1
    write_node(tmp_path / "node-1", bytes(damaged), node_id=1)
    plan = plan_fold(survey(tmp_path), parse_point("10"))
    assert plan.node.node.node_id == 2


def test_a_log_without_its_beginning_needs_a_snapshot(tmp_path: Path) -> None:
    write_node(tmp_path, noops(5, 1, 5), base_offset=5, epochs=((1, 5),), voters=(1,))
    with pytest.raises(ReplayError, match="no snapshot at or below 10 reaches it"):
        plan_fold(survey(tmp_path), None)
    snapshot = tmp_path / "__cluster_metadata-0" / "00000000000000000006-0000000001.checkpoint"
    snapshot.write_bytes(noops(0, 1, 1))
    plan = plan_fold(survey(tmp_path), None)
    assert (plan.snapshot.name, plan.start_offset, plan.end_offset) == (snapshot.name, 6, 10)


def test_the_own_offset_of_a_snapshot_before_the_log_can_be_asked_for(tmp_path: Path) -> None:
    write_node(tmp_path, noops(5, 1, 5), base_offset=5, epochs=((1, 5),), voters=(1,))
    for offset in (3, 6):
        path = tmp_path / "__cluster_metadata-0" / f"{offset:020d}-0000000001.checkpoint"
        path.write_bytes(noops(0, 1, 1))
    plan = plan_fold(survey(tmp_path), parse_point("3"))
    assert (plan.snapshot.offset, plan.start_offset, plan.end_offset) == (3, 3, 3)
    assert plan.status is CommitStatus.COMMITTED
    with pytest.raises(ReplayError, match="holds offsets 5 to 9"):
        plan_fold(survey(tmp_path), parse_point("4"))


def test_a_time_before_the_snapshot_that_a_log_begins_with_has_no_state(tmp_path: Path) -> None:
    """With records behind the snapshot, and with none yet."""
    segment = write_node(tmp_path, noops(5, 1, 5), base_offset=5, epochs=((1, 5),), voters=(1,))
    write_snapshot(segment.parent, OffsetAndEpoch(5, 1), [], START_MS - 10)
    for _ in range(2):
        plan = plan_fold(survey(tmp_path), Point("then", time_ms=START_MS - 10))
        assert (plan.start_offset, plan.end_offset, plan.last_record_at_ms) == (5, 5, START_MS - 10)
        with pytest.raises(ReplayError, match="node 1's log begins at 5, after that time"):
            plan_fold(survey(tmp_path), Point("then", time_ms=START_MS - 11))
        segment.write_bytes(b"")
    with pytest.raises(ReplayError, match="node 1's log is empty, and begins at offset 5"):
        plan_fold(survey(tmp_path), parse_point("4"))


def test_all_of_the_base_snapshot_is_folded_however_large_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Offsets in a snapshot are its own: those of the log, which are wanted, leave none of its parts out."""
    monkeypatch.setattr("kraftd.replay.image.fold.PARTITION_BYTES", 200)
    write_node(tmp_path, noops(500, 1, 5), base_offset=500, epochs=((1, 500),), voters=(1,))
    snapshot = tmp_path / "__cluster_metadata-0" / "00000000000000000500-0000000001.checkpoint"
    snapshot.write_bytes(noops(0, 1, 20))
    task = fold_task(0, "a", plan_fold(survey(tmp_path), None))
    assert sum(piece.end - piece.start for piece in task.base) == snapshot.stat().st_size
    assert {piece.file for piece in task.log} == {"00000000000000000500.log"}
