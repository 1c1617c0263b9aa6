"""Variable-length integers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftd.errors import MalformedError
from kraftd.serde.varint import encode_uvarint, encode_zigzag, read_uvarint, read_zigzag, read_zigzag_long


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "00"), (1, "01"), (127, "7f"), (128, "8001"), (300, "ac02"), (16383, "ff7f"), (16384, "808001"),
     (2**31, "8080808008"), (2**32 - 1, "ffffffff0f")],
)  # fmt: skip
def test_unsigned(value: int, text: str) -> None:
    assert encode_uvarint(value).hex() == text
    assert read_uvarint(b"!" + bytes.fromhex(text) + b"!", 1) == (value, 1 + len(text) // 2)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (-64, "7f"),
        (64, "8001"),
        (2**31 - 1, "feffffff0f"),
        (-(2**31), "ffffffff0f"),
    ],
)
def test_zigzag(value: int, text: str) -> None:
    assert encode_zigzag(value).hex() == text
    assert read_zigzag(bytes.fromhex(text), 0) == (value, len(text) // 2)


@given(st.integers(-(2**63), 2**63 - 1))
def test_long_is_its_own_inverse(value: int) -> None:
    raw = encode_zigzag(value)
    assert read_zigzag_long(raw, 0) == (value, len(raw))


@pytest.mark.parametrize("raw", [b"", b"\x80", b"\xff\xff", b"\xff\xff\xff\xff"])
def test_cut_short(raw: bytes) -> None:
    for read in (read_uvarint, read_zigzag, read_zigzag_long):
        with pytest.raises(MalformedError, match="end inside a varint"):
            read(raw, 0)


@pytest.mark.parametrize("raw", [b"\xff\xff\xff\xff\x10", b"\x80\x80\x80\x80\x80\x01", b"\xff" * 20])
def test_more_than_32_bits(raw: bytes) -> None:
    for read in (read_uvarint, read_zigzag):
        with pytest.raises(MalformedError, match="more than 32 bits"):
            read(raw, 0)


@pytest.mark.parametrize("raw", [b"\xff" * 9 + b"\x02", b"\x80" * 10 + b"\x01", b"\x80" * 1000])
def test_more_than_64_bits(raw: bytes) -> None:
    with pytest.raises(MalformedError, match="more than 64 bits"):
        read_zigzag_long(raw, 0)


@pytest.mark.parametrize("raw", [b"\x80\x00", b"\xff\x80\x00", b"\x80\x80\x80\x00"])
def test_one_number_has_one_encoding(raw: bytes) -> None:
    """So that what was read encodes to the same bytes."""
    for read in (read_uvarint, read_zigzag, read_zigzag_long):
        with pytest.raises(MalformedError, match="longer than its value needs"):
            read(raw, 0)
