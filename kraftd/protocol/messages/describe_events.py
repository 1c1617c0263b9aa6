"""What one node's controller is doing: what waits, what is worked off in slices, and how long events
took. Needs no leader; only the active controller decides. Generated from `proto/rpc/DescribeEvents.json`.
"""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags


class DescribeEventsRequest(Struct, frozen=True, gc=False):
    """What one node's controller is doing: what waits, what is worked off in slices, and how long events
    took. Needs no leader; only the active controller decides. Asks a node.
    """

    API_KEY: ClassVar[int] = 20011
    NAME: ClassVar[str] = "DescribeEventsRequest"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    unknown_tags: UnknownTags = ()


class DescribeEventsResponseQueue(Struct, frozen=True, gc=False):
    """In `DescribeEventsResponse.queue`. The events that wait for a share of the controller's time."""

    event_class: str = ""
    """Their class, the most urgent first. (string)"""
    count: int = 0
    """How many. (int32)"""
    unknown_tags: UnknownTags = ()


class DescribeEventsResponseWaiting(Struct, frozen=True, gc=False):
    """In `DescribeEventsResponse.waiting`. The requests that were handled and wait for their response."""

    reason: str = ""
    """What they wait for. (string)"""
    count: int = 0
    """How many. (int32)"""
    unknown_tags: UnknownTags = ()


class DescribeEventsResponsePlan(Struct, frozen=True, gc=False):
    """In `DescribeEventsResponse.plans`. What that is; of much not all."""

    kind: str = ""
    """What it does. (string)"""
    broker_id: int = -1
    """The broker that it is about, or -1. (int32)"""
    has_begun: bool = False
    """Whether it has begun, or waits for another one about the same broker. (bool)"""
    slices: int = 0
    """Slices that were appended. (int32)"""
    slices_in_flight: int = 0
    """Those of them that are not committed yet. (int32)"""
    age_ms: int = 0
    """How long ago it came. (int64)"""
    unknown_tags: UnknownTags = ()


class DescribeEventsResponseKind(Struct, frozen=True, gc=False):
    """In `DescribeEventsResponse.kinds`. The kinds of events that the node has handled."""

    name: str = ""
    """The kind. (string)"""
    count: int = 0
    """How many events. (int64)"""
    queue_p50_us: int = 0
    """Microseconds that half of them waited at most; good to a factor of two, as all of these. (int64)"""
    queue_p99_us: int = 0
    """Microseconds that 99 of 100 waited at most. (int64)"""
    queue_max_us: int = 0
    """The longest wait. (int64)"""
    processing_p50_us: int = 0
    """Microseconds that half of them took at most. (int64)"""
    processing_p99_us: int = 0
    """Microseconds that 99 of 100 took at most. (int64)"""
    processing_max_us: int = 0
    """The longest. (int64)"""
    processing_total_us: int = 0
    """What all of them took. (int64)"""
    unknown_tags: UnknownTags = ()


class DescribeEventsResponseSlowEvent(Struct, frozen=True, gc=False):
    """In `DescribeEventsResponse.slowest`. The slowest single events, the slowest first."""

    kind: str = ""
    """Its kind. (string)"""
    queue_us: int = 0
    """Microseconds that it waited. (int64)"""
    processing_us: int = 0
    """Microseconds that it took. (int64)"""
    at_ms: int = 0
    """When, in milliseconds since 1970. (int64)"""
    unknown_tags: UnknownTags = ()


class DescribeEventsResponseElection(Struct, frozen=True, gc=False):
    """In `DescribeEventsResponse.elections`. The elections of partition leaders that the node decided as
    the active controller, and saw committed.
    """

    reason: str = ""
    """Why they were held. (string)"""
    rule: str = ""
    """What made the new leaders the ones. (string)"""
    count: int = 0
    """How many. (int64)"""
    unknown_tags: UnknownTags = ()


class DescribeEventsResponsePartitionState(Struct, frozen=True, gc=False):
    """In `DescribeEventsResponse.partition_states`. The partitions by Kafka's states of them."""

    state: str = ""
    """New (decided, not committed yet), Online or Offline. (string)"""
    count: int = 0
    """How many. (int64)"""
    unknown_tags: UnknownTags = ()


class DescribeEventsResponse(Struct, frozen=True, gc=False):
    """Of this moment, and since the node started."""

    API_KEY: ClassVar[int] = 20011
    NAME: ClassVar[str] = "DescribeEventsResponse"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    error_code: int = 0
    """0, or what went wrong. (int16)"""
    node_id: int = -1
    """Its id. (int32)"""
    is_active: bool = False
    """Whether its controller is the active one. (bool)"""
    decision_errors: int = 0
    """Decisions that failed by a defect of the program. (int64)"""
    timed_out_events: int = 0
    """Events that waited too long to be handled. (int64)"""
    timed_out_heartbeats: int = 0
    """Those of them that were heartbeats. (int64)"""
    oldest_wait_ms: int = -1
    """How long the oldest event of the queue has waited; -1 if it is empty. (int64)"""
    queue: tuple[DescribeEventsResponseQueue, ...] = ()
    """The events that wait for a share of the controller's time. ([]DescribeEventsResponseQueue)"""
    waiting: tuple[DescribeEventsResponseWaiting, ...] = ()
    """The requests that were handled and wait for their response. ([]DescribeEventsResponseWaiting)"""
    plan_count: int = 0
    """How much is worked off in slices. (int32)"""
    plans: tuple[DescribeEventsResponsePlan, ...] = ()
    """What that is; of much not all. ([]DescribeEventsResponsePlan)"""
    kinds: tuple[DescribeEventsResponseKind, ...] = ()
    """The kinds of events that the node has handled. ([]DescribeEventsResponseKind)"""
    slowest: tuple[DescribeEventsResponseSlowEvent, ...] = ()
    """The slowest single events, the slowest first. ([]DescribeEventsResponseSlowEvent)"""
    elections: tuple[DescribeEventsResponseElection, ...] = ()
    """The elections of partition leaders that the node decided as the active controller, and saw
    committed. ([]DescribeEventsResponseElection)
    """
    partition_states: tuple[DescribeEventsResponsePartitionState, ...] = ()
    """The partitions by Kafka's states of them. ([]DescribeEventsResponsePartitionState)"""
    unknown_tags: UnknownTags = ()
