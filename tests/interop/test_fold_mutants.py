"""Each rule of the fold, broken once, is caught by Kafka's own classes, where these can see it.

The mutants are those of `tests.sabotage.corpus.fold`, which unit tests catch as well. Here the detector is
oracle 2: a few thousand legal records, folded with the mutant and compared with what Kafka made of them.
"""

from pathlib import Path

import pytest

from tests.interop.folding import Told, compare, told_by
from tests.interop.legal_world import LEVELS_WITH_MIGRATION
from tests.interop.peer import Kafka
from tests.sabotage import detectors
from tests.sabotage.corpus.fold import FOLD
from tests.sabotage.detectors import Detector
from tests.sabotage.mutant import Mutant
from tests.sabotage.run import findings

SEEDS = range(201, 204)
SIZE = 3_000
TIMES = 60

NOT_SEEN = {
    "negative-level": "no controller writes it",
    "broker-epoch-ignored": "no controller writes it",
    "impossible-fencing": "no controller writes it",
    "impossible-recovery": "no controller writes it",
    "any-number-of-directories": "no controller writes it",
    "two-topics-of-a-name": "no controller writes it",
    "two-topics-of-an-id": "no controller writes it",
    "unknown-acl-removed": "no controller writes it",
    "unknown-credential-removed": "no controller writes it",
    "begin-inside-begin": "no controller writes it",
    "end-without-begin": "no controller writes it",
    "tags-of-a-partition-lost": "Kafka's image forgets tags that it does not know",
    "removed-topic-stays-with-brokers": "no topic of these logs is large enough",
    "removed-topic-waits": "Kafka's image has no index of brokers",
    "removal-looks-at-every-partition": "no topic of these logs is large enough",
    "removal-is-settled-by-half": "Kafka's image has no index of brokers",
    "removal-ends-with-a-block": "Kafka's image has no index of brokers",
    "removals-are-looked-at-one-by-one": "Kafka's image has no index of brokers",
    "removals-look-at-all-between": "Kafka's image has no index of brokers",
    "merged-for-each-topic": "Kafka's image has no index of brokers",
}
"""Mutants that legal records cannot tell from the sound fold, and why; only unit tests catch them."""


@pytest.fixture(scope="module")
def told(kafka: Kafka, older_kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> list[Told]:
    folders: list[Path] = [tmp_path_factory.mktemp(name) for name in ("mutants", "older-mutants")]
    newer = told_by(kafka, folders[0], SEEDS, SIZE, TIMES)
    older = told_by(older_kafka, folders[1], SEEDS[:1], SIZE, TIMES, LEVELS_WITH_MIGRATION)
    return [*newer.values(), *older.values()]


def test_the_list_of_what_kafka_cannot_see_is_of_mutants() -> None:
    assert NOT_SEEN.keys() < {one.name for one in FOLD}


@pytest.mark.timeout(1_200)
def test_kafka_tells_each_mutant_from_the_sound_fold(
    told: list[Told], monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(_: Mutant, number: int) -> None:
        compare(told[number - 1])

    monkeypatch.setitem(
        detectors.DETECTORS, "kafka", Detector("Kafka's own fold", lambda _: len(told), look, "log")
    )
    judged = [one._replace(detector="kafka") for one in FOLD if one.name not in NOT_SEEN]
    missed = [str(found) for found in findings(judged, jobs=2) if not found.caught]
    assert missed == []
