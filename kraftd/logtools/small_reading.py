"""Reads a small file of a node's directory as a whole, for those who read without a `Disk`."""

import os
from pathlib import Path

from kraftd.errors import MalformedError
from kraftd.records import small_files
from kraftd.regular_file import open_to_read


def read_small(path: Path) -> bytes:
    """The content of a small file.

    Raises:
        MalformedError: It is larger than it can be.
        OSError: It cannot be read, or is no file.
    """
    with open_to_read(path) as file:
        size_bytes = os.fstat(file.fileno()).st_size
        if excess := small_files.excess(path.name, size_bytes):
            raise MalformedError(f"{path.name}: {excess}")
        return file.read(size_bytes)
