"""Two logs agree batch by batch, or differ from one offset on."""

from pathlib import Path

from kraftd.replay.headers import scan_file
from kraftd.replay.matching import Match, match
from kraftd.replay.model import FileKind, Headers, LogFile
from tests.replay.logs import leader_change, noops


def log(tmp_path: Path, data: bytes, base_offset: int = 0) -> Headers:
    path = tmp_path / "one.log"
    path.write_bytes(data)
    return scan_file(LogFile(str(path), path.name, FileKind.LOG, base_offset, -1, len(data)), "").headers


def test_a_prefix_agrees_to_its_end(tmp_path: Path) -> None:
    long, short = log(tmp_path, noops(0, 1, 9)), log(tmp_path, noops(0, 1, 4))
    assert match(long, short) == match(short, long) == Match(common_end=4)


def test_the_first_different_batch_is_named_with_both_epochs(tmp_path: Path) -> None:
    ours = log(tmp_path, noops(0, 1, 4) + leader_change(4, 3, 1) + noops(5, 3, 3))
    theirs = log(tmp_path, noops(0, 1, 4) + leader_change(4, 2, 2) + noops(5, 2, 1))
    assert match(ours, theirs) == Match(4, diverged=True, left_epoch=3, right_epoch=2)


def test_a_log_whose_start_is_gone_is_compared_from_there(tmp_path: Path) -> None:
    whole, trimmed = log(tmp_path, noops(0, 1, 9)), log(tmp_path, noops(5, 1, 6), base_offset=5)
    assert match(whole, trimmed) == Match(common_end=9)


def test_logs_that_share_nothing_are_not_called_different(tmp_path: Path) -> None:
    early, late = log(tmp_path, noops(0, 1, 3)), log(tmp_path, noops(5, 1, 3), base_offset=5)
    assert match(early, late) == Match(common_end=3)
    assert match(early, log(tmp_path, b"")) == Match(common_end=0)
