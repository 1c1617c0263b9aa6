"""The behaviours that a test can cover: Kafka's, from `behaviours.toml`, and our rules, from the tour.

Entered by `behaviours()`. What covers them is not here: that is read from the tests themselves (`table`).
"""

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType

import kraftd

SOURCE = Path(__file__).with_name("behaviours.toml")

_RULE = re.compile(r"^    (D-\d\d)  (.*(?:\n {10}.*)*)", re.MULTILINE)
"""A rule in the tour: its id, and its text, whose further lines stand below the first one."""

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
    """All behaviours by id, in the order of the file, then our rules.

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
    for id_, what in rules().items():
        found[id_] = Behaviour(id_, "D", "Our rules", what)
    return MappingProxyType(found)


def rules() -> Mapping[str, str]:
    """Our rules by id, each as one line, in the order of the tour."""
    return {id_: " ".join(text.split()) for id_, text in _RULE.findall(kraftd.__doc__ or "")}


def unknown_among(ids: Iterable[object]) -> list[str]:
    """Those that the catalogue does not have."""
    return [str(id_) for id_ in ids if id_ not in behaviours()]
