"""Whatever a node did to its disk, and whenever the power failed: what it was promised is there.

The enumerating tests take one protocol at a time; here the steps are drawn, with reopenings and kills (the
process ends, the page cache lives on) between them.
"""

import os
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from kraftd.records.batch import scan
from kraftd.storage import LogConfig, NodeDirectory, format_directory
from kraftd.types import Election, ReplicaKey
from tests.crash.hooks import PowerCutError, calm, cut_power_before
from tests.sim.filesystem import SimFileSystem
from tests.unit.storage.batches import batch

HOME = Path("/data")
CONFIG = LogConfig(segment_bytes=500, index_bytes=60)

STEPS = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 4)),
    st.tuples(st.just("flush"), st.booleans()),
    st.tuples(st.just("truncate"), st.integers(0, 100)),
    st.tuples(st.just("elect"), st.integers(1, 2)),
    st.tuples(st.just("kill"), st.just(0)),
    st.tuples(st.just("restart"), st.just(0)),
)


class World:
    """A node that keeps account of what it may rely on."""

    def __init__(self, fs: SimFileSystem) -> None:
        self.fs = fs
        self.epoch = 0
        self.elections = [Election()]
        self.history: list[bytes] = []
        """Batches in the order of the log, as far as the page cache knows."""
        self.durable = 0
        self.cutting = False
        self.node = self.open()

    def open(self) -> NodeDirectory:
        node = NodeDirectory.open(
            self.fs, HOME, node_id=1, random_uuid=lambda: os.urandom(16), voter_ids=(1,), config=CONFIG
        )
        assert node.damage == node.amnesia == ()
        self.generation = 0
        self.durable = node.log.end_offset
        return node

    def append(self, number: int) -> None:
        if self.epoch == 0:
            self.elect(1)
        base = len(self.history)
        new = [batch(base + n, self.epoch, size_bytes=30) for n in range(number)]
        self.history += new
        self.node.log.append(new, base, base + number)

    def flush(self, sync_recovery_point: bool) -> None:
        job = self.node.log.begin_flush(sync_recovery_point=sync_recovery_point)
        job.run()
        _, end_offset = self.node.log.flush_done(job)
        self.durable = max(self.durable, end_offset)

    def truncate(self, percent: int) -> None:
        to = len(self.history) * percent // 100
        self.generation += 1
        self.cutting = True
        self.durable = min(self.durable, to)
        assert self.node.log.truncate(to, self.generation) == to
        self.history = self.history[:to]
        self.cutting = False

    def elect(self, by: int) -> None:
        self.epoch += by
        self.elections = [self.elections[-1], Election(self.epoch, -1, ReplicaKey(1))]
        self.node.write_election(self.elections[-1])
        self.elections = self.elections[-1:]
        self.node.log.assign_epoch(self.epoch, len(self.history))

    def kill(self, _: int) -> None:
        self.fs.crash_process()
        self.node = self.open()
        assert self.node.log.end_offset == len(self.history)

    def restart(self, _: int) -> None:
        self.node.close()
        self.kill(0)


@settings(max_examples=150, deadline=None)
@given(steps=st.lists(STEPS, min_size=1, max_size=14), data=st.data())
def test_no_power_cut_takes_what_was_promised(steps: list[tuple[str, int]], data: st.DataObject) -> None:
    fs = SimFileSystem()
    format_directory(fs, HOME, cluster_id="c", node_id=1, directory_id=b"d" * 16, now_ms=1)
    world = World(fs)
    cut_power_before(fs, data.draw(st.integers(0, 200), label="cut before change"))
    try:
        for name, argument in steps:
            getattr(world, name)(argument)
    except PowerCutError:
        pass
    calm(fs)
    states = list(fs.crash_states())
    picked = data.draw(st.sets(st.integers(0, len(states) - 1), min_size=1, max_size=12), label="states")
    for number in picked:
        node = NodeDirectory.open(
            states[number], HOME, node_id=1, random_uuid=lambda: os.urandom(16), voter_ids=(1,), config=CONFIG
        )
        assert node.damage == node.amnesia == ()
        assert node.election in world.elections
        end = node.log.end_offset
        assert end >= world.durable
        found: list[bytes] = []
        while len(found) < end:
            found += [bytes(view.raw) for view in scan(node.log.read(len(found), 1 << 20))]
        assert found == world.history[:end]
        node.abandon()
