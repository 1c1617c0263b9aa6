"""`reassign`: files that are read, requests over Kafka's wire, and what is told of each partition."""

import io
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from kraftd.cli.failures import RefusedError, UnhealthyError, UnknownOutcomeError, UsageError
from kraftd.cli.outcomes import Outcomes
from kraftd.cli.reassign import (
    _check_factor,
    inactive_text,
    offline_directory_text,
    offline_text,
    parse_brokers,
    share_text,
    stuck_text,
)
from kraftd.cli.reassignment_changes import PARTITIONS_PER_REQUEST, begin
from kraftd.cli.reassignment_file import assignment_data, assignment_line, read_assignment
from kraftd.cli.reassignment_progress import partitions_of, progress
from kraftd.errors import ErrorCode
from kraftd.protocol import messages as m
from kraftd.types import parse_endpoint, uuid_text
from tests.unit.cli.kraftctl import Kraftctl, Outcome
from tests.unit.cli.scripted import ScriptedKafkaNode, ScriptedQuorum

NOT_TOLD, LOST = (uuid_text(bytes(15) + bytes([number])) for number in (1, 2))
ALTER, LIST = m.AlterPartitionReassignmentsRequest, m.ListPartitionReassignmentsRequest
PLAN = {("a", 0): (1, 2), ("b", 3): (2,)}


@pytest.fixture
def node() -> Iterator[ScriptedKafkaNode]:
    node = ScriptedKafkaNode(7)
    yield node
    node.close()


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "plan.json"
    path.write_text(assignment_line(PLAN))
    return path


def reassign(kraftctl: Kraftctl, node: ScriptedKafkaNode, *more: object) -> Outcome:
    return kraftctl("--bootstrap-controller", node.address, "reassign", *more)


def altered(request: Any, *codes: int, message: str | None = None, top: int = 0) -> Any:
    """A response with these codes, the last one for all that are left."""
    left = list(codes or (0,))
    topics = []
    for topic in request.topics:
        told = [
            m.AlterPartitionReassignmentsResponseReassignablePartitionResponse(
                one.partition_index, left.pop(0) if len(left) > 1 else left[0], message
            )
            for one in topic.partitions
        ]
        topics.append(m.AlterPartitionReassignmentsResponseReassignableTopicResponse(topic.name, tuple(told)))
    return m.AlterPartitionReassignmentsResponse(
        error_code=top, error_message=message, responses=tuple(topics)
    )


def moving(*keys: tuple[str, int]) -> m.ListPartitionReassignmentsResponse:
    return m.ListPartitionReassignmentsResponse(
        topics=tuple(
            m.ListPartitionReassignmentsResponseOngoingTopicReassignment(
                name, (m.ListPartitionReassignmentsResponseOngoingPartitionReassignment(number),)
            )
            for name, number in keys
        )
    )


def asked(node: ScriptedKafkaNode) -> list[tuple[str, int, tuple[int, ...] | None]]:
    return [
        (topic.name, one.partition_index, one.replicas)
        for request in node.seen
        if isinstance(request, ALTER)
        for topic in request.topics
        for one in topic.partitions
    ]


# -- files


