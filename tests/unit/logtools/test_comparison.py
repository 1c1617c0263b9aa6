"""Two logs agree batch by batch, part from one offset on, break log matching, or are of two clusters."""

from kraftd.logtools.comparison import BatchKeys, LogComparison, clusters_among, compare
from kraftd.records.batch import scan
from tests.replay.logs import leader_change, noops


def log(*parts: bytes) -> BatchKeys:
    keys = BatchKeys()
    for part in parts:
        for view in scan(part):
            keys.add(view)
    return keys


def test_a_prefix_agrees_to_its_end() -> None:
    long, short = log(noops(0, 1, 9)), log(noops(0, 1, 4))
    assert compare(long, short) == compare(short, long) == LogComparison(4, equal_batches=4)


def test_the_first_different_batch_is_named_with_both_epochs() -> None:
    ours = log(noops(0, 1, 4), leader_change(4, 3, 1), noops(5, 3, 3))
    theirs = log(noops(0, 1, 4), leader_change(4, 2, 2), noops(5, 2, 1))
    assert compare(ours, theirs) == LogComparison(
        4, equal_batches=4, parted_at=4, left_epoch=3, right_epoch=2
    )


def test_a_log_whose_start_is_gone_is_compared_from_there() -> None:
    whole, trimmed = log(noops(0, 1, 9)), log(noops(5, 1, 6))
    assert compare(whole, trimmed) == compare(trimmed, whole) == LogComparison(9, equal_batches=4)


def test_what_one_log_lacks_is_passed_over() -> None:
    whole, holed = log(noops(0, 1, 9)), log(noops(0, 1, 2), noops(4, 1, 1), noops(7, 1, 2))
    assert compare(whole, holed) == compare(holed, whole) == LogComparison(9, equal_batches=5)


def test_logs_that_share_nothing_are_undecided() -> None:
    early, late = log(noops(0, 1, 3)), log(noops(5, 1, 3))
    for found in (compare(early, late), compare(late, early)):
        assert found == LogComparison(3)
        assert found.is_undecided
    assert compare(early, log()) == LogComparison(0)


def test_different_records_of_one_offset_and_epoch_break_log_matching() -> None:
    found = compare(log(noops(0, 1, 4), noops(4, 2, 3)), log(noops(0, 1, 4), leader_change(4, 2, 2)))
    assert found.violation == "they hold different records at offset 4, both of epoch 2"


def test_logs_that_agree_again_break_log_matching() -> None:
    found = compare(
        log(noops(0, 1, 2), noops(2, 2, 1), noops(3, 4, 2)),
        log(noops(0, 1, 2), noops(2, 3, 1), noops(3, 4, 2)),
    )
    assert "they differ from offset 2 on, but hold the same batch at offset 3, epoch 4" in found.violation


def test_logs_that_nowhere_agree_are_of_two_clusters() -> None:
    ours, theirs = log(leader_change(0, 1, 1), noops(1, 1, 5)), log(leader_change(0, 1, 2), noops(1, 2, 2))
    found = compare(ours, theirs)
    assert found.is_of_two_clusters
    assert (found.common_end, found.parted_at) == (0, 0)
    same_node = compare(log(noops(0, 1, 4)), log(noops(0, 1, 2), noops(2, 2, 2)))
    assert not same_node.is_of_two_clusters


def test_logs_under_one_id_are_sorted_by_what_they_hold() -> None:
    one = log(leader_change(0, 1, 1), noops(1, 1, 9))
    other = log(leader_change(0, 1, 2), noops(1, 2, 9))
    late, later = log(noops(8, 1, 2), noops(10, 3, 5)), log(noops(12, 3, 9))
    nowhere = log()
    logs = [one, other, later, nowhere, late]
    found = [[compare(left, right) for right in logs] for left in logs]
    assert clusters_among(found) == [[0, 2, 3, 4], [1]]
    assert clusters_among([[found[3][3]]]) == [[0]]
    assert clusters_among([row[2:4] for row in found[2:4]]) == [[0, 1]]
