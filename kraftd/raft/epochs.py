"""Which epoch wrote which part of the log: the mirror of `leader-epoch-checkpoint`.

Answers the leader's question on every fetch, whether a follower's position lies on its own log, and the
follower's, where to cut when it does not.

Follows: LOG-07, LOG-09, LOG-10, LOG-12.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from kraftd.types import Epoch, EpochEntry, Offset, OffsetAndEpoch


class EpochCache:
    """Ascending epochs with the offset where each begins."""

    __slots__ = ("_epochs", "_starts")

    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
        self._epochs: list[Epoch] = []
        self._starts: list[Offset] = []
        for entry in entries:
            self.assign(entry.epoch, entry.start_offset)

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        """The cache as a value."""
        return tuple(map(EpochEntry, self._epochs, self._starts))

    @property
    def last_epoch(self) -> Epoch:
        """The newest epoch, 0 while there is none (LOG-12)."""
        return self._epochs[-1] if self._epochs else 0

    def assign(self, epoch: Epoch, start_offset: Offset) -> None:
        """Note that `epoch` begins at `start_offset`; what contradicts it is older and goes (LOG-09)."""
        if self._epochs and self._epochs[-1] == epoch and self._starts[-1] <= start_offset:
            return
        keep = min(bisect_left(self._epochs, epoch), bisect_left(self._starts, start_offset))
        del self._epochs[keep:], self._starts[keep:]
        self._epochs.append(epoch)
        self._starts.append(start_offset)

    def truncate(self, end_offset: Offset) -> None:
        """Drop the epochs that would begin at the log's new end or behind it (LOG-07)."""
        keep = bisect_left(self._starts, end_offset)
        del self._epochs[keep:], self._starts[keep:]

    def end_of(self, epoch: Epoch, log_end_offset: Offset) -> OffsetAndEpoch:
        """Find where the records of `epoch` end in this log.

        If a follower has read past the answer, the two logs have diverged: it cuts there and fetches again.
        Every round but the last drops at least one epoch, so the rounds are bounded by the epochs it holds.

        Returns:
            The latest epoch held that is not after `epoch`, and the offset (exclusive) where it ends. Before
            the first epoch that is `epoch` itself, ending where the log's first one begins.

        Source:
            LOG-10, KIP-101 for the rule, KIP-595 for its use on every fetch.
        """
        if not self._epochs:
            return OffsetAndEpoch(log_end_offset, epoch)
        floor = bisect_right(self._epochs, epoch) - 1
        if floor < 0:
            return OffsetAndEpoch(self._starts[0], epoch)
        if floor == len(self._epochs) - 1:
            return OffsetAndEpoch(log_end_offset, self._epochs[-1])
        return OffsetAndEpoch(self._starts[floor + 1], self._epochs[floor])

    def begins_at(self, offset: Offset) -> bool:
        """Whether an epoch begins at `offset`, which makes it a boundary between batches."""
        index = bisect_left(self._starts, offset)
        return index < len(self._starts) and self._starts[index] == offset

    def epoch_before(self, end_offset: Offset) -> Epoch:
        """The epoch of the record just before `end_offset`, 0 if there is none."""
        index = bisect_left(self._starts, end_offset) - 1
        return self._epochs[index] if index >= 0 else 0
