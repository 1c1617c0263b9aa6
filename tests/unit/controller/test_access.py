"""Every API that may be asked for has a row in the table of operations and resources."""

import pytest

from kraftd.controller.access import ACCESS, FORWARDABLE
from kraftd.protocol.kafka_codec import KAFKA
from kraftd.protocol.msgpack_codec import MSGPACK

APIS = {api.name for codec in (KAFKA, MSGPACK) for api in codec.apis.values()}


@pytest.mark.parametrize("name", sorted(APIS))
def test_every_api_has_a_row(name: str) -> None:
    assert name in ACCESS, f"add {name} to kraftd/controller/access.py"


def test_no_row_is_of_an_api_that_does_not_exist() -> None:
    assert ACCESS.keys() <= APIS


def test_what_kafkas_brokers_may_forward() -> None:
    expected = {19, 20, 30, 31, 33, 37, 38, 39, 40, 43, 44, 45, 46, 49, 51, 55, 57, 64, 67, 80, 81}
    assert expected == FORWARDABLE
