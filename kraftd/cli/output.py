"""Turns a command's data into text. Data first, renderers second.

A command builds plain data (dicts, lists, strings, numbers, None) and says how a table of it looks; JSON
and YAML need no further word. Keys are snake_case and keep the command's order; unknown numbers are -1 as
everywhere in Kafka, unknown texts null. A key once published stays.

Tables are plain text without colour or frames, so that `grep`, `awk` and a pager see what the eye sees.
A terminal gets lines that are wider than it broken between words, what follows indented; whatever is no
terminal gets each line as one (`terminal_columns` decides, and nothing else).

Texts may come from anybody, who is not to move the cursor of whoever reads a table, nor to add lines to it:
`emit` writes control characters of tables as escapes. JSON and YAML hold every text as it is.
"""

import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from itertools import accumulate
from typing import Any, TextIO, TypeAlias, TypeVar

import msgspec

from kraftd.cli.streams import LostOutputError
from kraftd.metadata.views import ids_text
from kraftd.protocol.brief import on_one_line

Data: TypeAlias = "bool | int | float | str | Sequence[Data] | Mapping[str, Data] | None"

T = TypeVar("T", bound=Data)

LABEL_WIDTH = 24
"""The width of Kafka's own labels in `describe --status`."""

_INDENT = 2
"""How far the parts of a broken line stand behind its beginning."""

_CELL_MIN = 20
"""A last cell that is too wide is broken within its column where that has so much room, else it stands below
its row.
"""


class Format(StrEnum):
    """How the output is written."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


def emit(data: T, output: Format, table: Callable[[T], str], *, done: str = "", nothing: str = "") -> None:
    """Write one result to standard output.

    Args:
        data: What it says.
        output: In which form.
        table: How it looks as text.
        nothing: What is said in place of a table that is empty; beside it, so that scripts see none.
        done: What the command has changed in the world: said elsewhere if the output is lost.

    Raises:
        LostOutputError: It could not be written, and `done` was said.
    """
    match output:
        case Format.TABLE:
            text = _folded(table(_with_texts(data, on_one_line)))
        case Format.JSON:
            text = to_json(data)
        case Format.YAML:
            text = to_yaml(data)
    write(text)
    if nothing and not text:
        note(nothing)
    if done:
        try:
            sys.stdout.flush()
        except LostOutputError:
            note(done)
            raise


def write(text: str) -> None:
    """Write text that ends in exactly one newline; nothing for no text."""
    if text:
        sys.stdout.write(text if text.endswith("\n") else text + "\n")


def note(text: str) -> None:
    """Tell the person at the terminal something that is not part of the result."""
    with suppress(LostOutputError):  # told at the end
        sys.stdout.flush()
    sys.stderr.write(wrapped(f"kraftctl: {on_one_line(text)}", "  ", terminal_columns(sys.stderr)) + "\n")


def terminal_columns(stream: TextIO) -> int:
    """How wide the terminal is that a stream goes to; 0 if it goes to none, where no line may be broken."""
    return shutil.get_terminal_size().columns if stream.isatty() else 0


def wrapped(line: str, indent: str, width: int) -> str:
    """A line broken between words where it is wider than a terminal; what follows is indented.

    Args:
        line: One line.
        indent: What stands before every part but the first.
        width: The terminal's; 0: not broken at all.
    """
    if not 0 < width < len(line):
        return line
    parts = textwrap.wrap(
        line.lstrip(" "),
        width,
        initial_indent=" " * _indent(line),
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(parts)


def shortened(text: str, room: int) -> str:
    """A text as far as it has room; one that is cut ends with `…`."""
    return text if len(text) <= room else f"{text[: room - 1]}…"


def _folded(text: str) -> str:
    room = terminal_columns(sys.stdout)
    lines = map(_harmless, text.split("\n"))
    return "\n".join(wrapped(line, " " * (_indent(line) + _INDENT), room) for line in lines)


def _harmless(line: str) -> str:
    """A line of a table that is made of more than the data: all but its tabs."""
    return "\t".join(map(on_one_line, line.split("\t")))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def to_json(data: Data) -> str:
    """Indented JSON, UTF-8 kept readable."""
    return msgspec.json.format(_encoded(data), indent=2).decode()


def to_json_line(data: Data) -> str:
    """One object on one line, for streams."""
    return _encoded(data).decode()


def _encoded(data: Data) -> bytes:
    try:
        return msgspec.json.encode(data)
    except UnicodeEncodeError:
        return msgspec.json.encode(_with_texts(data, _in_utf8))


def _in_utf8(text: str) -> str:
    """A text that JSON can hold: names of files need not be UTF-8."""
    return text.encode(errors="backslashreplace").decode()


def _with_texts(data: Any, change: Callable[[str], str]) -> Any:
    """The same data, each text in it and each key changed."""
    match data:
        case str():
            return change(data)
        case int() | float() | None:
            return data
        case list():
            return [_with_texts(value, change) for value in data]
        case tuple():  # may be a key of what a table looks up
            return tuple(_with_texts(value, change) for value in data)
        case Mapping():
            return {change(key): _with_texts(value, change) for key, value in data.items()}
        case _:
            return data


def to_yaml(data: Data) -> str:
    """Block style YAML in the data's own order."""
    import yaml

    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True, default_flow_style=False, width=2**31)


def columns(headers: Sequence[str], rows: Iterable[Sequence[object]], room: int | None = None) -> str:
    """A table: headers, then rows, every column as wide as its widest cell and two spaces apart.

    The last column comes to what a terminal leaves it, or `room` columns; 0: as much as it needs. Where even
    the others are too wide, rows are broken at one column.
    """
    room = terminal_columns(sys.stdout) if room is None else room
    cells = [tuple(headers), *(tuple(on_one_line(str(cell)) for cell in row) for row in rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(headers))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in cells)
    starts = [start + 2 * at for at, start in enumerate(accumulate(widths[:-1], initial=0))]
    at = max((start for start in starts if start - 2 <= room), default=0)
    return "\n".join(_row(line.rstrip(), at, room) for line in lines)


def _row(line: str, at: int, room: int) -> str:
    """A line whose last cell begins at a column, broken where a terminal has no room for it: within that
    column if its words have room there, else before it.
    """
    if not 0 < room < len(line):
        return line
    longest = max(map(len, line[at:].split()), default=0)
    if room - at >= max(_CELL_MIN, longest):
        return wrapped(line, " " * at, room)
    indent = " " * _INDENT
    return "\n".join(part for part in (line[:at].rstrip(), wrapped(indent + line[at:], indent, room)) if part)


def labels(pairs: Iterable[tuple[str, object]], width: int = LABEL_WIDTH) -> str:
    """Kafka's `Label:   value` lines, values starting in one column."""
    lines = (f"{name + ':':<{width}}{on_one_line(str(value))}".rstrip() for name, value in pairs)
    room = terminal_columns(sys.stdout)
    return "\n".join(_row(line, width, room) for line in lines)


def ids_or_dash(ids: Sequence[int]) -> str:
    """Ids of nodes, `-` for none."""
    return ids_text(ids) if ids else "-"


def id_text(number: int, unknown: str = "-") -> str:
    """A number that is -1 while nobody knows it."""
    return unknown if number < 0 else str(number)
