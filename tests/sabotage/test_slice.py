"""A slice of `make sabotage`: a few bugs for each detector, those that are caught soon, and the canary."""

import pytest

from tests.sabotage.corpus import MUTANTS
from tests.sabotage.run import findings

SLICE = (
    "restart-leader-same-epoch",
    "exleader-double-vote",
    "epoch-inflation-rejoin",
    "flush-before-ack",
    "hw-before-own-epoch",
    "minority-commits",
    "commit-monotone",
    "unknown-is-called-refused",
    "rename-before-fsync",
    "flush-the-last-segment-only",
    "truncate-below-hw",
    "lead-before-caught-up",
    "an-exception-is-only-told",
    "canary",
)


@pytest.mark.slow
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("name", SLICE)
def test_a_bug_of_the_past_is_caught(name: str) -> None:
    (mutant,) = (mutant for mutant in MUTANTS if mutant.name == name)
    (found,) = findings([mutant], jobs=1)
    assert found.caught, str(found)
