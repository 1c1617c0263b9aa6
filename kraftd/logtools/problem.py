"""One thing that is wrong with a log or a directory: file, byte, offset, what it is, and what to do.

All that reads directories here but `inspection` tells what it finds in these, and so does the replay. A
problem is a fact about the input, never about this program: what cannot be answered at all is an
`UnanswerableError`.
"""

from enum import StrEnum
from pathlib import Path

import msgspec

from kraftd.types import Offset


class ProblemKind(StrEnum):
    """What is wrong, by what it means for the result."""

    DAMAGED = "damaged"
    """Bytes that are not what was written."""
    TORN = "torn"
    """The file only ends too early, inside a batch: it was being written."""
    INCOMPLETE = "incomplete"
    """Something that the directory itself says exists is not there."""
    DIVERGED = "diverged"
    """Two nodes hold different records at one offset."""
    NOTE = "note"
    """Worth knowing; the result does not suffer."""


class Problem(msgspec.Struct, frozen=True):
    """One thing to tell the operator. -1 and empty text stand for "does not apply".

    `file` lies in `directory`, `position_bytes` in the file. `offset` is the first that is affected.
    `size_bytes` is how much of the file cannot be used.
    """

    kind: ProblemKind
    directory: str
    text: str
    file: str = ""
    position_bytes: int = -1
    offset: Offset = -1
    size_bytes: int = -1
    action: str = ""

    def __str__(self) -> str:
        """The whole of it on one line."""
        return f"{self.directory}/{self.short}" if self.file else f"{self.directory}: {self.what}"

    @property
    def is_fault(self) -> bool:
        """Whether something is wrong: not with a note, nor with a batch that was being written."""
        return self.kind not in (ProblemKind.NOTE, ProblemKind.TORN)

    @property
    def short(self) -> str:
        """The same without the directory, for a list that stands below its name."""
        if not self.file:
            return self.what
        where = f" at byte {self.position_bytes}" if self.position_bytes >= 0 else ""
        where += f", offset {self.offset}" if where and self.offset >= 0 else ""
        return f"{self.file}{where}: {self.what}"

    @property
    def what(self) -> str:
        """What is wrong and what to do, without the place."""
        return f"{self.text}; {self.action}" if self.action else self.text

    def within(self, directory: Path) -> "Problem":
        """The same problem, with its file named from a directory above it."""
        path = Path(self.directory, self.file)
        return msgspec.structs.replace(self, directory=str(directory), file=str(path.relative_to(directory)))


def in_file(
    path: str | Path,
    text: str,
    *,
    kind: ProblemKind = ProblemKind.DAMAGED,
    position_bytes: int = -1,
    offset: Offset = -1,
    size_bytes: int = -1,
) -> Problem:
    """A problem of a file, given by its path."""
    whole = Path(path)
    return Problem(kind, str(whole.parent), text, whole.name, position_bytes, offset, size_bytes)
