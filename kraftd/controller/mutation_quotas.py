"""How many partitions a client may create and delete in a time: the quota `controller_mutation_rate`.

Each client has a bucket of tokens, one a partition. It is refilled by the rate of the client's quota, up to
what a window of it brings (`controller.quota.window.num` times `controller.quota.window.size.seconds`), and
full in the beginning. As long as nothing is owed a topic may take more than is left: then the bucket is in
debt. A strict quota refuses what comes while something is owed, and takes nothing for it; a permissive one
refuses nothing and goes on taking. Either tells for how long its client had better wait.

A decision takes from a `MutationQuota` of its own, and what it left is noted once it is made (`keep`), also
of one that only validates, unless nothing was taken: then there was nothing to note. All times are monotonic
milliseconds. A new active controller begins with full buckets: what is left in them is in no log.

What is kept is bounded, whatever clients call themselves: `_CLIENTS_MAX` buckets of those who took something
within `_IDLE_MS`, and of a long name no more than its digest.

Follows: KIP-599; Kafka's ControllerMutationQuotaManager and its TokenBucket, and for whose quota counts the
DefaultQuotaCallback of its ClientQuotaManager.
Differs: a rate that is no finite number limits nothing. Of more clients than `_CLIENTS_MAX` those that took
last are known; the bucket of any other is full again.
"""

import math
from collections import OrderedDict
from hashlib import blake2b
from typing import Final, TypeAlias

import msgspec

from kraftd.controller.refused import RefusedError
from kraftd.errors import ErrorCode
from kraftd.metadata.image import MetadataImage
from kraftd.metadata.parts.client_quotas import CLIENT_QUOTAS, QuotaEntity, Quotas

MUTATION_RATE: Final = "controller_mutation_rate"
_IDLE_MS: Final = 3_600_000
"""Who asked nothing for so long has a full bucket again, whatever he owed."""
_CLIENTS_MAX: Final = 10_000
_FORGOTTEN_AT_ONCE: Final = 2
"""So many idle buckets go with each request: more than come."""
_NAME_MAX: Final = 64
"""A name of more characters is kept as its digest: nothing else bounds what a client calls itself."""
_DIGEST_BYTES: Final = 16
"""Two names that share a bucket would have to be looked for 2^64 times."""
_THROTTLE_MS_MAX: Final = (1 << 31) - 1

_Bucketed: TypeAlias = tuple[str, str]
"""Whose bucket it is: a user's, a client id's, or that of both; empty for what does not count."""
_Kept: TypeAlias = tuple[str | bytes, str | bytes]
"""The same with the digests of long names, which as bytes are nobody's name."""


class MutationQuota:
    """What one request takes of its client's quota. Mutable."""

    def __init__(
        self, of: _Kept, rate: float, burst: float, tokens: float, now_ms: int, *, is_strict: bool
    ) -> None:
        self.of = of
        self.tokens = tokens
        """What is left; negative is owed."""
        self.now_ms = now_ms
        self.throttle_ms = 0
        """For how long the client is to wait."""
        self.was_asked = False
        """Whether anything was taken, or refused."""
        self._rate = rate
        self._burst = burst
        self._is_strict = is_strict

    def take(self, partitions: int) -> None:
        """Take a token for each partition that is created or deleted.

        Raises:
            RefusedError: THROTTLING_QUOTA_EXCEEDED, without a text, as in Kafka. Nothing was taken.
        """
        self.was_asked = True
        if self._is_strict and self.tokens < 0:
            self.throttle_ms = self._refilled_in_ms()
            raise RefusedError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "")
        self.tokens = min(self._burst, self.tokens - partitions)
        if not self._is_strict and self.tokens < 0:
            self.throttle_ms = self._refilled_in_ms()

    def _refilled_in_ms(self) -> int:
        wait_ms = -self.tokens / self._rate * 1_000 if self._rate > 0 else math.inf
        return math.floor(min(wait_ms, _THROTTLE_MS_MAX) + 0.5)


