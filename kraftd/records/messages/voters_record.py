"""The set of voters from this offset on, with their directories and endpoints. Generated from
`proto/control/VotersRecord.json`.
"""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags
from kraftd.types import ZERO_UUID, Uuid


class VotersRecordEndpoint(Struct, frozen=True, gc=False):
    """In `VotersRecordVoter.endpoints`. Where it listens, by listener."""

    name: str = ""
    """Name of the listener. (string)"""
    host: str = ""
    """Host name or address, resolved anew on each connect. (string)"""
    port: int = 0
    """TCP port. (uint16)"""
    unknown_tags: UnknownTags = ()


class VotersRecordKRaftVersionFeature(Struct, frozen=True, gc=False):
    """In `VotersRecordVoter.kraft_version_feature`. Levels of the quorum protocol that it supports."""

    min_supported_version: int = 0
    """Lowest level supported. (int16)"""
    max_supported_version: int = 0
    """Highest level supported. (int16)"""
    unknown_tags: UnknownTags = ()


class VotersRecordVoter(Struct, frozen=True, gc=False):
    """In `VotersRecord.voters`. Every voter."""

    voter_id: int = 0
    """Its id. (int32)"""
    voter_directory_id: Uuid = ZERO_UUID
    """Its metadata directory. (uuid)"""
    endpoints: tuple[VotersRecordEndpoint, ...] = ()
    """Where it listens, by listener. ([]VotersRecordEndpoint)"""
    kraft_version_feature: VotersRecordKRaftVersionFeature = VotersRecordKRaftVersionFeature()
    """Levels of the quorum protocol that it supports. (VotersRecordKRaftVersionFeature)"""
    unknown_tags: UnknownTags = ()


class VotersRecord(Struct, frozen=True, gc=False):
    """The set of voters from this offset on, with their directories and endpoints."""

    CONTROL_TYPE: ClassVar[int] = 6
    NAME: ClassVar[str] = "VotersRecord"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    version: int = 0
    """The version of this body, once more; readers go by the record's own. (int16)"""
    voters: tuple[VotersRecordVoter, ...] = ()
    """Every voter. ([]VotersRecordVoter)"""
    unknown_tags: UnknownTags = ()
