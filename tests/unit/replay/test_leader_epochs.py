"""An epoch of a cluster has one row, wherever the logs begin that hold some of it."""

from pathlib import Path

from rich.console import Console

from kraftd.logtools.finding import find_fleet
from kraftd.logtools.node_files import by_cluster
from kraftd.replay.cluster_scan import ClusterSurvey, survey_clusters
from kraftd.replay.report.cluster_report import Report, cluster_report
from kraftd.replay.report.summary import render
from kraftd.replay.report.survey_tables import LeaderEpoch, leader_epochs
from tests.replay.logs import START_MS, leader_change, noops, write_node


def survey(fleet: Path) -> ClusterSurvey:
    ((key, nodes),) = by_cluster(find_fleet([fleet])[0]).items()
    return survey_clusters(key, nodes)[0]


def write_cut(home: Path, node_id: int, start: int, *, end: int = 1_060, elected_in: int = 4) -> None:
    """A node whose log begins inside epoch 3."""
    log = noops(start, 3, end - start)
    write_node(home, log, node_id=node_id, base_offset=start, epoch=elected_in, epochs=((3, start),))


def write_three_cut(fleet: Path, *, elected_in: int = 4) -> None:
    for node_id, start in ((1, 1_036), (2, 1_046), (3, 1_048)):
        write_cut(fleet / f"node-{node_id}", node_id, start, elected_in=elected_in)


def shown(found: ClusterSurvey) -> str:
    cluster = cluster_report(found, [], 0, (), None)
    console = Console(width=80)
    with console.capture() as captured:
        console.print(render(Report("/srv/tables", None, (cluster,), (), {}, 1, "4.3.0")))
    return captured.get()


def test_logs_that_begin_at_three_offsets_inside_an_epoch_hold_one_epoch(tmp_path: Path) -> None:
    write_three_cut(tmp_path)
    found = survey(tmp_path)
    [row] = leader_epochs(found)
    assert row == LeaderEpoch(
        cluster_id=found.cluster_id,
        epoch=3,
        start_offset=1_036,
        end_offset=1_060,
        leader_id=None,
        voters=(),
        granted_by=(),
        held_by=(1, 2, 3),
        started_at_ms=START_MS + 1_036,
        last_record_at_ms=START_MS + 1_059,
        commit_status="committed",
    )
    assert row.may_begin_before
    text = shown(found)
    assert "no leader is known in epoch 3 " in text
    assert "?  ≤1,036     ≥24  ≤2023-11-14 22:13:21" in text


def test_an_election_file_tells_who_leads_an_epoch_that_the_logs_begin_in(tmp_path: Path) -> None:
    write_three_cut(tmp_path, elected_in=3)
    found = survey(tmp_path)
    assert [(row.epoch, row.leader_id) for row in leader_epochs(found)] == [(3, 1)]
    assert "1 leader in epoch 3: node 1 1x" in shown(found)


def test_an_epoch_begins_where_the_log_says_that_holds_its_leader_change(tmp_path: Path) -> None:
    """Node 1, whose log is the longest, begins later, and node 3 has no more than the beginning."""
    write_cut(tmp_path / "node-1", 1, 1_046, end=1_070)
    whole = noops(1_000, 2, 5) + leader_change(1_005, 3, 2) + noops(1_006, 3, 50)
    write_node(tmp_path / "node-2", whole, node_id=2, base_offset=1_000, epochs=((2, 1_000), (3, 1_005)))
    begun = leader_change(1_005, 3, 2) + noops(1_006, 3, 2)
    write_node(tmp_path / "node-3", begun, node_id=3, base_offset=1_005, epochs=((3, 1_005),))
    found = survey(tmp_path)
    assert found.reference.node.node_id == 1
    rows = [(row.epoch, row.start_offset, row.end_offset, row.leader_id) for row in leader_epochs(found)]
    assert rows == [(2, 1_000, 1_005, None), (3, 1_005, 1_070, 2)]
    assert [row.may_begin_before for row in leader_epochs(found)] == [True, False]
    assert "1 leader in epochs 2 to 3: node 2 1x" in shown(found)


def test_an_epoch_that_only_others_hold_ends_where_the_longest_of_them_does(tmp_path: Path) -> None:
    newest = leader_change(1_050, 4, 2) + noops(1_051, 4, 5)
    write_node(tmp_path / "node-1", newest, node_id=1, base_offset=1_050, epochs=((4, 1_050),))
    write_cut(tmp_path / "node-2", 2, 1_036, end=1_044)
    write_cut(tmp_path / "node-3", 3, 1_040, end=1_050)
    rows = [(row.epoch, row.start_offset, row.end_offset) for row in leader_epochs(survey(tmp_path))]
    assert rows == [(3, 1_036, 1_050), (4, 1_050, 1_056)]


def test_two_leaders_of_one_epoch_are_two_rows(tmp_path: Path) -> None:
    """Which no quorum has, and two logs may: a disk came back as it was, or both ends are damaged."""
    common = leader_change(0, 1, 1) + noops(1, 1, 9)
    longer = common + noops(10, 1, 2)
    for node_id, log, start in ((1, longer, 12), (2, common, 10)):
        log += leader_change(start, 3, node_id) + noops(start + 1, 3, 4)
        write_node(tmp_path / f"node-{node_id}", log, node_id=node_id, epochs=((1, 0), (3, start)))
    rows = [(row.epoch, row.start_offset, row.leader_id) for row in leader_epochs(survey(tmp_path))]
    assert rows == [(1, 0, 1), (3, 10, 2), (3, 12, 1)]
