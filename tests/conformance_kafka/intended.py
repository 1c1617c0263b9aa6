"""The differences that are meant, each with its reason. `test_intended` still finds each of them.

Each has a short script, in `intended/`, that shows it at its end and there alone. After most of them the two
sides are in different states, or Kafka's controller has given up the lead, so that nothing can be compared
any more: what draws operations leaves them out, and only those of which `goes_on` is true are passed over.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from kraftd.errors import ErrorCode
from kraftd.metadata.config_schema import ResourceType
from tests.conformance_kafka.normal import Difference

SCRIPTS = Path(__file__).parent / "intended"
_CLOSED = "the connection was closed"


class Intended(NamedTuple):
    """A difference that stays."""

    name: str
    """Also of its script."""
    reason: str
    is_it: Callable[[Difference], bool]
    goes_on: bool = False
    """Whether both sides are in one state after it."""

    @property
    def script(self) -> Path:
        """What shows it."""
        return SCRIPTS / f"{self.name}.jsonl"


def _codes(kafka: int, kraftd: int) -> Callable[[Difference], bool]:
    """Whether an answer holds these two error codes in one place."""
    return lambda found: (
        found.part.startswith("answer")
        and found.part.endswith("error_code")
        and (found.kafka, found.kraftd) == (kafka, kraftd)
    )


def _field_of_a_record(name: str) -> Callable[[Difference], bool]:
    """Whether a record differs in this field."""
    return lambda found: found.part.startswith("records at ") and found.part.endswith(f".{name}")


def _records(found: Difference) -> bool:
    return found.part.startswith("records")


def _given_up(found: Difference) -> bool:
    """Whether Kafka's log cannot be read any more."""
    return (
        found.part == "records" and str(found.kafka).startswith("TimeoutWaitingError") and found.kraftd == ""
    )


def _fenced_again(found: Difference) -> bool:
    if found.operation.api != "BrokerHeartbeat" or found.part != "records":
        return False
    return [each for each in found.kafka if each.get("fenced") != 1] == found.kraftd


def _topics_without_elections(found: Difference) -> bool:
    if found.operation.api != "ElectLeaders" or found.part != "answer at replica_election_results":
        return False
    return [each for each in found.kafka if each["partition_result"]] == found.kraftd


def _named_twice(found: Difference) -> bool:
    if found.part != "answer at responses" or found.operation.api not in (
        "AlterConfigs",
        "IncrementalAlterConfigs",
    ):
        return False
    once = [each for index, each in enumerate(found.kraftd) if each not in found.kraftd[:index]]
    return bool(once == found.kafka)


def _more_than_an_answer_tells_of(found: Difference) -> bool:
    if found.operation.api != "DeleteTopics" or found.part != "answer at responses":
        return False
    return len(found.kraftd) < len(found.kafka) and {each["error_code"] for each in found.kraftd} == {
        ErrorCode.POLICY_VIOLATION
    }


