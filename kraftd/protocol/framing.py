"""Cuts a byte stream into frames, without reading a socket, and no faster than they are taken.

The byte after the first length chooses the codec of a connection for as long as it stands (`opening`). Nodes
speak msgpack to each other; a server takes Kafka's protocol too. TLS and HTTP are refused by name.
"""

import struct
from collections.abc import Mapping
from typing import Final

from kraftd.errors import MalformedError
from kraftd.protocol.codec import Buffer, Codec
from kraftd.protocol.msgpack_codec import MSGPACK
from kraftd.protocol.opening import LENGTH_BYTES, MSGPACK_ARRAYS, OPENING_BYTES, Protocol, protocol_of

_OPENING = struct.Struct(">IB")
_REFUSED_BY_NAME = (Protocol.TLS, Protocol.HTTP)
"""What is spoken nowhere, and what people may mean to speak."""

CODECS: Final[Mapping[int, Codec]] = dict.fromkeys(MSGPACK_ARRAYS, MSGPACK)
"""The codecs that nodes speak to each other, by the first byte of a frame."""


class FrameReader:
    """Give it what arrives, take whole frames.

    Frames are cut when they are taken: one read of 256 KiB may hold 23,000 of them, too many to handle
    before another connection is served. After an error the connection must be closed, since the beginning
    of the next frame cannot be found.
    """

    __slots__ = ("_at", "_codecs", "_data", "_partial", "_size", "codec", "limit_bytes", "waiting_bytes")

    def __init__(self, limit_bytes: int, codecs: Mapping[int, Codec] = CODECS) -> None:
        self.limit_bytes = limit_bytes
        self.codec: Codec | None = None
        """That of the first frame, and so of all."""
        self._codecs = codecs
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

    def whole(self, data: bytes) -> bytes | None:
        """The frame without its length that these bytes are, if they are just one, as most reads."""
        size = len(data) - LENGTH_BYTES
        if size > 0:
            length, kind = _OPENING.unpack_from(data)
            if length == size <= self.limit_bytes:
                codec = self._codecs.get(kind)
                if codec is not None and codec is (self.codec or codec):
                    self.codec = codec
                    return data[LENGTH_BYTES:]
        return None

    def take(self) -> Buffer | None:
        """The next frame without its length, if it is whole.

        Raises:
            MalformedError: It is empty, over the limit, or in no encoding that the connection can speak.
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
            whole = self.whole(data)
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
        codec = self._codecs.get(kind)
        if codec is None or not 0 < length <= self.limit_bytes:
            raise MalformedError(self._refusal(opening[at : at + OPENING_BYTES], length))
        if codec is not (self.codec or codec):
            raise MalformedError(
                f"a frame begins with byte 0x{kind:02x}: the first one chose another encoding"
            )
        self.codec = codec
        return length + LENGTH_BYTES

    def _refusal(self, opening: bytes | bytearray, length: int) -> str:
        """Why no frame begins with these five bytes. What a connection speaks is told by its first frame."""
        kind = opening[LENGTH_BYTES]
        protocol = protocol_of(opening)
        if self.codec is None and protocol in _REFUSED_BY_NAME:
            return f"this is {protocol.value}, which is not spoken here"
        if not 0 < length <= self.limit_bytes:
            return f"a frame of {length} bytes; 1 to {self.limit_bytes} are accepted"
        if protocol is Protocol.KAFKA:
            return f"this is {protocol.value}, which is not spoken here"
        return f"a frame begins with byte 0x{kind:02x}, which begins no request or response"