def test_a_file_is_read_as_it_is_written(plan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_assignment(str(plan)) == PLAN
    text = json.dumps({**assignment_data(PLAN), "rollback": {}, "comment": "whatever"})
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert read_assignment("-") == PLAN


def entry(**other: Any) -> dict[str, Any]:
    return {"topic": "t", "partition": 0, "replicas": [1]} | other


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "it is no JSON; it must hold a plan, as of reassign plan -o json: {"),
        ('{"partitions":[]} x', "it is no JSON near byte 19; it must hold a plan"),
        ("\xff", "it is no JSON near byte 0; it must hold a plan"),
        ('{"partitions":[{"topic":"\xff"}]}', "it is no JSON; it must hold a plan"),
        ("[]", "it is no plan; it must hold a plan"),
        ("{}", "it is no plan"),
        ({"partitions": 3}, "partitions: must be a list of partitions"),
        ({"partitions": [7]}, "partitions[0]: must have a topic, a partition and replicas"),
        ({"partitions": [entry()], "version": "1"}, "version: must be 1"),
        ({"version": 2, "partitions": [entry()]}, "it is of version 2"),
        ({"partitions": [{"topic": "t"}]}, "partitions[0]: must have a topic, a partition and replicas"),
        (
            {"partitions": [entry(), entry(topic="")]},
            "partitions[1].topic: must be the name of a topic",
        ),
        ({"partitions": [entry(topic="a\nb")]}, "no line break"),
        (
            {"partitions": [entry(partition="0")]},
            "partitions[0].partition: must be the number of a partition, 0 to 2147483647",
        ),
        ({"partitions": [entry(partition=-1)]}, "partitions[0].partition: must be the number of a partition"),
        ({"partitions": [entry(replicas=[])]}, "partitions[0].replicas: must name at least one broker"),
        (
            {"partitions": [entry(replicas=[1, -1])]},
            "partitions[0].replicas[1]: must be the id of a broker",
        ),
        ({"partitions": [entry(log_dirs=[1])]}, 'partitions[0].log_dirs[0]: must be "any"'),
        ({"partitions": [entry(replicas=[1, 2, 1])]}, "partition 0 of t has broker 1 twice"),
        ({"partitions": [entry(), entry(replicas=[2])]}, "partition 0 of t stands there twice"),
        ({"partitions": [entry(log_dirs=["/var"])]}, "a named log directory"),
    ],
)
def test_a_file_that_is_wrong_is_one_line(
    kraftctl: Kraftctl, node: ScriptedKafkaNode, tmp_path: Path, content: Any, says: str
) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes((content if isinstance(content, str) else json.dumps(content)).encode("latin-1"))
    for command in ("execute", "verify", "cancel"):
        outcome = reassign(kraftctl, node, command, "--file", path)
        assert (outcome.code, outcome.out, outcome.err.count("\n")) == (64, "", 1)
        assert outcome.err.startswith(f"kraftctl: {path}: ")
        assert says in outcome.err
    assert node.seen == []


@pytest.mark.parametrize("content", ["", " \n"])
def test_an_empty_file_is_said_to_be_empty_and_what_it_must_hold(
    kraftctl: Kraftctl, node: ScriptedKafkaNode, tmp_path: Path, content: str
) -> None:
    file = tmp_path / "plan.json"
    file.write_text(content)
    for command in ("execute", "verify", "cancel"):
        outcome = kraftctl("--bootstrap-controller", node.address, "reassign", command, "--file", file)
        assert (outcome.code, outcome.out, outcome.err.count("\n")) == (64, "", 1)
        told, _, example = outcome.err.partition("-o json: ")
        assert told == f"kraftctl: {file}: it is empty; it must hold a plan, as of reassign plan "
        file.write_text(example)
        assert read_assignment(str(file)) == {("orders", 0): (11, 12)}
        file.write_text(content)
    assert node.seen == []


@pytest.mark.parametrize("command", ["execute", "verify", "cancel"])
def test_a_plan_by_which_nothing_moves_is_carried_out_without_asking_anybody(
    kraftctl: Kraftctl, node: ScriptedKafkaNode, tmp_path: Path, command: str
) -> None:
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({**assignment_data({}), "rollback": assignment_data({})}))
    said = f"Nothing of {file} is being moved.\n" if command == "cancel" else "Nothing is to be moved.\n"
    assert reassign(kraftctl, node, command, "--file", file) == (0, said, "")
    data = reassign(kraftctl, node, command, "--file", file, "-o", "json").data
    assert data == ({"rollback": assignment_data({}), "started": []} if command == "execute" else [])
    assert node.seen == []


def test_any_directory_is_what_kafkas_tool_writes(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"partitions": [entry(log_dirs=["any"])]}))
    assert read_assignment(str(path)) == {("t", 0): (1,)}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["execute", "--file", "/no/such/file"], "/no/such/file: No such file or directory"),
        (["cancel"], "either --file FILE or --all"),
        (["cancel", "--all", "--file", "x"], "either --file FILE or --all"),
        (["plan", "--topic", "t", "--brokers", "1,x"], "write their ids, as 1,2,3"),
        (["plan", "--topic", "t", "--brokers", "1,-2"], "write their ids, as 1,2,3"),
        (["plan", "--topic", "t", "--brokers", "2,1,2"], "names a broker twice"),
        (["plan", "--topic", "a\nb", "--brokers", "1"], "no line break"),
        (
            ["plan", "--topic", "t", "--brokers", "1", "--replication-factor", 0],
            "0 is not in the range from 1 to",
        ),
    ],
)
def test_what_makes_no_sense_is_not_sent(
    kraftctl: Kraftctl, node: ScriptedKafkaNode, arguments: list[object], says: str
) -> None:
    outcome = reassign(kraftctl, node, *arguments)
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (64, "", 1)
    assert says in outcome.err
    assert node.seen == []


