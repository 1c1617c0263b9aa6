"""Several nodes in one thread, with a network, disks and clocks that the test owns.

Everything that happens is an entry of one queue, ordered by time and then by age. Effects are carried out in
order, as the daemon's executor does it: barriers at once, appends to a page cache, flushes after a while;
a crash loses whatever was not flushed. After every event the invariants of `kraftd.audit` are checked, and
every event and effect is a line of the trace.
"""

import heapq
import zlib
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from random import Random
from typing import NamedTuple

import crc32c

from kraftd.audit.invariants import Auditor, Mark, NodeView
from kraftd.audit.trace import IN, OUT, WORLD, Line, trace
from kraftd.errors import ErrorCode
from kraftd.raft import effects as fx
from kraftd.raft import events as ev
from kraftd.raft.epoch_states import Leader
from kraftd.raft.node import OpenedLog, RaftNode
from kraftd.raft.rejoin import StateHealth
from kraftd.raft.timing import Timing
from kraftd.raft.voters import Voter, VoterSet
from kraftd.records.batch import BatchView, scan
from kraftd.types import (
    NEVER_MS,
    Election,
    Endpoint,
    EpochEntry,
    NodeId,
    Now,
    Offset,
    OffsetAndEpoch,
    PeerIdentity,
    ReplicaKey,
)

WALL_MS = 1_700_000_000_000
CLUSTER_ID = "story"
KEEPALIVE_MS = 5_000
"""After this long the transport notices that the other end is gone without a word."""

HIDDEN = {
    "LearnEndpoint",
    "NonceGiven",
    "PeerClaimed",
    "NonceShown",
    "PeerIdentified",
    "ConfirmPeer",
    "ChallengePeer",
    "RememberPeer",
    "AssignEpoch",
    "LogFlushed",
    "Applied",
}


def voter_set(*ids: NodeId) -> VoterSet:
    """Static voters of these ids, each at an address of its own."""
    return VoterSet(Voter(node_id, Endpoint(f"host{node_id}", 9_000 + node_id)) for node_id in ids)


class FixedRandom:
    """Draws the same fraction each time; stories set it per node, so that it is known who is first."""

    def __init__(self, part: float) -> None:
        self.part = part

    def next_int(self, below: int) -> int:
        return min(below - 1, int(below * self.part))


class SeededRandom:
    def __init__(self, random: Random) -> None:
        self.random = random

    def next_int(self, below: int) -> int:
        return self.random.randrange(below)


class Snapshot(NamedTuple):
    """A snapshot of the story: bytes to send, and what they stand for."""

    data: bytes
    marks: tuple[Mark, ...]
    values: tuple[bytes, ...]


class Disk:
    """What of a node survives a crash."""

    def __init__(self, node_id: NodeId) -> None:
        self.directory_id = node_id.to_bytes(16, "big")
        self.election: Election | None = None
        self.batches: list[bytes] = []
        self.durable_count = 0
        self.cut_count = 0
        """How many batches were cut away before those."""
        self.start = OffsetAndEpoch(0, 0)
        """The end of the snapshot that the log begins with; 0 if it begins with its first record."""
        self.base = Snapshot(b"", (), ())
        """What is before the log's start."""
        self.snapshots: dict[OffsetAndEpoch, Snapshot] = {}
        self.generation = 0
        self.peers: dict[NodeId, PeerIdentity] = {}
        self.health = "whole"
        self.start_counter = 0
        self.rotten: set[Offset] = set()
        """Bases of batches that went bad after they were written."""

    @property
    def end_offset(self) -> Offset:
        return BatchView(self.batches[-1]).end_offset if self.batches else self.start.offset

    def durable_end(self) -> Offset:
        if not self.durable_count:
            return self.start.offset
        return BatchView(self.batches[self.durable_count - 1]).end_offset

    def install(self, snapshot_id: OffsetAndEpoch) -> None:
        """As the store does it: the log is empty behind the snapshot, and older ones are gone."""
        self.base = self.snapshots[snapshot_id]
        self.batches, self.durable_count = [], 0
        self._begin_at(snapshot_id)

    def cut(self, start: OffsetAndEpoch) -> None:
        """Whole batches before a snapshot's end go, and older snapshots."""
        self.base = self.snapshots[start]
        gone = sum(BatchView(batch).end_offset <= start.offset for batch in self.batches)
        del self.batches[:gone]
        self.durable_count -= gone
        self.cut_count += gone
        self._begin_at(start)

    def _begin_at(self, start: OffsetAndEpoch) -> None:
        self.start = start
        self.snapshots = {one: s for one, s in self.snapshots.items() if one.log_order >= start.log_order}

    def lose_unflushed(self) -> None:
        del self.batches[self.durable_count :]


