"""The writes that the active controller has decided and not yet seen committed.

Decisions are made on the newest image, the one after every write that was appended; each write remembers the
image that its records lead to. When the log gives the records back as committed, that image becomes the
committed one: the leader never decodes what it encoded itself (D-18).

The log gives writes back in the order in which they were appended, whole, without gaps. Anything else in our
own epoch means that this program is broken, and stops it. What the log refuses is withdrawn; the images after
it are made anew when the next one is needed, once for all refusals until then.
"""

from collections import Counter, deque
from typing import TypeAlias

from kraftd.controller.decided_elections import ReasonAndRule
from kraftd.controller.decisions import Write
from kraftd.controller.uncommitted_partitions import UncommittedPartitions
from kraftd.errors import InvariantError
from kraftd.metadata.image import MetadataImage
from kraftd.metadata.image_builder import ImageBuilder
from kraftd.records.committed import CommittedBatch
from kraftd.records.frame import decode_record

_Pending: TypeAlias = tuple[Write, MetadataImage]
"""A write and the image after it. A plain tuple, because one is made for every request."""


class UncommittedWrites:
    """The writes of one epoch of leadership that are not committed yet, oldest first. Mutable."""

    __slots__ = ("_committed", "_new_partitions", "_pending", "_refused", "elections", "record_count")

    def __init__(self, committed: MetadataImage) -> None:
        self.record_count = 0
        """The records of all these writes. The log holds at least so many behind what is applied."""
        self.elections: Counter[ReasonAndRule] = Counter()
        """The elections of those that are committed."""
        self._committed = committed
        self._pending: deque[_Pending] = deque()
        self._refused: set[Write] = set()
        self._new_partitions = UncommittedPartitions()

    def __len__(self) -> int:
        return len(self._pending) - len(self._refused)

    @property
    def committed(self) -> MetadataImage:
        """The image after everything that is committed."""
        return self._committed

    @property
    def image(self) -> MetadataImage:
        """The image after everything that was appended and not refused."""
        if self._refused:
            self._rebuild()
        return self._pending[-1][1] if self._pending else self._committed

    @property
    def newest(self) -> Write | None:
        """The write that led to `image`; None if everything is committed."""
        if self._refused:
            self._rebuild()
        return self._pending[-1][0] if self._pending else None

    @property
    def new_partition_count(self) -> int:
        """How many partitions `image` has that are not committed."""
        if self._refused:
            self._rebuild()
        return self._new_partitions.count

    def add(self, write: Write, image: MetadataImage) -> None:
        """Remember a write that is appended now, and the image after it, made from `image`."""
        self._pending.append((write, image))
        self._new_partitions.add(write.records)
        self.record_count += len(write.records)

    def withdraw(self, write: Write) -> None:
        """Forget a write of this epoch that the log has refused."""
        self._refused.add(write)
        self.record_count -= len(write.records)

    def commit(self, batch: CommittedBatch) -> MetadataImage:
        """Remove the writes that a committed batch of our epoch consists of. Returns the image after them.

        Raises:
            InvariantError: The batch is not made of the oldest writes in their order.
        """
        if self._refused:
            self._rebuild()
        values = tuple(batch.records)
        position = 0
        while position < len(values):
            if not self._pending:
                raise InvariantError(
                    f"batch at {batch.base_offset} of our epoch {batch.epoch} holds records that this "
                    "controller never wrote"
                )
            write, image = self._pending.popleft()
            end = position + len(write.records)
            if values[position:end] != write.records:
                raise InvariantError(
                    f"batch at {batch.base_offset} of our epoch {batch.epoch} does not hold, at offset "
                    f"{batch.base_offset + position}, the {write.kind} written there"
                )
            self._committed = image
            self._new_partitions.commit(write.records)
            self.elections.update(write.elections)
            position = end
        self.record_count -= position
        return self._committed

    def _rebuild(self) -> None:
        """Remove what was refused, from the newest back, and apply again what was decided after it.

        Applying again is a safeguard. A daemon tells of a refusal before the next write is decided
        (`kraftd.runtime.driver`), so nothing stands behind it; what the log refuses later ends the
        leadership, and with it all writes. Where a driver tells later, a write that needs what was refused
        raises `ImpossibleRecordError`, and no wrong image is made.
        """
        later: list[Write] = []
        while self._refused and self._pending:
            write = self._pending.pop()[0]
            if write in self._refused:
                self._refused.remove(write)
            else:
                later.append(write)
        self._refused.clear()
        for write in reversed(later):
            builder = ImageBuilder(self.image)
            for value in write.records:
                builder.apply(decode_record(value), -1)
            self._pending.append((write, builder.image()))
        self._new_partitions.clear()
        for write, _ in self._pending:
            self._new_partitions.add(write.records)
