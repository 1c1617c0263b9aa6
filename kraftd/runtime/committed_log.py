"""The committed batches of a node, from memory or from the disk.

Entered through `CommittedLog.batches`, by the applier. The raft node keeps the newest batches in memory,
and their record values as they were appended or fetched, so that nothing is decoded twice (D-15). What is
older is read from the disk in the reader thread, which checks it. What comes back is cut at what was
committed when the read began: above that, the log may have been truncated and written anew meanwhile. A
module of its own, short as it is, so that the applier knows neither raft's memory nor the disk.
"""

from collections.abc import Callable, Iterable, Iterator

from kraftd.raft import RaftNode
from kraftd.records.batch import BatchView, ending_by, walk
from kraftd.records.committed import CommittedBatch
from kraftd.runtime.store import DirectoryStore
from kraftd.types import Offset


class CommittedLog:
    """Reads committed batches in the form that a state machine gets."""

    def __init__(self, raft_node: RaftNode, store: DirectoryStore) -> None:
        self._raft_node = raft_node
        self._store = store

    def batches(
        self, offset: Offset, max_bytes: int, when_read: Callable[[Iterator[CommittedBatch] | None], None]
    ) -> Iterator[CommittedBatch] | None:
        """The batches from an offset on, if they are in memory; each is decoded when it is asked for.

        If they are not, returns None and begins to read them from the disk. `when_read` is called with them
        on the loop, with None if the log cannot be read there.
        """
        buffers = self._raft_node.committed_batches(offset, max_bytes)
        if buffers is not None:
            return self._committed(map(BatchView, buffers))
        # Node 2 reads from 40 on, and 50 is committed. Before that comes back a new leader makes it cut what
        # is above 50, and 60 of its own are committed: what was read from 50 to 60 never was.
        committed = self._raft_node.high_watermark

        def ended(data: bytes) -> None:
            when_read(self._committed(walk(ending_by(data, committed))) if data else None)

        self._store.read_cold(offset, max_bytes, ended)
        return None

    def _committed(self, views: Iterable[BatchView]) -> Iterator[CommittedBatch]:
        take_values = self._raft_node.take_values
        for view in views:
            yield CommittedBatch(
                base_offset=view.base_offset,
                end_offset=view.end_offset,
                epoch=view.epoch,
                timestamp_ms=view.max_timestamp,
                records=() if view.is_control else take_values(view.base_offset) or view.values(),
                size_bytes=view.size_bytes,
            )
