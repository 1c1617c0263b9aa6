"""What a consistent copy of a node's metadata log consists of. Generated from
`proto/rpc/ExportManifest.json`.
"""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags


class ExportManifestRequest(Struct, frozen=True, gc=False):
    """What a consistent copy of a node's metadata log consists of. Asks for the list of files."""

    API_KEY: ClassVar[int] = 20003
    NAME: ClassVar[str] = "ExportManifestRequest"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    unknown_tags: UnknownTags = ()


class ExportManifestResponseFile(Struct, frozen=True, gc=False):
    """In `ExportManifestResponse.files`. Every file of the export."""

    name: str = ""
    """Path below the node's metadata directory. (string)"""
    size_bytes: int = 0
    """How many bytes of it belong to the export. (int64)"""
    kind: str = ""
    """meta, bootstrap, partition, epochs, snapshot, segment or election. (string)"""
    unknown_tags: UnknownTags = ()


class ExportManifestResponse(Struct, frozen=True, gc=False):
    """The files and the position they stand for."""

    API_KEY: ClassVar[int] = 20003
    NAME: ClassVar[str] = "ExportManifestResponse"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    error_code: int = 0
    """0, or what went wrong. (int16)"""
    error_message: str | None = None
    """What went wrong, for a person to read; null if nothing did. (string)"""
    epoch: int = 0
    """The node's epoch. (int32)"""
    leader_id: int = -1
    """Whom it follows, or -1. (int32)"""
    high_watermark: int = -1
    """Everything before it is committed; -1 while unknown. (int64)"""
    start_offset: int = 0
    """First offset of the export. (int64)"""
    end_offset: int = 0
    """Where the export ends: later bytes of the files do not belong to it. (int64)"""
    files: tuple[ExportManifestResponseFile, ...] = ()
    """Every file of the export. ([]ExportManifestResponseFile)"""
    unknown_tags: UnknownTags = ()
