"""What tests put in the way of a file system's calls: a note of the changes, a refusal, the end of the power.

Each sets `SimFileSystem.faults` until `calm`. Only calls that change the disk are counted.
"""

import errno
from collections.abc import Callable
from pathlib import Path

from tests.sim.filesystem import CHANGES, SimFileSystem


class PowerCutError(Exception):
    """The machine stops before the call that raises this."""


class Changes:
    """Notes every change and the name it concerns; `fault` may answer, told how many came before."""

    def __init__(self, fs: SimFileSystem, fault: Callable[[str, str, int], int | None] | None = None) -> None:
        self.calls: list[tuple[str, str]] = []
        self._fault = fault
        fs.faults = self

    def __call__(self, operation: str, path: Path, _size_bytes: int) -> int | None:
        if operation not in CHANGES:
            return None
        taken = self._fault(operation, path.name, len(self.calls)) if self._fault is not None else None
        self.calls.append((operation, path.name))
        return taken


def calm(fs: SimFileSystem) -> None:
    """Nothing is in the way any more."""
    fs.faults = None


def cut_power_before(fs: SimFileSystem, number: int) -> Changes:
    """Stop at the change with this number, counted from now."""

    def cut(_operation: str, _name: str, count: int) -> None:
        if count >= number:
            raise PowerCutError

    return Changes(fs, cut)


def refuse(fs: SimFileSystem, refused: str) -> Changes:
    """Answer every such call with an error."""

    def fault(operation: str, _name: str, _count: int) -> None:
        if operation == refused:
            raise OSError(errno.EIO, "Input/output error")

    return Changes(fs, fault)
