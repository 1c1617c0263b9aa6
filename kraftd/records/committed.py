"""A committed batch, as state machines and readers of the log get it.

Of a few lines, because raft, controller, storage's readers and the daemon share it and nothing else.
"""

from collections.abc import Sequence

import msgspec

from kraftd.types import Epoch, Offset


class CommittedBatch(msgspec.Struct, frozen=True):
    """A whole committed batch (D-18).

    `records` are record values in their frames (`kraftd.records.frame`), undecoded; a control batch has none.
    """

    base_offset: Offset
    end_offset: Offset
    epoch: Epoch
    timestamp_ms: int
    records: Sequence[bytes]
    size_bytes: int = 0
    """How long it is in the log."""
