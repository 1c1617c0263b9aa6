"""The header scan finds every batch and names every byte that is none."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from kraftd.replay.headers import scan_file, walk
from kraftd.replay.model import FileKind, LogFile, Problem, ProblemKind
from tests.replay.logs import leader_change, noops

LOG = leader_change(0, 1, 1) + noops(1, 1, 9)


def scanned(tmp_path: Path, data: bytes, base_offset: int = 0) -> tuple[list[int], list[Problem]]:
    path = tmp_path / "segment.log"
    path.write_bytes(data)
    file = LogFile(str(path), path.name, FileKind.LOG, base_offset, -1, len(data))
    headers, problems = scan_file(file, str(tmp_path))
    return headers["base_offset"].tolist(), problems


def test_a_good_segment_has_no_problem(tmp_path: Path) -> None:
    assert scanned(tmp_path, LOG) == (list(range(10)), [])


def test_an_empty_segment_is_fine(tmp_path: Path) -> None:
    assert scanned(tmp_path, b"") == ([], [])


def test_a_torn_batch_is_named_with_its_byte(tmp_path: Path) -> None:
    offsets, problems = scanned(tmp_path, LOG[:-5])
    assert offsets == list(range(9))
    assert problems[0].position_bytes == len(LOG) - len(noops(9, 1, 1))
    assert problems[0].offset == 9
    assert problems[0].text.startswith("torn: a batch of")


def test_a_few_bytes_at_the_end_are_torn(tmp_path: Path) -> None:
    _, problems = scanned(tmp_path, LOG + LOG[:20])
    assert problems[0].text == "torn: 20 bytes, too few for a batch header"


def test_zeros_at_the_end_are_called_zeros(tmp_path: Path) -> None:
    _, problems = scanned(tmp_path, LOG + bytes(4096))
    assert problems[0].text == "4,096 bytes of zeros after the last batch"


def test_a_flipped_bit_is_found_and_the_scan_goes_on(tmp_path: Path) -> None:
    data = bytearray(LOG)
    data[len(leader_change(0, 1, 1)) + 65] ^= 1
    offsets, problems = scanned(tmp_path, bytes(data))
    assert offsets == list(range(10))
    assert [(p.kind, p.offset) for p in problems] == [(ProblemKind.DAMAGED, 1)]
    assert "checksum" in problems[0].text


def test_missing_offsets_inside_a_segment_are_found(tmp_path: Path) -> None:
    _, problems = scanned(tmp_path, noops(0, 1, 3) + noops(5, 1, 3))
    assert [p.text for p in problems] == ["batch starts at offset 5, expected 3"]


def test_a_falling_epoch_is_found(tmp_path: Path) -> None:
    _, problems = scanned(tmp_path, noops(0, 2, 3) + noops(3, 1, 3))
    assert [p.text for p in problems] == ["epoch falls from 2 to 1"]


def test_a_segment_must_start_where_its_name_says(tmp_path: Path) -> None:
    _, problems = scanned(tmp_path, noops(0, 1, 1), base_offset=7)
    assert [p.text for p in problems] == ["batch starts at offset 0, expected 7"]


@given(st.binary(max_size=400))
def test_any_bytes_walk_to_an_end(data: bytes) -> None:
    positions, end = walk(data)
    assert 0 <= end <= len(data)
    assert positions.tolist() == sorted(set(positions.tolist()))


@given(cut=st.integers(0, len(LOG)), flip=st.integers(0, len(LOG) * 8 - 1))
def test_damage_is_never_silent(tmp_path_factory, cut: int, flip: int) -> None:
    data = bytearray(LOG)
    data[flip // 8] ^= 1 << flip % 8
    tmp_path = tmp_path_factory.mktemp("damage")
    whole, no_problems = scanned(tmp_path, LOG[:cut])
    assert no_problems or sum(len(noops(0, 1, 1)) for _ in whole[1:]) <= cut
    offsets, problems = scanned(tmp_path, bytes(data))
    epoch_bytes_raised = not problems and offsets == list(range(10))
    assert problems or epoch_bytes_raised, "only the epoch, outside the checksum, may change unseen"
