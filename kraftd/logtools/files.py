"""Which files make up a metadata log, and its batches from first to last.

`find_logs` takes whatever an operator names: a node's directory, its `__cluster_metadata-0`, a segment, a
snapshot, or a folder above several nodes. `read_log` goes through the segments of one as one log, and tells
what does not follow from what came before.

Not here: what is in a batch, and whether its bytes are good (`batch_reader`).
"""

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from kraftd.errors import KraftdError, MalformedError
from kraftd.logtools.batch_reader import Batch, base_offset_of, open_file, read_batches
from kraftd.logtools.errors import UnanswerableError
from kraftd.logtools.problem import Problem, ProblemKind, in_file
from kraftd.records import meta_properties, names
from kraftd.records.batch import HEADER_BYTES
from kraftd.types import NO_NODE, NodeId, Offset, OffsetAndEpoch, uuid_text

_DEPTH = 4
"""How far below what was named a log may lie."""

_TOLD = 3
"""Of several logs so many are named."""

_WINDOW_BYTES = 1 << 20
_TIMES = struct.Struct(">qi11xiqq")
"""Base offset, length, last offset delta, oldest and newest timestamp of a batch."""


class SegmentFile(NamedTuple):
    """A segment by its name."""

    base_offset: Offset
    path: Path


class SnapshotFile(NamedTuple):
    """A snapshot by its name: the state before `id.offset`."""

    id: OffsetAndEpoch
    path: Path


class LogFiles(msgspec.Struct, frozen=True):
    """The files of one metadata log. Segments are by offset, snapshots too."""

    named: str
    """As the operator called it."""
    directory: Path
    """Where the segments are."""
    home: Path
    """Where `meta.properties` is, or would be."""
    segments: tuple[SegmentFile, ...]
    snapshots: tuple[SnapshotFile, ...]
    cluster_id: str = ""
    node_id: NodeId = NO_NODE
    directory_id: str = ""

    @property
    def start_offset(self) -> Offset:
        """Where the log begins; without segments, where its last snapshot ends."""
        if self.segments:
            return self.segments[0].base_offset
        return self.snapshots[-1].id.offset if self.snapshots else 0


class BatchTimes(NamedTuple):
    """What the header of a batch says of its place and time; its checksum was not looked at."""

    base_offset: Offset
    end_offset: Offset
    max_timestamp_ms: int


def find_log(path: Path) -> LogFiles:
    """The one log that a path stands for.

    Raises:
        UnanswerableError: There is none, or more than one.
    """
    found = find_logs(path)
    if len(found) > 1:
        some = ", ".join(str(log.home) for log in found[:_TOLD])
        more = f" and {len(found) - _TOLD} more" if len(found) > _TOLD else ""
        raise UnanswerableError(f"{path} holds several logs; name one: {some}{more}")
    return found[0]


def find_logs(path: Path) -> list[LogFiles]:
    """Every log that a path stands for, by name.

    Raises:
        UnanswerableError: There is none.
    """
    if not path.exists():
        raise UnanswerableError(f"{path} does not exist; name a node's directory, a segment or a snapshot")
    if not path.is_dir():
        return [_named_file(path)]
    try:
        directories = list(_directories(path, _DEPTH))
    except OSError as error:
        raise UnanswerableError(f"{error.filename} cannot be read: {error.strerror}") from error
    if not directories:
        raise UnanswerableError(
            f"{path} holds no metadata log; name a directory with {names.LOG_DIRECTORY}, .log or .checkpoint "
            "files in it"
        )
    logs = [_described(directory, str(path)) for directory in directories]
    return logs if len(logs) == 1 else [msgspec.structs.replace(log, named=str(log.home)) for log in logs]


def read_log(log: LogFiles, from_offset: Offset = 0) -> Iterator[Batch | Problem]:
    """Every batch that ends after an offset, in order, and every problem on the way.

    A batch whose checksum is bad, or that cannot stand where it stands, comes as a problem only. The problem
    is `TORN` where the log itself only ends too early.

    Raises:
        UnanswerableError: A segment cannot be read.
    """
    expected: Offset | None = None
    epoch = 0
    for number, (base, path) in enumerate(log.segments):
        is_last = number + 1 == len(log.segments)
        if not is_last and log.segments[number + 1].base_offset <= from_offset:
            continue
        if expected is not None and base > expected:
            text = f"the offsets up to {base} are missing"
            yield in_file(path, text, kind=ProblemKind.INCOMPLETE, position_bytes=0, offset=expected)
            expected = base
        for item in read_batches(path, from_offset, with_records=False):
            problem = _problem(item, expected, epoch, is_last=is_last)
            if problem is not None:
                yield problem
            if isinstance(item, Batch):
                expected, epoch = item.view.end_offset, max(epoch, item.view.epoch)
                if problem is None:
                    yield item


