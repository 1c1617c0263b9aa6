"""Where the batches of a file are and what their headers say, without parsing a record.

A segment has no sync marks, so the only way to a batch is along the chain of lengths from the start of the
file. The walk reads four bytes a batch; numpy gathers the headers after it, all at once. This is what the
data source splits on, what nodes are compared by and what decides which records are committed.

A batch that fails its checksum stays in the chain, marked; the chain itself ends where a length cannot be
right, and what follows is one problem with its byte. Record decoding is not here: see `kraftd.replay.decode`.
"""

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from struct import Struct
from typing import TypeAlias

import crc32c
import numpy as np
import numpy.typing as npt

from kraftd.errors import CorruptBatchError, InvariantError
from kraftd.records.batch import HEADER_BYTES, LENGTH_AT, BatchView
from kraftd.replay.model import FileKind, Headers, LogFile, Problem, ProblemKind

Bytes: TypeAlias = bytes | memoryview | mmap.mmap

WIRE = np.dtype(
    [
        ("base_offset", ">i8"),
        ("length", ">i4"),
        ("epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp_ms", ">i8"),
        ("max_timestamp_ms", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("record_count", ">i4"),
    ]
)
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

_LENGTH = Struct(">i")
BODY_AT = 12
CRC_FROM = 21
FOREIGN_BITS = 0x0F
"""Compression and log-append time, which a metadata log does not have."""
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20


@contextmanager
def mapped(path: str) -> Iterator[Bytes]:
    """Map a file for reading; an empty file cannot be mapped and is an empty value."""
    with Path(path).open("rb") as file:
        if Path(path).stat().st_size == 0:
            yield b""
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield data


def scan_file(file: LogFile, directory: str, *, index: int = 0) -> tuple[Headers, list[Problem]]:
    """Read the headers of all batches of a file and check each batch against its checksum.

    Args:
        file: What to read.
        directory: Named in the problems.
        index: Goes into the headers' `file` column.

    Returns:
        The headers, and what is wrong with the file, in order of position.
    """
    with mapped(file.path) as data:
        headers, end = read_headers(data, index=index)
        problems = _batch_problems(file, directory, data, headers)
        if end < len(data):
            problems.append(_rest(file, directory, data, end, headers))
    return headers, problems


def read_headers(data: Bytes, *, end: int | None = None, index: int = 0) -> tuple[Headers, int]:
    """The headers of all whole batches up to `end`, each checked, and where the chain of batches ends."""
    positions, reached = walk(data, end=end)
    wire = _gather(data, positions)
    return _headers(wire, positions, _sums_match(data, positions, wire), index), reached


def walk(data: Bytes, position: int = 0, end: int | None = None) -> tuple[npt.NDArray[np.int64], int]:
    """Follow the chain of lengths.

    Returns:
        The positions of the whole batches, and where the chain ends: at `end` if all is well.
    """
    limit = len(data) if end is None else end
    last = limit - HEADER_BYTES
    positions: list[int] = []
    append, length_at = positions.append, _LENGTH.unpack_from
    while position <= last:
        size = BODY_AT + length_at(data, position + LENGTH_AT)[0]
        if size < HEADER_BYTES or position + size > limit:
            break
        append(position)
        position += size
    return np.array(positions, dtype=np.int64), position


def headers_at(data: Bytes, positions: npt.NDArray[np.int64]) -> Headers:
    """The headers of the batches at these positions, unchecked."""
    wire = _gather(data, positions)
    return _headers(wire, positions, np.ones(len(positions), dtype=np.bool_), 0)


def empty() -> Headers:
    """The headers of nothing."""
    return np.empty(0, dtype=BATCH)


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
        ends = positions + BODY_AT + wire["length"]
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
    headers["size_bytes"] = wire["length"].astype(np.int64) + BODY_AT
    headers["base_offset"] = wire["base_offset"]
    headers["end_offset"] = wire["base_offset"] + wire["last_offset_delta"] + 1
    for name in ("epoch", "crc", "attributes", "base_timestamp_ms", "max_timestamp_ms", "record_count"):
        headers[name] = wire[name]
    headers["whole"] = (
        sums
        & (wire["magic"] == 2)
        & (wire["attributes"] & FOREIGN_BITS == 0)
        & (wire["record_count"] == wire["last_offset_delta"].astype(np.int64) + 1)
        & (wire["record_count"] > 0)
        & (wire["base_offset"] >= 0)
        & (wire["epoch"] >= 0)
    )
    return headers


def _batch_problems(file: LogFile, directory: str, data: Bytes, headers: Headers) -> list[Problem]:
    problems = [
        _problem(file, directory, _what_is_wrong(data, headers[index]), headers[index])
        for index in np.flatnonzero(~headers["whole"]).tolist()
    ]
    expected = np.concatenate((_first_offset(file, headers), headers["end_offset"][:-1]))
    for index in np.flatnonzero(headers["base_offset"] != expected).tolist():
        text = f"batch starts at offset {headers['base_offset'][index]}, expected {expected[index]}"
        problems.append(_problem(file, directory, text, headers[index]))
    for index in np.flatnonzero(np.diff(headers["epoch"]) < 0).tolist():
        text = f"epoch falls from {headers['epoch'][index]} to {headers['epoch'][index + 1]}"
        problems.append(_problem(file, directory, text, headers[index + 1]))
    return sorted(problems, key=lambda problem: problem.position_bytes)


def _what_is_wrong(data: Bytes, header: np.void) -> str:
    position = int(header["position"])
    try:
        BatchView(bytes(data[position : position + int(header["size_bytes"])])).check()
    except CorruptBatchError as error:
        return error.reason
    raise InvariantError(f"the batch at byte {position} is sound after all")


def _first_offset(file: LogFile, headers: Headers) -> npt.NDArray[np.int64]:
    first = 0 if file.kind is not FileKind.LOG else file.base_offset
    return np.full(min(1, len(headers)), first, dtype=np.int64)


def _problem(file: LogFile, directory: str, text: str, header: np.void) -> Problem:
    return Problem(
        kind=ProblemKind.DAMAGED,
        directory=directory,
        file=file.name,
        position_bytes=int(header["position"]),
        offset=int(header["base_offset"]),
        text=text,
    )


def _rest(file: LogFile, directory: str, data: Bytes, end: int, headers: Headers) -> Problem:
    """Say what the bytes after the last whole batch look like."""
    rest = len(data) - end
    sample = bytes(data[end : end + HEADER_BYTES])
    length = int.from_bytes(sample[LENGTH_AT:BODY_AT], "big", signed=True)
    if not any(sample):
        text = f"{rest:,} bytes of zeros after the last batch"
    elif len(sample) < HEADER_BYTES:
        text = f"torn: {rest} bytes, too few for a batch header"
    elif length + BODY_AT >= HEADER_BYTES and sample[16] == 2:
        text = f"torn: a batch of {length + BODY_AT:,} bytes, of which {rest:,} are there"
    else:
        text = f"{rest:,} bytes that are no batch; nothing after this byte was read"
    return Problem(
        kind=ProblemKind.DAMAGED,
        directory=directory,
        file=file.name,
        position_bytes=end,
        offset=int(headers["end_offset"][-1]) if len(headers) else file.base_offset,
        text=text,
    )
