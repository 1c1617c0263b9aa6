"""`partitions list|explain` and `brokers can-stop`: what is asked of the leader, and what is said of it."""

from typing import Any

import pytest

from kraftd.errors import ErrorCode
from kraftd.metadata.replica_states import RemovalReason, ReplicaState
from kraftd.protocol import messages as m
from kraftd.types import uuid_text
from tests.unit.cli.kraftctl import Kraftctl, Outcome
from tests.unit.cli.scripted import ScriptedQuorum

ORDERS, AUDIT = b"o" * 16, b"a" * 16
NOTHING, CLEAN, LOSSY = 0, 1, 2
ACTIVE, FENCED, SHUTTING_DOWN, UNREGISTERED = 0, 1, 2, 3
ONLINE, NOT_TOLD, GONE = 0, 1, 2


def ask(kraftctl: Kraftctl, quorum: ScriptedQuorum, *more: object) -> Outcome:
    return kraftctl("--bootstrap-controller", quorum.bootstrap, *more)


def partition(index: int, **fields: Any) -> m.ListPartitionsResponsePartition:
    known = {"leader_id": 1, "replicas": (1, 2, 3), "isr": (1, 2)} | fields
    return m.ListPartitionsResponsePartition(partition_index=index, **known)


def page(*topics: m.ListPartitionsResponseTopic, at: tuple[str, bytes, int] | None = None) -> Any:
    cursor = None if at is None else m.ListPartitionsResponseNextCursor(*at)
    return m.ListPartitionsResponse(topics=topics, next_cursor=cursor)


def topic(name: str, topic_id: bytes, *partitions: Any) -> m.ListPartitionsResponseTopic:
    return m.ListPartitionsResponseTopic(name, topic_id, 2, partitions)


# --- list


@pytest.mark.parametrize(
    ("flag", "condition", "says"),
    [
        ("--offline", 1, "no partition is offline"),
        ("--under-replicated", 2, "no partition is under-replicated"),
        ("--under-min-isr", 3, "no partition has fewer in sync than acks=all needs"),
        ("--at-min-isr", 4, "no partition has just as many in sync as acks=all needs"),
        ("--not-preferred", 5, "every partition that is led is led by its first replica"),
        ("--reassigning", 6, "no partition is being moved"),
    ],
)
def test_each_flag_asks_for_its_condition_and_says_that_none_is_in_it(
    kraftctl: Kraftctl, quorum: ScriptedQuorum, flag: str, condition: int, says: str
) -> None:
    asked = []
    quorum.nodes[2].responses[m.ListPartitionsRequest] = lambda request: asked.append(request) or page()
    outcome = ask(kraftctl, quorum, "partitions", "list", flag)
    assert outcome == (0, "", f"kraftctl: {says}\n")
    assert [request.condition for request in asked] == [condition]
    assert ask(kraftctl, quorum, "partitions", "list", flag, "-o", "json") == (0, "[]\n", "")


def test_pages_are_put_together_and_one_that_is_empty_is_not_the_last(
    kraftctl: Kraftctl, quorum: ScriptedQuorum
) -> None:
    pages = {
        None: page(topic("audit", AUDIT, partition(3, leader_id=-1, isr=())), at=("orders", ORDERS, 0)),
        0: page(at=("orders", ORDERS, 7)),
        7: page(
            topic(
                "orders",
                ORDERS,
                partition(7, eligible_leader_replicas=(3,), adding_replicas=(4,), removing_replicas=(1, 2)),
            )
        ),
    }
    quorum.nodes[2].responses[m.ListPartitionsRequest] = lambda request: pages[
        request.cursor and request.cursor.partition_index
    ]
    assert ask(kraftctl, quorum, "partitions", "list", "--offline").out.splitlines() == [
        "Partition  Leader  Replicas  Isr   Elr  MinIsr  Moves    Topic",
        "3          none    1,2,3     none  -    2       -        audit",
        "7          1       1,2,3     1,2   3    2       +4 -1,2  orders",
    ]
    (_, row) = ask(kraftctl, quorum, "partitions", "list", "--offline", "-o", "json").data
    assert row == {
        "topic": "orders",
        "topic_id": uuid_text(ORDERS),
        "partition": 7,
        "leader": 1,
        "replicas": [1, 2, 3],
        "isr": [1, 2],
        "elr": [3],
        "min_isr": 2,
        "adding_replicas": [4],
        "removing_replicas": [1, 2],
        "left_alone": False,
    }


