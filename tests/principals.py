"""A principal as Kafka's brokers encode it into an Envelope: what `kraftd.protocol.principal` reads."""

from kraftd.errors import UnencodableError
from kraftd.protocol.principal import Principal
from kraftd.serde.binary import (
    WRITE_ERRORS,
    ZERO,
    Chunks,
    write_bool,
    write_compact_string,
    write_int16,
)

_VERSION = 0


def encode_principal(principal: Principal) -> bytes:
    """The RequestPrincipal of an Envelope.

    Raises:
        UnencodableError: The type or the name cannot be a string of Kafka's.
    """
    out: Chunks = []
    try:
        write_int16(out, _VERSION)
        write_compact_string(out, principal.type)
        write_compact_string(out, principal.name)
        write_bool(out, principal.token_authenticated)
    except WRITE_ERRORS as error:
        raise UnencodableError(f"principal: {error}") from None
    return b"".join((*out, ZERO))