def times_of(log: LogFiles) -> Iterator[BatchTimes]:
    """Where the batches of a log are and when they were written, by their headers: fast, and unchecked."""
    for _, path in log.segments:
        with open_file(path) as file:
            window, start = b"", 0
            at = 0
            while True:
                if at + HEADER_BYTES > len(window):
                    start += at
                    file.seek(start)
                    window, at = file.read(_WINDOW_BYTES), 0
                    if len(window) < HEADER_BYTES:
                        break
                base, length, delta, _, newest = _TIMES.unpack_from(window, at)
                if length + 12 < HEADER_BYTES or delta < 0:
                    break
                yield BatchTimes(base, base + delta + 1, newest)
                at += length + 12


def _problem(item: Batch | Problem, expected: Offset | None, epoch: int, *, is_last: bool) -> Problem | None:
    """Why something does not continue the log, None if it does."""
    if isinstance(item, Problem):
        torn_inside = item.kind is ProblemKind.TORN and not is_last
        return msgspec.structs.replace(item, kind=ProblemKind.DAMAGED) if torn_inside else item
    view, reason = item.view, item.problem.text if item.problem else ""
    if not reason and expected is not None and view.base_offset != expected:
        reason = f"the batch says offset {view.base_offset} where {expected} must come"
    elif not reason and view.epoch < epoch:
        reason = f"the batch says epoch {view.epoch} after epoch {epoch}"
    if not reason:
        return None
    return item.misfit(reason, -1 if expected is None else expected)


def _directories(path: Path, depth: int) -> Iterator[Path]:
    inner = path / names.LOG_DIRECTORY
    if inner.is_dir():
        yield inner
        return
    children = sorted(os.scandir(path), key=lambda entry: entry.name)
    if any(entry.is_file() and _is_ours(entry.name) for entry in children):
        yield path
    elif depth:
        for entry in children:
            if entry.is_dir() and not entry.name.startswith("."):
                yield from _directories(Path(entry.path), depth - 1)


def _is_ours(name: str) -> bool:
    return base_offset_of(Path(name)) >= 0 or _snapshot_id(name) is not None


def _snapshot_id(name: str) -> OffsetAndEpoch | None:
    try:
        return None if name.endswith(names.DELETED) else names.parse_snapshot_name(name)
    except MalformedError:
        return None


def _named_file(path: Path) -> LogFiles:
    """A snapshot stands for itself, a segment for its log up to its end."""
    snapshot_id = OffsetAndEpoch(0, 0) if path.name == names.BOOTSTRAP_CHECKPOINT else _snapshot_id(path.name)
    if snapshot_id is not None:
        return LogFiles(str(path), path.parent, path.parent, (), (SnapshotFile(snapshot_id, path),))
    base = base_offset_of(path)
    if base < 0:
        raise UnanswerableError(f"{path} is neither a segment (….log) nor a snapshot (….checkpoint)")
    log = _described(path.parent.absolute(), str(path))
    segments = tuple(segment for segment in log.segments if segment.base_offset <= base)
    later = [segment.base_offset for segment in log.segments if segment.base_offset > base]
    snapshots = tuple(one for one in log.snapshots if not later or one.id.offset <= later[0])
    return msgspec.structs.replace(log, segments=segments, snapshots=snapshots)


def _described(directory: Path, named: str) -> LogFiles:
    """The log in a directory, with whatever `meta.properties` says of whose it is."""
    absolute = directory.absolute()
    inside = directory if directory.name else absolute
    home = inside.parent if absolute.name == names.LOG_DIRECTORY else directory
    segments, snapshots = [], []
    for entry in sorted(os.scandir(directory), key=lambda entry: entry.name):
        path = Path(entry.path)
        if (base := base_offset_of(path)) >= 0:
            segments.append(SegmentFile(base, path))
        elif (snapshot_id := _snapshot_id(entry.name)) is not None:
            snapshots.append(SnapshotFile(snapshot_id, path))
    known = _properties(home / names.META_PROPERTIES)
    return LogFiles(
        named=named,
        directory=directory,
        home=home,
        segments=tuple(sorted(segments)),
        snapshots=tuple(sorted(snapshots, key=lambda snapshot: (snapshot.id.offset, snapshot.id.epoch))),
        cluster_id=known.cluster_id or "",
        node_id=NO_NODE if known.node_id is None else known.node_id,
        directory_id=uuid_text(known.directory_id) if known.directory_id else "",
    )


def _properties(path: Path) -> meta_properties.MetaProperties:
    """Whose directory it is; unknown where the file is missing or damaged, which `verify` tells."""
    try:
        return meta_properties.decode(path.read_bytes())
    except (OSError, KraftdError):
        return meta_properties.MetaProperties(None, None, None, 0)
