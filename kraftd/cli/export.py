"""`kraftctl export NODE|DIR OUT`: a consistent copy of a node's log, for replay, support or safe keeping.

NODE is a node id or host:port of a running node, DIR a directory, live or not. OUT appears complete or not
at all; its `manifest.json` says what it stands for and how to check it. The copy is consistent although the
node runs on: `leader-epoch-checkpoint` is taken first and the election last, so neither knows less than the
log needs; a batch that was still being written is left out; and at the end the last batch is read once more,
since if it is still there, nothing before it was replaced.

Schema: out, source, cluster_id, node_id, epoch, leader_id, high_watermark (-1 unknown: a directory does not
    tell), log_start_offset, log_end_offset, files (count), size_bytes, problems (texts).
`manifest.json`: format (1), cluster_id, node_id, directory_id, epoch, leader_id, high_watermark,
    log_start_offset, log_end_offset, exported_at_ms, problems, files (name, size_bytes, crc32c in hex).

What was copied is examined (`kraftd.logtools.integrity`), also by what a directory's own `kraftd.state` says
of it (`own_state`); that file is no part of an export. A damaged directory is copied as it is, since the rest
of it is sound, and the damage is what somebody may want to look at: each problem is told with file, byte and
offset, stands in the manifest, and the exit code is 1. A file that cannot be read ends the export, and leaves
nothing.

It is long because its two sources, a directory and a running node, must be copied by the same steps in the
same order.
"""

import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, Protocol

import msgspec
import typer
from crc32c import crc32c

from kraftd.cli.active_controller import nobody
from kraftd.cli.client import Connection, error_name, raise_for
from kraftd.cli.failures import CommandError, ExitCode, UsageError
from kraftd.cli.options import BootstrapOption, OutputOption, bootstrap_of, output_of, parse_node
from kraftd.cli.output import emit, labels, to_json
from kraftd.cli.survey import survey
from kraftd.errors import ErrorCode, MalformedError
from kraftd.logtools.integrity import Examined, examine
from kraftd.logtools.manifest import MANIFEST, MANIFEST_FORMAT
from kraftd.logtools.node_files import NodeFiles, describe
from kraftd.logtools.own_state import OwnState, lost_end, own_state, with_own
from kraftd.logtools.problem import Problem
from kraftd.protocol.messages import (
    ExportChunkRequest,
    ExportChunkResponse,
    ExportManifestRequest,
    ExportManifestResponse,
)
from kraftd.records import epoch_checkpoint, names
from kraftd.records.meta_properties import MetaProperties
from kraftd.records.names import ExportKind
from kraftd.regular_file import open_to_read
from kraftd.types import Election, EpochEntry, Offset, uuid_text

app = typer.Typer()

CHUNK_BYTES = 4 << 20
ATTEMPTS = 3
REQUEST_TIMEOUT_MS = 10_000

_ORDER: Mapping[str, int] = {
    ExportKind.META: 0,
    ExportKind.BOOTSTRAP: 0,
    ExportKind.PARTITION: 1,
    ExportKind.EPOCHS: 2,
    ExportKind.SNAPSHOT: 3,
    ExportKind.SEGMENT: 4,
    ExportKind.ELECTION: 5,
}
"""What is copied when: the epochs before the log, the election after it."""


class ExportFile(msgspec.Struct, frozen=True):
    """A file of the export, and how many of its bytes belong to it."""

    name: str
    size_bytes: int
    kind: str


class Source(Protocol):
    """Where an export comes from."""

    high_watermark: Offset

    def own_state(self) -> OwnState:
        """What a directory says of its log; nothing of a running node, which knows what it has flushed."""

    def close(self) -> None:
        """Let go of it."""

    def files(self) -> Sequence[ExportFile]:
        """What is there now.

        Raises:
            ChangedError: It changes at this very moment.
        """

    def read(self, name: str, position: int, max_bytes: int) -> bytes:
        """Bytes of a file, fewer than asked at its end.

        Raises:
            ChangedError: The file is gone.
            CommandError: The bytes cannot be read.
        """


class ChangedError(CommandError):
    """The source changed under the copy in a way that makes it worthless; a new copy may succeed."""


