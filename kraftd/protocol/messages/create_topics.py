"""Makes topics, with counts or with replicas placed by hand. Generated from
`proto/rpc/CreateTopics.json`.
"""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags
from kraftd.types import ZERO_UUID, Uuid


class CreateTopicsRequestCreatableReplicaAssignment(Struct, frozen=True, gc=False):
    """In `CreateTopicsRequestCreatableTopic.assignments`. The replicas placed by hand; empty if the
    controller shall place them.
    """

    partition_index: int = 0
    """The partition's number. (int32)"""
    broker_ids: tuple[int, ...] = ()
    """The brokers of its replicas; the first is the preferred leader. ([]int32)"""
    unknown_tags: UnknownTags = ()


class CreateTopicsRequestCreatableTopicConfig(Struct, frozen=True, gc=False):
    """In `CreateTopicsRequestCreatableTopic.configs`. The configs that are set."""

    name: str = ""
    """Name of the config. (string)"""
    value: str | None = ""
    """The value; null for none. (string)"""
    unknown_tags: UnknownTags = ()


class CreateTopicsRequestCreatableTopic(Struct, frozen=True, gc=False):
    """In `CreateTopicsRequest.topics`. One entry a topic."""

    name: str = ""
    """The topic's name. (string)"""
    num_partitions: int = 0
    """How many partitions; -1 for the default, or if replicas are placed by hand. (int32)"""
    replication_factor: int = 0
    """How many replicas each partition has; -1 for the default, or if they are placed by hand. (int16)"""
    assignments: tuple[CreateTopicsRequestCreatableReplicaAssignment, ...] = ()
    """The replicas placed by hand; empty if the controller shall place them.
    ([]CreateTopicsRequestCreatableReplicaAssignment)
    """
    configs: tuple[CreateTopicsRequestCreatableTopicConfig, ...] = ()
    """The configs that are set. ([]CreateTopicsRequestCreatableTopicConfig)"""
    unknown_tags: UnknownTags = ()


class CreateTopicsRequest(Struct, frozen=True, gc=False):
    """Makes topics, with counts or with replicas placed by hand. The topics wanted; each is made as a
    whole or not at all.
    """

    API_KEY: ClassVar[int] = 19
    NAME: ClassVar[str] = "CreateTopicsRequest"
    MIN_VERSION: ClassVar[int] = 2
    MAX_VERSION: ClassVar[int] = 7

    topics: tuple[CreateTopicsRequestCreatableTopic, ...] = ()
    """One entry a topic. ([]CreateTopicsRequestCreatableTopic)"""
    timeout_ms: int = 60000
    """How long the request may take. (int32)"""
    validate_only: bool = False
    """Check everything, change nothing. (bool)"""
    unknown_tags: UnknownTags = ()


class CreateTopicsResponseCreatableTopicConfigs(Struct, frozen=True, gc=False):
    """In `CreateTopicsResponseCreatableTopicResult.configs`. The configs in force; null if they must not
    be told.
    """

    name: str = ""
    """Name of the config. (string, since version 5)"""
    value: str | None = ""
    """The value; null for none. (string, since version 5)"""
    read_only: bool = False
    """Whether it can only be changed with a restart. (bool, since version 5)"""
    config_source: int = -1
    """Where the value comes from, in Kafka's numbers. (int8, since version 5)"""
    is_sensitive: bool = False
    """Whether the value is a secret. (bool, since version 5)"""
    unknown_tags: UnknownTags = ()


class CreateTopicsResponseCreatableTopicResult(Struct, frozen=True, gc=False):
    """In `CreateTopicsResponse.topics`. One entry a topic."""

    name: str = ""
    """The topic's name. (string)"""
    topic_id: Uuid = ZERO_UUID
    """The topic's id. (uuid, since version 7)"""
    error_code: int = 0
    """0, or why this one was left as it was. (int16)"""
    error_message: str | None = ""
    """What went wrong, for a person to read; null if nothing did. (string)"""
    topic_config_error_code: int = 0
    """0, or why the configs are not told. (int16, tag 0, since version 5)"""
    num_partitions: int = -1
    """How many partitions the topic has; -1 if that must not be told. (int32, since version 5)"""
    replication_factor: int = -1
    """How many replicas each partition has; -1 if that must not be told. (int16, since version 5)"""
    configs: tuple[CreateTopicsResponseCreatableTopicConfigs, ...] | None = ()
    """The configs in force; null if they must not be told. ([]CreateTopicsResponseCreatableTopicConfigs,
    since version 5)
    """
    unknown_tags: UnknownTags = ()


class CreateTopicsResponse(Struct, frozen=True, gc=False):
    """The outcome for each topic, once it is committed."""

    API_KEY: ClassVar[int] = 19
    NAME: ClassVar[str] = "CreateTopicsResponse"
    MIN_VERSION: ClassVar[int] = 2
    MAX_VERSION: ClassVar[int] = 7

    throttle_time_ms: int = 0
    """How long the response was held back because of a quota. (int32)"""
    topics: tuple[CreateTopicsResponseCreatableTopicResult, ...] = ()
    """One entry a topic. ([]CreateTopicsResponseCreatableTopicResult)"""
    unknown_tags: UnknownTags = ()
