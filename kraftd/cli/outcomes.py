"""What became of each of many things that one command asked for: some were done, others were not."""

from typing import Any, TypeAlias

import msgspec

from kraftd.cli.failures import CommandError, UnknownOutcomeError

Row: TypeAlias = dict[str, Any]


class Outcomes(msgspec.Struct, frozen=True):
    """What became of all that one command asked for."""

    rows: tuple[Row, ...]
    """What was done, as the command's schema has it."""
    failures: tuple[CommandError, ...]
    """Why the rest was not, an error each."""

    def check(self) -> None:
        """End as demands what was not done.

        Raises:
            CommandError: There is such; that an outcome is unknown weighs most.
        """
        if not self.failures:
            return
        worst = max(self.failures, key=lambda error: isinstance(error, UnknownOutcomeError))
        *texts, last = map(str, self.failures)
        raise type(worst)("; ".join([*(text.removesuffix(".") for text in texts), last]))
