"""Random schedules over a `Cluster`: what goes wrong is drawn from a seed, and so is everything else.

Run a seed by hand, with its trace: `python -m tests.stories.chaos 17 [--wipes]`.
"""

import sys
from collections.abc import Callable
from random import Random

from kraftd.errors import ErrorCode
from kraftd.raft.timing import Timing
from kraftd.types import NodeId
from tests.stories.cluster import Cluster

CHAOS_MS = 20_000
PEACE_MS = 30_000


class Chaos:
    """One seed: a cluster, its clients and its faults."""

    def __init__(self, seed: int, *, wipes: bool = False) -> None:
        self.random = Random(seed)
        sizes = [(1, 2, 3), (1, 2, 3), (1, 2, 3, 4, 5)] + ([] if wipes else [(1,), (1, 2), (1, 2, 3)])
        voters = self.random.choice(sizes)
        observers = self.random.choice([(), (), (9,)])
        slow = self.random.choice([2, 5, 40])
        flush = self.random.choice([1, 3, 60])
        self.cluster = Cluster(
            voters,
            observers=observers,
            seed=self.random.randrange(1 << 30),
            timing=Timing(append_linger_ms=self.random.choice([0, 0, 5])),
            tail_bytes=self.random.choice([300, 16 << 20]),
            latency_ms=lambda: self.random.randrange(1, slow + 1),
            flush_ms=lambda: self.random.randrange(1, flush + 1),
        )
        self.voters = voters
        self.wipes = wipes
        self.busy = self.random.choice([30, 100, 400])
        self.faulty = self.random.choice([300, 1000, 3000])
        self.appended: dict[tuple[NodeId, int], bytes] = {}
        self.incarnations: dict[tuple[NodeId, int], int] = {}
        self.reads: dict[tuple[NodeId, int], int] = {}
        self.acknowledged_end = 0
        self.events = 0

    def run(self) -> None:
        cluster = self.cluster
        self.every(self.busy, self.append)
        self.every(self.busy * 3, self.read)
        self.every(self.faulty, self.fault)
        while cluster.queue and cluster.queue[0][0] <= CHAOS_MS:
            self.step()
        cluster.now_ms = CHAOS_MS
        self.make_peace()
        if self.wipes:
            self.mend()
        cluster.run_until(cluster.has_converged, PEACE_MS)
        cluster.run(6_000)  # what was on its way to a frozen process, and deadlines
        cluster.run_until(cluster.has_converged, PEACE_MS)
        self.check()

    def step(self) -> None:
        self.cluster.step()
        self.events += 1
        self.look_at_outcomes()

    def every(self, mean_ms: int, action: Callable[[], None]) -> None:
        def again() -> None:
            if self.cluster.now_ms < CHAOS_MS:
                action()
                self.cluster.at(self.random.randrange(1, 2 * mean_ms), again)

        self.cluster.at(self.random.randrange(1, 2 * mean_ms), again)

    # --- clients ----------------------------------------------------------------------------------------

    def append(self) -> None:
        up = [n for n, node in self.cluster.nodes.items() if node.is_up]
        if not up:
            return
        leaders = [n for n in up if self.cluster.raft_node(n).is_leader]
        node_id = self.random.choice(leaders or up)
        value = b"v%d" % len(self.appended)
        values = [value] * self.random.choice([1, 1, 3])
        token = self.cluster.append(node_id, *values, deadline_ms=self.random.choice([50, 3000]))
        self.appended[node_id, token] = value
        self.incarnations[node_id, token] = self.cluster.nodes[node_id].incarnation

    def read(self) -> None:
        up = [n for n, node in self.cluster.nodes.items() if node.is_up]
        if up:
            node_id = self.random.choice(up)
            token = 10**9 + len(self.reads)
            self.reads[node_id, token] = self.acknowledged_end
            self.cluster.read_as(node_id, token, deadline_ms=self.random.choice([50, 3000]))

    def look_at_outcomes(self) -> None:
        for node in self.cluster.nodes.values():
            while node.fresh:
                effect = node.fresh.pop()
                key = (node.id, effect.token)
                if key in self.appended and effect.error == ErrorCode.NONE:
                    self.acknowledged_end = max(self.acknowledged_end, effect.end_offset)
                if key in self.reads and effect.error == ErrorCode.NONE:
                    applied = self.cluster.raft_node(node.id).describe(self.cluster.now(node)).applied_offset
                    assert applied >= self.reads[key], f"stale read at {node.id}"

    # --- faults -----------------------------------------------------------------------------------------

    def fault(self) -> None:
        cluster, random = self.cluster, self.random
        node = cluster.nodes[random.choice(list(cluster.nodes))]
        match random.randrange(10):
            case 0 | 1 | 2 if node.is_up:
                cluster.crash(node.id, silently=random.random() < 0.3)
            case 0 if not node.is_up and self.wipes and self.may_wipe(node.id):
                cluster.wipe(node.id)
                cluster.start(node.id)
            case 0 | 1 | 2 | 3 if not node.is_up:
                cluster.start(node.id)
            case 4:
                cluster.isolate(node.id)
            case 5:
                others = [n for n in cluster.nodes if n != node.id]
                if others:
                    cluster.cut.add((node.id, random.choice(others)))
            case 6 | 7:
                cluster.heal()
            case 8:
                if cluster.holding_flushes and random.random() < 0.7:
                    cluster.release_flushes(random.choice(sorted(cluster.holding_flushes)))
                else:
                    cluster.hold_flushes(node.id)
            case 9 if node.is_up:
                if random.random() < 0.5:
                    node.frozen_until_ms = cluster.now_ms + random.randrange(5_000)
                elif cluster.raft_node(node.id).is_leader:
                    cluster.resign(node.id, random.choice([-1, *self.voters]))

    def may_wipe(self, node_id: NodeId) -> bool:
        """One voter at a time may forget, and the next only once every other one knows it again."""
        disks = {n: self.cluster.nodes[n].disk for n in self.voters}
        known = all(
            other in disk.peers and disk.peers[other].directory_id == disks[other].directory_id
            for n, disk in disks.items()
            for other in self.voters
            if other != n
        )
        whole = all(disk.health == "whole" for disk in disks.values())
        return node_id in self.voters and known and whole

    def mend(self) -> None:
        """A node that forgot counts again after a leader was elected without it."""
        cluster = self.cluster
        for _ in range(40):
            forgetful = [n for n in self.voters if not cluster.raft_node(n).is_whole]
            if not forgetful:
                return
            leader = cluster.elect()
            cluster.run(1_500)
            if cluster.leader == leader:
                cluster.resign(leader)
            cluster.run(1_000)
        raise AssertionError(f"not whole: {forgetful}")

    def make_peace(self) -> None:
        cluster = self.cluster
        cluster.heal()
        for node_id, node in cluster.nodes.items():
            cluster.release_flushes(node_id)
            node.frozen_until_ms = 0
            if not node.is_up:
                cluster.start(node_id)

    # --- verdict ----------------------------------------------------------------------------------------

    def check(self) -> None:
        cluster = self.cluster
        logs = [cluster.values(node_id) for node_id in cluster.nodes]
        assert all(log == logs[0] for log in logs)
        held = set(logs[0])
        for (node_id, token), value in self.appended.items():
            error = cluster.outcome(node_id, token)
            if error == ErrorCode.NONE:
                assert value in held, f"{value!r} was acknowledged and is lost"
            elif error == ErrorCode.NOT_CONTROLLER:
                assert value not in held, f"{value!r} was refused and is there"
            elif error is None:
                node = cluster.nodes[node_id]
                assert node.incarnation != self.incarnations[node_id, token], f"{value!r} hangs"


if __name__ == "__main__":
    chaos = Chaos(int(sys.argv[1]), wipes="--wipes" in sys.argv)
    chaos.cluster.recording = True
    try:
        chaos.run()
    finally:
        print(chaos.cluster.take_trace())
        print(chaos.cluster.describe())
