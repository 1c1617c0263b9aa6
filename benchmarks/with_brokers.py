"""Two real Kafka brokers on the measured controllers, and clients that change topic configs through them.

Entered by `quorum.py --brokers`. What an operator and a client see of a quorum is seen through brokers: they
forward the change in an Envelope, and when the active controller dies they look for the next one. Measured
are the time from its SIGKILL to the next change that succeeds, memory and idle CPU of a controller with 1,000
partitions, and the time from a broker's start until it may serve.
"""

import asyncio
import contextlib
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from peers.cluster import CLUSTER_ID, Cluster, Node, free_ports, idle
from peers.kafka import kafka_java

from kraftd.protocol.kafka_codec import KAFKA
from kraftd.protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsRequestCreatableTopic,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)

LOGGING = Path(__file__).parents[1] / "scripts" / "kafka-log4j2.properties"
STARTED = "Kafka Server started"
BROKER_IDS = (11, 12)
TOPICS, PARTITIONS = 10, 100
TOPIC, SET = 2, 0
PATIENCE_S = 60.0
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
        with _brokers(cluster) as brokers:
            for broker in brokers:
                figures.broker_start_s.append(round(await _start(broker), 2))
            await _create_topics(brokers[0])
            await asyncio.sleep(idle_s / 4)
            figures.idle_cpu_percent, figures.rss_mb = await idle(cluster, idle_s)
            for _ in range(faults):
                figures.failover_ms.append(round(await _failover_ms(cluster, brokers), 1))
    return figures


@contextlib.contextmanager
def _brokers(cluster: Cluster) -> Iterator[list[Node]]:
    """The brokers, formatted; those that run at the end are ended."""
    brokers = list(_prepared(cluster))
    try:
        yield brokers
    finally:
        for broker in brokers:
            broker.stop()


def _prepared(cluster: Cluster) -> Iterator[Node]:
    java = kafka_java(heap_mb=400)
    voters = ",".join(f"{node.index}@127.0.0.1:{node.port}" for node in cluster.nodes)
    for broker_id, port in zip(BROKER_IDS, free_ports(len(BROKER_IDS)), strict=True):
        directory = cluster.directory / f"broker-{broker_id}"
        directory.mkdir()
        config = directory / "server.properties"
        config.write_text(
            f"process.roles=broker\nnode.id={broker_id}\ncontroller.quorum.voters={voters}\n"
            f"listeners=PLAINTEXT://127.0.0.1:{port}\ncontroller.listener.names=CONTROLLER\n"
            "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n"
            f"offsets.topic.replication.factor=1\nlog.dirs={directory}/data\n"
        )
        form = [*java, "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(config)]
        subprocess.run(form, check=True, capture_output=True)
        logging = f"-Dlog4j2.configurationFile={LOGGING}"
        yield Node(broker_id, directory, [java[0], logging, *java[1:], "kafka.Kafka", str(config)], port)


async def _start(broker: Node) -> float:
    """Start a broker; the seconds until the active controller has unfenced it."""
    began = time.perf_counter()
    broker.start()
    output = broker.directory / "output.log"
    while STARTED not in output.read_text(errors="replace"):
        if not broker.running or time.perf_counter() > began + PATIENCE_S:
            raise RuntimeError(f"broker {broker.index} does not start:\n{broker.tail()}")
        await asyncio.sleep(0.02)
    return time.perf_counter() - began


async def _create_topics(broker: Node) -> None:
    topics = tuple(
        CreateTopicsRequestCreatableTopic(name=f"topic-{n}", num_partitions=PARTITIONS, replication_factor=2)
        for n in range(TOPICS)
    )
    client = Client(broker)
    response = await client.ask(CreateTopicsRequest(topics=topics, timeout_ms=60_000), 7)
    client.close()
    refused = [each.error_message for each in response.topics if each.error_code]
    if refused:
        raise RuntimeError(f"topics are refused: {refused[0]}")


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


class Client:
    """One connection to a broker or controller, one request at a time."""

    def __init__(self, broker: Node) -> None:
        self._broker = broker
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._last_id = 0

    async def ask(self, message: Any, version: int) -> Any:
        """Send a request and wait for its response."""
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._broker.port)
        reader, writer = self._streams
        self._last_id += 1
        writer.writelines(KAFKA.encode_request(version, self._last_id, "benchmark", message))
        size = int.from_bytes(await reader.readexactly(4), "big")
        response = KAFKA.read_response(await reader.readexactly(size))
        return response.decode((message.API_KEY, version))

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
