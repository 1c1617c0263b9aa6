"""A whole cluster from one seed: everything that happens in it, in one order that a seed repeats.

`World(seed, options).run()` draws a shape (how many nodes, how fast, how broken), starts the nodes, lets
clients work and faults happen, and judges: the auditor after every event of a node, the clients' history and
whether the cluster comes back at the end. It returns, or raises `Violation`.

Time is in microseconds (`now_us`), and only `Scheduler` moves it. Chance comes from `derive(name)`, one
source for each part, so that what one part draws does not change what another does; while a fault is applied,
`random` is that fault's own. The trace hash is fed with everything that happened and when; two runs with
equal hashes did the same.

Not here: the parts themselves (`node`, `network`, `clients`), faults (`faults`) and the last judgement
(`verdict`).
"""

import gc
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from hashlib import blake2b
from random import Random
from struct import Struct
from traceback import format_exception
from typing import Any

import msgspec

from kraftd.audit.invariants import Auditor, NodeView, Violation
from kraftd.audit.linearizability import Operation
from kraftd.runtime.config import QuorumTiming
from kraftd.types import Epoch, NodeId
from tests.sim.brokers import BrokerCluster
from tests.sim.clients import Client
from tests.sim.disk_bound import DiskJudge
from tests.sim.fault_brokers import BROKER_FAULTS
from tests.sim.fault_budget import FaultBudget
from tests.sim.fault_schedule import Entry, FaultSchedule
from tests.sim.fault_strangers import Recorder
from tests.sim.filesystem import SimFileSystem
from tests.sim.ledger import Ledger
from tests.sim.loaders import Loader
from tests.sim.loop import Clock, Scheduler, SimLoop
from tests.sim.network import End, Network
from tests.sim.node import SimNode
from tests.sim.snapshots import SnapshotJudge
from tests.sim.stale_readers import StaleReader
from tests.sim.verdict import judge

_HAPPENED = Struct(">qHI")
_WHAT = {"message": 1, "completion": 2, "call": 3, "timer": 4, "fault": 5}
"""What counts as an event."""

_HASHED_TOGETHER = 100
"""How many events."""

PACE = (1.0, 1.0, 1.0, 1.4, 2.0, 2.7, 3.6, 4.5)
"""Writes a second that clients try, by the number of nodes: the more there are, the less time a seed has."""

VOTERS = (1, 2, 3, 3, 3, 3, 3, 3, 4, 6, 5, 5, 5, 5, 5, 5, 5, 7, 7, 7)
LONG_PART = 0.01
SHORT_PART = 0.06

ENOUGH_WRITES = 100
"""A seed with fewer acknowledged writes does not count, nor one without a leader change."""
ENOUGH_TOPICS = 5
"""With brokers: nor one with fewer topics made, grown and deleted."""
ROOM_BYTES = 64_000
"""With brokers: what the log takes at once, at least. A topic alone is more than what little there may be,
and a healthy cluster is to refuse nobody.
"""
THOUGHTFUL = 3
"""How much longer clients think where there are brokers, whose own messages are most of a seed's events."""


class Shape(msgspec.Struct):
    """What a seed draws before anything happens."""

    events_max: int
    """How long its troubled part is at most: some clusters are hurt as soon as they begin."""
    voters: int
    observers: int
    first_id: NodeId
    clients: int
    stale_readers: int
    """How many clients do nothing but look for old responses."""
    bootstrap: bool
    """Whether observers know bootstrap servers only."""
    timing: QuorumTiming
    latency_us: tuple[int, int]
    jitter_us: int
    tail_part: float
    cut_part: float
    turn_us: int
    fsync_us: int
    apply_us: int
    """What it takes to apply a record."""
    is_long: bool
    """Whether the log gets tens of thousands of records."""
    segment_bytes: int
    snapshot_bytes: int
    """What the log takes between two snapshots."""
    snapshot_interval_ms: int
    snapshot_chunk_bytes: int
    """What one response brings of a snapshot."""
    retention_bytes: int
    """What log and snapshots may hold together."""
    retention_ms: int
    """How old a snapshot may become that is not the newest; negative for any age."""
    tail_bytes: int
    """How much of its log a node keeps at hand in memory; what is older is read from the disk."""
    fetch_bytes: int
    """How much one fetch is given."""
    idle_interval_ms: int
    controller_timeout_ms: int
    accumulator_bytes: int
    think_us: int
    quiet_every_us: int
    patience_us: int
    write_part: float
    resign_part: float
    repeat_part: float
    keys: int
    value_bytes: int


