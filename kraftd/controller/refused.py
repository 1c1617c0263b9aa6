"""Why one entry of a request fails: a code of Kafka's, and a sentence for who sent it.

Raised inside a decision, and caught where the response to that entry is made: it never leaves the decision.
Short, because the decisions of every API raise it and nothing else belongs to all of them.
"""

from typing import Final

from kraftd.errors import ErrorCode

_TEXT_MAX: Final = 400
"""Characters of a refusal: a value that was refused may be long."""


class RefusedError(Exception):
    """One entry of a request fails."""

    def __init__(self, code: ErrorCode, text: str) -> None:
        super().__init__(text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]}…")
        self.code = code
