"""Directories are found and described; whatever is wrong with a small file is said, never raised."""

import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from kraftd.logtools.errors import UnanswerableError
from kraftd.logtools.finding import find_fleet, find_logs
from kraftd.logtools.inspection import inspect_directory
from kraftd.logtools.manifest import manifest_problems
from kraftd.logtools.node_files import NodeFiles, by_cluster
from kraftd.logtools.own_state import own_state, with_own_states
from kraftd.logtools.problem import ProblemKind
from kraftd.logtools.verify import verify
from kraftd.replay.cluster_scan import survey_clusters
from kraftd.storage.filesystem import OsFileSystem
from kraftd.storage.sidecar import SLOT_BYTES, LocalState, encode_slot
from tests.replay.logs import CLUSTER_ID, leader_change, noops, write_manifest, write_node

LOG = leader_change(0, 1, 1) + noops(1, 1, 9)


def only(path: Path) -> NodeFiles:
    (node,) = find_fleet([path])[0]
    return node


def texts(node: NodeFiles) -> list[str]:
    return [f"{p.file}: {p.text}" for p in node.problems]


def exported(node: NodeFiles) -> list[str]:
    return [p.short for p in manifest_problems(node.home, node.manifest)]


def test_a_whole_directory(tmp_path: Path) -> None:
    write_node(tmp_path, LOG, node_id=7, epoch=3)
    node = only(tmp_path)
    assert (node.cluster_id, node.node_id, node.election.epoch) == (CLUSTER_ID, 7, 3)
    assert node.election_voters == (1, 2, 3)
    assert [file.name for file in node.files] == ["00000000000000000000.log"]
    assert node.problems == ()


def test_the_log_directory_itself_may_be_named(tmp_path: Path) -> None:
    write_node(tmp_path, LOG)
    assert only(tmp_path / "__cluster_metadata-0") == only(tmp_path)


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        ("meta.properties", ProblemKind.DAMAGED),
        ("__cluster_metadata-0/quorum-state", ProblemKind.DAMAGED),
        ("__cluster_metadata-0/leader-epoch-checkpoint", ProblemKind.DAMAGED),
    ],
)
def test_a_small_file_of_garbage_is_a_problem(tmp_path: Path, file: str, kind: ProblemKind) -> None:
    write_node(tmp_path, LOG)
    (tmp_path / file).write_bytes(b"\xff\xfe{garbage")
    assert [p.kind for p in only(tmp_path).problems] == [kind]
    (tmp_path / file).unlink()
    assert [(p.kind, p.short) for p in only(tmp_path).problems] == [(ProblemKind.NOTE, f"{file}: missing")]


@pytest.mark.parametrize("name", ["meta.properties", "kraftd.state"])
@pytest.mark.parametrize(
    ("put", "says"),
    [
        (lambda path: path.touch(), ""),
        (os.mkfifo, "is a FIFO, not a file: move it away, and put the file back"),
        (Path.mkdir, "Is a directory"),
    ],
    ids=["empty", "FIFO", "directory"],
)
def test_what_is_wrong_with_a_small_file_is_what_info_says(
    tmp_path: Path, name: str, put: Callable[[Path], None], says: str
) -> None:
    """Of what the start of a node would stumble on, none of the two may know nothing."""
    write_node(tmp_path, LOG)
    (tmp_path / name).unlink(missing_ok=True)
    put(tmp_path / name)
    [told] = [problem for problem in inspect_directory(OsFileSystem(), tmp_path).problems if name in problem]
    [found] = with_own_states(verify([only(tmp_path)]), [own_state(tmp_path)]).logs[0].problems
    assert found.file == name
    assert says in found.text
    assert says in told
    if "directory" not in says:
        assert told.startswith(f"{tmp_path / name}: {found.text}")


def test_a_sound_sidecar_is_no_problem(tmp_path: Path) -> None:
    write_node(tmp_path, LOG)
    slot = encode_slot(1, None, 0, msgspec.msgpack.encode(LocalState()))
    (tmp_path / "kraftd.state").write_bytes(b"\0" * SLOT_BYTES + slot)
    assert with_own_states(verify([only(tmp_path)]), [own_state(tmp_path)]).is_whole