class _Unlimited(MutationQuota):
    """The quota of who has none."""

    def __init__(self) -> None:
        super().__init__(("", ""), math.inf, math.inf, math.inf, 0, is_strict=False)

    def take(self, partitions: int) -> None:
        """Nothing is taken."""


UNLIMITED: Final[MutationQuota] = _Unlimited()


class _Bucket(msgspec.Struct, frozen=True, gc=False):
    tokens: float
    at_ms: int
    """When it held them."""


class MutationQuotas:
    """The buckets of all clients. Mutable; a decision only reads them."""

    def __init__(self, window_s: int) -> None:
        self._window_s = window_s
        self._buckets: OrderedDict[_Kept, _Bucket] = OrderedDict()
        """Who took last comes last. Of a dict the first is found slowly once others before it have gone."""

    def of_request(
        self, quotas: Quotas, user: str, client_id: str | None, now_ms: int, *, is_strict: bool
    ) -> MutationQuota:
        """What a request of this user's client may take now."""
        whose, rate = quota_of(quotas, user, client_id or "")
        if rate is None or not math.isfinite(rate):
            return UNLIMITED
        of = _short(whose[0]), _short(whose[1])
        burst = rate * self._window_s
        bucket = self._buckets.get(of)
        if bucket is None or now_ms - bucket.at_ms > _IDLE_MS:
            tokens = burst
        else:
            tokens = min(burst, bucket.tokens + rate * ((now_ms - bucket.at_ms) / 1_000))
        return MutationQuota(of, rate, burst, tokens, now_ms, is_strict=is_strict)

    def keep(self, quota: MutationQuota) -> None:
        """Note what a request left of its quota, if it took of it, and let some idle buckets go."""
        buckets = self._buckets
        for _ in range(_FORGOTTEN_AT_ONCE):
            if buckets and quota.now_ms - next(iter(buckets.values())).at_ms > _IDLE_MS:
                buckets.popitem(last=False)
        if not quota.was_asked:
            return
        buckets[quota.of] = _Bucket(quota.tokens, quota.now_ms)
        buckets.move_to_end(quota.of)
        if len(buckets) > _CLIENTS_MAX:
            buckets.popitem(last=False)

    def __len__(self) -> int:
        return len(self._buckets)


def quotas_in(image: MetadataImage) -> Quotas:
    """All client quotas."""
    return image[CLIENT_QUOTAS]


def quota_of(quotas: Quotas, user: str, client_id: str) -> tuple[_Bucketed, float | None]:
    """Whose bucket a user's client takes from, and at what rate it is refilled; None if there is no quota.

    The first that is set counts. Alice's own quota is for all of her clients together; that of alice with any
    client id is for each of them. Whoever has no client id has no quota but that of a user.
    """
    if not len(quotas):
        return ("", ""), None
    both, of_user, of_client = (user, client_id), (user, ""), ("", client_id)
    order: tuple[tuple[_Bucketed, str | None, str | None], ...] = (
        (both, user, client_id),
        (both, user, None),
        (of_user, user, ""),
        (both, None, client_id),
        (both, None, None),
        (of_user, None, ""),
        (of_client, "", client_id),
        (of_client, "", None),
    )
    for of, named_user, named_client in order:
        if client_id or of is of_user:
            record = quotas.get((_entity(named_user, named_client), MUTATION_RATE))
            if record is not None:
                return of, record.value
    return of_client, None


def _short(name: str) -> str | bytes:
    """What is kept of a name."""
    if len(name) <= _NAME_MAX:
        return name
    return blake2b(name.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).digest()


def _entity(user: str | None, client_id: str | None) -> QuotaEntity:
    """Whom a quota is set for: None for any name, empty for "whatever it is"."""
    components = (("client-id", client_id), ("user", user))
    return tuple((kind, name is not None, name or "") for kind, name in components if name != "")
