"""Do log and snapshots of a node stay within bounds, however long it runs?

*DiskIsBounded*: a cleaner looks once a snapshot was written. Of what was there when it looked the time
before, no more is left than `metadata.max.retention.bytes` allows, and no snapshot that was older than
`metadata.max.retention.ms` then, unless it had to stay. That is: the newest snapshot that is flushed, applied
and not behind one that a replica downloads; the ones after it; and the log behind it, in whole segments. What
stays for observers alone is no more than is allowed in all, beyond what stays without them (D-24).

*NothingNeededIsCleaned*, for observers: what they download stays while it is no more than that.

What there is, the judge reads from the simulated disk; what has to stay, it works out itself. What came since
is judged the next time.

Entered by `SimNode`: `on_opened`, `on_written` behind each snapshot, `on_look` before the cleaner chooses,
`on_cut` when it was heard.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING, NamedTuple

from kraftd.audit.invariants import Violation
from kraftd.records import names
from kraftd.storage.snapshots import SnapshotInfo
from kraftd.types import NodeId, Now, Offset, OffsetAndEpoch
from tests.sim.fault_budget import DATA_PATH
from tests.sim.filesystem import File

if TYPE_CHECKING:
    from tests.sim.node import SimNode

LOG_PATH = DATA_PATH / names.LOG_DIRECTORY
JUDGED = "disks that had to be cleaned"
HELD = "disks on which observers held something"
NEVER: Offset = 1 << 62


class Found(NamedTuple):
    """What there was when a cleaner looked."""

    sizes: dict[str, int]
    """Bytes of each segment and snapshot, by name."""
    stays: frozenset[str]
    """What had to stay."""
    stays_anyway: frozenset[str]
    """What had to stay if observers downloaded nothing."""
    is_old: frozenset[str] = frozenset()
    """Of the snapshots, oldest offset first, the leading ones that were over age."""
    at_ms: int = -1
    observed: Offset = NEVER
    """The end of the oldest snapshot that observers downloaded then."""

    def bytes_of(self, names_of: Iterable[str]) -> int:
        """How much some of it held."""
        return sum(self.sizes[name] for name in names_of)


class DiskJudge:
    """Remembers what each cleaner of one cluster saw last."""

    def __init__(self) -> None:
        self._looks: dict[NodeId, Found] = {}
        self._unseen: dict[NodeId, OffsetAndEpoch] = {}
        """Snapshots that were written, and since which their node's cleaner has not looked."""

    def on_opened(self, node: "SimNode") -> None:
        """A process begins."""
        self._looks.pop(node.id, None)
        self._unseen.pop(node.id, None)

    def on_written(self, node: "SimNode", info: SnapshotInfo) -> None:
        """A snapshot is there: if it counts, the cleaner looks before the next one is."""
        assert node.directory is not None
        unseen = self._unseen.get(node.id)
        if unseen is not None and node.directory.snapshots.get(unseen) is not None:
            raise Violation(f"DiskIsBounded: node {node.id} has not looked since it wrote {unseen}")
        self._unseen[node.id] = info.id

    def on_cut(self, node: "SimNode", now: Now) -> None:
        """A log was cut. If the cleaner looked in this moment, it knew what observers download."""
        found = self._looks.get(node.id)
        if found is None or found.at_ms != now.mono_ms or node.start_offset <= found.observed:
            return
        assert node.parts is not None
        held, allowed = _held_bytes(found), node.parts.log_cleaner._retention.size_bytes
        if held <= allowed or allowed < 0:
            raise Violation(
                f"NothingNeededIsCleaned: node {node.id} begins at {node.start_offset}, observers download "
                f"what ends at {found.observed} and hold {held} bytes of {allowed}"
            )

    def on_look(self, node: "SimNode", now: Now) -> None:
        """A cleaner looks what may go."""
        self._unseen.pop(node.id, None)
        sizes, before = sizes_of(node), self._looks.get(node.id)
        if before is not None and len(before.stays_anyway) < len(before.sizes):
            node.world.statistics[JUDGED] += 1
            node.world.statistics[HELD] += before.stays != before.stays_anyway
            _compare(node, before, sizes)
        self._looks[node.id] = _look(node, sizes, now)


