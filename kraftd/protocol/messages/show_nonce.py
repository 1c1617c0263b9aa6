"""Confirms that the voter of the greeting opened this connection: only who listens at that voter's
configured address was told the nonce. Generated from `proto/rpc/ShowNonce.json`.
"""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags
from kraftd.types import ZERO_UUID, Uuid


class ShowNonceRequest(Struct, frozen=True, gc=False):
    """Confirms that the voter of the greeting opened this connection: only who listens at that voter's
    configured address was told the nonce. A nonce that the receiver gave on a connection of its own, and
    which start of the sender this is.
    """

    API_KEY: ClassVar[int] = 20007
    NAME: ClassVar[str] = "ShowNonceRequest"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    nonce: Uuid = ZERO_UUID
    """As it stood in the receiver's greeting. (uuid)"""
    start_counter: int = 0
    """How many times the sender's directory was started; never falls. (int64)"""
    start_id: Uuid = ZERO_UUID
    """Drawn at the sender's start: tells a restored backup from the original. (uuid)"""
    unknown_tags: UnknownTags = ()


class ShowNonceResponse(Struct, frozen=True, gc=False):
    """Whether the nonce is one that the answering node gave to that voter, and if so, which start of the
    answering node this is.
    """

    API_KEY: ClassVar[int] = 20007
    NAME: ClassVar[str] = "ShowNonceResponse"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    error_code: int = 0
    """0, or INVALID_VOTER_KEY: it gave no such nonce to that voter, or its connection has ended since.
    (int16)
    """
    start_counter: int = 0
    """How many times the answering node's directory was started; 0 with an error. (int64)"""
    start_id: Uuid = ZERO_UUID
    """Drawn at its start; zero with an error. (uuid)"""
    unknown_tags: UnknownTags = ()
