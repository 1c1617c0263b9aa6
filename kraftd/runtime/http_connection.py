"""Bounds one connection to the HTTP port, in bytes and in time (D-38).

Stands between the transport and aiohttp's protocol. Bytes are read a little at a time into one buffer that
all connections share, and are counted. Otherwise uvloop reads 256 KiB of each at once, and what aiohttp
refuses of them is kept alive by its tracebacks until the next garbage collection: a hundred connections a
second with 100 KB each were 40 MB.

Not here: what a request means, and how many connections there are (`http_server`).
"""

import asyncio
from typing import Final, cast

REQUEST_BYTES_MAX: Final = 8 << 10
"""What a connection may send in all. A probe sends some 100 bytes, Prometheus a few hundred."""

_BUFFER = memoryview(bytearray(2 << 10))
"""Every read goes here; `buffer_updated` copies the bytes out of it at once."""


class HttpConnection(asyncio.BufferedProtocol):
    """Passes bytes to aiohttp's protocol, up to a bound, until a timer closes the connection."""

    def __init__(self, inner: asyncio.Protocol, seconds: float) -> None:
        self._inner = inner
        self._bytes_left = REQUEST_BYTES_MAX
        self._transport: asyncio.Transport | None = None
        self._end = asyncio.get_running_loop().call_later(seconds, self.end)

    @property
    def is_over(self) -> bool:
        """Whether the connection is closed or being closed."""
        return self._transport is None

    def end(self) -> None:
        """Close the connection at once, if it is still open."""
        transport, self._transport = self._transport, None
        self._end.cancel()
        if transport is not None:
            transport.abort()

    # asyncio's callbacks.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember the transport, and tell aiohttp's protocol."""
        self._transport = cast("asyncio.Transport", transport)
        self._inner.connection_made(transport)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        """Read into the shared buffer."""
        return _BUFFER

    def buffer_updated(self, nbytes: int) -> None:
        """Pass on what was read, or close the connection if it sent too much."""
        self._bytes_left -= nbytes
        if self._bytes_left < 0:
            self.end()
        elif self._transport is not None:
            self._inner.data_received(bytes(_BUFFER[:nbytes]))

    def eof_received(self) -> bool | None:
        """Tell aiohttp's protocol that the client sends no more."""
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        """Tell aiohttp's protocol to pause."""
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Tell aiohttp's protocol to go on."""
        self._inner.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        """Stop the timer, and tell aiohttp's protocol."""
        self._transport = None
        self._end.cancel()
        self._inner.connection_lost(error)
