"""Exports and the files of a log that is cut under them: how long they are held, and what is told then."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kraftd.errors import ErrorCode
from kraftd.protocol.messages import ExportChunkRequest, ExportManifestRequest
from kraftd.raft import Retention
from kraftd.records import quorum_state
from kraftd.runtime.log_export import IDLE_MS, LogExports
from kraftd.storage.bootstrap import ZERO_CHECKPOINT
from kraftd.types import NEVER_MS, Election, Now, ReplicaKey
from tests.unit.runtime.test_log_cleaner import World
from tests.unit.storage.batches import run_of

SEGMENT = "__cluster_metadata-0/00000000000000000000.log"
SNAPSHOT = "__cluster_metadata-0/00000000000000000005-0000000001.checkpoint"
MINUTE_MS = 60_000


class Exporting:
    """One connection that exports from a real directory, whose log is cut now and then."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.exports: LogExports
        self.number = 1
        self._responses: asyncio.Queue[tuple[Any, bytes]] = asyncio.Queue()
        self._now_ms = 1

    async def begin(self, tasks: asyncio.TaskGroup) -> None:
        node: Any = SimpleNamespace(epoch=1, leader_id=1, high_watermark=14)
        self.exports = LogExports(self.world.directory, node, tasks, lambda: Now(self._now_ms, 1))
        assert (await self.ask(ExportManifestRequest()))[0].error_code == 0

    def reply(self, _version: int, _id: int, message: Any, records: Any = ()) -> None:
        self._responses.put_nowait((message, b"".join(records)))

    async def ask(self, message: Any) -> tuple[Any, bytes]:
        request: Any = SimpleNamespace(message=message, api_version=0, correlation_id=1)
        self.exports.handlers[type(message)](self, request)  # type: ignore[arg-type]
        return await self._responses.get()

    async def chunk(self, name: str = SEGMENT) -> tuple[Any, bytes]:
        return await self.ask(ExportChunkRequest(name=name, max_bytes=1 << 20))

    def at(self, now_ms: int) -> None:
        """Let time go by, with the turns that the deadlines ask for."""
        while self.exports.wake_at_ms() <= now_ms:
            self._now_ms = self.exports.wake_at_ms()
            self.exports.run(Now(self._now_ms, 1))
        self._now_ms = now_ms

    def cut(self) -> None:
        """Cut the log to offset 9, and remove what nobody holds."""
        self.world.minute()
        assert self.world.directory.log.start_offset == 9

    @property
    def retired(self) -> list[str]:
        return [path.name for path in sorted(self.world.log_path.glob("*.deleted"))]


@pytest.fixture
def exporting(tmp_path: Path) -> Iterator[Exporting]:
    world = World(tmp_path, Retention(0, -1))
    world.directory.log.append(run_of(0, 14), 0, 14)
    world.directory.log.flush()
    for offset in (5, 9):
        world.freeze(offset)
    yield Exporting(world)
    world.directory.close()


@pytest.mark.covers("D-22")
@pytest.mark.parametrize("file", [SEGMENT, SNAPSHOT])
async def test_one_whose_name_as_a_retired_file_is_taken_is_told_to_begin_anew(
    exporting: Exporting, file: str
) -> None:
    async with asyncio.TaskGroup() as tasks:
        await exporting.begin(tasks)
        (exporting.world.log_path / f"{Path(file).name}.deleted").mkdir()
        exporting.cut()
        response, _ = await exporting.chunk(file)
        exporting.exports.forget(exporting)  # type: ignore[arg-type]
    assert response.error_code == ErrorCode.SNAPSHOT_NOT_FOUND
    assert response.error_message == "it was removed meanwhile; start again"


@pytest.mark.covers("D-22")
async def test_what_is_exported_is_read_after_the_cut_and_goes_with_the_connection(
    exporting: Exporting,
) -> None:
    async with asyncio.TaskGroup() as tasks:
        await exporting.begin(tasks)
        before = [await exporting.chunk(name) for name in (SEGMENT, SNAPSHOT)]
        exporting.cut()
        after = [await exporting.chunk(name) for name in (SEGMENT, SNAPSHOT)]
        assert after == before
        assert all(data for _, data in after)
        held = exporting.retired
        exporting.exports.forget(exporting)  # type: ignore[arg-type]
        exporting.world.minute()
    assert (len(held) > 2, exporting.retired) == (True, [])
    exporting.at(MINUTE_MS)
    assert exporting.exports.wake_at_ms() == NEVER_MS