INTENDED: tuple[Intended, ...] = (
    Intended(
        "id-of-a-controller",
        "A broker with the id of a voter is refused: Kafka takes it, and the two answer for each other.",
        _codes(ErrorCode.NONE, ErrorCode.INVALID_REGISTRATION),
    ),
    Intended(
        "start-after-stop",
        "A broker that was told that it may stop can start again at once; Kafka takes its session for alive.",
        _codes(ErrorCode.DUPLICATE_BROKER_REGISTRATION, ErrorCode.NONE),
    ),
    Intended(
        "fenced-again",
        "Kafka fences a broker again that is fenced and asks whether it may stop, or whose session ends; "
        "kraftd writes nothing.",
        _fenced_again,
        goes_on=True,
    ),
    Intended(
        "topics-without-elections",
        "ElectLeaders of all partitions: Kafka lists the topics of which nothing is told as well.",
        _topics_without_elections,
        goes_on=True,
    ),
    Intended(
        "lost-directories-first",
        "Of a heartbeat that tells of lost directories and changes the broker's state as well, kraftd heeds "
        "the directories first, so that nobody is elected on one that is lost.",
        _records,
    ),
    Intended(
        "directories-of-another-process",
        "AssignReplicasToDirs with directories that the registered start of the broker never had comes from "
        "another process with its node.id, and is refused. Kafka believes it: leaders move back and forth.",
        _codes(ErrorCode.NONE, ErrorCode.STALE_BROKER_EPOCH),
    ),
    Intended(
        "cordoned-directories-stay",
        "Who registers once more keeps its cordoned directories; Kafka forgets them for a while.",
        _field_of_a_record("cordoned_log_dirs"),
    ),
    Intended(
        "unfenced-while-it-stops",
        "Who is unfenced while it is shutting down leads nothing; in Kafka it is elected once more.",
        _records,
    ),
    Intended(
        "a-heartbeat-later",
        "Kafka forgets how far a broker has read the log with every change of its registration, and lets one "
        "that stops wait for that broker's next heartbeat.",
        lambda found: found.part.startswith("answer at ") and (found.kafka, found.kraftd) == (False, True),
    ),
    Intended(
        "registered-while-it-stops",
        "Who registers once more while it is shutting down still is; Kafka takes it for one that is not.",
        lambda found: (
            found.part == "answer at should_shut_down" and (found.kafka, found.kraftd) == (False, True)
        ),
    ),
    Intended(
        "a-broker-without-an-id",
        "Who registers as -1, which stands for nobody, leads nothing; in Kafka it is a leader that stays.",
        _field_of_a_record("leader"),
    ),
    Intended(
        "config-of-a-broker",
        "kraftd's controller refuses what no broker could be configured with; in Kafka the broker does that "
        "that a client speaks to, and its controller takes anything.",
        _codes(ErrorCode.NONE, ErrorCode.INVALID_CONFIG),
    ),
    Intended(
        "config-named-twice",
        "As before: of a config that is named twice Kafka's controller takes the last.",
        _codes(ErrorCode.NONE, ErrorCode.INVALID_REQUEST),
    ),
    Intended(
        "resource-named-twice",
        "What becomes of a resource that is named twice is told as often as it is named; in Kafka once.",
        _named_twice,
        goes_on=True,
    ),
    Intended(
        "config-without-a-value",
        "As before: what is set to nothing Kafka's controller deletes.",
        _codes(ErrorCode.NONE, ErrorCode.INVALID_REQUEST),
    ),
    Intended(
        "config-of-an-unregistered-broker",
        "A broker can be configured before it is there; Kafka wants it to be registered.",
        _codes(ErrorCode.BROKER_ID_NOT_REGISTERED, ErrorCode.NONE),
    ),
    Intended(
        "config-of-an-unregistered-broker-validated",
        "As before, of a request that only validates.",
        lambda found: (
            bool(found.operation.body.get("validate_only"))
            and _codes(ErrorCode.BROKER_ID_NOT_REGISTERED, ErrorCode.NONE)(found)
        ),
        goes_on=True,
    ),
    Intended(
        "config-of-a-broker-by-another-name",
        "A broker has one name: of 01 or +1 nobody would read what is set.",
        _codes(ErrorCode.NONE, ErrorCode.INVALID_REQUEST),
    ),
    Intended(
        "lists-of-client-metrics",
        "Kafka does not know which configs of client metrics are lists, and appends to none.",
        _codes(ErrorCode.INVALID_CONFIG, ErrorCode.NONE),
    ),
    Intended(
        "unknown-config-operation",
        "Kafka's controller gives up the lead.",
        _given_up,
    ),
    Intended(
        "unknown-recovery-state",
        "Kafka's controller gives up the lead.",
        _given_up,
    ),
    Intended(
        "listener-that-nobody-could-use",
        "It is refused, of a broker or a controller; Kafka's controller gives up the lead.",
        _given_up,
    ),
    Intended(
        "unknown-resource-type",
        "Of two resources whose types Kafka does not know, it closes the connection.",
        lambda found: found.part == "answer" and found.kafka == _CLOSED,
    ),
    Intended(
        "unknown-number-of-an-acl",
        "Kafka closes the connection.",
        lambda found: found.part == "answer" and found.kafka == _CLOSED,
    ),
    Intended(
        "match-in-an-acl",
        "ANY or MATCH, where they mean nothing, cost their entry; in Kafka the whole request.",
        _codes(ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.INVALID_REQUEST),
    ),
    Intended(
        "eligible-after-unregistering",
        "Who is unregistered leaves the eligible leader replicas as well.",
        _field_of_a_record("eligible_leader_replicas"),
    ),
    Intended(
        "eligible-after-a-downgrade",
        "Without the feature nobody is eligible; Kafka's controller, unlike its image, finds out with the "
        "next change of each partition.",
        _records,
    ),
    Intended(
        "eligible-after-a-move",
        "Who leaves a partition, since its move is called off or over, leaves the eligible leader replicas, "
        "too.",
        _field_of_a_record("eligible_leader_replicas"),
    ),
    Intended(
        "replication-factor-while-moving",
        "New partitions have as many replicas as partition 0; Kafka asks the one that a hash map has first.",
        _codes(ErrorCode.INVALID_REPLICA_ASSIGNMENT, ErrorCode.NONE),
    ),
    Intended(
        "unregistered-with-many-partitions",
        "A broker is unregistered whatever it leads, one slice of its partitions after the other. Kafka "
        "refuses what changes more than 10,000.",
        lambda found: (
            found.operation.api == "UnregisterBroker"
            and _codes(ErrorCode.POLICY_VIOLATION, ErrorCode.NONE)(found)
        ),
    ),
    Intended(
        "more-topics-than-an-answer-tells-of",
        "DeleteTopics of more names than one answer has room for is refused, as the answer says of as many "
        "as it can; Kafka's answers have no bound.",
        _more_than_an_answer_tells_of,
    ),
    Intended(
        "default-of-a-config-that-is-not-set",
        "Of the cluster default a config that nobody set is told with its default, if it is asked for by "
        "name, as `kraftctl configs get` shows it; Kafka tells nothing of it.",
        lambda found: (
            found.operation.api == "DescribeConfigs"
            and found.part == "answer at results.0.configs"
            and found.kafka == []
        ),
        goes_on=True,
    ),
    Intended(
        "loggers-of-a-controller",
        "kraftd has no loggers of Java's whose levels could be told.",
        lambda found: (
            found.operation.api == "DescribeConfigs"
            and found.part.startswith("answer")
            and found.operation.body["resources"][0]["resource_type"] == ResourceType.BROKER_LOGGER
        ),
        goes_on=True,
    ),
    Intended(
        "another-broker-described",
        "What is set of each broker is in the log, so that each controller tells it, with no broker up; "
        "Kafka's describes itself alone.",
        lambda found: (
            found.operation.api == "DescribeConfigs"
            and found.operation.body["resources"][0]["resource_type"] == ResourceType.BROKER
            and _codes(ErrorCode.INVALID_REQUEST, ErrorCode.NONE)(found)
        ),
        goes_on=True,
    ),
    Intended(
        "registration-of-a-strange-controller",
        "Only voters register, with an address that others can connect to; Kafka takes whoever sends a "
        "registration for a controller, and tells all of it.",
        lambda found: (
            found.operation.api == "ControllerRegistration"
            and _codes(ErrorCode.NONE, ErrorCode.INVALID_REGISTRATION)(found)
        ),
    ),
    Intended(
        "bytes-behind-an-enveloped-request",
        "A request with bytes behind its end was framed wrongly, and is refused; Kafka reads the rest.",
        lambda found: (
            found.operation.api == "Envelope"
            and (found.kraftd is None or _codes(ErrorCode.NONE, ErrorCode.UNSUPPORTED_VERSION)(found))
        ),
        goes_on=True,
    ),
    Intended(
        "levels-of-loggers",
        "Nor can they be changed.",
        lambda found: (
            found.operation.api == "IncrementalAlterConfigs"
            and found.operation.body["resources"][0]["resource_type"] == ResourceType.BROKER_LOGGER
            and _codes(ErrorCode.NONE, ErrorCode.INVALID_REQUEST)(found)
        ),
        goes_on=True,
    ),
    Intended(
        "reassignment-named-twice",
        "Of a partition that one AlterPartitionReassignments names twice nothing is changed, since it says "
        "two things; Kafka moves it twice, to the last.",
        _codes(ErrorCode.NONE, ErrorCode.INVALID_REQUEST),
    ),
    Intended(
        "a-move-that-is-changed",
        "A move that is changed is what the newest request says; Kafka keeps what is being added if the new "
        "one adds nothing, and forgets it if the new one does.",
        _records,
    ),
)


def is_intended(difference: Difference) -> Intended | None:
    """Which of all of them this is, if it is one."""
    return next((each for each in INTENDED if each.is_it(difference)), None)


def intended(difference: Difference) -> Intended | None:
    """Which of the intended ones that go on this is, if it is one."""
    return next((each for each in INTENDED if each.goes_on and each.is_it(difference)), None)
