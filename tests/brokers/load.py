"""Load on the brokers while a test hurts them, and what became of it: a producer and an admin client.

    with producing(cluster, "topic"), altering(cluster, "topic") as succeeded:
        ...

Whoever leaves `producing` has read back all that was acknowledged.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from tests.brokers.clients import admin, producer, read_all, wait_until
from tests.brokers.cluster import BrokerCluster

PAUSE_S = 0.005
"""Between two values of a steady producer: a load, not a measurement."""


class Steady:
    """A producer that never stops, and what was acknowledged to it."""

    def __init__(
        self, cluster: BrokerCluster, topic: str, *, pause_s: float = PAUSE_S, **config: Any
    ) -> None:
        """Keys of `config`, the producer's, have `_` for `.`."""
        self.cluster = cluster
        self.topic = topic
        self.sent = 0
        self.acknowledged: list[str] = []
        self.acknowledged_at: list[float] = []
        self.lost: list[str] = []
        """Those that it gave up: they may be there all the same."""
        self._pause_s = pause_s
        self._is_over = threading.Event()
        config = {"enable_idempotence": True, "message_timeout_ms": 120_000, **config}
        self._sender = producer(cluster, **config)

    def run(self) -> None:
        """Send until told to stop, then wait for what is under way."""
        while not self._is_over.wait(self._pause_s):
            value = f"{self.sent}"
            self._sender.produce(self.topic, value.encode(), on_delivery=self._delivered(value))
            self._sender.poll(0)
            self.sent += 1
        self._sender.flush(120)

    def stop(self) -> None:
        """Let it finish."""
        self._is_over.set()

    def abandon(self) -> None:
        """Let it finish at once, and give up what is under way."""
        self._is_over.set()
        self._sender.purge()

    def wait_more(self, count: int) -> None:
        """Wait until so many more values are acknowledged."""
        wanted = len(self.acknowledged) + count
        wait_until(lambda: len(self.acknowledged) >= wanted, lambda: f"{count} more acknowledged values")

    def _delivered(self, value: str) -> Callable[[object, object], None]:
        def told(error: object, _: object) -> None:
            if error:
                self.lost.append(value)
            else:
                self.acknowledged.append(value)
                self.acknowledged_at.append(time.monotonic())

        return told


@contextmanager
def producing(cluster: BrokerCluster, topic: str) -> Iterator[Steady]:
    """A steady producer meanwhile; afterwards all that was acknowledged is read."""
    steady = Steady(cluster, topic)
    thread = threading.Thread(target=steady.run, name=f"producer of {topic}")
    thread.start()
    try:
        steady.wait_more(20)
        yield steady
        steady.wait_more(20)
    finally:
        steady.stop()
        thread.join()
    assert steady.lost == []
    assert set(steady.acknowledged) <= set(read_all(cluster, topic))


@contextmanager
def altering(
    cluster: BrokerCluster, topic: str, *, patience_s: float = 30, repeats: bool = False
) -> Iterator[list[float]]:
    """A client that alters a topic's config through the brokers, one request after the other; when each
    succeeded. None may take longer than its patience. With `repeats` it makes a change again of which nobody
    knows whether it was made, as that of a leader which stops together with all the others.
    """
    succeeded: list[float] = []
    is_over = threading.Event()
    client = admin(cluster)

    def run() -> None:
        number = 0
        while not is_over.is_set():
            entry = ConfigEntry(
                "retention.ms", f"{3_600_000 + number}", incremental_operation=AlterConfigOpType.SET
            )
            resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
            altered = client.incremental_alter_configs([resource], request_timeout=patience_s)
            try:
                altered[resource].result(2 * patience_s)
            except KafkaException as error:
                if not repeats or error.args[0].code() != KafkaError.REQUEST_TIMED_OUT:
                    raise
                continue
            succeeded.append(time.monotonic())
            number += 1

    failures: list[BaseException] = []

    def guarded() -> None:
        try:
            run()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=guarded, name=f"admin of {topic}")
    thread.start()
    try:
        wait_until(lambda: len(succeeded) > 5 or bool(failures), lambda: "changes through the brokers")
        yield succeeded
    finally:
        is_over.set()
        thread.join()
    assert not failures, repr(failures[0])


def longest_pause(succeeded: Sequence[float], began: float) -> float:
    """The longest time without a success from `began` on, in seconds; all of them by the monotonic clock."""
    after = [at for at in succeeded if at > began]
    return max(later - earlier for earlier, later in zip([began, *after], after, strict=False))
