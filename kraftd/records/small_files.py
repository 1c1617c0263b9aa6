"""How large a file may be that is read as a whole: what it can hold, with room to spare.

A file that claims more is damaged or another's, and is not read: a hole of terabytes takes no room on a disk,
and all of it in memory. Segments and snapshots are read in pieces, and have no bound here.
"""

from collections.abc import Mapping

from kraftd.records import names
from kraftd.records.index import INDEX_BYTES_MAX

_FEW_LINES = 1 << 20
"""Ids, voters, a state: hundreds of bytes."""

BYTES_MAX: Mapping[str, int] = {
    names.META_PROPERTIES: _FEW_LINES,
    names.PARTITION_METADATA: _FEW_LINES,
    names.QUORUM_STATE: _FEW_LINES,
    names.SIDECAR: _FEW_LINES,
    names.LOCK: _FEW_LINES,
    names.EPOCH_CHECKPOINT: 64 << 20,
    names.BOOTSTRAP_CHECKPOINT: 64 << 20,
}
"""By name. An epoch takes 31 bytes at most: two million of them. A bootstrap checkpoint has a record for each
feature and each user."""

OTHERS_BYTES_MAX = max(64 << 20, INDEX_BYTES_MAX)
"""Of the indexes, of which the largest point to two gigabytes of log, and of the snapshot at offset 0."""


def excess(name: str, size_bytes: int) -> str:
    """What is wrong with the size of a file that is to be read as a whole; empty if nothing is."""
    bytes_max = BYTES_MAX.get(name, OTHERS_BYTES_MAX)
    if size_bytes <= bytes_max:
        return ""
    return (
        f"has {size_bytes:,} bytes, and no such file has more than {bytes_max:,}: "
        "it is damaged or another's: move it away, and put the file back"
    )
