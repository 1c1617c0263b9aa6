"""Delegation tokens on kraftd's controller and on Kafka's own, with one secret: who may do what, and what is
written.

    python -m tests.conformance_kafka.tokens --seed 7 --ops 500 --level 30

Beside what `token_requests` draws among all other operations: clients of other types and of odd names, those
who logged in by a token, and who has a right to make tokens for others.

Tokens are called by the order in which they were made. An HMAC has to be what the secret makes of the id.
Times are equal if they are less than `TOLERANCE_MS` apart: both sides have one clock, and are asked one after
the other.
"""

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import msgspec

from kraftd.errors import ErrorCode
from kraftd.metadata.feature_levels import METADATA_VERSION, NEW_CLUSTER_LEVELS
from kraftd.protocol import messages as m
from kraftd.protocol.kafka_codec import KAFKA
from kraftd.protocol.principal import ANONYMOUS, Principal
from kraftd.records import messages as r
from tests import commands
from tests.conformance_kafka.hmacs import hmac_of
from tests.conformance_kafka.settling import wait_known
from tests.conformance_kafka.sides import Pair, Side
from tests.interop.peer import RELEASE, Kafka, NoKafkaError, find_kafka
from tests.principals import encode_principal

NO_KAFKA = 3
TOLERANCE_MS = 4_000
NAMES = ("alice", "bob", "carol", "a:b", "é")
LEVEL_WITHOUT_TOKENS = 13
"""The last `metadata.version` without them."""
HOUR_MS = 3_600_000
PERIODS_MS = (-1, -1, 0, HOUR_MS, 5 * HOUR_MS, 40 * HOUR_MS, 400 * HOUR_MS, (1 << 63) - 1)
MAY_CREATE = 13
USER = 7
LITERAL, PREFIXED, ALLOW, DENY = 3, 4, 2, 3

Value = Any
"""JSON, with bytes."""


class Asked(NamedTuple):
    """One operation, as both sides are asked it."""

    client: Principal
    is_forwarded: bool
    version: int
    request: Any
    """Of a renewal or an end, without the HMAC."""
    number: int = -1
    """Which token's HMAC it shows; -1 for none."""


class TokenSide:
    """One controller, and the tokens that it made."""

    def __init__(self, side: Side) -> None:
        self.side = side
        self.ids: list[str] = []
        """In the order of their making."""

    def ask(self, asked: Asked) -> tuple[Any, list[tuple[int, Any]]]:
        """The answer, and the records with their versions."""
        answer = self._told(asked)
        records = [(each.version, each.record) for each in self.side.appended()]
        self.ids += [
            record.token_id
            for _, record in records
            if isinstance(record, r.DelegationTokenRecord) and record.token_id not in self.ids
        ]
        return answer, records

    def normal(self, value: Value, name: str = "") -> Value:
        """A value with what both sides call alike."""
        match value:
            case dict():
                return {key: self.normal(each, key) for key, each in value.items()}
            case list() | tuple():
                return [self.normal(each, name) for each in value]
            case str() if name == "token_id" and value in self.ids:
                return f"token {self.ids.index(value)}"
            case bytes() if value:
                return next(
                    (f"HMAC {number}" for number, each in enumerate(self.ids) if value == hmac_of(each)),
                    value,
                )
        return value

    def _told(self, asked: Asked) -> Any:
        request = asked.request
        if asked.number >= 0:
            request = msgspec.structs.replace(request, hmac=hmac_of(self.ids[asked.number]))
        if not asked.is_forwarded:
            return self.side.client.ask(request, asked.version)
        frame = b"".join(KAFKA.encode_request(asked.version, 1, "conformance", request))[4:]
        told = self.side.client.ask(
            m.EnvelopeRequest(
                request_data=frame,
                request_principal=encode_principal(asked.client),
                client_host_address=bytes((127, 0, 0, 1)),
            )
        )
        assert told.error_code == ErrorCode.NONE, told
        return KAFKA.read_response(told.response_data).decode((request.API_KEY, asked.version))


class Drawing:
    """Operations from one seed."""

    def __init__(self, rng: Random, made: Sequence[str]) -> None:
        self._rng = rng
        self._made = made

    def next(self) -> Asked:
        """One more operation."""
        rng = self._rng
        name = rng.choice(NAMES)
        client = Principal("User", name, token_authenticated=rng.random() < 0.05)
        if rng.random() < 0.06:
            client = rng.choice((ANONYMOUS, Principal("Group", name), Principal("User:a", "b")))
        is_forwarded = rng.random() < 0.95
        kind = rng.choice((self._create, self._renew, self._expire))
        return kind(client, is_forwarded=is_forwarded)

    def _create(self, client: Principal, *, is_forwarded: bool) -> Asked:
        rng = self._rng
        version = rng.choice((1, 2, 3, 3, 3))
        owner: dict[str, Any] = {}
        if version == 3 and rng.random() < 0.5:
            kind = rng.choice(("User", "User", "User", "User", "Group", "", None))
            owner_name = rng.choice((*NAMES, *NAMES, "", None))
            owner = {"owner_principal_type": kind, "owner_principal_name": owner_name}
        renewers = tuple(
            m.CreateDelegationTokenRequestCreatableRenewers(
                "Group" if rng.random() < 0.05 else "User", rng.choice(NAMES)
            )
            for _ in range(rng.choice((0, 1, 1, 2, 3)))
        )
        request = m.CreateDelegationTokenRequest(
            renewers=renewers, max_lifetime_ms=rng.choice(PERIODS_MS), **owner
        )
        return Asked(client, is_forwarded, version, request)

    def _renew(self, client: Principal, *, is_forwarded: bool) -> Asked:
        request = m.RenewDelegationTokenRequest(self._wrong(), self._rng.choice(PERIODS_MS))
        return Asked(client, is_forwarded, self._rng.choice((1, 2, 2)), request, self._token())

    def _expire(self, client: Principal, *, is_forwarded: bool) -> Asked:
        request = m.ExpireDelegationTokenRequest(self._wrong(), self._rng.choice(PERIODS_MS[2:] * 2 + (-1,)))
        return Asked(client, is_forwarded, self._rng.choice((1, 2, 2)), request, self._token())

    def _token(self) -> int:
        """The number of a token, a newer one mostly; or none."""
        if not self._made or self._rng.random() < 0.08:
            return -1
        return max(len(self._made) - 1 - int(self._rng.expovariate(0.3)), 0)

    def _wrong(self) -> bytes:
        return self._rng.choice((b"", b"\0", self._rng.randbytes(64)))


