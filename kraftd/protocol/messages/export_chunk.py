"""A piece of a file of an export. The bytes follow the response's body in the frame. Generated from
`proto/rpc/ExportChunk.json`.
"""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags


class ExportChunkRequest(Struct, frozen=True, gc=False):
    """A piece of a file of an export. The bytes follow the response's body in the frame. Asks for bytes
    of one file.
    """

    API_KEY: ClassVar[int] = 20004
    NAME: ClassVar[str] = "ExportChunkRequest"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    name: str = ""
    """The file, as in the manifest. (string)"""
    position: int = 0
    """Where to begin. (int64)"""
    max_bytes: int = 0
    """Bytes wanted at most. (int32)"""
    unknown_tags: UnknownTags = ()


class ExportChunkResponse(Struct, frozen=True, gc=False):
    """Which bytes these are."""

    API_KEY: ClassVar[int] = 20004
    NAME: ClassVar[str] = "ExportChunkResponse"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    error_code: int = 0
    """0, or what went wrong. (int16)"""
    error_message: str | None = None
    """What went wrong, for a person to read; null if nothing did. (string)"""
    name: str = ""
    """The file. (string)"""
    position: int = 0
    """Where these bytes begin. (int64)"""
    total_bytes: int = 0
    """How long the file is in all. (int64)"""
    unknown_tags: UnknownTags = ()