def test_brokers_are_named_in_any_order() -> None:
    assert parse_brokers("3, 1,2") == [1, 2, 3]
    with pytest.raises(UsageError):
        parse_brokers("")


# -- calling off


def test_all_that_is_moved_is_called_off(kraftctl: Kraftctl, node: ScriptedKafkaNode) -> None:
    node.responses[LIST] = lambda _: moving(("b", 3), ("a", 0))
    node.responses[ALTER] = altered
    outcome = reassign(kraftctl, node, "cancel", "--all")
    assert outcome == (0, "Called off: partition 0 of a.\nCalled off: partition 3 of b.\n", "")
    assert asked(node) == [("a", 0, None), ("b", 3, None)]
    told = reassign(kraftctl, node, "cancel", "--all", "-o", "json").data
    assert told == [{"topic": "a", "partition": 0}, {"topic": "b", "partition": 3}]


def test_of_a_file_what_is_moved_is_called_off(
    kraftctl: Kraftctl, node: ScriptedKafkaNode, plan: Path
) -> None:
    node.responses[ALTER] = lambda request: altered(request, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, 0)
    outcome = reassign(kraftctl, node, "cancel", "--file", plan)
    assert (outcome.code, outcome.out) == (0, "Called off: partition 3 of b.\n")
    assert outcome.err == "kraftctl: 1 of 2 partitions was not being moved\n"
    assert asked(node) == [("a", 0, None), ("b", 3, None)]


def test_where_nothing_of_a_file_is_moved_that_is_said_of_the_file_alone(
    kraftctl: Kraftctl, node: ScriptedKafkaNode, plan: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.responses[ALTER] = lambda request: altered(request, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    outcome = reassign(kraftctl, node, "cancel", "--file", plan)
    assert outcome == (0, f"Nothing of {plan} is being moved.\n", "")
    assert reassign(kraftctl, node, "cancel", "--file", plan, "-o", "json").data == []
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(plan.read_bytes())))
    outcome = reassign(kraftctl, node, "cancel", "--file", "-")
    assert outcome.out == "Nothing of standard input is being moved.\n"


@pytest.mark.parametrize(
    ("other", "out"),
    [(0, "Called off: partition 3 of b.\n"), (ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "")],
)
def test_what_is_not_there_is_named_and_the_rest_called_off(
    kraftctl: Kraftctl, node: ScriptedKafkaNode, plan: Path, other: int, out: str
) -> None:
    node.responses[ALTER] = lambda request: altered(
        request, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, other, message='There is no topic "a".'
    )
    outcome = reassign(kraftctl, node, "cancel", "--file", plan)
    assert (outcome.code, outcome.out) == (4, out)
    assert outcome.err == 'kraftctl: partition 0 of a was not called off: There is no topic "a".\n'


def test_where_nothing_is_moved_nothing_is_called_off(kraftctl: Kraftctl, node: ScriptedKafkaNode) -> None:
    node.responses[LIST] = lambda _: moving()
    assert reassign(kraftctl, node, "cancel", "--all") == (0, "Nothing is being moved.\n", "")
    assert asked(node) == []


def test_what_is_refused_is_told_beside_what_was_done(kraftctl: Kraftctl, node: ScriptedKafkaNode) -> None:
    node.responses[LIST] = lambda _: moving(("a", 0), ("b", 3))
    node.responses[ALTER] = lambda request: altered(
        request, 0, ErrorCode.INVALID_REPLICA_ASSIGNMENT, message="It would lose records."
    )
    outcome = reassign(kraftctl, node, "cancel", "--all")
    assert (outcome.code, outcome.out) == (4, "Called off: partition 0 of a.\n")
    assert outcome.err == "kraftctl: partition 3 of b was not called off: It would lose records.\n"


