"""What the tests do as a client of the brokers, by librdkafka unless a test says otherwise.

Each function waits for its outcome and fails with what the broker said; none retries what was refused.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.brokers.cluster import BrokerCluster
from tests.brokers.kafka_process import KafkaProcess
from tests.process.cluster import TimeoutWaitingError

WAIT_S = 60.0

SILENT = {"log_level": 2}
"""What librdkafka thinks of brokers that come and go is not the matter here."""


def admin(cluster: BrokerCluster) -> AdminClient:
    """A client that asks any broker; a new one once a broker was started again, since librdkafka goes on
    asking the one that it asked last.
    """
    return _admin_at(cluster.bootstrap, tuple(broker.pid for broker in cluster))


@cache
def _admin_at(bootstrap: str, _: tuple[int, ...]) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, **SILENT})


def producer(cluster: BrokerCluster, **config: Any) -> Producer:
    """A producer that waits for all replicas in sync; keys of `config` have `_` for `.`."""
    return Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", **SILENT, **_dotted(config)})


def consumer(cluster: BrokerCluster, group: str, **config: Any) -> Consumer:
    """A consumer that begins at the beginning."""
    return Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            **SILENT,
            **_dotted(config),
        }
    )


def create_topic(
    cluster: BrokerCluster,
    name: str,
    *,
    partitions: int = 3,
    replicas: int = 3,
    config: Mapping[str, str] | None = None,
    assignment: Sequence[Sequence[int]] | None = None,
) -> None:
    """Create a topic, and wait until the brokers lead all of its partitions, and each that is up knows it.

    One that asks too early is not told again: librdkafka's classic groups leave out a topic that the broker
    which they ask has not heard of, and look once more after five minutes.
    """
    if assignment is None:
        topic = NewTopic(name, partitions, replicas, config=dict(config or {}))
    else:
        topic = NewTopic(name, len(assignment), replica_assignment=[list(each) for each in assignment])
    outcome(admin(cluster).create_topics([topic])[name])
    wait_isr(cluster, name, replicas if assignment is None else len(assignment[0]))
    for broker in cluster:
        if broker.is_up:
            _wait_known(broker, name)


def outcome(future: Any) -> Any:
    """What an admin request led to; raises KafkaException if it was refused."""
    return future.result(WAIT_S)


def error_of(future: Any) -> str:
    """The name of the error that an admin request was refused with, or `NO_ERROR`."""
    try:
        future.result(WAIT_S)
    except KafkaException as error:
        return str(error.args[0].name())
    return "NO_ERROR"


class Partition(NamedTuple):
    """What a broker knows of a partition."""

    leader: int
    """-1 for none."""
    replicas: list[int]
    isr: list[int]


def partitions_of(cluster: BrokerCluster, topic: str) -> dict[int, Partition]:
    """Each partition of a topic, as a broker that is up tells it; none if it does not know the topic.

    By a client of its own, since one that knows all brokers may ask one that is paused, and wait.
    """
    return _partitions_at(",".join(f"127.0.0.1:{broker.port}" for broker in cluster if broker.is_up), topic)


def topics_at(broker: KafkaProcess, timeout_s: float) -> dict[str, dict[int, Partition]]:
    """Each partition of every topic, as this broker tells it; raises KafkaException if it does not."""
    topics = _onlooker(f"127.0.0.1:{broker.port}").list_topics(timeout=timeout_s).topics
    return {name: _told(topic) for name, topic in topics.items()}


def wait_isr(cluster: BrokerCluster, topic: str, size: int, *, without: int | None = None) -> None:
    """Wait until each partition has a leader and so many replicas in sync, none of them `without`."""

    def is_so() -> bool:
        found = partitions_of(cluster, topic).values()
        return bool(found) and all(
            each.leader in each.isr and len(each.isr) == size and without not in each.isr for each in found
        )

    wait_until(is_so, lambda: f"{size} in sync in {topic}: {_shown(cluster, topic)}")


def produce(cluster: BrokerCluster, topic: str, values: Sequence[str], **config: Any) -> None:
    """Send values and wait until each is acknowledged."""
    errors: list[Any] = []
    sender = producer(cluster, **config)
    for value in values:
        sender.produce(topic, value.encode(), on_delivery=lambda error, _: errors.append(error))
    assert sender.flush(WAIT_S) == 0, "not all were acknowledged"
    assert errors == [None] * len(values)


def consume(reader: Consumer, topics: Sequence[str], count: int) -> list[str]:
    """Subscribe and take so many values, in order."""
    reader.subscribe(list(topics))
    return [text for text, _ in take(reader, count)]


def take(reader: Consumer, count: int) -> list[tuple[str, Message]]:
    """The next so many values of a consumer that has its partitions or waits for them."""
    taken: list[tuple[str, Message]] = []
    deadline = time.monotonic() + WAIT_S
    while len(taken) < count:
        message = reader.poll(1.0)
        assert time.monotonic() < deadline, f"only {len(taken)} of {count} values came"
        if message is not None and message.error() is None:
            taken.append((message.value().decode(), message))
    return taken


def read_all(cluster: BrokerCluster, topic: str) -> list[str]:
    """Every value of a topic that is committed by now."""
    partitions = partitions_of(cluster, topic)
    reader = consumer(cluster, "read-all", enable_auto_commit=False, enable_partition_eof=True)
    values: list[str] = []
    ended: set[int] = set()
    deadline = time.monotonic() + WAIT_S
    try:
        reader.assign([TopicPartition(topic, each, 0) for each in partitions])
        while len(ended) < len(partitions):
            assert time.monotonic() < deadline, f"{topic}: {len(ended)} of {len(partitions)} partitions read"
            message = reader.poll(1.0)
            if message is None:
                continue
            if message.error() is None:
                values.append(message.value().decode())
            elif message.error().code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition())
        return values
    finally:
        reader.close()


def wait_until(is_so: Callable[[], bool], what: Callable[[], str], timeout_s: float = WAIT_S) -> None:
    """Ask until it is so; a client has no other way to learn that a broker changed its mind."""
    deadline = time.monotonic() + timeout_s
    while not is_so():
        if time.monotonic() > deadline:
            raise TimeoutWaitingError(f"not within {timeout_s} s: {what()}")
        time.sleep(0.1)


def _wait_known(broker: KafkaProcess, topic: str) -> None:
    wait_until(
        lambda: bool(_partitions_at(f"127.0.0.1:{broker.port}", topic)),
        lambda: f"broker {broker.node_id} knows {topic}",
    )


def _partitions_at(bootstrap: str, topic: str) -> dict[int, Partition]:
    return _told(_onlooker(bootstrap).list_topics(topic, timeout=WAIT_S).topics[topic])


def _onlooker(bootstrap: str) -> Consumer:
    config = {"bootstrap.servers": bootstrap, "group.id": "nobody", "allow.auto.create.topics": False}
    return Consumer({**config, **SILENT})


def _shown(cluster: BrokerCluster, topic: str) -> str:
    return ", ".join(
        f"{number}: leader {each.leader} of {each.replicas}, in sync {each.isr}"
        for number, each in partitions_of(cluster, topic).items()
    )


def _told(topic: Any) -> dict[int, Partition]:
    found = topic.partitions.values()
    return {each.id: Partition(each.leader, each.replicas, each.isrs) for each in found}


def _dotted(config: Mapping[str, Any]) -> dict[str, Any]:
    return {key.replace("_", "."): value for key, value in config.items()}
