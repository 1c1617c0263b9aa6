"""Is the data of deleted replicas gone where a controller says so? The disks of the brokers tell.

A `DeletionJudge` is shown each move that the tracker of a controller makes. What it calls
ReplicaDeletionSuccessful must not be on that broker's disk, then and later, unless the broker has read that
the replica is assigned to it once more; and what it calls removed for good must not lie there as `…-stray`,
nor in a directory of which it knows that it failed before the broker could remove anything there.
Once everything was healed, nothing waits for a broker that lives:
what is ReplicaDeletionStarted is successful in bounded time; unless it is in a directory that is not back.

Not here: when the tracker moves what (`kraftd.controller.deletions.tracker`), and what a broker does with its
disk (`broker_replicas`).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kraftd.audit.invariant import Violation
from kraftd.audit.placements import PartitionKey
from kraftd.controller.deletions.tracker import DeletionTracker, Entry
from kraftd.metadata.parts.brokers import BROKERS
from kraftd.metadata.parts.topics import TOPICS
from kraftd.metadata.parts.topics.partitions import UNASSIGNED
from kraftd.metadata.replica_states import ReplicaState
from kraftd.types import NodeId

if TYPE_CHECKING:
    from tests.sim.broker_process import SimBroker
    from tests.sim.node import SimNode
    from tests.sim.world import World

GONE: Final = frozenset({ReplicaState.DELETION_SUCCESSFUL, ReplicaState.NON_EXISTENT})
WAITING: Final = frozenset({ReplicaState.DELETION_STARTED, ReplicaState.DELETION_INELIGIBLE})
DELETED: Final = "replicas deleted, as a controller says"


class DeletionJudge:
    """Compares what controllers say of deleted replicas with what is on the brokers' disks."""

    def __init__(self, world: "World", brokers: "dict[NodeId, SimBroker]") -> None:
        self._world = world
        self._brokers = brokers

    def watch(self, node: "SimNode", tracker: DeletionTracker) -> None:
        """Look at what a node's tracker makes of each heartbeat."""
        heard: Callable[..., None] = tracker.heard

        def watched(broker_id: NodeId, *what: object, **more: bool) -> None:
            waiting: list[Entry] = list(tracker._waiting.get(broker_id, {}).values())
            heard(broker_id, *what, **more)
            for entry in waiting:
                if entry.state in GONE:
                    self._world.statistics[DELETED] += len(entry.removed.partitions)
                    self._expect_gone(node, tracker, entry)
                    self._expect_told(node, entry)

        tracker.heard = watched  # type: ignore[method-assign] # that it is watched changes nothing

    def look(self) -> None:
        """What the active controller calls gone still is."""
        leader = self._leader()
        if leader is not None and leader.parts is not None:
            tracker = leader.parts.controller.deletions
            for entry in tracker.entries():
                if entry.state in GONE:
                    self._expect_gone(leader, tracker, entry)

    def waiting(self, is_live: "Callable[[SimBroker], bool]") -> list[Entry]:
        """What the active controller takes for not deleted yet, of the brokers that live."""
        leader = self._leader()
        if leader is None or leader.parts is None:
            return []
        live = {broker.id: broker.disk.working for broker in self._brokers.values() if is_live(broker)}
        return [
            entry
            for entry in leader.parts.controller.deletions.entries()
            if entry.state in WAITING
            and entry.removed.broker_id in live
            and not (
                entry.is_directory_offline and entry.removed.directory not in live[entry.removed.broker_id]
            )
        ]

    def _leader(self) -> "SimNode | None":
        return next((node for node in self._world.nodes.values() if node.is_leader), None)

    def _expect_gone(self, node: "SimNode", tracker: DeletionTracker, entry: Entry) -> None:
        removed = entry.removed
        broker = self._brokers.get(removed.broker_id)
        self._expect_offline(node, entry)
        for partition in removed.partitions:
            key = removed.topic_id, partition
            if broker is None or key not in broker.disk.replicas or _has_it_again(broker, key):
                continue
            if not any(_is_about(later, broker.id, key) for later in tracker.entries(entry.key)):
                text = f"node {node.id} calls {removed.topic}-{partition} of {broker.id} {entry.state.label}"
                where = f"its log is there, read up to {broker.disk.log.published_offset}"
                text = f"DeletedDataIsGone: {text}, removed at {removed.offset}; {where}"
                self._world.fail(node.id, Violation(text))

    def _expect_offline(self, node: "SimNode", entry: Entry) -> None:
        """What was left in a directory that the controller knows as lost is not said to be removed."""
        removed = entry.removed
        broker = self._brokers.get(removed.broker_id)
        if broker is None or node.parts is None or entry.is_set_aside:
            return
        known = node.parts.controller.image[BROKERS].get(broker.id)
        left = {broker.disk.left.get((removed.topic_id, each)) for each in removed.partitions} - {None}
        # Where the metadata does not know the directory, the disk does.
        where = left if removed.directory == UNASSIGNED else left & {removed.directory}
        if known is not None and not where.issubset(known.log_dirs):
            text = f"node {node.id} calls {removed.topic} of {broker.id} {entry.state.label}: {entry}"
            self._world.fail(node.id, Violation(f"OfflineDataStays: {text}"))

    def _expect_told(self, node: "SimNode", entry: Entry) -> None:
        """Of what is called gone for good nothing is set aside."""
        removed = entry.removed
        broker = self._brokers.get(removed.broker_id)
        if broker is None or entry.is_set_aside:
            return
        found = {each: broker.disk.strays.get((removed.topic_id, each), -1) for each in removed.partitions}
        strays = [each for each, read_to in found.items() if read_to > removed.offset]
        if strays:
            text = f"node {node.id} says that {removed.topic}-{strays} of {broker.id} are removed: {entry}"
            self._world.fail(node.id, Violation(f"StrayDataIsTold: {text}"))


def _is_about(entry: Entry, broker_id: NodeId, key: PartitionKey) -> bool:
    """Whether an entry is about a replica, which was taken away once more."""
    removed = entry.removed
    return (removed.broker_id, removed.topic_id) == (broker_id, key[0]) and key[1] in removed.partitions


def _has_it_again(broker: "SimBroker", key: PartitionKey) -> bool:
    """Whether a broker has read that a replica is its own."""
    partition = broker.disk.log.image[TOPICS].partition(*key)
    return partition is not None and broker.id in partition.replicas
