"""However late the flushes finish, nothing is promised that is not durable (D-02), and nothing hangs."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.stories.chaos import Chaos
from tests.stories.cluster import Cluster

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 3)),
        st.tuples(st.just("hold"), st.integers(1, 3)),
        st.tuples(st.just("release"), st.integers(1, 3)),
        st.tuples(st.just("crash"), st.integers(1, 3)),
        st.tuples(st.just("start"), st.integers(1, 3)),
        st.tuples(st.just("isolate"), st.integers(1, 3)),
        st.tuples(st.just("heal"), st.just(0)),
        st.tuples(st.just("run"), st.sampled_from([1, 3, 10, 100, 1_000, 4_000])),
    ),
    max_size=40,
)


def take(cluster: Cluster, step: str, number: int) -> None:
    match step:
        case "append" if cluster.nodes[number].is_up:
            cluster.append(number)
        case "hold":
            cluster.hold_flushes(number)
        case "release":
            cluster.release_flushes(number)
        case "crash" if cluster.nodes[number].is_up:
            cluster.crash(number)
        case "start" if not cluster.nodes[number].is_up:
            cluster.start(number)
        case "isolate":
            cluster.isolate(number)
        case "heal":
            cluster.heal()
        case "run":
            cluster.run(number)
        case _:
            pass


@pytest.mark.covers("D-02", "D-03", "D-13", "SIMX-08", "SIMX-09", "SIMX-10", "SIMX-11", "SIMX-14")
@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_no_position_own_count_or_reply_exceeds_what_is_durable(steps: list[tuple[str, int]]) -> None:
    """The invariants, `AcknowledgedIsDurable` first, are checked after every event and effect."""
    cluster = Cluster()
    cluster.recording = False
    cluster.elect()
    for step, number in steps:
        take(cluster, step, number)
    cluster.heal()
    for n, node in cluster.nodes.items():
        cluster.release_flushes(n)
        if not node.is_up:
            cluster.start(n)
    cluster.run_until(cluster.has_converged)


@pytest.mark.covers("SIMX-01", "SIMX-02", "SIMX-03", "SIMX-04", "SIMX-05", "SIMX-06", "D-01", "D-13")
@pytest.mark.parametrize("seed", range(25))
def test_random_schedules_lose_nothing_and_end_in_agreement(seed: int) -> None:
    Chaos(seed).run()


@pytest.mark.covers("SIMX-07", "D-06")
@pytest.mark.parametrize("seed", [*range(12), 6104, 6875])
def test_random_schedules_with_nodes_that_forget_lose_nothing(seed: int) -> None:
    Chaos(seed, wipes=True).run()


def test_a_seed_replays_to_the_bit() -> None:
    traces = []
    for _ in range(2):
        chaos = Chaos(3)
        chaos.cluster.recording = True
        chaos.run()
        traces.append(chaos.cluster.take_trace())
    assert traces[0] == traces[1]
