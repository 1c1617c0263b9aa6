"""`kraftctl events`: what the active controller is doing, and what keeps it from doing it faster.

What waits in its queue, by class; what waits for a commit or for the confirmation of a read; what is worked
off in slices, because it grows with partitions; which kinds of events, and which single ones, took longest
since the node started; and why it had leaders of partitions elected, and by which rules. It is asked once,
and of its own moment.

Schema: node_id, is_active, queue (object: events by class), oldest_wait_ms (-1: none waits), waiting (object:
    requests by what they wait for), timed_out_events, timed_out_heartbeats, decision_errors, plan_count,
    in_progress (list of kind, broker_id (-1 none), has_begun, slices, slices_in_flight, age_ms; the first
    64), kinds (list of kind, events, and in microseconds queue_p50_us, queue_p99_us, queue_max_us,
    processing_p50_us, processing_p99_us, processing_max_us, processing_total_us; the slowest first), slowest
    (list of kind, queue_us, processing_us and at_ms, since 1970; single events, the slowest first), elections
    (list of reason, rule, elections: those that this node decided and saw committed since it started; the
    words are those of `kraftctl log history`), partition_states (object: partitions by state: New, which is
    decided and not committed yet, Online and Offline).
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

import typer

from kraftd.cli.active_controller import ask_kraftd
from kraftd.cli.client import Connection, raise_for
from kraftd.cli.options import BootstrapOption, OutputOption, TimeoutOption, bootstrap_of, output_of
from kraftd.cli.output import columns, emit, id_text, labels
from kraftd.cli.survey import REQUEST_TIMEOUT_MS
from kraftd.cli.times import time_text
from kraftd.protocol.messages import (
    DescribeEventsRequest,
    DescribeEventsResponse,
    DescribeEventsResponseKind,
    DescribeEventsResponsePlan,
    DescribeEventsResponseSlowEvent,
)

app = typer.Typer()

Json: TypeAlias = dict[str, Any]

_KINDS_SHOWN = 10
_EVENTS_SHOWN = 5
_NAME_WIDTH = 28
"""Of a kind in the table, so that a row fits into 80 columns."""


@app.command("events")
def events(
    context: typer.Context,
    timeout_ms: TimeoutOption = 5_000,
    output: OutputOption = None,
    bootstrap: BootstrapOption = None,
) -> None:
    """Show the active controller's event queue, what is in progress, and the slowest events."""

    def ask(leader: Connection) -> DescribeEventsResponse:
        response = leader.call(DescribeEventsRequest(), DescribeEventsResponse, REQUEST_TIMEOUT_MS)
        raise_for(response.error_code, None, str(leader.endpoint))
        return response

    response = ask_kraftd(bootstrap_of(context, bootstrap), ask, timeout_ms, "events")
    emit(events_data(response), output_of(context, output), events_table)


def events_data(response: DescribeEventsResponse) -> Json:
    """The schema of `events`."""
    slowest = sorted(response.kinds, key=_slowness, reverse=True)
    return {
        "node_id": response.node_id,
        "is_active": response.is_active,
        "queue": {each.event_class: each.count for each in response.queue},
        "oldest_wait_ms": response.oldest_wait_ms,
        "waiting": {each.reason: each.count for each in response.waiting},
        "timed_out_events": response.timed_out_events,
        "timed_out_heartbeats": response.timed_out_heartbeats,
        "decision_errors": response.decision_errors,
        "plan_count": response.plan_count,
        "in_progress": list(map(_plan, response.plans)),
        "kinds": list(map(_kind, slowest)),
        "slowest": list(map(_slow_event, response.slowest)),
        "partition_states": {each.state: each.count for each in response.partition_states},
        "elections": [
            {"reason": each.reason, "rule": each.rule, "elections": each.count} for each in response.elections
        ],
    }


def _slowness(kind: DescribeEventsResponseKind) -> tuple[int, int]:
    return kind.processing_p99_us, kind.processing_max_us


