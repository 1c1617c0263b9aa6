"""What the end of a broker costs the others: `.venv/bin/python benchmarks/fencing.py`.

Three controllers, and brokers that are scripted: no more of them than their registrations and heartbeats.
Broker 11 is in sync in 15,000 partitions of three replicas and leads 5,000 of them; then it wants to be
fenced, and after it broker 12. Five brokers that hold nothing send one heartbeat after the other meanwhile.
Told are the time until the broker is fenced, how long the others' heartbeats took, and whether anybody was
elected; before that, without a daemon, the CPU of one slice in the controller itself.
"""

import asyncio
import gc
import os
import tempfile
import time
from pathlib import Path

from peers.brokers import Client
from peers.cluster import CLUSTER_ID, Node, percentile
from peers.kraftd import Kraftd

from kraftd.controller.activation import registration_of
from kraftd.controller.decisions import Decision, Write
from kraftd.controller.plans import SLICE_RECORDS
from kraftd.controller.quorum_controller import QuorumController
from kraftd.errors import ErrorCode
from kraftd.metadata.feature_levels import SUPPORTED, bootstrap_records
from kraftd.metadata.parts.brokers import BROKERS
from kraftd.protocol import messages as m
from kraftd.records.committed import CommittedBatch
from kraftd.records.frame import AnyRecord, encode_record
from kraftd.records.messages import PartitionRecord, RegisterBrokerRecord, TopicRecord
from kraftd.types import Endpoint, Now

OWNERS = (11, 12, 13)
OTHERS = (21, 22, 23, 24, 25)
TOPICS, PARTITIONS = 15, 1_000
PAUSE_S = 0.01
ROUNDS = 4
NEWEST = 1 << 40
"""A metadata offset beyond every registration: a scripted broker has always read enough."""
ME = 1
NOW = Now(1_000, 1_000)


def main() -> None:
    whole = [min(each) for each in zip(*(slices_ms() for _ in range(ROUNDS)), strict=True)]
    row(f"a slice of {SLICE_RECORDS - 1} changes, ms of CPU, least of four", sum(whole) / len(whole))
    row("  the dearest", max(whole))
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(Path(folder)))
    row("load of this machine, 1 minute", os.getloadavg()[0])


def row(label: str, value: float) -> None:
    print(f"{label:58} {value:10,.1f}", flush=True)


# -- without a daemon


def slices_ms() -> list[float]:
    """The CPU time of each whole slice that fences broker 11."""
    log = _Log()
    log.append([*bootstrap_records(), *map(_registered, OWNERS)])
    for number in range(TOPICS):
        log.append(_topic(number))
    log.controller.leader_changed(2, ME, is_self=True)
    log.commit_due()
    broker = log.controller.image[BROKERS].get(OWNERS[0])
    assert broker is not None
    request = m.BrokerHeartbeatRequest(OWNERS[0], broker.broker_epoch, NEWEST, want_fence=True)
    gc.collect()
    gc.freeze()
    found: list[float] = []
    begun = time.process_time_ns()
    decided: Decision | None = log.controller.handle(request, NOW, 2)
    while isinstance(decided, Write) and not (decided.is_last and found):
        found.append((time.process_time_ns() - begun) / 1e6)
        log.commit(decided)
        begun = time.process_time_ns()
        decided = log.next_slice()
    gc.unfreeze()
    return found[:-1]


class _Log:
    """A controller, and a log that commits at once."""

    def __init__(self) -> None:
        self.controller = QuorumController(
            me=registration_of(ME, bytes([ME]) * 16, [Endpoint("host", 9093)]), bootstrap=bootstrap_records()
        )

    def append(self, records: list[AnyRecord]) -> None:
        self._apply([encode_record(record) for record in records], 1)

    def commit(self, write: Write) -> None:
        self._apply(list(write.records), write.epoch)
        self.controller.finished(write, ErrorCode.NONE)

    def commit_due(self) -> None:
        """Commit the records of the activation."""
        write = self.controller.poll(NOW)
        assert write is not None
        self.commit(write)

    def next_slice(self) -> Write | None:
        item = self.controller.next_slice(NOW)
        return item if isinstance(item, Write) else None

    def _apply(self, values: list[bytes], epoch: int) -> None:
        base = self.controller.applied_offset
        self.controller.apply(CommittedBatch(base, base + len(values), epoch, 0, values))


def _registered(broker_id: int) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker_id,
        incarnation_id=bytes([broker_id]) * 16,
        broker_epoch=broker_id,
        fenced=False,
        log_dirs=(bytes([broker_id]) * 16,),
    )


