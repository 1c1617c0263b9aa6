"""Client quotas and SCRAM credentials, decided by Kafka's own managers and by ours.

Both decide one random request after the other on one state: the same records in the same order, and the same
outcomes in the same order, of which only the texts are ours. Which of several mistakes is told first is seen
in Kafka's text alone, and so is not compared.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest
from contexts import context_of
from msgspec.structs import replace

from kraftd.controller.client_quota_control import alter_client_quotas
from kraftd.controller.scram_control import alter_user_scram_credentials
from kraftd.errors import ErrorCode
from kraftd.metadata.image import EMPTY
from kraftd.metadata.image_builder import apply_all
from kraftd.metadata.record_versions import encode_allowed
from kraftd.protocol import messages as m
from kraftd.records.frame import AnyRecord
from kraftd.records.messages import FeatureLevelRecord
from tests.interop.managers import Managers
from tests.interop.peer import HERE, Kafka

OPERATIONS = 400
"""Of each world."""

NAMES = ("alice", "bob", "AaAa", "BBBB", "AaBB", "BBAa", "C#", "Bb", "é", "🎈", "", "0", "x" * 200)
"""Some of one Java hash, of characters outside of ASCII and of the basic plane."""
ADDRESSES = (
    "1.2.3.4",
    "::1",
    "[::1]",
    "1.2",
    "256.1.1.1",
    "::g",
    "fe80::1%1",
    "",
    "1.2.3.4.5.6",
    "[1.2.3.4]",
)
KINDS = ("user", "client-id", "ip")
QUOTAS = (
    *("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"),
    *("connection_creation_rate", "no_such_quota", "", "leader.replication.throttled.rate"),
)
VALUES = (
    *(1.0, 2.0, 1024.0, 0.0, -0.0, -1.0, 0.5, 1.0000001, 1.0001, 0.9999999, 1e-9, 32767.0, 32768.0),
    *(float((1 << 31) - 1), float(1 << 31), float(1 << 63), 2.0**63 * 1.001, 1e300),
    *(float("inf"), float("-inf"), float("nan")),
)
MANY = 700
"""So many entries make Java's maps grow. Their names have hashes of their own: of eight in one bucket Java
makes a tree, which has another order.
"""


@pytest.fixture(scope="module")
def compiled(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    return kafka.compiled(HERE / "Users.java", tmp_path_factory.mktemp("classes"))


class Requests:
    """Random requests."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def count(self, usual: Sequence[int]) -> int:
        return MANY if self.random.random() < 0.01 else self.random.choice(usual)

    def quotas(self) -> m.AlterClientQuotasRequest:
        count = self.count((0, 1, 1, 2, 3))
        return m.AlterClientQuotasRequest(
            entries=tuple(self.entry(is_one_of_many=count == MANY) for _ in range(count)),
            validate_only=self.random.random() < 0.1,
        )

    def entry(self, *, is_one_of_many: bool) -> m.AlterClientQuotasRequestEntryData:
        random = self.random
        kinds = random.choice(
            (("user",), ("client-id",), ("user", "client-id"), ("ip",), ("client-id", "user"), ())
            if random.random() < 0.9
            else (random.choices((*KINDS, "users", ""), k=3), random.choices(KINDS, k=2))
        )
        entity = tuple(
            m.AlterClientQuotasRequestEntityData(kind, self.name(kind, is_one_of_many=is_one_of_many))
            for kind in kinds
        )
        ops = tuple(self.op("ip" in kinds) for _ in range(random.choice((0, 1, 1, 2, 3, 5))))
        if random.random() < 0.9:
            ops = tuple({op.key: op for op in ops}.values())
        return m.AlterClientQuotasRequestEntryData(entity, ops)

    def name(self, kind: str, *, is_one_of_many: bool) -> str | None:
        if self.random.random() < 0.2:
            return None
        if kind == "ip":
            return self.random.choice(ADDRESSES)
        return self.user(is_one_of_many)

    def op(self, is_of_address: bool) -> m.AlterClientQuotasRequestOpData:
        likely = QUOTAS[4:5] if is_of_address else QUOTAS[:4]
        key = self.random.choice(likely if self.random.random() < 0.9 else QUOTAS)
        value = self.random.choice(VALUES[:3] if self.random.random() < 0.7 else VALUES)
        return m.AlterClientQuotasRequestOpData(key, value, remove=self.random.random() < 0.3)

    def credentials(self) -> m.AlterUserScramCredentialsRequest:
        deletions, upsertions = self.count((0, 0, 1, 2)), self.count((0, 1, 2))
        return m.AlterUserScramCredentialsRequest(
            deletions=tuple(self.deletion(deletions == MANY) for _ in range(deletions)),
            upsertions=tuple(self.upsertion(upsertions == MANY) for _ in range(upsertions)),
        )

    def user(self, is_one_of_many: bool) -> str:
        return f"user {self.random.randrange(MANY)}" if is_one_of_many else self.random.choice(NAMES)

    def mechanism(self) -> int:
        return self.random.choice((1, 2) if self.random.random() < 0.95 else (0, 3, -1))

    def deletion(self, is_one_of_many: bool) -> m.AlterUserScramCredentialsRequestScramCredentialDeletion:
        return m.AlterUserScramCredentialsRequestScramCredentialDeletion(
            self.user(is_one_of_many), self.mechanism()
        )

    def upsertion(self, is_one_of_many: bool) -> m.AlterUserScramCredentialsRequestScramCredentialUpsertion:
        random = self.random
        return m.AlterUserScramCredentialsRequestScramCredentialUpsertion(
            name=self.user(is_one_of_many),
            mechanism=self.mechanism(),
            iterations=random.choice((4096, 4096, 8192, 16384, 16385, 4095, 0, -1)),
            salt=random.randbytes(random.choice((0, 16, 30))),
            salted_password=random.randbytes(random.choice((0, 1, 32, 64, 64, 200))),
        )