@pytest.mark.parametrize(
    ("count", "named"),
    [
        (2, "partition 0 of a, partition 1 of a"),
        (3, "partition 0 of a, partition 1 of a, partition 2 of a"),
        (4, "partition 0 of a, partition 1 of a, … (4)"),
    ],
)
def test_what_is_refused_for_one_reason_is_one_error(
    kraftctl: Kraftctl, node: ScriptedKafkaNode, count: int, named: str
) -> None:
    node.responses[LIST] = lambda _: moving(*(("a", number) for number in range(count)), ("b", 0))
    node.responses[ALTER] = lambda request: altered(
        request, *[ErrorCode.INVALID_REPLICA_ASSIGNMENT] * count, ErrorCode.POLICY_VIOLATION, message="No."
    )
    outcome = reassign(kraftctl, node, "cancel", "--all")
    assert (outcome.code, outcome.out) == (4, "")
    assert outcome.err == (
        f"kraftctl: {named} were not called off: No; partition 0 of b was not called off: No.\n"
    )


@pytest.mark.parametrize(
    ("top", "code", "says"),
    [
        (ErrorCode.NOT_CONTROLLER, 5, "was not called off: no"),
        (ErrorCode.REQUEST_TIMED_OUT, 5, "whether partition 0 of a was changed is unknown: no"),
        (ErrorCode.POLICY_VIOLATION, 4, "was not called off: no"),
    ],
)
def test_an_error_of_the_whole_request_is_that_of_each_partition(
    kraftctl: Kraftctl, node: ScriptedKafkaNode, top: ErrorCode, code: int, says: str
) -> None:
    node.responses[LIST] = lambda _: moving(("a", 0))
    node.responses[ALTER] = lambda request: altered(request, top, message="no", top=top)
    outcome = reassign(kraftctl, node, "cancel", "--all", "--timeout-ms", 300)
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (code, "", 1)
    assert says in outcome.err


def test_a_change_whose_answer_is_lost_is_not_repeated(kraftctl: Kraftctl, node: ScriptedKafkaNode) -> None:
    node.responses[LIST] = lambda _: moving(("a", 0), ("b", 3))
    node.responses[ALTER] = lambda _: None
    outcome = reassign(kraftctl, node, "cancel", "--all")
    assert (outcome.code, outcome.out) == (5, "")
    assert "whether partition 0 of a and 1 more was changed is unknown" in outcome.err
    assert len(asked(node)) == 2


# -- moving


def test_many_partitions_go_in_several_requests_and_none_follows_one_that_failed(
    node: ScriptedKafkaNode,
) -> None:
    wanted = {("t", number): (1,) for number in range(2 * PARTITIONS_PER_REQUEST + 1)}
    endpoints = [parse_endpoint(node.address)]
    node.responses[ALTER] = altered
    outcomes = begin(endpoints, wanted, 5_000, may_change_factor=False)
    assert (len(outcomes.rows), outcomes.failures) == (len(wanted), ())
    requests = [each for each in node.seen if isinstance(each, ALTER)]
    assert [len(each.topics[0].partitions) for each in requests] == [1_000, 1_000, 1]
    assert not any(each.allow_replication_factor_change for each in requests)
    node.seen.clear()
    node.responses[ALTER] = lambda request: (
        None if request.topics[0].partitions[0].partition_index else altered(request)
    )
    outcomes = begin(endpoints, wanted, 5_000, may_change_factor=True)
    assert (len(outcomes.rows), len(outcomes.failures), len(asked(node))) == (1_000, 1, 2_000)


ROLLBACK = f"Present assignment, for a rollback:\n{assignment_line({('a', 0): (1,), ('b', 3): (1,)})}\n\n"


@pytest.mark.parametrize(
    ("outcome", "code", "told"),
    [
        (Outcomes(({"topic": "a", "partition": 0, "replicas": [1, 2]},), ()), 0, ROLLBACK),
        (Outcomes((), (RefusedError("no"),)), 4, ""),
        (Outcomes((), (RefusedError("no"), UnknownOutcomeError("who knows"))), 5, ROLLBACK),
        (UnhealthyError("no leader"), 5, ""),
        (UnknownOutcomeError("who knows"), 5, ROLLBACK),
        (KeyboardInterrupt(), 130, ROLLBACK),
    ],
)
def test_a_rollback_is_told_where_anything_may_have_begun(
    kraftctl: Kraftctl,
    plan: Path,
    monkeypatch: pytest.MonkeyPatch,
    outcome: Outcomes | BaseException,
    code: int,
    told: str,
) -> None:
    begun = Mock(side_effect=[outcome])
    done = executed(kraftctl, monkeypatch, plan, dict.fromkeys(PLAN, now(replicas=[1])), begun)
    assert (done.code, done.out.partition("Started:")[0]) == (code, told)