def sizes_of(node: "SimNode") -> dict[str, int]:
    """What the disk holds of log and snapshots."""
    assert node.directory is not None
    snapshots = {names.snapshot_name(info.id) for info in node.directory.snapshots.infos}
    return {
        name: file.live.size_bytes
        for name, file in node.fs.directory(LOG_PATH).live.items()
        if isinstance(file, File) and (name.endswith(names.LOG) or name in snapshots)
    }


def _look(node: "SimNode", sizes: dict[str, int], now: Now) -> Found:
    assert node.directory is not None
    assert node.parts is not None
    infos, limits = node.directory.snapshots.infos, node.world.shape
    leased = node.parts.raft_node.leased_snapshots(now.mono_ms)
    limit = min([_limit(node), *(snapshot_id.offset for snapshot_id in leased.voters)])
    observed = min((snapshot_id.offset for snapshot_id in leased.observers), default=NEVER)
    # A clock ran ahead when the snapshot at 47 was made; those at 165 and 197 are old by today's. The oldest
    # goes first, so that these wait until its time has come.
    is_old = takewhile(
        lambda info: 0 <= limits.retention_ms < now.wall_ms - info.last_contained_timestamp_ms, infos
    )
    old_names = frozenset(names.snapshot_name(info.id) for info in is_old)
    stays, anyway = _stays(infos, sizes, min(limit, observed)), _stays(infos, sizes, limit)
    return Found(sizes, stays, anyway, old_names, now.mono_ms, observed)


def _stays(infos: Sequence[SnapshotInfo], sizes: dict[str, int], limit: Offset) -> frozenset[str]:
    """What has to stay of a log that may not begin behind a limit."""
    begins = max((info.id.offset for info in infos if info.id.offset <= limit), default=0)
    if not infos or begins <= infos[0].id.offset:
        return frozenset(sizes)  # there is none that another one could replace
    segments = sorted(name for name in sizes if name.endswith(names.LOG))
    stays = segments[-1:]
    stays += [
        name for name, following in pairwise(segments) if int(following.removesuffix(names.LOG)) > begins
    ]
    stays += [names.snapshot_name(info.id) for info in infos if info.id.offset >= begins]
    return frozenset(stays)


def _limit(node: "SimNode") -> Offset:
    """Where the log may begin at most, whoever downloads: not behind what is flushed and applied."""
    assert node.directory is not None
    assert node.parts is not None
    raft = node.parts.raft_node._raft
    own = min(node.directory.log.flushed_offset, node.parts.applier.applied_offset)
    told = min(raft.log.flushed_offset, raft.applied_offset)
    if any(told < info.id.offset <= own for info in node.directory.snapshots.infos):
        return 0  # the raft node is to be told of it in this turn, and may refuse a cut until then
    return min(told, own)


def _held_bytes(found: Found) -> int:
    """The most that observers hold if all stays that they download."""
    return found.bytes_of(found.stays) - found.bytes_of(found.stays_anyway)


def _compare(node: "SimNode", before: Found, sizes: dict[str, int]) -> None:
    left, allowed = [name for name in before.sizes if name in sizes], node.world.shape.retention_bytes
    size_bytes, anyway_bytes = before.bytes_of(left), before.bytes_of(before.stays_anyway)
    if set(left) - before.stays_anyway and size_bytes > allowed + max(allowed, anyway_bytes) and allowed >= 0:
        raise Violation(
            f"DiskIsBounded: node {node.id} keeps {size_bytes} bytes, {allowed} are allowed, and "
            f"{anyway_bytes} would have to stay if observers downloaded nothing"
        )
    unneeded = sorted(set(left) - before.stays)
    if not unneeded:
        return
    oldest = min((name for name in left if not name.endswith(names.LOG)), default="")
    if size_bytes > allowed >= 0 or oldest in before.is_old:
        raise Violation(
            f"DiskIsBounded: node {node.id} keeps {size_bytes} bytes, {allowed} are allowed, "
            f"and {unneeded} need not stay"
        )
