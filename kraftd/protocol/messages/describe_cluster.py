"""The cluster's id, and its brokers or its controllers. Generated from `proto/rpc/DescribeCluster.json`."""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags


class DescribeClusterRequest(Struct, frozen=True, gc=False):
    """The cluster's id, and its brokers or its controllers. Asks who is there."""

    API_KEY: ClassVar[int] = 60
    NAME: ClassVar[str] = "DescribeClusterRequest"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2

    include_cluster_authorized_operations: bool = False
    """Also say what the asker may do with the cluster. (bool)"""
    endpoint_type: int = 1
    """1 for brokers, 2 for controllers. (int8, since version 1)"""
    include_fenced_brokers: bool = False
    """Also list brokers that are fenced. (bool, since version 2)"""
    unknown_tags: UnknownTags = ()


class DescribeClusterResponseDescribeClusterBroker(Struct, frozen=True, gc=False):
    """In `DescribeClusterResponse.brokers`. One entry a broker, or a controller."""

    broker_id: int = 0
    """Its id. (int32)"""
    host: str = ""
    """Host name or address. (string)"""
    port: int = 0
    """TCP port. (int32)"""
    rack: str | None = None
    """Where it stands; null if it does not say. (string)"""
    is_fenced: bool = False
    """Whether it is fenced. (bool, since version 2)"""
    unknown_tags: UnknownTags = ()


class DescribeClusterResponse(Struct, frozen=True, gc=False):
    """Who is there, and how to reach them."""

    API_KEY: ClassVar[int] = 60
    NAME: ClassVar[str] = "DescribeClusterResponse"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2

    throttle_time_ms: int = 0
    """How long the response was held back because of a quota. (int32)"""
    error_code: int = 0
    """0, or what went wrong with the request as a whole. (int16)"""
    error_message: str | None = None
    """What went wrong, for a person to read; null if nothing did. (string)"""
    endpoint_type: int = 1
    """1 for brokers, 2 for controllers. (int8, since version 1)"""
    cluster_id: str = ""
    """The cluster's id. (string)"""
    controller_id: int = -1
    """Whom to ask as the controller; -1 if that is unknown. (int32)"""
    brokers: tuple[DescribeClusterResponseDescribeClusterBroker, ...] = ()
    """One entry a broker, or a controller. ([]DescribeClusterResponseDescribeClusterBroker)"""
    cluster_authorized_operations: int = -2147483648
    """What the asker may do with the cluster, a bit an operation; the lowest int32 if not asked for.
    (int32)
    """
    unknown_tags: UnknownTags = ()
