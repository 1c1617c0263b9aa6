"""Control records: what the quorum writes for itself, in batches of their own (ACC-14).

Differs from Kafka (Q-24): the body is read in the version that it names, and an unknown type or version
becomes a `RawControl` instead of stopping the reader, so that a log of a newer Kafka can be carried.
"""

import struct
from typing import Final, TypeAlias

import msgspec

from kraftd.errors import MalformedError, UnencodableError
from kraftd.records.bodies import CONTROL_MODULES
from kraftd.records.body_codecs import BodyCodecs
from kraftd.records.messages import ControlRecord
from kraftd.serde.binary import READ_ERRORS, WRITE_ERRORS, Chunks

LEADER_CHANGE = 2
SNAPSHOT_HEADER = 3
SNAPSHOT_FOOTER = 4
KRAFT_VERSION = 5
KRAFT_VOTERS = 6

CONTROL_NAMES = {
    0: "Abort",
    1: "Commit",
    LEADER_CHANGE: "LeaderChange",
    SNAPSHOT_HEADER: "SnapshotHeader",
    SNAPSHOT_FOOTER: "SnapshotFooter",
    KRAFT_VERSION: "KRaftVersion",
    KRAFT_VOTERS: "KRaftVoters",
}

CONTROL_CODECS: Final = BodyCodecs(CONTROL_MODULES, "CONTROL")
"""What reads, writes and shows the bodies of control records."""

_KEY = struct.Struct(">hh")
_VERSION = struct.Struct(">h")


class RawControl(msgspec.Struct, frozen=True, gc=False):
    """A control record of a type or version unknown here."""

    type: int
    version: int
    key: bytes
    value: bytes


AnyControl: TypeAlias = ControlRecord | RawControl


def encode_control(record: AnyControl) -> tuple[int, bytes]:
    """Type and body of a control record, in the version that it names itself.

    Raises:
        UnencodableError: There is no such version, or the record does not fit it.
    """
    if isinstance(record, RawControl):
        return record.type, record.value
    writer = CONTROL_CODECS.writer((record.CONTROL_TYPE, record.version))
    if writer is None:
        raise UnencodableError(f"{record.NAME} has no version {record.version}")
    out: Chunks = []
    try:
        writer(out, record)
    except WRITE_ERRORS as error:
        raise UnencodableError(f"{record.NAME} version {record.version}: {error}") from None
    return record.CONTROL_TYPE, b"".join(out)


def decode_control(key: bytes | None, value: bytes | None) -> AnyControl:
    """Read a control record.

    Raises:
        MalformedError: There is no key or value, or a known type's body does not follow its schema.
    """
    if key is None or value is None or len(key) < _KEY.size or len(value) < _VERSION.size:
        raise MalformedError("a control record needs a key and a value")
    key_version, control_type = _KEY.unpack_from(key)
    (version,) = _VERSION.unpack_from(value)
    if key_version < 0 or version < 0:
        raise MalformedError(f"control record type {control_type} has a negative version")
    reader = CONTROL_CODECS.reader((control_type, version))
    if reader is None:
        return RawControl(control_type, version, key, value)
    try:
        record, end = reader(value, 0)
    except READ_ERRORS as error:
        raise MalformedError(f"{control_name(control_type)} version {version}: {error}") from None
    if end != len(value):
        raise MalformedError(
            f"{control_name(control_type)} version {version}: {len(value) - end} bytes are left over"
        )
    decoded: ControlRecord = record
    return decoded


def control_name(control_type: int) -> str:
    """Kafka's name of a type, or a made-up one that carries the number."""
    return CONTROL_NAMES.get(control_type, f"Unknown{control_type}")


def control_to_json(record: AnyControl) -> dict[str, object]:
    """A control record as Kafka's own dump prints it, ready for a JSON encoder."""
    if isinstance(record, RawControl):
        name, version = control_name(record.type), record.version
        return {"type": name, "version": version, "data": {"raw": record.value.hex()}}
    name = control_name(record.CONTROL_TYPE)
    return {
        "type": name,
        "version": record.version,
        "data": CONTROL_CODECS.json_view((record.CONTROL_TYPE, record.version))(record),
    }