def now(**fields: Any) -> dict[str, Any]:
    """A partition as it is."""
    (partition,) = described(**({"isr": [1], "leader": 1, "elr": [], "last_known_elr": []} | fields))[
        "partitions"
    ]
    return dict(partition)


def executed(
    kraftctl: Kraftctl,
    monkeypatch: pytest.MonkeyPatch,
    plan: Path,
    there: dict[tuple[str, int], dict[str, Any]],
    begun: Any,
    *more: str,
    brokers: Sequence[dict[str, Any]] = (),
) -> Outcome:
    """What `execute` says where that is there."""
    monkeypatch.setattr("kraftd.cli.reassign._described", lambda *_, **__: there)
    monkeypatch.setattr("kraftd.cli.reassign.registered_brokers", lambda *_: brokers)
    monkeypatch.setattr("kraftd.cli.reassign.reassignment_changes.begin", begun)
    return kraftctl("--bootstrap-controller", "127.0.0.1:1", "reassign", "execute", "--file", plan, *more)


def accepted(_endpoints: object, wanted: Any, _timeout_ms: int, **_: object) -> Outcomes:
    """Every move is begun, or is over already: the response is the same."""
    return Outcomes(
        tuple(
            {"topic": key[0], "partition": key[1], "replicas": [*replicas]}
            for key, replicas in wanted.items()
        ),
        (),
    )


