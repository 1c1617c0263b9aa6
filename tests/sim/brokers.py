"""The brokers of a simulated cluster, and what holds of them: at every record, in every answer, at the end.

A `BrokerCluster` draws how many brokers a seed has and of what kind, ticks their replication, and is told
what happens: each committed batch the first time that a controller applies it (`on_batch`), each image that
a broker publishes (`compare`), each state of a partition that a leader is told (`told`). At the end, once
everything was healed, every live broker must be unfenced and every partition that somebody can lead must be
led, in bounded time (`judge`).

The rules for the records themselves are in `kraftd.audit.placements`.
Not here: what one broker does (`broker_process`, `broker_replicas`), and what goes wrong (`fault_brokers`).
"""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

import msgspec

from kraftd.audit.invariant import Violation
from kraftd.audit.placements import Partition, PartitionKey, PlacementAuditor
from kraftd.controller import plans
from kraftd.controller.brokers import registration, staged_plan
from kraftd.controller.partitions import electing, in_sync
from kraftd.controller.plans import SLICE_RECORDS
from kraftd.metadata.image import MetadataImage
from kraftd.metadata.parts.topics import TOPICS
from kraftd.records.committed import CommittedBatch
from kraftd.records.frame import AnyRecord, decode_record
from kraftd.records.messages import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from kraftd.types import NodeId, Offset, Uuid
from tests.sim import far_brokers
from tests.sim.acl_keeper import AclKeeper
from tests.sim.admin_clients import AdminClient
from tests.sim.broker_data import Acknowledged
from tests.sim.broker_log import Folds
from tests.sim.broker_process import SimBroker
from tests.sim.broker_replicas import State
from tests.sim.deletion_judge import DeletionJudge
from tests.sim.electors import Elector
from tests.sim.mover import Mover
from tests.sim.partition_judge import LOOK_US, PartitionJudge
from tests.sim.token_clients import LOOK_MS, STAMPED_MS, TokenClient, TokenJudge

if TYPE_CHECKING:
    from tests.sim.node import SimNode
    from tests.sim.world import World

FIRST_BROKER = 2_001
"""Brokers' ids, which are their machines' numbers too: no node has one of these."""
TICK_US = 400_000
"""How often brokers replicate."""
S = 1_000_000
AUTHORIZED_PART = 0.35
"""How many seeds have an authorizer."""
GOES_AND_COMES = "a broker fenced and unfenced again"


class BrokerShape(msgspec.Struct):
    """What a seed draws of its brokers."""

    brokers: int
    directories: int
    racks: int
    """How many; 0 if brokers do not say where they stand."""
    admins: int
    think_us: int
    """Of an admin client."""
    session_ms: int
    heartbeat_ms: int
    old_part: float
    """How many brokers name no broker epochs in AlterPartition."""
    unchecked_part: float
    """How many propose whoever fetches."""
    slice_records: int
    """How many records the controller works off at a time."""
    rebalance_s: int
    """How often preferred leaders are elected; 0 for never."""
    unclean_ms: int
    """How often leaders are looked for where there is none."""
    movers: int
    """Operators who move replicas."""
    authorized: bool
    """Whether an authorizer says what admin clients may do."""
    token_clients: int
    """Who use delegation tokens; with none of them the controllers have no secret."""


def draw_broker_shape(random: Random) -> BrokerShape:
    """Few brokers mostly, and sessions shorter than Kafka's, so that more of them end in a seed."""
    session_ms = random.choice((2_000, 3_000, 3_000, 6_000, 9_000))
    return BrokerShape(
        brokers=random.choice((2, 3, 3, 3, 4, 5)),
        directories=random.choice((1, 2, 2)),
        racks=random.choice((0, 2, 3)),
        admins=random.choice((1, 2)),
        think_us=random.choice((1, 2, 4)) * S,
        session_ms=session_ms,
        heartbeat_ms=session_ms // 4,
        old_part=random.choice((0.0, 0.0, 0.5)),
        unchecked_part=random.choice((0.0, 0.5, 1.0)),
        slice_records=random.choice((3, 3, 5, 10, SLICE_RECORDS)),
        rebalance_s=random.choice((0, 1, 2, 5)),
        unclean_ms=random.choice((1_000, 3_000, 20_000)),
        movers=random.choice((0, 1)),
        authorized=random.random() < AUTHORIZED_PART,
        token_clients=random.choice((0, 0, 1, 2)),
    )


