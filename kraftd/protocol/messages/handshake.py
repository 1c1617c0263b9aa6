"""The first exchange on every connection: both ends say who they are before anything else is dispatched.
Generated from `proto/rpc/Handshake.json`.
"""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags
from kraftd.types import ZERO_UUID, Uuid


class HandshakeRequestSupportedApi(Struct, frozen=True, gc=False):
    """In `HandshakeRequest.api_keys`. Every API that the sender answers."""

    api_key: int = 0
    """The API's number. (int16)"""
    min_version: int = 0
    """Lowest version spoken. (int16)"""
    max_version: int = 0
    """Highest version spoken. (int16)"""
    unknown_tags: UnknownTags = ()


class HandshakeRequest(Struct, frozen=True, gc=False):
    """The first exchange on every connection: both ends say who they are before anything else is
    dispatched. Who connects, or claims to. A client or tool has node id -1 and no directory.
    """

    API_KEY: ClassVar[int] = 20000
    NAME: ClassVar[str] = "HandshakeRequest"
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 1

    cluster_id: str | None = None
    """The sender's cluster; null if it does not know (a tool). (string)"""
    node_id: int = -1
    """The node's id; -1 for a client or tool. (int32)"""
    directory_id: Uuid = ZERO_UUID
    """The node's metadata directory. (uuid)"""
    nonce: Uuid = ZERO_UUID
    """16 random bytes of this connection, for the voter that listens here: it shows them on the
    connection that it opens itself. Zero from clients and observers. (uuid)
    """
    challenge: bool = False
    """This connection only brings the nonce: its opener claims nothing and sends no requests on it.
    (bool)
    """
    software: str = ""
    """Name and version of the program. (string)"""
    api_keys: tuple[HandshakeRequestSupportedApi, ...] = ()
    """Every API that the sender answers. ([]HandshakeRequestSupportedApi)"""
    unknown_tags: UnknownTags = ()


class HandshakeResponseSupportedApi(Struct, frozen=True, gc=False):
    """In `HandshakeResponse.api_keys`. Every API that the sender answers."""

    api_key: int = 0
    """The API's number. (int16)"""
    min_version: int = 0
    """Lowest version spoken. (int16)"""
    max_version: int = 0
    """Highest version spoken. (int16)"""
    unknown_tags: UnknownTags = ()


class HandshakeResponse(Struct, frozen=True, gc=False):
    """Who was reached, or one clear reason why the connection is refused."""

    API_KEY: ClassVar[int] = 20000
    NAME: ClassVar[str] = "HandshakeResponse"
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 1

    error_code: int = 0
    """0, or what went wrong. (int16)"""
    error_message: str | None = None
    """What went wrong, for a person to read; null if nothing did. (string)"""
    cluster_id: str = ""
    """The answering node's cluster. (string)"""
    node_id: int = -1
    """Its id. (int32)"""
    directory_id: Uuid = ZERO_UUID
    """Its metadata directory. (uuid)"""
    must_show: bool = False
    """Whether requests of this connection wait until it has shown a nonce of the answering node
    (ShowNonce). (bool)
    """
    software: str = ""
    """Name and version of its program. (string)"""
    api_keys: tuple[HandshakeResponseSupportedApi, ...] = ()
    """Every API that the sender answers. ([]HandshakeResponseSupportedApi)"""
    unknown_tags: UnknownTags = ()
