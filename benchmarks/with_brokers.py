"""Two real Kafka brokers on the measured controllers, and clients that change topic configs through them.

Entered by `quorum.py --brokers`. What an operator and a client see of a quorum is seen through brokers: they
forward the change in an Envelope, and when the active controller dies they look for the next one. Measured
are the time from its SIGKILL to the next change that succeeds, memory and idle CPU of a controller with 1,000
partitions, and the time from a broker's start until it may serve.
"""

import asyncio
import signal
import time

import msgspec
from peers.brokers import Client, brokers_of, create_topics, start
from peers.cluster import Cluster, Node, idle

from kraftd.protocol.messages import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)

BROKER_IDS = (11, 12)
TOPIC, SET = 2, 0
_IN_FLIGHT_S = 0.05
"""What was committed before a kill may be told so long after it; no failover is that short."""


class BrokerFigures(msgspec.Struct):
    """What was measured of one system with brokers."""

    failover_ms: list[float] = []
    broker_start_s: list[float] = []
    idle_cpu_percent: float = 0
    rss_mb: float = 0


async def measure_with_brokers(cluster: Cluster, *, faults: int, idle_s: int) -> BrokerFigures:
    """Everything about one system, from an empty directory."""
    figures = BrokerFigures()
    async with cluster.running():
        with brokers_of(cluster, BROKER_IDS, heap_mb=400) as brokers:
            for broker in brokers:
                figures.broker_start_s.append(round(await start(broker), 2))
            await create_topics(brokers[0], replicas=len(brokers))
            await asyncio.sleep(idle_s / 4)
            figures.idle_cpu_percent, figures.rss_mb = await idle(cluster, idle_s)
            for _ in range(faults):
                figures.failover_ms.append(round(await _failover_ms(cluster, brokers), 1))
    return figures


async def _failover_ms(cluster: Cluster, brokers: list[Node]) -> float:
    """Kill the active controller; the time until a change succeeds through any broker, then bring it back."""
    leader = await cluster.wait_leader()
    succeeded: list[float] = []
    progress = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_alter_for_ever(broker, succeeded, progress)) for broker in brokers]
        await _more(succeeded, progress, 20)
        killed_at = time.perf_counter()
        leader.signal(signal.SIGKILL)
        while not succeeded or succeeded[-1] <= killed_at + _IN_FLIGHT_S:
            progress.clear()
            await progress.wait()
        for task in tasks:
            task.cancel()
    await cluster.close_clients()
    await leader.wait_gone()
    leader.start()
    await cluster.rejoined(leader)
    return 1000 * (next(at for at in succeeded if at > killed_at + _IN_FLIGHT_S) - killed_at)


async def _more(succeeded: list[float], progress: asyncio.Event, count: int) -> None:
    wanted = len(succeeded) + count
    while len(succeeded) < wanted:
        progress.clear()
        await progress.wait()


async def _alter_for_ever(broker: Node, succeeded: list[float], progress: asyncio.Event) -> None:
    """Change a topic's config through one broker, one request after the other."""
    client = Client(broker)
    number = 0
    try:
        while True:
            number += 1
            response = await client.ask(_change(number), 1)
            if response.responses[0].error_code == 0:
                succeeded.append(time.perf_counter())
                progress.set()
    finally:
        client.close()


def _change(number: int) -> IncrementalAlterConfigsRequest:
    config = IncrementalAlterConfigsRequestAlterableConfig(
        name="retention.ms", config_operation=SET, value=f"{3_600_000 + number}"
    )
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(
        resource_type=TOPIC, resource_name="topic-0", configs=(config,)
    )
    return IncrementalAlterConfigsRequest(resources=(resource,))
