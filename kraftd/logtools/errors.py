"""Errors of the log tools: a question that the files cannot answer.

Of a few lines, because modules that know nothing of each other raise it, and the command line and the replay
tell it.
"""

from pathlib import Path

from kraftd.errors import KraftdError
from kraftd.logtools.problem import Problem


class UnanswerableError(KraftdError):
    """The files cannot answer: what is missing or wrong, where, and what to do."""

    def __init__(self, what: str | Problem) -> None:
        super().__init__(str(what))
        self.problem = what if isinstance(what, Problem) else None
        """What is wrong with a file, if that is the reason."""


class FileGoneError(UnanswerableError):
    """A file that was listed is not there any more: a running node's cleaner removes what is old (CLN-06).

    Not for who goes on to the next file: the list as a whole is out of date (`finding.listed_again`).
    """

    def __init__(self, path: Path) -> None:
        super().__init__(str(no_such_path(path)))
        self.path = path


def no_such_path(path: Path) -> UnanswerableError:
    """The error of a path that was named and is not there."""
    return UnanswerableError(f"{path} does not exist; name a node's directory, a segment or a snapshot")
