"""The numbers: windows that forget, latencies that mean what Kafka's mean."""

from kraftd.raft.effects import StateChanged
from kraftd.runtime.raft_metrics import RaftMetrics, Window


def test_a_window_knows_average_maximum_and_rate() -> None:
    window = Window(0)
    for at_ms in range(0, 10_000, 1_000):
        window.add(at_ms / 1_000, at_ms)
    assert window.average(10_000) == 4.5
    assert window.maximum(10_000) == 9
    assert window.per_second(10_000) == 4.5


def test_a_window_forgets_after_a_minute_at_the_latest() -> None:
    window = Window(0)
    window.add(100, 0)
    assert window.maximum(29_000) == 100
    assert window.maximum(59_000) == 100
    assert window.maximum(61_000) == 0
    assert window.average(61_000) == 0
    assert window.per_second(61_000) == 0


def test_commit_latency_is_from_append_to_high_watermark_on_the_leader() -> None:
    metrics = RaftMetrics(0)
    metrics.appended(0, 3, 100, as_leader=True)
    metrics.appended(3, 4, 110, as_leader=True)
    metrics.committed(3, 105)
    assert metrics.readings(105)["commit-latency-max"] == 5
    metrics.committed(4, 140)
    assert metrics.readings(140)["commit-latency-max"] == 30
    assert metrics.readings(140)["commit-latency-avg"] == 17.5
    assert metrics.readings(1_000)["append-records-rate"] == 4


def test_what_a_lost_leadership_left_uncommitted_is_not_measured() -> None:
    metrics = RaftMetrics(0)
    metrics.appended(0, 3, 100, as_leader=True)
    metrics.state_changed(StateChanged("leader", "resigned", 3, "test"), 110)
    metrics.committed(3, 9_000)
    assert metrics.readings(9_000)["commit-latency-max"] == 0


def test_election_latency_is_from_losing_a_leader_to_having_one() -> None:
    metrics = RaftMetrics(0)
    for source, target, at_ms in (
        ("follower", "prospective", 1_000),
        ("prospective", "candidate", 1_010),
        ("candidate", "leader", 1_030),
    ):
        metrics.state_changed(StateChanged(source, target, 2, "test"), at_ms)
    readings = metrics.readings(1_030)
    assert readings["election-latency-max"] == 30
    assert (metrics.elections, metrics.leader_changes) == (1, 1)
