"""The brokers' part of a run: started, hurt, waited for and judged.

Entered by `WithBrokers.run`, within which the run calls `begin` once the controllers commit, `nemesis.run`
beside that of the controllers, and `end` when every fault is undone. What is wrong is added to the problems
of the quorum, which end both of them.
"""

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import msgspec
from confluent_kafka import KafkaException
from confluent_kafka.admin import ConfigResource, ResourceType

from kraftd.protocol.messages import ListBrokersRequest, ListBrokersResponseBroker
from kraftd.types import NodeId
from tests.brokers.clients import admin, create_topic, outcome, read_all, topics_at
from tests.chaos.broker_load import ALTERED, TOPICS, Load
from tests.chaos.broker_verdict import (
    Topics,
    defects,
    denied_topics,
    denied_values,
    not_back,
    not_taken,
    not_whole,
)
from tests.chaos.brokers import AT_ONCE, Brokers, broker_faults_of, specs_of
from tests.chaos.clients import ask_once
from tests.chaos.nemesis import Nemesis
from tests.chaos.quorum import NODES, Quorum
from tests.interop.peer import Kafka

MEND_S = 120.0
"""Longest time until every broker is back and every partition whole; a JVM may have been started just now."""

CATCH_UP_S = 60.0
"""Longest time until the consumers have what was acknowledged."""

LOOK_S = 0.5
"""Between two looks."""

ASK_S = 10.0
"""Longest time that one broker may take to tell what it knows."""

REPLICAS = 3


class BrokerReport(msgspec.Struct):
    """What clients of the brokers did in a run."""

    brokers: int
    sent: int
    acknowledged: int
    given_up: int
    longest_pause_s: float
    taken: Mapping[str, int]
    """How many different values, by group."""
    admin: Mapping[str, int]
    """How many changes of each kind were acknowledged."""
    refused: Mapping[str, int]
    """How many were not, by the name of the error."""

    def lines(self) -> list[str]:
        """For a person."""
        admin, refused = (
            ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items())) or "none"
            for counts in (self.admin, self.refused)
        )
        return [
            f"brokers             {self.brokers}",
            f"values sent         {self.sent:,}",
            f"  acknowledged      {self.acknowledged:,}",
            f"  given up          {self.given_up:,}",
            f"longest without an acknowledged value  {self.longest_pause_s:.1f} s",
            *(f"taken by {group:<11}{count:,}" for group, count in self.taken.items()),
            f"topics and configs  {admin}; not acknowledged: {refused}",
        ]


