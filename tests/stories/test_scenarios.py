"""The scenarios with which Kafka simulates its own quorum: who fails, who goes on, and who has what then.

Delays and elections are drawn from a seed; a client writes all the time. Every story runs under the
invariants of `kraftd.audit`, which look after each event.
"""

import pytest

from kraftd.types import NodeId
from tests.conformance import covers
from tests.stories.cluster import Cluster

seeds = pytest.mark.parametrize("seed", range(4))


class Scene:
    """A cluster with a client that never stops."""

    def __init__(self, seed: int, voters: tuple[NodeId, ...] = (1, 2, 3), **options: object) -> None:
        self.cluster = Cluster(voters, seed=seed, **options)  # type: ignore[arg-type]
        self.cluster.latency_ms = lambda: self.cluster.random.randrange(1, 7)
        self.cluster.flush_ms = lambda: self.cluster.random.randrange(1, 4)
        self.write()

    def write(self) -> None:
        leader = self.cluster.leader
        if leader is not None:
            self.cluster.append(leader)
        self.cluster.at(self.cluster.random.randrange(2, 5) * 5, self.write)

    def high_watermark(self, node_id: NodeId) -> int:
        raft_node = self.cluster.nodes[node_id].raft_node
        return raft_node.high_watermark if raft_node is not None else -1

    def until_all_have(self, offset: int, among: tuple[NodeId, ...] = ()) -> None:
        nodes = among or tuple(self.cluster.nodes)
        self.cluster.run_until(lambda: all(self.high_watermark(n) >= offset for n in nodes))

    def leader(self) -> NodeId:
        leader = self.cluster.elect()
        self.cluster.run(50)
        return leader

    def others(self, *but: NodeId) -> tuple[NodeId, ...]:
        return tuple(n for n in self.cluster.nodes if n not in but)

    def agree(self) -> list[bytes]:
        """All hold the same, as far as each of them knows it to be committed."""
        logs = [self.cluster.values(n) for n in self.cluster.nodes]
        shortest = min(map(len, logs))
        assert shortest > 0
        assert all(log[:shortest] == logs[0][:shortest] for log in logs)
        return logs[0][:shortest]


@covers("SIMX-01", "SIMX-14")
@seeds
@pytest.mark.parametrize("voters", [(1,), (1, 2), (1, 2, 3, 4, 5)], ids=len)
def test_a_first_leader_is_elected_and_everybody_commits_with_it(
    seed: int, voters: tuple[NodeId, ...]
) -> None:
    scene = Scene(seed, voters, observers=(8, 9))
    scene.until_all_have(10)
    leaders = {scene.cluster.raft_node(n).leader_id for n in scene.cluster.nodes}
    assert leaders == {scene.cluster.leader}
    scene.agree()


@covers("SIMX-02")
@seeds
@pytest.mark.parametrize("gently", [False, True])
def test_a_leader_that_stops_is_replaced_and_catches_up_when_it_is_back(seed: int, gently: bool) -> None:
    scene = Scene(seed, (1, 2, 3))
    leader = scene.leader()
    scene.until_all_have(10)
    if gently:
        scene.cluster.resign(leader, deadline_ms=500)
        scene.cluster.run(500)
    before = scene.high_watermark(scene.others(leader)[0])
    scene.cluster.crash(leader)
    scene.until_all_have(before + 20, scene.others(leader))
    scene.cluster.start(leader)
    scene.until_all_have(before + 30)
    scene.agree()


@covers("SIMX-03", "LOG-18")
@seeds
def test_after_all_were_killed_a_majority_goes_on_past_what_was_committed(seed: int) -> None:
    scene = Scene(seed, (1, 2, 3, 4, 5))
    scene.leader()
    scene.until_all_have(10)
    committed = max((scene.cluster.values(n) for n in scene.cluster.nodes), key=len)
    reached = max(map(scene.high_watermark, scene.cluster.nodes))
    for node_id in scene.cluster.nodes:
        scene.cluster.crash(node_id)
    majority = tuple(scene.cluster.random.sample(sorted(scene.cluster.nodes), 3))
    for node_id in majority:
        scene.cluster.start(node_id)
    scene.until_all_have(reached + 10, majority)
    assert scene.cluster.values(majority[0])[: len(committed)] == committed


@covers("SIMX-04")
@seeds
def test_the_rest_goes_on_when_the_leader_is_cut_off(seed: int) -> None:
    scene = Scene(seed, (1, 2, 3))
    leader = scene.leader()
    before = scene.high_watermark(leader)
    scene.cluster.isolate(leader)
    scene.until_all_have(before + 20, scene.others(leader))
    assert scene.high_watermark(leader) < before + 20
    scene.cluster.heal()
    scene.until_all_have(before + 30)
    scene.agree()


@covers("SIMX-05")
@seeds
def test_of_a_cluster_split_in_two_the_majority_goes_on_and_the_rest_catches_up(seed: int) -> None:
    scene = Scene(seed, (1, 2, 3, 4, 5))
    leader = scene.leader()
    scene.until_all_have(10)
    minority = (leader, scene.others(leader)[0])
    majority = scene.others(*minority)
    at_split = max(scene.cluster.raft_node(n).log.end_offset for n in scene.cluster.nodes)
    scene.cluster.isolate(*minority)
    scene.until_all_have(2 * at_split, majority)
    assert max(map(scene.high_watermark, minority)) < min(map(scene.high_watermark, majority))
    scene.cluster.heal()
    scene.until_all_have(2 * at_split + 20)
    scene.agree()


@covers("SIMX-06")
@seeds
def test_two_leaders_cut_off_one_after_the_other_stop_nobody(seed: int) -> None:
    scene = Scene(seed, (1, 2, 3, 4, 5))
    first = scene.leader()
    scene.cluster.isolate(first)
    scene.cluster.run_until(lambda: scene.cluster.leader != first and scene.cluster.has_leader())
    second = scene.cluster.leader
    assert second is not None
    reached = scene.high_watermark(second)
    scene.cluster.heal()
    scene.cluster.isolate(second)
    scene.until_all_have(reached + 20, scene.others(second))
    scene.cluster.heal()
    scene.until_all_have(reached + 40)
    scene.agree()


@covers("SIMX-07", "D-06")
@seeds
def test_a_node_that_lost_everything_costs_nothing_that_was_committed(seed: int) -> None:
    scene = Scene(seed, (1, 2, 3))
    leader = scene.leader()
    scene.until_all_have(10)
    scene.cluster.run(500)
    committed = scene.cluster.values(leader)
    scene.cluster.crash(leader)
    scene.cluster.wipe(leader)
    scene.cluster.run_until(scene.cluster.has_leader)
    scene.cluster.start(leader)
    scene.until_all_have(len(committed) + 30)
    assert scene.agree()[: len(committed)] == committed
