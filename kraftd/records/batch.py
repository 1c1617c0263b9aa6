"""Record batches, magic 2: the unit that is appended, replicated, checksummed and committed.

`encode_batch`, `BatchBuilder` and `encode_control_batch` write what the metadata log holds: no compression,
one timestamp, no producer. `scan` walks the batches of a file or a fetch and checks each; a `BatchView` shows
one without copying. The checksum does not cover base offset and epoch.

Follows Kafka's `DefaultRecordBatch`. Differs from it: a batch that the metadata log
never holds (compressed, another magic, log-append time) is refused as corrupt, with the reason.
"""

from collections.abc import Iterator, Sequence
from struct import Struct

import msgspec
from crc32c import crc32c

from kraftd.errors import CorruptBatchError, MalformedError
from kraftd.records.batch_header import (
    BATCH_BYTES_MAX,
    CONTROL,
    CRC_FROM,
    FIELDS,
    HEADER,
    HEADER_BYTES,
    MAGIC,
    OVERHEAD_BYTES,
    TRANSACTIONAL,
    layout,
    why_illegal,
)
from kraftd.records.data_records import USUAL_FROM, data_parts, data_values, usual_values
from kraftd.serde.varint import encode_zigzag, read_zigzag, read_zigzag_long
from kraftd.types import Epoch, Offset

_UNCHECKED = Struct(">" + "".join(code for _, code in FIELDS[:5]))
"""The fields up to the checksum, as they are written."""
_CHECKED = Struct(">" + "".join(code for _, code in FIELDS[5:]))
"""Those that the checksum covers."""
_LENGTH = layout("length")
_CONTROL_KEY = Struct(">hh")


class RecordView(msgspec.Struct, frozen=True, gc=False):
    """One record of a batch, with whatever its bytes say."""

    attributes: int
    timestamp_delta: int
    offset_delta: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...] = ()


def encode_batch(base_offset: Offset, epoch: Epoch, timestamp_ms: int, values: Sequence[bytes]) -> bytes:
    """A batch of framed record values, which are never empty."""
    parts = [b"", *data_parts(values, 0), b"\0"]
    return _with_header(base_offset, epoch, 0, timestamp_ms, len(values), parts)


class BatchBuilder:
    """A batch as `encode_batch` makes one, of values that come a few at a time."""

    __slots__ = ("_parts", "count", "values_bytes")

    def __init__(self) -> None:
        self._parts = [b""]
        self.count = 0
        """How many values it has."""
        self.values_bytes = 0
        """How long they are together."""

    def add(self, values: Sequence[bytes]) -> None:
        """Add framed record values, which are never empty."""
        self._parts += data_parts(values, self.count)
        self.count += len(values)
        self.values_bytes += sum(map(len, values))

    def finish(self, base_offset: Offset, epoch: Epoch, timestamp_ms: int) -> bytes:
        """The batch. The builder is not used any more."""
        self._parts.append(b"\0")
        return _with_header(base_offset, epoch, 0, timestamp_ms, self.count, self._parts)


def encode_control_batch(
    base_offset: Offset, epoch: Epoch, timestamp_ms: int, records: Sequence[tuple[int, bytes]]
) -> bytes:
    """A batch of control records, each given by its type and body."""
    parts = [b""]
    for delta, (control_type, body) in enumerate(records):
        middle = b"\0\0" + encode_zigzag(delta) + b"\x08" + _CONTROL_KEY.pack(0, control_type)
        middle += encode_zigzag(len(body))
        parts += (encode_zigzag(len(middle) + len(body) + 1), middle, body, b"\0")
    return _with_header(base_offset, epoch, CONTROL, timestamp_ms, len(records), parts)


def scan(buffer: bytes | memoryview, position: int = 0, *, path: str = "") -> Iterator["BatchView"]:
    """Every batch from a position to the end of the buffer, each checked.

    Raises:
        CorruptBatchError: At the first byte of the first bad batch; `torn` if the buffer ends inside it.
    """
    view = memoryview(buffer)
    end = len(view)
    while position < end:
        batch = BatchView(view, position, path)
        batch.check()
        yield batch
        position += batch.size_bytes


def walk(buffer: bytes | memoryview) -> Iterator["BatchView"]:
    """Every batch of bytes that were checked already: by `scan`, as whoever read them from the disk does.

    Raises:
        CorruptBatchError: The buffer does not end with a batch.
    """
    view = memoryview(buffer)
    position, end = 0, len(view)
    while position < end:
        batch = BatchView(view, position)
        yield batch
        position += batch.size_bytes


def ending_by(records: bytes, end_offset: Offset) -> bytes:
    """Of whole batches that were checked already, those that end at or before an offset."""
    at = 0
    while at < len(records):
        batch = BatchView(records, at)
        if batch.end_offset > end_offset:
            break
        at += batch.size_bytes
    return records[:at]