class Comparison:
    """Operations on a pair: what differs, and which codes were told."""

    def __init__(self, pair: Pair) -> None:
        self.sides = [TokenSide(side) for side in pair]
        self.codes: Counter[tuple[str, str]] = Counter()
        self.writes = 0

    def give_rights(self) -> None:
        """Who may make tokens for whom, known to both."""
        entries = (
            ("User:bob", LITERAL, "User:alice", ALLOW),
            ("User:a", PREFIXED, "User:carol", ALLOW),
            ("User:a:b", LITERAL, "User:carol", DENY),
            ("Group:bob", LITERAL, "User:alice", ALLOW),
        )
        creations = tuple(
            m.CreateAclsRequestAclCreation(USER, name, pattern, who, "*", MAY_CREATE, permission)
            for name, pattern, who, permission in entries
        )
        for each in self.sides:
            each.side.client.ask(m.CreateAclsRequest(creations))
            each.side.appended()
        time.sleep(1.0)  # Kafka's authorizer loads them by and by, and tells nobody

    def step(self, asked: Asked) -> str:
        """Do one operation on both; what differs, empty if nothing does."""
        told = [(each, *each.ask(asked)) for each in self.sides]
        code = ErrorCode(told[0][1].error_code)
        self.codes[type(asked.request).__name__.removesuffix("DelegationTokenRequest"), code.name] += 1
        answers, records = [], []
        for side, answer, found in told:
            answers.append(side.normal(msgspec.to_builtins(answer, builtin_types=(bytes,))))
            values = [{"version": version, **msgspec.to_builtins(record)} for version, record in found]
            names = [type(record).__name__ for _, record in found]
            records.append([names, side.normal(values)])
        for what, (kafka, kraftd) in (("answer", answers), ("records", records)):
            if not _is_alike(kafka, kraftd):
                return f"{what} of {asked}\n  Kafka:  {kafka}\n  kraftd: {kraftd}"
        self.writes += bool(told[0][2])
        for side, _, found in told:
            wait_known(side.side, [record for _, record in found])
        return ""


def compare(kafka: Kafka, folder: Path, seed: int, count: int, level: int) -> tuple[str, Comparison]:
    """So many operations on a fresh pair: what differs, and the comparison."""
    with Pair(kafka, folder, level) as pair:
        comparison = Comparison(pair)
        comparison.give_rights()
        drawing = Drawing(Random(seed), comparison.sides[0].ids)
        for number in range(count):
            found = comparison.step(drawing.next())
            if found:
                return f"seed {seed}, operation {number}: {found}", comparison
        return "", comparison


def _is_alike(kafka: Value, kraftd: Value) -> bool:
    """Whether two values are equal, times nearly."""
    match kafka, kraftd:
        case dict(), dict():
            return kafka.keys() == kraftd.keys() and all(
                _is_near(kafka[name], kraftd[name])
                if "timestamp" in name
                else _is_alike(kafka[name], kraftd[name])
                for name in kafka
            )
        case list(), list():
            return len(kafka) == len(kraftd) and all(map(_is_alike, kafka, kraftd))
    return type(kafka) is type(kraftd) and bool(kafka == kraftd)


def _is_near(kafka_ms: int, kraftd_ms: int) -> bool:
    if min(kafka_ms, kraftd_ms) <= 0:
        return kafka_ms == kraftd_ms
    return abs(kafka_ms - kraftd_ms) < TOLERANCE_MS


def main(words: Sequence[str] | None = None) -> int:
    """Run; the exit code."""
    parser = commands.Parser(prog="conformance-kafka-tokens", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="what operations are drawn from")
    parser.add_argument("--ops", type=commands.count, default=500, help="how many")
    parser.add_argument(
        "--level", type=int, default=NEW_CLUSTER_LEVELS[METADATA_VERSION], help="metadata.version, by number"
    )
    options = parser.parse_args(words)
    try:
        kafka = find_kafka(RELEASE)
    except NoKafkaError as error:
        print(f"skipped: {error}", file=sys.stderr)
        return NO_KAFKA
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="conformance-tokens-") as folder:
        found, comparison = compare(kafka, Path(folder), options.seed, options.ops, options.level)
    for (api, code), times in sorted(comparison.codes.items()):
        print(f"{times:6} {api} {code}")
    print(f"{comparison.writes} of them wrote; {commands.spent(began)}")
    if found:
        print(found, file=sys.stderr)
    return int(bool(found))


if __name__ == "__main__":
    commands.run(main)