class Node:
    """One node and what the world knows of it."""

    def __init__(self, node_id: NodeId, cluster: "Cluster") -> None:
        self.id = node_id
        self.cluster = cluster
        self.disk = Disk(node_id)
        self.raft_node: RaftNode | None = None
        self.incarnation = 0
        self.handles: dict[int, tuple[NodeId, NodeId, int, int]] = {}
        self.held_flushes: list[Callable[[], None]] = []
        self.marks: list[Mark] = []
        self.outcomes: dict[int, object] = {}
        self.fresh: list[fx.AppendDone | fx.ReadDone | fx.ResignDone] = []
        self.last_send: fx.Send | None = None
        self.alarms: dict[str, str] = {}
        self.commits: list[Offset] = []
        self.announced: list[tuple[int, NodeId]] = []
        self.ready_to_stop = False
        self.loaded: list[OffsetAndEpoch] = []
        """The snapshots that its state machine was told to become."""
        self.part: tuple[OffsetAndEpoch, bytes] | None = None
        """What is written of a snapshot."""
        self.writes_snapshots = True
        """False: the disk refuses them."""
        self.wall_skew_ms = 0
        self.frozen_until_ms = 0
        self.applies = True
        """False: the state machine never gets on."""
        self.poll_scheduled_at = -1

    @property
    def is_up(self) -> bool:
        return self.raft_node is not None

    def remark(self, keep: int = 0) -> None:
        """Follow the log from its first batches on that are as they were."""
        base = self.disk.base.marks
        self.marks[:] = [*base, *self.marks[len(base) : len(base) + keep]]
        for batch in self.disk.batches[keep:]:
            head = BatchView(batch)
            before = self.marks[-1].digest if self.marks else 0
            self.marks.append(Mark(head.end_offset, head.epoch, zlib.crc32(batch[8:], before) or 1))


