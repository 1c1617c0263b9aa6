"""What a node noted in `kraftd.state` is asked of its log: `log verify` calls nothing whole that a start
calls damage, and nothing damage that a running node has not finished writing.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from kraftd.logtools import own_state as module
from kraftd.logtools.finding import find_log
from kraftd.logtools.inspection import inspect_directory
from kraftd.logtools.own_state import own_state, with_own_states
from kraftd.logtools.problem import ProblemKind
from kraftd.logtools.verify import LogVerdict, verify
from kraftd.records import names
from kraftd.records.batch import encode_batch
from kraftd.records.frame import encode_record
from kraftd.records.messages import NoOpRecord
from kraftd.storage import NodeDirectory, OsFileSystem, format_directory
from kraftd.storage.disk import Disk
from kraftd.storage.sidecar import SLOT_BYTES, encode_slot, read_sidecar
from kraftd.types import Election, Epoch, HealthKind, Offset, OffsetAndEpoch
from tests.unit.logtools.logs import orders

FS = OsFileSystem()
LOG = "__cluster_metadata-0"
SEGMENT = f"{LOG}/{0:020}.log"


def run_of(start: Offset, end: Offset, epoch: Epoch = 2) -> list[bytes]:
    """A batch for each offset."""
    return [encode_batch(at, epoch, 1_000 + at, [encode_record(NoOpRecord())]) for at in range(start, end)]


def running(home: Path) -> NodeDirectory:
    """A node that has written and flushed offsets 0 to 2 in epoch 2."""
    home.mkdir(exist_ok=True)
    format_directory(FS, home, cluster_id="c", node_id=1, directory_id=b"d" * 16, now_ms=1)
    node = NodeDirectory.open(FS, home, node_id=1, random_uuid=lambda: os.urandom(16))
    node.write_election(Election(2))
    node.remember_state_health(HealthKind.WHOLE)
    node.log.append(run_of(0, 3), 0, 3)
    node.log.flush()
    return node


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The directory of such a node, which was stopped."""
    running(tmp_path / "node").close()
    return tmp_path / "node"


def judged(home: Path) -> LogVerdict:
    log = find_log(home)
    own = own_state(log.home)
    return with_own_states(verify([log]), [own]).logs[0]


def problems(home: Path) -> list[str]:
    return [str(problem) for problem in judged(home).problems]


def cut_bytes(home: Path) -> None:
    os.truncate(home / SEGMENT, (home / SEGMENT).stat().st_size - 5)


def cut_batch(home: Path) -> None:
    (home / SEGMENT).write_bytes(b"".join(run_of(0, 2)))


def empty_log(home: Path) -> None:
    os.truncate(home / SEGMENT, 0)
    (home / LOG / "leader-epoch-checkpoint").write_bytes(b"0\n0\n")


def no_election(home: Path) -> None:
    (home / LOG / "quorum-state").unlink()


def older_election(home: Path) -> None:
    path = home / LOG / "quorum-state"
    path.write_bytes(path.read_bytes().replace(b'"leaderEpoch":2', b'"leaderEpoch":1'))


def garbage_election(home: Path) -> None:
    (home / LOG / "quorum-state").write_bytes(b"\xff{")


@pytest.mark.parametrize(
    "harm", [cut_bytes, cut_batch, empty_log, no_election, older_election, garbage_election]
)
def test_what_info_calls_damage_is_never_whole(home: Path, harm: Callable[[Path], None]):
    assert (problems(home), inspect_directory(FS, home).problems) == ([], ())
    harm(home)
    assert inspect_directory(FS, home).problems
    assert problems(home)


def test_a_lost_end_is_told_once_with_its_place(home: Path):
    cut_batch(home)
    [problem] = judged(home).problems
    size_bytes = (home / SEGMENT).stat().st_size
    assert (problem.file, problem.position_bytes, problem.offset) == (SEGMENT, size_bytes, 2)
    assert problem.text == "the log ends here, but kraftd.state knows that it was flushed up to offset 3"
    assert (
        "or files were copied one by one while the node ran: copy it with `kraftctl export`" in problem.action
    )


def test_a_batch_that_was_flushed_and_is_cut_was_not_being_written(home: Path):
    cut_bytes(home)
    verdict = judged(home)
    [problem] = verdict.problems
    start = len(b"".join(run_of(0, 2)))
    assert (problem.file, problem.position_bytes, problem.offset) == (SEGMENT, start, 2)
    assert "ends inside a batch, but kraftd.state knows that it was flushed up to offset 3" in problem.text
    assert not any(note.kind is ProblemKind.TORN for note in verdict.notes)


def test_a_batch_that_was_never_flushed_is_a_note(home: Path):
    with (home / SEGMENT).open("ab") as file:
        file.write(run_of(3, 4)[0][:-5])
    verdict = judged(home)
    assert verdict.problems == ()
    assert [note.kind for note in verdict.notes] == [ProblemKind.TORN]


