"""`elect`: Kafka's own request to the active controller, and what became of each partition."""

from collections.abc import Iterator
from typing import Any

import pytest

from kraftd.errors import ErrorCode
from kraftd.protocol import messages as m
from tests.unit.cli.kraftctl import Kraftctl, Outcome
from tests.unit.cli.scripted import ScriptedQuorum
from tests.unit.cli.test_topics import KafkaQuorum

PREFERRED, UNCLEAN = 0, 1
NOT_NEEDED = (ErrorCode.ELECTION_NOT_NEEDED, "The preferred replica leads already.")
NOT_AVAILABLE = (ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "It is not in sync.")
NO_REPLICA = (ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "No broker is active.")


@pytest.fixture
def kafka() -> Iterator[KafkaQuorum]:
    quorum = KafkaQuorum()
    yield quorum
    for node in quorum.nodes.values():
        node.close()


def elect(kraftctl: Kraftctl, at: Any, *more: object) -> Outcome:
    return kraftctl("--bootstrap-controller", at.bootstrap, "elect", *more)


def told(*outcomes: tuple[int, str | None], error: int = 0, topic: str = "orders") -> m.ElectLeadersResponse:
    """The response that has these outcomes, of the partitions from 0 on."""
    results = tuple(
        m.ElectLeadersResponsePartitionResult(number, code, text)
        for number, (code, text) in enumerate(outcomes)
    )
    of_topic = m.ElectLeadersResponseReplicaElectionResult(topic, results)
    return m.ElectLeadersResponse(error_code=error, replica_election_results=(of_topic,) if results else ())


def named(request: m.ElectLeadersRequest) -> Any:
    topics = request.topic_partitions
    return topics and [(topic.topic, topic.partitions) for topic in topics]


def test_a_row_says_what_became_of_each_partition(kraftctl: Kraftctl, kafka: KafkaQuorum) -> None:
    kafka.on(2, m.ElectLeadersRequest, lambda _: told((0, None), NOT_NEEDED))
    three = ("--partition", 0, "--partition", 1, "--partition", 0)
    outcome = elect(kraftctl, kafka, "--preferred", "--topic", "orders", *three)
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.splitlines() == [
        "Partition  Outcome     Error                     Topic",
        "0          elected     -                         orders",
        "1          not needed  ELECTION_NOT_NEEDED (84)  orders",
        "",
        "ELECTION_NOT_NEEDED (84): The preferred replica leads already.",
    ]
    (request,) = kafka.asked(m.ElectLeadersRequest)
    assert (request.election_type, named(request)) == (PREFERRED, [("orders", (0, 1))])
    data = elect(kraftctl, kafka, "--unclean", "--topic", "orders", "--partition", 0, "-o", "json").data
    assert data == [
        {"topic": "orders", "partition": 0, "outcome": "elected", "error": None, "why": None},
        {
            "topic": "orders",
            "partition": 1,
            "outcome": "not needed",
            "error": "ELECTION_NOT_NEEDED (84)",
            "why": "The preferred replica leads already.",
        },
    ]
    assert kafka.asked(m.ElectLeadersRequest)[1].election_type == UNCLEAN


def test_rows_are_sorted_in_whatever_order_a_controller_tells_them(
    kraftctl: Kraftctl, kafka: KafkaQuorum
) -> None:
    elected = m.ElectLeadersResponsePartitionResult
    topic = m.ElectLeadersResponseReplicaElectionResult
    results = (topic("b", (elected(0), elected(18), elected(10), elected(2))), topic("a", (elected(1),)))
    kafka.on(2, m.ElectLeadersRequest, lambda _: m.ElectLeadersResponse(replica_election_results=results))
    rows = elect(kraftctl, kafka, "--preferred", "--all", "-o", "json").data
    told = [(row["topic"], row["partition"]) for row in rows]
    assert told == [("a", 1), ("b", 0), ("b", 2), ("b", 10), ("b", 18)]


def test_what_a_controller_says_stays_on_its_line(kraftctl: Kraftctl, kafka: KafkaQuorum) -> None:
    said = "no room\x1b]0;title\x07\x1b[2J\n0 elected"
    kafka.on(2, m.ElectLeadersRequest, lambda _: told((NOT_NEEDED[0], said)))
    outcome = elect(kraftctl, kafka, "--preferred", "--all")
    assert outcome.out.splitlines()[-1] == f"ELECTION_NOT_NEEDED (84): {repr(said)[1:-1]}"


