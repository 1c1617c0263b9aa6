"""Who a forwarded request is from."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftd.errors import MalformedError, UnencodableError
from kraftd.protocol.principal import Principal, decode_principal
from tests.principals import encode_principal

ALICE = "0000 05 55736572 06 616c696365 01 00"


def test_a_principal_on_the_wire() -> None:
    assert encode_principal(Principal("User", "alice", token_authenticated=True)) == bytes.fromhex(ALICE)
    assert decode_principal(bytes.fromhex(ALICE)) == Principal("User", "alice", token_authenticated=True)


@given(st.builds(Principal, st.text(max_size=200), st.text(max_size=200), st.booleans()))
def test_every_principal(principal: Principal) -> None:
    assert decode_principal(encode_principal(principal)) == principal


def test_unknown_tags_are_skipped() -> None:
    tagged = bytes.fromhex(ALICE)[:-1] + bytes.fromhex("01 07 01 ff")
    assert decode_principal(tagged) == decode_principal(bytes.fromhex(ALICE))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "bytes end"),
        ("0001 05 55736572 06 616c696365 01 00", "version 1 is not known"),
        ("ffff", "version -1 is not known"),
        ("0000 00", "null where bytes"),
        ("0000 ff", "bytes end inside a varint"),
        ("0000 ff 7f", "bytes of 16382 bytes, but"),
        ("0000 81 80 02" + "78" * 32_768, "a string of 32768 bytes is longer than"),
        (ALICE + "00", "byte 15: 1 bytes follow it"),
    ],
)
def test_what_is_none_is_refused(text: str, reason: str) -> None:
    with pytest.raises(MalformedError, match=f"principal: .*{reason}"):
        decode_principal(bytes.fromhex(text))


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("fffe", 2),
        ("c3", 1),
        ("e28278", (1, "x")),
        ("eda080", 1),
        ("eda078", (1, "x")),
        ("edbf", 1),
        ("f09f98", 1),
        ("f4908080", 4),
    ],
)
def test_what_is_no_utf_8_is_read_as_java_does(name: str, read: int | tuple[int, str]) -> None:
    """A broker's own Java may have made the name of such bytes, and ACLs are told the same."""
    count, rest = read if isinstance(read, tuple) else (read, "")
    size = len(name) // 2 + 1
    found = decode_principal(bytes.fromhex(f"0000 05 55736572 {size:02x} {name} 00 00"))
    assert found == Principal("User", "\ufffd" * count + rest)


@given(st.binary(max_size=40))
def test_any_bytes(data: bytes) -> None:
    try:
        found = decode_principal(b"\0\0" + data)
    except MalformedError:
        return
    assert decode_principal(encode_principal(found)) == found


def test_a_name_that_is_too_long() -> None:
    with pytest.raises(UnencodableError, match="principal"):
        encode_principal(Principal("User", "x" * 40_000))
