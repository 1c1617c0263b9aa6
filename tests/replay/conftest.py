"""One Spark for all tests of this folder: starting it takes longer than all of them."""

from collections.abc import Iterator

import pytest

from kraftd.replay.session import session


@pytest.fixture(scope="session")
def spark() -> Iterator:
    with session() as started:
        yield started
