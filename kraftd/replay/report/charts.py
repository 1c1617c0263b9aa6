"""The plots of the report as Vega-Lite specifications: plain dicts, from the rows of the results.

Colours are told apart by those who see few of them (Okabe and Ito), and repeat what axes and legends say.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

from kraftd.metadata.election_reasons import Reason
from kraftd.metadata.partition_states import PartitionState
from kraftd.metadata.replica_states import ReplicaState

Row: TypeAlias = Mapping[str, Any]
Spec: TypeAlias = dict[str, Any]
Span: TypeAlias = tuple[int, int]
"""The first and the last time of a log, in milliseconds."""

COLOURS: Final = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8A6D00", "#666666"]
ALARM: Final = "#B00020"
KINDS_MAX: Final = 7
OTHER: Final = "other"
AXIS: Final = 72
"""What every plot leaves for the labels on its left, so that times stand below each other."""
MARGIN: Final = AXIS + 50
"""What views below each other do not get of the page's width: labels, a title, the last time."""
LEGEND: Final = 190
"""What the longest name of a kind takes in a legend."""
WIDTH: Final = 1000
"""Of a plot, until the page puts in its own width."""


def leaders(rows: Sequence[Row], span: Span) -> Spec:
    """When each node led, and for how long at most nobody did."""
    data = [
        {
            "node": f"node {row['leader_id']}" if row["leader_id"] is not None else "unknown",
            "from": _time(row["started_at"]),
            "to": _time(row["last_record_at"]),
            "at": _text(_time(row["started_at"])),
            "until": _text(_time(row["last_record_at"])),
            "epoch": row["epoch"],
            "records": row["records"],
            "gap_s": (row["without_leader_ms_at_most"] or 0) / 1000,
            "lost": row["epochs_nobody_won"] or 0,
        }
        for row in rows
        if row["started_at"] is not None and row["last_record_at"] is not None
    ]
    tooltip = [
        {"field": "epoch", "title": "epoch"},
        {"field": "node", "title": "leader"},
        {"field": "at", "title": "from"},
        {"field": "until", "title": "last record"},
        {"field": "records", "title": "records", "format": ","},
        {"field": "gap_s", "title": "without a leader before (s, at most)", "format": ",.1f"},
        {"field": "lost", "title": "epochs before that nobody won"},
    ]
    led: Spec = {
        "height": {"step": 26},
        "mark": {"type": "bar", "height": 14, "minBandSize": 3, "stroke": "white", "strokeWidth": 0.4},
        "encoding": {
            "x": _time_axis("from", span),
            "x2": {"field": "to"},
            "y": {"field": "node", "type": "nominal", "title": "leader"},
            "color": {"field": "node", "type": "nominal", "legend": None, "scale": {"range": COLOURS}},
            "tooltip": tooltip,
        },
    }
    tick = {**led, "mark": {"type": "tick", "thickness": 2, "height": 14}}
    tick["encoding"] = {key: value for key, value in led["encoding"].items() if key != "x2"}
    gaps: Spec = {
        "height": 90,
        "mark": {"type": "bar", "width": 3, "color": ALARM},
        "encoding": {
            "x": _time_axis("from", span),
            "y": {
                "field": "gap_s",
                "type": "quantitative",
                "title": "s without a leader",
                "scale": {"type": "symlog"},
                "axis": {"values": [0, 1, 10, 100, 1000, 10_000, 100_000], "format": ",d"},
            },
            "tooltip": tooltip,
        },
    }
    both = [{**_layer([led, tick]), "height": {"step": 26}, "width": WIDTH}, {**gaps, "width": WIDTH}]
    return _spec({"vconcat": both, "resolve": {"scale": {"x": "shared"}}}, data)


def kinds(rows: Sequence[Row], step_s: int, span: Span) -> Spec:
    """Records by kind, step by step."""
    totals: Counter[str] = Counter()
    for row in rows:
        totals[row["type"]] += row["records"]
    named = {kind for kind, _ in totals.most_common(KINDS_MAX)}
    merged: Counter[tuple[int, str]] = Counter()
    for row in rows:
        kind = row["type"].removesuffix("Record") if row["type"] in named else OTHER
        merged[_time(row["time"]), kind] += row["records"]
    data = [{"time": time, "kind": kind, "records": count} for (time, kind), count in merged.items()]
    order = [kind.removesuffix("Record") for kind, _ in totals.most_common(KINDS_MAX)]
    return _stacked(data, "kind", "records", "records", step_s, span, domain=[*order, OTHER])


