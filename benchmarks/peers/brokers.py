"""Real Kafka brokers on the controllers of a measured system, kraftd's or Kafka's own.

What they are asked here is little: to create topics, and what their metadata says. Their requests are of
Kafka's wire, whoever the controllers are.
"""

import asyncio
import contextlib
import struct
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kraftd.protocol.kafka_codec import KAFKA
from kraftd.protocol.messages import CreateTopicsRequest, CreateTopicsRequestCreatableTopic
from peers.cluster import CLUSTER_ID, Cluster, Node, free_ports
from peers.kafka import kafka_java

LOGGING = Path(__file__).parents[2] / "scripts" / "kafka-log4j2-stdout.properties"
STARTED = "Kafka Server started"
TOPICS, PARTITIONS = 10, 100
PATIENCE_S = 180.0
"""Nine processes of Java that start at once take their time."""
_METADATA, _ALL_TOPICS = 3, b"\0\0\0\0"


@contextlib.contextmanager
def brokers_of(cluster: Cluster, ids: Sequence[int], *, heap_mb: int, more: str = "") -> Iterator[list[Node]]:
    """Brokers with these ids, formatted, with more properties if given; none is left behind."""
    brokers = list(_formatted(cluster, ids, kafka_java(heap_mb=heap_mb), more))
    try:
        yield brokers
    finally:
        for broker in brokers:
            broker.stop()


def _formatted(cluster: Cluster, ids: Sequence[int], java: Sequence[str], more: str) -> Iterator[Node]:
    voters = ",".join(f"{node.index}@127.0.0.1:{node.port}" for node in cluster.nodes)
    for broker_id, port in zip(ids, free_ports(len(ids)), strict=True):
        directory = cluster.directory / f"broker-{broker_id}"
        directory.mkdir()
        config = directory / "server.properties"
        config.write_text(
            f"process.roles=broker\nnode.id={broker_id}\ncontroller.quorum.voters={voters}\n"
            f"listeners=PLAINTEXT://127.0.0.1:{port}\ncontroller.listener.names=CONTROLLER\n"
            "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n"
            f"offsets.topic.replication.factor=1\nlog.dirs={directory}/data\n{more}"
        )
        form = [*java, "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(config)]
        subprocess.run(form, check=True, capture_output=True)
        logging = f"-Dlog4j2.configurationFile={LOGGING}"
        yield Node(broker_id, directory, [java[0], logging, *java[1:], "kafka.Kafka", str(config)], port)


async def start(broker: Node) -> float:
    """Start a broker; the seconds until the active controller has unfenced it."""
    began = time.perf_counter()
    broker.start()
    output = broker.directory / "output.log"
    while STARTED not in output.read_text(errors="replace"):
        if not broker.running or time.perf_counter() > began + PATIENCE_S:
            raise RuntimeError(f"broker {broker.index} does not start:\n{broker.tail()}")
        await asyncio.sleep(0.02)
    return time.perf_counter() - began


async def create_topics(broker: Node, *, replicas: int) -> None:
    """Ask a broker for `TOPICS` topics of `PARTITIONS` partitions each."""
    topics = tuple(
        CreateTopicsRequestCreatableTopic(
            name=f"topic-{n}", num_partitions=PARTITIONS, replication_factor=replicas
        )
        for n in range(TOPICS)
    )
    client = Client(broker)
    response = await client.ask(CreateTopicsRequest(topics=topics, timeout_ms=60_000), 7)
    client.close()
    refused = [each.error_message for each in response.topics if each.error_code]
    if refused:
        raise RuntimeError(f"topics are refused: {refused[0]}")


class Client:
    """One connection to a broker or controller, one request at a time."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._last_id = 0

    async def ask(self, message: Any, version: int) -> Any:
        """Send a request and wait for its response."""
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._node.port)
        reader, writer = self._streams
        self._last_id += 1
        writer.writelines(KAFKA.encode_request(version, self._last_id, "benchmark", message))
        size = int.from_bytes(await reader.readexactly(4), "big")
        response = KAFKA.read_response(await reader.readexactly(size))
        return response.decode((message.API_KEY, version))

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()


class Seen(NamedTuple):
    """What a broker's metadata says."""

    unfenced: int
    """Brokers."""
    in_sync: int
    """Replicas of all partitions that are in their ISR."""


def metadata_request() -> bytes:
    """A frame that asks for the metadata of all topics, in version 0."""
    frame = struct.pack(">hhih", _METADATA, 0, 1, -1) + _ALL_TOPICS
    return struct.pack(">I", len(frame)) + frame


def metadata_seen(frame: bytes) -> Seen:
    """What the answer says, a whole frame; a broker that is fenced is not in it."""
    at = 8  # length and correlation id

    def number(kind: str) -> int:
        nonlocal at
        (value,) = struct.unpack_from(f">{kind}", frame, at)
        at += struct.calcsize(kind)
        return int(value)

    def skip(size: int) -> None:
        nonlocal at
        at += size

    unfenced = number("i")
    for _ in range(unfenced):
        skip(4)
        skip(number("h"))
        skip(4)
    in_sync = 0
    for _ in range(number("i")):
        skip(2)
        skip(number("h"))
        for _ in range(number("i")):
            skip(2 + 4 + 4)
            skip(4 * number("i"))
            count = number("i")
            in_sync += count
            skip(4 * count)
    return Seen(unfenced, in_sync)