@app.command("export")
def export(
    context: typer.Context,
    source: Annotated[
        str, typer.Argument(metavar="NODE|DIR", help="A node id, host:port, or a node's directory.")
    ],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="A directory that does not exist yet.")],
    output: OutputOption = None,
    bootstrap: BootstrapOption = None,
) -> None:
    """Copy a node's metadata log, consistently, with a manifest."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise CommandError(f"{out} exists and is not empty; name a directory that does not exist yet")
    if not out.name:
        raise CommandError(f"{out} has no name of its own; name a directory that does not exist yet")
    if not out.absolute().parent.is_dir():
        raise CommandError(f"{out.absolute().parent} does not exist; make it, or name another OUT")
    with closing(_open_source(context, source, bootstrap)) as opened:
        report = run(opened, source, out)
    emit(report, output_of(context, output), export_table, done=f"the copy is in {out}")
    if report["problems"]:
        raise typer.Exit(ExitCode.ERROR)


def run(source: Source, source_name: str, out: Path) -> dict[str, Any]:
    """Copy, check and put in place; the schema of this command.

    Raises:
        CommandError: There is nothing to copy, or the log was cut again and again meanwhile.
    """
    partial = out.with_name(f"{out.name}.partial-{os.getpid()}")
    try:
        for attempt in range(1, ATTEMPTS + 1):
            shutil.rmtree(partial, ignore_errors=True)
            try:
                return _attempt(source, source_name, partial, out)
            except ChangedError as error:
                if attempt == ATTEMPTS:
                    raise CommandError(
                        f"{error}, {ATTEMPTS} times; try again when the node is calmer"
                    ) from error
        raise AssertionError("unreachable")
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def export_table(report: Mapping[str, Any]) -> str:
    """One label a line, then what is wrong with the copy."""
    head = labels(
        [
            ("Exported", report["out"]),
            ("ClusterId", report["cluster_id"]),
            ("NodeId", report["node_id"]),
            ("LeaderEpoch", report["epoch"]),
            ("LeaderId", report["leader_id"]),
            ("HighWatermark", report["high_watermark"] if report["high_watermark"] >= 0 else "unknown"),
            ("LogStartOffset", report["log_start_offset"]),
            ("LogEndOffset", report["log_end_offset"]),
            ("Files", report["files"]),
            ("SizeBytes", report["size_bytes"]),
        ]
    )
    return "\n".join([head, *(f"Problem: {text}" for text in report["problems"])])


# --- sources ---------------------------------------------------------------------------------------------


class DirectorySource:
    """A node's directory; it may be in use. What is committed in it, it does not say."""

    def __init__(self, path: Path) -> None:
        self._path = path.parent if path.name == names.LOG_DIRECTORY else path
        self.high_watermark = -1
        if not (self._path / names.LOG_DIRECTORY).is_dir():
            raise CommandError(
                f"{path} holds no {names.LOG_DIRECTORY}; name a node's log.dirs or metadata.log.dir"
            )

    def own_state(self) -> OwnState:
        """What `kraftd.state` says now; the file itself is no part of an export."""
        return own_state(self._path)

    def close(self) -> None:
        """Nothing is open between two reads."""

    def files(self) -> Sequence[ExportFile]:
        """The files of the directory with their present sizes."""
        found = [*self._path.iterdir(), *(self._path / names.LOG_DIRECTORY).iterdir()]
        try:
            return [
                ExportFile(name, file.stat().st_size, kind)
                for file in found
                if (kind := _kind_of(name := str(file.relative_to(self._path))))
            ]
        except FileNotFoundError as error:
            raise ChangedError(f"{error.filename} vanished during the copy") from error

    def read(self, name: str, position: int, max_bytes: int) -> bytes:
        """Bytes of a file of the directory."""
        try:
            with open_to_read(self._path / name) as file:
                file.seek(position)
                return file.read(max_bytes)
        except FileNotFoundError as error:
            raise ChangedError(f"{name} vanished during the copy") from error
        except OSError as error:
            raise CommandError(
                _unreadable(self._path / name, position, error.strerror or str(error))
            ) from error


