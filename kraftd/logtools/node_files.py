"""What is in a node's directory: segments and snapshots of its metadata log, and what its small files say.

Entered by `describe`. What is missing or cannot be read is a `Problem` of that node, never an exception: the
rest of the directory is still worth reading. A running node's directory can be described; nothing is locked.

Not here: which directories there are (`finding`), the batches (`node_log`), and whether an export is what was
exported (`manifest`).
"""

import os
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

import msgspec

from kraftd.errors import KraftdError, MalformedError
from kraftd.logtools.manifest import MANIFEST, Manifest, decode_manifest
from kraftd.logtools.problem import Problem, ProblemKind, in_file
from kraftd.logtools.small_reading import read_small
from kraftd.records import (
    epoch_checkpoint,
    meta_properties,
    names,
    partition_metadata,
    quorum_state,
    small_files,
)
from kraftd.records.meta_properties import MetaProperties
from kraftd.regular_file import NotAFileError, kind_of
from kraftd.types import (
    NO_NODE,
    ZERO_UUID,
    Election,
    Epoch,
    EpochEntry,
    NodeId,
    Offset,
    OffsetAndEpoch,
    uuid_text,
)

Parsed = TypeVar("Parsed")


class FileKind(StrEnum):
    """What a file of a metadata directory holds."""

    LOG = "log"
    SNAPSHOT = "snapshot"
    BOOTSTRAP = "bootstrap"


class LogFile(msgspec.Struct, frozen=True):
    """A segment or a snapshot. `offset` is that of its name: where a segment begins, or a snapshot ends."""

    path: Path
    kind: FileKind
    offset: Offset
    epoch: Epoch
    """Of a snapshot; -1 of a segment."""
    size_bytes: int

    @property
    def name(self) -> str:
        """The file's name, without folders."""
        return self.path.name

    @property
    def id(self) -> OffsetAndEpoch:
        """The id of a snapshot: it holds the state before this offset."""
        return OffsetAndEpoch(self.offset, self.epoch)

    @property
    def is_snapshot(self) -> bool:
        """Whether offsets in the file are the file's own running count."""
        return self.kind is not FileKind.LOG


class NodeFiles(msgspec.Struct, frozen=True):
    """One node's directory. Files are by name; what the small ones do not say is empty, -1 or None."""

    named: str
    """As the operator called it."""
    home: Path
    """Where `meta.properties` is, or would be."""
    log_directory: Path
    """Where the segments are."""
    files: tuple[LogFile, ...] = ()
    properties: MetaProperties | None = None
    cluster_id: str = ""
    node_id: NodeId = NO_NODE
    directory_id: str = ""
    election: Election | None = None
    election_voters: tuple[NodeId, ...] = ()
    """The voters in an election file of version 0."""
    epochs: tuple[EpochEntry, ...] | None = None
    """What `leader-epoch-checkpoint` says."""
    manifest: Manifest | None = None
    problems: tuple[Problem, ...] = ()
    """What is wrong with the small files and the names."""

    @property
    def directory(self) -> str:
        """`home` as text, as problems and tables name it."""
        return str(self.home)

    @property
    def segments(self) -> tuple[LogFile, ...]:
        """The log's files, by offset."""
        return tuple(file for file in self.files if file.kind is FileKind.LOG)

    @property
    def snapshots(self) -> tuple[LogFile, ...]:
        """The snapshots, by their end offset and epoch."""
        return tuple(file for file in self.files if file.kind is FileKind.SNAPSHOT)

    @property
    def start_offset(self) -> Offset:
        """Where its first segment begins; without segments, where its last snapshot ends. See `begin`."""
        if self.segments:
            return self.segments[0].offset
        return self.snapshots[-1].offset if self.snapshots else 0

    def begin(self, end_offset: Offset) -> Offset:
        """Where the log begins that ends at this offset, as its node takes it (D-23).

        A cut removes whole segments: the first that is left may hold batches from before the snapshot that
        the log begins with.
        """
        start = self.start_offset
        reached = (one.offset for one in self.snapshots if start <= one.offset <= end_offset)
        return next(reached, start) if start > 0 else start


def by_cluster(nodes: Sequence[NodeFiles]) -> dict[str, list[NodeFiles]]:
    """Group directories by cluster id. One without a cluster id stands alone, under its path."""
    groups: dict[str, list[NodeFiles]] = {}
    for node in nodes:
        groups.setdefault(node.cluster_id or node.directory, []).append(node)
    return {
        key: sorted(group, key=lambda node: (node.node_id, node.directory)) for key, group in groups.items()
    }


def describe(log_directory: Path, *, named: str = "") -> NodeFiles:
    """Read the small files of the node that a directory with segments belongs to, and list the large ones."""
    if log_directory.name in ("", ".."):  # as `.`: the name is that of the directory it stands for
        log_directory = log_directory.resolve()
    home = log_directory.parent if log_directory.name == names.LOG_DIRECTORY else log_directory
    reader = _SmallFiles(home)
    properties = reader.parse(home / names.META_PROPERTIES, meta_properties.decode)
    reader.parse(log_directory / names.PARTITION_METADATA, partition_metadata.decode, is_optional=True)
    election = reader.parse(log_directory / names.QUORUM_STATE, _decode_election)
    epochs = reader.parse(log_directory / names.EPOCH_CHECKPOINT, epoch_checkpoint.decode)
    manifest = reader.parse(home / MANIFEST, decode_manifest, is_optional=True)
    cluster_id, node_id, directory_id = _identity(properties, manifest)
    if properties is not None and (problem := properties.problem):
        reader.add(ProblemKind.DAMAGED, home / names.META_PROPERTIES, problem)
    files = tuple(_files(home, log_directory, reader))
    if not any(file.kind is FileKind.LOG for file in files):
        reader.add(ProblemKind.INCOMPLETE, log_directory, _lacking(files))
    return NodeFiles(
        named=named or str(home),
        home=home,
        log_directory=log_directory,
        files=files,
        properties=properties,
        cluster_id=cluster_id,
        node_id=node_id,
        directory_id=directory_id,
        election=None if election is None else election[0],
        election_voters=() if election is None else election[1],
        epochs=epochs,
        manifest=manifest,
        problems=tuple(reader.problems),
    )


