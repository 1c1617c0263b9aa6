"""The header of a record batch, magic 2: where each field lies, and what a metadata log never has in one.

Every reader of batches is made from this description. They differ in how many fields they want: a start that
walks a long log reads five of thirteen (`layout`), the Spark job gathers whole columns of them with numpy.

Not here: the checksum, and whether records fill the batch (`batch`).

Follows Kafka's `DefaultRecordBatch`.
"""

from struct import Struct
from typing import Final, Protocol

FIELDS: Final = (
    ("base_offset", "q"),
    ("length", "i"),
    ("epoch", "i"),
    ("magic", "b"),
    ("crc", "I"),
    ("attributes", "h"),
    ("last_offset_delta", "i"),
    ("base_timestamp_ms", "q"),
    ("max_timestamp_ms", "q"),
    ("producer_id", "q"),
    ("producer_epoch", "h"),
    ("base_sequence", "i"),
    ("record_count", "i"),
)
"""Each field with the code of its type in `struct`, big-endian; numpy reads the same codes."""


def layout(*names: str) -> Struct:
    """Return what reads these fields from the beginning of a header; what lies between them is passed over,
    and what follows the last of them need not be there.
    """
    wanted = [code if name in names else f"{Struct('>' + code).size}x" for name, code in FIELDS]
    last = max(number for number, (name, _) in enumerate(FIELDS) if name in names)
    return Struct(">" + "".join(wanted[: last + 1]))


def end_of(name: str) -> int:
    """Return the byte of the header that follows this field."""
    return layout(name).size


HEADER: Final = layout(*(name for name, _ in FIELDS))
HEADER_BYTES: Final = HEADER.size
OVERHEAD_BYTES: Final = end_of("length")
"""What a batch's length does not count: the bytes up to itself."""
LENGTH_AT: Final = end_of("base_offset")
"""Where a batch says how long it is."""
MAGIC_AT: Final = end_of("epoch")
CRC_FROM: Final = end_of("crc")
"""Where the bytes begin that the checksum covers: without base offset and epoch."""

BATCH_BYTES_MAX: Final = 8 << 20
"""The largest batch of a metadata log in Kafka, `KafkaRaftClient.MAX_BATCH_SIZE_BYTES`, and here. A header
that states more has gone bad, or is none, and nobody reads as far as it says.
"""

MAGIC: Final = 2
COMPRESSION: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
UNSUPPORTED: Final = COMPRESSION | LOG_APPEND_TIME
"""The attributes that a metadata log does not have."""
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20


class BatchHeader(Protocol):
    """The fields by which a header can be told from other bytes."""

    @property
    def base_offset(self) -> int:
        """Offset of the first record."""

    @property
    def epoch(self) -> int:
        """The leader epoch."""

    @property
    def magic(self) -> int:
        """The version of the format."""

    @property
    def attributes(self) -> int:
        """Compression, kind of timestamps, transactional, control."""

    @property
    def last_offset_delta(self) -> int:
        """From the first record's offset to the last one's."""

    @property
    def record_count(self) -> int:
        """How many records there are."""


def why_illegal(header: BatchHeader) -> str | None:
    """Return why no batch of a metadata log has this header; None if one can."""
    if header.magic != MAGIC:
        return f"magic {header.magic} is not the metadata log's {MAGIC}"
    if header.attributes & UNSUPPORTED:
        compression = header.attributes & COMPRESSION
        what = f"compression {compression}" if compression else "log-append time"
        return f"{what}, which a metadata log does not have"
    if not 1 <= header.record_count == header.last_offset_delta + 1:
        return f"{header.record_count} records up to offset +{header.last_offset_delta}"
    if header.base_offset < 0 or header.epoch < 0:
        return f"base offset {header.base_offset} and epoch {header.epoch} must not be negative"
    return None
