"""What inbound and outbound connections share: frames in, buffers out, and bounds on both.

Entered through asyncio's Protocol callbacks. Frames are cut off the stream and handed on synchronously
(D-16). What is to be written is collected, and leaves in one write per connection and turn of the loop: the
owner of the loop calls `Outbox.flush` at the end of each turn.

*The boundary* (D-38). Between a peer's bytes and a decoded message, and between a response and its bytes,
any exception closes the connection, is one line and is counted: `FrameConnection.fail`. It ends where a
message is handed on: what is raised there leaves the callback and ends the process (D-17).

A peer that does not read its responses is not read any more either, and closed after five seconds, so that
neither memory nor a slot can be held for free; a connection that is being closed ends five seconds later,
however much is left. A machine that lost its power or network is noticed within eight seconds, even if
nothing is sent to it.
"""

import asyncio
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import cast

from kraftd.errors import KraftdError
from kraftd.net.rate_limited_logger import RateLimitedLogger
from kraftd.net.tally import Tally
from kraftd.protocol import limits
from kraftd.protocol.codec import Buffer, Codec
from kraftd.protocol.framing import CODECS, FrameReader
from kraftd.protocol.msgpack_codec import MSGPACK

_KEEPALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 8_000),
)
"""Without these a half-open connection would stay open for ever. The last one, in milliseconds, is for a
connection with unacknowledged data: it is not probed, and the system would retransmit for 15 minutes."""

_JOIN_BELOW_BYTES = 256 * 1024
"""Buffers are joined up to here: a copy is cheaper than a vectored write of many small ones."""


