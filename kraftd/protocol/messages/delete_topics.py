"""Removes topics, by name or by id. Generated from `proto/rpc/DeleteTopics.json`."""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags
from kraftd.types import ZERO_UUID, Uuid


class DeleteTopicsRequestDeleteTopicState(Struct, frozen=True, gc=False):
    """In `DeleteTopicsRequest.topics`. One entry a topic."""

    name: str | None = None
    """The topic's name; null if it is named by id. (string, since version 6)"""
    topic_id: Uuid = ZERO_UUID
    """The topic's id; all zero if it is named by name. (uuid, since version 6)"""
    unknown_tags: UnknownTags = ()


class DeleteTopicsRequest(Struct, frozen=True, gc=False):
    """Removes topics, by name or by id. The topics that shall go."""

    API_KEY: ClassVar[int] = 20
    NAME: ClassVar[str] = "DeleteTopicsRequest"
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 6

    topics: tuple[DeleteTopicsRequestDeleteTopicState, ...] = ()
    """One entry a topic. ([]DeleteTopicsRequestDeleteTopicState, since version 6)"""
    topic_names: tuple[str, ...] = ()
    """The topics' names, up to version 5. ([]string, versions 1 to 5)"""
    timeout_ms: int = 0
    """How long the request may take. (int32)"""
    unknown_tags: UnknownTags = ()


class DeleteTopicsResponseDeletableTopicResult(Struct, frozen=True, gc=False):
    """In `DeleteTopicsResponse.responses`. One entry a topic."""

    name: str | None = ""
    """The topic's name; null if it must not be told. (string)"""
    topic_id: Uuid = ZERO_UUID
    """The topic's id. (uuid, since version 6)"""
    error_code: int = 0
    """0, or why this one was left as it was. (int16)"""
    error_message: str | None = None
    """What went wrong, for a person to read; null if nothing did. (string, since version 5)"""
    unknown_tags: UnknownTags = ()


class DeleteTopicsResponse(Struct, frozen=True, gc=False):
    """The outcome for each topic, in any order."""

    API_KEY: ClassVar[int] = 20
    NAME: ClassVar[str] = "DeleteTopicsResponse"
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 6

    throttle_time_ms: int = 0
    """How long the response was held back because of a quota. (int32)"""
    responses: tuple[DeleteTopicsResponseDeletableTopicResult, ...] = ()
    """One entry a topic. ([]DeleteTopicsResponseDeletableTopicResult)"""
    unknown_tags: UnknownTags = ()
