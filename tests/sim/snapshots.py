"""What snapshots must hold, whoever wrote them and when.

*SnapshotsTellTheLog*: a file is the fold of the log up to its id, its timestamp that of the last batch.
*SnapshotsAgree*: files of one id are equal, byte for byte. *PartsPromiseNothing*: a process begins with no
part of a file, and whatever has the name of a snapshot is whole, whatever the power cut left.
*RestartIsBounded*: a process applies no batch that a snapshot of its own stands for.
*StartIsCovered*: a log begins at offset 0, or at one that a snapshot beside it reaches.
*NothingNeededIsCleaned*: no log is cut behind a snapshot that a voter downloads from there; for observers see
`disk_bound`.

The judge folds what was committed itself, from the ledger of the cluster; that the logs agree is another's
to judge (`kraftd.audit.agreement`).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from typing import TYPE_CHECKING

from kraftd.audit.invariants import Violation
from kraftd.errors import KraftdError, MalformedError
from kraftd.metadata.image import EMPTY, MetadataImage
from kraftd.metadata.image_builder import ImageBuilder
from kraftd.records import names
from kraftd.records.snapshot import SnapshotDecoder
from kraftd.storage.snapshots import SnapshotInfo
from kraftd.types import NodeId, Offset, OffsetAndEpoch
from tests.sim.fault_budget import DATA_PATH
from tests.sim.ledger import Ledger

if TYPE_CHECKING:
    from tests.sim.node import SimNode

LOG_PATH = DATA_PATH / names.LOG_DIRECTORY
STARTED = "starts from a snapshot"
BESIDE_ANOTHER = "snapshots that another node has, too"


class SnapshotJudge:
    """Remembers every snapshot of one cluster."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.hurt: set[tuple[NodeId, str]] = set()
        """Files that were damaged, by node and name: snapshots, and segments that one stands for."""
        self._opened_with: dict[NodeId, frozenset[OffsetAndEpoch]] = {}
        """The snapshots that were there when a process began."""
        self._digests: dict[OffsetAndEpoch, bytes] = {}
        self._whole: set[tuple[OffsetAndEpoch, bytes]] = set()
        """Files that were folded once, by their digest."""
        self._folded: tuple[Offset, int, MetadataImage] = (0, 0, EMPTY)
        """Up to where the log was folded last, the timestamp there, and what came out."""

    def stand_for_damage(self, node: "SimNode") -> bool:
        """Whether a segment of a node is damaged that one of its snapshots stands for."""
        hurt = (name for node_id, name in self.hurt if node_id == node.id)
        return any(name.endswith(names.LOG) and node.fs.exists(LOG_PATH / name) for name in hurt)

    def on_named(self, node: "SimNode", info: SnapshotInfo) -> None:
        """A snapshot has its name: it was written here, or downloaded."""
        with _reading(node):
            self._look_at_named(node, info)

    def on_opened(self, node: "SimNode") -> None:
        """A process has opened its directory."""
        self.note_opened(node)
        with _reading(node):
            self._look_at_all(node)

    def note_opened(self, node: "SimNode") -> None:
        """Remember which snapshots a process begins with."""
        assert node.directory is not None
        self._opened_with[node.id] = frozenset(info.id for info in node.directory.snapshots.infos)

    def on_start(self, node: "SimNode") -> None:
        """A log begins somewhere: it was opened, cut, or replaced by a snapshot."""
        assert node.directory is not None
        start_offset, infos = node.directory.log.start_offset, node.directory.snapshots.infos
        if start_offset and not any(info.id.offset >= start_offset for info in infos):
            raise Violation(f"StartIsCovered: node {node.id} begins at {start_offset}, and has {infos}")

    def on_cut(self, node: "SimNode") -> None:
        """A log was cut, by the snapshots that are downloaded now."""
        assert node.parts is not None
        leased = node.parts.raft_node.leased_snapshots(node.clock.now().mono_ms)
        cut = sorted(each for each in leased.voters if each.offset < node.start_offset)
        if cut:
            raise Violation(
                f"NothingNeededIsCleaned: node {node.id} begins at {node.start_offset}, leased: {cut}"
            )
        self.on_start(node)

    def on_applied_first(self, node: "SimNode", offset: Offset) -> None:
        """A process has applied something for the first time, up to there."""
        assert node.directory is not None
        infos, end = node.directory.snapshots.infos, node.directory.log.end_offset
        # One that was downloaded while this one was being loaded, it applies next.
        ids = self._opened_with[node.id] & {info.id for info in infos}
        bound = max((each.offset for each in ids if each.offset <= end), default=0)
        if node.id in node.world.fault_budget.wounds:
            return  # one of its snapshots may be damaged
        if bound:
            node.world.statistics[STARTED] += 1
        if offset < bound:
            raise Violation(f"RestartIsBounded: node {node.id} applies up to {offset}, and has {bound}")

    def _look_at_named(self, node: "SimNode", info: SnapshotInfo) -> None:
        data = node.fs.content(LOG_PATH / names.snapshot_name(info.id))
        known, digest = self._digests.get(info.id), blake2b(data).digest()
        if known is not None:
            node.world.statistics[BESIDE_ANOTHER] += 1
            if known != digest:
                raise Violation(f"SnapshotsAgree: node {node.id} has other bytes at {info.id} than another")
            return
        try:
            image = folded(data, info.id)
            self._whole.add((info.id, digest))
            timestamp_ms, state = self._fold(info.id.offset)
        except KraftdError as error:
            raise Violation(f"SnapshotsTellTheLog: node {node.id} at {info.id}: {error}") from error
        if image != state or image.hash() != state.hash():
            raise Violation(
                f"SnapshotsTellTheLog: node {node.id} has another state at {info.id} than the log"
            )
        if info.last_contained_timestamp_ms != timestamp_ms:
            raise Violation(
                f"SnapshotsTellTheLog: node {node.id} at {info.id} says {info}, not {timestamp_ms}"
            )
        self._digests[info.id] = digest

    def _look_at_all(self, node: "SimNode") -> None:
        if not node.fs.is_directory(LOG_PATH):
            return
        for name in node.fs.names(LOG_PATH):
            if name.endswith(names.PART):
                raise Violation(f"PartsPromiseNothing: node {node.id} starts with {name}")
            snapshot_id = names.parse_snapshot_name(name)
            is_hurt = (node.id, name) in self.hurt or node.id in node.world.fault_budget.wounds
            if snapshot_id is None or is_hurt:
                continue
            data = node.fs.content(LOG_PATH / name)
            known = (snapshot_id, blake2b(data).digest())
            if known in self._whole:
                continue
            try:
                folded(data, snapshot_id)
            except KraftdError as error:
                raise Violation(
                    f"PartsPromiseNothing: node {node.id} starts with a bad one: {error}"
                ) from error
            self._whole.add(known)

    def _fold(self, end: Offset) -> tuple[int, MetadataImage]:
        """The timestamp of the committed batch that ends there, and the state."""
        if self._ledger.digest_at(end) is None:
            raise MalformedError(f"offset {end} is not between two committed batches")
        offset, timestamp_ms, image = self._folded
        if offset > end:
            offset, timestamp_ms, image = 0, 0, EMPTY
        builder = ImageBuilder(image)
        for batch in self._ledger.batches(offset, end):
            builder.apply_values(batch.values(), batch.base_offset)
            timestamp_ms = batch.max_timestamp
        image = builder.image()
        if end > self._folded[0]:
            self._folded = (end, timestamp_ms, image)
        return timestamp_ms, image


@contextmanager
def _reading(node: "SimNode") -> Iterator[None]:
    """No fault of the disk is meant for the judge."""
    fault, node.disk_fault = node.disk_fault, None
    yield
    node.disk_fault = fault


def folded(data: bytes, snapshot_id: OffsetAndEpoch) -> MetadataImage:
    """The state in a snapshot.

    Raises:
        KraftdError: It is not whole, or makes no state.
    """
    decoder, builder = SnapshotDecoder(epoch=snapshot_id.epoch), ImageBuilder(EMPTY)
    for batch in decoder.feed(data):
        builder.apply_values(batch.values(), 0)
    decoder.finish()
    return builder.image()
