"""Reads a small file of a node's directory as a whole, for those who read without a `Disk`; and says what is
wrong with one that can be read, in the same words whoever asks.
"""

import os
from pathlib import Path

from kraftd.errors import MalformedError
from kraftd.records import small_files
from kraftd.records.meta_properties import MetaProperties
from kraftd.regular_file import open_to_read


def properties_problem(properties: MetaProperties) -> str:
    """What a `meta.properties` lacks that can be read; empty if nothing."""
    if properties.cluster_id is None or properties.node_id is None:
        return "does not say which cluster and which node this is"
    return ""


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
