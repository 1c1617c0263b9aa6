"""Committed batches of the metadata log, from any node, for readers that are no replicas. The batches
follow the response's body in the frame. Generated from `proto/rpc/FetchCommitted.json`.
"""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags


class FetchCommittedRequest(Struct, frozen=True, gc=False):
    """Committed batches of the metadata log, from any node, for readers that are no replicas. The
    batches follow the response's body in the frame. Asks for what is committed from an offset on; waits for
    it if there is nothing yet.
    """

    API_KEY: ClassVar[int] = 20012
    NAME: ClassVar[str] = "FetchCommittedRequest"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    offset: int = 0
    """Where to begin; the first batch is the one that holds it. (int64)"""
    max_wait_ms: int = 0
    """How long to wait for records at most. (int32)"""
    max_bytes: int = 0
    """Bytes wanted at most; one batch comes whatever its size. (int32)"""
    unknown_tags: UnknownTags = ()


class FetchCommittedResponse(Struct, frozen=True, gc=False):
    """What these batches are, and what else there is."""

    API_KEY: ClassVar[int] = 20012
    NAME: ClassVar[str] = "FetchCommittedResponse"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    error_code: int = 0
    """0, or what went wrong; OFFSET_OUT_OF_RANGE before the log's start. (int16)"""
    error_message: str | None = None
    """What went wrong, for a person to read; null if nothing did. (string)"""
    high_watermark: int = -1
    """Everything before it is committed, as far as this node knows; -1 while unknown. (int64)"""
    start_offset: int = 0
    """The first offset of this node's log; what was before is in its snapshots. (int64)"""
    unknown_tags: UnknownTags = ()