class Options(msgspec.Struct, frozen=True):
    """What a run is asked for, beside its seed."""

    events: int = 9_000
    """How many events the troubled part has. The judgement adds its own, together some 10,500."""
    until_us: int | None = None
    """When the troubled part ends, however many events it has by then."""
    faults: bool = True
    judged: bool = True
    """Whether the cluster is healed and judged at the end."""
    keep: frozenset[str] | None = None
    """Which entries of the fault schedule are carried out; None for all."""
    changes: tuple[tuple[str, Any], ...] = ()
    """Fields of the shape that are set, not drawn."""
    brokers: bool = False
    """Whether there are brokers, and clients of theirs."""
    broker_changes: tuple[tuple[str, Any], ...] = ()
    """Fields of the brokers' shape that are set, not drawn."""


BROKERS = Options(events=16_000, brokers=True)
"""A seed with brokers."""


class World(Scheduler):
    """One cluster, its clients and its faults."""

    def __init__(
        self,
        seed: int,
        options: Options | None = None,
        *,
        sink: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__()
        self.seed = seed
        self.options = options or Options()
        self.sink = sink
        self.random = self.derive("world")
        self.shape = shape = draw_shape(self.derive("shape"), self.derive("snapshots"))
        if self.options.brokers:
            shape.think_us *= THOUGHTFUL
            shape.is_long = False
            shape.accumulator_bytes = max(shape.accumulator_bytes, ROOM_BYTES)
        for field, value in self.options.changes:
            setattr(shape, field, value)
        self.events = 0
        self.acknowledged = 0
        self.newest_key = ""
        """Of the write that was acknowledged last."""
        self.troubled_us: int | None = None
        """When the troubled part was over."""
        self.is_over = False
        """Whether clients begin nothing new."""
        self.is_calm = False
        """Whether faults happen no more."""
        self.is_undisturbed = False
        """Whether nobody asks for more than a healthy cluster does at once, or for another leader."""
        self.refused: list[tuple[str, int, str | None]] = []
        """What clients were refused meanwhile: who, the error's code and its text."""
        self.statistics: Counter[str] = Counter()
        self.covered: defaultdict[tuple[type, type], int] = defaultdict(int)
        self.history: list[Operation] = []
        self.schedule: list[Entry] = []
        """The faults so far."""
        self.violation: Violation | None = None
        self.auditor = Auditor()
        self.fault_budget = FaultBudget(self)
        self.recorder = Recorder(self)
        self.backups: dict[NodeId, list[SimFileSystem]] = {}
        """Copies of directories that somebody made."""
        self.on_candidate: Callable[[SimNode], None] | None = None
        """Called once, with whoever campaigns next."""
        self.leaders: list[tuple[Epoch, NodeId]] = []
        """Who led, in the order of epochs."""
        self._hash = blake2b(digest_size=16)
        self._unhashed: list[bytes] = []
        self.network = Network(self, self.derive("network"), self._on_message)
        self.network.base_us = shape.latency_us
        self.network.jitter_us = shape.jitter_us
        self.network.tail_part = shape.tail_part
        self.network.cut_part = shape.cut_part
        self.node_ids = list(range(shape.first_id, shape.first_id + shape.voters + shape.observers))
        self.voters = frozenset(self.node_ids[: shape.voters])
        self.ledger = Ledger()
        self.snapshots = SnapshotJudge(self.ledger)
        self.disks = DiskJudge()
        self.brokers = BrokerCluster(self)
        """None are made unless the options ask for them."""
        self.nodes: dict[NodeId, SimNode] = {}
        self.views: dict[NodeId, NodeView] = {}
        for node_id in self.node_ids:
            self.network.add_host(node_id)
            node = self.nodes[node_id] = SimNode(node_id, self, self.new_disk())
            self.views[node_id] = node.view()
            node.format()
        self.outside = SimLoop(self, Clock(self, mono_us=0, wall_ms=0), on_error=self._outside_failed)
        self.clients = [
            Client(number, self, self.derive(f"client {number}")) for number in range(1, shape.clients + 1)
        ]
        self.stale_readers = [
            StaleReader(number, self, self.derive(f"client {number}"))
            for number in range(shape.clients + 1, shape.clients + 1 + shape.stale_readers)
        ]
        number = shape.clients + shape.stale_readers + 1
        self.loader = Loader(number, self, self.derive(f"client {number}"))
        if self.options.brokers:
            self.brokers.make()

    # -- running

    def run(self) -> None:
        """Start, trouble and judge the cluster.

        Raises:
            Violation: A promise was broken; the text says which.
        """
        for node in self.nodes.values():
            self.at(self.draw_us(0, 200_000), node.start)
        for client in (*self.clients, *self.stale_readers):
            client.start()
        self.loader.start()
        if self.options.faults:
            FaultSchedule(self).start()
        if self.options.brokers:
            self.brokers.start()
            if self.options.faults:
                FaultSchedule(self, BROKER_FAULTS, "broker troubles").start()
        limit, until_us = min(self.options.events, self.shape.events_max), self.options.until_us
        while self.events < limit if until_us is None else self.next_us <= until_us:
            self.step()
            if self.violation is not None:
                raise self.violation
        self.troubled_us = self.now_us
        if self.options.judged:
            judge(self)

    def attempt(self) -> Violation | None:
        """Run; what was broken, if something was."""
        try:
            with no_collection():
                self.run()
        except Violation as violation:
            self.violation = violation
        except Exception as error:
            # A simulator that breaks has found something, too, if only in itself.
            text = "".join(format_exception(error)[-8:])
            self.violation = Violation(f"Simulator: {error!r}\n{text}")
        return self.violation

    def calm(self) -> None:
        """Nothing new goes wrong: networks, clocks and disks are as they should be, and every node runs."""
        self.is_calm = True
        self.network.heal()
        self.network.lead_back()
        for node in self.nodes.values():
            node.calm()
        self.brokers.calm()

    def close(self) -> None:
        """Every process ends, without a word."""
        for node in self.nodes.values():
            if node.loop is not None:
                node.loop.close()
        self.brokers.close()
        self.outside.close()

    def close_history(self) -> None:
        """Calls that nobody heard the end of may have happened."""
        for client in (*self.clients, *self.stale_readers):
            client.give_up()

    def run_for(self, duration_us: int) -> None:
        """Let so much time pass."""
        until_us = self.now_us + duration_us
        while self.next_us <= until_us:
            self.step()
            if self.violation is not None:
                raise self.violation
        self.now_us = until_us

    def run_until(self, condition: Callable[[], bool], limit_us: int) -> bool:
        """Let time pass until something holds; whether it did within the limit."""
        until_us = self.now_us + limit_us
        while not condition():
            if self.next_us > until_us:
                return False
            self.step()
            if self.violation is not None:
                raise self.violation
        return True

    def at(self, delay_us: int, action: Callable[[], object]) -> None:
        """Do something after so many microseconds."""
        self.at_us(self.now_us + delay_us, _call, action)

    @property
    def now_ms(self) -> int:
        """True time, which no node can see."""
        return self.now_us // 1_000

    def derive(self, name: str) -> Random:
        """A source of chance of its own for each part."""
        return Random(f"{self.seed}/{name}")

    def draw_us(self, low_us: int, high_us: int) -> int:
        """A moment from the current source of chance."""
        return low_us + int(self.random.random() * (high_us - low_us))

    def new_disk(self) -> SimFileSystem:
        """An empty disk."""
        return SimFileSystem(self.derive("disk"))

    # -- what happened

    @property
    def trace_hash(self) -> str:
        """Of everything that happened so far, and when."""
        self._hash_now()
        return self._hash.hexdigest()

    def state_hash(self) -> str:
        """Of what every node holds: logs, elections, images."""
        state = [
            (node.id, node.is_up, node.view().durable_election, [mark.digest for mark in node.marks])
            + ((node.parts.controller.image.hash(), node.parts.applier.applied_offset) if node.parts else ())
            for node in self.nodes.values()
        ]
        return blake2b(repr(state).encode(), digest_size=16).hexdigest()

    def count(self, what: str, where: int, data: bytes = b"") -> None:
        """An event: a message delivered, a completion, a call, a timer that did something, a fault."""
        self.events += 1
        self.statistics[what] += 1
        self._unhashed.append(_HAPPENED.pack(self.now_us, _WHAT[what], where) + data)
        if not self.events % _HASHED_TOGETHER:
            self._hash_now()

    def tell(self, where: int, what: str, **fields: object) -> None:
        """Something from outside, for the trace."""
        if self.sink is not None:
            shown = "".join(f" {key}={value}" for key, value in fields.items())
            self.sink(f"{self.now_ms:>6} {where:>2} ! {what}{shown}")

    def fail(self, node_id: NodeId, error: BaseException, *, taken: End | None = None) -> None:
        """A promise was broken, or a node died of a bug of its own, perhaps of what it has just taken in from
        another machine: this run ends.
        """
        if self.violation is None:
            text = str(error)
            if not isinstance(error, Violation):
                lines = "".join(format_exception(error)[-6:])
                text = f"node {node_id} died of {error!r}\n{lines}"
                if taken is not None and taken.machine == node_id and taken.other.machine not in self.nodes:
                    text = f"NoExceptionLeavesAConnection: after bytes of m{taken.other.machine} {text}"
                else:
                    text = f"NodesOnlyDieOfTheirDisks: {text}"
            self.violation = Violation(text)
            self.violation.__cause__ = error
            self.tell(node_id, "violation", text=text.splitlines()[0])

    def _hash_now(self) -> None:
        self._hash.update(b"".join(self._unhashed))
        self._unhashed.clear()

    def campaigns(self, node: SimNode) -> None:
        """A node has become a candidate."""
        on_candidate, self.on_candidate = self.on_candidate, None
        if on_candidate is not None:
            self.at(0, partial(on_candidate, node))

    def leads(self, node_id: NodeId, epoch: Epoch) -> None:
        """A node came to lead an epoch."""
        if (epoch, node_id) not in self.leaders:
            self.leaders.append((epoch, node_id))
            for stale_reader in self.stale_readers:
                self.at(0, partial(stale_reader.on_leader, node_id))
            for node in self.nodes.values():
                if node.is_leader:
                    self.at(0, partial(self.loader.read, node.id))

    @property
    def leader_changes(self) -> int:
        """How often leadership went on to a later epoch."""
        return max(0, len(self.leaders) - 1)

    @property
    def counts(self) -> bool:
        """Whether enough happened for this seed to mean something."""
        if self.options.brokers:
            return self.statistics["admin done"] >= ENOUGH_TOPICS and self.leader_changes >= 1
        return self.acknowledged >= ENOUGH_WRITES and self.leader_changes >= 1

    def _on_message(self, end: End, data: bytes) -> None:
        self.count("message", end.machine, data)
        if end.machine not in self.voters:
            self._look_for_secrets(end, data)
        self.recorder.note(end, data)

    def _look_for_secrets(self, end: End, data: bytes) -> None:
        """Which start of a voter's process this is, is told to voters only (D-37)."""
        sender = self.nodes.get(end.other.machine)
        if sender is not None and sender.directory is not None and sender.directory.start_id in data:
            text = f"StartsAreToldToVoters: node {sender.id} tells m{end.machine} which start of it this is"
            self.fail(sender.id, Violation(text))

    def _outside_failed(self, error: BaseException) -> None:
        self.fail(0, error)


@contextmanager
def no_collection() -> Iterator[None]:
    """Collect no garbage meanwhile: a world is one big cycle, and is thrown away as a whole. A collection
    while it is still held goes through all of it for nothing, a tenth of the time of a seed.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def draw_shape(random: Random, of_snapshots: Random) -> Shape:
    """A cluster like many, and now and then one like few."""
    voters = random.choice(VOTERS)
    election_ms = random.choice((300, 500, 1_000, 1_000, 2_000))
    fetch_ms = random.choice((500 if voters < 4 else 1_500, 1_000, 2_000, 2_000, 4_000))
    slow = random.random() < 0.2
    observers = random.choice((0, 0, 0, 0, 0, 1, 1, 2, 3))
    clients = random.choice((2, 3, 4, 5))
    write_part = random.choice((0.6, 0.75, 0.9) if voters < 5 else (0.4, 0.5, 0.75))
    is_long = random.random() < LONG_PART
    quiet_every_us = random.choice((0, 5_000_000, 20_000_000))
    writes_a_second = PACE[min(voters + observers, len(PACE)) - 1] * random.choice((1.0, 1.3, 2.0))
    if quiet_every_us:
        writes_a_second *= 1.6
    return Shape(
        events_max=int(10 ** random.uniform(1.5, 3)) if random.random() < SHORT_PART else 1 << 30,
        voters=voters,
        observers=observers,
        first_id=random.choice((1, 1, 1, 0, 100)),
        clients=clients,
        stale_readers=random.choice((0, 2, 2, 2)),
        bootstrap=random.random() < 0.3,
        timing=QuorumTiming(
            election_timeout_ms=election_ms,
            fetch_timeout_ms=fetch_ms,
            election_backoff_max_ms=random.choice((300, 1_000, 1_000)),
            append_linger_ms=random.choice((0, 0, 0, 5, 25)),
            request_timeout_ms=random.choice((500, 1_000, 2_000, 2_000)),
            retry_backoff_ms=20,
        ),
        latency_us=(100, random.choice((300, 2_000, 20_000, 80_000 if slow else 5_000))),
        jitter_us=random.choice((50, 500, 3_000)),
        tail_part=random.choice((0.0, 0.0, 0.01, 0.05)),
        cut_part=random.choice((0.0, 0.02, 0.1)),
        turn_us=random.choice((0, 100, 400)),
        fsync_us=random.choice((200, 1_000, 4_000, 15_000)),
        apply_us=random.choice((0, 0, 0, 20, 200, 2_000)) if not is_long else random.choice((0, 5, 20)),
        is_long=is_long,
        segment_bytes=random.choice((1 << 30, 1 << 30, 64_000, 8_000, 2_000)) if not is_long else 64_000,
        snapshot_bytes=of_snapshots.choice((2_000, 2_000, 8_000, 8_000, 64_000, 1 << 20)) << 5 * is_long,
        snapshot_interval_ms=of_snapshots.choice((0, 0, 1_000, 20_000)),
        snapshot_chunk_bytes=of_snapshots.choice((200, 1_000, 1_000, 1 << 20)) << 7 * is_long,
        retention_bytes=of_snapshots.choice((0, 10_000, 50_000, 100 << 20)) << 5 * is_long,
        retention_ms=of_snapshots.choice((-1, 604_800_000, 604_800_000, 10_000, 1_000)),
        tail_bytes=random.choice((8 << 20, 20_000, 2_000)),
        fetch_bytes=random.choice((8 << 20, 8 << 20, 8 << 20, 1_000, 300)) if not is_long else 64_000,
        idle_interval_ms=random.choice((500, 2_000, 5_000, 5_000, 5_000)),
        controller_timeout_ms=random.choice((1_000, 3_000, 10_000)),
        accumulator_bytes=random.choice((32 << 20, 32 << 20, 2_000)),
        think_us=int(clients * write_part * 1_000_000 / writes_a_second),
        quiet_every_us=quiet_every_us,
        patience_us=random.choice((500_000, 1_000_000, 2_000_000, 5_000_000)),
        write_part=write_part,
        resign_part=random.choice((0.01, 0.02, 0.04)),
        repeat_part=random.choice((0.0, 0.2)),
        keys=random.choice((1, 3, 8)),
        value_bytes=random.choice((1, 20, 400)),
    )


def _call(action: Callable[[], object]) -> None:
    action()
