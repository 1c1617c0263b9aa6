"""Which controllers' directories are there, and what do their small files say?

Given any directory, finds every `__cluster_metadata-0` at or below it: a node's own directory, an export of
ours (with `manifest.json`), a folder of several. A file that is missing or cannot be read is a `Problem` of
that node, never an exception: the rest of the directory is still worth reading.

Batches are not read here: see `kraftd.replay.headers`.
"""

import glob
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import crc32c
import msgspec

from kraftd.errors import KraftdError, MalformedError
from kraftd.logtools.problem import Problem, ProblemKind
from kraftd.records import epoch_checkpoint, meta_properties, names, quorum_state
from kraftd.replay.errors import ReplayError
from kraftd.replay.model import FileKind, LogFile, Manifest, NodeDirectory
from kraftd.types import NO_NODE, ZERO_UUID, Election, NodeId, uuid_text

PARTITION = names.LOG_DIRECTORY
DEPTH = 4
"""How far below a given directory a node's may lie: `fleet/cluster/node/data` is the deepest in use."""

MANIFEST = "manifest.json"
CHUNK_BYTES = 1 << 20
MANIFEST_FORMAT = 1

Parsed = TypeVar("Parsed")


def discover(paths: Iterable[str | Path]) -> list[NodeDirectory]:
    """Find and describe the controllers' directories at or below these paths, each once.

    A path with `*`, `?` or `[` in it that is no directory's name is a pattern; it means all directories it
    fits.

    Raises:
        ReplayError: A path does not exist, or no controller's directory is under it.
    """
    nodes, lost = discover_most(paths)
    for problem in lost:
        raise ReplayError(f"{problem.directory}: {problem.text}")
    return nodes


def discover_most(paths: Iterable[str | Path]) -> tuple[list[NodeDirectory], list[Problem]]:
    """As `discover`, but a directory without a log is a problem, as long as another has one.

    Raises:
        ReplayError: A path does not exist, or there is no log at all.
    """
    partitions: dict[str, None] = {}
    lost = []
    for root in expanded(paths):
        if not root.is_dir():
            raise ReplayError(f"{root}: {'not a directory' if root.exists() else 'no such directory'}")
        found = sorted(_partitions_under(root.resolve(), DEPTH))
        partitions.update(dict.fromkeys(found))
        if not found:
            text = (
                f"no {PARTITION} directory in it or up to {DEPTH} levels below; "
                "name a controller's metadata directory or an export"
            )
            lost.append(Problem(ProblemKind.INCOMPLETE, str(root), text))
    if not partitions:
        raise ReplayError(f"{lost[0].directory}: {lost[0].text}" if lost else "name a directory")
    return [describe(Path(partition)) for partition in partitions], lost


def expanded(paths: Iterable[str | Path]) -> Iterator[Path]:
    """The paths, patterns replaced by what they fit.

    Raises:
        ReplayError: A pattern fits no directory.
    """
    for path in paths:
        text = str(path)
        if not glob.has_magic(text) or Path(text).exists():
            yield Path(text)
            continue
        found = sorted(entry for entry in glob.glob(text) if Path(entry).is_dir())  # noqa: PTH207 - keeps the text as it is
        if not found:
            raise ReplayError(f"{text}: no directory fits this pattern")
        yield from map(Path, found)


def describe(partition: Path) -> NodeDirectory:
    """Read the small files around a `__cluster_metadata-0` directory."""
    home = partition.parent
    problems: list[Problem] = []
    reader = _SmallFiles(home, problems)
    meta = reader.parse(home / names.META_PROPERTIES, meta_properties.decode)
    election = reader.parse(partition / names.QUORUM_STATE, _decode_election)
    epochs = reader.parse(partition / names.EPOCH_CHECKPOINT, epoch_checkpoint.decode)
    manifest = None
    if (home / MANIFEST).exists():
        manifest = reader.parse(home / MANIFEST, _decode_manifest)
    files = _files(home, partition, problems)
    if manifest is not None:
        problems += _manifest_problems(home, manifest)
    if meta is not None and (meta.cluster_id is None or meta.node_id is None):
        text = "does not say which cluster and which node this is"
        problems.append(Problem(ProblemKind.DAMAGED, str(home), text, file=names.META_PROPERTIES))
    if not any(file.kind is FileKind.LOG for file in files):
        problems.append(Problem(ProblemKind.INCOMPLETE, str(home), f"no segment in {PARTITION}"))
    cluster_id, node_id, directory_id = _identity(meta, manifest)
    return NodeDirectory(
        directory=str(home),
        cluster_id=cluster_id,
        node_id=node_id,
        directory_id=directory_id,
        election=None if election is None else election[0],
        election_voters=() if election is None else election[1],
        epochs=epochs,
        manifest=manifest,
        files=tuple(files),
        problems=tuple(problems),
    )


