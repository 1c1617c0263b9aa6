"""How a part of the image is shown: as changes, as files and folders, as tables of text, as rows of columns.

Plain values, which whoever shows them lays out: the command line its tables, the Spark job its Parquet files.
A secret is in none of them unless asked for. Not here: what each part shows (`parts`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, TypeAlias

import msgspec

# -- changes

Value: TypeAlias = bool | int | float | str | list[int] | list[str] | None


class Change(msgspec.Struct, frozen=True):
    """One thing that differs. `entity` and `name` say of what; `before` and `after` may be left out.

    `what` and the values are stable, for programs; `text` is for people.
    """

    entity: str
    name: str
    what: str
    text: str
    before: Value = None
    after: Value = None

    def __str__(self) -> str:
        return f"{self.entity} {self.name} {self.text}" if self.name else f"{self.entity} {self.text}"


UNKNOWN_FIELDS = "differs in fields that are not shown here"
"""What is said of an entity that differs in tags that this program does not know."""

Attribute: TypeAlias = tuple[str, str, Callable[[object], str]]
"""The field of a record, what a person calls it, and how a value of it reads."""


def attribute_changes(
    entity: str, name: str, old: object, new: object, attributes: Iterable[Attribute]
) -> Iterator[Change]:
    """Tell the fields of a record that differ."""
    for field, title, read in attributes:
        before, after = (read(getattr(record, field)) for record in (old, new))
        if before != after:
            yield Change(entity, name, field, f"{title} {before} -> {after}", before, after)


def ids_text(ids: Sequence[int] | None) -> str:
    """A list of nodes as text."""
    return ",".join(map(str, ids)) if ids else "none"


# -- files and folders


class File(msgspec.Struct, frozen=True):
    """What `cat` shows: plain data."""

    data: object


class Folder(msgspec.Struct, frozen=True):
    """Names, and what each stands for. Both are asked for anew each time."""

    names: Callable[[], Iterable[str]]
    open: Callable[[str], "TreeNode | None"]


TreeNode: TypeAlias = File | Folder

DEFAULT = "<default>"
"""What stands for the entity without a name."""


def file_name(name: str) -> str:
    """A name as a file has it, without slashes."""
    return name.replace("%", "%25").replace("/", "%2F")


def files(contents: Mapping[str, object]) -> Folder:
    """A folder of files with this content."""
    named = {file_name(name): data for name, data in contents.items()}
    return Folder(lambda: named, lambda name: File(named[name]) if name in named else None)


def folders(children: Mapping[str, Folder]) -> Folder:
    """A folder of folders."""
    named = {file_name(name): folder for name, folder in children.items()}
    return Folder(lambda: named, named.get)


# -- tables of text


class TextTable(msgspec.Struct, frozen=True):
    """A table for people. `is_shown_empty`: without rows, its headers are shown; else it is left out."""

    headers: Sequence[str]
    rows: Sequence[Sequence[object]]
    is_shown_empty: bool = False


# -- rows of columns


class ColumnType(Enum):
    """The type of a column, for whoever stores rows."""

    BOOL = "bool"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT64 = "float64"
    TEXT = "text"
    TEXTS = "texts"
    NODES = "nodes"
    """A list of node ids."""
    TIME_MS = "time_ms"
    """Milliseconds since 1970, UTC."""


Row: TypeAlias = dict[str, Any]
