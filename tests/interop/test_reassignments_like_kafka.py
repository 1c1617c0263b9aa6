"""Partitions are moved by Kafka's own managers and by ours: the same records, the same outcomes.

Both decide one random request after the other on one state: moves that begin, are changed and called off, the
ISRs that leaders propose meanwhile, and what is listed. Brokers are fenced and come back in between, and the
topics' configs change. Told apart are only texts, moves that are changed so that Kafka keeps or forgets what
an earlier request added or removed (there ours says what the newest one does), and whom Kafka keeps eligible
though it holds no replica any more. A move that is asked for once more is not told apart.
"""

from collections import Counter
from random import Random
from typing import Any

import pytest
from contexts import context_of, controller_settings
from msgspec.structs import replace

from kraftd.controller.partitions.in_sync import alter_partition
from kraftd.controller.partitions.listing import list_partition_reassignments
from kraftd.controller.partitions.partition_change_builder import is_reassigning
from kraftd.controller.partitions.reassignment import alter_partition_reassignments, moved_to
from kraftd.controller.plans import Plan
from kraftd.metadata.feature_levels import DIRECTORIES_SINCE
from kraftd.metadata.image import EMPTY, MetadataImage
from kraftd.metadata.image_builder import apply_all
from kraftd.metadata.parts.brokers import BROKERS
from kraftd.metadata.parts.topics import TOPICS
from kraftd.metadata.record_versions import encode_allowed
from kraftd.protocol import messages as m
from kraftd.records.frame import AnyRecord, decode_record
from kraftd.records.messages import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from tests.interop.managers import NODE_ID, KafkaDecision, Managers
from tests.interop.peer import HERE, Kafka

REQUESTS = 1_500
"""Of each world."""
BROKER_IDS = range(1, 8)
TOPICS_THERE = {"a": 3, "b": 4}
"""Topics and their numbers of partitions."""
SETTINGS = controller_settings(NODE_ID)