def test_partitions_are_named_as_everywhere(kraftctl: Kraftctl, kafka: KafkaQuorum) -> None:
    kafka.on(2, m.ElectLeadersRequest, lambda _: told((0, None)))
    assert elect(kraftctl, kafka, "--unclean", "my-orders-3", "b-0", "my-orders-1", "b-0").code == 0
    (request,) = kafka.asked(m.ElectLeadersRequest)
    assert (request.election_type, named(request)) == (UNCLEAN, [("my-orders", (3, 1)), ("b", (0,))])


def test_all_partitions_are_asked_for_without_a_name(kraftctl: Kraftctl, kafka: KafkaQuorum) -> None:
    kafka.on(2, m.ElectLeadersRequest, lambda _: told())
    outcome = elect(kraftctl, kafka, "--preferred", "--all")
    assert outcome == (0, "", "kraftctl: no partition needs it\n")
    assert elect(kraftctl, kafka, "--preferred", "--all", "-o", "json").data == []
    assert {named(request) for request in kafka.asked(m.ElectLeadersRequest)} == {None}


@pytest.mark.parametrize(
    ("outcomes", "says"),
    [
        ([(0, None), NO_REPLICA], "no leader was elected for orders-1"),
        (
            [NO_REPLICA, NOT_NEEDED, (3, ""), (0, None)],
            "no leader was elected for orders-0 and 1 more",
        ),
        ([(999, None)], "no leader was elected for orders-0"),
    ],
)
def test_one_that_was_not_elected_is_a_refusal_beside_the_others(
    kraftctl: Kraftctl, kafka: KafkaQuorum, outcomes: list[tuple[int, str | None]], says: str
) -> None:
    kafka.on(2, m.ElectLeadersRequest, lambda _: told(*outcomes))
    outcome = elect(kraftctl, kafka, "--preferred", "--all")
    assert (outcome.code, outcome.err) == (4, f"kraftctl: {says}\n")
    assert sum(line.endswith("  orders") for line in outcome.out.splitlines()) == len(outcomes)
    assert "not elected" in outcome.out
    for why in [text for error, text in outcomes if error and text]:
        assert (outcome.out.count(why), outcome.err.count(why)) == (1, 0), "told once"


@pytest.mark.parametrize(
    ("outcomes", "count"), [([NOT_AVAILABLE, (0, None)], 1), ([NOT_AVAILABLE, NOT_AVAILABLE], 2)]
)
def test_of_all_those_whose_preferred_replica_is_down_are_told_and_are_no_failure(
    kraftctl: Kraftctl, kafka: KafkaQuorum, outcomes: list[tuple[int, str | None]], count: int
) -> None:
    says = f"{count} not elected, as their preferred replicas cannot lead now; see brokers list"
    kafka.on(2, m.ElectLeadersRequest, lambda _: told(*outcomes))
    outcome = elect(kraftctl, kafka, "--preferred", "--all")
    assert (outcome.code, outcome.err) == (0, f"kraftctl: {says}\n")
    assert "0          not elected  PREFERRED_LEADER_NOT_AVAILABLE (80)  orders" in outcome.out
    assert max(map(len, outcome.out.splitlines())) <= 80
    kafka.on(2, m.ElectLeadersRequest, lambda _: told(*outcomes, NO_REPLICA))
    outcome = elect(kraftctl, kafka, "--preferred", "--all")
    assert (outcome.code, outcome.err.splitlines()) == (
        4,
        [f"kraftctl: {says}", f"kraftctl: no leader was elected for orders-{len(outcomes)}"],
    )


