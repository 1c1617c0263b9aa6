"""A voter tells the leader where it listens and which versions it supports. Generated from
`proto/rpc/UpdateRaftVoter.json`.
"""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags
from kraftd.types import ZERO_UUID, Uuid


class UpdateRaftVoterRequestListener(Struct, frozen=True, gc=False):
    """In `UpdateRaftVoterRequest.listeners`. Where it listens."""

    name: str = ""
    """Name of the listener. (string)"""
    host: str = ""
    """Host name or address. (string)"""
    port: int = 0
    """TCP port. (uint16)"""
    unknown_tags: UnknownTags = ()


class UpdateRaftVoterRequestKRaftVersionFeature(Struct, frozen=True, gc=False):
    """In `UpdateRaftVoterRequest.kraft_version_feature`. The levels of `kraft.version` that the voter
    supports.
    """

    min_supported_version: int = 0
    """Lowest level supported. (int16)"""
    max_supported_version: int = 0
    """Highest level supported. (int16)"""
    unknown_tags: UnknownTags = ()


class UpdateRaftVoterRequest(Struct, frozen=True, gc=False):
    """A voter tells the leader where it listens and which versions it supports. What is to be known of
    the voter.
    """

    API_KEY: ClassVar[int] = 82
    NAME: ClassVar[str] = "UpdateRaftVoterRequest"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    cluster_id: str | None = ""
    """The cluster's id; null skips the check. (string)"""
    current_leader_epoch: int = 0
    """The sender's epoch. (int32)"""
    voter_id: int = 0
    """Which node. (int32)"""
    voter_directory_id: Uuid = ZERO_UUID
    """The node's metadata directory. (uuid)"""
    listeners: tuple[UpdateRaftVoterRequestListener, ...] = ()
    """Where it listens. ([]UpdateRaftVoterRequestListener)"""
    kraft_version_feature: UpdateRaftVoterRequestKRaftVersionFeature = (
        UpdateRaftVoterRequestKRaftVersionFeature()
    )
    """The levels of `kraft.version` that the voter supports. (UpdateRaftVoterRequestKRaftVersionFeature)"""
    unknown_tags: UnknownTags = ()


class UpdateRaftVoterResponseCurrentLeader(Struct, frozen=True, gc=False):
    """In `UpdateRaftVoterResponse.current_leader`. Who leads, as far as the answering node knows."""

    leader_id: int = -1
    """The broker that leads, or -1. (int32)"""
    leader_epoch: int = -1
    """The epoch, or -1 while it is unknown. (int32)"""
    host: str = ""
    """Host name or address. (string)"""
    port: int = 0
    """TCP port. (int32)"""
    unknown_tags: UnknownTags = ()


class UpdateRaftVoterResponse(Struct, frozen=True, gc=False):
    """Whether it was written down."""

    API_KEY: ClassVar[int] = 82
    NAME: ClassVar[str] = "UpdateRaftVoterResponse"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    throttle_time_ms: int = 0
    """How long the response was held back because of a quota. (int32)"""
    error_code: int = 0
    """0, or what went wrong with the request as a whole. (int16)"""
    current_leader: UpdateRaftVoterResponseCurrentLeader = UpdateRaftVoterResponseCurrentLeader()
    """Who leads, as far as the answering node knows. (UpdateRaftVoterResponseCurrentLeader, tag 0)"""
    unknown_tags: UnknownTags = ()