@pytest.fixture(scope="module")
def compiled(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    return kafka.compiled(HERE / "Topics.java", tmp_path_factory.mktemp("classes"))


class World:
    """A state, and what is asked of it. What is random comes from one seed."""

    def __init__(self, seed: int, level: int, *, has_elr: bool) -> None:
        self.random = Random(seed)
        self.level = level
        self.image: MetadataImage = EMPTY
        self.asked_again = 0
        """How often a move that goes on was asked for once more."""
        self.begin: list[AnyRecord] = [FeatureLevelRecord("metadata.version", level)]
        if has_elr:
            self.begin.append(FeatureLevelRecord("eligible.leader.replicas.version", 1))
        self.begin += [self.broker(broker_id) for broker_id in BROKER_IDS]
        for name, partitions in TOPICS_THERE.items():
            topic_id = name.encode() * 16
            self.begin.append(TopicRecord(name, topic_id))
            self.begin += [self.partition(topic_id, number) for number in range(partitions)]
        self.apply(self.begin)

    def apply(self, records: list[AnyRecord]) -> None:
        self.image = apply_all(self.image, records, 0)

    def broker(self, broker_id: int) -> RegisterBrokerRecord:
        has_names = self.level >= DIRECTORIES_SINCE
        directories = tuple(bytes([200 + each] + [broker_id] * 15) for each in range(1 + broker_id % 2))
        return RegisterBrokerRecord(
            broker_id=broker_id,
            incarnation_id=bytes([broker_id]) * 16,
            broker_epoch=broker_id,
            rack=None,
            fenced=False,
            log_dirs=directories if has_names else (),
        )

    def partition(self, topic_id: bytes, number: int) -> PartitionRecord:
        replicas = self.some(3)
        isr = tuple(one for one in replicas if self.random.random() < 0.8) or replicas[:1]
        has_names = self.level >= DIRECTORIES_SINCE
        return PartitionRecord(
            number,
            topic_id,
            replicas,
            isr,
            leader=isr[0],
            leader_epoch=0,
            partition_epoch=0,
            directories=tuple(bytes([200] + [one] * 15) for one in replicas) if has_names else (),
        )

    def some(self, most: int) -> tuple[int, ...]:
        return tuple(self.random.sample(BROKER_IDS, self.random.randint(1, most)))

    def disturbance(self) -> list[AnyRecord]:
        """A broker is fenced or comes back; a config of a topic changes."""
        if self.random.random() < 0.3:
            config = self.random.choice(
                (
                    ("unclean.leader.election.enable", self.random.choice(("true", "false"))),
                    ("min.insync.replicas", self.random.choice(("1", "2", "3"))),
                )
            )
            return [ConfigRecord(2, self.random.choice(list(TOPICS_THERE)), *config)]
        one = self.random.choice(list(self.image[BROKERS].values()))
        return [
            BrokerRegistrationChangeRecord(
                broker_id=one.broker_id, broker_epoch=one.broker_epoch, fenced=-1 if one.fenced else 1
            )
        ]

    # -- requests

    def reassign(self) -> m.AlterPartitionReassignmentsRequest:
        """Moves of some partitions; each is named once."""
        topic = m.AlterPartitionReassignmentsRequestReassignableTopic
        names = self.random.sample([*TOPICS_THERE, "nothing"], self.random.choice((1, 1, 2, 3)))
        return m.AlterPartitionReassignmentsRequest(
            allow_replication_factor_change=self.random.random() < 0.7,
            topics=tuple(topic(name, self.moves(name)) for name in names),
        )

    def moves(self, name: str) -> tuple[m.AlterPartitionReassignmentsRequestReassignablePartition, ...]:
        one = m.AlterPartitionReassignmentsRequestReassignablePartition
        numbers = self.random.sample(range(5), self.random.choice((0, 1, 1, 2)))
        return tuple(one(number, self.wanted(name, number)) for number in numbers)

    def wanted(self, name: str, number: int) -> tuple[int, ...] | None:
        chance = self.random.random()
        if chance < 0.2:
            return None
        if chance < 0.25:
            return self.random.choice(((), (1, 1), (1, 99), (-1,), (3, 2, 1, 2)))
        partition = self.image[TOPICS].partition(name.encode() * 16, number)
        if partition is None or chance < 0.5:
            return self.some(4)
        if chance < 0.6 and is_reassigning(partition):
            self.asked_again += 1
            return partition.replicas[: len(partition.replicas) - len(partition.removing_replicas)]
        there = list(partition.replicas)
        self.random.shuffle(there)
        others = [one for one in BROKER_IDS if one not in there]
        return tuple(there[: self.random.randint(1, len(there))] + others[: self.random.randrange(2)])

    def propose(self) -> m.AlterPartitionRequest:
        """The leader of a partition proposes an ISR, which mostly may be."""
        led = [
            one
            for name in TOPICS_THERE
            for one in self.image[TOPICS].partitions(name.encode() * 16)
            if one.leader >= 0
        ]
        if not led:
            return m.AlterPartitionRequest(1, 1)
        moving = [one for one in led if is_reassigning(one)]
        partition = self.random.choice(moving if moving and self.random.random() < 0.7 else led)
        others = [
            one
            for one in partition.replicas
            if one != partition.leader and not self.image[BROKERS].get(one).fenced
        ]
        isr = sorted({partition.leader, *(one for one in others if self.random.random() < 0.7)})
        data = m.AlterPartitionRequestPartitionData(
            partition_index=partition.partition_id,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            new_isr_with_epochs=tuple(m.AlterPartitionRequestBrokerState(one, one) for one in isr),
        )
        topic = m.AlterPartitionRequestTopicData(partition.topic_id, (data,))
        return m.AlterPartitionRequest(partition.leader, partition.leader, (topic,))

    def list(self) -> m.ListPartitionReassignmentsRequest:
        """What is listed: all, or some that may not be there."""
        topic = m.ListPartitionReassignmentsRequestListPartitionReassignmentsTopics
        if self.random.random() < 0.5:
            return m.ListPartitionReassignmentsRequest(topics=None)
        return m.ListPartitionReassignmentsRequest(
            topics=tuple(topic(name, (0, 3, 1)) for name in (*TOPICS_THERE, "nothing"))
        )


def ours(image: MetadataImage, request: Any, version: int) -> tuple[list[AnyRecord], Any]:
    """What we decide of a request."""
    context = context_of(image, version=version, settings=SETTINGS)
    match request:
        case m.AlterPartitionReassignmentsRequest():
            return alter_partition_reassignments(context, request)
        case m.ListPartitionReassignmentsRequest():
            return [], list_partition_reassignments(image, request)
        case _:
            decided = alter_partition(context, request)
            if not isinstance(decided, Plan):  # a request about nothing
                return decided
            records, _ = decided.advance(context)
            return list(records), decided.response()


def outcome(response: Any) -> Any:
    """A response without texts, and without an order where Kafka has none."""
    match response:
        case m.AlterPartitionReassignmentsResponse():
            return replace(
                response,
                error_message=None,
                responses=tuple(
                    replace(
                        topic, partitions=tuple(replace(one, error_message=None) for one in topic.partitions)
                    )
                    for topic in response.responses
                ),
            )
        case m.ListPartitionReassignmentsResponse():
            topics = [replace(one, partitions=sorted(one.partitions, key=repr)) for one in response.topics]
            return sorted(topics, key=repr)
        case _:
            return response


def is_mixed(image: MetadataImage, request: m.AlterPartitionReassignmentsRequest) -> bool:
    """Whether Kafka makes of this request and an earlier one what ours does not."""
    for topic in request.topics:
        for one in topic.partitions:
            partition = image[TOPICS].partition(topic.name.encode() * 16, one.partition_index)
            if partition is None or one.replicas is None:
                continue
            added = tuple(sorted({*one.replicas}.difference(partition.replicas)))
            removed = tuple(sorted({*partition.replicas}.difference(one.replicas)))
            target = moved_to(partition, one.replicas)
            if (target.adding, target.removing) != (
                added or partition.adding_replicas,
                removed or partition.removing_replicas,
            ):
                return True
    return False


def without_strangers(image: MetadataImage, theirs: KafkaDecision) -> list[AnyRecord]:
    """What makes Kafka's partitions ours again, where it keeps eligible who holds no replica any more."""
    records = [decode_record(value) for value in theirs.records]
    after = apply_all(image, records, 0)[TOPICS]
    found: list[AnyRecord] = []
    for topic_id, number in {(one.topic_id, one.partition_id) for one in records}:
        partition = after.partition(topic_id, number)
        assert partition is not None
        elr = partition.eligible_leader_replicas or ()
        mine = tuple(one for one in elr if one in partition.replicas)
        if mine != elr:
            found.append(PartitionChangeRecord(number, topic_id, eligible_leader_replicas=mine))
    return found


def check(world: World, theirs: KafkaDecision, request: Any, version: int) -> None:
    records, response = ours(world.image, request, version)
    assert theirs.error == 0, request
    assert outcome(response) == outcome(theirs.response), (
        request,
        outcome(response),
        outcome(theirs.response),
    )
    kafkas = [decode_record(value) for value in theirs.records]
    written = [encode_allowed(each, world.level) for each in records]
    assert [in_any_order(decode_record(each)) for each in written] == [
        in_any_order(each) for each in kafkas
    ], (request, world.image)


def in_any_order(record: Any) -> Any:
    """Kafka's ELR has the order of a hash set."""
    if isinstance(record, PartitionChangeRecord) and record.eligible_leader_replicas:
        return replace(record, eligible_leader_replicas=tuple(sorted(record.eligible_leader_replicas)))
    return record


@pytest.mark.parametrize(
    ("seed", "level", "has_elr"),
    [(1, 30, False), (2, 30, True), (3, 17, False), (4, 16, False), (5, 7, False), (6, 29, True)],
)
def test_random_moves(
    kafka: Kafka, compiled: tuple[str, ...], seed: int, level: int, *, has_elr: bool
) -> None:
    world = World(seed, level, has_elr=has_elr)
    kinds = (
        ("alter_partition_reassignments", 1, world.reassign),
        ("alter_partition_reassignments", 1, world.reassign),
        ("alter_partition", 3, world.propose),
        ("alter_partition", 3, world.propose),
        ("list_partition_reassignments", 0, world.list),
    )
    seen: Counter[Any] = Counter()
    with Managers(kafka, compiled, {}) as managers:
        managers.replay(world.begin)
        for _ in range(REQUESTS):
            if world.random.random() < 0.05:
                changes = world.disturbance()
                managers.replay(changes)
                world.apply(changes)
            api, version, make = world.random.choice(kinds)
            request = make()
            if isinstance(request, m.AlterPartitionReassignmentsRequest) and is_mixed(world.image, request):
                seen["mixed"] += 1
                continue
            theirs = managers.decide(api, request, version, 0, is_forwarded=False)
            repairs = without_strangers(world.image, theirs)
            if repairs:
                seen["strangers"] += 1
            else:
                check(world, theirs, request, version)
            if isinstance(theirs.response, m.AlterPartitionReassignmentsResponse):
                seen.update(one.error_code for topic in theirs.response.responses for one in topic.partitions)
            changed = [decode_record(value) for value in theirs.records]
            seen["ended"] += sum(api == "alter_partition" and one.replicas is not None for one in changed)
            seen["begun"] += sum(bool(one.adding_replicas) for one in changed)
            world.apply([*changed, *repairs])
            if repairs:
                managers.replay(repairs)
    assert seen.keys() >= {0, 3, 38, 39, 85, "mixed", "ended", "begun"}, seen
    assert world.asked_again > 0
