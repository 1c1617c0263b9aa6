"""What a connection speaks, told by its first five bytes: a length and the first byte of a frame.

The byte after the first length chooses the codec of a connection for as long as it stands: 0x9_ (an array of
up to 15 elements) is kraftd's msgpack; 0x00 (the high byte of an API key below 256) is Kafka's protocol. What
people point at the port by mistake is told by name: TLS, whose first record would be a frame of 352 MiB or
more, and HTTP, whose methods would be one of 1 GiB. Not here: which of them a listener speaks (`framing`).
"""

from enum import Enum
from typing import Final

from kraftd.protocol.codec import Buffer

LENGTH_BYTES: Final = 4
OPENING_BYTES: Final = LENGTH_BYTES + 1

MSGPACK_ARRAYS: Final = range(0x90, 0xA0)
KAFKA_API_KEYS: Final = 0x00
_TLS_RECORDS: Final = (b"\x16\x03", b"\x15\x03")
"""A handshake, or an alert, which answers what is no handshake."""
_HTTP_BEGINS: Final = (b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"CONN", b"PRI ", b"HTTP")
"""Methods, and what every response begins with."""


class Protocol(Enum):
    """What a connection may begin with; its value is how people are told."""

    MSGPACK = "kraftd's msgpack"
    KAFKA = "Kafka's protocol"
    TLS = "TLS"
    HTTP = "HTTP"
    UNKNOWN = "no protocol that is known here"


def protocol_of(opening: Buffer) -> Protocol:
    """The protocol of a connection that begins with these bytes, `OPENING_BYTES` or more."""
    first = bytes(opening[:OPENING_BYTES])
    if first.startswith(_TLS_RECORDS):
        return Protocol.TLS
    if first.startswith(_HTTP_BEGINS):
        return Protocol.HTTP
    kind = first[LENGTH_BYTES]
    if kind in MSGPACK_ARRAYS:
        return Protocol.MSGPACK
    return Protocol.KAFKA if kind == KAFKA_API_KEYS else Protocol.UNKNOWN