def isr(rows: Sequence[Row], step_s: int, span: Span) -> Spec:
    """Brokers that left ISRs (below the line) and came back (above it), step by step."""
    data = []
    for row in rows:
        data.append({"time": _time(row["time"]), "what": "came back", "partitions": row["expands"]})
        data.append({"time": _time(row["time"]), "what": "left", "partitions": -row["shrinks"]})
    domain = ["came back", "left"]
    return _stacked(data, "what", "partitions", "partitions", step_s, span, domain=domain, height=140)


def churn(rows: Sequence[Row], step_s: int, span: Span) -> Spec:
    """Partitions that each broker began to lead, step by step; those left without a leader too."""
    data = [
        {
            "time": _time(row["time"]),
            "leader": f"broker {row['broker_id']}" if row["broker_id"] >= 0 else "no leader",
            "partitions": row["won"],
        }
        for row in rows
        if row["won"]
    ]
    domain = sorted({row["leader"] for row in data}, key=lambda name: (name == "no leader", len(name), name))
    return _stacked(data, "leader", "partitions", "partitions", step_s, span, domain=domain, height=140)


def elections(rows: Sequence[Row], step_s: int, span: Span) -> Spec:
    """Changes of partitions' leaders, a line for each reason: two of one show beside hundreds of another."""
    data = [
        {
            "time": _time(row["time"]) + step_s * 500,
            "at": _text(_time(row["time"])),
            "reason": row["reason"].replace("_", " "),
            "elections": row["elections"],
        }
        for row in rows
    ]
    found = {row["reason"] for row in data}
    domain = [reason for reason in _REASONS if reason in found]
    most = max((row["elections"] for row in data), default=1)
    sizes = sorted({1, (most + 1) // 2, most})
    encoding = {
        "x": _time_axis("time", (span[0] - step_s * 500, span[1] + step_s * 500)),
        "y": {
            "field": "reason",
            "type": "nominal",
            "title": None,
            "sort": domain,
            "axis": {"grid": True, "labelExpr": "split(datum.label, ' ')"},
        },
        "size": {
            "field": "elections",
            "type": "quantitative",
            "title": f"elections in {_length(step_s)}",
            "scale": {"type": "sqrt", "range": [30, 600]},
            "legend": {"format": ",d", "values": sizes, "symbolFillColor": COLOURS[-1]},
        },
        "color": {
            "field": "reason",
            "type": "nominal",
            "legend": None,
            "scale": {"domain": list(_REASONS), "range": COLOURS},
        },
        "tooltip": [
            {"field": "at", "title": "from"},
            {"field": "reason"},
            {"field": "elections", "format": ","},
        ],
    }
    mark = {"type": "circle", "opacity": 0.8}
    return _spec({"mark": mark, "encoding": encoding, "height": {"step": 34}}, data)


_REASONS: Final = tuple(reason.value.replace("_", " ") for reason in Reason)


def without_leader(rows: Sequence[Row]) -> Spec:
    """The topics whose partitions were longest without a leader."""
    data = [
        {
            "topic": row["topic"],
            "seconds": row["without_leader_ms"] / 1000,
            "longest": row["longest_ms"] / 1000,
            "partitions": row["partitions"],
            "at_the_end": "some still at the end" if row["still"] else "led again",
        }
        for row in rows
    ]
    encoding = {
        "x": {
            "field": "seconds",
            "type": "quantitative",
            "title": "seconds without a leader, all partitions added up",
            "axis": {"format": ",~r", "tickCount": 8},
        },
        "y": _topic_axis(rows),
        "color": {
            "field": "at_the_end",
            "type": "nominal",
            "title": None,
            "scale": {"domain": ["led again", "some still at the end"], "range": [COLOURS[1], ALARM]},
        },
        "tooltip": [
            {"field": "topic"},
            {"field": "seconds", "title": "without a leader (s)", "format": ",.1f"},
            {"field": "longest", "title": "longest at once (s)", "format": ",.1f"},
            {"field": "partitions"},
            {"field": "at_the_end", "title": "in the end"},
        ],
    }
    return _spec({"mark": "bar", "encoding": encoding, "height": {"step": 20}}, data)


def states(rows: Sequence[Row], span: Span) -> Spec:
    """How many partitions and replicas were in each state but Online."""
    data = [
        {"time": max(_time(row["time"]), span[0]), "state": _STATES[row["state"]], "count": row["count"]}
        for row in rows
    ]
    last = {row["state"]: row["count"] for row in data}
    data += [{"time": span[1], "state": state, "count": count} for state, count in last.items()]
    told = [{**row, "at": _text(row["time"])} for row in data]
    domain = [state for state in _STATES.values() if state in last]
    encoding = {
        "x": _time_axis("time", span),
        "y": {
            "field": "count",
            "type": "quantitative",
            "title": "partitions, replicas",
            "axis": {"format": ",d", "tickCount": 5},
        },
        "color": {
            "field": "state",
            "type": "nominal",
            "title": None,
            "scale": {"domain": domain, "range": COLOURS},
        },
        "strokeDash": {"field": "state", "type": "nominal", "title": None, "scale": {"domain": domain}},
        "tooltip": [
            {"field": "at", "title": "from"},
            {"field": "state"},
            {"field": "count", "format": ","},
        ],
    }
    mark = {"type": "line", "interpolate": "step-after", "point": {"size": 14}, "strokeWidth": 1.6}
    return _spec({"mark": mark, "encoding": encoding, "height": 160}, told)


_STATES: Final = {
    PartitionState.OFFLINE.value: "partitions offline",
    ReplicaState.OFFLINE.label: "replicas offline",
    ReplicaState.NEW.label: "replicas new",
    ReplicaState.DELETION_STARTED.label: "deletion started",
    ReplicaState.DELETION_INELIGIBLE.label: "deletion ineligible",
}
"""What is drawn of states, in the order of the legend."""


def fencing(rows: Sequence[Row], span: Span) -> Spec:
    """When each broker was fenced."""
    data = [
        {
            "broker": f"broker {row['broker_id']}",
            "from": _time(row["fenced_at"]),
            "to": span[1] if row["until"] is None else _time(row["until"]),
            "at": _text(_time(row["fenced_at"])),
            "still": row["until"] is None,
            "why": "lost" if row["event"] == "fenced" else "not caught up since its registration",
            "seconds": None if row["fenced_ms"] is None else row["fenced_ms"] / 1000,
        }
        for row in rows
        if row["fenced_at"] is not None
    ]
    encoding = {
        "x": _time_axis("from", span),
        "x2": {"field": "to"},
        "y": {"field": "broker", "type": "nominal", "title": None},
        "color": {
            "field": "why",
            "type": "nominal",
            "title": None,
            "scale": {
                "domain": ["lost", "not caught up since its registration"],
                "range": [ALARM, COLOURS[1]],
            },
        },
        "tooltip": [
            {"field": "broker"},
            {"field": "why"},
            {"field": "at", "title": "fenced"},
            {"field": "seconds", "title": "for (s)", "format": ",.1f"},
            {"field": "still", "title": "until the end of the log"},
        ],
    }
    bars = {"mark": {"type": "bar", "height": 12}, "encoding": encoding}
    points = {key: value for key, value in encoding.items() if key != "x2"}
    ticks = {"mark": {"type": "tick", "thickness": 2, "height": 12}, "encoding": points}
    return _spec({**_layer([bars, ticks]), "height": {"step": 22}}, data)


def topics(rows: Sequence[Row]) -> Spec:
    """The topics that change most, what changed by kind."""
    data = []
    for row in rows:
        rest = row["changes"] - row["leader_changes"]
        data.append({"topic": row["topic"], "what": "leader changed", "changes": row["leader_changes"]})
        data.append({"topic": row["topic"], "what": "only ISR or replicas changed", "changes": rest})
    encoding = {
        "x": {"field": "changes", "type": "quantitative", "title": "changes of partitions"},
        "y": _topic_axis(rows),
        "color": {"field": "what", "type": "nominal", "title": None, "scale": {"range": COLOURS}},
        "tooltip": [{"field": "topic"}, {"field": "what"}, {"field": "changes", "format": ","}],
    }
    return _spec({"mark": "bar", "encoding": encoding, "height": {"step": 20}}, data)


_CONFIG: Final = {
    "font": "system-ui, sans-serif",
    "axisY": {"minExtent": AXIS},
    "axis": {"labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal", "gridColor": "#e5e5e5"},
    "legend": {
        "labelFontSize": 12,
        "titleFontSize": 12,
        "orient": "top",
        "labelLimit": 320,
        "symbolLimit": 20,
    },
    "view": {"stroke": None},
}


def _stacked(
    data: Sequence[Row],
    by: str,
    amount: str,
    title: str,
    step_s: int,
    span: Span,
    *,
    domain: Sequence[str],
    height: int = 180,
) -> Spec:
    """Bars over time, a colour for each of what `by` names."""
    start, end = span
    steps = max(1, (end - start) // (step_s * 1000) + 1)
    wide = [{**row, "time": row["time"] + step_s * 500, "at": _text(row["time"])} for row in data]
    encoding = {
        "x": _time_axis("time", (start - step_s * 500, end + step_s * 500)),
        "y": {
            "field": amount,
            "type": "quantitative",
            "title": f"{title} in {_length(step_s)}",
            "stack": "zero",
            "axis": {"format": ",d", "tickCount": 5},
        },
        "color": {
            "field": by,
            "type": "nominal",
            "title": None,
            "legend": {"columns": {"expr": f"max(1, floor(width / {LEGEND}))"}},
            "scale": {"domain": list(domain), "range": COLOURS},
        },
        "tooltip": [{"field": "at", "title": "from"}, {"field": by}, {"field": amount, "format": ","}],
    }
    mark = {"type": "bar", "width": {"expr": f"max(2, width / {steps + 1} - 1)"}}
    return _spec({"mark": mark, "encoding": encoding, "height": height}, wide)


def _time_axis(field: str, span: Span) -> Spec:
    """Time to the right, in UTC, the same for every plot of a cluster."""
    length_s = (span[1] - span[0]) / 1000
    shown = "%H:%M:%S" if length_s < 600 else "%H:%M" if length_s < 2 * 86_400 else "%Y-%m-%d"
    return {
        "field": field,
        "type": "temporal",
        "title": None,
        "axis": {"format": shown, "labelOverlap": True},
        "scale": {"type": "utc", "domain": list(span), "nice": False},
    }


def _topic_axis(rows: Sequence[Row]) -> Spec:
    """A row a topic, in this order."""
    return {
        "field": "topic",
        "type": "nominal",
        "title": None,
        "sort": [row["topic"] for row in rows],
        "axis": {"labelLimit": 260},
    }


def _layer(layers: Iterable[Spec]) -> Spec:
    return {"layer": [{key: value for key, value in one.items() if key != "height"} for one in layers]}


def _spec(spec: Spec, data: Sequence[Row]) -> Spec:
    """The whole of a plot; of one view, the width is that of all that is drawn."""
    fits = {"width": WIDTH, "autosize": {"type": "fit-x", "contains": "padding"}}
    sized = spec if "vconcat" in spec else {**spec, **fits}
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "background": "transparent",
        "config": _CONFIG,
        "data": {"values": list(data)},
        **sized,
    }


def _time(moment: datetime) -> int:
    """Milliseconds. A time without a zone is one of this process's: so Spark gives them."""
    return round(moment.timestamp() * 1000)


def _text(milliseconds: int) -> str:
    return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d %H:%M:%S}"


def _length(seconds: int) -> str:
    for size, name in ((86_400, "day"), (3600, "hour"), (60, "minute")):
        if seconds % size == 0:
            count = seconds // size
            return f"{count} {name}{'' if count == 1 else 's'}"
    return f"{seconds} s"
