"""How a controller asks to be registered: what fails is told, and ends nothing."""

from types import SimpleNamespace
from typing import Any

import pytest

from kraftd.controller.activation import registration_of
from kraftd.runtime.registration_manager import RegistrationManager
from kraftd.types import Endpoint


@pytest.mark.covers("D-14")
@pytest.mark.parametrize("host", ["a..b", "x" * 70, "no such host.invalid"])
async def test_an_address_that_is_none_is_told_and_ends_nothing(host: str) -> None:
    nobody: Any = SimpleNamespace()
    me = registration_of(1, bytes(16), [Endpoint("h", 1)])
    manager = RegistrationManager(me, nobody, nobody, nobody, jitter=lambda low, _: low)
    why = await manager._ask(Endpoint(host, 9093))
    assert why is not None
    assert why.startswith(f"{host}:9093: ")