def test_a_node_whose_pages_go_in_a_circle_is_refused(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    quorum.nodes[2].responses[m.ListPartitionsRequest] = lambda _: page(at=("a", AUDIT, 1))
    outcome = ask(kraftctl, quorum, "partitions", "list", "--offline")
    assert (outcome.code, outcome.out) == (4, "")
    assert "partitions: the next page does not come after the last" in outcome.err


@pytest.mark.parametrize("flags", [(), ("--offline", "--reassigning")])
def test_one_condition_is_named(kraftctl: Kraftctl, quorum: ScriptedQuorum, flags: tuple[str, ...]) -> None:
    outcome = ask(kraftctl, quorum, "partitions", "list", *flags)
    assert (outcome.code, outcome.out) == (64, "")
    assert "name one condition: --offline, --under-replicated, --under-min-isr," in outcome.err


# --- explain


def replica(broker_id: int, **fields: Any) -> m.ExplainPartitionResponseReplica:
    known = {"state": ReplicaState.ONLINE, "directory": b"d" * 16} | fields
    return m.ExplainPartitionResponseReplica(broker_id=broker_id, **known)


def findings(kraftctl: Kraftctl, quorum: ScriptedQuorum, **fields: Any) -> list[str]:
    state = "Online" if "leader_id" in fields else "Offline"
    response = m.ExplainPartitionResponse(**({"min_isr": 2, "state": state} | fields))
    quorum.nodes[2].responses[m.ExplainPartitionRequest] = lambda _: response
    data = ask(kraftctl, quorum, "partitions", "explain", "orders-3", "-o", "json").data
    return [str(text) for text in data["findings"]]


def test_a_partition_without_leader_is_explained_with_what_mends_it(
    kraftctl: Kraftctl, quorum: ScriptedQuorum
) -> None:
    response = m.ExplainPartitionResponse(
        topic_id=ORDERS,
        state="Offline",
        leader_epoch=5,
        min_isr=2,
        unclean_leader_id=2,
        replicas=(
            replica(1, state=ReplicaState.OFFLINE, broker_state=FENCED, is_in_sync=True, leads=CLEAN),
            replica(2, state=ReplicaState.NEW, is_adding=True),
            replica(
                3,
                state=ReplicaState.OFFLINE,
                broker_state=UNREGISTERED,
                is_eligible=True,
                directory_state=GONE,
            ),
        ),
        removals=(removal(4, ReplicaState.DELETION_INELIGIBLE, broker_state=FENCED),),
    )
    quorum.nodes[2].responses[m.ExplainPartitionRequest] = lambda _: response
    price = "what the others acknowledged and it lacks is lost for good"
    back = (
        "it is led again when broker 1, which is fenced, sends heartbeats and has caught up with the "
        "metadata: broker 1 leads it then, and nothing is lost"
    )
    command = "kraftctl elect --unclean my-orders-3"
    unclean = f"an unclean election makes broker 2 the leader now; {price}: {command}"
    outcome = ask(kraftctl, quorum, "partitions", "explain", "my-orders-3")
    assert quorum.nodes[2].seen[-1] == m.ExplainPartitionRequest("my-orders", 3)
    assert outcome.out.splitlines() == [
        "Partition:              my-orders-3",
        "State:                  Offline",
        "Leader:                 none",
        "LeaderEpoch:            5",
        "Isr:                    1",
        "MinIsr:                 2",
        "UncleanElection:        not allowed",
        "Replica  State               Broker          Directory  InSync    Move    LeadsIfBack",
        "1        Offline             fenced          online     yes       -       without loss",
        "2        New                 active          online     no        adding  no",
        "3        Offline             not registered  offline    eligible  -       no",
        "4        DeletionIneligible  fenced          -          -         -       -",
        f"- {back}",
        f"- {unclean}",
        "- a reassignment waits until it is led, and for broker 2 to be in sync",
        ("- the replica on broker 4 was taken away (reassigned); its data is there until the broker is back"),
    ]
    data = ask(kraftctl, quorum, "partitions", "explain", "my-orders-3", "-o", "json").data
    assert data["state"] == "OfflinePartition"
    assert [one["state"] for one in data["replicas"]] == ["OfflineReplica", "NewReplica", "OfflineReplica"]
    assert data["removed"] == [
        {
            "broker_id": 4,
            "state": "ReplicaDeletionIneligible",
            "broker": "fenced",
            "offset": 77,
            "reason": "reassigned",
            "data": "there until the broker is back",
            "set_aside": False,
            "heard": True,
            "directory_offline": False,
        }
    ]


def removal(broker_id: int, state: ReplicaState, **fields: Any) -> m.ExplainPartitionResponseRemoval:
    known = {"reason": RemovalReason.REASSIGNED, "is_heard": True, "offset": 77} | fields
    return m.ExplainPartitionResponseRemoval(broker_id=broker_id, state=state, **known)


@pytest.mark.parametrize(
    ("state", "removals", "expected"),
    [
        (
            "NonExistent",
            (
                removal(1, ReplicaState.DELETION_STARTED, reason=RemovalReason.TOPIC_DELETED),
                removal(2, ReplicaState.NON_EXISTENT, reason=RemovalReason.TOPIC_DELETED),
                removal(3, ReplicaState.DELETION_SUCCESSFUL, is_set_aside=True),
                removal(4, ReplicaState.DELETION_INELIGIBLE, is_directory_offline=True),
            ),
            [
                "Partition:              orders-3",
                "State:                  NonExistent",
                "Replica  State               Broker  Directory  InSync  Move  LeadsIfBack",
                "1        DeletionStarted     active  -          -       -     -",
                "2        NonExistent         active  -          -       -     -",
                "3        DeletionSuccessful  active  -          -       -     -",
                "4        DeletionIneligible  active  offline    -       -     -",
                "- there is no such partition any more: nothing brings it back",
                (
                    "- the replica on broker 1 was taken away (topic deleted); its data is there until the "
                    "broker reads the log"
                ),
                (
                    "- the replica on broker 3 was taken away (reassigned); its data is in -stray if it was "
                    "there: look"
                ),
                (
                    "- the replica on broker 4 was taken away (reassigned); its data is there, since its "
                    "log directory is offline"
                ),
            ],
        ),
        (
            "New",
            (),
            [
                "Partition:              orders-3",
                "State:                  New",
                "- it is decided, and committed once a majority of the controllers has it",
            ],
        ),
    ],
)
def test_a_partition_that_is_not_there_is_told_with_its_state_and_what_is_left_of_it(
    kraftctl: Kraftctl, quorum: ScriptedQuorum, state: str, removals: Any, expected: list[str]
) -> None:
    response = m.ExplainPartitionResponse(state=state, removals=removals)
    quorum.nodes[2].responses[m.ExplainPartitionRequest] = lambda _: response
    outcome = ask(kraftctl, quorum, "partitions", "explain", "orders-3")
    assert (outcome.code, outcome.out.splitlines()) == (0, expected)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"broker_state": UNREGISTERED}, "when broker 1, which is not registered, is started"),
        ({"broker_state": SHUTTING_DOWN}, "when broker 1, which is shutting down, has been started again"),
        (
            {"directory_state": GONE},
            "when broker 1 is started anew with the log directory of its replica, which is offline",
        ),
        (
            {"directory_state": GONE, "broker_state": FENCED},
            (
                "when broker 1, which is fenced, is started anew with the log directory of its replica, "
                "which is offline"
            ),
        ),
        ({}, "as soon as the next election is held for broker 1"),
    ],
)
def test_what_has_to_happen_to_a_replica_is_said(
    kraftctl: Kraftctl, quorum: ScriptedQuorum, fields: dict[str, int], expected: str
) -> None:
    told = findings(kraftctl, quorum, replicas=(replica(1, leads=LOSSY, **fields),))
    assert told[0] == (
        f"it is led again {expected}: broker 1 leads it then, and may lack records that were acknowledged"
    )


