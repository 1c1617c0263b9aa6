"""Cuts a byte stream into frames, without reading a socket.

The byte after a frame's length tells msgpack (an array of up to 15 elements, 0x9_) from Kafka's own
framing (0x00, the high byte of its API key), which is reserved: a Kafka client is refused with a clear
reason, not with noise.
"""

from typing import TypeAlias

from kraftd.errors import MalformedError

Buffer: TypeAlias = bytes | bytearray | memoryview

_LENGTH_BYTES = 4


class FrameReader:
    """Feed it what arrives, take whole frames. Keeps at most one unfinished frame.

    After it raised, its connection is done for: there is no way to find the next frame.
    """

    __slots__ = ("_partial", "_size", "limit_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self._partial = bytearray()
        self._size = 0
        """Of the unfinished frame with its length; 0 while that is unknown."""

    def feed(self, data: Buffer) -> list[Buffer]:
        """Take in bytes and give every frame that is now whole, each without its length.

        Raises:
            MalformedError: A frame is empty, over the limit, or not msgpack.
        """
        size = len(data)
        if (
            not self._partial
            and size > _LENGTH_BYTES
            and int.from_bytes(data[:_LENGTH_BYTES], "big") == size - _LENGTH_BYTES <= self.limit_bytes
            and data[_LENGTH_BYTES] & 0xF0 == 0x90
        ):
            # One whole frame, which is what nearly every read of a socket gives.
            return [bytes(data[_LENGTH_BYTES:])]
        frames: list[Buffer] = []
        view = memoryview(data)
        at = 0
        end = len(view)
        while at < end:
            if self._partial:
                at = self._fill(view, at, frames)
                continue
            if end - at <= _LENGTH_BYTES:
                self._partial += view[at:]
                break
            size = self._checked_size(view[at : at + _LENGTH_BYTES + 1])
            if end - at < size:
                self._partial += view[at:]
                self._size = size
                break
            frames.append(bytes(view[at + _LENGTH_BYTES : at + size]))
            at += size
        return frames

    def _fill(self, view: memoryview, at: int, frames: list[Buffer]) -> int:
        """Complete the unfinished frame as far as the bytes go."""
        partial = self._partial
        if not self._size:
            taken = view[at : at + _LENGTH_BYTES + 1 - len(partial)]
            partial += taken
            at += len(taken)
            if len(partial) <= _LENGTH_BYTES:
                return at
            self._size = self._checked_size(partial)
        taken = view[at : at + self._size - len(partial)]
        partial += taken
        if len(partial) == self._size:
            frames.append(memoryview(partial)[_LENGTH_BYTES:])
            self._partial = bytearray()
            self._size = 0
        return at + len(taken)

    def _checked_size(self, opening: Buffer) -> int:
        """The size of a frame with its length, from its first five bytes."""
        length = int.from_bytes(opening[:_LENGTH_BYTES], "big")
        kind = opening[_LENGTH_BYTES]
        if length == 0 or length > self.limit_bytes:
            raise MalformedError(f"a frame of {length} bytes; 1 to {self.limit_bytes} are accepted")
        if kind == 0:
            raise MalformedError("this is Kafka's own framing, which this listener does not speak")
        if kind & 0xF0 != 0x90:
            raise MalformedError(f"a frame begins with byte 0x{kind:02x}, which is no msgpack array")
        return length + _LENGTH_BYTES
