"""What a hundred observers cost the leader: `.venv/bin/python benchmarks/observers.py [--observers 100]`.

Three controllers, and observers that are scripted: each fetches the metadata log over Kafka's wire as a
broker does, one request in flight, and reads what it is given. All of them live in this process. Told are the
leader's CPU with and without them, idle and at so many changes a second, and how long after its append a
record was seen as committed by the observers.
"""

import argparse
import asyncio
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import uvloop
from peers.cluster import Node, percentile
from peers.kraftd import HELLO, Kraftd, alter_configs
from rows import row

from kraftd.protocol import messages as m
from kraftd.protocol.framing import FrameReader
from kraftd.protocol.kafka_codec import KAFKA
from kraftd.protocol.limits import FRAME_BYTES_MAX
from kraftd.records.batch import scan
from kraftd.types import METADATA_TOPIC_ID

FIRST_ID = 1_000
VERSION = 18
WAIT_MS = 500
"""How long a broker lets a fetch wait at most."""
FETCH_BYTES = 1 << 20
WRITERS = 8


def main() -> None:
    parser = argparse.ArgumentParser(description="What observers cost the leader.")
    parser.add_argument("--observers", type=int, default=100)
    parser.add_argument("--rate", type=int, default=1_000, help="changes a second")
    parser.add_argument("--seconds", type=int, default=10, help="of each measurement")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        uvloop.run(measure(Path(folder), options.observers, options.rate, options.seconds))
    row("load of this machine, 1 minute", os.getloadavg()[0])


async def measure(folder: Path, count: int, rate: int, seconds: int) -> None:
    cluster = Kraftd(folder)
    async with cluster.running():
        leader = await cluster.wait_leader()
        quiet = await _cpu_percent(leader, seconds)
        writers = [await _connected(Writer(WRITERS / rate), leader) for _ in range(WRITERS)]
        busy, before = await _busy(leader, writers, seconds)
        row("leader's CPU, no observer, idle, % of a core", quiet)
        row(f"leader's CPU, no observer, {before:,.0f} changes/s", busy)
        observers = [await _connected(Observer(FIRST_ID + each), leader) for each in range(count)]
        await asyncio.sleep(2)
        row(f"leader's CPU, {count} observers, idle", await _cpu_percent(leader, seconds), at_most=5)
        for each in observers:
            each.seen_ms.clear()
        more, changes = await _busy(leader, writers, seconds)
        row(f"leader's CPU, {count} observers, {changes:,.0f} changes/s", more)
        row("  more than without observers, for as many changes", more - busy * changes / before, at_most=25)
        seen_ms = sorted(each for observer in observers for each in observer.seen_ms)
        row("  responses to an observer, a second", len(seen_ms) / count / seconds)
        row("  append to seen as committed, ms, p50", percentile(seen_ms, 0.5))
        row("  append to seen as committed, ms, p99", percentile(seen_ms, 0.99), at_most=150)


async def _busy(leader: Node, writers: list["Writer"], seconds: int) -> tuple[float, float]:
    """The leader's CPU, and how many changes a second were committed, while the writers write."""
    for writer in writers:
        writer.begin()
    await asyncio.sleep(1)
    before = sum(writer.committed for writer in writers)
    percent = await _cpu_percent(leader, seconds)
    committed = sum(writer.committed for writer in writers) - before
    for writer in writers:
        writer.is_writing = False
    await asyncio.sleep(0.5)
    return percent, committed / seconds


async def _cpu_percent(node: Node, seconds: int) -> float:
    before, began = node.cpu_s(), time.perf_counter()
    await asyncio.sleep(seconds)
    return 100 * (node.cpu_s() - before) / (time.perf_counter() - began)


async def _connected(protocol: Any, node: Node) -> Any:
    await asyncio.get_running_loop().create_connection(lambda: protocol, "127.0.0.1", node.port)
    return protocol


class Writer(asyncio.Protocol):
    """Writes one config again and again: the next change a fixed time after the last, if that is answered."""

    def __init__(self, interval_s: float) -> None:
        self.committed = 0
        self.is_writing = False
        self._interval_s = interval_s
        self._requests = [alter_configs(value, batch=False) for value in range(2)]
        self._reader = FrameReader(FRAME_BYTES_MAX)
        self._due = 0.0

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        transport.write(HELLO)

    def begin(self) -> None:
        self.is_writing, self._due = True, time.perf_counter()
        self._write()

    def data_received(self, data: bytes) -> None:
        for _ in self._reader.feed(data):
            if self.is_writing:
                self.committed += 1
                self._due += self._interval_s
                pause_s = max(0.0, self._due - time.perf_counter())
                asyncio.get_running_loop().call_later(pause_s, self._write)

    def _write(self) -> None:
        self._transport.write(self._requests[self.committed % 2])


class Observer(asyncio.Protocol):
    """Follows the log as a broker does."""

    def __init__(self, replica_id: int) -> None:
        self.seen_ms: list[float] = []
        """Of each response with records: how long before it its first record was appended."""
        self._replica = m.FetchRequestReplicaState(replica_id=replica_id)
        self._directory_id = replica_id.to_bytes(16, "big")
        self._reader = FrameReader(FRAME_BYTES_MAX, {0: KAFKA})
        self._epoch = self._offset = self._last_epoch = 0
        self._high_watermark = -1

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._fetch()

    def data_received(self, data: bytes) -> None:
        for frame in self._reader.feed(data):
            response = KAFKA.read_response(frame).decode((m.FetchRequest.API_KEY, VERSION))
            partition = response.responses[0].partitions[0]
            self._epoch = partition.current_leader.leader_epoch
            if partition.records:
                self._read(partition.records)
            self._high_watermark = min(partition.high_watermark, self._offset)
            self._fetch()

    def _read(self, records: bytes) -> None:
        batches = list(scan(records))
        self._offset, self._last_epoch = batches[-1].end_offset, batches[-1].epoch
        self.seen_ms.append(time.time() * 1_000 - batches[0].max_timestamp)

    def _fetch(self) -> None:
        partition = m.FetchRequestFetchPartition(
            partition=0,
            current_leader_epoch=self._epoch,
            fetch_offset=self._offset,
            last_fetched_epoch=self._last_epoch,
            partition_max_bytes=0,
            replica_directory_id=self._directory_id,
            high_watermark=self._high_watermark,
        )
        request = m.FetchRequest(
            replica_state=self._replica,
            max_wait_ms=WAIT_MS,
            max_bytes=FETCH_BYTES,
            topics=(m.FetchRequestFetchTopic(topic_id=METADATA_TOPIC_ID, partitions=(partition,)),),
        )
        self._transport.writelines(KAFKA.encode_request(VERSION, 1, "raft-client", request))


if __name__ == "__main__":
    main()
