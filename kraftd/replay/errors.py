"""What keeps a replay from starting at all. Anything wrong with the input's bytes is a `Problem` instead.

Of a few lines, because all of the replay raises it, with Spark and without.
"""

from kraftd.errors import ErrorCode, KraftdError


class ReplayError(KraftdError):
    """The replay cannot be done as asked; the text is one line and says what to do."""

    code = ErrorCode.INVALID_REQUEST
