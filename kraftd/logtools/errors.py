"""Errors of the log tools: a question that the files cannot answer."""

from kraftd.errors import KraftdError
from kraftd.logtools.problem import Problem


class UnanswerableError(KraftdError):
    """The files cannot answer: what is missing or wrong, where, and what to do."""

    def __init__(self, what: str | Problem) -> None:
        super().__init__(str(what))
        self.problem = what if isinstance(what, Problem) else None
        """What is wrong with a file, if that is the reason."""