class Outbox:
    """The connections that must write at the end of this turn, the tally of those that were closed, and how
    many messages were written.

    `wake` is called for the first of them; it must schedule a call of `flush` in this turn.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self.tally = Tally()
        self.messages_sent = 0
        self._dirty: list[FrameConnection] = []
        self._wake = wake

    def add(self, connection: "FrameConnection") -> None:
        """Remember a connection until the end of the turn."""
        if not self._dirty:
            self._wake()
        self._dirty.append(connection)

    def flush(self) -> None:
        """Write what was collected, once for each connection."""
        dirty, self._dirty = self._dirty, []
        for connection in dirty:
            connection.flush()


class CallbackError(RuntimeError):
    """An `OSError` left a Protocol callback (D-17): uvloop would take it for trouble of this connection."""


class FrameConnection(asyncio.BaseProtocol):
    """One TCP connection that carries frames. Subclasses cut and handle them."""

    WRITE_BUFFER_BYTES_HIGH = limits.WRITE_BUFFER_BYTES_HIGH

    def __init__(
        self, outbox: Outbox, limited_logger: RateLimitedLogger, codecs: Mapping[int, Codec] = CODECS
    ) -> None:
        self.limited_logger = limited_logger
        self.address = self.host = "?"
        self.is_open = False
        self.end_reason = ""
        """Why the connection ended, once it has."""
        self.tally = outbox.tally
        self._outbox = outbox
        self._transport: asyncio.Transport | None = None
        self._reader = FrameReader(limits.HEAD_BYTES_MAX_BEFORE_HANDSHAKE, codecs)
        self._out: list[Buffer] = []
        self._slow: asyncio.TimerHandle | None = None
        """Runs while the other end does not read what is written."""
        self._slow_bytes = 0
        self._long_bytes = 0
        """Long responses written this turn."""
        self._holds_reading = 0

    # Overridden by subclasses.

    def opened(self) -> None:
        """Called when the connection is open."""

    def ended(self) -> None:
        """Called once when the connection is closed, and only after `opened`; `end_reason` says why."""

    def written(self) -> None:
        """Called after a write with long responses, or while the other end does not read."""

    # Used by subclasses and owners.

    @property
    def codec(self) -> Codec:
        """The encoding that the first frame of the other end chose; before that msgpack."""
        return self._reader.codec or MSGPACK

    def write(self, buffers: Sequence[Buffer]) -> None:
        """Write at the end of this turn; does nothing if the connection is closed."""
        if not self.is_open:
            return
        if not self._out:
            self._outbox.add(self)
        self._outbox.messages_sent += 1
        self._out += buffers

    def flush(self) -> None:
        """Hand everything collected to the transport, in one piece."""
        out, self._out = self._out, []
        if self._transport is None or not out:
            return
        if len(out) == 1:
            self._transport.write(out[0])
        elif sum(map(len, out)) <= _JOIN_BELOW_BYTES:
            self._transport.write(b"".join(out))
        else:
            self._transport.writelines(out)
        if self._long_bytes or self._slow is not None:
            self.written()

    def close(self, reason: str) -> None:
        """Write what is collected, then close. The peer has five seconds to read it."""
        if self._transport is None or self._transport.is_closing():
            return
        self.end_reason = self.end_reason or reason
        self.is_open = False
        self.flush()
        self._transport.close()
        self._end_watch()
        self._watch_slowness()

    def abort(self, reason: str) -> None:
        """Close at once, without writing what is collected."""
        if self._transport is not None:
            self.end_reason = self.end_reason or reason
            self.is_open = False
            self._transport.abort()

    def abandon(self, reason: str) -> None:
        """End it after its loop may have closed it without a word; does nothing if it was never opened.

        Node 1 stands still for two seconds as it connects to node 2. In its next turn the connection is made
        and the time to connect is up: uvloop closes the socket, never calls `connection_lost`, and raises if
        anything is written.
        """
        if self._transport is None:
            return
        self.abort(reason)
        self._let_go()
        # Not at once: what `ended` raises has to leave a callback (D-17), or a connect seems to have failed.
        asyncio.get_running_loop().call_soon(self._tell_end)

    def reject(self, reason: str) -> None:
        """Close the connection because of malformed input, and log the reason."""
        self.tally.malformed += 1
        self.limited_logger.warning("bad_frame", key=self.host, address=self.address, reason=reason)
        self.close(f"bad frame: {reason}")

    def refuse_api(self, name: str, client_id: str | None, reason: str) -> None:
        """Close the connection because of a request of an API that is not served, and log who sent it."""
        self.tally.malformed += 1
        self.limited_logger.warning(
            "unserved_api",
            key=(self.host, name),
            address=self.address,
            client_id=client_id,
            api=name,
            reason=reason,
        )
        self.close(f"a request of {name}, which is not served here")

    def asked_nothing(self, client_id: str | None, software: str, reason: str) -> None:
        """Log that the connection of a client ended without a request."""
        self.limited_logger.warning(
            "no_request",
            key=(self.host, client_id),
            address=self.address,
            client_id=client_id,
            software=software,
            reason=reason,
        )

    def fail(self, doing: str, error: Exception) -> None:
        """Close the connection after an exception between bytes and message (D-38)."""
        if isinstance(error, KraftdError):
            self.reject(str(error))
            return
        self.tally.broken += 1
        kind = type(error).__name__
        self.limited_logger.warning(
            "connection_broken",
            key=(doing, kind),
            address=self.address,
            doing=doing,
            reason=f"{kind}: {error}",
        )
        self.abort(f"{doing}: {kind}")

    def allow_frames(self, limit_bytes: int) -> None:
        """Raise the bound of a frame, after the handshake."""
        self._reader.limit_bytes = limit_bytes

    def hold_reading(self) -> None:
        """Stop reading until `release_reading` was called as often."""
        self._holds_reading += 1
        if self._holds_reading == 1 and self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def release_reading(self) -> None:
        """Undo one `hold_reading`."""
        self._holds_reading -= 1
        if self._holds_reading == 0 and self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    # asyncio's callbacks.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Set the socket's options and call `opened`."""
        self._transport = cast("asyncio.Transport", transport)
        self.is_open = True
        peer = transport.get_extra_info("peername")
        if peer:
            self.host, self.address = peer[0], f"{peer[0]}:{peer[1]}"
        self._transport.set_write_buffer_limits(high=self.WRITE_BUFFER_BYTES_HIGH)
        channel = transport.get_extra_info("socket")
        if channel is not None:
            for level, option, value in _KEEPALIVE:
                channel.setsockopt(level, option, value)
        self.opened()

    def pause_writing(self) -> None:
        """Stop reading while the other end does not read, and start its timeout."""
        self.hold_reading()
        self._slow_bytes = self._transport.get_write_buffer_size() if self._transport is not None else 0
        self._watch_slowness()

    def resume_writing(self) -> None:
        """Read again, since the other end does. The time to read the rest of what is being closed goes on."""
        if self.is_open:
            self._end_watch()
        self.release_reading()

    def connection_lost(self, error: Exception | None) -> None:
        """Note why the connection is closed, and call `ended`."""
        if self._transport is None:  # abandoned: told already, or about to be
            return
        self._let_go()
        self.end_reason = self.end_reason or ("closed by the other end" if error is None else str(error))
        self._tell_end()

    def _let_go(self) -> None:
        self.is_open = False
        self._transport = None
        self._out.clear()
        self._end_watch()

    def _tell_end(self) -> None:
        try:
            self.ended()
        except OSError as trouble:
            raise CallbackError(f"{type(trouble).__name__}: {trouble}") from trouble

    def _watch_slowness(self) -> None:
        if self._slow is None:
            loop = asyncio.get_running_loop()
            self._slow = loop.call_later(limits.WRITE_STALL_TIMEOUT_MS / 1_000, self._close_slow)

    def _end_watch(self) -> None:
        if self._slow is not None:
            self._slow.cancel()
            self._slow = None

    def _close_slow(self) -> None:
        self._slow = None
        if self._transport is None:
            return
        if not self._transport.is_closing():
            before, self._slow_bytes = self._slow_bytes, self._transport.get_write_buffer_size()
            if before - self._slow_bytes >= limits.WRITE_PROGRESS_BYTES:
                self._watch_slowness()
                return
            self.tally.slow += 1
            self.limited_logger.warning("slow_connection_closed", key=self.host, address=self.address)
        self.abort(f"did not read for {limits.WRITE_STALL_TIMEOUT_MS} ms")
