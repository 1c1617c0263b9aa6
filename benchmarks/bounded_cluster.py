"""Clusters with a past: controllers that begin with a large snapshot, or behind millions of batches."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from aged_directory import AgedDirectory, copy_log, set_config
from big_snapshot import END, write_snapshot
from peers.cluster import CLUSTER_ID, Cluster, Node
from peers.kafka import Kafka
from peers.kraftd import Kraftd

from kraftd.records import names
from kraftd.storage import NodeDirectory, OsFileSystem
from kraftd.types import Election, HealthKind

TIMED_DAEMON = Path(__file__).with_name("timed_daemon.py")
LOG_LOADED = Path(__file__).with_name("kafka") / "loaded.properties"
BY_TIME_ALONE = f"metadata.log.max.record.bytes.between.snapshots={1 << 40}\n"
NO_BROKER_DIES = f"broker.session.timeout.ms={2**31 - 1}\nauto.leader.rebalance.enable=false\n"
"""The snapshot has brokers of which none is there: nine seconds later each would be fenced, which changes all
partitions several times.
"""
WAIT_S = 600


class Bounded(Kraftd):
    """Three controllers of which more is asked than commits, and who may need long to start."""

    async def wait_leader(self, limit_s: float = WAIT_S) -> Node:
        return await super().wait_leader(limit_s)

    async def wait_applied(self, *nodes: Node) -> None:
        """Wait until these nodes have applied what any node knows to be committed, but for what is on its
        way.
        """
        async with asyncio.timeout(WAIT_S):
            while True:
                try:
                    seen = {node.index: await self._status(node) for node in self.nodes}
                except (OSError, EOFError):
                    seen = {}
                committed = max((each.high_watermark for each in seen.values()), default=0)
                if committed > 0 and all(seen[node.index].applied_offset > committed - 10 for node in nodes):
                    return
                await asyncio.sleep(0.02)

    async def committed(self) -> int:
        """Up to which offset all is committed."""
        return (await self._status(await self.wait_leader())).high_watermark


class WithSnapshot(Bounded):
    """Controllers that begin with a large snapshot, and make the next ones by time alone."""

    def __init__(self, directory: Path, partitions: int, snapshot_interval_ms: int) -> None:
        super().__init__(directory)
        self._partitions = partitions
        self._snapshot_interval_ms = snapshot_interval_ms

    def prepare(self) -> None:
        super().prepare()
        for node in self.nodes:
            interval = f"metadata.log.max.snapshot.interval.ms={self._snapshot_interval_ms}\n"
            _configure(node, BY_TIME_ALONE + interval)
            node.command = [sys.executable, str(TIMED_DAEMON), "start", str(config_of(node))]
            _let_it_have_voted(node)
        _give_snapshot(self, self._partitions)


def _let_it_have_voted(node: Node) -> None:
    """Let a formatted node be one that has taken part up to the snapshot's epoch."""
    directory = NodeDirectory.open(
        OsFileSystem(),
        node.directory / "data",
        node_id=node.index,
        random_uuid=lambda: os.urandom(16),
        voter_ids=(1, 2, 3),
    )
    directory.write_election(Election(END.epoch))
    directory.remember_state_health(HealthKind.WHOLE)
    directory.close()
    for segment in log_of(node).glob("*.log"):
        segment.unlink()  # beside an empty log the snapshot would be none of this node's, and be set aside


class KafkaWithSnapshot(Kafka):
    """Kafka's controllers with the same snapshot; they tell in their output when one was loaded."""

    java_options = ("-Xmx3g", f"-Dlog4j2.configurationFile={LOG_LOADED}")

    def __init__(self, directory: Path, partitions: int) -> None:
        super().__init__(directory)
        self._partitions = partitions

    def prepare(self) -> None:
        super().prepare()
        for node in self.nodes:
            log_of(node).mkdir()
        _give_snapshot(self, self._partitions)

    async def wait_leader(self, limit_s: float = WAIT_S) -> Node:
        return await super().wait_leader(limit_s)


def _configure(node: Node, lines: str) -> None:
    config = config_of(node)
    config.write_text(config.read_text() + lines)


def _give_snapshot(cluster: Cluster, partitions: int) -> None:
    for node in cluster.nodes:
        _configure(node, NO_BROKER_DIES)
    first, *others = cluster.nodes
    made = write_snapshot(log_of(first), partitions)
    for node in others:
        shutil.copy(made, log_of(node))


class Aged(Bounded):
    """Controllers whose directories have seen many changes, a millisecond apart, each a batch of its own."""

    def __init__(self, directory: Path, records: int) -> None:
        super().__init__(directory)
        self._records = records

    def prepare(self) -> None:
        super().prepare()
        first, *others = (node.directory / "data" for node in self.nodes)
        changes = [set_config(text) for text in ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384")]
        began_ms = int(time.time() * 1_000) - self._records
        aged = AgedDirectory(first, 1, began_ms=began_ms)
        for number in range(self._records):
            value, image = changes[number % 2]
            aged.append(value, image, began_ms + number)
        aged.close()
        for other in others:
            copy_log(first, other)


def config_of(node: Node) -> Path:
    return node.directory / "server.properties"


def log_of(node: Node) -> Path:
    return node.directory / "data" / names.LOG_DIRECTORY


async def kill(node: Node) -> None:
    """End a node by SIGKILL."""
    node.signal(signal.SIGKILL)
    await node.wait_gone()


async def wipe(node: Node, tool: Sequence[str]) -> None:
    """Kill a node, and format its directory anew with this tool."""
    await kill(node)
    shutil.rmtree(node.directory / "data")
    (node.directory / "output.log").unlink()
    words = (*tool, "format", "-t", CLUSTER_ID, "-c", str(config_of(node)))
    await asyncio.to_thread(subprocess.run, words, check=True, capture_output=True)


async def follower(cluster: Cluster) -> Node:
    """A node that does not lead."""
    leader = await cluster.wait_leader()
    return next(node for node in cluster.nodes if node is not leader)