def _set_slices(records: int) -> None:
    """Let the controllers work off so many records at a time, so that few partitions make many slices.

    It is a constant of the program, and so of this process: no two worlds with brokers run at once.
    """
    for module in (plans, staged_plan, registration, in_sync, electing):
        module.SLICE_RECORDS = records  # type: ignore[misc, attr-defined]


class BrokerCluster:
    """The brokers of one world, and what was told of them."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self.shape = draw_broker_shape(world.derive("broker shape"))
        for field, value in world.options.broker_changes:
            setattr(self.shape, field, value)
        self.auditor = PlacementAuditor()
        self.acknowledged = Acknowledged()
        self.partition_judge = PartitionJudge(world, self.auditor, self.acknowledged)
        self.folds = Folds()
        self.brokers: dict[NodeId, SimBroker] = {}
        self.deletion_judge = DeletionJudge(world, self.brokers)
        self.admins: list[AdminClient] = []
        self.acl_keeper: AclKeeper | None = None
        self.movers: list[Mover] = []
        self.token_judge: TokenJudge | None = None
        self.token_clients: list[TokenClient] = []
        self.fencings: Counter[NodeId] = Counter()
        """How often each broker was fenced."""
        self.unregistered: set[tuple[NodeId, int]] = set()
        """Brokers that an operator unregistered, with the epochs that ended by it."""
        self._next_offset: Offset = 0
        self._hashes: dict[Offset, str] = {0: ""}
        """Of the controllers' image, by the offset up to which it holds everything."""
        self._states: dict[tuple[PartitionKey, int], State] = {}
        """What each partition was in each of its epochs, by the committed records."""
        self._on_busy: tuple[Callable[[SimNode], None], int, Random] | None = None
        """What happens to a leader in the middle of a plan, until when, and by which chance."""
        self._told_early: dict[tuple[PartitionKey, int], tuple[State, Offset]] = {}
        """What leaders were told before any controller had applied it, and what was committed by then."""
        self._newest: dict[NodeId, tuple[int, int]] = {}
        """The highest epoch that each broker's processes were given, and which process that was."""

    def make(self) -> None:
        """Add the machines; the world knows its cluster by now."""
        world = self._world
        _set_slices(self.shape.slice_records)
        for broker_id in range(FIRST_BROKER, FIRST_BROKER + self.shape.brokers):
            self.brokers[broker_id] = SimBroker(broker_id, world)
        self.admins = [
            AdminClient(number, world, world.derive(f"admin {number}"))
            for number in range(1, self.shape.admins + 1)
        ]
        if self.shape.authorized and self.admins:
            self.acl_keeper = AclKeeper(world, world.derive("acl keeper"))
        if self.shape.token_clients:
            judge = self.token_judge = TokenJudge()
            if world.sink is not None:
                world.sink = judge.reader_of(world.sink)
            self.token_clients = [
                TokenClient(number, world, judge, world.derive(f"token client {number}"))
                for number in range(1, self.shape.token_clients + 1)
            ]
        self.movers = [Mover(world, world.derive(f"mover {number}")) for number in range(self.shape.movers)]

    def start(self) -> None:
        """Start the brokers, in any order, and their clients."""
        world = self._world
        for broker in self.brokers.values():
            world.at(world.draw_us(0, 4 * S), broker.start)
            world.at(world.draw_us(0, TICK_US), lambda broker=broker: self._tick(broker))
        for admin in self.admins:
            admin.start()
        if self.admins:
            Elector(world, world.derive("elector")).start()
        for mover in self.movers:
            mover.start()
        if self.acl_keeper is not None:
            self.acl_keeper.start()
        for client in self.token_clients:
            client.start()
        world.at(LOOK_US, self._look)

    def _look(self) -> None:
        self.partition_judge.look()
        self.deletion_judge.look()
        self._world.at(LOOK_US, self._look)

    def _tick(self, broker: SimBroker) -> None:
        broker.tick()
        self._world.at(TICK_US, lambda: self._tick(broker))

    def calm(self) -> None:
        """Nothing new goes wrong."""
        for broker in self.brokers.values():
            broker.calm()

    def close(self) -> None:
        """Every process ends, without a word."""
        for broker in self.brokers.values():
            if broker.loop is not None:
                broker.loop.close()
        if self.brokers:
            _set_slices(SLICE_RECORDS)

    # -- in the middle of a plan

    def when_busy(self, action: "Callable[[SimNode], None]", within_us: int) -> None:
        """Once a slice of a plan is committed and others are left, do something to whoever leads; not if
        that is not soon. The chance of it is its own: what else happens changes nothing about it.
        """
        self._on_busy = action, self._world.now_us + within_us, Random(self._world.random.random())

    def _notice_plan(self, node: "SimNode") -> None:
        assert self._on_busy is not None
        action, until_us, own = self._on_busy
        world = self._world
        if world.now_us > until_us or world.is_calm:
            self._on_busy = None
        elif node.is_leader and node.works_off():
            self._on_busy = None

            def act() -> None:
                before, world.random = world.random, own
                action(node)
                world.random = before

            world.at(0, act)

    # -- what is committed

    def on_batch(self, node: "SimNode", batch: CommittedBatch, image: MetadataImage) -> None:
        """A controller has applied a batch; it is judged the first time."""
        if self._on_busy is not None:
            self._notice_plan(node)
        if batch.base_offset != self._next_offset:
            return
        self._next_offset = batch.end_offset
        touched: list[PartitionKey] = []
        removed: list[Uuid] = []
        tokens = self.token_judge
        has_tokens = False
        for number, value in enumerate(batch.records):
            record = decode_record(value)
            if isinstance(record, PartitionRecord | PartitionChangeRecord):
                key = record.topic_id, record.partition_id
                before = self.auditor.partitions.get(key)
                self.auditor.on_record(record, batch.base_offset + number)
                touched.append(key)
                self._note_state(key, before, batch.base_offset + number)
            else:
                self.auditor.on_record(record, batch.base_offset + number)
                self._note_broker(record)
                has_tokens |= tokens is not None and tokens.on_record(record, batch, self._held_up_ms())
                if isinstance(record, RemoveTopicRecord):
                    removed.append(record.topic_id)
        if removed:
            self.partition_judge.removed(removed, image)
        if tokens is not None:
            tokens.on_batch(batch)
            if has_tokens:
                tokens.compare(image)
        self._hashes[batch.end_offset] = image.hash()
        found = [image[TOPICS].partition(*key) for key in touched if key in self.auditor.partitions]
        for complaint in self.auditor.disagreements([one for one in found if one is not None]):
            raise Violation(f"ImagesAreWhatTheRecordsSay: node {node.id}: {complaint}")

    def _held_up_ms(self) -> int:
        """For how long a controller stood still that may have decided before, and appended after it."""
        paused_us = [node.paused_us(STAMPED_MS * 1_000) for node in self._world.nodes.values()]
        return max(paused_us) // 1_000

    def _note_state(self, key: PartitionKey, before: Partition | None, offset: Offset) -> None:
        one = self.auditor.partitions[key]
        self._states[key, one.epoch] = state = one.leader, one.leader_epoch, one.isr, one.epoch
        told = self._told_early.pop((key, one.epoch), None)
        if told is not None and (told[0] != state or offset >= told[1]):
            raise _not_committed(key, told[0], f"{state} at {offset}, of which {told[1]} were committed")
        if before is None:
            return
        self.partition_judge.changed(key, before, one, self.brokers)
        if before.leader == one.leader:
            self.acknowledged.in_sync(key, set(one.isr) - set(before.isr), one.leader)
        else:
            self._world.statistics["unclean election"] += one.is_recovering

    def _note_broker(self, record: AnyRecord) -> None:
        statistics = self._world.statistics
        match record:
            case RegisterBrokerRecord():
                statistics["broker registered"] += 1
            case UnregisterBrokerRecord():
                statistics["broker unregistered"] += 1
                self.unregistered.add((record.broker_id, record.broker_epoch))
            case TopicRecord():
                self.partition_judge.names[record.topic_id] = record.name
            case RemoveTopicRecord():
                self.acknowledged.forget_topic(record.topic_id)
            case BrokerRegistrationChangeRecord():
                if record.fenced > 0:
                    self.fencings[record.broker_id] += 1
                    statistics["broker fenced"] += 1
                statistics["broker unfenced"] += record.fenced < 0
                statistics[GOES_AND_COMES] += record.fenced < 0 < self.fencings[record.broker_id]
                statistics["broker shutting down"] += record.in_controlled_shutdown > 0
                statistics["broker lost a directory"] += bool(record.log_dirs)

    # -- what brokers are told

    def lost_tail(self, broker: SimBroker) -> None:
        """A broker's disk lost what was not flushed, or was replaced."""
        self.partition_judge.lost_tail(broker.id, self._newest.get(broker.id, (-1, 0))[0])

    def registered(self, broker: SimBroker) -> None:
        """A process was given an epoch.

        Raises:
            Violation: Its broker had that epoch, or a higher one, before.
        """
        before, process = self._newest.get(broker.id, (-1, 0))
        if broker.epoch <= before and process != broker.incarnation:
            text = f"process {broker.incarnation} of {broker.id} gets {broker.epoch} after {before}"
            raise Violation(f"NoBrokerEpochComesTwice: {text} of process {process}")
        self._newest[broker.id] = broker.epoch, broker.incarnation

    def told_stale(self, broker: SimBroker) -> None:
        """A process was told that its epoch is over.

        Raises:
            Violation: It is the newest process of its broker, and nobody unregistered it.
        """
        self._world.statistics["told stale"] += 1
        newest = self._newest.get(broker.id)
        if (
            newest == (broker.epoch, broker.incarnation)
            and (broker.id, broker.epoch) not in self.unregistered
        ):
            text = f"process {broker.incarnation} of {broker.id} registered last, in epoch {broker.epoch}"
            raise Violation(f"WhoRegisteredLastIsNotStale: {text}, and is told that it is stale")

    def told(self, broker: SimBroker, key: PartitionKey, state: State) -> None:
        """A leader is told the state of a partition.

        Raises:
            Violation: No committed record made it so.
        """
        committed = self._states.get((key, state[3]))
        if committed is None:
            # Perhaps it is committed and no controller has applied it yet: its record will tell.
            self._told_early[key, state[3]] = state, self._world.auditor.committed[0]
        elif committed != state:
            raise _not_committed(key, state, committed)

    def compare(self, broker: SimBroker, end_offset: Offset, image: MetadataImage) -> None:
        """A broker has published an image.

        Raises:
            Violation: The controllers' image of that offset is another one.
        """
        expected = self._hashes.get(end_offset)
        if expected is None:
            text = f"{broker.id} publishes up to {end_offset}, which no controller has applied"
            if end_offset > self._next_offset and not self._is_committed(end_offset):
                raise Violation(f"BrokersPublishWhatIsCommitted: {text}")
            return
        if expected and expected != image.hash():
            text = f"{broker.id} holds another image than the controllers at offset {end_offset}"
            raise Violation(f"BrokersHoldTheSameImage: {text}")

    def _is_committed(self, end_offset: Offset) -> bool:
        """Whether the quorum has committed up to there, even if no controller has applied it yet."""
        return self._world.auditor.committed[0] >= end_offset

    # -- judgement

    @property
    def is_well(self) -> bool:
        """Whether every live broker is unfenced, and every partition that can be led is."""
        if not all(self._is_back(broker) for broker in self.brokers.values()):
            return False
        return next(self.auditor.leaderless(), None) is None

    def _is_back(self, broker: SimBroker) -> bool:
        """Whether it is unfenced, if it lives."""
        if not broker.is_up or broker.is_stopping:
            return True
        known = self.auditor.brokers.get(broker.id)
        return known is not None and known.is_active and known.incarnation == broker.incarnation_id

    def _is_live(self, broker: SimBroker) -> bool:
        return broker.is_up and not broker.is_stopping and self._is_back(broker)

    def patience_us(self) -> int:
        """How long healed brokers may take: an old session ends, they register, catch up and are unfenced."""
        return 20 * S + 5 * self.shape.session_ms * 1_000

    def judge(self, limit_us: int) -> None:
        """Everybody is back in bounded time.

        Raises:
            Violation: Somebody is not.
        """
        world = self._world
        for broker in self.brokers.values():
            if broker.is_stale:
                broker.calm()

        def away() -> list[NodeId]:
            return [broker.id for broker in self.brokers.values() if not self._is_back(broker)]

        if far_brokers.run_until(world, lambda: self.is_well, away, limit_us):
            return
        fenced = {
            broker.id: (broker.epoch, broker.is_unfenced, self.auditor.brokers.get(broker.id))
            for broker in self.brokers.values()
        }
        raise Violation(
            f"EveryLiveBrokerIsBack: {limit_us // S} s after everything was healed: {fenced}, without a "
            f"leader: {[(key[0].hex()[-8:], key[1]) for key in self.auditor.leaderless()]}"
        )

    def converge(self, offset: Offset, limit_us: int) -> None:
        """Every broker publishes what is committed, and every client's topics are as it was told.

        Raises:
            Violation: One does not, or a topic is not.
        """
        world = self._world
        for (key, _), (state, _) in self._told_early.items():
            raise _not_committed(key, state, None)
        up = [broker for broker in self.brokers.values() if broker.is_up]

        def away() -> list[NodeId]:
            return [broker.id for broker in up if broker.disk.log.published_offset < offset]

        if not far_brokers.run_until(world, lambda: not away(), away, limit_us):
            where = {broker.id: broker.disk.log.published_offset for broker in up}
            raise Violation(f"BrokersFollow: {where} published {limit_us // S} s after {offset} was there")
        if not up:
            return
        newest = max(up, key=lambda broker: broker.disk.log.published_offset)
        for admin in self.admins:
            complaint = admin.complaint(newest.disk.log.image)
            if complaint is not None:
                raise Violation(f"TopicsAreAsAcknowledged: {complaint}")
        self.partition_judge.expect_gone(up)
        if not world.run_until(lambda: not self.deletion_judge.waiting(self._is_live), limit_us):
            waiting = self.deletion_judge.waiting(self._is_live)
            raise Violation(f"LiveBrokersDelete: {limit_us // S} s later there are {waiting}")
        if self.token_judge is not None:
            self._judge_tokens(self.token_judge, limit_us)

    def _judge_tokens(self, judge: TokenJudge, limit_us: int) -> None:
        """Clients were told the truth about tokens, and what has ended is removed when the leader looks next.

        Raises:
            Violation: It is not so.
        """
        world = self._world
        complaint = judge.complaint()
        if complaint is not None:
            raise Violation(f"TokensAreAsAcknowledged: {complaint}")
        leader = next((node for node in world.nodes.values() if node.is_leader), None)
        ended = judge.ended(leader.clock.wall_ms()) if leader is not None else set()
        if not world.run_until(lambda: ended.isdisjoint(judge.there), limit_us + LOOK_MS * 1_000):
            raise Violation(f"EndedTokensAreRemoved: {ended & judge.there.keys()} are there")


def _not_committed(key: PartitionKey, state: State, committed: object) -> Violation:
    text = f"a leader is told {state} of {key[0].hex()[-8:]}-{key[1]}"
    return Violation(f"BrokersAreToldWhatIsCommitted: {text}, and the log says {committed}")