def describe_again(node: NodeFiles) -> NodeFiles:
    """The same directory as it is now."""
    return describe(node.log_directory, named=node.named)


class _SmallFiles:
    """Reads small files and turns what is wrong with them into problems."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self.problems: list[Problem] = []

    def parse(
        self, path: Path, decode: Callable[[bytes], Parsed], *, is_optional: bool = False
    ) -> Parsed | None:
        """Decode a file, or note why that cannot be done."""
        try:
            return decode(read_small(path))
        except FileNotFoundError:
            if not is_optional:
                self.add(ProblemKind.NOTE, path, "missing")
        except NotAFileError as error:
            self.add(ProblemKind.INCOMPLETE, path, str(error.strerror))
        except OSError as error:
            self.add(ProblemKind.INCOMPLETE, path, f"cannot be read: {error.strerror}")
        except KraftdError as error:
            self.add(ProblemKind.DAMAGED, path, str(error).removeprefix(path.name).lstrip(": "))
        return None

    def add(self, kind: ProblemKind, path: Path, text: str) -> None:
        """Add what is wrong with a file to the problems."""
        self.problems.append(in_file(path, text, kind=kind).within(self._home))


def _files(home: Path, log_directory: Path, reader: _SmallFiles) -> Iterator[LogFile]:
    """The large files by name, which for segments is by offset."""
    for entry in sorted(os.scandir(log_directory), key=lambda entry: entry.name):
        path = Path(entry.path)
        if (problem := problem_of_name(path)) is not None:
            reader.problems.append(problem.within(home))
            continue
        kind, offset, epoch = kind_of_name(entry.name)
        if kind is None:
            continue
        is_readable, size_bytes = path.is_file() and os.access(path, os.R_OK), _size_of(path)
        if not os.path.lexists(path):
            continue  # a running node removed it since the directory was read
        if not is_readable:
            reader.add(ProblemKind.INCOMPLETE, path, _no_file(path))
            continue
        yield LogFile(path, kind, offset, epoch, size_bytes)
    bootstrap = home / names.BOOTSTRAP_CHECKPOINT
    if bootstrap.is_file() and (excess := small_files.excess(bootstrap.name, bootstrap.stat().st_size)):
        reader.add(ProblemKind.DAMAGED, bootstrap, excess)
    elif bootstrap.is_file():
        yield LogFile(bootstrap, FileKind.BOOTSTRAP, 0, 0, bootstrap.stat().st_size)
    elif bootstrap.exists():
        reader.add(ProblemKind.INCOMPLETE, bootstrap, _no_file(bootstrap))


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1  # a link that leads nowhere, or the file is just gone


def _no_file(path: Path) -> str:
    what = "a directory" if path.is_dir() else kind_of(path)
    return f"is {what}, not a file" if what else "cannot be read"


def _lacking(files: Sequence[LogFile]) -> str:
    """What is wrong with a directory without a segment."""
    if any(file.kind is FileKind.SNAPSHOT for file in files):
        return "holds no segment, only snapshots: what the node wrote since is not here"
    return "holds neither segment nor snapshot: this node was never started, or lost them"


def problem_of_name(path: Path) -> Problem | None:
    """Why a name that looks like a segment's or a snapshot's can be none's: its offset is out of range."""
    try:
        kind_of_name(path.name)
    except MalformedError as error:
        return in_file(path, str(error).removeprefix(f"{path.name}: "))
    return None


def kind_of_name(name: str) -> tuple[FileKind | None, Offset, Epoch]:
    """What kind of file has this name, its offset, and its epoch.

    Raises:
        MalformedError: It looks like a segment's or a snapshot's, but the offset is out of range.
    """
    segment = names.parse_segment_name(name)
    if segment is not None:
        return (FileKind.LOG if segment.suffix == "log" else None), segment.base_offset, -1
    snapshot = None if name.endswith(names.DELETED) else names.parse_snapshot_name(name)
    if snapshot is not None:
        return FileKind.SNAPSHOT, snapshot.offset, snapshot.epoch
    return None, -1, -1


def _identity(properties: MetaProperties | None, manifest: Manifest | None) -> tuple[str, NodeId, str]:
    """Cluster, node and directory id: those of meta.properties, else those of the manifest."""
    cluster_id, node_id, directory_id = "", NO_NODE, ""
    if manifest is not None:
        cluster_id, node_id = manifest.cluster_id or "", manifest.node_id
        directory_id = manifest.directory_id or ""
    if properties is not None:
        cluster_id = properties.cluster_id or cluster_id
        node_id = node_id if properties.node_id is None else properties.node_id
        if properties.directory_id is not None:
            directory_id = uuid_text(properties.directory_id)
    return cluster_id, node_id, "" if directory_id == uuid_text(ZERO_UUID) else directory_id


def _decode_election(data: bytes) -> tuple[Election, tuple[NodeId, ...]]:
    """The election and, of a version 0 file, its voters."""
    election, _ = quorum_state.decode(data)
    content = msgspec.json.decode(data.split(b"\n", 1)[0])
    return election, tuple(sorted(voter["voterId"] for voter in content.get("currentVoters") or ()))
