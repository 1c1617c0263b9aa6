"""The secret of all delegation tokens, and the HMACs that it makes of their ids.

A token's HMAC is the password of whoever shows the token. It is in no record: every node with the same secret
makes it of the token's id. So is the way back, from an HMAC to a token: it is looked up among the HMACs of
all tokens, which are remembered here, since each takes some microseconds to make.

Nothing shows the secret, nor what it made: neither `repr` nor an exception.
Follows: createHmac of Kafka's DelegationTokenControlManager.
"""

import hmac
from typing import Final

import msgspec

from kraftd.metadata.entities import Entities
from kraftd.records.messages import DelegationTokenRecord

_FORGOTTEN_MAX: Final = 1_000
"""HMACs of tokens that are gone are kept up to this many, beside as many as there are tokens."""


class TokenSecret:
    """A secret, never shown. Two of the same text are equal.

    It remembers HMACs, which changes none of its answers.
    """

    __slots__ = ("_hmacs", "_ids", "_key", "_known")

    def __init__(self, text: str) -> None:
        self._key = text.encode("utf-8", "replace")
        self._hmacs: dict[str, bytes] = {}
        self._ids: dict[bytes, str] = {}
        self._known: Entities[str, DelegationTokenRecord] | None = None
        """The tokens whose HMACs were made last: who guesses HMACs makes no work but the first time."""

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
        made = self._hmacs.get(token_id)
        if made is None:
            made = self._hmacs[token_id] = hmac.digest(self._key, token_id.encode(), "sha512")
            self._ids[made] = token_id
        return made

    def token_of(
        self, token_hmac: bytes, tokens: Entities[str, DelegationTokenRecord]
    ) -> DelegationTokenRecord | None:
        """The token with this HMAC; None if there is none among these."""
        token_id = self._ids.get(token_hmac)
        if token_id is None and tokens is not self._known:
            self._learn(tokens)
            token_id = self._ids.get(token_hmac)
        return None if token_id is None else tokens.get(token_id)

    def _learn(self, tokens: Entities[str, DelegationTokenRecord]) -> None:
        """Make the HMACs that are missing, and forget those of many tokens that are gone."""
        if len(self._hmacs) > 2 * len(tokens) + _FORGOTTEN_MAX:
            self._hmacs, self._ids = {}, {}
        for token in tokens.values():
            self.hmac_of(token.token_id)
        self._known = tokens


class TokenSettings(msgspec.Struct, frozen=True):
    """What the configuration says of delegation tokens, in milliseconds: Kafka's defaults."""

    secret: TokenSecret
    max_lifetime_ms: int = 604_800_000
    """After how long a token ends in any case."""
    expiry_time_ms: int = 86_400_000
    """After how long it ends unless it is renewed."""
    expiry_check_interval_ms: int = 3_600_000
    """How often those that have ended are removed."""
