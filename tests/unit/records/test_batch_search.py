"""Behind bytes that are no batch, the next header is found at any distance and across any window."""

import pytest

from kraftd.records.batch import encode_batch
from kraftd.records.batch_search import WINDOW_BYTES, plausible_headers

BATCH = encode_batch(7, 3, 1, [b"\x01\x02value"])


def places(data: bytes, position: int = 0) -> list[int]:
    found = plausible_headers(lambda size, at: data[at : at + size], position, len(data))
    return [at for at, _ in found]


@pytest.mark.parametrize("distance", [0, 1, 60, WINDOW_BYTES - 61, WINDOW_BYTES - 30, WINDOW_BYTES, 80 << 20])
def test_a_batch_is_found_at_any_distance(distance: int) -> None:
    assert places(bytes(distance) + BATCH + b"rest") == [distance]


def test_every_batch_is_named_and_the_header_comes_with_it() -> None:
    data = BATCH + b"x" + BATCH
    found = list(plausible_headers(lambda size, at: data[at : at + size], 1, len(data)))
    assert found == [(len(BATCH) + 1, BATCH[:61])]


@pytest.mark.parametrize(("at", "byte"), [(0, 128), (8, 127), (12, 128), (16, 1), (22, 1), (26, 5), (60, 9)])
def test_fields_that_cannot_be_together_are_no_header(at: int, byte: int) -> None:
    data = bytearray(BATCH)
    data[at] = byte
    assert places(bytes(data)) == []


def test_noise_holds_no_header() -> None:
    assert places(b"\x02" * 100_000) == []
    assert places(bytes(range(256)) * 400) == []
