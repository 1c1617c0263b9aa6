"""Delegation tokens by Kafka's own controller and by ours: the same answers and records, HMACs and all.

Of more operations `python -m tests.conformance_kafka.tokens` draws as many as it is asked for.
"""

from pathlib import Path

import pytest

from tests.conformance_kafka.tokens import LEVEL_WITHOUT_TOKENS, compare
from tests.interop.peer import Kafka

NOT_ALLOWED, DENIED = "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED", "DELEGATION_TOKEN_AUTHORIZATION_FAILED"
REACHED = {
    "Create": {"NONE", NOT_ALLOWED, DENIED, "INVALID_PRINCIPAL_TYPE", "UNKNOWN_SERVER_ERROR"},
    "Renew": {"NONE", NOT_ALLOWED, "DELEGATION_TOKEN_NOT_FOUND", "DELEGATION_TOKEN_OWNER_MISMATCH"},
    "Expire": {"NONE", NOT_ALLOWED, "DELEGATION_TOKEN_NOT_FOUND", "DELEGATION_TOKEN_OWNER_MISMATCH"},
}
"""What the operations of the seed are told at least."""


def test_tokens_are_made_renewed_and_ended_as_by_kafka(kafka: Kafka, tmp_path: Path) -> None:
    found, comparison = compare(kafka, tmp_path, seed=1, count=250, level=30)
    assert not found
    assert {*comparison.codes} >= {(api, code) for api, codes in REACHED.items() for code in codes}
    assert comparison.writes > 50


@pytest.mark.parametrize("level", [LEVEL_WITHOUT_TOKENS, LEVEL_WITHOUT_TOKENS + 1])
def test_old_levels_have_tokens_as_kafka_has_them(kafka: Kafka, tmp_path: Path, level: int) -> None:
    found, comparison = compare(kafka, tmp_path, seed=2, count=60, level=level)
    assert not found
    assert (comparison.writes > 0) is (level > LEVEL_WITHOUT_TOKENS)
