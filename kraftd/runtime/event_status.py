"""What the controller of a node is doing: what waits, what is worked off in slices, how long events took.

Entered through `EventStatus`: `describe` answers DescribeEvents (`kraftctl events`), on any node; `readings`
and `samples` are its part of the `metrics` line and of the Prometheus page.

Follows: KIP-143 (ControllerState, rate and time of each kind of event), under names of kraftd's own; the
other names are those of Kafka's QuorumControllerMetrics.
Differs: an event is over before anything else is done in the loop, so that `kraftd_controller_state` tells
only of what is worked off in slices. The times of events are by kind.
"""

from collections.abc import Iterator, Mapping

from kraftd.controller.decisions import RunningPlan
from kraftd.controller.quorum_controller import QuorumController
from kraftd.controller.statistics import KindTimes, SlowEvent
from kraftd.errors import ErrorCode
from kraftd.protocol import limits
from kraftd.protocol.messages import (
    DescribeEventsResponse,
    DescribeEventsResponseElection,
    DescribeEventsResponseKind,
    DescribeEventsResponsePartitionState,
    DescribeEventsResponsePlan,
    DescribeEventsResponseQueue,
    DescribeEventsResponseSlowEvent,
    DescribeEventsResponseWaiting,
)
from kraftd.runtime.controller_apis import ControllerApis
from kraftd.runtime.idle_ratio import IdleRatio
from kraftd.runtime.sample import Number, Sample
from kraftd.types import NO_NODE, NodeId, Now

_CONTROLLER = "kafka_controller_kafkacontroller_"
_EVENTS = "kafka_controller_controllereventmanager_"

IDLE = "Idle"
"""The state of a controller that works nothing off, in KIP-143's word."""

_NONE_WAITS = -1

_REASONS = {"appends": "commit", "reads": "confirmation", "resignations": "resignation"}
"""What requests wait for, by what `ControllerApis.statistics` calls them."""


