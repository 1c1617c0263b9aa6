"""What a node says of itself in numbers: Kafka's raft metrics, by their names, in every role."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from kraftd.cli.troubles import troubles
from kraftd.controller.deletions.tracker import DeletionTracker
from kraftd.controller.sessions import BrokerSessions
from kraftd.metadata.image import EMPTY
from kraftd.net.tally import Tally
from kraftd.raft.effects import StateChanged
from kraftd.raft.epoch_states import Candidate, Follower, Leader, Prospective, Resigned, Unattached
from kraftd.runtime.health_checks import readyz
from kraftd.runtime.node_status import NodeInfo, NodeStatus
from kraftd.runtime.raft_metrics import RaftMetrics
from kraftd.types import Election, Now, uuid_text
from tests.conformance import covers
from tests.unit.raft.lone import Lone, key_of

KAFKAS = {
    "current-state",
    "current-leader",
    "current-vote",
    "current-vote-directory-id",
    "current-epoch",
    "high-watermark",
    "log-end-offset",
    "log-end-epoch",
    "number-unknown-voter-connections",
    "poll-idle-ratio-avg",
    "commit-latency-avg",
    "commit-latency-max",
    "election-latency-avg",
    "election-latency-max",
    "fetch-records-rate",
    "append-records-rate",
}


def status_of(lone: Lone) -> tuple[NodeStatus, RaftMetrics]:
    """The status of that raft node in a node where nothing else goes on."""
    parts: Any = SimpleNamespace(
        alarms=(),
        flush_running_ms=lambda _now: 0,
        is_active=False,
        statistics=dict,
        leader_elections={},
        event_statistics=SimpleNamespace(statistics=list),
        image=EMPTY,
        error_count=0,
        sessions=BrokerSessions(9_000),
        deletions=DeletionTracker(9_000, lambda _entry, _state: None),
        tally=Tally(idle=3),
        outbox=SimpleNamespace(messages_sent=42),
    )
    metrics = RaftMetrics(lone.now_ms)
    facts = NodeInfo(1, "lone", key_of(1).directory_id, 2_000, Now(0, 0))
    status = NodeStatus(
        facts,
        raft_node=lone.raft_node,
        controller=parts,
        applier=SimpleNamespace(
            applied_offset=0, applied_timestamp_ms=-1, alarms=(), loaded_percent=40, loaded_count=3
        ),
        snapshotter=SimpleNamespace(alarms=(), newest=None, why_none="none is due yet"),
        log_cleaner=SimpleNamespace(cleanings=2, removed_bytes=700),
        store=parts,
        peer_connections=parts,
        server=parts,
        metrics=metrics,
        events=SimpleNamespace(readings=lambda _now: {}, samples=lambda _now: ()),
        driver=SimpleNamespace(turns=41),
    )
    return status, metrics


def _voted(lone: Lone) -> None:
    lone.ask_vote(5)


def _follower(lone: Lone) -> None:
    lone.ask_begin(5, 2)


def _prospective(lone: Lone) -> None:
    lone.run_to_deadline()


def _candidate(lone: Lone) -> None:
    lone.become_candidate()


def _leader(lone: Lone) -> None:
    lone.become_leader()


def _resigned(lone: Lone) -> None:
    lone.become_leader().run(3_000)


@covers("MET-01")
@pytest.mark.parametrize(
    ("become", "state", "role", "leader", "vote"),
    [
        (lambda _: None, Unattached, "unattached", -1, -1),
        (_voted, Unattached, "voted", -1, 2),
        (_follower, Follower, "follower", 2, -1),
        (_prospective, Prospective, "prospective", -1, -1),
        (_candidate, Candidate, "candidate", -1, 1),
        (_leader, Leader, "leader", 1, 1),
        (_resigned, Resigned, "unattached", -1, 1),
    ],
)
def test_roles_have_kafkas_names(
    become: Callable[[Lone], None], state: type, role: str, leader: int, vote: int
) -> None:
    lone = Lone(epochs=(3, 3), election=Election(3))
    become(lone)
    assert type(lone.raft_node.state) is state
    status, _ = status_of(lone)
    readings = status.readings(lone.now)
    assert readings["current-state"] == role
    assert (readings["current-leader"], readings["current-vote"]) == (leader, vote)
    voted = key_of(vote).directory_id if vote >= 0 else bytes(16)
    assert readings["current-vote-directory-id"] == uuid_text(voted)
    assert readings["current-epoch"] == lone.epoch
    assert readings["broker-registration-state"] == readings["time-since-last-heartbeat-received-ms"] == {}
    assert readings["log-end-offset"] == lone.raft_node.log.end_offset >= 2
    shown = {
        sample.labels["current_state"]: sample.value
        for sample in status.samples(lone.now)
        if sample.name == "kafka_server_raftmetrics_current_state"
    }
    assert [name for name, value in shown.items() if value] == [role]


def test_what_the_controller_could_not_do_is_an_alarm_in_status_and_health() -> None:
    status, _ = status_of(Lone().become_leader())
    controller: Any = status._controller
    others = {check.name for check in readyz(status.health_input(Now(0, 0))) if not check.ok}
    alarm = "FenceBroker: failed 2 times, is repeated"
    controller.alarms = [alarm]
    assert alarm in status.describe(Now(0, 0)).alarms
    failed = {check.name: check.detail for check in readyz(status.health_input(Now(0, 0))) if not check.ok}
    assert failed.pop("alarms") == alarm
    assert set(failed) == others


@covers("MET-01")
def test_an_observer_that_follows_is_called_one() -> None:
    lone = Lone(voters=(2, 3), election=Election(5, 2))
    assert isinstance(lone.raft_node.state, Follower)
    status, _ = status_of(lone)
    assert status.readings(lone.now)["current-state"] == "observer"


@covers("MET-01")
def test_every_raft_metric_of_kafka_is_there_and_the_measured_ones_are_measured() -> None:
    lone = Lone().become_leader()
    status, metrics = status_of(lone)
    before = status.readings(lone.now)
    assert set(before) >= KAFKAS
    assert (before["high-watermark"], before["log-end-epoch"]) == (-1, 1)
    assert before["number-unknown-voter-connections"] == 0
    lone.establish()
    now_ms = lone.now_ms
    for source, target, at_ms in (("unattached", "prospective", 0), ("candidate", "leader", 40)):
        metrics.state_changed(StateChanged(source, target, 1, "test"), now_ms + at_ms)
    metrics.appended(0, 6, now_ms + 40, as_leader=True)
    metrics.appended(6, 9, now_ms + 41, as_leader=False)
    metrics.committed(6, now_ms + 60)
    lone.now_ms += 1_000
    after = status.readings(lone.now)
    assert after["high-watermark"] == 1
    assert (after["commit-latency-avg"], after["commit-latency-max"]) == (20, 20)
    assert (after["election-latency-avg"], after["election-latency-max"]) == (40, 40)
    assert (after["append-records-rate"], after["fetch-records-rate"]) == (6, 3)
    ratio = after["poll-idle-ratio-avg"]
    assert isinstance(ratio, float)
    assert 0 <= ratio <= 1
    names = {sample.name for sample in status.samples(lone.now)}
    for name in KAFKAS - {"current-vote-directory-id"}:
        assert f"kafka_server_raftmetrics_{name.replace('-', '_')}" in names, "a directory id is no number"


def test_connections_that_were_closed_are_counted_by_reason() -> None:
    lone = Lone()
    status, _ = status_of(lone)
    closed = {
        sample.labels["reason"]: sample.value
        for sample in status.samples(lone.now)
        if sample.name == "kraftd_connections_closed"
    }
    assert status.readings(lone.now)["connections-closed"] == sum(closed.values())
    assert closed["idle"] == 3
    assert set(closed) >= {"malformed", "broken", "over_budget", "refused"}


def test_where_the_log_begins_and_what_was_cleaned_is_on_the_page_under_kafkas_names_where_it_has_them() -> (
    None
):
    lone = Lone(epochs=(3, 3, 3))
    status, _ = status_of(lone)
    samples = {sample.name: sample for sample in status.samples(lone.now)}
    start = samples["kafka_log_log_logstartoffset"]
    assert (start.value, start.labels) == (0, {"topic": "__cluster_metadata", "partition": "0"})
    assert samples["kafka_server_metadataloader_handleloadsnapshotcount"].value == 3
    for name, value in (("kraftd_log_cleanings", 2), ("kraftd_log_cleaned_bytes", 700)):
        assert (samples[name].value, samples[name].is_counter) == (value, True)


def test_turns_of_the_loop_and_messages_are_counters() -> None:
    lone = Lone()
    status, _ = status_of(lone)
    samples = {sample.name: sample for sample in status.samples(lone.now)}
    for name, value in (("kraftd_loop_turns", 41), ("kraftd_messages_sent", 42)):
        assert (samples[name].value, samples[name].is_counter) == (value, True)


@pytest.mark.covers("D-23")
def test_a_node_says_how_much_of_a_snapshot_it_has_restored_and_why_it_has_none() -> None:
    status, _ = status_of(Lone())
    response = status.describe(Now(0, 0))
    assert (response.snapshot_loaded_percent, response.why_no_snapshot) == (40, "none is due yet")
    samples = {sample.name: sample.value for sample in status.samples(Now(0, 0))}
    assert samples["kraftd_snapshot_loaded_percent"] == 40
    assert troubles(response)[0] == "loads a snapshot, 40 % of which are restored"
    assert not any("snapshot" in text for text in troubles(replace(response, snapshot_loaded_percent=100)))


def test_the_leader_tells_how_far_behind_the_others_are_and_nobody_else_does() -> None:
    lone = Lone(epochs=(3, 3), election=Election(3))
    status, _ = status_of(lone)
    assert not [each for each in status.samples(lone.now) if each.name.startswith("kraftd_replica")]
    lone.become_leader()
    lone.establish()
    found = {
        (each.name, each.labels["replica"]): each.value
        for each in status.samples(lone.now)
        if each.name.startswith("kraftd_replica")
    }
    view = lone.raft_node.describe(lone.now)
    for peer in view.peers:
        lag = view.log_end_offset - peer.fetch_offset if peer.fetch_offset >= 0 else -1
        assert found["kraftd_replica_lag", str(peer.node_id)] == lag
    assert {lag for (name, _), lag in found.items() if name == "kraftd_replica_lag"} == {0, -1}


def test_a_node_that_is_not_well_says_so_in_numbers() -> None:
    lone = Lone()
    status, _ = status_of(lone)
    samples = {each.name: each.value for each in status.samples(lone.now)}
    assert samples["kraftd_whole"] == 1
    assert samples["kraftd_alarms"] == 0
    assert samples["kafka_server_metadataloader_currentcontrollerid"] == -1
