"""One operation after the other on both sides, and what they did compared after each; at times the images."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tests.conformance_kafka import images, normal
from tests.conformance_kafka.intended import intended
from tests.conformance_kafka.normal import Difference, Value
from tests.conformance_kafka.operations import Operation
from tests.conformance_kafka.settling import wait_known
from tests.conformance_kafka.sides import CLOSED, Appended, Side, TwoSides
from tests.process.cluster import TimeoutWaitingError

PATIENCE_S = 0.5
"""How long one side may take longer to append what it does without being asked for it."""
_STEP_S = 0.02
IMAGES_EVERY = 1_000
"""Operations after which the images are compared."""


class Reach:
    """What was reached: how often each API told each error code, and which intended differences were met."""

    def __init__(self) -> None:
        self.codes: Counter[tuple[str, int]] = Counter()
        self.intended: Counter[str] = Counter()
        self.operations = 0
        self.images = 0
        """How often the images were compared."""
        self.refused = 0

    def take(self, other: "Reach") -> None:
        """Count what another comparison reached."""
        self.codes += other.codes
        self.intended += other.intended
        self.operations += other.operations
        self.images += other.images
        self.refused += other.refused

    def add(self, operation: Operation, answer: Value) -> None:
        """Count what Kafka answered."""
        found = {*error_codes(answer)}
        self.codes.update((operation.api, code) for code in found)
        self.operations += 1
        self.refused += any(found)


class Comparison:
    """Operations on a pair, from wherever it stands."""

    def __init__(self, pair: TwoSides, complaint: Callable[[TwoSides], str] = images.complaint) -> None:
        """Make a comparison. `complaint` says what is wrong with the images of a pair, if anything is."""
        self.pair = pair
        self._complaint = complaint
        self.reach = Reach()
        self.count = 0

    def run(self, operations: Iterable[Operation]) -> Difference | None:
        """Do operations until the two differ, and compare the images at the end."""
        operation = None
        for operation in operations:
            found = self.step(operation)
            if found is not None:
                return found
        return None if operation is None else self.images(operation)

    def step(self, operation: Operation) -> Difference | None:
        """Do one operation; the first difference that is not intended."""
        found = self._step(operation)
        if found is None and self.count % IMAGES_EVERY == 0:
            return self.images(operation)
        return found

    def images(self, operation: Operation) -> Difference | None:
        """Compare what both logs amount to, after this operation."""
        found = self._complaint(self.pair)
        self.reach.images += 1
        return Difference(self.count - 1, operation, "images", "", found) if found else None

    def _step(self, operation: Operation) -> Difference | None:
        kafka, kraftd = self.pair
        index, self.count = self.count, self.count + 1
        self.pair.before(index)
        time.sleep(operation.after_s)
        told = [(side.ask(operation), _appended(side)) for side in (kafka, kraftd)]
        if any(isinstance(new, str) for _, new in told):
            return Difference(
                index, operation, "records", *(new if isinstance(new, str) else "" for _, new in told)
            )
        (kafka_answer, kafka_new), (kraftd_answer, kraftd_new) = told
        deadline = time.monotonic() + PATIENCE_S
        while len(kafka_new) != len(kraftd_new) and time.monotonic() < deadline:
            time.sleep(_STEP_S)
            kafka_new += kafka.appended()
            kraftd_new += kraftd.appended()
        for side, new in ((kafka, kafka_new), (kraftd, kraftd_new)):
            wait_known(side, (each.record for each in new))
        answers = [_answer(operation, *each) for each in ((kafka_answer, kafka), (kraftd_answer, kraftd))]
        self.reach.add(operation, answers[0])
        news = [_records(operation, *each) for each in ((kafka_new, kafka), (kraftd_new, kraftd))]
        for found in _differences(index, operation, "answer", *answers):
            if (meant := intended(found)) is None:
                return found
            self.reach.intended[meant.name] += 1
        for found in _differences(index, operation, "records", *news):
            if (meant := intended(found)) is None:
                return found
            self.reach.intended[meant.name] += 1
        return None


def error_codes(answer: Value) -> Iterator[int]:
    """Every error code in an answer."""
    match answer:
        case dict():
            for name, value in answer.items():
                if isinstance(value, int) and (name == "error_code" or name == "envelope"):
                    yield value
                else:
                    yield from error_codes(value)
        case list():
            for each in answer:
                yield from error_codes(each)


def _appended(side: Side) -> list[Appended] | str:
    """What was appended; a text if the log cannot be read any more."""
    try:
        return side.appended()
    except (TimeoutWaitingError, OSError) as error:
        return f"{type(error).__name__}: {error}"


def _differences(
    index: int, operation: Operation, part: str, kafka: Value, kraftd: Value
) -> Iterator[Difference]:
    for where in normal.differing(kafka, kraftd):
        text = f"{part} at {where}" if where else part
        yield Difference(index, operation, text, normal.at(kafka, where), normal.at(kraftd, where))


def _answer(operation: Operation, response: Any, side: Side) -> Value:
    if response == CLOSED or isinstance(response, dict):
        return response
    return normal.answer(operation, response, side.account)


def _records(operation: Operation, new: list[Appended], side: Side) -> Value:
    return normal.records(operation, [(each.version, each.record) for each in new], side.account)