class EventStatus:
    """Reads what the controller and its queue have counted."""

    def __init__(self, node_id: NodeId, controller: QuorumController, apis: ControllerApis) -> None:
        self._node_id = node_id
        self._controller = controller
        self._apis = apis
        self._idle_ratio: IdleRatio | None = None

    def describe(self, now: Now) -> DescribeEventsResponse:
        """The response to DescribeEvents."""
        queue, plans = self._apis.queue, tuple(self._controller.running_plans)
        waiting = self._apis.statistics()
        return DescribeEventsResponse(
            error_code=ErrorCode.NONE,
            node_id=self._node_id,
            is_active=self._controller.is_active,
            decision_errors=self._controller.error_count,
            timed_out_events=queue.timed_out,
            timed_out_heartbeats=self._apis.timed_out_heartbeats,
            oldest_wait_ms=self._oldest_wait_ms(now),
            queue=tuple(DescribeEventsResponseQueue(*each) for each in queue.waiting().items()),
            waiting=tuple(
                DescribeEventsResponseWaiting(reason, waiting[name]) for name, reason in _REASONS.items()
            ),
            plan_count=len(plans),
            plans=tuple(_plan(run, now) for run in plans[: limits.PLANS_MAX]),
            kinds=tuple(map(_kind, self._controller.event_statistics.statistics())),
            slowest=tuple(map(_slow_event, self._controller.event_statistics.slowest)),
            elections=tuple(
                DescribeEventsResponseElection(*election, count)
                for election, count in sorted(self._controller.decided_elections.items())
            ),
            partition_states=tuple(
                DescribeEventsResponsePartitionState(*each)
                for each in self._controller.partition_states().items()
            ),
        )

    def _oldest_wait_ms(self, now: Now) -> int:
        oldest = self._apis.queue.oldest()
        return _NONE_WAITS if oldest is None else max(now.mono_ms - oldest.arrived_ns // 1_000_000, 0)

    def readings(self, now: Now) -> Mapping[str, Number]:
        """The part of the `metrics` line, by Kafka's names with hyphens."""
        queue, processing = self._controller.event_statistics.overall()
        return {
            **self._counters(),
            "avg-idle-ratio": self._idle(now),
            "event-queue-time-ms-p99": queue.p99_us / 1_000,
            "event-queue-processing-time-ms-p99": processing.p99_us / 1_000,
        }

    def _idle(self, now: Now) -> float:
        """Kafka's AvgIdleRatio: the share of time in which no event was handled and nothing applied."""
        busy_ms = self._controller.event_statistics.busy_us / 1_000
        if self._idle_ratio is None:
            self._idle_ratio = IdleRatio(now.mono_ms, busy_ms)
        return self._idle_ratio.read(now.mono_ms, busy_ms)

    def _counters(self) -> Mapping[str, Number]:
        return {
            "timed-out-broker-heartbeat-count": self._apis.timed_out_heartbeats,
            "event-queue-operations-started-count": self._controller.event_statistics.count,
            "event-queue-operations-timed-out-count": self._apis.queue.timed_out,
            "new-active-controllers-count": self._controller.new_active_controllers,
        }

    def samples(self, now: Now) -> Iterator[Sample]:
        """The part of the Prometheus page."""
        for name, value in self._counters().items():
            yield Sample(_CONTROLLER + name.replace("-", ""), _MEANINGS[name], value, is_counter=True)
        yield Sample(
            _EVENTS + "avgidleratio",
            "Share of time in which the controller handled nothing.",
            self._idle(now),
        )
        for event_class, count in self._apis.queue.waiting().items():
            meaning = "Events that wait to be handled, by class."
            yield Sample("kraftd_controller_events_waiting", meaning, count, {"class": event_class})
        states = {run.kind for run in self._controller.running_plans} or {IDLE}
        for state in sorted(states):
            meaning = "What is worked off in slices; Idle if nothing is."
            yield Sample("kraftd_controller_state", meaning, 1, {"state": state})
        for times in self._controller.event_statistics.statistics():
            yield from _kind_samples(times)


_MEANINGS = {
    "timed-out-broker-heartbeat-count": "Heartbeats that waited too long to be decided.",
    "event-queue-operations-started-count": "Events that were handled; none is begun and left.",
    "new-active-controllers-count": "How often a controller became the active one, as this node knows.",
    "event-queue-operations-timed-out-count": "Events that waited too long to be handled.",
}


def _kind_samples(times: KindTimes) -> Iterator[Sample]:
    label = {"kind": times.kind}
    yield Sample("kraftd_controller_events", "Events handled, by kind.", times.count, label, is_counter=True)
    yield Sample(
        "kraftd_controller_event_milliseconds",
        "Milliseconds that events took, by kind.",
        times.processing.total_us / 1_000,
        label,
        is_counter=True,
    )
    for metric, part, taken in (
        ("eventqueuetimems", "queue", times.queue),
        ("eventqueueprocessingtimems", "processing", times.processing),
    ):
        for quantile, value_us in (("0.5", taken.p50_us), ("0.99", taken.p99_us)):
            yield Sample(
                _EVENTS + metric,
                f"Milliseconds of {part}, by kind of event.",
                value_us / 1_000,
                label | {"quantile": quantile},
            )


def _plan(run: RunningPlan, now: Now) -> DescribeEventsResponsePlan:
    return DescribeEventsResponsePlan(
        kind=run.kind,
        broker_id=NO_NODE if run.about is None else run.about,
        has_begun=run.plan is not None,
        slices=run.slices,
        slices_in_flight=run.in_flight,
        age_ms=max(now.mono_ms - run.begun_ms, 0),
    )


def _slow_event(event: SlowEvent) -> DescribeEventsResponseSlowEvent:
    return DescribeEventsResponseSlowEvent(event.kind, event.queue_us, event.processing_us, event.at_ms)


def _kind(times: KindTimes) -> DescribeEventsResponseKind:
    queue, processing = times.queue, times.processing
    return DescribeEventsResponseKind(
        name=times.kind,
        count=times.count,
        queue_p50_us=queue.p50_us,
        queue_p99_us=queue.p99_us,
        queue_max_us=queue.max_us,
        processing_p50_us=processing.p50_us,
        processing_p99_us=processing.p99_us,
        processing_max_us=processing.max_us,
        processing_total_us=processing.total_us,
    )
