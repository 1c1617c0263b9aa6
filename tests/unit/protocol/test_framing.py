"""Frames out of a byte stream, however it is cut."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftd.errors import MalformedError
from kraftd.protocol.framing import FrameReader
from kraftd.protocol.messages import VoteRequest
from kraftd.protocol.msgpack_codec import MSGPACK, MsgpackCodec

payloads = st.lists(st.binary(max_size=40).map(lambda tail: b"\x95" + tail), max_size=6)


def framed(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload


@given(payloads, st.lists(st.integers(0, 300), max_size=12))
def test_any_cut_gives_the_same_frames(frames: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(map(framed, frames))
    places = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    reader = FrameReader(100)
    out = [
        bytes(frame)
        for start, end in pairwise(places)
        for frame in reader.feed(memoryview(stream)[start:end])
    ]
    assert out == frames


@given(payloads)
def test_byte_by_byte(frames: list[bytes]) -> None:
    reader = FrameReader(100)
    stream = b"".join(map(framed, frames))
    assert [bytes(f) for byte in stream for f in reader.feed(bytes((byte,)))] == frames


def test_frames_do_not_share_memory_with_what_was_fed() -> None:
    """The caller may reuse its receive buffer at once."""
    buffer = bytearray(framed(b"\x95one") + framed(b"\x95two")[:6])
    reader = FrameReader(100)
    frames = reader.feed(buffer)
    buffer[:] = bytes(len(buffer))
    frames += reader.feed(framed(b"\x95two")[6:])
    reader.feed(framed(b"\x95three")[:5])
    assert [bytes(frame) for frame in frames] == [b"\x95one", b"\x95two"]


@pytest.mark.parametrize("pieces", [1, 3])
@pytest.mark.parametrize(
    ("opening", "reason"),
    [
        (b"\0\0\0\0\x95", "a frame of 0 bytes"),
        (b"\0\0\0\x65\x95", "a frame of 101 bytes; 1 to 100"),
        (b"\xff\xff\xff\xff\x95", "a frame of 4294967295 bytes"),
        (b"\0\0\0\x20\0\x12\0\3", "this is Kafka's protocol"),
        (b"\x16\3\1\2\0\1\0\1\xfc\3\3", "this is TLS, which is not spoken here"),
        (b"\0\0\0\x20\xc0", "byte 0xc0"),
        (b"GET / HTTP/1.1\r\n", "this is HTTP, which is not spoken here"),
        (b"\0\0\0\x20\x85", "byte 0x85"),
    ],
)
def test_what_is_no_frame_is_refused(opening: bytes, reason: str, pieces: int) -> None:
    reader = FrameReader(100)
    with pytest.raises(MalformedError, match=reason):
        for start in range(0, len(opening), pieces):
            reader.feed(opening[start : start + pieces])


def test_whole_frames_before_a_bad_one_are_lost_with_the_connection() -> None:
    with pytest.raises(MalformedError):
        FrameReader(100).feed(framed(b"\x95good") + framed(b"\0bad"))


def test_the_limit_can_rise_after_the_handshake() -> None:
    reader = FrameReader(10)
    assert [bytes(f) for f in reader.feed(framed(b"\x95small"))] == [b"\x95small"]
    with pytest.raises(MalformedError, match="a frame of 501 bytes"):
        FrameReader(10).feed(framed(b"\x95" + bytes(500)))
    reader.limit_bytes = 1000
    assert [bytes(f) for f in reader.feed(framed(b"\x95" + bytes(500)))] == [b"\x95" + bytes(500)]


def test_a_large_frame_in_small_pieces_takes_time_in_proportion() -> None:
    payload = b"\x95" + bytes(8 << 20)
    stream = framed(payload)
    reader = FrameReader(9 << 20)
    frames = []
    for start in range(0, len(stream), 65536):
        frames += reader.feed(stream[start : start + 65536])
    assert [len(frame) for frame in frames] == [len(payload)]


@pytest.mark.parametrize("cut", [0, 3, 7, 30])
def test_frames_go_into_the_decoder_as_they_are(cut: int) -> None:
    stream = b"".join(MSGPACK.encode_request(2, 7, "c", VoteRequest(cluster_id="x" * 20), [b"records"]))
    reader = FrameReader(1000)
    (frame,) = reader.feed(stream[:cut]) + reader.feed(stream[cut:])
    request = MSGPACK.decode_request(frame)
    assert (request.message.cluster_id, bytes(request.records)) == ("x" * 20, b"records")


def test_the_first_frame_chooses_the_codec_of_a_connection() -> None:
    """A peer that began in one encoding cannot go on in another."""
    other = MsgpackCodec()
    codecs = {0x95: MSGPACK, 0x92: MSGPACK, 0x00: other}
    for first, chosen, another in ((b"\x95", MSGPACK, b"\x00"), (b"\x00", other, b"\x92")):
        reader = FrameReader(100, codecs)
        assert reader.codec is None
        assert reader.feed(framed(first + b"one")) == [first + b"one"]
        assert reader.codec is chosen
        assert reader.whole(framed(another + b"two")) is None
        with pytest.raises(MalformedError, match="the first one chose another encoding"):
            reader.feed(framed(another + b"two"))


def test_frames_that_begin_otherwise_keep_the_codec() -> None:
    reader = FrameReader(100)
    assert reader.feed(framed(b"\x95one") + framed(b"\x92two")) == [b"\x95one", b"\x92two"]
    assert reader.codec is MSGPACK