@pytest.mark.parametrize(
    "flags", [("--preferred", "--topic", "orders", "--partition", 0), ("--unclean", "--all")]
)
def test_what_was_asked_for_by_name_or_uncleanly_has_failed(
    kraftctl: Kraftctl, kafka: KafkaQuorum, flags: tuple[object, ...]
) -> None:
    kafka.on(2, m.ElectLeadersRequest, lambda _: told(NOT_AVAILABLE))
    outcome = elect(kraftctl, kafka, *flags)
    assert (outcome.code, outcome.err) == (4, "kraftctl: no leader was elected for orders-0\n")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "give one of --preferred and --unclean"),
        (["--all"], "give one of --preferred and --unclean"),
        (["--preferred", "--unclean", "--all"], "give one of --preferred and --unclean"),
        (["--preferred"], "give one of TOPIC-PARTITION…, --topic and --all"),
        (["--unclean", "--topic", "t", "--all"], "give one of TOPIC-PARTITION…, --topic and --all"),
        (["--unclean", "t-0", "--all"], "give one of TOPIC-PARTITION…, --topic and --all"),
        (["--unclean", "t-0", "--topic", "t"], "give one of TOPIC-PARTITION…, --topic and --all"),
        (["--unclean", "t-0", "--partition", 1], "--partition is of a topic"),
        (["--unclean", "t-0", "orders"], "'orders' names no partition; write TOPIC-PARTITION"),
        (["--unclean", "--all", "--partition", 0], "--partition is of a topic"),
        (["--unclean", "--topic", "t", "--partition", -1], "-1 is not in the range"),
        (["--unclean", "--topic", "t", "--partition", "x"], "'x' is not a valid number from 0"),
        (["--unclean", "--topic", "a\nb"], "must hold no line break"),
    ],
)
def test_what_makes_no_sense_is_not_sent(
    kraftctl: Kraftctl, kafka: KafkaQuorum, arguments: list[object], says: str
) -> None:
    outcome = elect(kraftctl, kafka, *arguments)
    assert (outcome.code, outcome.err.count("\n")) == (64, 1)
    assert says in outcome.err
    assert kafka.nodes[1].seen == []


@pytest.mark.parametrize(
    ("response", "code", "says"),
    [
        (told((42, "Type 9 is unknown."), error=42), 4, "no leader was elected: Type 9 is unknown."),
        (told(error=44), 4, "elect topic by topic"),
        (told(error=7), 5, "whether leaders were elected is unknown: REQUEST_TIMED_OUT (7)"),
        (None, 5, "whether leaders were elected is unknown"),
    ],
    ids=["refused", "too many", "timed out", "lost"],
)
def test_a_request_that_fails_as_a_whole_is_one_line_and_not_repeated(
    kraftctl: Kraftctl, kafka: KafkaQuorum, response: Any, code: int, says: str
) -> None:
    kafka.on(2, m.ElectLeadersRequest, lambda _: response)
    outcome = elect(kraftctl, kafka, "--preferred", "--all")
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (code, "", 1)
    assert says in outcome.err
    assert len(kafka.asked(m.ElectLeadersRequest)) == 1


@pytest.mark.parametrize("error", [ErrorCode.NOT_CONTROLLER, ErrorCode.THROTTLING_QUOTA_EXCEEDED])
def test_what_was_not_appended_is_asked_of_the_next_controller(
    kraftctl: Kraftctl, kafka: KafkaQuorum, error: ErrorCode
) -> None:
    def lose(_: object) -> m.ElectLeadersResponse:
        kafka.active = 1
        return told((error, "not now"), error=error)

    kafka.on(2, m.ElectLeadersRequest, lose)
    kafka.on(1, m.ElectLeadersRequest, lambda _: told((0, None)))
    assert elect(kraftctl, kafka, "--preferred", "--all").code == 0
    assert len(kafka.asked(m.ElectLeadersRequest, 2)) == len(kafka.asked(m.ElectLeadersRequest, 1)) == 1


def test_one_that_is_never_taken_is_told_as_not_done(kraftctl: Kraftctl, kafka: KafkaQuorum) -> None:
    kafka.on(2, m.ElectLeadersRequest, lambda _: told((41, "not now"), error=41))
    outcome = elect(kraftctl, kafka, "--preferred", "--all", "--timeout-ms", 100)
    at = kafka.nodes[2].address
    assert outcome == (5, "", f"kraftctl: no leader was elected: {at}: not now\n")


# --- a topic without partitions


def test_a_topic_that_is_not_there_is_told(kraftctl: Kraftctl, quorum: ScriptedQuorum) -> None:
    entry = m.DescribeTopicsResponseTopic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "nothing")
    quorum.nodes[2].responses[m.DescribeTopicsRequest] = lambda _: m.DescribeTopicsResponse(topics=(entry,))
    outcome = elect(kraftctl, quorum, "--preferred", "--topic", "nothing")
    assert (outcome.code, outcome.err) == (4, "kraftctl: there is no topic nothing\n")


def test_kafkas_nodes_have_to_be_told_the_partitions(kraftctl: Kraftctl, kafka: KafkaQuorum) -> None:
    outcome = elect(kraftctl, kafka, "--preferred", "--topic", "orders", "--timeout-ms", 300)
    assert (outcome.code, outcome.err.count("\n")) == (4, 1)
    assert "which partitions topic orders has is not known, name them" in outcome.err
