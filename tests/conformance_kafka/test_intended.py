"""Every difference that is meant is still there, at the end of its script and not before.

It needs Java and Maven, and takes a minute: `pytest tests/conformance_kafka -m slow`.
"""

import pytest

from tests.conformance_kafka.intended import INTENDED, SCRIPTS, Intended
from tests.conformance_kafka.operations import read_script
from tests.conformance_kafka.run import Bench


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.timeout(600)
@pytest.mark.parametrize("each", INTENDED, ids=lambda each: each.name)
def test_an_intended_difference_is_still_there(bench: Bench, each: Intended) -> None:
    script = read_script(each.script)
    comparison = bench.comparison()
    found = comparison.run(script)
    if each.goes_on:
        assert found is None
        assert comparison.reach.intended[each.name] > 0
    else:
        assert found is not None
        assert each.is_it(found), found
    assert comparison.count == len(script)


def test_every_script_is_one_of_an_intended_difference() -> None:
    assert sorted(path.stem for path in SCRIPTS.iterdir()) == sorted(each.name for each in INTENDED)
    assert all(read_script(each.script) for each in INTENDED)
