"""The error of a record that cannot follow what came before it; raised by what applies records.

Of a few lines, because parts of the image that know nothing of each other raise it: it lies below them.
"""

from kraftd.errors import ErrorCode, KraftdError
from kraftd.types import Offset


class ImpossibleRecordError(KraftdError):
    """A record that cannot follow what came before it: the log is wrong, or what was applied before it."""

    code = ErrorCode.CORRUPT_MESSAGE

    def __init__(self, offset: Offset, reason: str, which: str = "") -> None:
        """Name the record by its offset, or as `which`: those of a snapshot have none."""
        super().__init__(f"{which or f'the record at offset {offset}'} is impossible: {reason}")
        self.offset = offset
        self.reason = reason
