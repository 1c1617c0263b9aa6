"""The secret of all delegation tokens, and the HMACs that it makes of their ids.

A token's HMAC is the password of whoever shows the token. It is in no record: every node with the same secret
makes it of the token's id. So is the way back, from an HMAC to a token: it is looked up among the HMACs of
all tokens, which are remembered here, since each takes some microseconds to make. A new active controller
makes them when it is shown the first one that it does not know: those of 10,000 tokens take 35 ms, which is
too long for one turn of its loop, so they are made in slices (`look_for`). Later only those that are new are
made.

Nothing shows the secret, nor what it made: neither `repr` nor an exception.
Follows: createHmac of Kafka's DelegationTokenControlManager.
"""

import hmac
from collections.abc import Iterator
from typing import Final

import msgspec

from kraftd.metadata.entities import Entities
from kraftd.records.messages import DelegationTokenRecord

_FORGOTTEN_MAX: Final = 1_000
"""HMACs of tokens that are gone are kept up to this many, beside as many as there are tokens."""

_SLICE_WORK: Final = 16_384
_MADE_WORK: Final = 16
"""What one slice may cost, and what it costs to make an HMAC: as much as to look at so many tokens. A slice
makes a thousand HMACs, or looks at 16,000 tokens, in some 4 ms.
"""


class TokenSecret:
    """A secret, never shown. Two of the same text are equal.

    It remembers HMACs, which changes none of its answers.
    """

    __slots__ = ("_forgotten", "_hmacs", "_ids", "_key", "_known")

    def __init__(self, text: str) -> None:
        self._key = text.encode("utf-8", "replace")
        self._hmacs: dict[str, bytes] = {}
        self._ids: dict[bytes, str] = {}
        self._known: Entities[str, DelegationTokenRecord] | None = None
        """The tokens whose HMACs were made last: who guesses HMACs makes no work but the first time."""
        self._forgotten = 0
        """How often HMACs were forgotten."""

    def __repr__(self) -> str:
        return "[hidden]"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TokenSecret) and hmac.compare_digest(self._key, other._key)

    def __hash__(self) -> int:
        return hash(self._key)

    def __reduce__(self) -> str:
        raise TypeError("a secret is not written anywhere")

    def hmac_of(self, token_id: str) -> bytes:
        """The HMAC of a token: 64 bytes."""
        return hmac.digest(self._key, token_id.encode(), "sha512")

    def hmac_of_new(self, token_id: str, tokens: Entities[str, DelegationTokenRecord]) -> bytes:
        """The HMAC of a token that is added to these; it is remembered."""
        self._forget(tokens)
        return self._remember(token_id)

    def look_for(self, token_hmac: bytes, tokens: Entities[str, DelegationTokenRecord]) -> Iterator[None]:
        """Make HMACs of tokens, a slice before each `None`, until this one is among them or all are made.

        Between two slices others may look, or make tokens, or end them.
        """
        if token_hmac in self._ids or tokens is self._known:
            return
        self._forget(tokens)
        forgotten, work_left = self._forgotten, _SLICE_WORK
        for token_id, token in tokens.items():
            if work_left <= 0:
                yield
                if token_hmac in self._ids or tokens is self._known:
                    return
                work_left = _SLICE_WORK
            work_left -= 1
            if token_id not in self._hmacs:
                self._remember(token.token_id)
                work_left -= _MADE_WORK
        if forgotten == self._forgotten:
            self._known = tokens

    def token_of(
        self, token_hmac: bytes, tokens: Entities[str, DelegationTokenRecord]
    ) -> DelegationTokenRecord | None:
        """The token with this HMAC, which was looked for; None if there is none among these."""
        token_id = self._ids.get(token_hmac)
        return None if token_id is None else tokens.get(token_id)

    def _remember(self, token_id: str) -> bytes:
        made = self._hmacs[token_id] = self.hmac_of(token_id)
        self._ids[made] = token_id
        return made

    def _forget(self, tokens: Entities[str, DelegationTokenRecord]) -> None:
        """Forget the HMACs of tokens that are gone, once these are many."""
        if len(self._hmacs) > 2 * len(tokens) + _FORGOTTEN_MAX:
            left = {each: made for each, made in self._hmacs.items() if tokens.get(each) is not None}
            self._hmacs, self._ids = left, {made: each for each, made in left.items()}
            # Some that were known have gone since, and come back if the write that ended them is withdrawn.
            self._known = None
            self._forgotten += 1


class TokenSettings(msgspec.Struct, frozen=True):
    """What the configuration says of delegation tokens, in milliseconds: Kafka's defaults."""

    secret: TokenSecret
    max_lifetime_ms: int = 604_800_000
    """After how long a token ends in any case."""
    expiry_time_ms: int = 86_400_000
    """After how long it ends unless it is renewed."""
    expiry_check_interval_ms: int = 3_600_000
    """How often those that have ended are removed."""
