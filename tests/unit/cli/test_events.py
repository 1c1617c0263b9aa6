"""`events`: what keeps the active controller busy."""

from kraftd.protocol import messages as m
from tests.unit.cli.kraftctl import Kraftctl, Outcome
from tests.unit.cli.scripted import ScriptedKafkaNode, ScriptedQuorum


def kind(name: str, *numbers: int) -> m.DescribeEventsResponseKind:
    return m.DescribeEventsResponseKind(name, *numbers)


BUSY = m.DescribeEventsResponse(
    node_id=2,
    is_active=True,
    decision_errors=1,
    timed_out_events=5,
    timed_out_heartbeats=4,
    oldest_wait_ms=12,
    queue=(m.DescribeEventsResponseQueue("sessions", 0), m.DescribeEventsResponseQueue("writes", 31)),
    waiting=(
        m.DescribeEventsResponseWaiting("commit", 3),
        m.DescribeEventsResponseWaiting("confirmation", 0),
    ),
    plan_count=70,
    plans=(
        m.DescribeEventsResponsePlan("FenceBroker", 12, True, 7, 4, 812),
        m.DescribeEventsResponsePlan("BrokerRegistrationRequest", 12, False, 0, 0, 40),
        m.DescribeEventsResponsePlan("AlterPartitionRequest", -1, True, 1, 1, 3),
    ),
    kinds=(
        kind("NoOp", 90, 1, 2, 3, 4, 5, 600, 700),
        kind("IncrementalAlterConfigsRequest", 4, 1_000, 2_000, 3_100, 50, 9_000, 9_500, 20_000),
        *(kind(f"Kind{number}", number, 0, 0, 0, 0, number, number, 0) for number in range(10, 22)),
    ),
    slowest=(
        m.DescribeEventsResponseSlowEvent("IncrementalAlterConfigsRequest", 3_100, 9_500, 1_700_000_000_123),
        *(m.DescribeEventsResponseSlowEvent("Apply", 0, took_us, 1_700_000_000_000) for took_us in range(9)),
    ),
    partition_states=(
        m.DescribeEventsResponsePartitionState("New", 3),
        m.DescribeEventsResponsePartitionState("Online", 40),
        m.DescribeEventsResponsePartitionState("Offline", 2),
    ),
    elections=(
        m.DescribeEventsResponseElection("controlled_shutdown", "in_sync", 12),
        m.DescribeEventsResponseElection("offline", "last_known_leader", 1),
    ),
)


def events(kraftctl: Kraftctl, quorum: ScriptedQuorum, *more: object) -> Outcome:
    quorum.nodes[2].responses[m.DescribeEventsRequest] = lambda _: BUSY
    return kraftctl("events", "--bootstrap-controller", quorum.bootstrap, *more)


def test_the_table_is_the_queue_what_is_in_progress_the_ten_slowest_kinds_and_five_events(
    kraftctl: Kraftctl, quorum: ScriptedQuorum
) -> None:
    head, progress, slowest, single, elections = events(kraftctl, quorum).out.split("\n\n")
    assert head.splitlines() == [
        "Node:                   2, the active controller",
        "Queue:                  sessions 0, writes 31; the oldest for 12 ms",
        "WaitingFor:             commit 3, confirmation 0",
        "TimedOut:               events 5, of them heartbeats 4",
        "DecisionErrors:         1",
        "Partitions:             New 3, Online 40, Offline 2",
    ]
    assert progress.splitlines() == [
        "InProgress          Broker  Slices  Uncommitted  Age",
        "FenceBroker         12      7       4            812 ms",
        "BrokerRegistration  12      waits   0            40 ms",
        "AlterPartition      -       1       1            3 ms",
        "and 67 more",
    ]
    rows = slowest.splitlines()
    assert rows[0] == "Kind                     Events  Wait99  WaitMax  Took50  Took99  TookMax"
    assert rows[1] == "IncrementalAlterConfigs  4       2.0     3.1      0.1     9.0     9.5"
    assert rows[2].startswith("Kind21 ")
    assert len(rows) == 11
    assert max(map(len, rows)) <= 80
    rows = single.splitlines()
    assert rows[0] == "SlowestEvent             Waited  Took  At"
    assert rows[1] == "IncrementalAlterConfigs  3.1     9.5   2023-11-14T22:13:20.123Z"
    assert len(rows) == 6
    assert elections.splitlines() == [
        "ElectionReason       Rule               Elections",
        "controlled_shutdown  in_sync            12",
        "offline              last_known_leader  1",
    ]


def test_everything_is_told_in_json(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    data = events(kraftctl, quorum, "-o", "json").data
    assert (data["node_id"], data["is_active"], data["plan_count"]) == (2, True, 70)
    assert data["queue"] == {"sessions": 0, "writes": 31}
    assert data["waiting"] == {"commit": 3, "confirmation": 0}
    assert data["in_progress"][0] == {
        "kind": "FenceBroker",
        "broker_id": 12,
        "has_begun": True,
        "slices": 7,
        "slices_in_flight": 4,
        "age_ms": 812,
    }
    assert len(data["kinds"]) == len(BUSY.kinds)
    assert data["kinds"][0]["kind"] == "IncrementalAlterConfigs"
    assert data["kinds"][0]["processing_total_us"] == 20_000
    assert len(data["slowest"]) == 10
    assert data["slowest"][0] == {
        "kind": "IncrementalAlterConfigs",
        "queue_us": 3_100,
        "processing_us": 9_500,
        "at_ms": 1_700_000_000_123,
    }
    assert data["partition_states"] == {"New": 3, "Online": 40, "Offline": 2}
    assert data["elections"][0] == {"reason": "controlled_shutdown", "rule": "in_sync", "elections": 12}


def test_kafkas_own_controllers_do_not_tell(kraftctl: Kraftctl) -> None:
    node = ScriptedKafkaNode(1)
    outcome = kraftctl("events", "--bootstrap-controller", node.address)
    assert (outcome.code, outcome.err.count("\n")) == (4, 1)
    assert "is a node of Apache Kafka" in outcome.err
    node.close()