@pytest.mark.covers("D-41")
async def test_an_export_has_the_election_as_kafka_writes_it(exporting: Exporting) -> None:
    election = Election(3, 2, ReplicaKey(2))
    exporting.world.directory.write_election(election)
    async with asyncio.TaskGroup() as tasks:
        await exporting.begin(tasks)
        _, data = await exporting.chunk("__cluster_metadata-0/quorum-state")
    assert data == quorum_state.encode(election, version=0)


@pytest.mark.covers("D-22", "D-24")
async def test_files_are_held_for_a_bounded_time_whether_the_client_asks_or_not(exporting: Exporting) -> None:
    async with asyncio.TaskGroup() as tasks:
        await exporting.begin(tasks)
        exporting.cut()
        for now_ms in range(IDLE_MS // 2, MINUTE_MS, IDLE_MS // 2):
            exporting.at(now_ms)
            response, data = await exporting.chunk()
            assert (response.error_code, bool(data)) == (0, True)
        exporting.at(MINUTE_MS + IDLE_MS // 4)
        response, data = await exporting.chunk()
        assert (response.error_code, data) == (ErrorCode.SNAPSHOT_NOT_FOUND, b"")
        assert response.error_message == "the log was cut, after this export took too long; start again"
        assert (await exporting.ask(ExportManifestRequest()))[0].error_code == 0
        exporting.world.minute()
        assert exporting.retired == []
        exporting.at(3 * MINUTE_MS)
        assert exporting.exports.wake_at_ms() == NEVER_MS, "nobody asks any more"


async def test_a_client_that_paused_goes_on_where_the_log_was_not_cut(exporting: Exporting) -> None:
    async with asyncio.TaskGroup() as tasks:
        await exporting.begin(tasks)
        exporting.at(MINUTE_MS // 2 + 1)
        before = await exporting.chunk()
        exporting.cut()
        assert await exporting.chunk() == before, "it is held again"
        exporting.at(10 * MINUTE_MS)
        exporting.world.minute()
    assert exporting.retired == []


async def test_a_slow_export_of_a_log_that_is_not_cut_is_served_for_ever(exporting: Exporting) -> None:
    async with asyncio.TaskGroup() as tasks:
        await exporting.begin(tasks)
        for minute in range(1, 10):
            exporting.at(minute * MINUTE_MS)
            response, data = await exporting.chunk()
            assert (response.error_code, bool(data)) == (0, True)


@pytest.mark.covers("D-15")
async def test_a_truncation_while_a_chunk_is_read_voids_the_export(exporting: Exporting) -> None:
    """Else the bytes of another log, at the same place, would stand in the copy."""
    log = exporting.world.directory.log
    async with asyncio.TaskGroup() as tasks:
        await exporting.begin(tasks)
        asked = asyncio.ensure_future(exporting.chunk())
        await asyncio.sleep(0)
        log.truncate(10, log.generation + 1)
        response, data = await asked
    assert (response.error_code, data) == (ErrorCode.SNAPSHOT_NOT_FOUND, b"")
    assert response.error_message == "the log was truncated meanwhile; start again"


@pytest.mark.covers("D-38")
async def test_a_manifest_opens_no_snapshot_whose_size_is_known(
    exporting: Exporting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client may ask for manifests without end, of hundreds of snapshots, and the loop reads them."""
    opened: list[str] = []
    disk = exporting.world.directory.disk
    open_file = disk.open
    monkeypatch.setattr(
        disk, "open", lambda path, access: opened.append(path.name) or open_file(path, access)
    )
    async with asyncio.TaskGroup() as tasks:
        await exporting.begin(tasks)
        manifest, _ = await exporting.ask(ExportManifestRequest())
        sizes = {file.name: file.size_bytes for file in manifest.files}
        exporting.exports.forget(exporting)  # type: ignore[arg-type]
    on_disk = [(path, path.stat().st_size) for path in exporting.world.log_path.glob("*.checkpoint")]
    assert len(on_disk) >= 2
    assert {
        f"{exporting.world.log_path.name}/{path.name}": size for path, size in on_disk
    }.items() <= sizes.items()
    known = {path.name for path, _ in on_disk} - {ZERO_CHECKPOINT}
    assert known.isdisjoint(opened)