def test_a_forgotten_vote_is_told_and_its_file_not_called_missing(home: Path):
    no_election(home)
    verdict = judged(home)
    [problem] = verdict.problems
    assert problem.short.startswith(
        f"{LOG}/quorum-state: is gone; epoch 2 was written last: a vote may be forgotten; or files were"
    )
    assert verdict.notes == ()


def test_of_a_damaged_end_the_damage_alone_is_told(home: Path):
    data = bytearray((home / SEGMENT).read_bytes())
    data[-3] ^= 1
    (home / SEGMENT).write_bytes(data)
    [problem] = problems(home)
    assert "the checksum is" in problem


def test_a_snapshot_may_hold_what_was_flushed(home: Path):
    """Between two steps of an installation the log ends before it, which is told of the two."""
    cut_batch(home)
    (home / LOG / names.snapshot_name(OffsetAndEpoch(3, 2))).write_bytes(b"")
    assert not any("was flushed up to" in problem for problem in problems(home))


def test_kafkas_election_ends_what_is_known_of_the_flushed_offset(home: Path):
    """Kafka ran since, and may have cut the log."""
    path = home / LOG / "quorum-state"
    path.write_bytes(path.read_bytes().replace(b'"leaderEpoch":2', b'"leaderEpoch":7'))
    cut_batch(home)
    assert problems(home) == []


def test_why_a_node_does_not_count_yet_is_a_note(home: Path):
    path = home / "kraftd.state"
    state = read_sidecar(Disk(FS), path).state
    assert state is not None
    local = msgspec.structs.replace(state.local_state, reasons=("its disk was full",))
    slot = encode_slot(9, state.recovery_point, 0, msgspec.msgpack.encode(local))
    path.write_bytes(slot.ljust(2 * SLOT_BYTES, b"\0"))
    verdict = judged(home)
    assert verdict.problems == ()
    assert [note.short for note in verdict.notes] == [
        "kraftd.state: the node does not count yet: its disk was full"
    ]


def test_of_a_directory_without_kraftds_own_file_nothing_is_known(tmp_path: Path):
    made = orders(tmp_path / "node")
    made.segment.write_bytes(made.segment.read_bytes()[:-3])
    verdict = judged(tmp_path / "node")
    assert verdict.problems == ()
    assert [note.kind for note in verdict.notes] == [ProblemKind.TORN]


# -- a running node -----------------------------------------------------------------------


def test_a_running_node_is_whole_whatever_it_writes_meanwhile(tmp_path: Path):
    node = running(tmp_path / "node")
    own = own_state(tmp_path / "node")
    node.log.append(run_of(3, 9), 3, 9)
    assert judged(tmp_path / "node").problems == ()
    node.log.flush()
    node.write_election(Election(3))
    verdict = with_own_states(verify([find_log(tmp_path / "node")]), [own])
    assert verdict.is_whole
    assert verdict.logs[0].end_offset == 9
    node.close()


def test_a_cut_of_a_running_node_is_no_lost_end(tmp_path: Path):
    """The file was read before the cut, the log behind it."""
    node = running(tmp_path / "node")
    own = own_state(tmp_path / "node")
    node.log.truncate(1, node.log.generation + 1)
    node.log.append(run_of(1, 2), 1, 2)
    assert own.flushed_offset == 3
    verdict = with_own_states(verify([find_log(tmp_path / "node")]), [own])
    assert verdict.is_whole
    node.close()


def test_an_election_that_is_written_meanwhile_is_not_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Kept apart, the old note and the new file would look like a vote that was written elsewhere."""
    node = running(tmp_path / "node")
    read, count = module.read_sidecar, 0

    def read_and_write(disk: Disk, path: Path):
        nonlocal count
        found = read(disk, path)
        count += 1
        if count < 3:
            node.write_election(Election(2, count))
        return found

    monkeypatch.setattr(module, "read_sidecar", read_and_write)
    own = own_state(tmp_path / "node")
    assert (own.flushed_offset, own.problems) == (3, ())
    node.close()


def test_a_copy_that_was_made_file_by_file_is_told_with_how_to_make_one(tmp_path: Path):
    node = running(tmp_path / "node")
    shutil.copytree(tmp_path / "node" / LOG, tmp_path / "copy" / LOG)
    shutil.copyfile(tmp_path / "node" / "meta.properties", tmp_path / "copy" / "meta.properties")
    node.log.append(run_of(3, 9), 3, 9)
    node.log.flush()
    node.write_election(Election(3))
    shutil.copyfile(tmp_path / "node" / "kraftd.state", tmp_path / "copy" / "kraftd.state")
    node.close()
    found = problems(tmp_path / "copy")
    assert len(found) == 2
    assert all("copy it with `kraftctl export`" in problem for problem in found)
