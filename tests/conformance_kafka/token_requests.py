"""What those ask who have delegation tokens made, renewed and ended: users in envelopes, mostly."""

from typing import Any

from tests.conformance_kafka.drawing import TOKEN_USERS, Body, Draw, Drawing

HOUR_MS = 3_600_000
PERIODS_MS = (-1, -1, 0, HOUR_MS, 5 * HOUR_MS, 40 * HOUR_MS, 400 * HOUR_MS, (1 << 63) - 1)
ENDS_MS = (-1, 0, 0, HOUR_MS, 5 * HOUR_MS, 40 * HOUR_MS, 400 * HOUR_MS)


def create_token(draw: Drawing) -> Body:
    rng = draw.rng
    renewers = [
        {"principal_type": "Group" if draw.odd(0.15) else "User", "principal_name": rng.choice(TOKEN_USERS)}
        for _ in range(rng.choice((0, 1, 1, 2)))
    ]
    body: dict[str, Any] = {"renewers": renewers, "max_lifetime_ms": rng.choice(PERIODS_MS)}
    if draw.chance(0.3):
        kind = "Group" if draw.odd(0.2) else "User"
        body |= {"owner_principal_type": kind, "owner_principal_name": rng.choice(TOKEN_USERS)}
    return body


def renew_token(draw: Drawing) -> Body:
    return {"hmac": _hmac(draw), "renew_period_ms": draw.rng.choice(PERIODS_MS)}


def expire_token(draw: Drawing) -> Body:
    return {"hmac": _hmac(draw), "expiry_time_period_ms": draw.rng.choice(ENDS_MS)}


def _hmac(draw: Drawing) -> str:
    """That of a token, a newer one mostly, asked for by its owner mostly; or of none."""
    made = [*draw.account.token_names]
    if not made or draw.odd(0.2):
        return draw.rng.choice((f"@hmac:{len(made)}", "@bytes:", "@bytes:00"))
    number = max(len(made) - 1 - int(draw.rng.expovariate(0.5)), 0)
    token = draw.account.tokens.get(made[number])
    if token is not None and draw.chance(0.5):
        draw.speaks_as = token.owner.partition(":")[2]
    return f"@hmac:{number}"


TOKEN_REQUESTS: dict[str, tuple[int, Draw]] = {
    "CreateDelegationToken": (3, create_token),
    "RenewDelegationToken": (3, renew_token),
    "ExpireDelegationToken": (2, expire_token),
}
