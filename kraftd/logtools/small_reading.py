"""Reads a small file of a node's directory as a whole, for those who read without a `Disk`."""

from pathlib import Path

from kraftd.regular_file import open_to_read


def read_small(path: Path) -> bytes:
    """The content of a small file; raises an OSError if it cannot be read, or is no file."""
    with open_to_read(path) as file:
        return file.read()
