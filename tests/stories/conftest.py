"""Golden traces: what a story saw is compared with what was accepted before (`--rewrite` accepts)."""

from collections.abc import Callable
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture
def golden(request: pytest.FixtureRequest, rewrite: bool) -> Callable[[str], None]:
    """Compare a trace with the story's golden file."""

    def check(trace: str) -> None:
        path = GOLDEN / f"{request.node.name.removeprefix('test_')}.txt"
        if rewrite:
            path.parent.mkdir(exist_ok=True)
            path.write_text(trace + "\n", encoding="utf-8")
        assert path.exists(), f"{path} is missing: look at the trace, then accept it with --rewrite\n{trace}"
        assert trace + "\n" == path.read_text(encoding="utf-8")

    return check
