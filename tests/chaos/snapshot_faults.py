"""Faults around snapshots: nodes that are killed while they write one, load one, or clean up behind one.

They are looked at until the moment is there: a file has the name of one that is being written or downloaded,
or of one that was retired. A node that loads one was wiped before, or was down until the others' logs had
been cut behind its own end. One node is wiped at a time, and the next only once it counts again, which takes
an election: what two of three have forgotten is lost in any quorum.
"""

import asyncio
import contextlib
import shutil
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from kraftd.records import meta_properties, names
from kraftd.storage import Disk, OsFileSystem
from kraftd.storage.sidecar import read_sidecar
from kraftd.types import NodeId
from tests.chaos.quorum import NODES
from tests.chaos.scene import Fault, Scene, hand_over

WIPED = 0.6
"""How often a node that is to load a snapshot has lost everything."""

_MOMENT_S: Final = 20.0
"""Longest wait for the moment: a snapshot is written every few seconds, if a leader is there."""

_GLANCE_S: Final = 0.001
_LOADED_S: Final = 60.0
"""Longest time until a node that was wiped counts again; others may be down meanwhile."""


async def kill_writing(scene: Scene) -> None:
    """SIGKILL while it writes a snapshot."""
    await _kill_when(scene, _has_part, "writes a snapshot")


async def kill_cleaning(scene: Scene) -> None:
    """SIGKILL while names of what was cut are taken away."""
    await _kill_when(scene, _has_retired, "cleans up")


async def kill_loading(scene: Scene) -> None:
    """SIGKILL while it downloads a snapshot: it was wiped, or is behind the start of the others' logs."""
    quorum, node_id, is_wiped = scene.quorum, scene.victim(), scene.rng.random() < WIPED
    folder = _log_of(scene, node_id)
    async with quorum.loading:
        if is_wiped:
            quorum.wiped = node_id
        async with quorum.held[node_id]:
            what = "wiped" if is_wiped else "down until the others have cut their logs behind its end"
            scene.say(f"SIGKILL {scene.called(node_id)}, {what}")
            end_offset = await _end_offset(scene, node_id)
            await quorum.end(node_id, signal.SIGKILL)
            if is_wiped:
                shutil.rmtree(folder.parent)
                quorum.cluster.format(quorum.cluster[node_id])
            else:
                await _cut_behind(scene, node_id, end_offset)
            quorum.let_run(node_id)
            await quorum.started(node_id)
            is_seen = await _seen(folder, _has_part)
            await quorum.end(node_id, signal.SIGKILL)
            scene.say(
                f"SIGKILL {scene.called(node_id)} {'while' if is_seen else 'before'} it loads a snapshot"
            )
            quorum.let_run(node_id)
            await quorum.started(node_id)
        await _counts_again(scene, node_id)
        quorum.counts_again()


SNAPSHOT_FAULTS: Mapping[str, Fault] = {
    "kill writing": kill_writing,
    "kill loading": kill_loading,
    "kill cleaning": kill_cleaning,
}


async def _kill_when(scene: Scene, is_moment: Callable[[Path], bool], what: str) -> None:
    quorum, node_id, down_s = scene.quorum, scene.victim(), scene.rng.uniform(0, 1.5)
    async with quorum.held[node_id]:
        is_seen = await _seen(_log_of(scene, node_id), is_moment)
        await quorum.end(node_id, signal.SIGKILL)
        when = f"while it {what}" if is_seen else f"before it {what}"
        scene.say(f"SIGKILL {scene.called(node_id)} {when}, started again after {down_s:.1f} s")
        try:
            await asyncio.sleep(down_s)
        finally:
            quorum.let_run(node_id)
        await quorum.started(node_id)


async def _seen(folder: Path, is_moment: Callable[[Path], bool]) -> bool:
    """Wait until the moment is there; False if it does not come."""
    until_s = time.monotonic() + _MOMENT_S
    while not is_moment(folder):
        if time.monotonic() > until_s:
            return False
        await asyncio.sleep(_GLANCE_S)
    return True


def _log_of(scene: Scene, node_id: NodeId) -> Path:
    return scene.quorum.cluster[node_id].directory / names.LOG_DIRECTORY


def _has_part(folder: Path) -> bool:
    return any(path.suffix == names.PART for path in folder.iterdir())


def _has_retired(folder: Path) -> bool:
    return any(path.suffix == names.DELETED for path in folder.iterdir())


async def _end_offset(scene: Scene, node_id: NodeId) -> int:
    """Where its log ends, as far as it can be asked."""
    with contextlib.suppress(OSError, EOFError, TimeoutError):
        return (await scene.quorum.describe(node_id)).log_end_offset
    return 0


async def _cut_behind(scene: Scene, node_id: NodeId, end_offset: int) -> None:
    """Wait until a node that leads has nothing left of what comes next for this one."""
    until_s = time.monotonic() + _LOADED_S
    while time.monotonic() < until_s:
        for other in NODES:
            if other == node_id:
                continue
            with contextlib.suppress(OSError, EOFError, TimeoutError):
                view = await scene.quorum.describe(other)
                if view.role == "leader" and view.log_start_offset > end_offset:
                    return
        await asyncio.sleep(0.1)


async def _counts_again(scene: Scene, node_id: NodeId) -> None:
    """Wait until a node is whole, has the state, and is the one that the others would know after a restart.

    Node 3 is whole while node 2 is down; if both are killed before they meet, node 2 knows only the directory
    that was wiped, and node 3 says once more that it does not count.
    """
    until_s = time.monotonic() + _LOADED_S
    while time.monotonic() < until_s:
        with contextlib.suppress(OSError, EOFError, TimeoutError):
            view = await scene.quorum.describe(node_id)
            if view.whole and view.image_hash and view.applied_offset:
                if _is_known_to_others(scene, node_id):
                    return
            elif view.applied_offset:  # it counts again only after an election without it
                await hand_over(scene.quorum, -1)
        await asyncio.sleep(0.5)
    scene.quorum.problems.append(
        f"node {node_id} had not loaded the state of the others within {_LOADED_S:.0f} s"
    )


def _is_known_to_others(scene: Scene, node_id: NodeId) -> bool:
    """Whether each other node has noted durably which directory is that of this one."""
    cluster, disk = scene.quorum.cluster, Disk(OsFileSystem())
    own = meta_properties.decode((cluster[node_id].directory / names.META_PROPERTIES).read_bytes())
    knowing = set()
    for other in NODES:
        state = read_sidecar(disk, cluster[other].directory / names.SIDECAR).state
        for peer in state.local_state.peers if state is not None else ():
            if (peer.node_id, peer.directory_id) == (node_id, own.directory_id):
                knowing.add(other)
    return knowing == {*NODES} - {node_id}
