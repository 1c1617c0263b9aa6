"""Which records are committed, from copies alone: each rule, and each reason to say "unknown"."""

from collections.abc import Sequence

import pytest

from kraftd.logtools.commit import (
    NEVER_ENDS,
    Bounds,
    CommitRule,
    CommitStatus,
    CommitVerdict,
    JudgedLog,
    Proof,
    judge,
)
from kraftd.logtools.comparison import LogComparison
from kraftd.types import EpochEntry

VOTERS = frozenset({1, 2, 3})


def holder(
    node_id: int,
    *epochs: tuple[int, int],
    end: int,
    highest: int | None = -1,
    more: bool = False,
    proofs: tuple[Proof, ...] = (),
) -> JudgedLog:
    """A log given by its epochs' (epoch, start) and its end."""
    last = epochs[-1][0] if epochs else 0
    starts = tuple(EpochEntry(epoch, start) for epoch, start in epochs)
    return JudgedLog(node_id, end, more, last if highest == -1 else highest, starts, proofs)


def common_end(left: JudgedLog, right: JudgedLog) -> LogComparison:
    """Where two logs part, judged like Raft: the same epoch at the same offset is the same record."""
    limit = min(left.end_offset, right.end_offset)
    same = next((o for o in range(limit) if left.epoch_at(o) != right.epoch_at(o)), limit)
    return LogComparison(same, parted_at=same if same < limit else -1)


def verdict(holders: Sequence[JudgedLog], voters: frozenset[int] = VOTERS) -> CommitVerdict:
    return judge(holders, [[common_end(left, right) for right in holders] for left in holders], voters)


def test_what_every_voter_holds_is_committed_and_what_one_holds_is_not() -> None:
    logs = [
        holder(1, (3, 0), (190, 30), end=31),
        holder(2, (3, 0), end=30),
        holder(3, (3, 0), end=30, highest=190),
    ]
    found = verdict(logs)
    assert (found.committed_end, found.proof.rule, found.known) == (30, CommitRule.EVERY_VOTER, True)
    assert [found.bounds[0].status_of(o) for o in (29, 30)] == [
        CommitStatus.COMMITTED,
        CommitStatus.UNCOMMITTED,
    ]


def test_a_majority_proves_a_record_only_in_the_highest_epoch_of_all() -> None:
    logs = [holder(1, (5, 0), end=20), holder(2, (5, 0), end=20), holder(3, (5, 0), end=10)]
    assert verdict(logs).committed_end == 20
    assert verdict(logs).proof.rule is CommitRule.MAJORITY

    later = [*logs[:2], holder(3, (5, 0), end=10, highest=6)]
    assert verdict(later).committed_end == 10
    assert verdict(later).bounds[0].status_of(15) is CommitStatus.UNKNOWN


def test_an_old_record_on_a_majority_can_still_be_overwritten() -> None:
    """Raft's figure 8 (c): S1 to S3 hold epoch 2, but S5 led epoch 3 and may lead again."""
    logs = [
        holder(1, (1, 0), (2, 1), (4, 2), end=3),
        holder(2, (1, 0), (2, 1), end=2),
        holder(3, (1, 0), (2, 1), end=2),
        holder(4, (1, 0), end=1),
        holder(5, (1, 0), (3, 1), end=2),
    ]
    found = verdict(logs, frozenset({1, 2, 3, 4, 5}))
    assert found.committed_end == 1
    assert found.bounds[0].status_of(1) is CommitStatus.UNKNOWN
    assert found.bounds[0].status_of(2) is CommitStatus.UNCOMMITTED


def test_a_missing_voter_leaves_everything_unknown() -> None:
    found = verdict([holder(1, (5, 0), end=20), holder(2, (5, 0), end=20)])
    assert (found.committed_end, found.proof, found.known) == (0, None, False)
    assert found.bounds[0].status_of(0) is CommitStatus.UNKNOWN
    assert "voters 3 " in found.bounds[0].why_unknown


def test_a_missing_voter_may_make_the_majority() -> None:
    found = verdict([holder(1, (5, 0), end=20), holder(2, (5, 0), end=10)])
    assert found.bounds[0].uncommitted_from == NEVER_ENDS

    five = verdict([holder(n, (5, 0), end=10 * n) for n in (1, 2, 3, 4)], frozenset({1, 2, 3, 4, 5}))
    assert five.bounds[3].uncommitted_from == 30, "node 4 and the missing one are not three"