class _SmallFiles:
    """Reads small files and turns what is wrong with them into problems."""

    def __init__(self, home: Path, problems: list[Problem]) -> None:
        self._home = home
        self._problems = problems

    def parse(self, path: Path, decode: Callable[[bytes], Parsed]) -> Parsed | None:
        """Decode a file, or note why that cannot be done."""
        try:
            return decode(path.read_bytes())
        except FileNotFoundError:
            self._note(ProblemKind.INCOMPLETE, path, "missing")
        except OSError as error:
            self._note(ProblemKind.INCOMPLETE, path, f"cannot be read: {error.strerror}")
        except KraftdError as error:
            self._note(ProblemKind.DAMAGED, path, str(error))
        return None

    def _note(self, kind: ProblemKind, path: Path, text: str) -> None:
        self._problems.append(Problem(kind, str(self._home), text, file=path.name))


def _partitions_under(root: Path, depth: int) -> list[str]:
    if root.name == PARTITION:
        return [str(root)]
    if depth == 0:
        return []
    try:
        children = sorted(child for child in root.iterdir() if child.is_dir())
    except OSError:
        return []
    below = [child for child in children if child.name == PARTITION] or children
    return [found for child in below for found in _partitions_under(child, depth - 1)]


def _identity(
    meta: meta_properties.MetaProperties | None, manifest: Manifest | None
) -> tuple[str, NodeId, str]:
    """Cluster, node and directory id: those of meta.properties, else those of the manifest."""
    cluster_id, node_id, directory_id = "", NO_NODE, ""
    if manifest is not None:
        cluster_id, node_id, directory_id = manifest.cluster_id, manifest.node_id, manifest.directory_id
    if meta is not None:
        cluster_id = meta.cluster_id or cluster_id
        node_id = node_id if meta.node_id is None else meta.node_id
        if meta.directory_id is not None:
            directory_id = uuid_text(meta.directory_id)
    return cluster_id, node_id, "" if directory_id == uuid_text(ZERO_UUID) else directory_id


def _files(home: Path, partition: Path, problems: list[Problem]) -> list[LogFile]:
    files = []
    for path in sorted(partition.iterdir()):
        try:
            segment = names.parse_segment_name(path.name)
            snapshot = None if path.name.endswith(names.DELETED) else names.parse_snapshot_name(path.name)
        except MalformedError as error:
            problems.append(Problem(ProblemKind.DAMAGED, str(home), str(error), file=path.name))
            continue
        if (segment is None or segment.suffix != "log") and snapshot is None:
            continue
        if not path.is_file() or not os.access(path, os.R_OK):
            problems.append(Problem(ProblemKind.INCOMPLETE, str(home), "cannot be read", file=path.name))
            continue
        size = path.stat().st_size
        if segment is not None:
            files.append(LogFile(str(path), path.name, FileKind.LOG, segment.base_offset, -1, size))
        elif snapshot is not None:
            files.append(
                LogFile(str(path), path.name, FileKind.SNAPSHOT, snapshot.offset, snapshot.epoch, size)
            )
    bootstrap = home / names.BOOTSTRAP_CHECKPOINT
    if bootstrap.is_file():
        size = bootstrap.stat().st_size
        files.append(LogFile(str(bootstrap), bootstrap.name, FileKind.BOOTSTRAP, 0, 0, size))
    return files


def _decode_election(data: bytes) -> tuple[Election, tuple[NodeId, ...]]:
    """The election and, of a version 0 file, its voters."""
    election, _ = quorum_state.decode(data)
    content = msgspec.json.decode(data.split(b"\n", 1)[0])
    return election, tuple(sorted(voter["voterId"] for voter in content.get("currentVoters") or ()))


def _decode_manifest(data: bytes) -> Manifest:
    try:
        manifest = msgspec.json.decode(data, type=Manifest)
    except msgspec.DecodeError as error:
        raise ReplayError(f"not a manifest: {error}") from error
    if manifest.format != MANIFEST_FORMAT:
        raise ReplayError(f"manifest format {manifest.format}; this program reads format {MANIFEST_FORMAT}")
    return manifest


def _manifest_problems(home: Path, manifest: Manifest) -> list[Problem]:
    """Compare an export with what its manifest says was exported."""
    problems = []
    for expected in manifest.files:
        path = home / expected.name
        inside = path.resolve().is_relative_to(home.resolve())
        if not inside or not path.is_file():
            text = (
                "in the manifest, but not there" if inside else "the manifest names a file outside the export"
            )
            problems.append(Problem(ProblemKind.INCOMPLETE, str(home), text, file=expected.name))
        elif (size := path.stat().st_size) != expected.size_bytes:
            text = f"{size:,} bytes, but {expected.size_bytes:,} were exported"
            problems.append(Problem(ProblemKind.INCOMPLETE, str(home), text, file=expected.name))
        elif (found := f"{_checksum(path):08x}") != expected.crc32c.lower():
            text = f"checksum {found}, but {expected.crc32c} was exported: changed since"
            problems.append(Problem(ProblemKind.DAMAGED, str(home), text, file=expected.name))
    return problems


def _checksum(path: Path) -> int:
    total = 0
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            total = crc32c.crc32c(chunk, total)
    return total


def clusters(nodes: Sequence[NodeDirectory]) -> dict[str, list[NodeDirectory]]:
    """Group directories by cluster. One without a cluster id stands alone, under its path."""
    groups: dict[str, list[NodeDirectory]] = {}
    for node in nodes:
        groups.setdefault(node.cluster_id or node.directory, []).append(node)
    return {
        key: sorted(group, key=lambda node: (node.node_id, node.directory)) for key, group in groups.items()
    }
