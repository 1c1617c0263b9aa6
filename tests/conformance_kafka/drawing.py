"""Operations from a seed: what brokers and admins ask, of which a part is meant to be refused.

`Drawing.next` draws an operation that fits what there is (the account of one side); whoever draws says how
each API is drawn in `broker_requests` and `admin_requests`. `is_odd` is true for the share that is drawn so
that something in it is wrong: then a name is unknown, an epoch is stale, a count is bad.
"""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from msgspec.structs import replace

from kraftd.errors import UnencodableError
from kraftd.metadata.feature_levels import ELIGIBLE_LEADER_REPLICAS, METADATA_VERSION
from tests.conformance_kafka.account import Account, Partition
from tests.conformance_kafka.operations import BY_NAME, Operation, encode_request, request_of

BROKERS = (2, 3, 4, 5, 6)
"""1 is the controller."""
NOBODY = 9
TOPICS = tuple(f"t{number}" for number in range(8))
BAD_NAMES = ("", ".", "..", "a b", "x" * 250, "__cluster_metadata", "t/1", "é")
TOKEN_USERS = ("alice", "bob", "carol")
"""Who has delegation tokens made."""
TOKEN_APIS = frozenset({"CreateDelegationToken", "ExpireDelegationToken", "RenewDelegationToken"})
USERS = ("alice", "bob", "mallory")
"""Who may do what an ACL allows; ANONYMOUS may do everything."""
TOO_MANY = 10_001
"""One more record than an operation may write."""
TIMEOUT_MS = 60_000
ODD = 0.42
"""The share that is meant to be refused; some of it is not, and some of the others is."""

Body = Mapping[str, Any]
Draw = Callable[["Drawing"], Body]


class Drawing:
    """Operations drawn from one seed."""

    def __init__(self, rng: Random, account: Account, draws: Mapping[str, tuple[int, Draw]]) -> None:
        self.rng = rng
        self.account = account
        self.is_odd = False
        self.has_sessions = True
        """Whether both controllers know of all heartbeats: who took over the lead does not."""
        self.stopped: set[tuple[int, int]] = set()
        """The brokers, with their epochs, that may have been told to stop."""
        self.pending: list[Operation] = []
        """What comes next, before anything is drawn."""
        self.speaks_as = ""
        """Whose request of a token the next one is to be; empty for whoever is drawn."""
        self._draws = draws
        self._weights = [weight for weight, _ in draws.values()]

    def next(self) -> Operation:
        """One more operation."""
        if self.pending:
            return self.pending.pop(0)
        (name,) = self.rng.choices([*self._draws], self._weights)
        self.is_odd = self.rng.random() < ODD
        return self.operation(name, self._draws[name][1](self))

    def operation(self, name: str, body: Body) -> Operation:
        """A request in a version that can say it: mostly the newest."""
        api = BY_NAME[name]
        version = api.max_version
        if self.rng.random() < 0.25:
            version = self.rng.randint(api.min_version, api.max_version)
        is_forwarded = name in FORWARDED and self.rng.random() < 0.5
        principal = self.rng.choice(USERS) if is_forwarded and self.rng.random() < 0.1 else "ANONYMOUS"
        if name in TOKEN_APIS:
            is_forwarded = self.rng.random() < 0.95
            principal = self.speaks_as or self.rng.choice(TOKEN_USERS)
            self.speaks_as = ""
        if body.get("timeout_ms") == 0:  # which of two reasons to refuse comes first is not the point
            principal = "ANONYMOUS"
        drawn = Operation(name, version, body, is_forwarded, principal)
        try:
            encode_request(drawn, request_of(drawn, self.account))
        except UnencodableError:
            return replace(drawn, version=api.max_version)
        return drawn

    # -- what draws share

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def odd(self, probability: float = 0.5) -> bool:
        """Whether this part of an odd operation is the wrong one."""
        return self.is_odd and self.rng.random() < probability

    def some(self, values: Any, least: int = 1, most: int = 3) -> list[Any]:
        """Some of the values, in any order."""
        all_of = [*values]
        return self.rng.sample(all_of, min(len(all_of), self.rng.randint(least, most)))

    def patience_ms(self, *, is_plain: bool = True) -> int:
        """How long to wait for an answer; perhaps not at all, if nothing else is wrong with a request."""
        return 0 if is_plain and not self.is_odd and self.chance(0.03) else TIMEOUT_MS

    def broker(self) -> int:
        """A broker's id; of an odd operation perhaps nobody's."""
        if self.odd(0.15):
            return NOBODY
        known = [*self.account.brokers]
        return self.rng.choice(known if known and self.chance(0.85) else BROKERS)

    def broker_epoch(self, broker: int) -> str:
        """Its epoch; of an odd operation perhaps an older or newer one."""
        return f"@epoch:{broker}" + (self.rng.choice(("-1", "+1")) if self.odd(0.2) else "")

    def brokers(self, most: int = 3) -> list[int]:
        """Different brokers, registered and unfenced ones mostly; of an odd operation perhaps not."""
        if self.odd(0.4):
            wrong: tuple[list[int], ...] = ([], [2, 2], [NOBODY], [-1], [2, NOBODY], [*BROKERS], [3, 2, 3])
            return self.rng.choice(wrong)
        up = [number for number, broker in self.account.brokers.items() if not broker.is_fenced]
        return self.some(up if up and self.chance(0.8) else BROKERS, 1, most)

    def topic(self) -> str:
        """The name of a topic; of an odd operation perhaps of none."""
        if self.odd(0.3):
            return self.rng.choice((*TOPICS, "nothing", *BAD_NAMES))
        known = [*self.account.topics]
        return self.rng.choice(known or TOPICS)

    def partition_of(self, topic: str) -> int:
        """The index of one of its partitions; of an odd operation perhaps of none."""
        found = self.account.topics.get(topic)
        if found is None or self.odd(0.2):
            return self.rng.choice((0, 1, 7, -1))
        return self.rng.choice([*found.partitions] or [0])

    def partition(self) -> tuple[str, int, Partition | None]:
        """A partition by topic and index, and what is known of it."""
        topic = self.topic()
        index = self.partition_of(topic)
        return topic, index, self.account.partition(topic, index)

    @property
    def has_elr(self) -> bool:
        """Whether eligible leader replicas are on."""
        return self.account.features.get(ELIGIBLE_LEADER_REPLICAS, 0) > 0

    @property
    def has_removed_topics(self) -> bool:
        """Whether a topic was removed: what moves all partitions of a broker or directory may then find that
        topic in an index of Kafka's controller and not in its topics, which costs that controller the lead.
        """
        return len(self.account.topics) < len(self.account.topic_names)

    def has(self, level: int) -> bool:
        """Whether the cluster's `metadata.version` is at this level."""
        return self.account.features.get(METADATA_VERSION, 0) >= level


FORWARDED = frozenset(
    {
        "AllocateProducerIds",
        "AlterClientQuotas",
        "AlterConfigs",
        "AlterPartitionReassignments",
        "AlterUserScramCredentials",
        "CreateAcls",
        "CreatePartitions",
        "CreateTopics",
        "DeleteAcls",
        "DeleteTopics",
        "ElectLeaders",
        "IncrementalAlterConfigs",
        "ListPartitionReassignments",
        "UnregisterBroker",
        "UpdateFeatures",
    }
)
"""What brokers forward for their clients."""
