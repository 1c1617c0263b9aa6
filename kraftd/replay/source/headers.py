"""Where the batches of a file are and what their headers say, without parsing a record.

A segment has no sync marks, so the only way to a batch is along the chain of lengths from the start of the
file. The walk reads four bytes a batch; numpy gathers the headers after it, all at once. This is what the
data source splits on, what nodes are compared by and what decides which records are committed.

A batch that fails its checksum stays in the chain, marked, if a good one follows it. Where none does, or a
length cannot be right, there is a hole, up to the next good batch at any distance: the rules, and the words,
are those of `kraftd.logtools.batch_reader`. Record decoding is not here: see `kraftd.replay.source.decode`.
"""

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeAlias

import crc32c
import numpy as np
import numpy.typing as npt

from kraftd.errors import CorruptBatchError
from kraftd.logtools.batch_reader import declared_size, invalid_because
from kraftd.logtools.node_files import LogFile
from kraftd.records.batch import BatchView
from kraftd.records.batch_header import (
    CRC_FROM,
    FIELDS,
    HEADER_BYTES,
    MAGIC,
    OVERHEAD_BYTES,
    UNSUPPORTED,
    layout,
)
from kraftd.records.batch_search import plausible_headers
from kraftd.regular_file import open_to_read

Bytes: TypeAlias = bytes | memoryview | mmap.mmap
Headers: TypeAlias = npt.NDArray[np.void]
"""An array of `BATCH`: one element a batch, in the order of the file or log."""

WIRE = np.dtype([(name, f">{code}") for name, code in FIELDS])
"""The 61-byte header of a magic-2 batch, as it lies in the file."""

BATCH = np.dtype(
    [
        ("file", "i4"),
        ("position", "i8"),
        ("size_bytes", "i8"),
        ("base_offset", "i8"),
        ("end_offset", "i8"),
        ("epoch", "i4"),
        ("crc", "u4"),
        ("attributes", "i2"),
        ("base_timestamp_ms", "i8"),
        ("max_timestamp_ms", "i8"),
        ("record_count", "i4"),
        ("whole", "?"),
    ]
)
"""What a replay keeps of a batch. `whole` means that checksum, magic and counts are right."""

KEY = np.dtype([("base_offset", ">i8"), ("end_offset", ">i8"), ("epoch", ">i4"), ("crc", ">u4")])

_BLOCK = 4096
"""So many batches are checked before anything is concluded: behind a hole the rest of them is done again."""

_LENGTH = layout("length")


@contextmanager
def mapped(path: str | Path) -> Iterator[Bytes]:
    """Map a file for reading; an empty file cannot be mapped and is an empty value."""
    with open_to_read(Path(path)) as file:
        if Path(path).stat().st_size == 0:
            yield b""
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield data


class Scan(NamedTuple):
    """The batches of a segment."""

    headers: Headers
    is_regular: bool
    """Whether each is good and follows the one before it, from the segment's name to the last byte."""


def scan_segment(file: LogFile, index: int) -> Scan:
    """Read the headers of all batches of a segment and check each batch against its checksum.

    Args:
        file: What to read.
        index: Goes into the headers' `file` column.
    """
    with mapped(file.path) as data:
        headers, is_gapless = read_headers(data, index=index)
    expected = np.append(file.offset, headers["end_offset"][:-1])[: len(headers)]
    follows = (headers["base_offset"] == expected).all() and (np.diff(headers["epoch"]) >= 0).all()
    return Scan(headers, bool(is_gapless and follows and headers["whole"].all()))


def read_headers(data: Bytes, *, end: int | None = None, index: int = 0) -> tuple[Headers, bool]:
    """The headers of all whole batches up to `end`, each checked, and whether no byte lies between them."""
    limit = len(data) if end is None else end
    parts: list[Headers] = []
    is_gapless = True
    position = 0
    while position < limit:
        headers, position = _next_block(data, position, limit, index)
        parts.append(headers)
        if len(headers) < _BLOCK and position < limit:
            is_gapless = False
            position = _next_good(data, position + 1, limit)
    return np.concatenate(parts) if parts else empty(), is_gapless


def _next_block(data: Bytes, position: int, limit: int, index: int) -> tuple[Headers, int]:
    """Up to `_BLOCK` batches, and where they end: fewer only before a hole or the end."""
    positions, reached = walk(data, position, limit, _BLOCK)
    wire = _gather(data, positions)
    headers = _headers(wire, positions, _sums_match(data, positions, wire), index)
    if not len(headers):
        return headers, reached
    followed = np.append(headers["whole"][1:], reached == limit or _is_good(data, reached, limit))
    lost = ~headers["whole"] & ~followed
    if not lost.any():
        return headers, reached
    first = int(np.argmax(lost))
    return headers[:first], int(positions[first])


