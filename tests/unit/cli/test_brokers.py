"""`brokers`: what kraftd's leader knows of each, fenced ones too."""

from kraftd.protocol import messages as m
from kraftd.types import uuid_text
from tests.unit.cli.kraftctl import Kraftctl, Outcome
from tests.unit.cli.scripted import ScriptedKafkaNode, ScriptedQuorum

DIRECTORY = b"d" * 16


def brokers(kraftctl: Kraftctl, quorum: ScriptedQuorum, *more: object) -> Outcome:
    return kraftctl("--bootstrap-controller", quorum.bootstrap, "brokers", *more)


def broker(broker_id: int, **fields: object) -> m.ListBrokersResponseBroker:
    known = {
        "broker_epoch": 40,
        "incarnation_id": b"i" * 16,
        "listeners": (m.ListBrokersResponseListener("PLAINTEXT", f"b{broker_id}", 9_092),),
        "log_dirs": (DIRECTORY,),
    }
    return m.ListBrokersResponseBroker(broker_id, **(known | fields))  # type: ignore[arg-type]


ACTIVE = broker(
    1,
    rack="eu-central-1a",
    leader_count=4,
    in_sync_count=9,
    replica_count=9,
    last_contact_ms=812,
    metadata_offset=95,
)
FENCED = broker(2, is_fenced=True, replica_count=9)
STOPPING = broker(3, in_controlled_shutdown=True, last_contact_ms=15, metadata_offset=99, leader_count=1)


def serve(quorum: ScriptedQuorum, *entries: m.ListBrokersResponseBroker) -> None:
    def page(request: m.ListBrokersRequest) -> m.ListBrokersResponse:
        wanted = [
            each
            for each in entries
            if each.broker_id > request.after_broker_id
            and (request.broker_ids is None or each.broker_id in request.broker_ids)
        ]
        return m.ListBrokersResponse(
            applied_offset=100,
            session_timeout_ms=9_000,
            brokers=tuple(wanted[:1]),
            next_after_broker_id=wanted[0].broker_id if len(wanted) > 1 else -1,
        )

    quorum.nodes[2].responses[m.ListBrokersRequest] = page


def test_that_there_is_no_broker_is_said_beside_the_table(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    serve(quorum)
    assert brokers(kraftctl, quorum, "list") == (0, "", "kraftctl: no broker is registered\n")
    assert brokers(kraftctl, quorum, "list", "-o", "yaml") == (0, "[]\n", "")


def test_list_is_a_row_for_each_broker_in_80_columns(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    serve(quorum, ACTIVE, FENCED, STOPPING)
    assert brokers(kraftctl, quorum, "list").out.splitlines() == [
        "Broker  State          Epoch  Heartbeat  Lag  Leaders  InSync  Replicas  Rack",
        "1       active         40     812 ms     4    4        9       9         eu-central-1a",
        "2       fenced         40     -          -    0        0       9         -",
        "3       shutting down  40     15 ms      0    1        0       0         -",
    ]
    data = brokers(kraftctl, quorum, "list", "-o", "json").data
    assert data[0] == {
        "broker_id": 1,
        "state": "active",
        "broker_epoch": 40,
        "incarnation_id": uuid_text(b"i" * 16),
        "rack": "eu-central-1a",
        "listeners": ["PLAINTEXT://b1:9092"],
        "log_dirs": [uuid_text(DIRECTORY)],
        "cordoned_log_dirs": [],
        "last_contact_ms": 812,
        "session_timeout_ms": 9_000,
        "metadata_offset": 95,
        "metadata_lag": 4,
        "leaders": 4,
        "in_sync": 9,
        "replicas": 9,
    }
    assert [row["metadata_lag"] for row in data] == [4, -1, 0]


def test_describe_tells_all_of_the_brokers_named(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    serve(quorum, ACTIVE, FENCED, STOPPING)
    outcome = brokers(kraftctl, quorum, "describe", 2, 1)
    assert outcome.code == 0
    first, second = outcome.out.split("\n\n")
    assert "Heartbeat:              812 ms ago; fenced 9000 ms after the last one" in first.splitlines()
    assert "State:                  fenced" in second.splitlines()
    assert "Heartbeat:              -" in second.splitlines()


def test_a_broker_that_is_not_registered_is_4_beside_those_that_are(
    kraftctl: Kraftctl, quorum: ScriptedQuorum
) -> None:
    serve(quorum, ACTIVE)
    outcome = brokers(kraftctl, quorum, "describe", 9, 1, 8)
    assert (outcome.code, outcome.err) == (4, "kraftctl: there is no broker 8 and no broker 9\n")
    assert outcome.out.startswith("Broker:                 1\n")
    outcome = brokers(kraftctl, quorum, "describe", 9)
    assert (outcome.code, outcome.out) == (4, "")


def test_a_cluster_without_brokers_is_an_empty_list(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    serve(quorum)
    assert (brokers(kraftctl, quorum, "list").code, brokers(kraftctl, quorum, "list").out) == (0, "")
    assert brokers(kraftctl, quorum, "list", "-o", "json").data == []


def test_kafkas_own_controllers_have_no_list_of_brokers(kraftctl: Kraftctl) -> None:
    node = ScriptedKafkaNode(1)
    outcome = kraftctl("--bootstrap-controller", node.address, "brokers", "list")
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (4, "", 1)
    assert (
        f"{node.address} is a node of Apache Kafka, which cannot tell kraftctl about brokers" in outcome.err
    )
    node.close()