def test_where_a_clean_election_finds_a_leader_it_is_offered_first_and_no_unclean_one(
    kraftctl: Kraftctl, quorum: ScriptedQuorum
) -> None:
    replicas = (
        replica(1, broker_state=FENCED, is_in_sync=True, leads=CLEAN),
        replica(2, is_eligible=True, leads=CLEAN),
        replica(3, is_eligible=True, leads=CLEAN),
    )
    told = findings(kraftctl, quorum, unclean_leader_id=2, replicas=replicas)
    command = "kraftctl elect --preferred orders-3"
    assert told == [
        f"a preferred election makes broker 2 the leader now, and nothing is lost: {command}",
        (
            "it is led again when broker 1, which is fenced, sends heartbeats and has caught up with the "
            "metadata: broker 1 leads it then, and nothing is lost"
        ),
    ]


@pytest.mark.parametrize("fields", [{"leads": LOSSY}, {"leads": CLEAN, "directory_state": GONE}])
def test_an_unclean_election_is_offered_where_no_clean_one_finds_a_leader(
    kraftctl: Kraftctl, quorum: ScriptedQuorum, fields: dict[str, int]
) -> None:
    told = findings(kraftctl, quorum, unclean_leader_id=1, replicas=(replica(1, **fields),))
    assert not any("--preferred" in text for text in told)
    assert told[-1].endswith("kraftctl elect --unclean orders-3")


