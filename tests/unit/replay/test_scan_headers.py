"""The header scan finds every batch and names every byte that is none."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from kraftd.logtools.finding import find_log
from kraftd.logtools.problem import Problem, ProblemKind
from kraftd.replay.cluster_scan import survey_node
from kraftd.replay.source.headers import walk
from tests.replay.logs import leader_change, noops, write_node

LOG = leader_change(0, 1, 1) + noops(1, 1, 9)


def scanned(tmp_path: Path, data: bytes, base_offset: int = 0) -> tuple[list[int], list[Problem]]:
    write_node(tmp_path, data, base_offset=base_offset)
    survey = survey_node(find_log(tmp_path))
    return survey.headers["base_offset"].tolist(), [p for p in survey.problems if p.file.endswith(".log")]


def test_a_good_segment_has_no_problem(tmp_path: Path) -> None:
    assert scanned(tmp_path, LOG) == (list(range(10)), [])


def test_an_empty_segment_is_fine(tmp_path: Path) -> None:
    assert scanned(tmp_path, b"") == ([], [])


def test_a_torn_batch_is_named_with_its_byte(tmp_path: Path) -> None:
    offsets, problems = scanned(tmp_path, LOG[:-5])
    assert offsets == list(range(9))
    assert problems[0].position_bytes == len(LOG) - len(noops(9, 1, 1))
    assert problems[0].offset == 9
    assert problems[0].kind is ProblemKind.TORN
    assert problems[0].text == "ends inside a batch: it was being written"


def test_the_beginning_of_the_next_batch_is_torn(tmp_path: Path) -> None:
    _, problems = scanned(tmp_path, LOG + noops(10, 1, 1)[:20])
    assert (problems[0].kind, problems[0].size_bytes) == (ProblemKind.TORN, 20)


def test_the_beginning_of_another_batch_is_damage(tmp_path: Path) -> None:
    _, problems = scanned(tmp_path, LOG + LOG[:20])
    assert problems[0].kind is ProblemKind.DAMAGED
    assert problems[0].text.endswith(" bytes, 20 are left")


def test_zeros_at_the_end_are_called_zeros(tmp_path: Path) -> None:
    _, problems = scanned(tmp_path, LOG + bytes(4096))
    assert (problems[0].kind, problems[0].size_bytes) == (ProblemKind.DAMAGED, 4096)
    assert problems[0].text == "zeros, where a batch must begin"


def test_a_flipped_bit_is_found_and_the_scan_goes_on(tmp_path: Path) -> None:
    data = bytearray(LOG)
    data[len(leader_change(0, 1, 1)) + 65] ^= 1
    offsets, problems = scanned(tmp_path, bytes(data))
    assert offsets == list(range(10))
    assert [(p.kind, p.offset) for p in problems] == [(ProblemKind.DAMAGED, 1)]
    assert "checksum" in problems[0].text


def test_behind_a_length_that_is_wrong_the_next_good_batch_is_found(tmp_path: Path) -> None:
    data = bytearray(LOG)
    data[len(leader_change(0, 1, 1)) + 8] = 0x7F
    offsets, problems = scanned(tmp_path, bytes(data))
    assert offsets == [0, *range(2, 10)]
    assert [(p.offset, p.size_bytes) for p in problems] == [(1, len(noops(1, 1, 1)))]


def test_many_holes_are_told_one_by_one(tmp_path: Path) -> None:
    one = noops(1, 1, 1)
    data = bytearray(LOG)
    for number in (0, 4, 8):
        data[len(leader_change(0, 1, 1)) + number * len(one) + 8] = 0x7F
    offsets, problems = scanned(tmp_path, bytes(data))
    assert offsets == [0, 2, 3, 4, 6, 7, 8]
    assert [p.offset for p in problems] == [1, 5, 9]


def test_missing_offsets_inside_a_segment_are_found(tmp_path: Path) -> None:
    _, problems = scanned(tmp_path, noops(0, 1, 3) + noops(5, 1, 3))
    assert [p.text for p in problems] == ["the batch says offset 5 where 3 must come"]


def test_a_falling_epoch_is_found(tmp_path: Path) -> None:
    _, problems = scanned(tmp_path, noops(0, 2, 3) + noops(3, 1, 3))
    assert [p.text for p in problems] == ["the batch says epoch 1 after epoch 2"]


def test_a_segment_must_start_where_its_name_says(tmp_path: Path) -> None:
    _, problems = scanned(tmp_path, noops(0, 1, 1), base_offset=7)
    assert [p.text for p in problems] == ["its name says offset 7, its first batch offset 0"]


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
