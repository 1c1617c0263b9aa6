"""The names of metrics: all of Kafka's controller are told, and dashboard and alerts use none that is not.

What a node exports is read from three daemons with brokers, so that every sample that has labels is there.
"""

import json
import re
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from cluster import Cluster
from prometheus_client.parser import text_string_to_metric_families
from test_broker_life import Broker

from kraftd.metadata.election_reasons import Rule
from tests.kafka_metrics import KAFKAS

DOCS = Path(__file__).parents[2] / "docs"
DASHBOARD = DOCS / "dashboards" / "kraftd.json"
ALERTS = DOCS / "dashboards" / "alerts.yml"

NOT_ON_THE_PAGE = {
    "kafka_server_metadataloader_avgidleratio": "there is no thread of a loader: see poll_idle_ratio_avg",
}
NOT_IN_THE_LINE = {
    "FinalizedLevel": "one number a feature",
    "CurrentMetadataVersion": "a state of the log, not a measurement: kraftctl features",
    "CurrentControllerId": "current-leader",
    "HandleLoadSnapshotCount": "the line snapshot_loaded tells of each",
    "LatestSnapshotGeneratedBytes": "the line snapshot_written tells of each",
    "LatestSnapshotGeneratedAgeMs": "the line snapshot_written tells of each",
    "EventQueueTimeMs": "a distribution: event-queue-time-ms-p99",
    "EventQueueProcessingTimeMs": "a distribution: event-queue-processing-time-ms-p99",
}

PROMETHEUS_OWN = {"up"}
_NAME = re.compile(r"\b((?:kafka|kraftd)_\w+|up)\b(?:\{([^}]*)\})?")
_LABEL = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
OF_THE_SCRAPE = {"job", "instance"}


class World:
    """What three nodes tell: each name on a page with the labels that it has, and the keys of the line."""

    def __init__(self, cluster: Cluster) -> None:
        self.labels: dict[str, set[str]] = {}
        leader = cluster.wait_leader()
        for broker_id in (11, 12):
            Broker(cluster, broker_id).up(leader)
        for node in cluster:
            with urllib.request.urlopen(f"http://127.0.0.1:{node.http_port}/metrics", timeout=30) as page:
                for family in text_string_to_metric_families(page.read().decode()):
                    for sample in family.samples:
                        self.labels.setdefault(sample.name, set()).update(sample.labels)
        self.line = frozenset(leader.wait_for("metrics"))


@pytest.fixture
def world(start: Callable[..., Cluster]) -> Iterator[World]:
    with start(3, http=True, settings={"kraftd.metrics.interval.ms": "300"}) as cluster:
        yield World(cluster)


def expressions() -> Iterator[tuple[str, str]]:
    """Each query of the dashboard and the rules, under the name of its panel or alert."""
    for panel in json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]
    for alert in alerts():
        yield alert["alert"], alert["expr"]


def alerts() -> Sequence[Mapping[str, Any]]:
    groups = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def test_names(world: World) -> None:
    told = {name.removesuffix("_total") for name in world.labels}
    expected = {
        f"{prefix}_{name.removesuffix('PerSec').lower()}"
        for prefix, names in KAFKAS.items()
        for name in names
    }
    assert expected - told == set(NOT_ON_THE_PAGE)

    names = {name for names in KAFKAS.values() for name in names}
    assert {name for name in names if _hyphenated(name) not in world.line} == set(NOT_IN_THE_LINE)

    for where, expression in expressions():
        found = _NAME.findall(expression)
        assert found, where
        for name, selector in found:
            assert name in world.labels or name in PROMETHEUS_OWN, f"{where}: no node tells {name}"
            labels = set(_LABEL.findall(selector)) - OF_THE_SCRAPE
            assert labels <= world.labels.get(name, set()), f"{where}: {name} has no label of {labels}"


def _hyphenated(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name.removesuffix("PerSec")).lower()


def test_the_dashboard_is_one_that_grafana_can_lay_out() -> None:
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24, panel["title"]
        taken |= cells
        if panel["type"] != "row":
            assert panel["description"].endswith("."), panel["title"]
            assert panel["datasource"]["uid"] == "${datasource}", panel["title"]
    assert [each["name"] for each in dashboard["templating"]["list"]] == ["datasource", "job"]


def test_an_alert_about_something_missing_fires_where_no_node_answers() -> None:
    """A node that is down tells no number, so that none is 0: only `up`, which is Prometheus' own, is."""
    checked = []
    for alert in alerts():
        missing, _, other = str(alert["expr"]).partition(" or ")
        if alert["labels"]["severity"] == "critical" and missing.endswith("== 0"):
            assert other == 'max by (job) (up{job=~".*kraftd.*"}) == 0', alert["alert"]
            checked.append(alert["alert"])
    assert checked == ["KraftdNoActiveController", "KraftdNothingCommitted"]


def test_the_alert_of_unclean_elections_names_all_that_are_counted_and_where_partitions_are_named() -> None:
    (alert,) = (each for each in alerts() if each["alert"] == "KraftdUncleanElection")
    told = str(alert["annotations"]["description"])
    assert alert["labels"]["severity"] == "warning", "a broker that crashed and is back is counted, too"
    assert all(rule in told for rule in (Rule.LAST_KNOWN_LEADER, Rule.UNCLEAN))
    assert "kraftctl events" in told
    assert "table elections of kraftctl replay" in told


def test_each_alert_says_what_to_do_and_the_operator_finds_it_in_the_docs() -> None:
    operations = (DOCS / "operations.md").read_text(encoding="utf-8")
    found = alerts()
    rows = re.findall(r"^\| `(Kraftd\w+)` \| (\w+) \| [^|]+ \|$", operations, re.MULTILINE)
    assert rows == [(alert["alert"], alert["labels"]["severity"]) for alert in found]
    assert len({alert["alert"] for alert in found}) == len(found) > 0
    for alert in found:
        assert alert["labels"]["severity"] in {"info", "warning", "critical"}, alert["alert"]
        assert alert["annotations"]["summary"], alert["alert"]
        assert alert["annotations"]["description"].endswith("."), alert["alert"]
