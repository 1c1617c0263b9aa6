"""Sends a consistent copy of a running node's log: a list of its files at one moment, then their bytes.

Entered through `LogExports.serve_manifest` and `serve_chunk`. The manifest fixes the moment: small files
(election, epochs, properties) are read into memory then, because they are replaced as a whole; of segments,
which only grow, and of snapshots, which nobody changes, the size of that moment is fixed. A truncation of the
log in between would put other bytes under the fixed size, so it voids the export: the client starts again. An
export belongs to its connection and ends with it, or with the next manifest.

A cut of the log takes the names of files away, not the files: an export holds them (D-22), and reads on under
the names that they have got. It holds them until it ends, until its client has asked for nothing for half a
minute, or until it was given ten times the time that its bytes need at 1 MiB a second, as an observer is for
a download (D-24): nobody fills the disk by asking for a byte now and then. What is held no longer is served
on while the log begins where it did.

A turn task, for these deadlines. Not here: what the client makes of an export (`kraftctl export`), and the
removal of files that nobody holds (`log_cleaner`).
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

import aiofiles

from kraftd import regular_file
from kraftd.errors import ErrorCode, StorageError
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
from kraftd.records import names, quorum_state
from kraftd.records.names import ExportKind
from kraftd.runtime.driver import TimedTurnTask
from kraftd.runtime.request_router import ApiHandler, FailureHandler, Requester, raise_again
from kraftd.storage.bootstrap import ZERO_CHECKPOINT
from kraftd.storage.disk import Disk
from kraftd.storage.filesystem import Access
from kraftd.storage.log_reader import ReaderView
from kraftd.storage.node_directory import NodeDirectory
from kraftd.storage.removal import Hold, deleted
from kraftd.types import NEVER_MS, Now, Offset

EXPORT_REQUESTS: tuple[type[Any], ...] = (ExportManifestRequest, ExportChunkRequest)


IDLE_MS: Final = 30_000
"""Files are held no longer for a client that has asked for nothing for so long."""

_HELD_MS: Final = 60_000
"""The least time that files are held for a client that goes on."""

_HELD_BYTES_A_MS: Final = 105
"""A tenth of 1 MiB a second."""


class _Export:
    """The files of one moment, and what keeps them."""

    def __init__(
        self,
        directory: NodeDirectory,
        small: Mapping[str, bytes],
        large: Mapping[str, tuple[Path, int]],
        now_ms: int,
    ) -> None:
        self._log, self._snapshots = directory.log, directory.snapshots
        self._generation = self._log.generation
        self._start_offset: Offset = self._log.start_offset
        self.small, self.large = small, large
        size_bytes = sum(size_bytes for _, size_bytes in large.values())
        self._last_ms = now_ms + max(_HELD_MS, size_bytes // _HELD_BYTES_A_MS)
        self._holds: tuple[ReaderView | Hold, ...] = ()
        self.held_until_ms = now_ms
        self.touch(now_ms)

    def touch(self, now_ms: int) -> None:
        """The client goes on: hold the files for a while longer, if all of them are still there."""
        if not self.void and now_ms < self._last_ms:
            self.held_until_ms = min(now_ms + IDLE_MS, self._last_ms)
            self._holds = self._holds or (self._log.reader_view().pin(), self._snapshots.hold())

    def release(self) -> None:
        """Let go of the files."""
        holds, self._holds = self._holds, ()
        for hold in holds:
            hold.release()

    @property
    def is_held(self) -> bool:
        """Whether the files stay, whatever becomes of the log."""
        return bool(self._holds)

    @property
    def void(self) -> str:
        """Why there are other bytes or none where the files were; empty if there are not."""
        if self._generation != self._log.generation:
            return "the log was truncated meanwhile; start again"
        if not self._holds and self._start_offset != self._log.start_offset:
            return "the log was cut, after this export took too long; start again"
        return ""


class LogExports(TimedTurnTask):
    """The exports under way, one for each connection."""

    def __init__(
        self,
        directory: NodeDirectory,
        raft_node: RaftNode,
        tasks: asyncio.TaskGroup,
        now: Callable[[], Now],
        failed: FailureHandler = raise_again,
    ) -> None:
        self._directory = directory
        self._raft_node = raft_node
        self._tasks = tasks
        self._now = now
        self._failed = failed
        self._exports: dict[int, _Export] = {}
        self._due_ms = NEVER_MS

    def run(self, now: Now) -> None:
        """Let go of the files of exports that take too long."""
        if now.mono_ms < self._due_ms:
            return
        for export in self._exports.values():
            if export.held_until_ms <= now.mono_ms:
                export.release()
        held = (export.held_until_ms for export in self._exports.values() if export.is_held)
        self._due_ms = min(held, default=NEVER_MS)

    def wake_at_ms(self) -> int:
        """When it may have to let go next."""
        return self._due_ms

    @property
    def handlers(self) -> Mapping[type[Any], ApiHandler]:
        """The handler of each type of request that is answered here."""
        return {ExportManifestRequest: self.serve_manifest, ExportChunkRequest: self.serve_chunk}

    def forget(self, connection: InboundConnection) -> None:
        """Drop the export of a closed connection."""
        self._end(connection.number)

    def _end(self, number: int) -> None:
        export = self._exports.pop(number, None)
        if export is not None:
            export.release()

    def serve_manifest(self, connection: Requester, request: Request) -> None:
        """Begin an export: answer with the files and sizes of this moment."""
        self._end(connection.number)
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
        export = _Export(self._directory, small, {**segments, **snapshots}, self._now().mono_ms)
        self._exports[connection.number] = export
        self._due_ms = min(self._due_ms, export.held_until_ms)
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
        small = {name: data for name, data in found.items() if data is not None}
        election = f"{names.LOG_DIRECTORY}/{names.QUORUM_STATE}"
        if election in small:  # as Kafka writes it, and as a clean stop leaves it (D-41)
            small[election] = quorum_state.line_of(small[election])
        return small

    def _snapshots(self, count_max: int) -> dict[str, tuple[Path, int]]:
        """The snapshots that are there, at most so many: paths and sizes, by their names in an export.

        Only those that count, whose files are held. A damaged one may go with the next cut of the log, and
        would take the whole export with it. The one of offset 0 is never removed.
        """
        disk, folder = self._directory.disk, self._directory.path / names.LOG_DIRECTORY
        held = {names.snapshot_name(info.id): info.size_bytes for info in self._directory.snapshots.infos}
        found = [name for name in disk.names(folder) if name in held or name == ZERO_CHECKPOINT]
        return {
            f"{names.LOG_DIRECTORY}/{name}": (
                folder / name,
                held[name] if name in held else _size_of(disk, folder / name),
            )
            for name in found[: max(count_max, 0)]
        }

    def serve_chunk(self, connection: Requester, request: Request) -> None:
        """Answer with bytes of one file, as it was when the export began."""
        message: ExportChunkRequest = request.message
        export = self._exports.get(connection.number)
        if export is None:
            self._refuse(connection, request, ErrorCode.INVALID_REQUEST, "ask for the manifest first")
            return
        export.touch(self._now().mono_ms)
        self._due_ms = min(self._due_ms, export.held_until_ms)
        if export.void:
            self._refuse(connection, request, ErrorCode.SNAPSHOT_NOT_FOUND, export.void)
            self._end(connection.number)
        elif message.name in export.small:
            data = export.small[message.name]
            self._reply(connection, request, len(data), data[slice(*_span(message, len(data)))])
        elif message.name in export.large:
            work = self._read(connection, request, export)
            self._tasks.create_task(self._late(connection, request, work), name="export")
        else:
            self._refuse(
                connection, request, ErrorCode.SNAPSHOT_NOT_FOUND, "no file of that name in the manifest"
            )

    async def _late(self, connection: Requester, request: Request, work: Awaitable[None]) -> None:
        """Do something for a request whose handler has returned: the router hears no more of what fails."""
        try:
            await work
        except Exception as error:  # noqa: BLE001 - as what leaves a handler at once (D-14)
            self._failed(connection, request, error)

    async def _read(self, connection: Requester, request: Request, export: _Export) -> None:
        path, size_bytes = export.large[request.message.name]
        start, end = _span(request.message, size_bytes)
        try:
            data = await _read_file(path, start, end)
        except (FileNotFoundError, IsADirectoryError):  # a directory may have the name of a retired file
            why = export.void or "it was removed meanwhile; start again"
            self._refuse(connection, request, ErrorCode.SNAPSHOT_NOT_FOUND, why)
            return
        except OSError as error:
            self._refuse(
                connection, request, ErrorCode.UNKNOWN_SERVER_ERROR, f"cannot be read: {error.strerror}"
            )
            return
        if export.void:  # while it was read: these may be the bytes of another log
            self._refuse(connection, request, ErrorCode.SNAPSHOT_NOT_FOUND, export.void)
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


def _size_of(disk: Disk, path: Path) -> int:
    handle = disk.open(path, Access.READ)
    try:
        return disk.size(handle, path)
    finally:
        disk.close(handle)


async def _read_file(path: Path, start: int, end: int) -> bytes:
    """Read a file that may have left the log: then it is there under its name of a retired file."""
    try:
        async with aiofiles.open(path, "rb", opener=regular_file.opener) as file:
            await file.seek(start)
            return await file.read(end - start)
    except FileNotFoundError:
        async with aiofiles.open(deleted(path), "rb", opener=regular_file.opener) as file:
            await file.seek(start)
            return await file.read(end - start)


def _span(message: ExportChunkRequest, size_bytes: int) -> tuple[int, int]:
    """The range of bytes that a request wants, cut to the file."""
    start = min(max(message.position, 0), size_bytes)
    wanted = message.max_bytes if 0 < message.max_bytes <= RECORDS_BYTES_MAX else RECORDS_BYTES_MAX
    return start, min(start + wanted, size_bytes)