class NodeSource:
    """A running node. It needs no leader."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.high_watermark: Offset = -1

    def own_state(self) -> OwnState:
        """Nothing."""
        return OwnState()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def files(self) -> Sequence[ExportFile]:
        """The files of a new manifest. Notes its high watermark, which must not be newer than the files."""
        response = self._connection.call(ExportManifestRequest(), ExportManifestResponse, REQUEST_TIMEOUT_MS)
        raise_for(response.error_code, response.error_message, f"{self._connection.endpoint} exports nothing")
        self.high_watermark = response.high_watermark
        return [ExportFile(file.name, file.size_bytes, file.kind) for file in response.files]

    def read(self, name: str, position: int, max_bytes: int) -> bytes:
        """Bytes of a file, however small the pieces are that the node gives."""
        data = b""
        while len(data) < max_bytes:
            piece, total = self._piece(name, position + len(data), max_bytes - len(data))
            data += piece
            if not piece or position + len(data) >= total:
                break
        return data

    def _piece(self, name: str, position: int, max_bytes: int) -> tuple[bytes, int]:
        request = ExportChunkRequest(name=name, position=position, max_bytes=max_bytes)
        response, data = self._connection.call_with_records(request, ExportChunkResponse, REQUEST_TIMEOUT_MS)
        if response.error_code:
            reason = response.error_message or error_name(response.error_code)
            if response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR:
                raise CommandError(_unreadable(name, position, reason))
            raise ChangedError(f"{name} at byte {position}: {reason}")
        return data, response.total_bytes


def _unreadable(name: Path | str, position: int, reason: str) -> str:
    return f"{name} at byte {position}: {reason}; nothing is exported: export another node of the cluster"


def _open_source(context: typer.Context, source: str, bootstrap: str | None) -> Source:
    path = Path(source)
    if path.is_dir():
        return DirectorySource(path.absolute())
    if source.isascii() and source.isdecimal():
        return NodeSource(_node_by_id(context, int(source), bootstrap))
    if ":" in source and "/" not in source:
        return NodeSource(Connection(parse_node(source), REQUEST_TIMEOUT_MS))
    raise UsageError(f"{source} is no directory, node id or host:port")


def _node_by_id(context: typer.Context, node_id: int, bootstrap: str | None) -> Connection:
    nodes = bootstrap_of(context, bootstrap)
    with survey(nodes) as found:
        pass
    answering = [view for view in found.reachable if view.node_id == node_id]
    if len(answering) > 1:
        raise UsageError(f"{found.oddities(answering[0])[0]}; name the one that you mean as HOST:PORT")
    if answering:
        return Connection(answering[0].endpoint, REQUEST_TIMEOUT_MS)
    for view in found.views:
        if view.node_id == node_id:
            text = f"node {node_id} at {view.endpoint}: {view.error}; export its directory instead"
            raise view.failure(text)
    if not found.reachable:
        raise nobody(found, nodes)
    raise CommandError(
        f"no node knows a node {node_id}; known are {', '.join(str(v.node_id) for v in found.views)}"
    )


def _kind_of(name: str) -> ExportKind | None:
    """What part of an export a file is, by its path in the node's directory; None for none."""
    if name in names.SMALL_FILES:
        return names.SMALL_FILES[name]
    file = Path(name)
    segment = names.parse_segment_name(file.name)
    if segment and segment.suffix == "log":
        return ExportKind.SEGMENT
    frozen = file.suffix == ".checkpoint" and names.parse_snapshot_name(file.name)
    return ExportKind.SNAPSHOT if frozen else None


# --- one copy --------------------------------------------------------------------------------------------


def _attempt(source: Source, source_name: str, partial: Path, out: Path) -> dict[str, Any]:
    own = source.own_state()  # before the log, which a running node writes first
    wanted = sorted(source.files(), key=lambda file: (_ORDER.get(file.kind, 3), file.name))
    if not any(file.kind == ExportKind.SEGMENT for file in wanted):
        raise CommandError(f"{source_name} has no log yet; there is nothing to export")
    for file in wanted:
        _copy(source, file, _inside(partial, file.name))
    node = describe(partial / names.LOG_DIRECTORY)
    copied = examine(node)
    _check_unchanged(source, partial, copied)
    lost = _lost_end(own, node, copied)
    if lost is not None and source.own_state() != own:
        raise ChangedError("the log was truncated during the copy")
    if copied.torn is not None and lost is None:
        os.truncate(copied.torn.path, copied.torn.position)
    copied = copied._replace(problems=with_own(own, lost, copied.problems))
    manifest = _manifest(node, wanted, copied, source.high_watermark)
    _write_durably(partial / MANIFEST, to_json(manifest).encode() + b"\n")
    _sync_directories(partial)
    if out.exists():
        out.rmdir()
    partial.rename(out)
    _sync_directory(out.absolute().parent)
    shown = (
        "cluster_id",
        "node_id",
        "epoch",
        "leader_id",
        "high_watermark",
        "log_start_offset",
        "log_end_offset",
    )
    return {
        "out": str(out),
        "source": source_name,
        **{key: manifest[key] for key in shown},
        "files": len(manifest["files"]),
        "size_bytes": sum(file["size_bytes"] for file in manifest["files"]),
        "problems": [problem.short for problem in copied.problems],
    }


