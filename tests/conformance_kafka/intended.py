"""The differences that are meant, each with its reason. `test_intended` still finds each of them.

The script of each, in `intended/`, is a short one that shows it at its end. After those that leave the two
sides in different states nothing can be compared any more (`ends`): what draws operations avoids them.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tests.conformance_kafka.normal import Difference

SCRIPTS = Path(__file__).parent / "intended"


class Intended(NamedTuple):
    """A difference that stays."""

    name: str
    """Also of its script."""
    reason: str
    is_it: Callable[[Difference], bool]

    @property
    def script(self) -> Path:
        """What shows it."""
        return SCRIPTS / f"{self.name}.jsonl"


def _is_registration_of_a_controller(found: Difference) -> bool:
    return found.operation.api == "BrokerRegistration" and found.operation.body["broker_id"] == 1


def _is_start_after_stop(found: Difference) -> bool:
    is_answer = found.part.startswith("answer")
    return (
        found.operation.api == "BrokerRegistration" and is_answer and (found.kafka, found.kraftd) == (101, 0)
    )


def _is_fenced_again(found: Difference) -> bool:
    return found.operation.api == "BrokerHeartbeat" and _without(found, lambda each: each.get("fenced") == 1)


def _is_other_order(found: Difference) -> bool:
    return bool(found.operation.api == "BrokerHeartbeat" and found.operation.body.get("offline_log_dirs"))


def _is_topic_without_elections(found: Difference) -> bool:
    if found.operation.api != "ElectLeaders" or found.part != "answer at replica_election_results":
        return False
    return [each for each in found.kafka if each["partition_result"]] == found.kraftd


def _is_broker_config(found: Difference) -> bool:
    if found.operation.api not in ("IncrementalAlterConfigs", "AlterConfigs"):
        return False
    is_answer = found.part.startswith("answer") and found.part.endswith("error_code")
    return is_answer and (found.kafka, found.kraftd) == (0, 40) and _resource(found)["resource_type"] == 4


def _resource(found: Difference) -> Any:
    return found.operation.body["resources"][int(found.part.split(".")[-2])]


def _without(found: Difference, is_extra: Callable[[dict[str, Any]], bool]) -> bool:
    """Whether what Kafka appended is what kraftd did, and such a record."""
    if found.part != "records":
        return False
    return [each for each in found.kafka if not is_extra(each)] == found.kraftd


INTENDED: tuple[Intended, ...] = (
    Intended(
        "id-of-a-controller",
        "A broker with the id of a voter is refused: Kafka takes it, and the two answer for each other.",
        _is_registration_of_a_controller,
    ),
    Intended(
        "start-after-stop",
        "A broker that was told that it may stop can start again at once; Kafka takes its session for alive.",
        _is_start_after_stop,
    ),
    Intended(
        "fenced-again",
        "Kafka fences a broker again that is fenced and asks whether it may stop; kraftd writes nothing.",
        _is_fenced_again,
    ),
    Intended(
        "topics-without-elections",
        "ElectLeaders of all partitions: Kafka lists the topics of which nothing is told as well.",
        _is_topic_without_elections,
    ),
    Intended(
        "config-of-a-broker",
        "kraftd's controller refuses what no broker could be configured with; in Kafka the broker does that "
        "that a client speaks to, and its controller takes anything.",
        _is_broker_config,
    ),
    Intended(
        "lost-directories-first",
        "Of a heartbeat that tells of lost directories and changes the broker's state as well, kraftd heeds "
        "the directories first, so that nobody is elected on one that is lost.",
        _is_other_order,
    ),
)


def intended(difference: Difference) -> Intended | None:
    """Which of the intended ones this is, if it is one."""
    return next((each for each in INTENDED if each.is_it(difference)), None)