KINDS_OF_REQUEST: tuple[tuple[str, int, Callable[[Requests], Any], Callable[..., Any]], ...] = (
    ("alter_client_quotas", 0, Requests.quotas, alter_client_quotas),
    ("alter_client_quotas", 1, Requests.quotas, alter_client_quotas),
    ("alter_user_scram_credentials", 0, Requests.credentials, alter_user_scram_credentials),
)


def outcomes(response: Any) -> list[Any]:
    """The outcomes in their order, without texts but for whether there is one."""
    found = response.entries if isinstance(response, m.AlterClientQuotasResponse) else response.results
    return [replace(each, error_message=None if each.error_code == ErrorCode.NONE else "") for each in found]


@pytest.mark.covers("D-14")
@pytest.mark.parametrize(("seed", "level"), [(1, 30), (2, 30), (3, 11), (4, 10), (5, 7)])
def test_random_requests(kafka: Kafka, compiled: tuple[str, ...], seed: int, level: int) -> None:
    random = Random(seed)
    requests = Requests(random)
    seen: set[tuple[str, int]] = set()
    with Managers(kafka, compiled, {}) as managers:
        begin: list[AnyRecord] = [FeatureLevelRecord("metadata.version", level)]
        managers.replay(begin)
        image = apply_all(EMPTY, begin, 0)
        for number in range(OPERATIONS):
            api, version, make, decide = random.choice(KINDS_OF_REQUEST)
            request = make(requests)
            records, response = decide(context_of(image), request)
            told = managers.decide(api, request, version, 0, is_forwarded=False)
            assert outcomes(response) == outcomes(told.response), (number, request)
            assert all(
                (each.error_message is None) == (each.error_code == ErrorCode.NONE)
                for each in getattr(response, "entries", None) or getattr(response, "results", ())
            )
            assert [encode_allowed(record, level) for record in records] == told.records, (number, request)
            image = apply_all(image, records, 0)
            seen |= {(api, each.error_code) for each in outcomes(response)}
    wanted = {("alter_client_quotas", code) for code in (0, 42)}
    codes = (35,) if level < 11 else (0, -1, 33, 91, 92, 93)
    wanted |= {("alter_user_scram_credentials", code) for code in codes}
    assert seen >= wanted
