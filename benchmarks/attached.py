"""Three real Kafka brokers attached to a measured system, with a thousand partitions.

Entered by `side.py` for `loads.py --brokers`, and by `idle.py`. Brokers stop and go on with their
controllers. When they wake they have not been heard of for longer than their session lasts, so the
controllers may fence them and take them out of every ISR. So a round begins when the metadata of each broker
says that all three are unfenced and every replica is in sync.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from peers import brokers
from peers.brokers import Client, Seen, brokers_of, create_topics
from peers.cluster import CLUSTER_ID, Cluster, Node
from peers.frames import Sockets
from peers.kafka import Kafka

from kraftd.metadata.feature_levels import SUPPORTED
from kraftd.protocol.messages import (
    BrokerRegistrationRequest,
    BrokerRegistrationRequestFeature,
    BrokerRegistrationRequestListener,
)
from kraftd.records import names

BROKER_IDS = (11, 12, 13)
HEAP_MB = 256
SMALL = "log.cleaner.dedupe.buffer.size=4194304\n"
"""Or that buffer takes half of the heap."""
SNAPSHOTS = "metadata.log.max.snapshot.interval.ms=500\n"
"""Of controllers that are to write some in a round of two seconds."""
RESOURCES = ("1", "2", "3", "4")
"""Whose configs are changed in Kafka. Without brokers one is the default of all, which brokers would try to
use."""
NEVER_THERE = 4
"""A broker that is registered, so that it can have configs, and no more: it stays fenced. That is not before
there are topics, since fenced brokers get replicas, too."""
ALL = Seen(len(BROKER_IDS), len(BROKER_IDS) * brokers.TOPICS * brokers.PARTITIONS)
PATIENCE_S = 120.0


class Attached:
    """The brokers, as what stops and goes on with a cluster."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = list(nodes)
        self._sockets = Sockets(hello=None)

    async def settled(self) -> None:
        """Wait until all are unfenced and all replicas in sync, by the metadata of each."""
        for node in self.nodes:
            until = time.monotonic() + PATIENCE_S
            while (seen := await self._seen(node)) != ALL:
                if time.monotonic() > until:
                    raise RuntimeError(f"broker {node.index} sees {seen} and not {ALL}\n{node.tail()}")
                await asyncio.sleep(0.1)

    async def _seen(self, node: Node) -> Seen | None:
        """What its metadata says; None if it does not answer now."""
        with contextlib.suppress(OSError, EOFError, TimeoutError):
            async with asyncio.timeout(5):
                return brokers.metadata_seen(await self._sockets.exchange(node, brokers.metadata_request()))
        return None

    async def close(self) -> None:
        """Drop the connections to the brokers."""
        await self._sockets.close()


@contextlib.asynccontextmanager
async def attached(cluster: Cluster) -> AsyncIterator[None]:
    """The cluster up, with its brokers and partitions; none left behind."""
    if isinstance(cluster, Kafka):
        cluster.resources = RESOURCES
    async with cluster.running():
        with brokers_of(cluster, BROKER_IDS, heap_mb=HEAP_MB, more=SMALL) as nodes:
            await asyncio.gather(*map(brokers.start, nodes))
            await create_topics(nodes[0], replicas=len(nodes))
            await _register(await cluster.wait_leader(), NEVER_THERE)
            cluster.guests = guests = Attached(nodes)
            await guests.settled()
            yield
            await guests.close()


async def _register(controller: Node, broker_id: int) -> None:
    features = tuple(
        BrokerRegistrationRequestFeature(each.name, each.min_level, each.max_level) for each in SUPPORTED
    )
    request = BrokerRegistrationRequest(
        broker_id=broker_id,
        cluster_id=CLUSTER_ID,
        incarnation_id=bytes([broker_id]) * 16,
        listeners=(BrokerRegistrationRequestListener("PLAINTEXT", "127.0.0.1", 9092),),
        features=features,
        log_dirs=(bytes([broker_id]) * 16,),
    )
    client = Client(controller)
    response = await client.ask(request, 4)
    client.close()
    if response.error_code:
        raise RuntimeError(f"broker {broker_id} is refused: {response.error_code}")


def snapshots(cluster: Cluster) -> set[Path]:
    """The whole snapshots that the nodes of a cluster have now."""
    folders = [node.directory / "data" / names.LOG_DIRECTORY for node in cluster.nodes]
    return {path for folder in folders for path in folder.glob("*.checkpoint")}
