"""What a node tells of its controller's events: the queue, what is in progress, and the times by kind."""

from types import SimpleNamespace
from typing import Any

from kraftd.controller.decisions import RunningPlan
from kraftd.controller.event_queue import Event, EventClass, EventQueue
from kraftd.controller.plans import Plan
from kraftd.controller.statistics import EventStatistics
from kraftd.metadata.election_reasons import Reason, Rule
from kraftd.metadata.partition_states import PartitionState
from kraftd.protocol.limits import PLANS_MAX
from kraftd.runtime.event_status import EventStatus
from kraftd.types import Now

NOW = Now(5_000, 0)


class Fencing(Plan):
    kind = "FenceBroker"

    def advance(self, _: Any) -> Any:
        raise NotImplementedError

    def response(self) -> None:
        return None


def status_of(*plans: RunningPlan, events: int = 0) -> EventStatus:
    queue = EventQueue()
    for number in range(events):
        queue.add(Event("x", EventClass.WRITES, (4_000 + number) * 1_000_000, 0, lambda: None, lambda: None))
    statistics = EventStatistics()
    for took_us in (10, 20, 4_000):
        statistics.observe("AlterPartitionRequest", 5, took_us, 1_700_000_000_000 + took_us)
    controller: Any = SimpleNamespace(
        is_active=True,
        error_count=2,
        event_statistics=statistics,
        running_plans=plans,
        new_active_controllers=6,
        partition_states=lambda: {PartitionState.NEW: 4, PartitionState.OFFLINE: 1},
        decided_elections={(Reason.PREFERRED, Rule.PREFERRED_REPLICA): 3, (Reason.OFFLINE, Rule.NOBODY): 2},
    )
    waiting = {"appends": 3, "plans": 1, "reads": 2, "resignations": 0}
    apis: Any = SimpleNamespace(queue=queue, timed_out_heartbeats=4, statistics=lambda: waiting)
    return EventStatus(7, controller, apis)


def test_what_waits_and_what_is_in_progress_is_told() -> None:
    begun = RunningPlan("FenceBroker", 3_800, Fencing(), about=12, slices=3, in_flight=1)
    held = RunningPlan("BrokerRegistrationRequest", 4_990, about=12)
    told = status_of(begun, held, events=2).describe(NOW)
    assert (told.node_id, told.is_active, told.decision_errors, told.timed_out_heartbeats) == (7, True, 2, 4)
    assert {each.event_class: each.count for each in told.queue} == {
        "sessions": 0,
        "replicas": 0,
        "writes": 2,
        "reads": 0,
    }
    assert told.oldest_wait_ms == 1_000
    assert [(each.reason, each.count) for each in told.waiting] == [
        ("commit", 3),
        ("confirmation", 2),
        ("resignation", 0),
    ]
    first, second = told.plans
    assert (first.kind, first.broker_id, first.has_begun) == ("FenceBroker", 12, True)
    assert (first.slices, first.slices_in_flight, first.age_ms) == (3, 1, 1_200)
    assert (second.has_begun, second.age_ms) == (False, 10)
    (kind,) = told.kinds
    assert (kind.name, kind.count, kind.processing_max_us) == ("AlterPartitionRequest", 3, 4_000)
    assert kind.processing_total_us == 4_030
    assert [(each.kind, each.queue_us, each.processing_us, each.at_ms) for each in told.slowest] == [
        ("AlterPartitionRequest", 5, took_us, 1_700_000_000_000 + took_us) for took_us in (4_000, 20, 10)
    ]


def test_an_idle_controller_says_so() -> None:
    told = status_of().describe(NOW)
    assert (told.oldest_wait_ms, told.plan_count, told.plans) == (-1, 0, ())
    states = [each.labels for each in status_of().samples(NOW) if each.name == "kraftd_controller_state"]
    assert states == [{"state": "Idle"}]


def test_much_in_progress_is_counted_and_in_part_told() -> None:
    told = status_of(*(RunningPlan("FenceBroker", 0, about=number) for number in range(500))).describe(NOW)
    assert (told.plan_count, len(told.plans)) == (500, PLANS_MAX)


def test_states_and_times_have_kafkas_names_and_those_of_kip_143() -> None:
    busy = status_of(RunningPlan("FenceBroker", 0, about=1), RunningPlan("FenceBroker", 0, about=2))
    found = {(each.name, *each.labels.values()): each.value for each in busy.samples(NOW)}
    assert found["kraftd_controller_state", "FenceBroker"] == 1
    assert found["kafka_controller_kafkacontroller_timedoutbrokerheartbeatcount",] == 4
    assert found["kafka_controller_kafkacontroller_eventqueueoperationstimedoutcount",] == 0
    assert found["kafka_controller_kafkacontroller_eventqueueoperationsstartedcount",] == 3
    assert found["kafka_controller_kafkacontroller_newactivecontrollerscount",] == 6
    kind = "AlterPartitionRequest"
    assert found["kraftd_controller_events", kind] == 3
    assert found["kraftd_controller_event_milliseconds", kind] == 4.03
    prefix = "kafka_controller_controllereventmanager_eventqueue"
    assert found[f"{prefix}processingtimems", kind, "0.99"] == 4.0
    assert found[f"{prefix}timems", kind, "0.5"] == 0.005


def test_the_share_of_idle_time_is_over_the_last_30_to_60_seconds() -> None:
    status = status_of()
    name = "kafka_controller_controllereventmanager_avgidleratio"
    assert status.readings(NOW)["avg-idle-ratio"] == 1.0
    status._controller.event_statistics.observe("x", 0, 2_500_000, 0)
    (idle,) = [each.value for each in status.samples(Now(NOW.mono_ms + 10_000, 0)) if each.name == name]
    assert idle == 0.75
    assert status.readings(Now(NOW.mono_ms + 10_000, 0))["avg-idle-ratio"] == 0.75, (
        "reading takes nothing away"
    )
    for seconds in (30, 60, 90):
        last = status.readings(Now(NOW.mono_ms + seconds * 1_000, 0))["avg-idle-ratio"]
    assert last == 1.0


def test_the_line_has_the_times_of_all_events_in_two_numbers() -> None:
    status = status_of()
    status._controller.event_statistics.observe("FetchRequest", 70_000, 1, 0)
    readings = status.readings(NOW)
    assert readings["event-queue-time-ms-p99"] == 70.0
    assert readings["event-queue-processing-time-ms-p99"] == 4.0


def test_what_waits_is_on_the_page_by_class() -> None:
    waiting = {
        each.labels["class"]: each.value
        for each in status_of(events=2).samples(NOW)
        if each.name == "kraftd_controller_events_waiting"
    }
    assert waiting == {"sessions": 0, "replicas": 0, "writes": 2, "reads": 0}


def test_how_many_partitions_are_in_which_state_is_told() -> None:
    told = status_of().describe(NOW)
    assert [(each.state, each.count) for each in told.partition_states] == [("New", 4), ("Offline", 1)]


def test_why_leaders_were_elected_is_told() -> None:
    told = status_of().describe(NOW)
    assert [(each.reason, each.rule, each.count) for each in told.elections] == [
        ("offline", "nobody", 2),
        ("preferred", "preferred_replica", 3),
    ]
