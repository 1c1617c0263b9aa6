"""A node asks a voter for its vote, or whether it would get it (pre-vote). Generated from
`proto/rpc/Vote.json`.
"""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags
from kraftd.types import ZERO_UUID, Uuid


class VoteRequestPartitionData(Struct, frozen=True, gc=False):
    """In `VoteRequestTopicData.partitions`. Exactly one."""

    partition_index: int = 0
    """Always 0: the metadata log has one partition. (int32)"""
    replica_epoch: int = 0
    """The epoch the vote is asked for; of a pre-vote, the sender's current one. (int32)"""
    replica_id: int = 0
    """Who asks. (int32)"""
    replica_directory_id: Uuid = ZERO_UUID
    """The asking node's metadata directory. (uuid, since version 1)"""
    voter_directory_id: Uuid = ZERO_UUID
    """The metadata directory that the receiver is believed to have. (uuid, since version 1)"""
    last_offset_epoch: int = 0
    """Epoch of the sender's last record. (int32)"""
    last_offset: int = 0
    """End offset of the sender's log; exclusive, whatever its name says. (int64)"""
    pre_vote: bool = False
    """Only asks whether the vote would be granted: nothing is promised or written. (bool, since version
    2)
    """
    unknown_tags: UnknownTags = ()


class VoteRequestTopicData(Struct, frozen=True, gc=False):
    """In `VoteRequest.topics`. Exactly one: the metadata topic."""

    topic_name: str = ""
    """Always `__cluster_metadata`. (string)"""
    partitions: tuple[VoteRequestPartitionData, ...] = ()
    """Exactly one. ([]VoteRequestPartitionData)"""
    unknown_tags: UnknownTags = ()


class VoteRequest(Struct, frozen=True, gc=False):
    """A node asks a voter for its vote, or whether it would get it (pre-vote). Asks for a vote in an
    epoch; granted only if the sender's log is as complete as the receiver's.
    """

    API_KEY: ClassVar[int] = 52
    NAME: ClassVar[str] = "VoteRequest"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2

    cluster_id: str | None = None
    """The sender's cluster; null skips the check. (string)"""
    voter_id: int = -1
    """Who the sender believes it is talking to; -1 skips the check. (int32, since version 1)"""
    topics: tuple[VoteRequestTopicData, ...] = ()
    """Exactly one: the metadata topic. ([]VoteRequestTopicData)"""
    unknown_tags: UnknownTags = ()


class VoteResponsePartitionData(Struct, frozen=True, gc=False):
    """In `VoteResponseTopicData.partitions`. Exactly one."""

    partition_index: int = 0
    """Always 0: the metadata log has one partition. (int32)"""
    error_code: int = 0
    """0, or why the vote was not considered. (int16)"""
    leader_id: int = 0
    """The leader, or -1 while it is unknown. (int32)"""
    leader_epoch: int = 0
    """The highest epoch the sender knows. (int32)"""
    vote_granted: bool = False
    """Whether the receiver votes for the sender. (bool)"""
    unknown_tags: UnknownTags = ()


class VoteResponseTopicData(Struct, frozen=True, gc=False):
    """In `VoteResponse.topics`. Exactly one: the metadata topic."""

    topic_name: str = ""
    """Always `__cluster_metadata`. (string)"""
    partitions: tuple[VoteResponsePartitionData, ...] = ()
    """Exactly one. ([]VoteResponsePartitionData)"""
    unknown_tags: UnknownTags = ()


class VoteResponseNodeEndpoint(Struct, frozen=True, gc=False):
    """In `VoteResponse.node_endpoints`. Where the leader listens, if it is known."""

    node_id: int = 0
    """Whose endpoint this is. (int32, since version 1)"""
    host: str = ""
    """Host name or address, resolved anew on each connect. (string, since version 1)"""
    port: int = 0
    """TCP port. (uint16, since version 1)"""
    unknown_tags: UnknownTags = ()


class VoteResponse(Struct, frozen=True, gc=False):
    """Whether the vote was granted, and what the voter knows of the leader."""

    API_KEY: ClassVar[int] = 52
    NAME: ClassVar[str] = "VoteResponse"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2

    error_code: int = 0
    """0, or what went wrong with the request as a whole. (int16)"""
    topics: tuple[VoteResponseTopicData, ...] = ()
    """Exactly one: the metadata topic. ([]VoteResponseTopicData)"""
    node_endpoints: tuple[VoteResponseNodeEndpoint, ...] = ()
    """Where the leader listens, if it is known. ([]VoteResponseNodeEndpoint, tag 0, since version 1)"""
    unknown_tags: UnknownTags = ()
