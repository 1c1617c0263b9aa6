"""What became of each of many things that one command asked for: some were done, others were not.

What an error of Kafka's means to a command that changes things is here, for all of them: nothing was done and
to ask again may help, whether it was done is unknown (D-13), or it was refused.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import msgspec

from kraftd.cli.client import error_name
from kraftd.cli.failures import CommandError, RefusedError, UnhealthyError, UnknownOutcomeError
from kraftd.errors import ErrorCode

Row: TypeAlias = dict[str, Any]
Result: TypeAlias = tuple[int, str | None]
"""The error of one thing, and the node's text."""

K = TypeVar("K")

NOT_NOW: Final = frozenset((ErrorCode.NOT_CONTROLLER, ErrorCode.THROTTLING_QUOTA_EXCEEDED))
"""Nothing was appended, and the request may be repeated in a moment."""

_NAMED_MAX: Final = 3
"""So many things that failed alike are all named; of more two, and how many they are."""


class Words(NamedTuple):
    """How a command speaks of what it changes."""

    done: str
    """What has become of a thing that was changed: `created`."""
    look: str
    """The command that shows whether it was: `topics list`."""


class Outcomes(msgspec.Struct, frozen=True):
    """What became of all that one command asked for."""

    rows: tuple[Row, ...]
    """What was done, as the command's schema has it."""
    failures: tuple[CommandError, ...]
    """Why the rest was not: an error for all of which the same is said."""
    unchanged: int = 0
    """For how many things nothing was left to do."""

    @property
    def may_have_changed(self) -> bool:
        """Whether anything was done, or may have been."""
        return bool(self.rows) or any(isinstance(error, UnknownOutcomeError) for error in self.failures)

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


def outcomes_of(
    wanted: Iterable[K],
    found: Mapping[K, Result],
    row: Callable[[K], Row],
    text_of: Callable[[K], str],
    words: Words,
) -> Outcomes:
    """Sort what was wanted into what was done and what was not.

    Args:
        wanted: The things, in the order in which they are told.
        found: What the node says of each.
        row: What is told of one that was done.
        text_of: What one is called.
        words: How the command speaks of the change.

    Raises:
        UnhealthyError: Nothing was done, and to ask again may help.
    """
    rows: list[Row] = []
    failed: dict[Result | None, list[str]] = {}
    for key in wanted:
        result = found.get(key)
        if result is not None and result[0] == ErrorCode.NONE:
            rows.append(row(key))
        else:
            failed.setdefault(result, []).append(text_of(key))
    failures = [_failure(names, result, words) for result, names in failed.items()]
    if failures and not rows and all(isinstance(error, UnhealthyError) for error in failures):
        raise failures[0]
    return Outcomes(tuple(rows), tuple(failures))


def _failure(names: Sequence[str], result: Result | None, words: Words) -> CommandError:
    what, were = _listed(names), "were" if len(names) > 1 else "was"
    if result is None:
        return RefusedError(f"the node does not say what became of {what}")
    code, message = result
    text = (message or "").strip() or error_name(code)
    if code == ErrorCode.REQUEST_TIMED_OUT:
        return unknown_outcome(f"{what} {were} changed", text, words.look)
    kind = UnhealthyError if code in NOT_NOW else RefusedError
    return kind(f"{what} {were} not {words.done}: {text}")


def _listed(names: Sequence[str]) -> str:
    shown = names if len(names) <= _NAMED_MAX else [*names[:2], f"… ({len(names)})"]
    return ", ".join(shown)


def unknown_outcome(what: str, why: str, look: str) -> UnknownOutcomeError:
    """The error for a change that may have been made, or may still be."""
    return UnknownOutcomeError(f"whether {what} is unknown: {why}; look with {look} before repeating it")
