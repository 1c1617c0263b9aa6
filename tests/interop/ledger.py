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
    """Every record that was committed so far, as it was found first."""

    def __init__(self, directories: Mapping[int, Path]) -> None:
        self.directories = directories
        self.committed: list[Written] = []

    def compare(self, end_offset: int) -> None:
        """All of them are in each log, unchanged. Those below `end_offset` are in a majority, too."""
        logs = {node: records_of(directory) for node, directory in self.directories.items()}
        known = len(self.committed)
        for node, log in logs.items():
            assert log[:known] == self.committed, f"node {node}: {first_difference(log, self.committed)}"
        longest = max(logs.values(), key=lambda log: (log[-1].epoch, len(log)))
        holders = [log for log in logs.values() if log[:end_offset] == longest[:end_offset]]
        assert len(longest) >= end_offset > known
        assert len(holders) > len(logs) // 2
        self.committed = longest[:end_offset]


def records_of(directory: Path) -> list[Written]:
    """The log of a node from offset 0; its batches follow each other without a gap."""
    found: list[Written] = []
    for path in sorted((directory / "__cluster_metadata-0").glob("*.log")):
        assert int(path.stem) == len(found), path
        for batch in scan(path.read_bytes(), path=str(path)):
            assert batch.base_offset == len(found), path
            found += [
                Written(batch.epoch, batch.max_timestamp, batch.is_control, record.key, record.value)
                for record in batch.records()
            ]
            assert batch.end_offset == len(found), path
    return found


def first_difference(log: list[Written], committed: list[Written]) -> str:
    """Where a log and the ledger part."""
    for offset, (one, other) in enumerate(zip(log, committed, strict=False)):
        if one != other:
            return f"offset {offset} is {one}, and was {other}"
    return f"the log ends at {len(log)}, and {len(committed)} records were committed"
