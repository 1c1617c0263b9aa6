"""What the codec of Kafka's wire costs, in CPU time of one core: `.venv/bin/python benchmarks/kafka_wire.py`.

Each figure is the best of several rounds, since a loaded machine only adds. Fetch is that of an idle broker;
its response carries 2,000 bytes of records, which are copied once. The last rows are the worst that 64 KiB
can do, of every request and version that can be read: one array is filled with as many elements as fit.
"""

import gc
import itertools
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from kraftd.errors import MalformedError
from kraftd.protocol import messages as m
from kraftd.protocol.kafka_codec import KAFKA

sys.path.append(str(Path(__file__).parents[1]))

from tests.kafka_frames import Frames, kafka_requests

ROUNDS = 15
COSTLY_BYTES = 64 * 1024
COSTLY_HEAD_BYTES = 512
"""Of a costly frame, what is not in the array that is filled, at most."""
TAGS = {"no tags": b"\0", "a tag": b"\1\x7f\1a"}

TOPIC = bytes(15) + b"\1"
HEARTBEAT = m.BrokerHeartbeatRequest(broker_id=1, broker_epoch=70_000, current_metadata_offset=900_000)
FETCH = m.FetchRequest(
    cluster_id="4L6g3nShT-eMCtK--X86sw",
    replica_state=m.FetchRequestReplicaState(4, -1),
    max_wait_ms=500,
    max_bytes=1 << 20,
    topics=(
        m.FetchRequestFetchTopic(
            topic_id=TOPIC,
            partitions=(
                m.FetchRequestFetchPartition(
                    0, 3, 900_000, 3, 0, 0, bytes(range(16)), high_watermark=899_999
                ),
            ),
        ),
    ),
)
FETCHED = m.FetchResponse(
    responses=(
        m.FetchResponseFetchableTopicResponse(
            topic_id=TOPIC,
            partitions=(
                m.FetchResponsePartitionData(
                    high_watermark=900_000, current_leader=m.FetchResponseLeaderIdAndEpoch(1, 3)
                ),
            ),
        ),
    ),
    node_endpoints=(m.FetchResponseNodeEndpoint(1, "controller-1", 9093),),
)
IN_SYNC = m.AlterPartitionRequest(
    broker_id=1,
    topics=tuple(
        m.AlterPartitionRequestTopicData(
            topic_id=bytes((number,)) * 16,
            partitions=tuple(
                m.AlterPartitionRequestPartitionData(
                    partition_index=index,
                    leader_epoch=5,
                    new_isr_with_epochs=tuple(
                        m.AlterPartitionRequestBrokerState(broker, 100_000 + broker) for broker in (1, 2, 3)
                    ),
                    partition_epoch=300 + index,
                )
                for index in range(100)
            ),
        )
        for number in range(10)
    ),
)


def main() -> None:
    KAFKA.load(KAFKA.apis)
    heartbeat, fetch, in_sync = request(2, HEARTBEAT), request(18, FETCH), request(3, IN_SYNC)
    same = [bytes(2_000)]
    positions = itertools.cycle([[bytes(2_000)], [b"x" * 2_000]])
    beaten = m.BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False)
    rows: list[tuple[str, Callable[[], Any], int]] = [
        ("BrokerHeartbeat, decoded", lambda: KAFKA.decode_request(heartbeat), 20_000),
        ("BrokerHeartbeat, answered", lambda: KAFKA.encode_response(2, 1, beaten), 20_000),
        ("Fetch, decoded", lambda: KAFKA.decode_request(fetch), 10_000),
        ("Fetch, answered", lambda: KAFKA.encode_response(18, 1, FETCHED, next(positions)), 10_000),
        ("Fetch, answered once more", lambda: KAFKA.encode_response(18, 1, FETCHED, same), 10_000),
        ("AlterPartition of 1,000 partitions, decoded", lambda: KAFKA.decode_request(in_sync), 20),
    ]
    gc.freeze()
    for name, call, times in rows:
        print(f"{name:44} {best_us(call, times):10,.1f} us")
    costly = list(costly_frames())
    slowest = max(((best_us(each.decode, 1, rounds=3), each) for each in costly), key=lambda found: found[0])
    took_us = best_us(slowest[1].decode, 1)
    print(f"{'64 KiB that take longest':44} {took_us:10,.1f} us, {slowest[1].name}")
    largest = max(((memory_per_byte(each), each) for each in costly), key=lambda found: found[0])
    print(f"{'64 KiB that take most memory':44} {largest[0]:10,.1f} bytes a byte, {largest[1].name}")


class Costly(NamedTuple):
    """A frame that costs more than its bytes."""

    name: str
    frame: bytes

    def decode(self) -> None:
        """Decode it, or refuse it."""
        with suppress(MalformedError):
            KAFKA.decode_request(self.frame)


def costly_frames() -> Iterator[Costly]:
    """One of 64 KiB for each array of each request and version on Kafka's wire, with and without tags."""
    for message, version in kafka_requests():
        api = KAFKA.apis.get(message.key)
        if api is None or not api.min_version <= version <= api.max_version:
            continue
        for tagged, tags in TAGS.items():
            filled = Frames(message, version, tags=tags, filled_bytes=COSTLY_BYTES - COSTLY_HEAD_BYTES)
            for array, frame in filled.costly():
                yield Costly(f"{message.name} {version}, {array}, {tagged}", frame)


def memory_per_byte(costly: Costly) -> float:
    """The most memory that decoding a frame takes at once, for each of its bytes."""
    tracemalloc.start()
    costly.decode()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / len(costly.frame)


def request(version: int, message: Any) -> bytes:
    return b"".join(KAFKA.encode_request(version, 1, "broker-1", message))[4:]


def best_us(call: Callable[[], Any], times: int, *, rounds: int = ROUNDS) -> float:
    """The CPU time of one call, in the best of the rounds."""
    found = []
    for _ in range(rounds):
        begun = time.process_time()
        for _ in range(times):
            call()
        found.append(time.process_time() - begun)
    return min(found) / times * 1e6


if __name__ == "__main__":
    main()
