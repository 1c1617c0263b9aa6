"""What is read from the disk for an observer ends where the committed log does."""

import pytest

from kraftd.records.batch import encode_batch, ending_by

BATCHES = [encode_batch(offset, 1, 0, [b"a", b"b"]) for offset in (10, 12, 14)]


@pytest.mark.parametrize(("high_watermark", "count"), [(10, 0), (11, 0), (12, 1), (15, 2), (16, 3), (99, 3)])
def test_only_batches_that_are_committed_whole_are_given_away(high_watermark: int, count: int) -> None:
    assert ending_by(b"".join(BATCHES), high_watermark) == b"".join(BATCHES[:count])