class WithBrokers:
    """So many brokers on the quorum of a run."""

    load: Load
    """Once begun."""

    def __init__(
        self,
        kafka: Kafka,
        folder: Path,
        quorum: Quorum,
        count: int,
        rng: random.Random,
        say: Callable[[str], None],
        kinds: Sequence[str],
    ) -> None:
        self.brokers = brokers = Brokers(kafka, folder, quorum, specs_of(count))
        faults = broker_faults_of(brokers, quorum, rng, say, kinds)
        self.nemesis = Nemesis(faults, rng, quorum.problems, at_once=AT_ONCE)
        self._quorum, self._say = quorum, say
        self._replicas = min(count, REPLICAS)
        self._told: dict[NodeId, Topics] = {}
        self._clients = contextlib.ExitStack()

    @contextlib.asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Run the brokers; however it ends, neither a client nor a process is left."""
        async with self.brokers.run():
            with self._clients:
                yield

    async def begin(self) -> None:
        """Wait for the brokers, and let the clients begin."""
        for broker_id in self.brokers.ids:
            await self.brokers.started(broker_id)
        in_sync = {"min.insync.replicas": str(max(1, self._replicas - 1))}
        for topic in TOPICS:
            await asyncio.to_thread(
                create_topic, self.brokers.cluster, topic, replicas=self._replicas, config=in_sync
            )
        self.load = Load(self.brokers.cluster, max(1, self._replicas - 1))
        self._clients.callback(self.load.abandon)
        self.load.start()
        self._say(f"{len(self.brokers.ids)} brokers are unfenced, and their clients begin")

    async def end(self) -> None:
        """Wait until everybody is back, end the clients, judge, and stop the brokers in order."""
        problems, load = self._quorum.problems, self.load
        missing = await self._until_none(self._not_back, MEND_S)
        self._say("not everybody is back" if missing else "every broker is back, and every partition whole")
        problems += missing
        await asyncio.to_thread(load.stop_producing)
        problems += await self._until_none(self._not_taken, CATCH_UP_S)
        await asyncio.to_thread(load.stop)
        problems += load.failures
        problems += await self._until_none(self._denied_topics, CATCH_UP_S)
        for topic in TOPICS:
            problems += await asyncio.to_thread(self._denied_values, topic)
        for node in self._quorum.cluster:
            problems += defects(node.node_id, node.events)
        self._say("what clients were told is compared; the brokers are stopped in order")
        await self.brokers.end_all()

    @property
    def report(self) -> BrokerReport:
        """What the clients did."""
        producers, groups, admin_client = self.load.producers.values(), self.load.groups, self.load.admin
        return BrokerReport(
            brokers=len(self.brokers.ids),
            sent=sum(each.sent for each in producers),
            acknowledged=sum(len(each.acknowledged) for each in producers),
            given_up=sum(len(each.lost) for each in producers),
            longest_pause_s=self.load.longest_pause_s,
            taken={name: sum(map(len, group.taken.values())) for name, group in groups.items()},
            admin=admin_client.acknowledged,
            refused=admin_client.refused,
        )

    async def _until_none(self, look: Callable[[], Awaitable[list[str]]], limit_s: float) -> list[str]:
        """Look until nothing is wrong; what still is when the time is over."""
        deadline_s = time.monotonic() + limit_s
        while True:
            found = await look()
            if not found or time.monotonic() > deadline_s:
                return [f"{each}, still after {limit_s:.0f} s without a fault" for each in found]
            await asyncio.sleep(LOOK_S)

    async def _not_back(self) -> list[str]:
        found = list(not_back(self.brokers.ids, await self._registered()))
        return found or [*await self._look(), *not_whole(self._told)]

    async def _not_taken(self) -> list[str]:
        acknowledged = self.load.acknowledged
        groups = self.load.groups.items()
        return [line for name, group in groups for line in not_taken(name, group.missing(acknowledged))]

    async def _denied_topics(self) -> list[str]:
        silent = await self._look()
        made = self.load.admin.made
        names = [topic.name for topic in made if topic.existence == "there"]
        try:
            configs = await asyncio.to_thread(self._configs, names)
        except KafkaException as error:
            return [*silent, f"the configs of topics are not told: {error}"]
        return [*silent, *denied_topics(made, self._told, configs)]

    def _denied_values(self, topic: str) -> list[str]:
        producer = self.load.producers[topic]
        try:
            read = read_all(self.brokers.cluster, topic)
        except (AssertionError, KafkaException) as error:
            return [f"{topic} cannot be read: {error}"]
        found = list(denied_values(topic, producer.sent, producer.acknowledged, read))
        if producer.lost:
            found.append(f"{len(producer.lost)} values for {topic} were given up by their producer")
        return found

    async def _registered(self) -> Sequence[ListBrokersResponseBroker]:
        """The brokers as the active controller knows them; none if nobody says."""
        for node_id in NODES:
            with contextlib.suppress(OSError, EOFError, TimeoutError):
                response = await ask_once(self._quorum.ports[node_id], ListBrokersRequest())
                if not response.error_code:
                    brokers: Sequence[ListBrokersResponseBroker] = response.brokers
                    return brokers
        return ()

    async def _look(self) -> list[str]:
        """Let each broker tell which topics there are; who does not."""
        silent = []
        for broker in self.brokers.cluster:
            try:
                self._told[broker.node_id] = await asyncio.to_thread(topics_at, broker, ASK_S)
            except KafkaException as error:
                silent.append(f"broker {broker.node_id} tells of no topics: {error}")
        return silent

    def _configs(self, names: Sequence[str]) -> dict[str, str]:
        """`ALTERED` of each of these topics, as some broker tells it."""
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
        if not resources:
            return {}
        futures = admin(self.brokers.cluster).describe_configs(resources)
        return {resource.name: outcome(future)[ALTERED].value for resource, future in futures.items()}