class BatchView:
    """A batch inside a buffer. Making one reads only the header; `check` proves the rest."""

    __slots__ = (
        "_buffer",
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "crc",
        "end_offset",
        "epoch",
        "last_offset_delta",
        "magic",
        "max_timestamp",
        "path",
        "position",
        "producer_epoch",
        "producer_id",
        "record_count",
        "size_bytes",
    )

    base_offset: Offset
    epoch: Epoch
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    size_bytes: int
    end_offset: Offset
    """Offset after the last record."""
    position: int
    """Where in the buffer it begins."""
    path: str
    """The file, for errors; may be empty."""

    def __init__(self, buffer: bytes | memoryview, position: int = 0, path: str = "") -> None:
        view = memoryview(buffer)
        left = len(view) - position
        self.position = position
        self.path = path
        if left < HEADER_BYTES:
            raise self._cut_off(view, left)
        (
            base_offset,
            length,
            self.epoch,
            self.magic,
            self.crc,
            self.attributes,
            last_offset_delta,
            self.base_timestamp,
            self.max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.record_count,
        ) = HEADER.unpack_from(view, position)
        self.size_bytes = size_bytes = length + OVERHEAD_BYTES
        if not HEADER_BYTES <= size_bytes <= left:
            raise self._cut_off(view, left)
        self.base_offset = base_offset
        self.last_offset_delta = last_offset_delta
        self.end_offset = base_offset + last_offset_delta + 1
        self._buffer = view

    def __repr__(self) -> str:
        kind = "control" if self.is_control else "data"
        return f"<{kind} batch {self.base_offset}-{self.last_offset} epoch {self.epoch}>"

    @property
    def raw(self) -> memoryview:
        """The whole batch."""
        return self._buffer[self.position : self.position + self.size_bytes]

    @property
    def last_offset(self) -> Offset:
        """Offset of the last record."""
        return self.base_offset + self.last_offset_delta

    @property
    def is_control(self) -> bool:
        """Whether the quorum itself wrote it."""
        return bool(self.attributes & CONTROL)

    @property
    def is_transactional(self) -> bool:
        """Whether a data transaction wrote it; never in the metadata log."""
        return bool(self.attributes & TRANSACTIONAL)

    def check(self) -> None:
        """Prove the checksum, and that this is a batch of the kind that a metadata log holds.

        Raises:
            CorruptBatchError: Either does not hold.
        """
        reason = why_illegal(self)
        if reason is None:
            found = crc32c(self._buffer[self.position + CRC_FROM : self.position + self.size_bytes])
            if found == self.crc:
                return
            reason = f"the checksum is {self.crc:08x}, the bytes have {found:08x}"
        raise self._corrupt(reason)

    def values(self) -> list[bytes]:
        """The record values of a data batch.

        Raises:
            CorruptBatchError: A record is not a data record of the metadata log.
        """
        if self.is_control:
            return []
        data = bytes(self.raw)
        if self.record_count >= USUAL_FROM and (values := usual_values(data, self.record_count)) is not None:
            return values
        out: list[bytes] = []
        try:
            for value in data_values(data, self.record_count):
                out.append(value)  # noqa: PERF402 - how many were good tells where it is bad
        except (MalformedError, IndexError) as error:
            raise self._corrupt(f"record {len(out)} of {self.record_count}: {error}") from None
        return out

    def records(self) -> list[RecordView]:
        """Every record, whatever it holds.

        Raises:
            CorruptBatchError: The records do not fill the batch.
        """
        data = bytes(self.raw)
        at = HEADER_BYTES
        out: list[RecordView] = []
        try:
            while len(out) < self.record_count:
                record, at = _record(data, at)
                out.append(record)
        except (MalformedError, IndexError) as error:
            raise self._corrupt(f"record {len(out)} of {self.record_count}: {error}") from None
        if at != len(data):
            raise self._corrupt(f"{len(data) - at} bytes follow the last record")
        return out

    def _cut_off(self, view: memoryview, left: int) -> CorruptBatchError:
        """Why the bytes that are left do not hold a whole batch."""
        if left < OVERHEAD_BYTES:
            return self._corrupt(f"{left} bytes are left, fewer than a batch begins with", torn=True)
        (length,) = _LENGTH.unpack_from(view, self.position)
        size_bytes = length + OVERHEAD_BYTES
        if size_bytes < HEADER_BYTES:
            return self._corrupt(f"the batch claims {size_bytes} bytes, fewer than its header")
        if size_bytes > BATCH_BYTES_MAX:
            return self._corrupt(f"the batch claims {size_bytes} bytes, more than one can have", torn=True)
        return self._corrupt(f"the batch claims {size_bytes} bytes, {left} are left", torn=True)

    def _corrupt(self, reason: str, *, torn: bool = False) -> CorruptBatchError:
        return CorruptBatchError(reason, position_bytes=self.position, path=self.path, torn=torn)


def _with_header(
    base_offset: Offset, epoch: Epoch, attributes: int, timestamp_ms: int, count: int, parts: list[bytes]
) -> bytes:
    """Put the header before the records; the first part is its place."""
    if not count:
        raise ValueError("a batch holds at least one record")
    parts[0] = _CHECKED.pack(attributes, count - 1, timestamp_ms, timestamp_ms, -1, -1, -1, count)
    rest = b"".join(parts)
    return _UNCHECKED.pack(base_offset, len(rest) + 9, epoch, MAGIC, crc32c(rest)) + rest


def _record(data: bytes, at: int) -> tuple[RecordView, int]:
    length, start = read_zigzag(data, at)
    end = start + length
    if length <= 0 or end > len(data):
        raise MalformedError(f"it claims {length} bytes, {len(data) - start} are left")
    attributes = data[start]
    timestamp_delta, at = read_zigzag_long(data, start + 1)
    offset_delta, at = read_zigzag(data, at)
    key, at = _sized(data, at, end)
    value, at = _sized(data, at, end)
    count, at = read_zigzag(data, at)
    headers = []
    if not 0 <= count <= end - at:
        raise MalformedError(f"it claims {count} headers")
    for _ in range(count):
        name, at = _sized(data, at, end)
        content, at = _sized(data, at, end)
        if name is None:
            raise MalformedError("a header has no name")
        headers.append((name, content))
    if at != end:
        raise MalformedError(f"it ends at byte {at}, not at {end}")
    return RecordView(attributes, timestamp_delta, offset_delta, key, value, tuple(headers)), end


def _sized(data: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    size, at = read_zigzag(data, at)
    if size < 0:
        return None, at
    if at + size > end:
        raise MalformedError(f"it claims {size} bytes at byte {at}, {end - at} are left")
    return data[at : at + size], at + size
