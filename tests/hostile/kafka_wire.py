"""What an attacker asks on Kafka's wire before anything else: which APIs are served, and a broker's epoch."""

import socket
import struct
from functools import cache

from tests.hostile import wire

ASK = b"\0\x12\0\0\0\0\0\1\xff\xff"
"""ApiVersions of version 0, which every client may ask, without its length."""

PATIENCE_S = 10


def asked(port: int, frame: bytes) -> bytes:
    """The response to a frame without its length, behind the correlation id.

    Raises:
        OSError: The node closed the connection, or is silent.
    """
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as channel:
        channel.sendall(wire.framed(frame))
        data = b""
        while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
            more = channel.recv(1 << 16)
            if not more:
                raise ConnectionError("closed")
            data += more
    return data[8:]


@cache
def served(port: int) -> frozenset[int]:
    """The keys of the APIs that the node on this port advertises."""
    data = asked(port, ASK)
    error, count = struct.unpack_from(">hi", data)
    assert error == 0
    return frozenset(key for key, _, _ in struct.iter_unpack(">hhh", data[6 : 6 + 6 * count]))


def registered(port: int, registration: bytes) -> int:
    """The epoch that the active controller gives to a broker, by a flexible registration without its length;
    -1 if it is refused.
    """
    _, _, _, epoch = struct.unpack_from(">bihq", asked(port, registration))
    return int(epoch)
