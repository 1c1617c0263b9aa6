"""What do both ends of a connection share? Frames in, buffers out, and bounds on both.

Entered through asyncio's Protocol callbacks. Frames are cut off the stream and handed on synchronously
(D-16). What is to be written is collected, and leaves in one write per connection and turn of the loop: the
owner of the loop calls `Outbox.flush` at the end of each turn.

*The boundary* (D-38). Between a peer's bytes and a decoded message, and between an answer and its bytes,
any exception closes the connection, is one line and is counted: `FrameConnection.fail`. It ends where a
message is handed on: what is raised there leaves the callback and ends the process (D-17).

A reader that does not keep up is not read any more either, and closed after five seconds, so that neither
memory nor a slot can be held for free. A machine that is gone without a word is noticed within eight
seconds, even if nobody writes to it.
"""

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import cast

from kraftd.errors import KraftdError
from kraftd.net.budgets import Tally
from kraftd.net.repeats import Repeats
from kraftd.protocol import limits
from kraftd.protocol.framing import Buffer, FrameReader

_KEEPALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 8_000),
)
"""Else a half-open connection counts as open for ever. The last one, in milliseconds, is for a connection on
which something was sent that nobody acknowledges: it is not probed, and the system tries for 15 minutes."""

_JOIN_BELOW_BYTES = 256 * 1024
"""Buffers are joined up to here: a copy is cheaper than a vectored write of many small ones."""


class Outbox:
    """The connections that have something to write at the end of this turn, and how others came to their end.

    `wake` is called when the first of them has; it must see to it that `flush` is called this turn.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self.tally = Tally()
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
    """One TCP connection that carries frames. Subclasses say how bytes become frames, and what those mean."""

    WRITE_BUFFER_BYTES_HIGH = limits.WRITE_BUFFER_BYTES_HIGH

    def __init__(self, outbox: Outbox, repeats: Repeats) -> None:
        self.repeats = repeats
        self.address = self.host = "?"
        self.is_open = False
        self.end_reason = ""
        """Why the connection ended, once it has."""
        self.tally = outbox.tally
        self._outbox = outbox
        self._transport: asyncio.Transport | None = None
        self._reader = FrameReader(limits.HEAD_BYTES_MAX_BEFORE_HANDSHAKE)
        self._out: list[Buffer] = []
        self._slow: asyncio.TimerHandle | None = None
        """Set while the other end does not take what is written."""
        self._slow_bytes = 0
        self._long_bytes = 0
        """Long answers written this turn."""
        self._holds_reading = 0

    # What subclasses fill in.

    def opened(self) -> None:
        """The connection stands."""

    def ended(self) -> None:
        """The connection is gone; `end_reason` says why. Called once, and only after `opened`."""

    def written(self) -> None:
        """What was collected has left, and some of it was long, or the other end does not take it."""

    # What they and their owners use.

    def write(self, buffers: Sequence[Buffer]) -> None:
        """Write at the end of this turn. Dropped if the connection is gone."""
        if not self.is_open:
            return
        if not self._out:
            self._outbox.add(self)
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
        """Write what is collected, then close. The peer has five seconds to take it."""
        if self._transport is None or self._transport.is_closing():
            return
        self.end_reason = self.end_reason or reason
        self.is_open = False
        self.flush()
        self._transport.close()
        self._watch_slowness()

    def abort(self, reason: str) -> None:
        """Close at once, without writing what is collected."""
        if self._transport is not None:
            self.end_reason = self.end_reason or reason
            self.is_open = False
            self._transport.abort()

    def reject(self, reason: str) -> None:
        """The other end sent what nobody can use: say so in the log, and close."""
        self.tally.malformed += 1
        self.repeats.warning("bad_frame", key=self.host, address=self.address, reason=reason)
        self.close(f"bad frame: {reason}")

    def fail(self, doing: str, error: Exception) -> None:
        """Something between bytes and message was raised: this connection ends, and nothing else."""
        if isinstance(error, KraftdError):
            self.reject(str(error))
            return
        self.tally.broken += 1
        kind = type(error).__name__
        self.repeats.warning(
            "connection_broken",
            key=(doing, kind),
            address=self.address,
            doing=doing,
            reason=f"{kind}: {error}",
        )
        self.abort(f"{doing}: {kind}")

    def allow_frames(self, limit_bytes: int) -> None:
        """The handshake is done: raise the bound from a greeting to a whole message."""
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
        """Implements `asyncio.Protocol`."""
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
        """Implements `asyncio.Protocol`: the other end does not read as fast as we write."""
        self.hold_reading()
        self._slow_bytes = self._transport.get_write_buffer_size() if self._transport is not None else 0
        self._watch_slowness()

    def resume_writing(self) -> None:
        """Implements `asyncio.Protocol`."""
        if self._slow is not None:
            self._slow.cancel()
            self._slow = None
        self.release_reading()

    def connection_lost(self, error: Exception | None) -> None:
        """Implements `asyncio.Protocol`."""
        self.is_open = False
        self._transport = None
        self._out.clear()
        if self._slow is not None:
            self._slow.cancel()
            self._slow = None
        self.end_reason = self.end_reason or ("closed by the other end" if error is None else str(error))
        try:
            self.ended()
        except OSError as trouble:
            raise CallbackError(f"{type(trouble).__name__}: {trouble}") from trouble

    def _watch_slowness(self) -> None:
        if self._slow is None:
            loop = asyncio.get_running_loop()
            self._slow = loop.call_later(limits.WRITE_STALL_TIMEOUT_MS / 1_000, self._give_up_on_slow)

    def _give_up_on_slow(self) -> None:
        self._slow = None
        if self._transport is None:
            return
        if not self._transport.is_closing():
            before, self._slow_bytes = self._slow_bytes, self._transport.get_write_buffer_size()
            if before - self._slow_bytes >= limits.WRITE_PROGRESS_BYTES:
                self._watch_slowness()
                return
            self.tally.slow += 1
            self.repeats.warning("slow_connection_closed", key=self.host, address=self.address)
        self.abort(f"did not read for {limits.WRITE_STALL_TIMEOUT_MS} ms")
