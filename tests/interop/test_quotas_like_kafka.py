"""The quota of created and deleted partitions, kept by the manager of Kafka's controllers and by ours.

Both are told the same quotas and asked for the same topics at the same times, and say which are refused and
for how long to wait.
"""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

import pytest

from kraftd.controller.mutation_quotas import MUTATION_RATE, MutationQuotas
from kraftd.controller.refused import RefusedError
from kraftd.metadata.parts.client_quotas import Quotas, with_quota
from kraftd.records.messages import ClientQuotaRecord, ClientQuotaRecordEntityData
from tests.interop.peer import HERE, Kafka

STEPS = 1_500
"""Of each world: less than the hour after which Kafka forgets a client, in the clock of the test."""
STEP_MS = 2_000
USERS = ("alice", "bob", "a user/of %2F", "é")
CLIENTS = ("app", "other", "")
RATES = (0.5, 1.0, 3.0, 10.0)
SAMPLES, SECONDS = 11, 1


@pytest.fixture(scope="module")
def compiled(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    return kafka.compiled(HERE / "Quotas.java", tmp_path_factory.mktemp("classes"))


class KafkaManager:
    """A running process of Kafka's."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def ask(self, *columns: object) -> str:
        sent, received = self._process.stdin, self._process.stdout
        assert sent is not None
        assert received is not None
        sent.write("\t".join(map(str, columns)) + "\n")
        sent.flush()
        line = received.readline()
        assert line, "Kafka's manager ended"
        return line.rstrip("\n")


@contextmanager
def kafka_manager(kafka: Kafka, compiled: tuple[str, ...]) -> Iterator[KafkaManager]:
    process = subprocess.Popen(
        kafka.command(*compiled, str(SAMPLES), str(SECONDS)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield KafkaManager(process)
    finally:
        process.kill()
        process.communicate()


class Ours:
    """What the active controller keeps."""

    def __init__(self) -> None:
        self.quotas: Quotas = Quotas()
        self.buckets = MutationQuotas(SAMPLES * SECONDS)

    def set(self, user: str, client: str, rate: float | None) -> None:
        entity = tuple(
            ClientQuotaRecordEntityData(kind, None if name == "*" else name[1:])
            for kind, name in (("user", user), ("client-id", client))
            if name != "-"
        )
        record = ClientQuotaRecord(entity, MUTATION_RATE, rate or 0.0, remove=rate is None)
        self.quotas = with_quota(self.quotas, record)

    def take(self, user: str, client: str, now_ms: int, *, is_strict: bool, topics: list[int]) -> str:
        quota = self.buckets.of_request(self.quotas, user, client, now_ms, is_strict=is_strict)
        told = []
        for partitions in topics:
            try:
                quota.take(partitions)
                told.append("0")
            except RefusedError:
                told.append("1")
        self.buckets.keep(quota)
        return f"{','.join(told)}\t{quota.throttle_ms}"


@pytest.mark.parametrize("seed", range(3))
def test_random_clients_are_limited_alike(kafka: Kafka, compiled: tuple[str, ...], seed: int) -> None:
    random, ours, now_ms, refused, waits = Random(seed), Ours(), 1_000_000, 0, 0
    entities = [
        (user, client)
        for user in ("-", "*", *(f"={name}" for name in USERS))
        for client in ("-", "*", *(f"={name}" for name in CLIENTS if name))
        if (user, client) != ("-", "-")
    ]
    with kafka_manager(kafka, compiled) as theirs:
        for step in range(STEPS):
            now_ms += random.choice((0, 1, random.randrange(STEP_MS), STEP_MS))
            if random.random() < 0.1:
                rate = random.choice((None, *RATES))
                user, client = random.choice(entities)
                ours.set(user, client, rate)
                theirs.ask("set", user, client, "-" if rate is None else rate)
                continue
            user, client = random.choice(USERS), random.choice(CLIENTS)
            topics = [random.choice((0, 1, 2, 7, 30)) for _ in range(random.choice((1, 1, 2, 4)))]
            is_strict = random.random() < 0.7
            wanted = theirs.ask(
                "take", user, client, now_ms, str(is_strict).lower(), ",".join(map(str, topics))
            )
            told = ours.take(user, client, now_ms, is_strict=is_strict, topics=topics)
            assert told == wanted, f"seed {seed}, step {step}: {user} {client} {topics} at {now_ms}"
            refused += "1" in wanted.partition("\t")[0]
            waits += not wanted.endswith("\t0")
    assert refused > STEPS / 20
    assert waits > refused
