"""The behaviours that a test can cover, as `behaviours.toml` lists them.

Entered by `behaviours()`. What covers them is not here: that is read from the tests themselves (`table`).
"""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType

SOURCE = Path(__file__).with_name("behaviours.toml")

OWN_RULES = frozenset({"D", "Q"})
"""Themes that are not Kafka's behaviours: our rules, and what we do about Kafka's oddities."""


@dataclass(frozen=True)
class Behaviour:
    """One line of the catalogue."""

    id: str
    theme: str
    title: str
    what: str
    waits: str | None = None
    """The feature without which it cannot be."""
    differs: str | None = None
    """Why kraftd does otherwise."""

    @property
    def is_kafkas(self) -> bool:
        """Whether it is one of Kafka's behaviours, not a rule of ours."""
        return self.theme not in OWN_RULES


@cache
def behaviours() -> Mapping[str, Behaviour]:
    """All behaviours by id, in the order of the file.

    Raises:
        ValueError: An entry is not what this module knows how to read.
    """
    found: dict[str, Behaviour] = {}
    for theme, section in tomllib.loads(SOURCE.read_text(encoding="utf-8")).items():
        title = section.pop("title")
        for id_, fields in section.items():
            behaviour = Behaviour(id_, theme, title, **fields)
            if not id_.startswith(f"{theme}-") or (behaviour.waits and behaviour.differs):
                raise ValueError(f"{SOURCE.name}: {id_} is in the wrong place, or both waits and differs")
            found[id_] = behaviour
    return MappingProxyType(found)


def unknown_among(ids: Iterable[object]) -> list[str]:
    """Those that the catalogue does not have."""
    return [str(id_) for id_ in ids if id_ not in behaviours()]
