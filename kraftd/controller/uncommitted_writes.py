"""The writes that the active controller has decided and not yet seen committed.

Decisions are made on the newest image, the one after every write that was appended. Records are applied when
their write is decided, and an image is made of them when somebody looks, or when a group of writes goes to
the log (D-39): one for all of them. When the log gives the records back as committed, that image becomes the
committed one: the leader never decodes what it encoded itself (D-18), unless a batch ends inside a group.

The log gives writes back in the order in which they were appended, whole, without gaps. Anything else in our
own epoch means that this program is broken, and stops it. What the log refuses is withdrawn; the image after
what is left is made anew when the next one is needed, once for all refusals until then.
"""

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from kraftd.controller.decided_elections import ReasonAndRule
from kraftd.controller.decisions import Write
from kraftd.controller.uncommitted_partitions import UncommittedPartitions
from kraftd.errors import InvariantError
from kraftd.metadata.image import MetadataImage
from kraftd.metadata.image_builder import ImageBuilder
from kraftd.records.committed import CommittedBatch
from kraftd.records.frame import AnyRecord, decode_record

_Pending: TypeAlias = tuple[Write, MetadataImage | None]
"""A write and the image after it; None if none was made. A plain tuple: there is one for every request."""


class UncommittedWrites:
    """The writes of one epoch of leadership that are not committed yet, oldest first. Mutable."""

    __slots__ = (
        "_committed",
        "_fold",
        "_new_partitions",
        "_pending",
        "_refused",
        "elections",
        "record_count",
    )

    def __init__(self, committed: MetadataImage) -> None:
        self.record_count = 0
        """The records of all these writes. The log holds at least so many behind what is applied."""
        self.elections: Counter[ReasonAndRule] = Counter()
        """The elections of those that are committed."""
        self._committed = committed
        self._fold: ImageBuilder | None = None
        """What was applied since the last image was made; None if nothing was."""
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
        if not self._pending:
            return self._committed
        image = self._pending[-1][1]
        return self._keep_image() if image is None else image

    @property
    def metadata_version(self) -> int:
        """The level of `metadata.version` in `image`, without making one."""
        fold = None if self._refused else self._fold
        return (fold or self.image).metadata_version

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

    def apply(self, records: Sequence[AnyRecord]) -> None:
        """Apply the records of a write that is to be added next. Nothing may stand in between.

        Raises:
            ImpossibleRecordError: One cannot follow what is there. Then none of them was applied.
        """
        fold = None if self._refused else self._fold
        if fold is None:
            fold = ImageBuilder(self.image)
        self._fold = None  # of what was applied in part nothing stays
        for record in records:
            fold.apply(record, -1)
        self._fold = fold

    def add(self, write: Write, image: MetadataImage | None) -> None:
        """Remember a write that is appended now, and the image after it, made from `image`; None if its
        records were applied just before.
        """
        if image is not None:
            self._fold = None
        self._pending.append((write, image))
        self._new_partitions.add(write.records)
        self.record_count += len(write.records)

    def end_group(self) -> None:
        """Make an image after the newest write: the log will commit up to here."""
        if self._fold is not None:
            self._keep_image()

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
        position = imaged = 0
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
            self._new_partitions.commit(write.records)
            if write.elections:
                self.elections.update(write.elections)
            position = end
            if image is not None:
                self._committed, imaged = image, position
        self.record_count -= position
        if imaged < position:
            self._committed = self._image_after(values[imaged:])
        return self._committed

    def _image_after(self, values: Sequence[bytes]) -> MetadataImage:
        """The image after what was committed, and these records of writes that no image was made after."""
        fold = None if self._pending else self._fold
        if fold is None:
            return _folded(self._committed, values)
        self._fold = None
        return fold.image()

    def _rebuild(self) -> None:
        """Remove what was refused, from the newest back, and apply again what was decided after it.

        Applying again is a safeguard. A daemon tells of a refusal before the next write is decided
        (`kraftd.runtime.driver`), so nothing stands behind it; what the log refuses later ends the
        leadership, and with it all writes. Where a driver tells later, a write that needs what was refused
        raises `ImpossibleRecordError`, and no wrong image is made.
        """
        self._fold = None
        later: list[Write] = []
        while self._refused and self._pending:
            write = self._pending.pop()[0]
            if write in self._refused:
                self._refused.remove(write)
            else:
                later.append(write)
        self._refused.clear()
        for write in reversed(later):
            self._pending.append((write, None))
        self._new_partitions.clear()
        for write, _ in self._pending:
            self._new_partitions.add(write.records)

    def _keep_image(self) -> MetadataImage:
        """Make the image after the newest write, and keep it with that."""
        image = self._folded_again() if self._fold is None else self._fold.image()
        self._fold = None
        self._pending[-1] = self._pending[-1][0], image
        return image

    def _folded_again(self) -> MetadataImage:
        """The image after all of these writes, from the last one that was made."""
        values: deque[bytes] = deque()
        for write, image in reversed(self._pending):
            if image is not None:
                return _folded(image, values)
            values.extendleft(reversed(write.records))
        return _folded(self._committed, values)


def _folded(image: MetadataImage, values: Iterable[bytes]) -> MetadataImage:
    builder = ImageBuilder(image)
    for value in values:
        builder.apply(decode_record(value), -1)
    return builder.image()
