"""Do log and snapshots stay small, and is nothing lost by that?

`Sizes` looks at the nodes' directories again and again while a run goes on. `complaints` looks at what is
there at the end: each log is covered by a snapshot where it does not begin at 0, snapshots of one id are the
same bytes, and the state that a node's files lead to is that of all records that were ever committed.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from kraftd.errors import KraftdError
from kraftd.logtools.finding import find_log
from kraftd.logtools.points import Point
from kraftd.logtools.state import state_at
from kraftd.metadata.image import EMPTY
from kraftd.metadata.image_builder import ImageBuilder
from kraftd.records import names
from kraftd.records.batch import BatchView
from kraftd.storage import OsFileSystem
from kraftd.storage.disk import Disk
from kraftd.storage.snapshot_files import survey_snapshots
from kraftd.types import NodeId, Offset

LARGEST_BYTES: Final = 6 << 20
"""Log and snapshots of a node at any time: a snapshot has 1 MB, there may be three, with the one that is
being written and one that is about to go, and the log goes on until a snapshot is there behind its end: on a
full machine 3.5 MB were seen.
"""

_LOOK_S: Final = 0.2


class Sizes:
    """The most that each node had on its disk."""

    def __init__(self, directories: Mapping[NodeId, Path]) -> None:
        self.largest = dict.fromkeys(directories, 0)
        self._directories = directories

    async def watch(self) -> None:
        """Look until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(_LOOK_S)

    def look(self) -> None:
        """Look once."""
        for node_id, directory in self._directories.items():
            self.largest[node_id] = max(self.largest[node_id], size_of(directory))

    def complaints(self) -> Iterator[str]:
        """Which node had too much."""
        for node_id, size_bytes in self.largest.items():
            if size_bytes > LARGEST_BYTES:
                yield (
                    f"node {node_id} had {size_bytes:,} bytes of log and snapshots, "
                    f"more than {LARGEST_BYTES:,}"
                )


def size_of(directory: Path) -> int:
    """Bytes of log and snapshots, whatever their names are now."""
    total = 0
    for path in (directory / names.LOG_DIRECTORY).glob("*"):
        if ".log" in path.name or ".checkpoint" in path.name:
            try:
                total += path.stat().st_size
            except FileNotFoundError:
                continue  # it went while we looked
    return total


def complaints(
    directories: Mapping[NodeId, Path], logs: Mapping[NodeId, Sequence[BatchView]], told: Sequence[BatchView]
) -> Iterator[str]:
    """What is wrong with the snapshots and the state of nodes that have ended, where `told` was committed."""
    disk = Disk(OsFileSystem())
    committed: Offset = told[-1].end_offset if told else 0
    builder = ImageBuilder(EMPTY)
    for batch in told:
        if not batch.is_control:
            builder.apply_values(batch.values(), batch.base_offset)
    wanted = builder.image().hash()
    found: dict[str, tuple[NodeId, bytes]] = {}
    for node_id, directory in directories.items():
        folder = directory / names.LOG_DIRECTORY
        survey = survey_snapshots(disk, folder)
        yield from (f"node {node_id}: {text}" for _, text in survey.damaged)
        start = logs[node_id][0].base_offset if logs[node_id] else 0
        if start and not any(start <= one.offset <= committed for one in survey.ids):
            yield f"the log of node {node_id} begins at {start}, and its snapshots are {survey.ids}"
        for one in survey.ids:
            name = names.snapshot_name(one)
            data = (folder / name).read_bytes()
            other, theirs = found.setdefault(name, (node_id, data))
            if data != theirs:
                yield f"nodes {other} and {node_id} have different snapshots {name}"
        try:
            state = state_at(find_log(directory), Point(str(committed), committed))
        except KraftdError as error:
            yield f"the state of node {node_id} cannot be had: {error}"
            continue
        if state.image.hash() != wanted:
            yield f"the files of node {node_id} lead to another state at {committed} than all records do"