def test_where_nobody_can_lead_that_is_said(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    assert findings(kraftctl, quorum, replicas=(replica(1, broker_state=FENCED),)) == [
        "no replica that may lead it is known: no broker that comes back brings it back",
        "an unclean election finds nobody now: no replica's broker is active",
    ]


def test_an_active_broker_without_the_directory_is_not_said_to_be_down(
    kraftctl: Kraftctl, quorum: ScriptedQuorum
) -> None:
    replicas = (replica(1, broker_state=FENCED), replica(2, directory_state=GONE))
    assert findings(kraftctl, quorum, replicas=replicas)[-1] == (
        "an unclean election finds nobody now: no broker that is active has the log directory of its replica"
    )


def test_who_is_eligible_and_has_lost_its_directory_is_not_so_once_it_is_back(
    kraftctl: Kraftctl, quorum: ScriptedQuorum
) -> None:
    """Broker 3 led last: it leads only once no broker is eligible any more."""
    lost = {"is_eligible": True, "directory_state": GONE}
    told = findings(kraftctl, quorum, replicas=(replica(1, **lost), replica(2, **lost), replica(3)))
    assert told[0] == (
        "no replica is known that leads it without loss: a start that brings an offline log directory back "
        "makes brokers 1,2 not eligible, as after a crash; the last known leader, if there is one, leads it "
        "then, and may lack records that were acknowledged"
    )
    told = findings(kraftctl, quorum, replicas=(replica(1, **lost), replica(3, directory_state=GONE)))
    assert "makes broker 1 not eligible" in told[0]


def test_of_a_partition_that_is_led_it_is_said_who_lags_and_why(
    kraftctl: Kraftctl, quorum: ScriptedQuorum
) -> None:
    replicas = (
        replica(1, broker_state=FENCED),
        replica(2, directory_state=GONE),
        replica(3),
        replica(4, is_in_sync=True),
        replica(5, is_adding=True),
    )
    told = findings(kraftctl, quorum, leader_id=4, is_leader_recovering=True, replicas=replicas)
    assert told == [
        (
            "broker 4 was not in sync when it was elected (uncleanly, or as the last known leader): it may "
            "lack records that were acknowledged"
        ),
        "broker 1 is not in sync: it is fenced",
        "broker 2 is not in sync: the log directory of its replica is offline",
        "broker 3 is not in sync: it runs, and has not caught up with the leader; its own log says why",
        "writes with acks=all are refused: 1 of 2 that they need are in sync",
        "a reassignment waits for broker 5 to be in sync",
        "broker 4 leads it, and not broker 1, which is preferred",
    ]


@pytest.mark.parametrize(
    ("leader_id", "isr", "expected"),
    [
        (1, {1}, "a reassignment waits for broker 2 to be in sync"),
        (
            2,
            {2},
            (
                "a reassignment to brokers 2,3 waits for nobody any more: asked for again, it ends "
                "(kraftctl reassign execute)"
            ),
        ),
        (-1, set[int](), "a reassignment waits until it is led, and for broker 2 to be in sync"),
        (-1, {2}, "a reassignment waits until it is led"),
    ],
)
def test_what_a_reassignment_waits_for_is_said(
    kraftctl: Kraftctl, quorum: ScriptedQuorum, leader_id: int, isr: set[int], expected: str
) -> None:
    replicas = (
        replica(2, is_adding=True, is_in_sync=2 in isr),
        replica(3),
        replica(1, is_removing=True, is_in_sync=1 in isr),
    )
    led = {"leader_id": leader_id} if leader_id >= 0 else {}
    told = findings(kraftctl, quorum, replicas=replicas, **led)
    assert [text for text in told if "reassignment" in text] == [expected]


def test_a_reassignment_to_fewer_replicas_waits_for_all_that_stay(
    kraftctl: Kraftctl, quorum: ScriptedQuorum
) -> None:
    replicas = (replica(1), replica(2, is_in_sync=True), replica(3, is_removing=True))
    told = findings(kraftctl, quorum, leader_id=2, replicas=replicas)
    assert "a reassignment waits for broker 1 to be in sync" in told


def test_a_partition_that_is_well_is_said_to_be(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    response = m.ExplainPartitionResponse(
        state="Online",
        leader_id=1,
        min_isr=1,
        replicas=(replica(1, is_in_sync=True), replica(2, is_in_sync=True)),
    )
    quorum.nodes[2].responses[m.ExplainPartitionRequest] = lambda _: response
    data = ask(kraftctl, quorum, "partitions", "explain", "orders-0", "-o", "json").data
    assert data["state"] == "OnlinePartition", "Kafka's name"
    assert [one["leads"] for one in data["replicas"]] == ["yes", "no"]
    assert ask(kraftctl, quorum, "partitions", "explain", "orders-0").out.splitlines()[1].split() == [
        "State:",
        "Online",
    ]
    assert ask(kraftctl, quorum, "partitions", "explain", "orders-0").out.splitlines()[-3:] == [
        "1        Online  active  online     yes     -     -",
        "2        Online  active  online     yes     -     -",
        "- nothing is wrong with it",
    ]


@pytest.mark.parametrize("text", ["orders", "orders-", "-3", "orders-x", "orders-\u0663"])
def test_what_names_no_partition_is_refused(kraftctl: Kraftctl, quorum: ScriptedQuorum, text: str) -> None:
    outcome = ask(kraftctl, quorum, "partitions", "explain", "--", text)
    assert (outcome.code, outcome.out) == (64, "")
    assert "names no partition; write TOPIC-PARTITION, as orders-3" in outcome.err


@pytest.mark.parametrize("number", ["2147483648", "9" * 5_000])
def test_a_number_that_no_partition_has_is_told_as_such(
    kraftctl: Kraftctl, quorum: ScriptedQuorum, number: str
) -> None:
    outcome = ask(kraftctl, quorum, "partitions", "explain", f"orders-{number}")
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (64, "", 1)
    assert "names no partition: their numbers are 0 to 2147483647" in outcome.err or len(number) > 100


def test_a_partition_that_is_not_there_is_refused(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    response = m.ExplainPartitionResponse(
        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, error_message="there is no such topic"
    )
    quorum.nodes[2].responses[m.ExplainPartitionRequest] = lambda _: response
    outcome = ask(kraftctl, quorum, "partitions", "explain", "orders-3")
    assert (outcome.code, outcome.out) == (4, "")
    assert "there is no partition orders-3: there is no such topic" in outcome.err


# --- can-stop


def broker(quorum: ScriptedQuorum, *ids: int) -> None:
    entries = tuple(m.ListBrokersResponseBroker(broker_id=one) for one in ids)
    quorum.nodes[2].responses[m.ListBrokersRequest] = lambda _: m.ListBrokersResponse(brokers=entries)


def test_a_broker_that_is_needed_is_told_with_the_partitions(
    kraftctl: Kraftctl, quorum: ScriptedQuorum
) -> None:
    broker(quorum, 2)
    needed = page(
        topic("orders", ORDERS, partition(0, isr=(2,), is_left_alone=True), partition(1, isr=(1, 2)))
    )
    quorum.nodes[2].responses[m.ListPartitionsRequest] = lambda _: needed
    outcome = ask(kraftctl, quorum, "brokers", "can-stop", "2")
    assert quorum.nodes[2].seen[-1] == m.ListPartitionsRequest(7, 2)
    assert (outcome.code, outcome.out.splitlines()) == (
        5,
        [
            "Broker 2 is needed: 1 partition without leader, 1 without acks=all if it stops.",
            "Partition  Replicas  Isr  MinIsr  Without      Topic",
            "0          1,2,3     2    2       no leader    orders",
            "1          1,2,3     1,2  2       no acks=all  orders",
        ],
    )


def test_a_broker_that_nobody_needs_can_stop(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    broker(quorum, 2)
    quorum.nodes[2].responses[m.ListPartitionsRequest] = lambda _: page()
    outcome = ask(kraftctl, quorum, "brokers", "can-stop", "2")
    assert (outcome.code, outcome.out) == (
        0,
        "Broker 2 can stop: no partition loses its leader or acks=all by that.\n",
    )
    data = ask(kraftctl, quorum, "brokers", "can-stop", "2", "-o", "json").data
    assert data == {
        "broker_id": 2,
        "state": "active",
        "can_stop": True,
        "without_leader": [],
        "under_min_isr": [],
        "offline": [],
    }
    assert {one.condition for one in quorum.nodes[2].seen if isinstance(one, m.ListPartitionsRequest)} == {7}


def test_offline_partitions_that_wait_for_a_broker_that_hangs_are_told(
    kraftctl: Kraftctl, quorum: ScriptedQuorum
) -> None:
    entry = m.ListBrokersResponseBroker(broker_id=2, is_fenced=True)
    quorum.nodes[2].responses[m.ListBrokersRequest] = lambda _: m.ListBrokersResponse(brokers=(entry,))
    waiting = (
        partition(1, leader_id=-1, isr=(2,)),
        partition(2, leader_id=-1, isr=(), eligible_leader_replicas=(1, 2)),
    )
    others = (partition(0, leader_id=-1, isr=(1,)), partition(3, leader_id=-1, isr=()))
    found = {1: page(topic("orders", ORDERS, *waiting, *others)), 7: page()}
    quorum.nodes[2].responses[m.ListPartitionsRequest] = lambda request: found[request.condition]
    outcome = ask(kraftctl, quorum, "brokers", "can-stop", "2")
    assert (outcome.code, outcome.out.splitlines()[2:]) == (
        0,
        ["2 offline partitions wait for it: before it is killed, see kraftctl partitions explain orders-1."],
    )
    data = ask(kraftctl, quorum, "brokers", "can-stop", "2", "-o", "json").data
    assert [row["partition"] for row in data["offline"]] == [1, 2]


@pytest.mark.parametrize(
    ("fields", "state", "already"),
    [
        (
            {"is_fenced": True},
            "fenced",
            "It is fenced already: it is down, or sends no heartbeats, and leads nothing.",
        ),
        ({"in_controlled_shutdown": True}, "shutting down", "It is shutting down already."),
    ],
)
def test_a_broker_that_is_not_active_is_said_to_be_so(
    kraftctl: Kraftctl, quorum: ScriptedQuorum, fields: dict[str, bool], state: str, already: str
) -> None:
    entry = m.ListBrokersResponseBroker(broker_id=2, **fields)
    quorum.nodes[2].responses[m.ListBrokersRequest] = lambda _: m.ListBrokersResponse(brokers=(entry,))
    needed = page(topic("orders", ORDERS, partition(0, isr=(2,), is_left_alone=True)))
    for found in (page(), needed):
        quorum.nodes[2].responses[m.ListPartitionsRequest] = lambda _, found=found: found
        assert ask(kraftctl, quorum, "brokers", "can-stop", "2").out.splitlines()[1] == already
    assert ask(kraftctl, quorum, "brokers", "can-stop", "2", "-o", "json").data["state"] == state


def test_a_broker_that_is_not_registered_is_refused(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    broker(quorum)
    outcome = ask(kraftctl, quorum, "brokers", "can-stop", "2")
    assert (outcome.code, outcome.out) == (4, "")
    assert "there is no broker 2" in outcome.err
