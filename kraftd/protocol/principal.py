"""Who a forwarded request is from: the principal inside an Envelope, as Kafka's brokers encode it.

A 2-byte version, which is 0, and in the compact form of flexible versions: type, name, whether the client
showed a delegation token, and tagged fields, which are skipped. Follows DefaultPrincipalData of Kafka's
clients; that bytes are left over is an error here. Only brokers encode one (`tests.principals` does as they
do).
"""

from msgspec import Struct

from kraftd.errors import MalformedError
from kraftd.serde.binary import (
    READ_ERRORS,
    read_bool,
    read_compact_string,
    read_int16,
)
from kraftd.serde.tagged import read_tags

_VERSION = 0


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
        kind, at = read_compact_string(data, at)
        name, at = read_compact_string(data, at)
        token_authenticated, at = read_bool(data, at)
        _, at = read_tags(data, at)
    except READ_ERRORS as error:
        raise MalformedError(f"principal: {error}") from None
    if at != len(data):
        raise MalformedError(f"principal: byte {at}: {len(data) - at} bytes follow it")
    return Principal(kind, name, token_authenticated)
