"""Cuts a byte stream into frames, without reading a socket, and no faster than they are taken.

The byte after a frame's length tells msgpack (an array of up to 15 elements, 0x9_) from Kafka's own
framing (0x00, the high byte of its API key), which is reserved: a Kafka client is refused with a clear
reason, not with noise.
"""

import struct
from typing import TypeAlias

from kraftd.errors import MalformedError

Buffer: TypeAlias = bytes | bytearray | memoryview

LENGTH_BYTES = 4
_OPENING = struct.Struct(">IB")


def whole_frame(data: bytes, limit_bytes: int) -> bytes | None:
    """The frame without its length that these bytes are, if they are just one, as most reads."""
    size = len(data) - LENGTH_BYTES
    if size > 0:
        length, kind = _OPENING.unpack_from(data)
        if length == size <= limit_bytes and kind & 0xF0 == 0x90:
            return data[LENGTH_BYTES:]
    return None


class FrameReader:
    """Give it what arrives, take whole frames.

    Frames are cut when they are taken: one read of 256 KiB may hold 23,000 of them, too many to handle
    before another connection is served. After an error the connection must be closed, since the beginning
    of the next frame cannot be found.
    """

    __slots__ = ("_at", "_data", "_partial", "_size", "limit_bytes", "waiting_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.waiting_bytes = 0
        """How much is kept here: frames that were not taken, and an unfinished one."""
        self._data: bytes = b""
        """What came in and was not looked at, from `_at` on."""
        self._at = 0
        self._partial = bytearray()
        """The beginning of a frame whose end is not in `_data`, or not looked for there yet."""
        self._size = 0
        """Of that frame with its length; 0 while that is unknown."""

    def push(self, data: bytes) -> None:
        """Take in bytes."""
        self._data = self._data[self._at :] + data if self._data else data
        self._at = 0
        self.waiting_bytes += len(data)

    def take(self) -> Buffer | None:
        """The next frame without its length, if it is whole.

        Raises:
            MalformedError: It is empty, over the limit, or not msgpack.
        """
        if self._partial:
            return self._take_partial()
        data, at = self._data, self._at
        left = len(data) - at
        if left > LENGTH_BYTES:
            size = self._checked_size(data, at)
            if left >= size:
                self.waiting_bytes -= size
                if left == size:
                    self._data = b""
                    self._at = 0
                else:
                    self._at = at + size
                return data[at + LENGTH_BYTES : at + size]
            self._size = size
        if left:
            self._partial += memoryview(data)[at:]
            self._data = b""
            self._at = 0
        return None

    def feed(self, data: bytes) -> list[Buffer]:
        """Take in bytes and give every frame that is now whole, each without its length.

        Raises:
            MalformedError: As for `take`.
        """
        if not self.waiting_bytes:
            whole = whole_frame(data, self.limit_bytes)
            if whole is not None:
                return [whole]
        self.push(data)
        frames: list[Buffer] = []
        while (frame := self.take()) is not None:
            frames.append(frame)
        return frames

    def _take_partial(self) -> Buffer | None:
        """Complete the unfinished frame as far as the bytes go."""
        partial = self._partial
        if not self._size:
            self._fill(LENGTH_BYTES + 1)
            if len(partial) <= LENGTH_BYTES:
                return None
            self._size = self._checked_size(partial, 0)
        self._fill(self._size)
        if len(partial) < self._size:
            return None
        self.waiting_bytes -= self._size
        self._partial = bytearray()
        self._size = 0
        return memoryview(partial)[LENGTH_BYTES:]

    def _fill(self, size: int) -> None:
        """Move bytes into the unfinished frame until it has `size` bytes or none are left."""
        data, at = self._data, self._at
        end = at + size - len(self._partial)
        self._partial += memoryview(data)[at:end]
        if end >= len(data):
            self._data = b""
            self._at = 0
        else:
            self._at = end

    def _checked_size(self, opening: bytes | bytearray, at: int) -> int:
        """The size of a frame with its length, from its first five bytes."""
        length = int.from_bytes(opening[at : at + LENGTH_BYTES], "big")
        kind = opening[at + LENGTH_BYTES]
        if length == 0 or length > self.limit_bytes:
            raise MalformedError(f"a frame of {length} bytes; 1 to {self.limit_bytes} are accepted")
        if kind == 0:
            raise MalformedError("this is Kafka's own framing, which this listener does not speak")
        if kind & 0xF0 != 0x90:
            raise MalformedError(f"a frame begins with byte 0x{kind:02x}, which is no msgpack array")
        return length + LENGTH_BYTES