def _lost_end(own: OwnState, node: NodeFiles, copied: Examined) -> Problem | None:
    """What is missing at the end of the copy that the node had flushed; damage there is told already."""
    torn_at = -1 if copied.torn is None else copied.torn.position
    if copied.is_damaged_end:
        return None
    return lost_end(own, node, copied.end_offset, torn_at, copied.problems)


def _copy(source: Source, file: ExportFile, target: Path) -> None:
    """Copy a file up to its size; small files, which are replaced as a whole, in one piece whatever their
    size is now.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    if file.kind not in (ExportKind.SEGMENT, ExportKind.SNAPSHOT):
        _write_durably(target, source.read(file.name, 0, CHUNK_BYTES))
        return
    with target.open("wb") as copy:
        position = 0
        while position < file.size_bytes:
            data = source.read(file.name, position, min(CHUNK_BYTES, file.size_bytes - position))
            if not data:
                raise ChangedError(f"{file.name} was cut to {position} bytes during the copy")
            copy.write(data)
            position += len(data)
        copy.flush()
        os.fsync(copy.fileno())


def _inside(root: Path, name: str) -> Path:
    """Where a file of the export goes; a name that a node sent must not lead elsewhere."""
    parts = Path(name).parts
    if len(parts) not in (1, 2) or ".." in parts or Path(name).is_absolute():
        raise CommandError(f"the node names a file {name!r}, which is no part of an export")
    return root / name


def _check_unchanged(source: Source, partial: Path, copied: Examined) -> None:
    """Logs that agree in a batch agree in everything before it (Log Matching): look at the last one again.
    The epochs were copied before the log: unless it was cut, they have only become more.
    """
    name = f"{names.LOG_DIRECTORY}/{names.EPOCH_CHECKPOINT}"
    if (partial / name).exists():
        with open_to_read(partial / name) as file:
            before = _epochs(file.read(CHUNK_BYTES))
        now = _epochs(source.read(name, 0, CHUNK_BYTES))
        if (
            before[:-1] != now[: max(len(before) - 1, 0)]
        ):  # an epoch without records gives way to the next one
            raise ChangedError("the log was truncated during the copy")
    if copied.last_batch is None:
        return
    path, position, size = copied.last_batch
    name = str(path.relative_to(partial))
    with open_to_read(path) as file:
        file.seek(position)
        ours = file.read(size)
    theirs = b"".join(_read_whole(source, name, position, size))
    if ours != theirs:
        raise ChangedError(f"{name} was truncated during the copy")


def _epochs(data: bytes) -> tuple[EpochEntry, ...]:
    try:
        return epoch_checkpoint.decode(data)
    except MalformedError:
        return ()


def _read_whole(source: Source, name: str, position: int, size: int) -> Iterator[bytes]:
    while size > 0:
        data = source.read(name, position, min(CHUNK_BYTES, size))
        if not data:
            return
        yield data
        position += len(data)
        size -= len(data)


def _manifest(
    node: NodeFiles, wanted: Sequence[ExportFile], copied: Examined, high_watermark: Offset
) -> dict[str, Any]:
    properties = node.properties or MetaProperties(None, None, None, 0)
    election = node.election or Election()
    files = []
    for file in sorted(wanted, key=lambda file: file.name):
        path = node.home / file.name
        files.append(
            {"name": file.name, "size_bytes": path.stat().st_size, "crc32c": f"{_checksum(path):08x}"}
        )
    return {
        "format": MANIFEST_FORMAT,
        "cluster_id": properties.cluster_id,
        "node_id": -1 if properties.node_id is None else properties.node_id,
        "directory_id": None if properties.directory_id is None else uuid_text(properties.directory_id),
        "epoch": election.epoch,
        "leader_id": election.leader_id,
        "high_watermark": min(high_watermark, copied.end_offset),
        "log_start_offset": copied.start_offset,
        "log_end_offset": copied.end_offset,
        "exported_at_ms": time.time_ns() // 1_000_000,
        "problems": [problem.short for problem in copied.problems],
        "files": files,
    }


def _checksum(path: Path) -> int:
    checksum = 0
    with open_to_read(path) as file:
        while data := file.read(CHUNK_BYTES):
            checksum = crc32c(data, checksum)
    return checksum


def _write_durably(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_directories(root: Path) -> None:
    for directory in [*(path for path in root.iterdir() if path.is_dir()), root]:
        _sync_directory(directory)


def _sync_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
