"""One number of the Prometheus page.

Short, because those that measure (`controller_metrics`, `node_status`) and the page that shows it know it,
and not each other.
"""

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