def test_without_an_election_file_the_highest_epoch_is_not_known() -> None:
    logs = [holder(1, (5, 0), end=20), holder(2, (5, 0), end=20), holder(3, (5, 0), end=10, highest=None)]
    assert verdict(logs).committed_end == 10


def test_a_copy_that_lacks_its_end_may_hold_more() -> None:
    logs = [holder(1, (5, 0), end=20), holder(2, (5, 0), end=10, more=True), holder(3, (5, 0), end=10)]
    assert verdict(logs).bounds[0].status_of(15) is CommitStatus.UNKNOWN


def test_a_high_watermark_proves_and_a_longer_log_is_unknown_above_it() -> None:
    proof = Proof(15, CommitRule.MANIFEST, "node 1 was copied with high watermark 15")
    found = verdict([holder(1, (5, 0), end=20, more=True, proofs=(proof,))])
    assert (found.committed_end, found.known) == (15, True)
    assert found.bounds[0].status_of(14) is CommitStatus.COMMITTED
    assert found.bounds[0].status_of(15) is CommitStatus.UNKNOWN


def test_a_snapshot_proves_but_says_nothing_about_the_end() -> None:
    proof = Proof(15, CommitRule.SNAPSHOT, "node 1 took a snapshot at 15")
    found = verdict([holder(1, (5, 0), end=20, proofs=(proof,))])
    assert (found.committed_end, found.known) == (15, False)


def test_a_stronger_proof_at_the_same_offset_wins_over_a_snapshot() -> None:
    proof = Proof(20, CommitRule.SNAPSHOT, "node 1 took a snapshot at 20")
    found = verdict([holder(1, (5, 0), end=20, proofs=(proof,))], frozenset({1}))
    assert (found.committed_end, found.known) == (20, True)


def test_records_that_a_committed_one_replaced_are_uncommitted() -> None:
    logs = [
        holder(1, (5, 0), (7, 10), end=20),
        holder(2, (5, 0), (7, 10), end=20),
        holder(3, (5, 0), (6, 10), end=15),
    ]
    found = verdict(logs)
    assert found.committed_end == 20
    assert found.bounds[2].status_of(9) is CommitStatus.COMMITTED
    assert found.bounds[2].status_of(10) is CommitStatus.UNCOMMITTED


def test_a_high_watermark_over_a_divergence_is_a_contradiction() -> None:
    proof = Proof(15, CommitRule.MANIFEST, "node 3 was copied with high watermark 15")
    logs = [holder(1, (5, 0), (7, 10), end=20), holder(3, (5, 0), (6, 10), end=15, proofs=(proof,))]
    assert "committed records were lost or changed" in verdict(logs).contradictions[0]


def test_an_observer_is_not_counted() -> None:
    logs = [holder(1, (5, 0), end=20), holder(2, (5, 0), end=10), holder(3, (5, 0), end=10)]
    found = verdict([*logs, holder(9, (5, 0), end=20)])
    assert found.bounds[0].uncommitted_from == 10
    assert found.committed_end == 10


def test_a_voter_given_twice_does_not_count_twice() -> None:
    logs = [holder(1, (5, 0), end=20), holder(1, (5, 0), end=20), holder(2, (5, 0), end=10)]
    assert verdict(logs).proof is None


def test_nobody_knows_the_voters() -> None:
    found = verdict([holder(1, (5, 0), end=20)], frozenset())
    assert found.bounds[0] == Bounds(
        0, NEVER_ENDS, "nothing here says who the voters are", found.bounds[0].why_uncommitted
    )


def test_of_two_voter_sets_only_what_both_prove_stands() -> None:
    logs = [holder(1, (5, 0), end=20), holder(2, (5, 0), end=15), holder(3, (5, 0), end=10)]
    both = verdict(logs, frozenset({1, 2})).or_weaker(verdict(logs, VOTERS))
    assert both.committed_end == 15
    assert [bounds.committed_end for bounds in both.bounds] == [15, 15, 10]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_a_healthy_quorum_is_committed_to_its_end(count: int) -> None:
    logs = [holder(n, (2, 0), end=9) for n in range(1, count + 1)]
    assert verdict(logs, frozenset(range(1, count + 1))).committed_end == 9
