"""Which test proves which behaviour: `@covers("VOTE-07", "D-05")`, checked and printed as a table.

Entered by tests through `covers`, and by `make conformance` through `__main__`. The ids are data:
`behaviours.toml`, with one line each and the reasons where kraftd does otherwise.
"""

import pytest

from tests.conformance.catalogue import unknown_among


def covers(*ids: str) -> pytest.MarkDecorator:
    """Say that the test fails without these behaviours.

    Raises:
        LookupError: The catalogue has no such id; the module cannot be collected then.
    """
    if not ids or (unknown := unknown_among(ids)):
        raise LookupError(f"covers() names no behaviour: {', '.join(unknown) if ids else 'nothing'}")
    return pytest.mark.covers(*ids)
