"""An inbound connection that keeps within its budget (D-38).

Entered by asyncio, with bytes; by the `Lane` of the connection's class, which says when its next frame may be
handled; and by the handler of a request, through `reply`. A connection is not served while too many of its
requests are unanswered or too many bytes of responses are unsent, and not read while it keeps more than a
read undecoded. The event that ends such a state also serves or reads the connection again.

Not here: what a frame means, and which node is at the other end (`server`).
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from kraftd.errors import UnencodableError
from kraftd.net.budgets import Budgets, PeerClass
from kraftd.net.connection import CallbackError, FrameConnection, Outbox
from kraftd.net.rate_limited_logger import RateLimitedLogger
from kraftd.net.slots import Slots
from kraftd.protocol import limits
from kraftd.protocol.codec import Buffer, Codec, Request
from kraftd.protocol.framing import FrameReader
from kraftd.protocol.opening import LENGTH_BYTES
from kraftd.types import NodeId


class RequestHandler(Protocol):
    """The object that answers requests."""

    def request_received(self, connection: Any, request: Request) -> None:
        """A request to be answered with `connection.reply`, now or later."""

    def connection_closed(self, connection: Any) -> None:
        """A connection is closed whose handshake was done: drop what is kept for it."""


class ServerSide(Protocol):
    """What a connection needs of its server."""

    @property
    def request_handler(self) -> RequestHandler:
        """The object that answers requests."""

    @property
    def long_response_keys(self) -> frozenset[int]:
        """The API keys of requests that may have long responses."""

    outbox: Outbox
    limited_logger: RateLimitedLogger
    budgets: Budgets
    slots: Slots
    codecs: Mapping[int, Codec]
    """What the other end may speak, by the first byte of its first frame."""


class BudgetedConnection(FrameConnection, asyncio.BufferedProtocol):
    """Cuts what comes in into frames no faster than the class of the connection may be served."""

    WRITE_BUFFER_BYTES_HIGH = limits.CLIENT_WRITE_BUFFER_BYTES_HIGH

    def __init__(self, server: ServerSide, number: int) -> None:
        super().__init__(server.outbox, server.limited_logger, server.codecs)
        self.number = number
        self.quiet_sweeps = 0
        """How many sweeps for idle connections found no new request."""
        self.has_asked = False
        """Whether a request has come since its greeting."""
        self.unsent_bytes = 0
        """Unsent responses, beyond what the kernel holds."""
        self._handler = server.request_handler
        self._long_response_keys = server.long_response_keys
        self._budgets = server.budgets
        self._slots = server.slots
        self._lane = server.budgets.lanes[PeerClass.STRANGER]
        self._in_flight = 0
        self._long_in_flight = 0
        self._answered_id: int | None = None
        """The correlation id of the newest response, if it came after the newest request."""
        self._given_up: set[int] = set()
        """The correlation ids of requests that were answered although their handlers may still answer."""
        self._is_ordered = False
        """Whether a request is served only once the one before it was answered."""
        self._next: Buffer | None = None
        """The frame before all that the reader keeps: often a read is exactly one frame."""
        self._held_frame: Buffer | None = None
        """A request that waits, undecoded, for room for its response; later frames wait behind it."""
        self._debt = 0
        """Work beyond `WORK_PER_ROUND` that was done here; rounds are skipped until it is paid off."""
        self._unproved_bytes = 0
        """Bytes received before the handshake was done."""
        self._is_queued = False
        self._is_held = False
        """Not served, since too many requests are unanswered."""
        self._is_input_held = False
        """Not read, since too many bytes that were read wait."""
        self._is_evicted = False

    # Overridden by subclasses.

    @property
    def claimed_id(self) -> NodeId | None:
        """The node id of its greeting; None before the greeting."""
        return None

    def handle(self, frame: Buffer) -> None:
        """Decode a frame and handle its request."""
        raise NotImplementedError

    # Used by subclasses and owners.

    @property
    def peer_class(self) -> PeerClass:
        """What is known of the other end."""
        return self._lane.peer_class

    @property
    def waiting_bytes(self) -> int:
        """Bytes received and not handled yet."""
        cut = self._next if self._next is not None else self._held_frame
        return self._reader.waiting_bytes + (0 if cut is None else len(cut) + LENGTH_BYTES)

    @property
    def is_busy(self) -> bool:
        """Whether a request of it is not handled or not answered, or a response is unsent."""
        return (
            self._in_flight > 0 or self._is_queued or self._held_frame is not None or self._slow is not None
        )

    def become(self, peer_class: PeerClass) -> None:
        """Move to another class: it is known now what the other end is."""
        old, new = self._lane, self._budgets.lanes[peer_class]
        self._slots.move(self, old.peer_class, peer_class)
        old.waiting_bytes -= self.waiting_bytes
        new.waiting_bytes += self.waiting_bytes
        self._lane = new
        if peer_class is PeerClass.VOTER:
            self.allow_frames(limits.FRAME_BYTES_MAX)
            if self._transport is not None:
                self._transport.set_write_buffer_limits(high=limits.WRITE_BUFFER_BYTES_HIGH)
        else:
            self.allow_frames(limits.HEAD_BYTES_MAX)

    def serve_in_order(self) -> None:
        """Serve no request from now on before the one before it was answered."""
        self._is_ordered = True

    def evict(self, reason: str) -> None:
        """Close it at once, and drop all that waits in it."""
        self._is_evicted = True
        self._uncount()
        self.abort(reason)

    def ended(self) -> None:
        """Subtract what waits here from the budgets."""
        self._uncount()

    def _uncount(self) -> None:
        """Drop all that waits here, and subtract it from the budgets."""
        lane = self._lane
        lane.waiting_bytes -= self.waiting_bytes
        self._next = None
        lane.end_long_responses(self._long_in_flight)
        self._budgets.unsent_bytes -= self.unsent_bytes
        self._reader = FrameReader(0)
        self._long_in_flight = self.unsent_bytes = 0
        self._held_frame = None

    # What comes in.

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        """Read into the buffer of the class."""
        return self._lane.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Take what was read. A read that is exactly one frame, the usual case, bypasses the frame reader."""
        lane, reader = self._lane, self._reader
        data = lane.buffer[:nbytes].tobytes()
        if self._next is None and not reader.waiting_bytes and self._held_frame is None:
            try:
                frame = reader.whole(data)
            except Exception as error:  # noqa: BLE001 - wire boundary (D-38)
                self.fail("cutting frames", error)
                return
            if frame is not None and self.is_open:
                self.quiet_sweeps = 0
                if lane.serves_at_once:
                    self._handle_at_once(frame)
                    return
                self._next = frame
                lane.waiting_bytes += nbytes
                if not self._is_queued:
                    self._is_queued = True
                    lane.add(self)
                return
        self.received(data)

    def received(self, data: bytes) -> None:
        """Take bytes: voters are served at once, all others once every socket of the turn has been read."""
        if not self.is_open:
            return
        lane, size = self._lane, len(data)
        self.quiet_sweeps = 0
        self._reader.push(data)
        lane.waiting_bytes += size
        if lane.serves_at_once:
            try:
                self._serve_at_once()
            except OSError as error:
                raise CallbackError(f"{type(error).__name__}: {error}") from error
            return
        if not self._is_queued and self._held_frame is None:
            self._queue()
        if size >= lane.next_read_bytes or self._reader.waiting_bytes > lane.read_bytes:
            self._hold_input()
        if lane.peer_class is PeerClass.STRANGER:
            self._unproved_bytes += size
            if self._unproved_bytes > limits.HANDSHAKE_BYTES_MAX:
                self.reject(f"more than {limits.HANDSHAKE_BYTES_MAX} bytes before the handshake")
        if lane.waiting_bytes > lane.waiting_bytes_max:
            self._budgets.make_room(lane)

    def serve(self) -> int:
        """Handle the next frame, or skip a round. Returns the work done, in bytes."""
        self._is_queued = False
        if not self._may_be_served():
            return limits.WORK_PER_VISIT
        if self._debt > 0:
            self._debt -= limits.WORK_PER_ROUND
            self._queue()
            return limits.WORK_PER_VISIT
        frame: Buffer | None
        if self._next is not None:
            frame, self._next = self._next, None
            self._lane.waiting_bytes -= len(frame) + LENGTH_BYTES
        elif self._held_frame is not None:
            if not self._may_have_long_response():
                self._wait_for_room()
                return limits.WORK_PER_VISIT
            frame, self._held_frame = self._held_frame, None
            self._lane.waiting_bytes -= len(frame) + LENGTH_BYTES
        else:
            frame = self._cut()
            if frame is None:
                self._release_input()
                return limits.WORK_PER_VISIT
        work = limits.WORK_PER_REQUEST + len(frame)
        if work > limits.WORK_PER_ROUND:
            self._debt += work - limits.WORK_PER_ROUND
        self.handle(frame)
        if self._reader.waiting_bytes or self._held_frame is not None or self._is_input_held:
            self._go_on()
        return work

    def _handle_at_once(self, frame: Buffer) -> None:
        try:
            self.handle(frame)
        except OSError as error:
            raise CallbackError(f"{type(error).__name__}: {error}") from error

    def _serve_at_once(self) -> None:
        if self._is_queued:
            return
        for _ in range(limits.VOTER_FRAMES_AT_ONCE):
            frame = self._cut()
            if frame is None:
                return
            self.handle(frame)
            if not self._may_be_served():
                break
        if self._reader.waiting_bytes:
            self._hold_input()
        self._go_on()

    def _go_on(self) -> None:
        """Queue again if there is more; read again if there is not."""
        if self._reader.waiting_bytes == 0 and self._held_frame is None and self._next is None:
            if self._is_input_held:
                self._release_input()
        elif not self._is_queued and self._may_be_served():
            self._queue()

    def _may_be_served(self) -> bool:
        """False if too much is unanswered or unsent: the event that ends this calls `_go_on`."""
        return (
            self.is_open
            and not self._is_held
            and not (self._is_ordered and self._in_flight)
            and self._slow is None
            and self._long_bytes <= limits.RESPONSE_BYTES_PER_TURN
        )

    def _queue(self) -> None:
        self._is_queued = True
        self._lane.add(self)

    def _hold_input(self) -> None:
        if not self._is_input_held:
            self._is_input_held = True
            self.hold_reading()

    def _release_input(self) -> None:
        if self._is_input_held:
            self._is_input_held = False
            self.release_reading()

    def _cut(self) -> Buffer | None:
        """The next frame; None if it is not complete, or if it is malformed, which closes the connection."""
        try:
            frame = self._reader.take()
        except Exception as error:  # noqa: BLE001 - wire boundary (D-38)
            self.fail("cutting frames", error)
            return None
        if frame is not None:
            self._lane.waiting_bytes -= len(frame) + LENGTH_BYTES
        return frame

    def must_hold_back(self, frame: Buffer) -> bool:
        """Keep a request undecoded if there is no room for its response now. A voter's never waits.

        Decoded it would take many times as much memory.

        Returns:
            Whether it is kept.

        Raises:
            MalformedError: The frame is no request.
        """
        if (
            self._lane.serves_at_once
            or self._may_have_long_response()
            or self.codec.peek_api_key(frame) not in self._long_response_keys
        ):
            return False
        self._held_frame = frame
        self._lane.waiting_bytes += len(frame) + LENGTH_BYTES
        self._wait_for_room()
        return True

    def dispatch(self, request: Request) -> None:
        """Count a request as unanswered, and give it to the handler."""
        if request.message.API_KEY in self._long_response_keys:
            self._long_in_flight += 1
            self._lane.long_responses += 1
        self._in_flight += 1
        self._answered_id = None
        if self._given_up:
            self._given_up.discard(request.correlation_id)
        self.has_asked = True
        if self._in_flight >= limits.REQUESTS_IN_FLIGHT_MAX and not self._is_held:
            self._is_held = True
            self.hold_reading()
        # The end of the wire boundary. What a handler raises that only reads or decides costs its request
        # (D-14); what leaves the router ends the process (D-17).
        self._handler.request_received(self, request)

    def _wait_for_room(self) -> None:
        """Wait for room: for the last long response here, which calls `_go_on`, or of other connections."""
        if not self._long_in_flight:
            self._is_queued = True
            self._lane.add_for_long_response(self)

    def _may_have_long_response(self) -> bool:
        return not self._long_in_flight and self._lane.long_responses < limits.LONG_RESPONSES_MAX

    # What goes out.

    def reply(
        self, api_version: int, correlation_id: int, message: Any, records: Sequence[Buffer] = ()
    ) -> None:
        """Answer one request; does nothing if the connection is closed."""
        if self._given_up and correlation_id in self._given_up:
            self._given_up.remove(correlation_id)
            return
        self._in_flight -= 1
        self._answered_id = correlation_id
        if not self.is_open:
            return
        self.send_response(api_version, correlation_id, message, records)
        if self._long_in_flight or self._is_held or self._is_ordered:
            self._go_on_after(message)

    def give_up(self, api_version: int, correlation_id: int, response: Any) -> None:
        """Answer a request whose handler raised, unless it has been answered; None ends the connection."""
        if self._answered_id == correlation_id:
            return
        if response is None:
            self.abort("a request that could not be answered")
            return
        self.reply(api_version, correlation_id, response)
        self._given_up.add(correlation_id)

    def _go_on_after(self, response: Any) -> None:
        """Serve what waited for this response."""
        if self._long_in_flight and response.API_KEY in self._long_response_keys:
            self._long_in_flight -= 1
            self._lane.end_long_responses(1)
            self._go_on()
        if self._is_held and self._in_flight <= limits.REQUESTS_IN_FLIGHT_MAX // 2:
            self._is_held = False
            self.release_reading()
            self._go_on()
        elif self._is_ordered:
            self._go_on()

    def send_response(
        self, api_version: int, correlation_id: int, message: Any, records: Sequence[Buffer] = ()
    ) -> None:
        """Encode and write a response. One that cannot be encoded closes its connection only (D-38)."""
        try:
            frame = self.codec.encode_response(api_version, correlation_id, message, records)
        except UnencodableError as error:
            # The version of the request lacks a field that the response needs.
            self.limited_logger.warning(
                "unencodable_reply", key=message.NAME, address=self.address, reason=str(error)
            )
            self.tally.malformed += 1
            self.close(f"no response in version {api_version}")
        except Exception as error:  # noqa: BLE001 - wire boundary (D-38)
            self.fail("encoding a response", error)
        else:
            self.write_response(frame)

    def write_response(self, frame: Sequence[Buffer]) -> None:
        """Count a response, and write it at the end of this turn."""
        size = len(frame[0]) if len(frame) == 1 else sum(map(len, frame))
        if size > limits.WORK_PER_ROUND:
            self._long_bytes += size
            if self.peer_class is not PeerClass.VOTER:  # voters skip no rounds
                self._debt += size
        self.write(frame)

    def written(self) -> None:
        """Serve the connection again if its responses had been too much for one turn."""
        if self._slow is not None:
            self._count_unsent()
        if self._long_bytes:
            written, self._long_bytes = self._long_bytes, 0
            if written > limits.RESPONSE_BYTES_PER_TURN:
                self._go_on()

    def pause_writing(self) -> None:
        """Count what the other end does not read."""
        super().pause_writing()
        self._count_unsent()

    def resume_writing(self) -> None:
        """Serve the connection again, since the other end reads."""
        super().resume_writing()
        self._count_unsent()
        self._go_on()

    def _count_unsent(self) -> None:
        if self._is_evicted or self._transport is None or self.peer_class is PeerClass.VOTER:
            return
        size = self._transport.get_write_buffer_size()
        budgets = self._budgets
        budgets.unsent_bytes += size - self.unsent_bytes
        self.unsent_bytes = size
        if budgets.unsent_bytes > limits.UNSENT_BYTES_MAX:
            budgets.make_room_for_responses()
