"""What a node was promised by its disk, and whether a disk still keeps it.

`Promised` is what may have left the process by some moment: fetch positions and acknowledgements (batches
that are durable), votes and epochs (elections), what it told others about itself (start counter, health)
and about them (peers). `judge` opens a disk as the daemon does, and looks for each of them. A *hole* is a
promise that is not kept, as one line of text.

Judged on every disk, besides the promises themselves: what the opening reports is durable, so that it is
still there when nothing unsynced survives (D-04), what was taken unread is read afterwards (D-23), the epochs
are those of the batches, tools can read what is there before and after, and the node goes on: what it appends
and promises next is kept too.
"""

from collections.abc import Callable
from itertools import groupby
from json import JSONDecodeError, JSONDecoder
from pathlib import Path
from random import Random
from typing import NamedTuple

from kraftd.errors import KraftdError, MalformedError
from kraftd.logtools.inspection import inspect_directory
from kraftd.records import epoch_checkpoint, names, quorum_state
from kraftd.records.batch import scan
from kraftd.records.frame import encode_record
from kraftd.records.messages import ConfigRecord
from kraftd.records.snapshot import encode_snapshot
from kraftd.storage import LogConfig, NodeDirectory, format_directory
from kraftd.storage.disk import StorageFailure
from kraftd.types import Election, EpochEntry, Offset, OffsetAndEpoch, PeerIdentity, ReplicaKey
from tests.crash.checking import check_unread
from tests.sim.filesystem import SimFileSystem
from tests.unit.storage.batches import batch

HOME = Path("/srv/kraft/data")
VOTERS = (1, 2, 3)


class Promised(NamedTuple):
    """What must be found. Where a call is under way, both what was and what will be are allowed."""

    formatted: bool = False
    start_counter: int = 0
    """The highest that was told to anybody."""
    log: tuple[bytes, ...] = ()
    """Batches in order, one for each offset, as far as the page cache knows; empty bytes for those that only
    a snapshot holds.
    """
    durable: int = 0
    """How many of them are."""
    elections: tuple[Election, ...] = (Election(),)
    peers: tuple[tuple[PeerIdentity, ...], ...] = ((),)
    health: tuple[str, ...] = ("blank", "whole")
    snapshots: tuple[str, ...] = ()
    """The names of those that count."""
    freezing: str = ""
    """That of the one that may have its name already."""
    going: tuple[str, ...] = ()
    """Those that may be gone."""
    aside: tuple[str, ...] = ()
    """The names that were set aside when the node was opened: they may be there, and promise nothing."""


class Ids:
    """Draws ids that are the same in each run."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def __call__(self) -> bytes:
        return self._random.randbytes(16)


def open_home(fs: SimFileSystem, config: LogConfig, ids: Callable[[], bytes]) -> NodeDirectory:
    """Open as the daemon does."""
    return NodeDirectory.open(fs, HOME, node_id=1, random_uuid=ids, voter_ids=VOTERS, config=config)


def format_home(fs: SimFileSystem, ids: Callable[[], bytes]) -> bool:
    """Format as the operator does, who may do it again; says whether it had been done before."""
    return format_directory(
        fs, HOME, cluster_id="cluster", node_id=1, directory_id=ids(), now_ms=5, ignore_formatted=True
    ).already


def snapshot_of(snapshot_id: OffsetAndEpoch) -> bytes:
    """The bytes of a snapshot, which follow from its id; of some pages."""
    configs = (ConfigRecord(4, "", f"{number}", "v" * 60) for number in range(snapshot_id.offset % 7 * 60))
    values = [encode_record(config) for config in configs]
    timestamp_ms = snapshot_id.offset
    return b"".join(
        encode_snapshot(values, snapshot_id.epoch, timestamp_ms, last_contained_timestamp_ms=timestamp_ms)
    )


def batches_in(node: NodeDirectory) -> tuple[bytes, ...]:
    """Every batch that the log would give to others."""
    found: list[bytes] = []
    offset = node.log.start_offset
    while offset < node.log.end_offset:
        for view in scan(node.log.read(offset, 1 << 20)):
            found.append(bytes(view.raw))
            offset = view.end_offset
    return tuple(found)


class Seen(NamedTuple):
    """What an opening reports."""

    start: OffsetAndEpoch
    log: tuple[bytes, ...]
    election: Election
    peers: tuple[PeerIdentity, ...]
    start_counter: int
    uninitialized: bool

    @classmethod
    def of(cls, node: NodeDirectory) -> "Seen":
        start = OffsetAndEpoch(node.log.start_offset, node.log.start_epoch)
        log = batches_in(node)
        return cls(start, log, node.election, node.peers, node.start_counter, node.uninitialized)


def judge(disk: SimFileSystem, promised: Promised, config: LogConfig, *, thorough: bool = True) -> str | None:
    """Open this disk, and say which promise is not kept; None if all are. The disk is used up.

    Args:
        disk: What a crash left.
        promised: What must be found.
        config: How the log rolls.
        thorough: Let tools look too, and let the node go on.
    """
    ids = Ids(7)
    if (missed := _missed_by_kafka(disk, promised)) is not None:
        return missed
    try:
        if thorough:
            inspect_directory(disk, HOME)
        already = format_home(disk, ids)
        if promised.formatted and not already:
            return "was formatted, and is not any more"
        node = open_home(disk, config, ids)
        check_unread(node)
        seen = Seen.of(node)
        hole = _broken(node, seen, promised, disk) or _forgotten(seen, disk, config)
        return hole or (_stuck(node, disk, config, seen) if thorough else None)
    except StorageFailure:
        raise
    except (
        KraftdError,
        AssertionError,
        OSError,
        ArithmeticError,
        LookupError,
        TypeError,
        ValueError,
    ) as error:
        return f"{type(error).__name__}: {error}"


def _missed_by_kafka(disk: SimFileSystem, promised: Promised) -> str | None:
    """Whether Kafka's own program, started on this disk, would miss an election that was told (D-41)."""
    election: Election | None = Election()
    if disk.exists(path := HOME / names.LOG_DIRECTORY / names.QUORUM_STATE):
        election = read_like_kafka(disk.content(path))
    if election is None or election in promised.elections:
        return None
    return f"Kafka would start with the election {election}, not one of {promised.elections}"


