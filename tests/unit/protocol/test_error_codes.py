"""Error codes are found wherever they are in a response, in every API of Kafka's wire."""

import re
from random import Random
from typing import Any

import pytest
from strategies import EVERY_KAFKA_RPC, name_of

from kraftd.protocol import messages as m
from kraftd.protocol.error_codes import has_error
from tests.interop.random_records import random_rpc

NOT_CONTROLLER = 41
RESPONSES = [case for case in EVERY_KAFKA_RPC if case[0].kind == "response"]


@pytest.mark.parametrize("case", RESPONSES, ids=name_of)
def test_the_codes_of_a_response_are_those_that_its_text_shows(case: tuple[Any, int]) -> None:
    message, version = case
    random = Random(f"{message.name} {version}")
    for _ in range(20):
        response = random_rpc(random, message, version, has_unknown_tags=False)
        shown = {int(code) for code in re.findall(r"\berror_code=(-?\d+)", repr(response))}
        assert all(has_error(response, code) for code in shown)
        assert not has_error(response, next(code for code in range(1_000) if code not in shown))


def test_one_bad_partition_among_good_ones_is_found() -> None:
    good, bad = (m.AlterPartitionResponsePartitionData(error_code=code) for code in (0, NOT_CONTROLLER))
    topics = (
        m.AlterPartitionResponseTopicData(partitions=(good, good)),
        m.AlterPartitionResponseTopicData(partitions=(good, bad)),
    )
    assert has_error(m.AlterPartitionResponse(topics=topics), NOT_CONTROLLER)
    assert not has_error(m.AlterPartitionResponse(topics=topics[:1]), NOT_CONTROLLER)
