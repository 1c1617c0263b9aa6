"""The frame around every metadata record: frame version 1, kind, version, body.

A kind or version that this program does not know becomes a `RawRecord` and encodes to the same bytes again: a
newer Kafka's log can be read, copied and counted without being understood.
"""

from collections.abc import Mapping
from functools import cache
from typing import Final, TypeAlias

import msgspec

from kraftd.errors import MalformedError, UnencodableError
from kraftd.records.bodies import RECORD_MODULES
from kraftd.records.body_codecs import BodyCodecs, Reader
from kraftd.records.messages import Record
from kraftd.serde.binary import READ_ERRORS, WRITE_ERRORS, Chunks
from kraftd.serde.varint import encode_uvarint, read_uvarint

_FRAME_VERSION = 1
_INT16_MAX = 0x7FFF

RECORD_NAMES: Final[Mapping[int, str]] = {key: module.name for key, module in RECORD_MODULES.items()}
"""Every kind of metadata record in Kafka 4.3."""

RECORD_CODECS: Final = BodyCodecs(RECORD_MODULES, "RECORD")
"""What reads, writes and shows their bodies."""


class RawRecord(msgspec.Struct, frozen=True, gc=False):
    """A record of a kind or version unknown here: `raw` is its body, untouched."""

    api_key: int
    version: int
    raw: bytes


AnyRecord: TypeAlias = Record | RawRecord


def encode_record(record: AnyRecord, version: int | None = None) -> bytes:
    """A record as the value of a log record, in its newest version unless another is wanted.

    Raises:
        UnencodableError: The record does not fit that version.
    """
    if isinstance(record, RawRecord):
        return _frame(record.api_key, record.version) + record.raw
    version = record.MAX_VERSION if version is None else version
    kind = (record.API_KEY, version)
    writer = RECORD_CODECS.writer(kind)
    if writer is None:
        raise UnencodableError(f"{record.NAME} has no version {version}")
    out: Chunks = [_OPENINGS[kind]]
    try:
        writer(out, record)
    except WRITE_ERRORS as error:
        raise UnencodableError(f"{record.NAME} version {version}: {error}") from None
    return b"".join(out)


def decode_record(value: bytes) -> AnyRecord:
    """Read the value of a log record.

    Raises:
        MalformedError: The frame is none, or a known kind's body does not follow its schema.
    """
    reader = _READERS_BY_OPENING.get(value[:_OPENING_BYTES])
    if reader is not None:
        at = _OPENING_BYTES
    else:
        key, version, at = read_frame(value)
        reader = RECORD_CODECS.reader((key, version))
        if reader is None:
            return RawRecord(key, version, value[at:])
        if at == _OPENING_BYTES:
            _READERS_BY_OPENING[value[:at]] = reader
    try:
        record, end = reader(value, at)
    except READ_ERRORS as error:
        raise MalformedError(f"{_described(value)}: {error}") from None
    if end != len(value):
        raise MalformedError(f"{_described(value)}: {len(value) - end} bytes are left over")
    decoded: Record = record
    return decoded


def read_frame(value: bytes) -> tuple[int, int, int]:
    """Kind, version and where the body begins, without reading the body.

    Raises:
        MalformedError: The frame is none.
    """
    frame_version, at = read_uvarint(value, 0)
    if frame_version != _FRAME_VERSION:
        raise MalformedError(f"byte 0: frame version {frame_version} is not {_FRAME_VERSION}")
    key, at = read_uvarint(value, at)
    version, at = read_uvarint(value, at)
    if key > _INT16_MAX or version > _INT16_MAX:
        raise MalformedError(f"byte 1: record kind {key} version {version} is out of range")
    return key, version, at


def record_name(api_key: int) -> str:
    """Kafka's name of a kind, or a made-up one that carries the number."""
    return RECORD_NAMES.get(api_key, f"UnknownRecord{api_key}")


def to_json(record: AnyRecord, version: int | None = None) -> dict[str, object]:
    """A record as Kafka's own dump prints it, ready for a JSON encoder."""
    key = record.api_key if isinstance(record, RawRecord) else record.API_KEY
    if isinstance(record, RawRecord):
        version, data = record.version, {"raw": record.raw.hex()}
        return {"type": _dump_name(key), "version": version, "data": data}
    version = record.MAX_VERSION if version is None else version
    view = RECORD_CODECS.json_view((key, version))
    return {"type": _dump_name(key), "version": version, "data": view(record)}


@cache
def _dump_name(api_key: int) -> str:
    out = ""
    for before, letter in zip(" " + record_name(api_key), record_name(api_key), strict=False):
        out += "_" + letter if letter.isupper() and before.islower() else letter.upper()
    return out


def _frame(key: int, version: int) -> bytes:
    return b"\x01" + encode_uvarint(key) + encode_uvarint(version)


def _described(value: bytes) -> str:
    key, version, _ = read_frame(value)
    return f"{record_name(key)} version {version}"


_OPENINGS = {kind: _frame(*kind) for kind in RECORD_CODECS.known}
"""What a record of each kind and version begins with: the version of the frame, the kind, the version."""
_OPENING_BYTES = 3
"""How long a frame is before the body, if kind and version are below 128, as all known ones are."""
_READERS_BY_OPENING: dict[bytes, Reader] = {}
"""The readers that were used, so that most records cost one lookup."""