def read_like_kafka(data: bytes) -> Election | None:
    """What Kafka makes of a `quorum-state`; None if it refuses to start. It takes the first JSON value of the
    first line, and does not look at what is behind (tests/interop/test_torn_elections.py).
    """
    line = data.split(b"\n", 1)[0].decode("latin-1").lstrip(" ")
    try:
        _, end = JSONDecoder().raw_decode(line)
        return quorum_state.decode(line[:end].encode("latin-1"))[0]
    except (JSONDecodeError, MalformedError):
        return None


def _broken(node: NodeDirectory, seen: Seen, promised: Promised, disk: SimFileSystem) -> str | None:
    """Which promise the opening does not keep."""
    if node.damage or node.amnesia:
        return f"believes to have lost something: {(*node.damage, *node.amnesia)}"
    if any("another program wrote" in warning for warning in node.warnings):
        return f"takes its own file for another program's: {node.warnings}"
    if (wrong := _wrong_log(node, seen, promised)) is not None:
        return wrong
    if seen.election not in promised.elections:
        return f"the election is {seen.election}, not one of {promised.elections}"
    if seen.peers not in promised.peers:
        return f"the peers are {seen.peers}, not one of {promised.peers}"
    if seen.start_counter <= promised.start_counter:
        return f"start counter {seen.start_counter} comes again, after {promised.start_counter}"
    if ("blank" if seen.uninitialized else "whole") not in promised.health:
        return f"is {'blank' if seen.uninitialized else 'whole'}, not one of {promised.health}"
    if (wrong := _wrong_snapshots(promised, disk, seen.start.offset)) is not None:
        return wrong
    wanted = epochs_of(seen.log)
    if not wanted and node.log.epochs:  # of the record before the start, which the log was cut behind
        wanted = (EpochEntry(seen.start.epoch, seen.start.offset),) if seen.start.offset else ()
    file = HOME / names.LOG_DIRECTORY / names.EPOCH_CHECKPOINT
    noted = epoch_checkpoint.decode(disk.content(file)) if disk.exists(file) else ()
    if wanted != node.log.epochs or wanted != noted:
        return f"the epochs are {node.log.epochs}, on disk {noted}, and in the batches {wanted}"
    return None


def _wrong_log(node: NodeDirectory, seen: Seen, promised: Promised) -> str | None:
    """Whether the log is not what was written, with what is durable of it, or a snapshot in its place."""
    start, end = seen.start.offset, node.log.end_offset
    name = names.snapshot_name(seen.start)
    if start and (node.snapshots.get(seen.start) is None or name not in counted(promised)):
        return f"the log begins at {seen.start}, and no snapshot leads there"
    if start and not continues(promised.log, seen.start):
        return None if not seen.log else "the log goes on behind a snapshot, with what it had before"
    if end < promised.durable:
        return f"{promised.durable} batches were durable, the log ends at {end}"
    if seen.log != promised.log[start:end]:
        return f"the log is not what was written: {start} to {end} of {len(promised.log)} batches"
    return None


