"""What a controller has written of a delegation token, and does not know at once: waiting until it does.

Kafka's controller learns of a token from its own image, some milliseconds after it has answered. A stranger
asks to renew the token until the answer is that of somebody who knows: nothing comes of that.
"""

import time
from collections.abc import Iterable
from typing import Any

from kraftd.errors import ErrorCode
from kraftd.records import messages as r
from tests.conformance_kafka.hmacs import hmac_of
from tests.conformance_kafka.operations import Operation
from tests.conformance_kafka.sides import Side
from tests.process.cluster import TimeoutWaitingError

STRANGER = "nobody-renews"
PATIENCE_S = 10.0
_STEP_S = 0.005


def wait_known(side: Side, records: Iterable[Any]) -> None:
    """Wait until a controller knows what these records say of tokens.

    Raises:
        TimeoutWaitingError: It never does.
    """
    for record in records:
        match record:
            case r.RemoveDelegationTokenRecord():
                _wait_told(side, record.token_id, ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
            case r.DelegationTokenRecord():
                is_over = record.expiration_timestamp <= time.time() * 1_000
                over, alive = ErrorCode.DELEGATION_TOKEN_EXPIRED, ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
                _wait_told(side, record.token_id, over if is_over else alive)


def _wait_told(side: Side, token_id: str, code: ErrorCode) -> None:
    body = {"hmac": f"@bytes:{hmac_of(token_id).hex()}", "renew_period_ms": -1}
    ask = Operation("RenewDelegationToken", 2, body, forwarded=True, principal=STRANGER)
    deadline = time.monotonic() + PATIENCE_S
    while (told := side.ask(ask)).error_code != code:
        if time.monotonic() > deadline:
            raise TimeoutWaitingError(f"{side.name} says {told}, not {code.name}, of {token_id}")
        time.sleep(_STEP_S)
