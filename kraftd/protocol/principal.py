"""Who a forwarded request is from: the principal inside an Envelope, as Kafka's brokers encode it.

A 2-byte version, which is 0, and in the compact form of flexible versions: type, name, whether the client
showed a delegation token, and tagged fields, which are skipped. Follows DefaultPrincipalData of Kafka's
clients, also where a string is no UTF-8; that bytes are left over is an error here. Only brokers encode one
(`tests.principals` does as they do).
"""

import codecs

from msgspec import Struct

from kraftd.errors import MalformedError
from kraftd.serde.binary import (
    READ_ERRORS,
    STRING_BYTES_MAX,
    read_bool,
    read_compact_bytes,
    read_int16,
)
from kraftd.serde.tagged import read_tags

_VERSION = 0
_AS_JAVA = "kraftd.as-java"
_REPLACEMENT = "\ufffd"
_SURROGATE = 0xED
"""The first byte of what would be one."""


class Principal(Struct, frozen=True, gc=False):
    """A user, or whoever else a client is."""

    type: str
    """What kind of principal, `User` unless somebody extended the brokers."""
    name: str
    token_authenticated: bool = False
    """Whether the client showed a delegation token: then it may make no other one."""


ANONYMOUS = Principal("User", "ANONYMOUS")
"""Whoever came by a listener that authenticates nobody."""


def decode_principal(data: bytes) -> Principal:
    """Read the RequestPrincipal of an Envelope.

    Raises:
        MalformedError: It is of another version, or does not follow it.
    """
    try:
        version, at = read_int16(data, 0)
        if version != _VERSION:
            raise MalformedError(f"version {version} is not known here")
        kind, at = _read_text(data, at)
        name, at = _read_text(data, at)
        token_authenticated, at = read_bool(data, at)
        _, at = read_tags(data, at)
    except READ_ERRORS as error:
        raise MalformedError(f"principal: {error}") from None
    if at != len(data):
        raise MalformedError(f"principal: byte {at}: {len(data) - at} bytes follow it")
    return Principal(kind, name, token_authenticated)


def _read_text(data: bytes, position: int) -> tuple[str, int]:
    """Read a string as Java does: what is malformed in it is replaced."""
    raw, end = read_compact_bytes(data, position)
    if len(raw) > STRING_BYTES_MAX:
        raise MalformedError(
            f"byte {position}: a string of {len(raw)} bytes is longer than {STRING_BYTES_MAX}"
        )
    return raw.decode(errors=_AS_JAVA), end


def _replaced(error: UnicodeError) -> tuple[str, int]:
    """What Java puts in the place of malformed bytes, and where it goes on.

    Python replaces each byte of a surrogate that stands alone; Java all of it, or the first two bytes if the
    third is none of it.
    """
    if not isinstance(error, UnicodeDecodeError):
        raise error
    raw, at = error.object, error.start
    if raw[at] == _SURROGATE and 0xA0 <= _byte(raw, at + 1) <= 0xBF:
        return _REPLACEMENT, at + 2 + (0x80 <= _byte(raw, at + 2) <= 0xBF)
    return _REPLACEMENT, error.end


def _byte(raw: bytes, at: int) -> int:
    return raw[at] if at < len(raw) else 0


codecs.register_error(_AS_JAVA, _replaced)