def test_what_is_as_the_file_wants_it_was_not_started(
    kraftctl: Kraftctl, plan: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    complete = now(replicas=[2])
    there = {("a", 0): now(), ("b", 3): complete}
    done = executed(kraftctl, monkeypatch, plan, there, accepted)
    said = "kraftctl: 2 of 2 partitions are what the file wants already\n"
    assert done == (0, "Nothing is to be moved.\n", said)
    done = executed(kraftctl, monkeypatch, plan, there, accepted, "-o", "json")
    assert done.data["started"] == []
    there[("a", 0)] = now(replicas=[1])
    done = executed(kraftctl, monkeypatch, plan, there, accepted)
    assert done.out.splitlines()[-3:] == ["Started:", "Partition  Wanted  Topic", "0          1,2     a"]
    assert done.err == "kraftctl: 1 of 2 partitions is what the file wants already\n"
    there[("a", 0)] = now(adding_replicas=[2])
    assert "Started:" in executed(kraftctl, monkeypatch, plan, there, accepted).out, "it may end by that"


def test_an_older_node_cannot_keep_the_number_of_replicas(kraftctl: Kraftctl) -> None:
    old = ScriptedKafkaNode(7, versions={45: 0})
    old.responses[ALTER] = altered
    with pytest.raises(Exception, match="does not know how to keep the number of replicas"):
        begin([parse_endpoint(old.address)], PLAN, 5_000, may_change_factor=False)
    assert begin([parse_endpoint(old.address)], PLAN, 5_000, may_change_factor=True).rows[0] == {
        "topic": "a",
        "partition": 0,
        "replicas": [1, 2],
    }
    old.close()


# -- how far it is


def described(**fields: Any) -> dict[str, Any]:
    plain = {
        "partition": 0,
        "replicas": [1, 2],
        "isr": [1, 2],
        "adding_replicas": [],
        "removing_replicas": [],
    }
    one = plain | fields
    return {"topic": "a", "partitions": [{"directories": [NOT_TOLD] * len(one["replicas"])} | one]}


@pytest.mark.parametrize(
    ("there", "state", "catching_up", "to_remove"),
    [
        ([], "unknown", [], []),
        ([described(partition=1)], "unknown", [], []),
        ([described()], "complete", [], []),
        ([described(replicas=[2, 1])], "differs", [], []),
        ([described(replicas=[1, 3])], "differs", [], []),
        (
            [described(replicas=[1, 2, 3], isr=[1, 3], adding_replicas=[2], removing_replicas=[3])],
            "in progress",
            [2],
            [3],
        ),
        (
            [described(replicas=[1, 2, 3, 4], isr=[1, 3], removing_replicas=[3, 4])],
            "in progress",
            [2],
            [3, 4],
        ),
        ([described(replicas=[1, 5, 2], adding_replicas=[5])], "differs", [5], []),
    ],
)
def test_how_far_a_partition_is(
    there: list[dict[str, Any]], state: str, catching_up: list[int], to_remove: list[int]
) -> None:
    (row,) = progress({("a", 0): (1, 2)}, partitions_of(there))
    assert (row["state"], row["catching_up"], row["to_remove"]) == (state, catching_up, to_remove)


@pytest.mark.parametrize(
    "command",
    [["plan", "--topic", "t", "--brokers", "1"], ["execute", "--file"], ["verify", "--file"]],
)
def test_kafkas_own_controllers_do_not_tell_of_topics(
    kraftctl: Kraftctl, node: ScriptedKafkaNode, plan: Path, command: list[str]
) -> None:
    outcome = reassign(kraftctl, node, *command, *([plan] if command[-1] == "--file" else []))
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (4, "", 1)
    assert "is a node of Apache Kafka" in outcome.err


@pytest.mark.parametrize(
    ("count", "of_all", "says"),
    [(1, 1, "1 of 1 partition is"), (1, 2, "1 of 2 partitions is"), (2, 2, "2 of 2 partitions are")],
)
def test_one_partition_is_and_several_are(count: int, of_all: int, says: str) -> None:
    assert share_text(count, of_all, "is", "are") == says


@pytest.mark.parametrize(
    ("count", "says"),
    [
        (0, ""),
        (1, "1 move waits for nobody any more: reassign execute with the same file ends it"),
        (2, "2 moves wait for nobody any more: reassign execute with the same file ends them"),
    ],
)
def test_a_move_that_waits_for_nobody_is_told_with_what_ends_it(count: int, says: str) -> None:
    """Broker 1, which was added, was elected uncleanly: it is in sync, and 3 still there."""
    wanted = {("a", number): (1,) for number in range(3)}
    elected = {"replicas": [1, 3], "adding_replicas": [1], "removing_replicas": [3]}
    there = [
        {
            "topic": "a",
            "partitions": [
                now(partition=0, replicas=[1]),
                *(now(partition=one, isr=[1 if one <= count else 3], **elected) for one in (1, 2)),
            ],
        }
    ]
    assert stuck_text(progress(wanted, partitions_of(there))) == says


def test_verify_says_that_a_move_waits_for_nobody(
    kraftctl: Kraftctl, plan: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck = now(replicas=[1, 2, 3], isr=[1, 2], removing_replicas=[3])
    found = [
        {"topic": "a", "partitions": [stuck]},
        {"topic": "b", "partitions": [now(partition=3, replicas=[2])]},
    ]
    monkeypatch.setattr("kraftd.cli.reassign.describe_partitions", lambda *_: (found, []))
    done = kraftctl("--bootstrap-controller", "127.0.0.1:1", "reassign", "verify", "--file", plan)
    assert done.code == 5
    assert done.err.splitlines() == [
        "kraftctl: 1 move waits for nobody any more: reassign execute with the same file ends it",
        "kraftctl: 1 of 2 partitions is still being moved",
    ]


# -- what is said before


UP = {1: "active", 2: "active", 3: "active"}


def told_before(states: dict[int, str], there: dict[str, Any], *wanted: int) -> tuple[str, str]:
    rows = [{"broker_id": broker_id, "state": state} for broker_id, state in states.items()]
    key = "a", 0
    return inactive_text(rows, {key: there}, {key: wanted}), offline_text({key: there}, {key: wanted})


@pytest.mark.parametrize(
    ("states", "says"),
    [
        ({}, ""),
        ({1: "fenced"}, ""),
        ({3: "fenced"}, "broker 3 is fenced: what moves there waits until it is up"),
        ({2: "fenced", 3: "fenced"}, "brokers 2,3 are fenced: what moves there waits until they are up"),
        (
            {2: "shutting down", 3: "fenced"},
            "broker 2 is shutting down, broker 3 is fenced: what moves there waits until they are up",
        ),
    ],
)
def test_who_cannot_take_what_moves_to_it_is_named(states: dict[int, str], says: str) -> None:
    there = {("a", 0): now(replicas=[1]), ("b", 3): now()}
    wanted = {("a", 0): (1, 2), ("b", 3): (3, 1)}
    rows = [{"broker_id": broker_id, "state": state} for broker_id, state in (UP | states).items()]
    assert inactive_text(rows, there, wanted) == (f"{says}; see reassign cancel" if says else "")
    assert offline_text(there, wanted) == ""


def test_a_move_that_cannot_be_called_off_is_not_proposed_for_that() -> None:
    """Broker 1, which is down, has the only replica."""
    offline = {"replicas": [1], "isr": [], "leader": -1}
    says = "broker 3 is fenced: what moves there waits until it is up"
    explain = "see partitions explain a-0"
    heir = f"partition 0 of a is offline: its move waits until broker 1 can lead it; {explain}"
    down = UP | {1: "fenced", 3: "fenced"}
    assert told_before(down, now(**offline, elr=[1]), 3) == (says, heir)
    assert told_before(down, now(**offline, last_known_elr=[1]), 3) == (says, heir)
    assert told_before(down, now(**offline | {"isr": [1]}), 3) == (f"{says}; see reassign cancel", heir)
    nobody = f"partition 0 of a is offline: its move waits until it is led; {explain}"
    assert told_before(down, now(**offline), 3) == (says, nobody)


def test_who_goes_back_waits_for_who_was_there_before() -> None:
    moving = {"replicas": [3, 1], "adding_replicas": [3], "removing_replicas": [1]}
    down = UP | {1: "fenced"}
    offline = now(**moving, isr=[], leader=-1, elr=[1, 3])
    says = "partition 0 of a is offline: its move waits until broker 1 or 3 can lead it; "
    assert told_before(down, offline, 1) == ("", f"{says}see partitions explain a-0")
    fenced = "broker 1 is fenced: what moves there waits until it is up"
    assert told_before(down, now(**moving, isr=[3], leader=3), 1) == (fenced, "")


@pytest.mark.parametrize(
    ("elr", "says"),
    [
        ([], "2 partitions are offline: their moves wait until they are led; see partitions list --offline"),
        (
            [1],
            (
                "2 partitions are offline: their moves wait until broker 1 can lead them; "
                "see partitions list --offline"
            ),
        ),
        (
            [1, 2],
            (
                "2 partitions are offline: their moves wait until brokers 1,2 can lead them; "
                "see partitions list --offline"
            ),
        ),
    ],
)
def test_many_that_nobody_leads_are_one_line(elr: list[int], says: str) -> None:
    offline = now(isr=[], leader=-1, elr=elr)
    there = {("a", 0): offline, ("b", 3): offline, ("c", 0): offline, ("d", 0): now()}
    wanted = {("a", 0): (3,), ("b", 3): (3,), ("c", 0): (2, 1), ("d", 0): (3,)}
    assert offline_text(there, wanted) == says, "c is reordered, which nobody has to lead for"


D1, D2, D3 = (bytes([200, *[number] * 15]) for number in (1, 2, 3))


def registered(broker_id: int, *log_dirs: bytes) -> dict[str, Any]:
    """An active broker with these log directories online."""
    return {"broker_id": broker_id, "state": "active", "log_dirs": list(map(uuid_text, log_dirs))}


@pytest.mark.parametrize(
    ("directories", "wanted", "is_told"),
    [
        pytest.param([uuid_text(D1), uuid_text(D2)], (1, 3), False, id="it is online"),
        pytest.param([uuid_text(D3), uuid_text(D2)], (1, 3), True, id="it failed"),
        pytest.param([LOST, uuid_text(D2)], (3, 1), True, id="nobody knows in which one it was"),
        pytest.param([NOT_TOLD, uuid_text(D2)], (1, 3), False, id="it is not told yet"),
        pytest.param([uuid_text(D3), uuid_text(D2)], (2, 3), False, id="the replica goes"),
        pytest.param([uuid_text(D3), uuid_text(D2)], (1, 2), False, id="nothing is moved"),
        pytest.param([uuid_text(D3), uuid_text(D2)], (2, 1), False, id="nothing is copied"),
    ],
)
def test_a_replica_that_stays_in_a_log_directory_that_failed_is_named(
    directories: list[str], wanted: tuple[int, ...], is_told: bool
) -> None:
    """It is in sync no more, and no move waits for it: 3 alone would have the data."""
    brokers = [registered(1, D1), registered(2, D2), registered(3)]
    there = {("a", 0): now(isr=[2], directories=directories)}
    says = (
        "broker 1 has its replica of partition 0 of a in a log directory that is offline: "
        "that is no copy until the directory is back; see partitions explain a-0"
    )
    assert offline_directory_text(brokers, there, {("a", 0): wanted}) == (says if is_told else "")


def test_a_move_that_waits_for_a_log_directory_that_failed_is_told() -> None:
    """Broker 2 was being added when its directory failed, and the same move is asked for again."""
    brokers = [registered(1, D1), registered(2, D2)]
    there = {("a", 0): now(isr=[1], adding_replicas=[2], directories=[uuid_text(D1), uuid_text(D3)])}
    told = offline_directory_text(brokers, there, {("a", 0): (1, 2)})
    assert told.startswith("broker 2 has its replica of partition 0 of a in a log directory that is offline")


def test_many_replicas_in_log_directories_that_failed_are_one_line() -> None:
    failed = now(directories=[uuid_text(D3)] * 2)
    there = {("a", 0): failed, ("b", 3): failed}
    brokers = [registered(1, D1), registered(2, D2), registered(3)]
    one_each = {("a", 0): (1, 3), ("b", 3): (3, 1)}
    says = "in log directories that are offline: those are no copies until the directories are back; "
    look = "see partitions list --under-replicated"
    assert offline_directory_text(brokers, there, one_each) == f"broker 1 has 2 replicas {says}{look}"
    assert offline_directory_text(brokers, there, {("a", 0): (1, 2, 3)}) == (
        f"brokers 1,2 have 2 replicas {says}{look}"
    )


def test_execute_names_a_replica_in_a_log_directory_that_failed(
    kraftctl: Kraftctl, plan: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = now(isr=[2], leader=2, directories=[uuid_text(D3), uuid_text(D2)])
    there = {("a", 0): now(replicas=[2], isr=[2], leader=2), ("b", 3): failed}
    plan.write_text(assignment_line({("a", 0): (1,), ("b", 3): (1, 3)}))
    brokers = [registered(1, D1), registered(2, D2), registered(3)]
    done = executed(kraftctl, monkeypatch, plan, there, accepted, brokers=brokers)
    assert done.code == 0
    assert done.err.startswith("kraftctl: broker 1 has its replica of partition 3 of b in a log directory")


def test_plan_names_a_replica_in_a_log_directory_that_failed(
    kraftctl: Kraftctl, quorum: ScriptedQuorum
) -> None:
    """It copies as little as may be, and so keeps the replica of broker 1; 3 alone would have the data."""
    partitions = (
        m.DescribeTopicsResponsePartition(
            partition_index=0, leader_id=2, replicas=(1, 2), isr=(2,), directories=(D3, D2)
        ),
    )
    responses = quorum.nodes[2].responses
    responses[m.DescribeTopicsRequest] = lambda _: m.DescribeTopicsResponse(
        topics=(m.DescribeTopicsResponseTopic(name="a", topic_id=b"a" * 16, partitions=partitions),)
    )
    responses[m.ListBrokersRequest] = lambda request: m.ListBrokersResponse(
        brokers=tuple(
            m.ListBrokersResponseBroker(broker_id=one, is_fenced=False, log_dirs=(directory,))
            for one, directory in ((1, D1), (2, D2), (3, b"3" * 16))
            if one in request.broker_ids
        )
    )

    def planned(*how: str) -> Outcome:
        node = "--bootstrap-controller", quorum.bootstrap
        return kraftctl(*node, "reassign", "plan", "--topic", "a", "-o", "json", *how)

    outcome = planned("--brokers", "1,3")
    assert (outcome.code, outcome.data["partitions"][0]["replicas"]) == (0, [1, 3])
    assert outcome.err == (
        "kraftctl: broker 1 has its replica of partition 0 of a in a log directory that is offline: "
        "that is no copy until the directory is back; see partitions explain a-0\n"
    )
    assert planned("--brokers", "2,3").err == ""
    unchanged = planned("--brokers", "1,2")
    assert (unchanged.data["partitions"], unchanged.err) == ([], ""), "nothing moves"


def test_a_topic_that_needs_more_brokers_is_named() -> None:
    present = {("a", 0): (1,), ("b", 0): (1, 2), ("b", 1): (1, 2)}
    with pytest.raises(RefusedError, match=r"^topic b: 2 replicas need as many brokers, and 1 is named$"):
        _check_factor(present, {1: None}, None)
    with pytest.raises(RefusedError, match=r"^3 replicas need as many brokers, and 2 are named$"):
        _check_factor(present, {1: None, 2: None}, 3)
    _check_factor(present, {1: None, 2: None}, None)
    _check_factor({}, {}, None)
