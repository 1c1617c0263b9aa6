"""What does a broker know of the metadata log? Its copy, how far it is committed, and the image of that.

A broker takes uncommitted batches and truncates them later; it publishes only up to the high watermark
(KAFKA-14857), batch by batch. A snapshot may take the place of all of it (`load`). The copy survives its
process. What it published must be what the controllers applied: `world.brokers` compares each image's hash.

Not here: how batches come (`broker_process`).
"""

from collections.abc import Callable

import msgspec

from kraftd.audit.invariant import Violation
from kraftd.errors import KraftdError
from kraftd.metadata.image import EMPTY, MetadataImage
from kraftd.metadata.image_builder import ImageBuilder
from kraftd.records.batch import scan
from kraftd.types import NO_NODE, Epoch, NodeId, Offset, OffsetAndEpoch
from tests.sim.snapshots import folded

FOLDS_MAX = 200
"""How many batches are remembered; brokers that are further behind apply theirs themselves."""


class Batch(msgspec.Struct, frozen=True):
    """One batch of the copy."""

    end_offset: Offset
    epoch: Epoch
    values: tuple[bytes, ...]
    is_control: bool


class Folds:
    """What batches made of images lately: the brokers of one world apply the same to the same."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, tuple[bytes, ...]], tuple[MetadataImage, MetadataImage]] = {}
        """The image before, which keeps its id from being another's, and the image after."""

    def applied(self, image: MetadataImage, batch: Batch) -> MetadataImage:
        """The image after a batch."""
        key = id(image), batch.values
        known = self._known.get(key)
        if known is None:
            builder = ImageBuilder(image)
            builder.apply_values(batch.values, batch.end_offset - len(batch.values))
            known = self._known[key] = image, builder.image()
            if len(self._known) > FOLDS_MAX:
                del self._known[next(iter(self._known))]
        return known[1]


class MetadataLog:
    """The copy of one broker, on its disk."""

    def __init__(self, folds: Folds | None = None) -> None:
        self._folds = folds or Folds()
        self.batches: list[Batch] = []
        self.epoch: Epoch = 0
        """The newest epoch of the quorum that it heard of."""
        self.leader: NodeId = NO_NODE
        """Who leads that epoch, as far as it knows."""
        self.image: MetadataImage = EMPTY
        self.published_offset: Offset = 0
        self.has_real_record = False
        """Whether a record came that is no control record: before that nothing is published."""
        self._published = 0
        """How many batches."""
        self._start = OffsetAndEpoch(0, 0)
        """Where the batches begin: the snapshot that was loaded last."""

    @property
    def end_offset(self) -> Offset:
        """The offset that the next record has."""
        return self.batches[-1].end_offset if self.batches else self._start.offset

    @property
    def last_epoch(self) -> Epoch:
        """The epoch of the last batch."""
        return self.batches[-1].epoch if self.batches else self._start.epoch

    def follow(self, leader: NodeId, epoch: Epoch) -> bool:
        """Hear who leads; whether that is news.

        Raises:
            Violation: Two leaders of one epoch.
        """
        if epoch < self.epoch or (epoch == self.epoch and leader in (NO_NODE, self.leader)):
            return False
        if epoch == self.epoch and self.leader not in (NO_NODE, leader):
            text = f"epoch {epoch} is led by {self.leader} and by {leader}, as a broker is told"
            raise Violation(f"BrokersHearOfOneLeader: {text}")
        self.epoch, self.leader = epoch, leader
        return True

    def append(self, data: bytes) -> None:
        """Take what a fetch brought.

        Raises:
            Violation: It does not continue the copy.
        """
        for view in scan(data):
            view.check()
            if view.base_offset != self.end_offset or view.epoch < self.last_epoch:
                text = f"a batch at {view.base_offset} of epoch {view.epoch} after {self.end_offset}"
                raise Violation(f"FetchesContinueTheLog: {text} of epoch {self.last_epoch}")
            values = () if view.is_control else tuple(view.values())
            self.batches.append(Batch(view.end_offset, view.epoch, values, view.is_control))

    def load(
        self, snapshot_id: OffsetAndEpoch, data: bytes, told: Callable[[Offset, MetadataImage], None]
    ) -> None:
        """Put a snapshot in the place of the copy, and publish it; `told` hears of it.

        Raises:
            Violation: It is none, or ends before what was published.
        """
        if snapshot_id.offset < self.published_offset:
            text = f"is told to load {snapshot_id}, and has published up to {self.published_offset}"
            raise Violation(f"SnapshotsGoForward: a broker {text}")
        try:
            self.image = folded(data, snapshot_id)
        except KraftdError as error:
            raise Violation(f"SnapshotsAreWhole: a broker has loaded {snapshot_id}: {error}") from error
        self.batches, self._published, self._start = [], 0, snapshot_id
        self.published_offset, self.has_real_record = snapshot_id.offset, True
        told(snapshot_id.offset, self.image)

    def truncate(self, epoch: Epoch, end_offset: Offset) -> None:
        """Cut what another leader does not have: what is above an epoch's end, or of a later epoch.

        Raises:
            Violation: That would cut what is committed; Kafka's broker ends its process.
        """
        while self.batches and (self.end_offset > end_offset or self.last_epoch > epoch):
            self.batches.pop()
        if self.end_offset < self.published_offset:
            text = f"to {end_offset} of epoch {epoch}, and {self.published_offset} was committed"
            raise Violation(f"NothingCommittedIsTruncated: a broker is told to truncate {text}")

    def lose_tail(self) -> None:
        """A crash: what was not known to be committed is gone."""
        del self.batches[self._published :]

    def publish(self, high_watermark: Offset, told: Callable[[Offset, MetadataImage], None]) -> bool:
        """Apply what is committed; whether there was something. `told` hears of each batch's end."""
        before = self._published
        while self._published < len(self.batches):
            batch = self.batches[self._published]
            if batch.end_offset > high_watermark:
                break
            if batch.values:
                self.image = self._folds.applied(self.image, batch)
                self.has_real_record = True
            self._published += 1
            self.published_offset = batch.end_offset
            told(batch.end_offset, self.image)
        return self._published > before