class Cluster:
    """A quorum in a box."""

    def __init__(
        self,
        voters: Iterable[NodeId] = (1, 2, 3),
        *,
        observers: Iterable[NodeId] = (),
        seed: int | None = None,
        timing: Timing | None = None,
        latency_ms: Callable[[], int] = lambda: 1,
        flush_ms: Callable[[], int] = lambda: 1,
        start: bool = True,
        bootstrap_observers: bool = False,
        tail_bytes: int = 16 << 20,
        uncommitted_bytes_max: int = 32 << 20,
        chunk_bytes: int = 64 << 10,
    ) -> None:
        self.chunk_bytes = chunk_bytes
        self.uncommitted_bytes_max = uncommitted_bytes_max
        self.tail_bytes = tail_bytes
        self.voter_set = voter_set(*voters)
        self.timing = timing or Timing()
        self.latency_ms, self.flush_ms = latency_ms, flush_ms
        self.random = Random(seed)
        self.seeded = seed is not None
        self.now_ms = 0
        self.queue: list[tuple[int, int, Callable[[], None]]] = []
        self.ages = count()
        self.tokens = count(1)
        self.auditor = Auditor()
        self.lines: list[Line] = []
        self.recording = not self.seeded
        self.taken: dict[OffsetAndEpoch, dict[bytes, Snapshot]] = {}
        """Each snapshot that was ever written, by its bytes: whoever has other bytes has none of them."""
        self.cut: set[tuple[NodeId, NodeId]] = set()
        self.holding_flushes: set[NodeId] = set()
        self.connections: dict[tuple[NodeId, NodeId], tuple[int, int, int]] = {}
        self.connection_ids = count(1)
        self.fifo: dict[tuple[NodeId, NodeId], int] = {}
        self.bootstrap_observers = bootstrap_observers
        ids = [*voters, *observers]
        self.nodes = {n: Node(n, self) for n in ids}
        self.views = {
            n: NodeView(n, n in self.voter_set, True, Election(), node.marks, 0, voters=self.voter_set.ids)
            for n, node in self.nodes.items()
        }
        if start:
            for n in ids:
                self.start(n)

    # --- processes --------------------------------------------------------------------------------------

    def random_source_of(self, node_id: NodeId) -> FixedRandom | SeededRandom:
        if self.seeded:
            return SeededRandom(self.random)
        return FixedRandom((node_id - 1) / max(1, len(self.nodes)))

    def start(self, node_id: NodeId, *, health: StateHealth | None = None) -> None:
        node = self.nodes[node_id]
        assert node.raft_node is None
        disk = node.disk
        disk.lose_unflushed()
        disk.start_counter += 1
        node.incarnation += 1
        newest = max(disk.snapshots, key=lambda each: each.log_order, default=None)
        if newest is not None and newest.offset > disk.end_offset:
            disk.install(newest)
        node.part = None
        node.remark()
        uninitialized = disk.election is None and not disk.end_offset
        if health is None:
            amnesia = ("remembered by the sidecar",) if disk.health == "amnesia" else ()
            health = StateHealth(amnesia=amnesia, uninitialized=uninitialized or disk.health == "blank")
        epochs: dict[int, int] = {}
        for batch in map(BatchView, disk.batches):
            epochs.setdefault(batch.epoch, max(batch.base_offset, disk.start.offset))
        node.raft_node = RaftNode(
            me=ReplicaKey(node_id, disk.directory_id),
            cluster_id=CLUSTER_ID,
            voters=self.voter_set,
            log=OpenedLog(
                start_offset=disk.start.offset,
                end_offset=disk.end_offset,
                epochs=tuple(EpochEntry(e, o) for e, o in epochs.items()),
                generation=disk.generation,
                tail=tuple(disk.batches) if self.tail_bytes > 10_000 else (),
                snapshots=tuple(sorted(disk.snapshots, key=lambda each: each.log_order)),
                high_watermark=-1 if newest is None else newest.offset,
            ),
            election=disk.election or Election(),
            timing=self.timing,
            random_source=self.random_source_of(node_id),
            health=health,
            known_peers=tuple(disk.peers.values()),
            advertised=Endpoint(f"host{node_id}", 9000 + node_id),
            tail_bytes=self.tail_bytes,
            uncommitted_bytes_max=self.uncommitted_bytes_max,
            snapshot_chunk_bytes=self.chunk_bytes,
            bootstrap=[Endpoint("host1", 9001)] if self.bootstrap_observers else (),
        )
        node.alarms.clear()
        node.commits.clear()
        node.announced.clear()
        node.ready_to_stop = False
        self.note(node_id, "started", {})
        self.carry_out(node, node.raft_node.start(self.now(node)))
        self.schedule_poll(node)
        if newest is not None:
            self.load(node, newest)

    def identity(self, node_id: NodeId) -> PeerIdentity:
        node = self.nodes[node_id]
        start_id = node.incarnation.to_bytes(16, "big")
        return PeerIdentity(node_id, node.disk.directory_id, node.disk.start_counter, start_id)

    def crash(self, node_id: NodeId, *, silently: bool = False) -> None:
        """Kill -9 with loss of the page cache; `silently` as if the cable was cut at the same moment."""
        node = self.nodes[node_id]
        node.raft_node = None
        node.handles.clear()
        node.held_flushes.clear()
        node.disk.lose_unflushed()
        node.remark()
        self.note(node_id, "crashed", {})
        self.views[node_id].state = None
        for pair in [pair for pair in self.connections if node_id in pair]:
            self.close(pair, by=node_id, silently=silently)
        self.look(node)

    def restart(self, node_id: NodeId) -> None:
        if self.nodes[node_id].is_up:
            self.crash(node_id)
        self.start(node_id)

    def wipe(self, node_id: NodeId) -> None:
        """Replace the disk of a node that is down by an empty, newly formatted one."""
        node = self.nodes[node_id]
        assert not node.is_up
        self.auditor.forget(self.view(node))
        directory = bytearray(node.disk.directory_id)
        directory[0] += 1
        node.disk = Disk(node_id)
        node.disk.directory_id = bytes(directory)
        node.remark()
        self.look(node)

    def now(self, node: Node) -> Now:
        return Now(self.now_ms, WALL_MS + self.now_ms + node.wall_skew_ms)

    # --- events -----------------------------------------------------------------------------------------

    def at(self, delay_ms: int, action: Callable[[], None]) -> None:
        heapq.heappush(self.queue, (self.now_ms + delay_ms, next(self.ages), action))

    def feed(self, node_id: NodeId, event: ev.Event, incarnation: int | None = None) -> None:
        node = self.nodes[node_id]
        if node.raft_node is None or incarnation not in (None, node.incarnation):
            return
        if node.frozen_until_ms > self.now_ms:
            # To this process only: node 1 freezes while it flushes, is killed and wiped, and starts again
            # before it would have heard of the flush.
            told = node.incarnation
            self.at(node.frozen_until_ms - self.now_ms, lambda: self.feed(node_id, event, told))
            return
        self.take_in(node, event)
        self.poll(node)

    def take_in(self, node: Node, event: ev.Event) -> None:
        assert node.raft_node is not None
        self.record(trace(self.now_ms, node.id, IN, event))
        self.auditor.on_event(self.view(node), event, self.now(node).mono_ms)
        self.carry_out(node, node.raft_node.handle(event, self.now(node)))

    def poll(self, node: Node) -> None:
        if node.raft_node is None:
            return
        if node.frozen_until_ms > self.now_ms:
            self.at(node.frozen_until_ms - self.now_ms, lambda: self.poll(node))
            return
        effects = node.raft_node.poll(self.now(node))
        self.auditor.on_polled(self.view(node), self.now(node).mono_ms, node.raft_node.wake_at_ms)
        self.carry_out(node, effects)
        self.schedule_poll(node)

    def schedule_poll(self, node: Node) -> None:
        if node.raft_node is None:
            return
        at_ms = max(node.raft_node.wake_at_ms, self.now_ms)
        if at_ms >= NEVER_MS or node.poll_scheduled_at == at_ms:
            return
        node.poll_scheduled_at = at_ms
        incarnation = node.incarnation

        def due() -> None:
            if (
                node.incarnation == incarnation
                and node.raft_node is not None
                and node.poll_scheduled_at == at_ms
            ):
                node.poll_scheduled_at = -1
                self.poll(node)

        self.at(at_ms - self.now_ms, due)

    def run(self, duration_ms: int) -> None:
        until = self.now_ms + duration_ms
        while self.queue and self.queue[0][0] <= until:
            self.step()
        self.now_ms = until

    def step(self) -> None:
        self.now_ms, _, action = heapq.heappop(self.queue)
        action()

    def run_until(self, condition: Callable[[], bool], limit_ms: int = 60_000) -> int:
        began, until = self.now_ms, self.now_ms + limit_ms
        while not condition():
            if not self.queue or self.queue[0][0] > until:
                raise AssertionError(f"not within {limit_ms} ms:\n{self.describe()}")
            self.step()
        return self.now_ms - began

    # --- effects ----------------------------------------------------------------------------------------

    def carry_out(self, node: Node, effects: Sequence[fx.Effect]) -> None:
        self.auditor.on_effects(self.view(node), effects)
        for effect in effects:
            self.record(trace(self.now_ms, node.id, OUT, effect))
            self.auditor.on_effect(self.view(node), effect, self.views)
            self.carry_out_one(node, effect)
            if node.raft_node is None:
                break
        self.look(node)

    def carry_out_one(self, node: Node, effect: fx.Effect) -> None:
        disk, incarnation = node.disk, node.incarnation
        match effect:
            case fx.PersistElection(election=election):
                disk.election = election
            case fx.RememberPeer(peer=peer):
                disk.peers[peer.node_id] = peer
            case fx.RememberStateHealth(health=health):
                disk.health = health
            case fx.Truncate(end_offset=end_offset, generation=generation):
                disk.generation = generation
                keep = sum(BatchView(batch).end_offset <= end_offset for batch in disk.batches)
                del disk.batches[keep:]
                disk.durable_count = min(disk.durable_count, keep)
                assert disk.end_offset == end_offset
                node.remark(keep)
            case fx.Append(batches=batches, base_offset=base_offset, end_offset=end_offset):
                assert disk.end_offset == base_offset
                known = len(disk.batches)
                disk.batches.extend(batches)
                assert disk.end_offset == end_offset
                node.remark(known)
            case fx.InstallSnapshot(id=snapshot_id, generation=generation):
                disk.generation = generation
                disk.install(snapshot_id)
                node.remark()
            case fx.CutLog(start=start):
                disk.cut(start)
                node.remark()
            case fx.ReadSnapshot():
                self.read_snapshot(node, effect)
            case fx.WriteSnapshot():
                self.write_snapshot(node, effect)
            case fx.DropSnapshot():
                node.part = None
            case fx.LoadSnapshot(id=snapshot_id):
                self.load(node, snapshot_id)
            case fx.Flush(generation=generation):
                self.flush(node, generation)
            case fx.ColdRead(token=token, offset=offset):
                self.cold_read(node, token, offset)
            case fx.Send():
                self.send(node, effect)
            case fx.Reply():
                self.reply(node, effect)
            case fx.RefusePeer(connection=connection):
                for pair, (out, into, _) in list(self.connections.items()):
                    if connection in (out, into):
                        self.close(pair, by=node.id)
            case fx.Commit(high_watermark=high_watermark):
                node.commits.append(high_watermark)
                if node.applies:
                    self.at(0, lambda: self.feed(node.id, ev.Applied(high_watermark), incarnation))
            case fx.LeaderChanged(epoch=epoch, leader_id=leader_id):
                node.announced.append((epoch, leader_id))
            case fx.AppendDone() | fx.ReadDone() | fx.ResignDone():
                assert effect.token not in node.outcomes
                node.outcomes[effect.token] = effect
                node.fresh.append(effect)
            case fx.Alarmed(name=event, text=text):
                node.alarms[event] = text
            case fx.AlarmCleared(name=event):
                node.alarms.pop(event, None)
            case fx.ShutdownReady():
                node.ready_to_stop = True

    # --- snapshots --------------------------------------------------------------------------------------

    def take_snapshot(self, node_id: NodeId, variant: bytes = b"") -> OffsetAndEpoch:
        """A node writes a snapshot of all that it knows to be committed. Without a variant, two nodes write
        the same bytes at the same place.
        """
        node = self.nodes[node_id]
        mark = next(m for m in reversed(node.marks) if m.end_offset <= self.raft_node(node_id).high_watermark)
        snapshot_id = OffsetAndEpoch(mark.end_offset, mark.epoch)
        marks = tuple(m for m in node.marks if m.end_offset <= mark.end_offset)
        values = tuple(self.values(node_id))
        data = (variant + b"\x00".join(values)) * 40 + b"%d" % mark.digest
        snapshot = node.disk.snapshots[snapshot_id] = Snapshot(data, marks, values)
        self.taken.setdefault(snapshot_id, {})[data] = snapshot
        self.feed(node_id, ev.SnapshotTaken(snapshot_id))
        return snapshot_id

    def cut_log(self, node_id: NodeId, start: OffsetAndEpoch) -> None:
        """The cleaner of a node asks to cut its log there."""
        self.feed(node_id, ev.CutRequested(start))

    def load(self, node: Node, snapshot_id: OffsetAndEpoch) -> None:
        node.loaded.append(snapshot_id)
        if node.applies:
            incarnation = node.incarnation
            self.at(0, lambda: self.feed(node.id, ev.Applied(snapshot_id.offset), incarnation))

    def read_snapshot(self, node: Node, read: fx.ReadSnapshot) -> None:
        incarnation = node.incarnation
        snapshot = node.disk.snapshots.get(read.id)
        found = ev.SnapshotRead(read.token, b"", -1)
        if snapshot is not None:
            data, prefix = snapshot.data, snapshot.data[: read.position]
            if read.prefix_checksum in (-1, crc32c.crc32c(prefix)):
                piece = data[read.position : read.position + read.max_bytes]
                found = ev.SnapshotRead(read.token, piece, len(data))
        self.at(1, lambda: self.feed(node.id, found, incarnation))

    def write_snapshot(self, node: Node, write: fx.WriteSnapshot) -> None:
        incarnation, end = node.incarnation, write.position + len(write.data)
        before = node.part[1] if write.position and node.part is not None else b""
        assert len(before) == write.position
        node.part = (write.id, before + write.data)
        received = ev.SnapshotReceived(write.id, end)
        if not node.writes_snapshots:
            node.part = None
            received = ev.SnapshotReceived(write.id, end, problem="no space left on device")
        elif end == write.size_bytes:
            whole = self.taken.get(write.id, {}).get(node.part[1])
            node.part = None
            if whole is None:
                received = ev.SnapshotReceived(write.id, end, problem="it is no snapshot")
            else:
                node.disk.snapshots[write.id] = whole
                received = ev.SnapshotReceived(write.id, end, is_whole=True)
        self.at(1, lambda: self.feed(node.id, received, incarnation))

    def cold_read(self, node: Node, token: int, offset: Offset) -> None:
        """As the store does it: what is bad is told, and nothing of it is given."""
        disk, incarnation = node.disk, node.incarnation
        wanted = [b for b in disk.batches if BatchView(b).end_offset > offset]
        bases = [BatchView(batch).base_offset for batch in wanted]
        sound = next((n for n, base in enumerate(bases) if base in disk.rotten), len(wanted))
        if wanted and not sound:
            damaged = ev.LogDamaged(disk.generation, f"batch {bases[0]} is rotten")
            self.at(1, lambda: self.feed(node.id, damaged, incarnation))
        read = ev.BatchesRead(token, disk.generation, b"".join(wanted[:sound]))
        self.at(1, lambda: self.feed(node.id, read, incarnation))

    def flush(self, node: Node, generation: int) -> None:
        count_, end_offset, incarnation = len(node.disk.batches), node.disk.end_offset, node.incarnation
        count_ += node.disk.cut_count

        def done() -> None:
            if node.incarnation != incarnation or node.raft_node is None:
                return
            if node.disk.generation == generation:
                node.disk.durable_count = max(node.disk.durable_count, count_ - node.disk.cut_count)
            self.feed(node.id, ev.LogFlushed(generation, end_offset), incarnation)

        if node.id in self.holding_flushes:
            node.held_flushes.append(done)
        else:
            self.at(self.flush_ms(), done)

    def hold_flushes(self, *node_ids: NodeId) -> None:
        self.holding_flushes |= set(node_ids)

    def release_flushes(self, node_id: NodeId) -> None:
        self.holding_flushes.discard(node_id)
        held, self.nodes[node_id].held_flushes = self.nodes[node_id].held_flushes, []
        for done in held:
            done()

    # --- the network ------------------------------------------------------------------------------------

    def is_cut(self, a: NodeId, b: NodeId) -> bool:
        return (a, b) in self.cut

    def isolate(self, *node_ids: NodeId) -> None:
        """Messages between these and the others vanish; no connection closes."""
        for a in node_ids:
            for b in self.nodes:
                if b not in node_ids:
                    self.cut |= {(a, b), (b, a)}
        self.note(node_ids[0], "isolated", {"nodes": ",".join(map(str, node_ids))})

    def heal(self) -> None:
        self.cut.clear()
        self.note(0, "healed", {})

    def route(self, to: NodeId) -> NodeId:
        return 1 if to == -2 else to

    def connect(self, a: NodeId, b: NodeId) -> None:
        """The outbound connection of `a` to `b`, with both handshakes done."""
        out, into = next(self.connection_ids), next(self.connection_ids)
        self.connections[a, b] = (out, into, self.nodes[b].incarnation)
        if a in self.voter_set and b in self.voter_set:
            self.confirm(b, into, self.identity(a))
        else:
            self.feed_plain(b, ev.PeerIdentified(into, self.identity(a), outbound=False))
        if (a, b) in self.connections:
            self.feed_plain(a, ev.PeerIdentified(out, self.identity(b), outbound=True))

    def confirm(self, node_id: NodeId, connection: int, peer: PeerIdentity) -> None:
        """Whoever is on that connection shows the nonce that it was told at the peer's own address (D-37)."""
        brought, nonce = next(self.connection_ids), next(self.tokens).to_bytes(16, "big")
        for event in (
            ev.NonceGiven(brought, peer.node_id, nonce),
            ev.PeerClaimed(connection, peer.node_id, peer.directory_id, nonce),
            ev.NonceShown(connection, nonce, peer.start_counter, peer.start_id),
        ):
            self.feed_plain(node_id, event)

    def feed_plain(self, node_id: NodeId, event: ev.Event) -> None:
        node = self.nodes[node_id]
        if node.raft_node is not None:
            self.take_in(node, event)

    def close(self, pair: tuple[NodeId, NodeId], *, by: NodeId, silently: bool = False) -> None:
        entry = self.connections.pop(pair, None)
        if entry is None:
            return
        a, b = pair
        out, into, _ = entry
        other, connection = (b, into) if by == a else (a, out)
        closed = ev.ConnectionClosed(connection, by)
        incarnation = self.nodes[other].incarnation
        if silently or self.is_cut(by, other):
            self.at(KEEPALIVE_MS, lambda: self.feed(other, closed, incarnation))
        else:
            self.later(pair, lambda: self.feed(other, closed, incarnation))

    def later(self, pair: tuple[NodeId, NodeId], action: Callable[[], None]) -> None:
        """Deliver in order on each connection."""
        due = max(self.now_ms + self.latency_ms(), self.fifo.get(pair, 0))
        self.fifo[pair] = due
        self.at(due - self.now_ms, action)

    def send(self, node: Node, effect: fx.Send) -> None:
        node.last_send = effect
        sender, to, incarnation = node.id, self.route(effect.to), node.incarnation
        failed = ev.RequestFailed(effect.to, effect.correlation_id, "no connection")
        if to not in self.nodes or not self.nodes[to].is_up:
            if not self.is_cut(sender, to):
                self.at(1, lambda: self.feed(sender, failed, incarnation))
            return
        if self.is_cut(sender, to):
            return

        was_connected = (sender, to) in self.connections
        identity = self.identity(sender)

        def arrive() -> None:
            target = self.nodes[to]
            is_alive = node.raft_node is not None and node.incarnation == incarnation
            if self.is_cut(sender, to) or not (is_alive or was_connected):
                return  # what was written to a connection may arrive after its sender died
            if target.raft_node is None:
                self.feed(sender, failed, incarnation)
                return
            if is_alive and (sender, to) not in self.connections:
                self.connect(sender, to)
                if (sender, to) not in self.connections:
                    self.at(1, lambda: self.feed(sender, failed, incarnation))
                    return
            handle = next(self.tokens)
            target.handles[handle] = (effect.to, sender, effect.correlation_id, incarnation)
            version = effect.request.MAX_VERSION
            self.feed(to, ev.RequestReceived(handle, effect.request, version, identity))

        self.later((sender, to), arrive)

    def reply(self, node: Node, effect: fx.Reply) -> None:
        if effect.handle not in node.handles:
            node.outcomes[effect.handle] = effect
            return
        asked_as, asker, correlation_id, incarnation = node.handles.pop(effect.handle)
        mine = node.incarnation
        response = ev.ResponseReceived(asked_as, correlation_id, effect.response, b"".join(effect.records))

        def arrive() -> None:
            if not self.is_cut(node.id, asker) and (mine == node.incarnation):
                self.feed(asker, response, incarnation)

        self.later((asker, node.id), arrive)

    # --- clients ----------------------------------------------------------------------------------------

    def append(self, node_id: NodeId, *values: bytes, deadline_ms: int = 5_000) -> int:
        node = self.nodes[node_id]
        assert node.raft_node is not None
        token = 1_000_000 + next(self.tokens)
        records = values or (b"value %d" % token,)
        request = ev.AppendRequested(token, node.raft_node.epoch, records, self.now_ms + deadline_ms)
        self.feed(node_id, request)
        return token

    def read(self, node_id: NodeId, deadline_ms: int = 5_000) -> int:
        return self.read_as(node_id, 1_000_000 + next(self.tokens), deadline_ms)

    def read_as(self, node_id: NodeId, token: int, deadline_ms: int) -> int:
        self.feed(node_id, ev.ReadRequested(token, self.now_ms + deadline_ms))
        return token

    def resign(self, node_id: NodeId, to: NodeId = -1, deadline_ms: int = 1_000) -> int:
        token = 1_000_000 + next(self.tokens)
        self.feed(node_id, ev.ResignRequested(token, to, self.now_ms + deadline_ms))
        return token

    def outcome(self, node_id: NodeId, token: int) -> ErrorCode | None:
        done = self.nodes[node_id].outcomes.get(token)
        return None if done is None else done.error

    # --- looking ----------------------------------------------------------------------------------------

    def view(self, node: Node) -> NodeView:
        view = self.views[node.id]
        view.durable_election = node.disk.election or Election()
        view.log = node.marks
        view.durable_end_offset = node.disk.durable_end()
        if node.raft_node is not None:
            view.state = node.raft_node.state
            view.is_whole = node.raft_node.is_whole
            view.high_watermark = node.raft_node.high_watermark
        else:
            view.state = None
        return view

    def look(self, node: Node) -> None:
        self.view(node)
        self.auditor.on_state(self.views, self.views[node.id])

    def raft_node(self, node_id: NodeId) -> RaftNode:
        raft_node = self.nodes[node_id].raft_node
        assert raft_node is not None
        return raft_node

    @property
    def leader(self) -> NodeId | None:
        """The leader of the highest epoch that any node that is up is in, if it leads."""
        up = [node for node in self.nodes.values() if node.raft_node is not None]
        leaders = [n for n in up if isinstance(n.raft_node.state, Leader)]
        best = max(leaders, key=lambda n: n.raft_node.epoch, default=None)
        return best.id if best else None

    def has_leader(self) -> bool:
        """A leader that has committed a record of its own epoch."""
        leader = self.leader
        if leader is None:
            return False
        state = self.raft_node(leader).state
        return isinstance(state, Leader) and self.raft_node(leader).high_watermark > state.epoch_start_offset

    def elect(self) -> NodeId:
        self.run_until(self.has_leader)
        leader = self.leader
        assert leader is not None
        return leader

    def has_converged(self) -> bool:
        up = [node.raft_node for node in self.nodes.values() if node.raft_node is not None]
        ends = {(m.log.end_offset, m.log.flushed_offset, m.high_watermark, m.epoch, m.leader_id) for m in up}
        return (
            len(ends) == 1
            and self.has_leader()
            and self.raft_node(self.leader).log.end_offset == up[0].high_watermark
        )

    def values(self, node_id: NodeId) -> list[bytes]:
        """The committed values that a node knows."""
        high_watermark, disk = self.raft_node(node_id).high_watermark, self.nodes[node_id].disk
        out = list(disk.base.values)
        for batch in scan(b"".join(disk.batches)):
            if batch.end_offset <= high_watermark and not batch.is_control:
                out += batch.values()
        return out

    def record(self, line: Line) -> None:
        if self.recording and line.name not in HIDDEN:
            self.lines.append(line)

    def note(self, node_id: NodeId, name: str, fields: dict[str, str]) -> None:
        self.record(Line(self.now_ms, node_id, WORLD, name, fields))

    def take_trace(self) -> str:
        lines, self.lines = self.lines, []
        return "\n".join(map(str, lines))

    def describe(self) -> str:
        return "\n".join(
            f"{node.id}: {m.state} {m.log.position} hw={m.high_watermark}"
            if (m := node.raft_node)
            else f"{node.id}: down"
            for node in self.nodes.values()
        )
