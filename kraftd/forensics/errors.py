"""What the questions cannot answer."""

from kraftd.errors import KraftdError


class UnanswerableError(KraftdError):
    """The files cannot answer: what is missing or wrong, where, and what to do."""
