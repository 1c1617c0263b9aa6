"""One thing that differs between two states, for people and for programs."""

from typing import TypeAlias

import msgspec

Value: TypeAlias = bool | int | float | str | list[int] | list[str] | None


class Fact(msgspec.Struct, frozen=True):
    """One thing that differs. `entity` and `name` say of what; `before` and `after` may not be told."""

    entity: str
    name: str
    what: str
    text: str
    before: Value = None
    after: Value = None

    def __str__(self) -> str:
        return f"{self.entity} {self.name} {self.text}" if self.name else f"{self.entity} {self.text}"
