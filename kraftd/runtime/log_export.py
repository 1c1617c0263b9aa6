"""Sends a consistent copy of a running node's log: a list of its files at one moment, then their bytes.

Entered through `LogExports.serve_manifest` and `serve_chunk`. The manifest fixes the moment: small files
(election, epochs, properties) are read into memory then, because they are replaced as a whole; of segments,
which only grow, and of snapshots, which nobody changes, the size of that moment is fixed. A truncation of the
log in between would put other bytes under the fixed size, so it voids the export, and so does a file that is
removed: the client starts again. An export belongs to its connection and ends with it.

Not here: what the client makes of it (`kraftctl export`).
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiofiles
import msgspec

from kraftd.errors import ErrorCode, MalformedError, StorageError
from kraftd.net.server import InboundConnection
from kraftd.protocol.brief import brief
from kraftd.protocol.codec import Request
from kraftd.protocol.limits import FILES_MAX, RECORDS_BYTES_MAX, WORDS_BYTES_MAX
from kraftd.protocol.messages import (
    ExportChunkRequest,
    ExportChunkResponse,
    ExportManifestRequest,
    ExportManifestResponse,
    ExportManifestResponseFile,
)
from kraftd.raft import RaftNode
from kraftd.records import names
from kraftd.records.names import ExportKind
from kraftd.runtime.request_router import ApiHandler, Requester
from kraftd.storage.disk import Disk
from kraftd.storage.filesystem import Access
from kraftd.storage.node_directory import NodeDirectory

EXPORT_REQUESTS: tuple[type[Any], ...] = (ExportManifestRequest, ExportChunkRequest)


class _Export(msgspec.Struct, frozen=True):
    generation: int
    small: dict[str, bytes]
    large: dict[str, tuple[Path, int]]


class LogExports:
    """The exports under way, one for each connection."""

    def __init__(
        self,
        directory: NodeDirectory,
        raft_node: RaftNode,
        tasks: asyncio.TaskGroup,
    ) -> None:
        self._directory = directory
        self._raft_node = raft_node
        self._tasks = tasks
        self._exports: dict[int, _Export] = {}

    @property
    def handlers(self) -> Mapping[type[Any], ApiHandler]:
        """The handler of each type of request that is answered here."""
        return {ExportManifestRequest: self.serve_manifest, ExportChunkRequest: self.serve_chunk}

    def forget(self, connection: InboundConnection) -> None:
        """Drop the export of a closed connection."""
        self._exports.pop(connection.number, None)

    def serve_manifest(self, connection: Requester, request: Request) -> None:
        """Begin an export: answer with the files and sizes of this moment."""
        log, raft_node = self._directory.log, self._raft_node
        segments = {
            f"{names.LOG_DIRECTORY}/{path.name}": (path, size_bytes)
            for _, path, size_bytes in log.segment_files
        }
        try:
            small = self._small_files()
            snapshots = self._snapshots(FILES_MAX - len(small) - len(segments) + 1)
        except StorageError as error:
            _refuse_manifest(connection, request, ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
            return
        if len(small) + len(segments) + len(snapshots) > FILES_MAX:
            why = (
                f"the log has {len(segments)} segments, with its snapshots more files than an export lists; "
                "copy the directory instead"
            )
            _refuse_manifest(connection, request, ErrorCode.POLICY_VIOLATION, why)
            return
        self._exports[connection.number] = _Export(log.generation, small, {**segments, **snapshots})
        files = [
            ExportManifestResponseFile(name=name, size_bytes=len(data), kind=names.SMALL_FILES[name].value)
            for name, data in small.items()
        ] + [
            ExportManifestResponseFile(name=name, size_bytes=size_bytes, kind=kind.value)
            for kind, large in ((ExportKind.SNAPSHOT, snapshots), (ExportKind.SEGMENT, segments))
            for name, (_, size_bytes) in large.items()
        ]
        response = ExportManifestResponse(
            epoch=raft_node.epoch,
            leader_id=raft_node.leader_id,
            high_watermark=raft_node.high_watermark,
            start_offset=log.start_offset,
            end_offset=log.end_offset,
            files=tuple(files),
        )
        connection.reply(request.api_version, request.correlation_id, response)

    def _small_files(self) -> dict[str, bytes]:
        disk, root = self._directory.disk, self._directory.path
        found = {name: disk.read_file(root / name) for name in names.SMALL_FILES}
        return {name: data for name, data in found.items() if data is not None}

    def _snapshots(self, count_max: int) -> dict[str, tuple[Path, int]]:
        """The snapshots that are there, at most so many: paths and sizes, by their names in an export."""
        disk, folder = self._directory.disk, self._directory.path / names.LOG_DIRECTORY
        found = [name for name in disk.names(folder) if _is_snapshot(name)]
        return {
            f"{names.LOG_DIRECTORY}/{name}": (folder / name, _size_of(disk, folder / name))
            for name in found[: max(count_max, 0)]
        }

    def serve_chunk(self, connection: Requester, request: Request) -> None:
        """Answer with bytes of one file, as it was when the export began."""
        message: ExportChunkRequest = request.message
        export = self._exports.get(connection.number)
        if export is None:
            self._refuse(connection, request, ErrorCode.INVALID_REQUEST, "ask for the manifest first")
        elif export.generation != self._directory.log.generation:
            del self._exports[connection.number]
            self._refuse(
                connection,
                request,
                ErrorCode.SNAPSHOT_NOT_FOUND,
                "the log was truncated meanwhile; start again",
            )
        elif message.name in export.small:
            data = export.small[message.name]
            self._reply(connection, request, len(data), data[slice(*_span(message, len(data)))])
        elif message.name in export.large:
            path, size_bytes = export.large[message.name]
            self._tasks.create_task(
                self._read(connection, request, path, size_bytes, _span(message, size_bytes)), name="export"
            )
        else:
            self._refuse(
                connection, request, ErrorCode.SNAPSHOT_NOT_FOUND, "no file of that name in the manifest"
            )

    async def _read(
        self,
        connection: Requester,
        request: Request,
        path: Path,
        size_bytes: int,
        span: tuple[int, int],
    ) -> None:
        try:
            async with aiofiles.open(path, "rb") as file:
                await file.seek(span[0])
                data = await file.read(span[1] - span[0])
        except FileNotFoundError:
            self._refuse(
                connection, request, ErrorCode.SNAPSHOT_NOT_FOUND, "it was removed meanwhile; start again"
            )
            return
        except OSError as error:
            self._refuse(
                connection, request, ErrorCode.UNKNOWN_SERVER_ERROR, f"cannot be read: {error.strerror}"
            )
            return
        self._reply(connection, request, size_bytes, data)

    def _reply(self, connection: Requester, request: Request, total: int, data: bytes) -> None:
        response = ExportChunkResponse(
            name=request.message.name, position=request.message.position, total_bytes=total
        )
        connection.reply(request.api_version, request.correlation_id, response, (data,) if data else ())

    def _refuse(self, connection: Requester, request: Request, error: ErrorCode, why: str) -> None:
        response = ExportChunkResponse(
            error_code=error,
            error_message=why,
            name=brief(request.message.name, WORDS_BYTES_MAX),
            position=request.message.position,
        )
        connection.reply(request.api_version, request.correlation_id, response)


def _refuse_manifest(connection: Requester, request: Request, error: ErrorCode, why: str) -> None:
    response = ExportManifestResponse(error_code=error, error_message=why)
    connection.reply(request.api_version, request.correlation_id, response)


def _is_snapshot(name: str) -> bool:
    """Whether a name is that of a finished snapshot that does not await its deletion."""
    try:
        return names.parse_snapshot_name(name) is not None and not name.endswith(names.DELETED)
    except MalformedError:
        return False


def _size_of(disk: Disk, path: Path) -> int:
    handle = disk.open(path, Access.READ)
    try:
        return disk.size(handle, path)
    finally:
        disk.close(handle)


def _span(message: ExportChunkRequest, size_bytes: int) -> tuple[int, int]:
    """The range of bytes that a request wants, cut to the file."""
    start = min(max(message.position, 0), size_bytes)
    wanted = message.max_bytes if 0 < message.max_bytes <= RECORDS_BYTES_MAX else RECORDS_BYTES_MAX
    return start, min(start + wanted, size_bytes)
