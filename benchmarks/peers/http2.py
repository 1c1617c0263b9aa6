"""As much of HTTP/2 as one unary gRPC call after another on a connection needs (RFC 9113 and 7541).

Header blocks that are sent refer to HPACK's static table only, and the server is asked for no dynamic table,
so that the same answer is always the same bytes: nothing is decoded. Windows for what is sent are not kept: a
request is far below 64 KiB, and the server has opened its windows again by the time it answers.
"""

import struct
from typing import NamedTuple

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, ACK, END_HEADERS = 1, 1, 4
HEAD_BYTES = 9
WINDOW_BYTES = 1 << 30
"""How much the server may send before it is told that it may send more; more than a run receives."""
TABLE_SIZE, INITIAL_WINDOW = 1, 4
RESIZED = b"\x20"
"""Before the first header block of a server: its dynamic table has no room from now on."""


class Frame(NamedTuple):
    """A frame that came in; stream 0 is the connection itself."""

    kind: int
    flags: int
    stream: int
    payload: bytes


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """A whole frame."""
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def preface() -> bytes:
    """What a client sends first: no dynamic table, and windows that need no care."""
    settings = struct.pack(">HIHI", TABLE_SIZE, 0, INITIAL_WINDOW, WINDOW_BYTES)
    window = struct.pack(">I", WINDOW_BYTES)
    return (
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
        + frame(SETTINGS, 0, 0, settings)
        + frame(WINDOW_UPDATE, 0, 0, window)
    )


def header_block(path: str) -> bytes:
    """The headers of a gRPC call, as literals that enter no table."""
    method_post_scheme_http = bytes((0x83, 0x86))
    return method_post_scheme_http + b"".join(
        (
            bytes((4,)) + _text(path),  # 4: the name `:path` in the static table
            bytes((1,)) + _text("127.0.0.1"),  # 1: `:authority`
            bytes((15, 31 - 15)) + _text("application/grpc"),  # 31: `content-type`
            bytes((0,)) + _text("te") + _text("trailers"),
        )
    )


def call(stream: int, headers: bytes, body: bytes) -> bytes:
    """A request: its headers, and its body as the end of the stream."""
    return frame(HEADERS, END_HEADERS, stream, headers) + frame(DATA, END_STREAM, stream, body)


def frames(data: bytes) -> tuple[list[Frame], bytes]:
    """The whole frames, and what is left: the beginning of another."""
    found, at, size = [], 0, len(data)
    while size - at >= HEAD_BYTES:
        start = at + HEAD_BYTES
        end = start + int.from_bytes(data[at : at + 3], "big")
        if end > size:
            break
        kind, flags, stream = struct.unpack_from(">BBI", data, at + 3)
        found.append(Frame(kind, flags, stream & 0x7FFFFFFF, data[start:end]))
        at = end
    return found, data[at:]


def acknowledged(asked: Frame) -> bytes:
    """What a client has to answer to a frame of the connection; nothing to most."""
    if asked.kind == SETTINGS and not asked.flags & ACK:
        return frame(SETTINGS, ACK, 0, b"")
    if asked.kind == PING and not asked.flags & ACK:
        return frame(PING, ACK, 0, asked.payload)
    return b""


def _text(words: str) -> bytes:
    """A string of HPACK, not Huffman-coded; below 127 bytes its length is one byte."""
    raw = words.encode()
    assert len(raw) < 127
    return bytes((len(raw),)) + raw
