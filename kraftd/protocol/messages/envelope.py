"""A broker forwards the request of one of its clients to the active controller. Generated from
`proto/rpc/Envelope.json`.
"""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags, shown_without


class EnvelopeRequest(Struct, frozen=True, gc=False):
    """A broker forwards the request of one of its clients to the active controller. The client's
    request, and who the client is.
    """

    API_KEY: ClassVar[int] = 58
    NAME: ClassVar[str] = "EnvelopeRequest"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    request_data: bytes = b""
    """The client's request as a whole frame without its length, header included. (bytes)"""
    request_principal: bytes | None = b""
    """Who the client is, encoded as Kafka's DefaultPrincipalData; null if the broker cannot say. (bytes)"""
    client_host_address: bytes = b""
    """The client's address, 4 or 16 bytes. (bytes)"""
    unknown_tags: UnknownTags = ()

    def __repr__(self) -> str:
        return shown_without(self, "request_data")


class EnvelopeResponse(Struct, frozen=True, gc=False):
    """The response to the client's request, or why the envelope could not be served."""

    API_KEY: ClassVar[int] = 58
    NAME: ClassVar[str] = "EnvelopeResponse"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    response_data: bytes | None = None
    """The response as a whole frame without its length, in the versions of the client's request; null if
    there is none. (bytes)
    """
    error_code: int = 0
    """0, or why the envelope was not served. (int16)"""
    unknown_tags: UnknownTags = ()