def _plan(plan: DescribeEventsResponsePlan) -> Json:
    return {
        "kind": plan.kind.removesuffix("Request"),
        "broker_id": plan.broker_id,
        "has_begun": plan.has_begun,
        "slices": plan.slices,
        "slices_in_flight": plan.slices_in_flight,
        "age_ms": plan.age_ms,
    }


def _kind(kind: DescribeEventsResponseKind) -> Json:
    return {
        "kind": kind.name.removesuffix("Request"),
        "events": kind.count,
        "queue_p50_us": kind.queue_p50_us,
        "queue_p99_us": kind.queue_p99_us,
        "queue_max_us": kind.queue_max_us,
        "processing_p50_us": kind.processing_p50_us,
        "processing_p99_us": kind.processing_p99_us,
        "processing_max_us": kind.processing_max_us,
        "processing_total_us": kind.processing_total_us,
    }


def _slow_event(event: DescribeEventsResponseSlowEvent) -> Json:
    return {
        "kind": event.kind.removesuffix("Request"),
        "queue_us": event.queue_us,
        "processing_us": event.processing_us,
        "at_ms": event.at_ms,
    }


def events_table(data: Mapping[str, Any]) -> str:
    """What waits, what is in progress, the slowest kinds and single events, in milliseconds; elections."""
    parts = (
        _head(data),
        _progress(data),
        _slowest_kinds(data),
        _slowest_events(data),
        _elections(data),
    )
    return "\n\n".join(filter(None, parts))


def _head(data: Mapping[str, Any]) -> str:
    is_active = "the active controller" if data["is_active"] else "not the active controller"
    timed_out = f"events {data['timed_out_events']}, of them heartbeats {data['timed_out_heartbeats']}"
    oldest = data["oldest_wait_ms"]
    since = f"; the oldest for {oldest} ms" if oldest >= 0 else ""
    return labels(
        [
            ("Node", f"{data['node_id']}, {is_active}"),
            ("Queue", _counts(data["queue"]) + since),
            ("WaitingFor", _counts(data["waiting"])),
            ("TimedOut", timed_out),
            ("DecisionErrors", data["decision_errors"]),
            ("Partitions", _counts(data["partition_states"])),
        ]
    )


def _counts(numbers: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in numbers.items())


def _progress(data: Mapping[str, Any]) -> str:
    rows = [
        (
            plan["kind"],
            id_text(plan["broker_id"]),
            plan["slices"] if plan["has_begun"] else "waits",
            plan["slices_in_flight"],
            f"{plan['age_ms']} ms",
        )
        for plan in data["in_progress"]
    ]
    if not rows:
        return ""
    more = data["plan_count"] - len(rows)
    table = columns(("InProgress", "Broker", "Slices", "Uncommitted", "Age"), rows)
    return f"{table}\nand {more} more" if more > 0 else table


def _slowest_kinds(data: Mapping[str, Any]) -> str:
    rows = [
        (
            kind["kind"][:_NAME_WIDTH],
            kind["events"],
            *(
                _ms(kind[f"{part}_{which}_us"])
                for part, which in (
                    ("queue", "p99"),
                    ("queue", "max"),
                    ("processing", "p50"),
                    ("processing", "p99"),
                    ("processing", "max"),
                )
            ),
        )
        for kind in data["kinds"][:_KINDS_SHOWN]
    ]
    headers = ("Kind", "Events", "Wait99", "WaitMax", "Took50", "Took99", "TookMax")
    return columns(headers, rows) if rows else ""


def _slowest_events(data: Mapping[str, Any]) -> str:
    rows = [
        (
            event["kind"][:_NAME_WIDTH],
            _ms(event["queue_us"]),
            _ms(event["processing_us"]),
            time_text(event["at_ms"]),
        )
        for event in data["slowest"][:_EVENTS_SHOWN]
    ]
    return columns(("SlowestEvent", "Waited", "Took", "At"), rows) if rows else ""


def _elections(data: Mapping[str, Any]) -> str:
    rows = [(each["reason"], each["rule"], each["elections"]) for each in data["elections"]]
    return columns(("ElectionReason", "Rule", "Elections"), rows) if rows else ""


def _ms(us: int) -> str:
    return f"{us / 1_000:.1f}"
