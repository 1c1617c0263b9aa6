"""An invariant that has to fire: `with fires("Convergence"):` around what breaks its promise.

The rule in `tests/test_project_rules.py` looks for the names that are given here, so that none that
`docs/promises.md` tells of is without a test.
"""

import re

import pytest

from kraftd.audit.invariant import Violation


def fires(name: str, saying: str = "") -> pytest.RaisesExc[Violation]:
    """Expect the violation of an invariant.

    Args:
        name: The invariant's; the violation's text begins with it.
        saying: A pattern that stands in the rest of the text.
    """
    return pytest.raises(Violation, match=rf"(?s)\A{re.escape(name)}: .*{saying}")
