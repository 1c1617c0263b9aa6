"""Each rule of the fold, broken once, is caught by the unit test that is named for it.

What Kafka's own classes say of the same mutants is in `tests/interop/test_fold_mutants.py`.
"""

import pytest

from tests.sabotage.corpus.fold import FOLD
from tests.sabotage.corpus.fold_by_columns import FOLD_BY_COLUMNS
from tests.sabotage.mutant import Mutant
from tests.sabotage.run import findings


@pytest.mark.covers("D-18")
@pytest.mark.parametrize("one", FOLD + FOLD_BY_COLUMNS, ids=lambda one: one.name)
def test_a_broken_rule_of_the_fold_is_caught(one: Mutant) -> None:
    (found,) = findings([one], jobs=1)
    assert found.caught, str(found)