def counted(promised: Promised) -> set[str]:
    """The names of snapshots that may be there."""
    return {*promised.snapshots, *promised.going, promised.freezing}


def continues(log: tuple[bytes, ...], snapshot_id: OffsetAndEpoch) -> bool:
    """Whether the record before a snapshot's end is in the log, or in a snapshot that it begins at."""
    if snapshot_id.offset > len(log):
        return False
    data = log[snapshot_id.offset - 1]
    return not data or next(scan(data)).epoch == snapshot_id.epoch


def _wrong_snapshots(promised: Promised, disk: SimFileSystem, start_offset: Offset) -> str | None:
    """Whether one is gone that counted and is not below the log, or one is there that is not whole, or a part
    of one, or one was set aside that the durable part of the log goes on from.
    """
    directory = HOME / names.LOG_DIRECTORY
    there = [name for name in disk.names(directory) if ".checkpoint" in name]
    aside = [name for name in there if name.endswith(names.ASIDE)]
    for name in there:
        if name in promised.aside:
            continue
        snapshot_id = names.parse_snapshot_name(name.removesuffix(names.ASIDE))
        if snapshot_id is None or name.removesuffix(names.ASIDE) not in counted(promised):
            return f"there is {name}, which nobody froze"
        if name in aside and snapshot_id.offset <= promised.durable and continues(promised.log, snapshot_id):
            return f"{name} was set aside, and the log goes on from it"
        if disk.content(directory / name) != snapshot_of(snapshot_id):
            return f"the snapshot {name} is not what was written"
    below = names.snapshot_name(OffsetAndEpoch(start_offset, 0))
    kept = {name.removesuffix(names.ASIDE) for name in there}
    missing = {name for name in promised.snapshots if name >= below}.difference(kept)
    return f"the snapshots {sorted(missing)} counted, and are gone" if missing else None


def _forgotten(reported: Seen, disk: SimFileSystem, config: LogConfig) -> str | None:
    """Whether what was reported is gone when nothing unsynced survives (D-04, D-05)."""
    later = disk.copy()
    later.forget_unsynced()
    again = open_home(later, config, Ids(8))
    check_unread(again)
    found = Seen.of(again)
    if again.damage or again.amnesia:
        return f"after its opening a power cut leaves {(*again.damage, *again.amnesia)}"
    directory = HOME / names.LOG_DIRECTORY
    if [n for n in disk.names(directory) if ".checkpoint" in n] != [
        n for n in later.names(directory) if ".checkpoint" in n
    ]:
        return "a snapshot that the opening left was not durable"
    if found != reported._replace(start_counter=found.start_counter):
        return "what the opening reported was not durable"
    if found.start_counter <= reported.start_counter:
        return f"start counter {found.start_counter} comes again, after {reported.start_counter}"
    return None


def _stuck(node: NodeDirectory, disk: SimFileSystem, config: LogConfig, seen: Seen) -> str | None:
    """Whether the node can go on, and keep what it promises next."""
    end = node.log.end_offset
    epoch = max(node.election.epoch, node.log.last_epoch) + 1
    election = Election(epoch, -1, ReplicaKey(2))
    node.write_election(election)
    more = batch(end, epoch)
    node.log.append((more,), end, end + 1)
    problems = inspect_directory(disk, HOME).problems
    if problems:
        return f"tools see problems: {problems}"
    job = node.log.begin_flush(sync_recovery_point=True)
    job.run()
    node.log.flush_done(job)
    later = disk.copy()
    later.forget_unsynced()
    again = open_home(later, config, Ids(9))
    check_unread(again)
    if again.damage or again.amnesia or again.election != election:
        return f"went on, and lost {(*again.damage, *again.amnesia, again.election)}"
    if batches_in(again) != (*seen.log, more):
        return "went on, and what it appended and flushed is not there"
    return None


def epochs_of(log: tuple[bytes, ...]) -> tuple[EpochEntry, ...]:
    """Which epoch begins where, from the batches."""
    heads = [(view.epoch, view.base_offset) for data in log for view in scan(data)]
    return tuple(
        EpochEntry(epoch, next(group)[1]) for epoch, group in groupby(heads, key=lambda head: head[0])
    )
