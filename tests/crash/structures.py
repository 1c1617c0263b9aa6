"""What the files of a node are made of: for each structure of each file, where its bytes are.

The table that the matrix of faults walks through. Positions are found in the bytes themselves, with the
layouts of `kraftd.records` written down here once more: a test that asked the code where to hurt it would
miss what the code forgets.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.sim.filesystem import SimFileSystem


class Structure(NamedTuple):
    """Some bytes of a file that mean one thing."""

    path: Path
    name: str
    position: int
    size_bytes: int


BATCH_FIELDS = (
    ("base offset", 0, 8),
    ("length", 8, 4),
    ("leader epoch", 12, 4),
    ("magic", 16, 1),
    ("crc", 17, 4),
    ("attributes", 21, 2),
    ("last offset delta", 23, 4),
    ("base timestamp", 27, 8),
    ("max timestamp", 35, 8),
    ("producer id", 43, 8),
    ("producer epoch", 51, 2),
    ("base sequence", 53, 4),
    ("record count", 57, 4),
)
RECORDS_AT = 61
RECORD_FIELDS = (
    "record length",
    "record attributes",
    "timestamp delta",
    "offset delta",
    "key length",
    "value length",
)

SLOT_BYTES = 4_096
SLOT_FIELDS = (
    ("magic", 0, 8),
    ("version", 8, 2),
    ("length", 10, 2),
    ("crc", 12, 4),
    ("sequence", 16, 8),
    ("flushed offset", 24, 8),
    ("flushed epoch", 32, 4),
    ("high watermark", 36, 8),
)
PROMISES_AT = 44
ENTRIES = {
    ".index": (("relative offset", 0, 4), ("position", 4, 4)),
    ".timeindex": (("timestamp", 0, 8), ("offset", 8, 4)),
}
ENTRY_BYTES = {".index": 8, ".timeindex": 12}
LEFTOVERS = (".part", ".deleted")


def structures(fs: SimFileSystem) -> Iterator[Structure]:
    """Every structure of every file."""
    for path in fs.paths():
        data = fs.content(path)
        yield Structure(path, "file", 0, len(data))
        for name, position, size_bytes in _parts(path, data):
            if 0 < size_bytes <= len(data) - position:
                yield Structure(path, name, position, size_bytes)


def is_leftover(path: Path) -> bool:
    """Whether a file is one that a crash left, and that promises nothing."""
    return path.suffix in LEFTOVERS


def _parts(path: Path, data: bytes) -> Iterator[tuple[str, int, int]]:
    if is_leftover(path):  # of the same structure as what it was to become, or what it was
        path = path.with_suffix("")
    if path.suffix in {".log", ".checkpoint"}:
        return _batches(data)
    if path.suffix in ENTRIES:
        return _entries(path.suffix, data)
    if path.name == "kraftd.state":
        return _slots(data)
    if path.name == "quorum-state":
        return _json(data)
    return _lines(data)


def batches_at(data: bytes) -> list[tuple[int, int]]:
    """Position and size of each batch."""
    found, position = [], 0
    while position < len(data):
        size_bytes = 12 + int.from_bytes(data[position + 8 : position + 12], "big")
        found.append((position, size_bytes))
        position += size_bytes
    return found


def _batches(data: bytes) -> Iterator[tuple[str, int, int]]:
    """The first batches, one in the middle, and the last ones."""
    found = batches_at(data)
    picked = {
        0: "first",
        1: "second",
        len(found) // 2: "middle",
        len(found) - 2: "last but one",
        len(found) - 1: "last",
    }
    for number, text in sorted(picked.items()):
        if not 0 <= number < len(found):
            continue
        position, size_bytes = found[number]
        for name, at, length in BATCH_FIELDS:
            yield f"{text} batch, {name}", position + at, length
        at = position + RECORDS_AT
        for name in RECORD_FIELDS:
            length = 1 if name == "record attributes" else _varint_bytes(data, at)
            yield f"{text} batch, {name}", at, length
            at += length
        yield f"{text} batch, value", at, position + size_bytes - 1 - at
        yield f"{text} batch, header count", position + size_bytes - 1, 1


def _varint_bytes(data: bytes, position: int) -> int:
    length = 1
    while position + length <= len(data) and data[position + length - 1] & 0x80:
        length += 1
    return length


def _entries(suffix: str, data: bytes) -> Iterator[tuple[str, int, int]]:
    size_bytes = ENTRY_BYTES[suffix]
    count = len(data) // size_bytes
    for number in sorted({0, count - 1} if count else set()):
        for name, at, length in ENTRIES[suffix]:
            yield f"entry {number}, {name}", number * size_bytes + at, length


def _slots(data: bytes) -> Iterator[tuple[str, int, int]]:
    for slot in (0, 1):
        start = slot * SLOT_BYTES
        for name, at, length in SLOT_FIELDS:
            yield f"slot {slot}, {name}", start + at, length
        body = 16 + int.from_bytes(data[start + 10 : start + 12], "big")
        step = max((body - PROMISES_AT) // 8, 1)
        for number, at in enumerate(range(PROMISES_AT, body, step)):
            yield f"slot {slot}, promises, part {number}", start + at, min(step, body - at)
        yield f"slot {slot}, padding", start + body, SLOT_BYTES - body


def _json(data: bytes) -> Iterator[tuple[str, int, int]]:
    for match in re.finditer(rb'"(\w+)":(\[[^]]*\]|"[^"]*"|-?\d+)', data):
        key, value = match.span(1), match.span(2)
        yield f"name of {match[1].decode()}", key[0], key[1] - key[0]
        yield f"value of {match[1].decode()}", value[0], value[1] - value[0]
    yield "last byte", len(data) - 1, 1


def _lines(data: bytes) -> Iterator[tuple[str, int, int]]:
    position = 0
    for number, line in enumerate(data.split(b"\n")):
        words = re.finditer(rb"[^\s:=]+", line)
        for word, match in enumerate(words):
            yield f"line {number}, word {word}", position + match.start(), match.end() - match.start()
        yield f"line {number}, end", position + len(line), 1 if position + len(line) < len(data) else 0
        position += len(line) + 1
