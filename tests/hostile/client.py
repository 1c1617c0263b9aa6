"""Connections of an attacker: plain blocking sockets whose bytes are counted.

Everything goes to 127.0.0.1; where an attack needs more connections than one address may have, it comes from
others of 127.0.0.0/8.
"""

import contextlib
import fcntl
import socket
import struct
import termios
from collections import Counter
from typing import Any

import msgpack

from tests.hostile import wire

PATIENCE_S = 5.0
HOST = "127.0.0.1"


class Tally(Counter[str]):
    """Bytes and connections of an attack: offered, sent, refused, received, opened, closed, unopened."""

    @property
    def taken(self) -> int:
        """Bytes that the nodes have read, as far as the kernel tells."""
        return max(0, self["sent"] - self["unread"])


class ClosedByNodeError(ConnectionError):
    """The node ended the connection."""


class Line:
    """One connection to one node."""

    def __init__(
        self,
        port: int,
        tally: Tally | None = None,
        *,
        source: str = HOST,
        buffers: int = 0,
        timeout_s: float = PATIENCE_S,
    ) -> None:
        self.port = port
        self.tally = Tally() if tally is None else tally
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if buffers:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffers)
        self.socket.settimeout(timeout_s)
        try:
            if source != HOST:
                self.socket.bind((source, 0))
            self.socket.connect((HOST, port))
        except OSError:
            self.tally["unopened"] += 1
            self.socket.close()
            raise
        self.tally["opened"] += 1
        self._buffer = b""
        self._last_id = 0

    def __enter__(self) -> "Line":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, data: bytes) -> bool:
        """Send all of it; False if the node did not take it."""
        self.tally["offered"] += len(data)
        at = 0
        try:
            while at < len(data):
                at += self.socket.send(data[at:])
        except OSError:
            self.tally["refused"] += len(data) - at
            return False
        finally:
            self.tally["sent"] += at
        return True

    def receive(self) -> list[Any]:
        """The next frame, as msgpack has it.

        Raises:
            OSError: The node closed the connection, or is silent.
        """
        while len(self._buffer) < 4 or len(self._buffer) < 4 + int.from_bytes(self._buffer[:4], "big"):
            data = self.socket.recv(1 << 18)
            if not data:
                raise ClosedByNodeError("closed")
            self.tally["received"] += len(data)
            self._buffer += data
        end = 4 + int.from_bytes(self._buffer[:4], "big")
        frame, self._buffer = self._buffer[4:end], self._buffer[end:]
        response: list[Any] = msgpack.unpackb(frame, strict_map_key=False)
        return response

    def greet(self, node_id: int = -1, **words: Any) -> dict[str, Any]:
        """Greet and give the node's response.

        Raises:
            OSError: It closed, or said nothing.
        """
        version = words.get("version", wire.greeting_version())
        self.send(wire.greeting(node_id, **words))
        response = self.receive()
        if version == wire.greeting_version():
            return wire.response("Handshake", response[1])
        return dict(enumerate(response[1]))

    def ask(self, name: str, values: wire.Values | None = None, version: int | None = None) -> dict[str, Any]:
        """One request, and its response; answers to other requests are passed over.

        Raises:
            OSError: It closed, or said nothing.
        """
        self._last_id += 1
        self.send(wire.request(name, values, version, self._last_id))
        while (response := self.receive())[0] != self._last_id:
            pass
        return wire.response(name, response[1], version)

    def drain(self, limit_s: float = 0.2) -> int:
        """Read and drop what comes until silence or the end; the bytes."""
        count = 0
        with contextlib.suppress(OSError):
            self.socket.settimeout(limit_s)
            while data := self.socket.recv(1 << 18):
                count += len(data)
        self.tally["received"] += count
        return count

    def is_closed(self, within_s: float = 0.0) -> bool:
        """Whether the node has closed it, waiting so long for that."""
        try:
            self.socket.settimeout(within_s or 0.000_1)
            while self.socket.recv(1 << 18):
                pass
        except TimeoutError:
            return False
        except OSError:
            return True
        finally:
            with contextlib.suppress(OSError):
                self.socket.settimeout(PATIENCE_S)
        return True

    def reset(self) -> None:
        """Close with RST."""
        with contextlib.suppress(OSError):
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def unsent(self) -> int:
        """Bytes that the kernel holds because the other end does not take them."""
        try:
            return int.from_bytes(fcntl.ioctl(self.socket.fileno(), termios.TIOCOUTQ, bytes(4)), "little")
        except OSError:
            return 0

    def close(self) -> None:
        self.socket.close()