def _topic(number: int) -> list[AnyRecord]:
    topic_id = bytes([7, number]) * 8
    return [
        TopicRecord(f"t{number}", topic_id),
        *(
            PartitionRecord(
                partition_id,
                topic_id,
                replicas,
                replicas,
                leader=replicas[0],
                leader_epoch=0,
                partition_epoch=0,
                directories=tuple(bytes([one]) * 16 for one in replicas),
            )
            for partition_id, replicas in enumerate(map(_replicas, range(PARTITIONS)))
        ),
    ]


def _replicas(number: int) -> tuple[int, ...]:
    first = number % len(OWNERS)
    return (*OWNERS[first:], *OWNERS[:first])


# -- with three daemons


class Broker:
    """A scripted broker."""

    def __init__(self, broker_id: int, controller: Node) -> None:
        self.broker_id = broker_id
        self.epoch = -1
        self._client = Client(controller)

    async def register(self) -> None:
        """Register, and beat until it is unfenced."""
        features = tuple(
            m.BrokerRegistrationRequestFeature(each.name, each.min_level, each.max_level)
            for each in SUPPORTED
        )
        response = await self._client.ask(
            m.BrokerRegistrationRequest(
                broker_id=self.broker_id,
                cluster_id=CLUSTER_ID,
                incarnation_id=bytes([self.broker_id]) * 16,
                listeners=(m.BrokerRegistrationRequestListener("PLAINTEXT", "127.0.0.1", 9092),),
                features=features,
                log_dirs=(bytes([self.broker_id]) * 16,),
            ),
            4,
        )
        if response.error_code:
            raise RuntimeError(f"broker {self.broker_id} is refused: {response.error_code}")
        self.epoch = response.broker_epoch
        while (await self.beat()).is_fenced:  # noqa: ASYNC110 - another process sets no event
            await asyncio.sleep(PAUSE_S)

    async def beat(self, *, want_fence: bool = False) -> m.BrokerHeartbeatResponse:
        request = m.BrokerHeartbeatRequest(self.broker_id, self.epoch, NEWEST, want_fence=want_fence)
        response: m.BrokerHeartbeatResponse = await self._client.ask(request, 2)
        if response.error_code:
            raise RuntimeError(f"a heartbeat of broker {self.broker_id} is refused: {response.error_code}")
        return response

    def close(self) -> None:
        self._client.close()


async def measure(folder: Path) -> None:
    cluster = Kraftd(folder)
    async with cluster.running():
        leader = await cluster.wait_leader()
        owners, others = ([Broker(each, leader) for each in ids] for ids in (OWNERS, OTHERS))
        for broker in (*owners, *others):
            await broker.register()
        await _create_topics(leader)
        leadership = await cluster.write(leader)
        for broker in owners[:2]:
            took_s, latencies_ms = await _fence(broker, others)
            row(f"broker {broker.broker_id} fenced, {TOPICS * PARTITIONS:,} changes, s", took_s)
            row("  heartbeats of the others meanwhile", len(latencies_ms))
            row("  they took, ms, p50", percentile(latencies_ms, 0.5))
            row("  they took, ms, p99", percentile(latencies_ms, 0.99))
            row("  the longest, ms", latencies_ms[-1])
        row("elections meanwhile", 0 if await cluster.write(leader) == leadership else 1)
        for broker in (*owners, *others):
            broker.close()


async def _create_topics(leader: Node) -> None:
    """Create topics whose replicas are the owners."""
    client = Client(leader)
    for number in range(TOPICS):
        assignments = tuple(
            m.CreateTopicsRequestCreatableReplicaAssignment(each, _replicas(each))
            for each in range(PARTITIONS)
        )
        topic = m.CreateTopicsRequestCreatableTopic(f"t{number}", -1, -1, assignments)
        response = await client.ask(m.CreateTopicsRequest((topic,), 60_000), 7)
        if response.topics[0].error_code:
            raise RuntimeError(f"a topic is refused: {response.topics[0].error_message}")
    client.close()


async def _fence(broker: Broker, others: list[Broker]) -> tuple[float, list[float]]:
    """Fence a broker: how long it took, and in order how long each heartbeat of the others did."""
    latencies_ms: list[float] = []
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for each in others:
            group.create_task(_beat(each, latencies_ms, stop))
        await asyncio.sleep(1)
        latencies_ms.clear()
        begun = time.perf_counter()
        await broker.beat(want_fence=True)
        took_s = time.perf_counter() - begun
        found = sorted(latencies_ms)
        stop.set()
    return took_s, found


async def _beat(broker: Broker, latencies_ms: list[float], stop: asyncio.Event) -> None:
    """Send one heartbeat after the other, and note how long each took."""
    while not stop.is_set():
        begun = time.perf_counter()
        await broker.beat()
        latencies_ms.append(1_000 * (time.perf_counter() - begun))
        await asyncio.sleep(PAUSE_S)


if __name__ == "__main__":
    main()
