"""Every batch that was committed in a cluster, from offset 0 on, though no log may have it any more.

Entered by the nodes: `note` when one appends a batch, whoever it has it from; `commit` when one learns that
its log is committed up to somewhere. The first teller wins, and each later one is compared with it: by
`kraftd.audit.agreement`, since a digest covers everything before it.

A log that begins above offset 0 is compared with the others by the digest that the ledger has there.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from hashlib import blake2b

from kraftd.audit.invariants import Mark
from kraftd.records.batch import BatchView
from kraftd.types import Offset


class Ledger:
    """What was committed in one cluster."""

    def __init__(self) -> None:
        self._batches: dict[int, bytes] = {}
        """Every batch that was ever appended, by the digest of the log up to its end."""
        self._ends: list[Offset] = []
        self._digests: list[int] = []
        """Of the committed ones, in order."""
        self.end_offset: Offset = 0
        """What is committed, as far as anybody knows."""

    def note(self, digest: int, batch: BatchView) -> None:
        """A batch is in some log."""
        if digest not in self._batches:
            self._batches[digest] = bytes(batch.raw)

    def commit(self, log: Sequence[Mark], high_watermark: Offset) -> None:
        """A log is committed up to there."""
        if high_watermark <= self.end_offset:
            return
        end = bisect_right(log, high_watermark, key=lambda mark: mark.end_offset)
        begin = bisect_right(log, self.end_offset, hi=end, key=lambda mark: mark.end_offset)
        for mark in log[begin:end]:
            self._ends.append(mark.end_offset)
            self._digests.append(mark.digest)
            self.end_offset = mark.end_offset

    def digest_at(self, offset: Offset) -> int | None:
        """The digest of the committed log up to a boundary; None if there is none at that offset."""
        if not offset:
            return 0
        index = bisect_left(self._ends, offset)
        found = index < len(self._ends) and self._ends[index] == offset
        return self._digests[index] if found else None

    def batches(self, offset: Offset, end: Offset) -> Iterator[BatchView]:
        """The committed batches between two boundaries."""
        begin = bisect_right(self._ends, offset)
        for digest in self._digests[begin : bisect_right(self._ends, end)]:
            yield BatchView(self._batches[digest])


def digest_of(batch: BatchView, before: int) -> int:
    """The digest of a log up to the end of a batch, by that of the log before it; never 0.

    Of 64 bits: among the thousand batches of each of ten thousand clusters two had the same of 32.
    """
    digest = blake2b(batch.raw[8:], digest_size=8, key=before.to_bytes(8)).digest()
    return int.from_bytes(digest) or 1
