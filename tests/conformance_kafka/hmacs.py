"""The secret that both sides make delegation tokens with, and what it makes of a token's id."""

import hashlib
import hmac

SECRET = "one secret of both sides"


def hmac_of(token_id: str) -> bytes:
    """The HMAC of a token, by Kafka's definition: 64 bytes."""
    return hmac.digest(SECRET.encode(), token_id.encode(), hashlib.sha512)
