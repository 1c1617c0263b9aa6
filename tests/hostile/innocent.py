"""The innocent client: commits configs at a steady rate, and writes down how long each commit took.

A process of its own, so that an attacker's work does not slow its clock: `python -m tests.hostile.innocent
REPORT RATE PORT...` runs until its standard input ends. Each worker sets one config of one broker, one commit
after the other, and asks the node that leads; a commit that fails is tried again, and its wait goes on. Two
workers connect anew for each commit: they show whether somebody new gets in.

Each line of the report is `worker began ended tries value` in monotonic seconds; a commit that is still open
at the end has `ended` -1.
"""

import asyncio
import sys
import time
from pathlib import Path
from typing import IO, Any

import msgpack

from tests.hostile import wire

CONFIG = "ssl.cipher.suites"
WORKERS = 16
NEWCOMERS = 2
NEWCOMER_RATE = 5.0
ANSWER_S = 1.0
"""How long it waits for one response before it asks another node."""

PAUSE_S = 0.02
FIRST_BROKER = 100


class Worker:
    """One config, changed again and again."""

    def __init__(self, number: int, ports: list[int], report: IO[str], *, is_newcomer: bool) -> None:
        self.number = number
        self.ports = ports
        self.port = ports[number % len(ports)]
        self.report = report
        self.is_newcomer = is_newcomer
        self.open_since = 0.0
        self.value = 0
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def run(self, rate: float) -> None:
        """Commit at this rate for ever; behind schedule, as fast as it goes."""
        due = time.monotonic() + self.number / rate / (WORKERS + NEWCOMERS)
        while True:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            due = max(due + 1 / rate, time.monotonic() - 1 / rate)
            await self.commit()

    async def commit(self) -> None:
        self.value += 1
        tries = 0
        self.open_since = began = time.monotonic()
        while True:
            tries += 1
            try:
                async with asyncio.timeout(ANSWER_S):
                    code = await self.set()
            except (OSError, TimeoutError, asyncio.IncompleteReadError, ValueError):
                self.drop()
                code = None
            if code == 0:
                break
            self.drop()
            self.port = self.ports[(self.ports.index(self.port) + 1) % len(self.ports)]
            await asyncio.sleep(PAUSE_S)
        self.open_since = 0.0
        self.report.write(f"{self.number} {began:.6f} {time.monotonic():.6f} {tries} {self.value}\n")
        if self.is_newcomer:
            self.drop()

    async def set(self) -> int:
        """One try; the error code."""
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self.port)
            self._streams[1].write(wire.greeting(software="innocent"))
            await self.receive()
        config = {"Name": CONFIG, "ConfigOperation": 0, "Value": str(self.value)}
        resource = {"ResourceType": 4, "ResourceName": str(FIRST_BROKER + self.number), "Configs": [config]}
        self._streams[1].write(
            wire.request("IncrementalAlterConfigs", {"Resources": [resource]}, 1, self.value & 0x7FFFFFFF)
        )
        response = await self.receive()
        return int(wire.response("IncrementalAlterConfigs", response[1], 1)["Responses"][0]["ErrorCode"])

    async def receive(self) -> Any:
        assert self._streams is not None
        reader = self._streams[0]
        return msgpack.unpackb(
            await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big")), strict_map_key=False
        )

    def drop(self) -> None:
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None


async def main(report: IO[str], rate: float, ports: list[int]) -> None:
    workers = [
        Worker(number, ports, report, is_newcomer=number >= WORKERS) for number in range(WORKERS + NEWCOMERS)
    ]
    steady = [
        asyncio.ensure_future(worker.run(NEWCOMER_RATE if worker.is_newcomer else rate / WORKERS))
        for worker in workers
    ]
    ended = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await asyncio.wait([ended, *steady], return_when=asyncio.FIRST_COMPLETED)
    for task in steady:
        if task.done():
            task.result()
        task.cancel()
    for worker in workers:
        if worker.open_since:
            report.write(f"{worker.number} {worker.open_since:.6f} -1 0 {worker.value}\n")


if __name__ == "__main__":
    with Path(sys.argv[1]).open("a", buffering=1, encoding="utf-8") as out:
        asyncio.run(main(out, float(sys.argv[2]), [int(port) for port in sys.argv[3:]]))
