"""What clients do at the brokers while everything is hurt, and what they were told.

Entered by `Load`: a producer a topic that waits for all in sync and repeats without doubling, two groups of
two consumers, one of each protocol, and an admin client that creates topics, alters their configs and deletes
them. All by librdkafka, in threads of their own.

What the admin client was not told is in doubt for ever: a broker sends again what its controller did not
answer, and what was on its way arrives when a link is mended. So a name is used once, a config is written
once, and a topic is deleted when nothing of its beginning can be on the way any more.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec
from confluent_kafka import Consumer, KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from tests.brokers.clients import SILENT, consumer
from tests.brokers.cluster import BrokerCluster
from tests.brokers.load import Steady, longest_pause

TOPICS = ("first", "second", "third")
PAUSE_S = 0.02
"""Between two values of a topic."""

PRODUCER = {"max_in_flight": 1, "message_timeout_ms": 300_000}
"""One request at a time, and a patience that lasts beyond what is hurt: librdkafka begins anew, and so sends
twice what was written and not acknowledged, once it has given a value up, or one was refused for too few in
sync and a later one was not.
"""

GROUPS = {"classic-group": "classic", "consumer-group": "consumer"}
"""Each group and its protocol."""

MEMBERS = 2
"""Consumers of a group."""

REFRESH_MS = 5_000
"""How often a consumer looks which topics there are; the five minutes of librdkafka are longer than anybody
waits here for what a member of a classic group was not told of when it joined.
"""

CONSUMED_AT_ONCE, CONSUME_S = 500, 0.1

ADMIN_PAUSE_S = 0.5
ADMIN_PATIENCE_S = 10.0
LOOK_S = 0.2
"""How often a client that waits looks whether it still has to."""

RIPE_S = 30.0
"""Age of a topic from which on nothing of its beginning is on the way: every fault is undone long before."""

KEPT = 5
"""How many of the topics that were made are not deleted again."""

ALTERED = "retention.ms"

Existence = Literal["there", "gone", "in doubt"]


class Made(msgspec.Struct):
    """A topic that the admin client made, as far as it was told."""

    name: str
    existence: Existence
    made_at_s: float
    config: str | None = None
    """What `ALTERED` was set to; None if that was not acknowledged."""


class Load:
    """All clients, and what they were told."""

    def __init__(self, cluster: BrokerCluster, replicas: int) -> None:
        """`replicas` are those of a topic that the admin client makes."""
        self.producers = {topic: Steady(cluster, topic, pause_s=PAUSE_S, **PRODUCER) for topic in TOPICS}
        self.groups = {group: Group(cluster, group, protocol) for group, protocol in GROUPS.items()}
        self.admin = Admin(cluster, replicas)
        self._began_s = time.monotonic()
        self._producing = [_Thread(each.run) for each in self.producers.values()]
        self._others = [
            _Thread(run) for run in (self.admin.run, *(group.run for group in self.groups.values()))
        ]

    def start(self) -> None:
        """Begin, in threads."""
        self._began_s = time.monotonic()
        for thread in (*self._producing, *self._others):
            thread.start()

    def stop_producing(self) -> None:
        """Wait until each value under way was acknowledged or given up."""
        for producer in self.producers.values():
            producer.stop()
        for thread in self._producing:
            thread.join()

    def stop(self) -> None:
        """End what is left, and wait for it."""
        self.stop_producing()
        self.admin.stop()
        for group in self.groups.values():
            group.stop()
        for thread in self._others:
            thread.join()

    def abandon(self) -> None:
        """End everything at once, whatever is under way."""
        self.admin.stop()
        for group in self.groups.values():
            group.abandon()
        for thread in (*self._producing, *self._others):
            while thread.is_alive():
                for producer in self.producers.values():
                    producer.abandon()  # it may have sent another one
                thread.join(LOOK_S)

    @property
    def failures(self) -> list[str]:
        """Clients that ended by themselves, and why."""
        return [thread.failure for thread in (*self._producing, *self._others) if thread.failure]

    @property
    def acknowledged(self) -> Mapping[str, list[str]]:
        """The values that were acknowledged, by topic."""
        return {topic: producer.acknowledged for topic, producer in self.producers.items()}

    @property
    def longest_pause_s(self) -> float:
        """The longest time in which a topic had no acknowledged value."""
        each = [producer.acknowledged_at for producer in self.producers.values()]
        return max((longest_pause(at, self._began_s) for at in each if at), default=0.0)


class Group:
    """Consumers of one group, and what they took together."""

    def __init__(self, cluster: BrokerCluster, name: str, protocol: str) -> None:
        self.name = name
        self.taken: dict[str, set[str]] = {topic: set() for topic in TOPICS}
        self._is_over = threading.Event()
        self._is_abandoned = False
        config = {"group_protocol": protocol, "topic_metadata_refresh_interval_ms": REFRESH_MS}
        self._members = [consumer(cluster, name, **config) for _ in range(MEMBERS)]

    def run(self) -> None:
        """Take what comes, until told to stop."""
        for member in self._members:
            member.subscribe(list(TOPICS))
        while not self._is_over.is_set():
            for member in self._members:
                self._take(member)
        if not self._is_abandoned:
            for member in self._members:
                member.close()

    def stop(self) -> None:
        """Let it leave."""
        self._is_over.set()

    def abandon(self) -> None:
        """Let it go without a word."""
        self._is_abandoned = True
        self._is_over.set()

    def missing(self, acknowledged: Mapping[str, list[str]]) -> Mapping[str, set[str]]:
        """The acknowledged values that nobody in here was given, by topic."""
        return {topic: set(values) - self.taken[topic] for topic, values in acknowledged.items()}

    def _take(self, member: Consumer) -> None:
        for message in member.consume(CONSUMED_AT_ONCE, CONSUME_S):
            topic, value = message.topic(), message.value()
            if message.error() is None and topic is not None and value is not None:
                self.taken[topic].add(value.decode())


class Admin:
    """One admin client, one request at a time: creates, alters, deletes."""

    def __init__(self, cluster: BrokerCluster, replicas: int) -> None:
        self.made: list[Made] = []
        self.acknowledged: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self._bootstrap, self._replicas = cluster.bootstrap, replicas
        self._is_over = threading.Event()
        self._client = self._new_client()

    def run(self) -> None:
        """Do one thing after the other, until told to stop."""
        while True:
            for do in (self._create, self._alter, self._delete):
                if self._is_over.wait(ADMIN_PAUSE_S):
                    return
                do()

    def stop(self) -> None:
        """Let it end; what is under way then is in doubt."""
        self._is_over.set()

    def _create(self) -> None:
        name = f"made-{len(self.made)}"
        futures = self._client.create_topics(
            [NewTopic(name, 2, self._replicas)], request_timeout=ADMIN_PATIENCE_S
        )
        is_done = self._is_done("create", futures[name], but="TOPIC_ALREADY_EXISTS")
        self.made.append(Made(name, "there" if is_done else "in doubt", time.monotonic()))

    def _alter(self) -> None:
        topic = self.made[-1]
        value = f"{3_600_000 + len(self.made)}"
        entry = ConfigEntry(ALTERED, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic.name, incremental_configs=[entry])
        futures = self._client.incremental_alter_configs([resource], request_timeout=ADMIN_PATIENCE_S)
        if self._is_done("alter", futures[resource]):
            topic.config = value

    def _delete(self) -> None:
        ripe_s = time.monotonic() - RIPE_S
        there = [topic for topic in self.made if topic.existence == "there"]
        if len(there) <= KEPT or there[0].made_at_s > ripe_s:
            return
        futures = self._client.delete_topics([there[0].name], request_timeout=ADMIN_PATIENCE_S)
        is_done = self._is_done("delete", futures[there[0].name], but="UNKNOWN_TOPIC_OR_PART")
        there[0].existence = "gone" if is_done else "in doubt"

    def _is_done(self, what: str, future: Any, *, but: str = "") -> bool:
        """Whether it was acknowledged. `but` is what a broker is told that asks again for what was done."""
        while not self._is_over.is_set():
            try:
                future.result(LOOK_S)
            except TimeoutError:
                continue
            except KafkaException as error:
                name = error.args[0].name()
                if name != but:
                    self.refused[name] += 1
                    self._client = self._new_client()
                    return False
            self.acknowledged[what] += 1
            return True
        return False

    def _new_client(self) -> AdminClient:
        """One that has not made up its mind whom to ask."""
        return AdminClient({"bootstrap.servers": self._bootstrap, **SILENT})


class _Thread(threading.Thread):
    """Runs a client, and keeps why it ended by itself."""

    def __init__(self, work: Callable[[], None]) -> None:
        super().__init__()
        self.failure = ""
        self._work = work

    def run(self) -> None:
        try:
            self._work()
        except Exception as error:
            self.failure = f"{self._work.__qualname__} ended by itself: {error!r}"
