"""Apache Kafka as a peer: three KRaft controllers from Maven's jars, written to with IncrementalAlterConfigs.

The requests are Kafka's own bytes, version 0, built here by hand and sent by the same client that drives
kraftd, so that neither system pays for the other's client library. A broker config is written even when
its value does not change (KAFKA-14136); the values change all the same.
"""

import asyncio
import shutil
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from peers.cluster import (
    CLUSTER_ID,
    VALUE_BYTES,
    Cluster,
    Load,
    Node,
    NotThereError,
    Work,
    write_configs,
)
from peers.frames import CONFIG_NAMES, VALUES, Sockets, run_load

HERE = Path(__file__).parents[1]
JARS = HERE.parent / ".benchmarks" / "kafka-jars"
INCREMENTAL_ALTER_CONFIGS, BROKER, SET = 44, 4, 0
THROTTLE_TIME = range(8, 12)
ERROR_AT = 16  # length, correlation id, throttle time and count come before the first error code
RESOURCES = ("1", "2", "3", "")
"""A config needs a registered node to belong to: the three controllers, and the default of all."""


class Kafka(Cluster):
    """Three controllers; the smallest configuration there is."""

    name = "kafka"
    can_resign = False
    java_options: ClassVar[Sequence[str]] = ()

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.resources: Sequence[str] = RESOURCES
        self._sockets = Sockets(hello=None)
        self._request = alter_configs(0, RESOURCES[:1])

    def prepare(self) -> None:
        java = [*kafka_java(heap_mb=400), *self.java_options]
        for number, directory, config, port in write_configs(self.directory, self.name, self.properties):
            form = [*java, "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(config)]
            subprocess.run(form, check=True, capture_output=True)
            self.nodes.append(Node(number, directory, [*java, "kafka.Kafka", str(config)], port))

    async def write(self, node: Node) -> int | None:
        response = await self._sockets.exchange(node, self._request)
        return node.index if response[ERROR_AT : ERROR_AT + 2] == b"\0\0" else None

    async def leader(self) -> Node | None:
        for node in self.nodes:
            if await self.write(node) is not None:
                return node
        return None

    async def load(self, work: Work) -> Load:
        leader = await self.wait_leader()
        resources = self.resources if work.batch else self.resources[:1]
        requests = [alter_configs(value, resources) for value in range(VALUES)]
        good = await self._sockets.exchange(leader, requests[0])
        if good[ERROR_AT : ERROR_AT + 2] != b"\0\0":
            raise RuntimeError(f"the load would be refused: {good!r}")
        return await run_load(leader.port, work, hello=None, requests=requests, good=good, free=THROTTLE_TIME)

    async def rejoined(self, node: Node) -> None:
        """Wait for its port, and some seconds more for the JVM to warm up and the log to be fetched."""
        async with asyncio.timeout(60):
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", node.port)
                except OSError:
                    await asyncio.sleep(0.1)
                else:
                    writer.close()
                    break
        await asyncio.sleep(4)

    async def close_clients(self) -> None:
        await self._sockets.close()


def kafka_java(*, heap_mb: int) -> list[str]:
    """A command that runs a class of Kafka's; the jars are fetched when they are not there.

    Raises:
        NotThereError: Java or Maven is missing, or Maven Central.
    """
    for tool in ("java", "mvn"):
        if shutil.which(tool) is None:
            raise NotThereError(
                f"kafka: {tool} is missing; on Debian: apt-get install openjdk-17-jre-headless maven"
            )
    if not list(JARS.glob("kafka-shell-*.jar")):
        copy = f"mvn -q -B -f {HERE}/kafka/pom.xml dependency:copy-dependencies -DoutputDirectory={JARS}"
        if subprocess.run(copy.split(), stdout=sys.stderr, check=False).returncode:
            shutil.rmtree(JARS, ignore_errors=True)
            raise NotThereError("kafka: its jars cannot be fetched from Maven Central")
    return [shutil.which("java") or "java", f"-Xmx{heap_mb}m", "-cp", f"{JARS}/*"]


def alter_configs(value: int, resources: Sequence[str]) -> bytes:
    """One request frame that sets a config of one resource, or all of several, to one of `VALUES` values."""
    text = _string(f"{value:02d}".ljust(VALUE_BYTES, "x"))
    names = CONFIG_NAMES if len(resources) > 1 else CONFIG_NAMES[:1]
    configs = _array([_string(name) + struct.pack(">b", SET) + text for name in names])
    altered = [struct.pack(">b", BROKER) + _string(name) + configs for name in resources]
    header = struct.pack(">hhi", INCREMENTAL_ALTER_CONFIGS, 0, 1) + _string("benchmark")
    frame = header + _array(altered) + b"\0"
    return struct.pack(">I", len(frame)) + frame


def _string(text: str) -> bytes:
    raw = text.encode()
    return struct.pack(">h", len(raw)) + raw


def _array(elements: Sequence[bytes]) -> bytes:
    return struct.pack(">i", len(elements)) + b"".join(elements)