def walk(
    data: Bytes, position: int = 0, end: int | None = None, count_max: int | None = None
) -> tuple[npt.NDArray[np.int64], int]:
    """Follow the chain of lengths, for so many batches.

    Returns:
        The positions of the whole batches, and where the last one ends: at `end` if all is well.
    """
    limit = len(data) if end is None else end
    last = limit - HEADER_BYTES
    positions: list[int] = []
    append, length_at = positions.append, _LENGTH.unpack_from
    while position <= last and len(positions) != count_max:
        size = OVERHEAD_BYTES + length_at(data, position)[0]
        if size < HEADER_BYTES or position + size > limit:
            break
        append(position)
        position += size
    return np.array(positions, dtype=np.int64), position


def _is_good(data: Bytes, position: int, limit: int) -> bool:
    """Whether a whole batch with a good checksum begins there."""
    try:
        head = bytes(data[position : min(position + HEADER_BYTES, limit)])
        size = declared_size(head, position, limit)
    except CorruptBatchError:
        return False
    return not invalid_because(BatchView(data[position : position + size]))


def _next_good(data: Bytes, position: int, limit: int) -> int:
    """Where the next good batch begins; `limit` if there is none."""

    def read(size_bytes: int, at: int) -> bytes:
        return bytes(data[at : at + size_bytes])

    found = (at for at, _ in plausible_headers(read, position, limit) if _is_good(data, at, limit))
    return next(found, limit)


def headers_at(data: Bytes, positions: npt.NDArray[np.int64]) -> Headers:
    """The headers of the batches at these positions, unchecked."""
    wire = _gather(data, positions)
    return _headers(wire, positions, np.ones(len(positions), dtype=np.bool_), 0)


def empty() -> Headers:
    """The headers of nothing."""
    return np.empty(0, dtype=BATCH)


def packed_keys(headers: Headers) -> bytes:
    """What is compared of each batch, as `kraftd.logtools.comparison.BatchKeys` packs it."""
    keys = np.empty(len(headers), dtype=KEY)
    for name in ("base_offset", "end_offset", "epoch", "crc"):
        keys[name] = headers[name]
    return keys.tobytes()


def cut_out(data: Bytes, places: npt.NDArray[np.int64], size: int) -> npt.NDArray[np.void]:
    """Copy pieces of this size, which begin at these places, out of some bytes into one array."""
    if not len(places):
        return np.empty(0, dtype=f"V{size}")
    every = np.ndarray((len(data) - size + 1,), dtype=f"V{size}", buffer=data, strides=(1,))
    pieces: npt.NDArray[np.void] = every[places]
    return pieces


def _gather(data: Bytes, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.void]:
    """Copy the headers at these positions out of the file."""
    return cut_out(data, positions, HEADER_BYTES).view(WIRE)


def _sums_match(
    data: Bytes, positions: npt.NDArray[np.int64], wire: npt.NDArray[np.void]
) -> npt.NDArray[np.bool_]:
    with memoryview(data) as view:
        ends = positions + OVERHEAD_BYTES + wire["length"]
        checksum = crc32c.crc32c
        sums = [
            checksum(view[start:end])
            for start, end in zip((positions + CRC_FROM).tolist(), ends.tolist(), strict=True)
        ]
    matches: npt.NDArray[np.bool_] = np.array(sums, dtype=np.uint32) == wire["crc"]
    return matches


def _headers(
    wire: npt.NDArray[np.void],
    positions: npt.NDArray[np.int64],
    sums: npt.NDArray[np.bool_],
    index: int,
) -> Headers:
    headers = np.empty(len(wire), dtype=BATCH)
    headers["file"] = index
    headers["position"] = positions
    headers["size_bytes"] = wire["length"].astype(np.int64) + OVERHEAD_BYTES
    headers["base_offset"] = wire["base_offset"]
    headers["end_offset"] = wire["base_offset"] + wire["last_offset_delta"] + 1
    for name in ("epoch", "crc", "attributes", "base_timestamp_ms", "max_timestamp_ms", "record_count"):
        headers[name] = wire[name]
    headers["whole"] = (  # `batch_header.why_illegal`, of all at once
        sums
        & (wire["magic"] == MAGIC)
        & (wire["attributes"] & UNSUPPORTED == 0)
        & (wire["record_count"] == wire["last_offset_delta"].astype(np.int64) + 1)
        & (wire["record_count"] > 0)
        & (wire["base_offset"] >= 0)
        & (wire["epoch"] >= 0)
    )
    return headers
