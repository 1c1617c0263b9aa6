"""One number of the Prometheus page."""

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

Number: TypeAlias = int | float


class Sample(msgspec.Struct, frozen=True):
    """A number under its name, with what it means."""

    name: str
    meaning: str
    value: Number
    labels: Mapping[str, str] = {}
    is_counter: bool = False