def test_directories_without_a_cluster_id_stay_apart(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_node(tmp_path / name, LOG)
        (tmp_path / name / "meta.properties").unlink()
    assert sorted(by_cluster(find_fleet([tmp_path])[0])) == [str(tmp_path / "a"), str(tmp_path / "b")]


def test_a_missing_path_and_a_path_without_logs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnanswerableError, match="no such directory"):
        find_fleet([tmp_path / "nowhere"])
    with pytest.raises(UnanswerableError, match="no __cluster_metadata-0 directory"):
        find_fleet([tmp_path])


def test_an_export_gives_its_high_watermark(tmp_path: Path) -> None:
    write_node(tmp_path, LOG)
    write_manifest(tmp_path, high_watermark=8, end_offset=10)
    node = only(tmp_path)
    assert node.problems == ()
    survey = survey_clusters("c", [node])[0]
    assert (survey.verdict.committed_end, survey.verdict.known) == (8, True)


def test_an_export_that_lost_or_changed_files_is_reported(tmp_path: Path) -> None:
    segment = write_node(tmp_path, LOG)
    write_manifest(tmp_path, high_watermark=8, end_offset=10)
    segment.write_bytes(LOG[: len(leader_change(0, 1, 1)) + len(noops(1, 1, 2))])
    (tmp_path / "__cluster_metadata-0" / "quorum-state").unlink()
    node = only(tmp_path)
    assert any("in the manifest, but not there" in text for text in exported(node))
    assert any("bytes, but" in text and "were exported" in text for text in exported(node))
    problems = [p.text for p in survey_clusters("c", [node])[0].problems]
    assert "says that 10 ends the log, but the log can be read to 3 only" in problems


def test_an_export_whose_bytes_changed_is_damaged(tmp_path: Path) -> None:
    segment = write_node(tmp_path, LOG)
    write_manifest(tmp_path, high_watermark=8, end_offset=10)
    segment.write_bytes(LOG[:-1] + b"\x01")
    assert any("changed since" in text for text in exported(only(tmp_path)))


def test_a_manifest_cannot_point_outside(tmp_path: Path) -> None:
    write_node(tmp_path / "export", LOG)
    write_manifest(tmp_path / "export", high_watermark=8, end_offset=10)
    manifest = tmp_path / "export" / "manifest.json"
    manifest.write_text(manifest.read_text().replace("meta.properties", "../../etc/passwd"))
    assert any("outside the export" in text for text in exported(only(tmp_path / "export")))


def test_a_manifest_of_another_format_is_a_problem(tmp_path: Path) -> None:
    write_node(tmp_path, LOG)
    write_manifest(tmp_path, high_watermark=8, end_offset=10)
    manifest = tmp_path / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"format": 1', '"format": 2'))
    assert any("reads format 1" in text for text in texts(only(tmp_path)))


def test_a_gap_between_segments_is_an_incomplete_log(tmp_path: Path) -> None:
    write_node(tmp_path, noops(0, 1, 5))
    write_node(tmp_path, noops(8, 1, 5), base_offset=8)
    survey = survey_clusters("c", [only(tmp_path)])[0]
    assert [p.text for p in survey.problems] == ["offsets 5 to 7 are missing before it"]
    assert survey.reference.end_offset == 5, "nothing after the gap is relied on"


@pytest.mark.parametrize("inside", ["__cluster_metadata-0", "__cluster_metadata-0/x"])
def test_the_directory_that_one_stands_in_is_named_by_a_dot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inside: str
) -> None:
    write_node(tmp_path, LOG)
    (tmp_path / "__cluster_metadata-0" / "quorum-state").unlink()
    (tmp_path / inside).mkdir(exist_ok=True)
    monkeypatch.chdir(tmp_path / inside)
    (node,) = find_logs(Path("." if inside.endswith("-0") else ".."))
    assert (node.home, node.cluster_id) == (tmp_path, CLUSTER_ID)
    assert texts(node) == ["__cluster_metadata-0/quorum-state: missing"]
