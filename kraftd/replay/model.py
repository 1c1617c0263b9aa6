"""What a replay knows of its input: directories, files and batches' headers.

Plain values, shared by the Spark data source, the job and the tests; nothing here reads a file. Offsets
named `end` are exclusive.
"""

from enum import StrEnum
from typing import TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from kraftd.logtools.problem import Problem
from kraftd.types import Election, Epoch, EpochEntry, NodeId, Offset


class FileKind(StrEnum):
    """What a file of a metadata directory holds."""

    LOG = "log"
    SNAPSHOT = "snapshot"
    BOOTSTRAP = "bootstrap"


class LogFile(msgspec.Struct, frozen=True):
    """A segment or a snapshot. `base_offset` is a snapshot's end offset: where it stands in the log."""

    path: str
    name: str
    kind: FileKind
    base_offset: Offset
    epoch: Epoch
    size_bytes: int

    @property
    def is_snapshot(self) -> bool:
        """Whether offsets in the file are the file's own running count."""
        return self.kind is not FileKind.LOG


class ManifestFile(msgspec.Struct, frozen=True):
    """A file as the exporter saw it."""

    name: str
    size_bytes: int
    crc32c: str


class Manifest(msgspec.Struct, frozen=True):
    """`manifest.json` of an export: what the node knew when it was copied."""

    format: int
    cluster_id: str
    node_id: NodeId
    directory_id: str
    epoch: Epoch
    leader_id: NodeId
    high_watermark: Offset
    log_start_offset: Offset
    log_end_offset: Offset
    exported_at_ms: int
    files: tuple[ManifestFile, ...] = ()


class NodeDirectory(msgspec.Struct, frozen=True):
    """One controller's directory: who wrote it, its small files and the list of its large ones."""

    directory: str
    cluster_id: str
    node_id: NodeId
    directory_id: str
    election: Election | None
    election_voters: tuple[NodeId, ...]
    epochs: tuple[EpochEntry, ...] | None
    manifest: Manifest | None
    files: tuple[LogFile, ...]
    problems: tuple[Problem, ...]

    @property
    def segments(self) -> tuple[LogFile, ...]:
        """The log's files, in order of offset."""
        return tuple(file for file in self.files if file.kind is FileKind.LOG)

    @property
    def snapshots(self) -> tuple[LogFile, ...]:
        """The snapshots, in order of their end offset."""
        return tuple(file for file in self.files if file.kind is FileKind.SNAPSHOT)


Headers: TypeAlias = npt.NDArray[np.void]
"""An array of `kraftd.replay.headers.BATCH`: one element a batch, in the order of the file or log."""
