"""Making stopped nodes forget the identities of the other voters, when what they remember is wrong.

Each node remembers, durably, directory id and newest start of every other voter (D-06). A release that
accepted claims without a proof may remember starts that never were, and then takes every real voter for an
old copy of its directory; the real ones may have been told so, and have become uncounted. Nothing on the
disks tells such a memory from a true one, so an operator has to decide.

The remembered identities are removed, and a node's own amnesia if only other nodes have reported it. All else
stays: own ids and start counter, election, flushed offset, and amnesia that its own disk has shown. All
directories are locked and read before the first is changed; each change is a write of the sidecar, durable in
both slots.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec

from kraftd.errors import MalformedError, StorageError
from kraftd.records import meta_properties, names
from kraftd.storage.disk import Disk
from kraftd.storage.filesystem import FileSystem
from kraftd.storage.opening import take_lock
from kraftd.storage.sidecar import REASON_SEPARATOR, LocalState, Sidecar, load_durable_sidecar
from kraftd.types import NO_NODE, REPORTED_BY_OTHERS, HealthKind, NodeId, PeerIdentity


class Forgotten(msgspec.Struct, frozen=True):
    """What was removed from one node's sidecar."""

    directory: str
    node_id: NodeId
    peers: tuple[PeerIdentity, ...]
    counts_again: bool
    """Whether it was uncounted because other nodes took it for an old copy."""


def forget_peers(fs: FileSystem, paths: Sequence[Path]) -> list[Forgotten]:
    """Forget the other voters in each of these directories.

    Raises:
        StorageError: A directory is not a node's, is in use, or its sidecar is not there or cannot be read;
            then none of them was changed.
        StorageFailure: The disk refused a write.
    """
    with ExitStack() as stack:
        opened = [_open(stack, Disk(fs), path) for path in dict.fromkeys(paths)]
        return [_forget(path, node_id, sidecar) for path, node_id, sidecar in opened]


def _open(stack: ExitStack, disk: Disk, path: Path) -> tuple[Path, NodeId, Sidecar]:
    file = path / names.META_PROPERTIES
    data = disk.read_file(file) if disk.fs.is_directory(path) else None
    if data is None:
        raise StorageError(f"{path}: is no node's directory (no {file.name}): name the node's log.dirs")
    try:
        properties = meta_properties.decode(data)
    except MalformedError as error:
        raise StorageError(f"{file}: {error}") from error
    if not disk.fs.exists(path / names.SIDECAR):  # an exported copy, say: leave no lock in it
        raise StorageError(f"{path / names.SIDECAR}: is not there: nobody is remembered; leave it out")
    stack.callback(disk.close, take_lock(disk, path))
    reading = load_durable_sidecar(disk, path / names.SIDECAR)
    if reading.state is None:
        raise StorageError(f"{reading.problem}: it remembers nobody; leave this directory out")
    sidecar = Sidecar(disk, path / names.SIDECAR, reading)
    stack.callback(sidecar.close, sync=False)
    return path, NO_NODE if properties.node_id is None else properties.node_id, sidecar


def _forget(path: Path, node_id: NodeId, sidecar: Sidecar) -> Forgotten:
    local_state = sidecar.local_state
    counts_again = _is_reported_by_others_only(local_state)
    changed = msgspec.structs.replace(local_state, peers=())
    if counts_again:
        changed = msgspec.structs.replace(changed, health=HealthKind.WHOLE, reasons=())
    sidecar.save_twice(changed)
    return Forgotten(str(path), node_id, local_state.peers, counts_again)


def _is_reported_by_others_only(local_state: LocalState) -> bool:
    """Whether only other nodes have reported the amnesia: several reasons are kept as one text."""
    return local_state.health == HealthKind.AMNESIA and all(
        reason.startswith(REPORTED_BY_OTHERS) and REASON_SEPARATOR not in reason
        for reason in local_state.reasons
    )
