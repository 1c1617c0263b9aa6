"""What a logger keeps of lines that it does not repeat."""

from types import SimpleNamespace
from typing import Any

import pytest

from kraftd.net.rate_limited_logger import RateLimitedLogger
from kraftd.protocol import limits


@pytest.mark.covers("D-38")
def test_of_long_keys_the_beginnings_are_kept() -> None:
    """What a peer calls itself is a key, too."""
    lines: list[dict[str, Any]] = []
    log = SimpleNamespace(warning=lambda _name, **fields: lines.append(fields))
    logger = RateLimitedLogger(log, lambda: 0.0)
    for word in ("a", "b"):
        for end in ("x", "y"):
            logger.warning("peer_refused", key=("10.0.0.9", 3, word * 32_000 + end), reason=word)
    assert lines == [{"reason": "a"}, {"reason": "b"}]
    kept = [part for _, key in logger._repeated for part in key if isinstance(part, str)]  # type: ignore[attr-defined]
    assert max(map(len, kept)) <= limits.LOG_TEXT_MAX
