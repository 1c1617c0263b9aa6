"""What a connection speaks, from its first bytes."""

import pytest

from kraftd.protocol.kafka_codec import KAFKA
from kraftd.protocol.messages import ApiVersionsRequest, VoteRequest
from kraftd.protocol.msgpack_codec import MSGPACK
from kraftd.protocol.opening import OPENING_BYTES, Protocol, protocol_of

OPENINGS = {
    "the first frame of a node": (b"".join(MSGPACK.encode_request(2, 1, "n", VoteRequest())), "MSGPACK"),
    "that of a broker": (b"".join(KAFKA.encode_request(4, 0, "1", ApiVersionsRequest())), "KAFKA"),
    "TLS": (bytes.fromhex("1603010200010001fc0303"), "TLS"),
    "the shortest TLS": (bytes.fromhex("1603030000"), "TLS"),
    "HTTP": (b"GET / HTTP/1.1\r\n", "HTTP"),
    "HTTP 2": (b"PRI * HTTP/2.0\r\n", "HTTP"),
    "an HTTP server": (b"HTTP/1.1 400 Bad Request\r\n", "HTTP"),
    "a TLS server": (bytes.fromhex("15030300020246"), "TLS"),
    "SSH": (b"SSH-2.0-OpenSSH\r\n", "UNKNOWN"),
    "an API key of our own on Kafka's wire": (b"\0\0\0\x10\x4e\x20\0\0", "UNKNOWN"),
    "a long msgpack array": (b"\0\0\0\x10\xdc\0\x05", "UNKNOWN"),
}


@pytest.mark.parametrize("name", OPENINGS)
def test_the_first_five_bytes_tell(name: str) -> None:
    opening, expected = OPENINGS[name]
    assert protocol_of(opening) is protocol_of(opening[:OPENING_BYTES]) is Protocol[expected]
    assert protocol_of(memoryview(opening)) is Protocol[expected]
