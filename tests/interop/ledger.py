"""What was committed to a metadata log, to be found again in it whoever wrote on: Kafka or kraftd.

ledger = Ledger(directories)
ledger.compare(high_watermark)  # after each turn, with every process stopped
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from kraftd.records.batch import scan


class Written(NamedTuple):
    """One record as it is on the disk, with what its batch says of it."""

    epoch: int
    timestamp_ms: int
    is_control: bool
    key: bytes | None
    value: bytes | None


class Ledger:
    """Every record that was committed so far, by offset, as it was found first."""

    def __init__(self, directories: Mapping[int, Path]) -> None:
        self.directories = directories
        self.committed: dict[int, Written] = {}

    def compare(self, end_offset: int) -> None:
        """Those of them that a log reaches back to are in it, unchanged. What is below `end_offset` is in a
        majority, too.
        """
        logs = {node: records_of(directory) for node, directory in self.directories.items()}
        for node, log in logs.items():
            last = max(log)
            assert not (lost := [each for each in self.committed if each > last]), f"node {node}: {lost}"
            assert not (other := differing(log, self.committed)), f"node {node}: {other}"
        longest = max(logs.values(), key=lambda log: (log[max(log)].epoch, max(log)))
        known = {offset: longest[offset] for offset in longest if offset < end_offset}
        holders = [log for log in logs.values() if max(log) >= max(known) and not differing(log, known)]
        assert max(longest) + 1 >= end_offset > max(self.committed, default=-1) + 1
        assert len(holders) > len(logs) // 2
        self.committed |= known


def records_of(directory: Path) -> dict[int, Written]:
    """The log of a node from its first segment on; its batches follow each other without a gap."""
    found: dict[int, Written] = {}
    paths = sorted((directory / "__cluster_metadata-0").glob("*.log"))
    end = int(paths[0].stem)
    for path in paths:
        assert int(path.stem) == end, path
        for batch in scan(path.read_bytes(), path=str(path)):
            assert batch.base_offset == end, path
            records = list(batch.records())
            assert len(records) == batch.end_offset - end, path
            for offset, record in enumerate(records, end):
                found[offset] = Written(
                    batch.epoch, batch.max_timestamp, batch.is_control, record.key, record.value
                )
            end = batch.end_offset
    return found


def differing(log: Mapping[int, Written], committed: Mapping[int, Written]) -> str:
    """The first record of both that differs; empty if none does."""
    for offset in sorted(log.keys() & committed.keys()):
        if log[offset] != committed[offset]:
            return f"offset {offset} is {log[offset]}, and was {committed[offset]}"
    return ""
