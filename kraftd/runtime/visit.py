"""One connection to the HTTP port: what may it send, and for how long? (D-38)

Stands between the transport and aiohttp's protocol, and is entered by both: bytes are read a little at a time
into one buffer that all visits share, and are counted. Otherwise uvloop reads 256 KiB of each at once, and
what aiohttp refuses of them stays in the frames of its traces until somebody looks for cycles: a hundred
visits a second with 100 KB each were 40 MB.

Not here: what a request means, and how many visits there are (`http`).
"""

import asyncio
from typing import Final, cast

VISIT_BYTES_MAX: Final = 8 << 10
"""What a visit may send in all. A probe sends some 100 bytes, Prometheus a few hundred."""

_BUFFER = memoryview(bytearray(2 << 10))
"""Where every read goes; whoever reads copies out of it at once."""


class Visit(asyncio.BufferedProtocol):
    """Hands bytes on, up to a bound, until its time is over."""

    def __init__(self, inner: asyncio.Protocol, seconds: float) -> None:
        self._inner = inner
        self._bytes_left = VISIT_BYTES_MAX
        self._transport: asyncio.Transport | None = None
        self._end = asyncio.get_running_loop().call_later(seconds, self.end)

    @property
    def is_over(self) -> bool:
        """Whether the connection is gone, or about to be."""
        return self._transport is None

    def end(self) -> None:
        """Close the connection at once, if it is still open."""
        transport, self._transport = self._transport, None
        self._end.cancel()
        if transport is not None:
            transport.abort()

    # asyncio's callbacks.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Implements `asyncio.BufferedProtocol`."""
        self._transport = cast("asyncio.Transport", transport)
        self._inner.connection_made(transport)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        """Implements `asyncio.BufferedProtocol`."""
        return _BUFFER

    def buffer_updated(self, nbytes: int) -> None:
        """Implements `asyncio.BufferedProtocol`."""
        self._bytes_left -= nbytes
        if self._bytes_left < 0:
            self.end()
        elif self._transport is not None:
            self._inner.data_received(bytes(_BUFFER[:nbytes]))

    def eof_received(self) -> bool | None:
        """Implements `asyncio.BufferedProtocol`."""
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        """Implements `asyncio.BufferedProtocol`."""
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Implements `asyncio.BufferedProtocol`."""
        self._inner.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        """Implements `asyncio.BufferedProtocol`."""
        self._transport = None
        self._end.cancel()
        self._inner.connection_lost(error)
