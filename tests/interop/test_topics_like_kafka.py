"""Topics and configs, decided by Kafka's own managers and by ours: the same records, the same outcomes.

Both decide one random request after the other on one state, which Kafka's records lead to. Placement is
compared, too: both draw their numbers from one seed. Told apart are only the ids of new topics, which are
random, the texts of refusals, and the order of configs, which in Kafka is that of a hash map.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any
from zlib import crc32

import pytest
from contexts import context_of, controller_settings
from msgspec.structs import replace

from kraftd.controller.configs.configuration_control import alter_configs, incremental_alter_configs
from kraftd.controller.context import Client
from kraftd.controller.policies import AlterConfigMetadata, CreateTopicMetadata, Policies, PolicyViolation
from kraftd.controller.topics.adding import create_partitions
from kraftd.controller.topics.creating import create_topics
from kraftd.controller.topics.deleting import delete_topics
from kraftd.controller.topics.new_partitions import placement_seed
from kraftd.errors import ErrorCode
from kraftd.metadata.feature_levels import DIRECTORIES_SINCE
from kraftd.metadata.image import EMPTY, MetadataImage
from kraftd.metadata.image_builder import apply_all
from kraftd.metadata.parts.brokers import BROKERS
from kraftd.metadata.parts.configs import CONFIGS
from kraftd.metadata.parts.topics import TOPICS
from kraftd.metadata.record_versions import encode_allowed
from kraftd.protocol import messages as m
from kraftd.records.frame import AnyRecord, decode_record
from kraftd.records.messages import (
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ConfigRecord,
    FeatureLevelRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from tests.interop.managers import NODE_ID, KafkaDecision, Managers
from tests.interop.peer import HERE, Kafka

OPERATIONS = 600
"""Of each world."""

BROKER_IDS = range(1, 9)
RACKS = (None, "a", "b", "c")
"""Racks whose order in a Java hash map is their own: Kafka draws numbers in that order."""
NAMES = (
    "orders",
    "a.b",
    "a_b",
    "a-b",
    "a.b_c",
    "x" * 249,
    "Z.9",
    "payments",
    "p",
    "q",
    "r.s",
    "r_s",
    "t",
    "u",
)
BAD_NAMES = ("", ".", "..", "x" * 250, "a b", "ä", "a/b")

STATIC_CONFIGS = {
    "num.partitions": "3",
    "default.replication.factor": "2",
    "log.retention.hours": "24",
    "log.roll.jitter.hours": "1",
    "min.insync.replicas": "2",
    "log.cleaner.min.compaction.lag.ms": "1000",
    "compression.type": "lz4",
    "group.consumer.max.session.timeout.ms": "50000",
}
SETTINGS = controller_settings(
    NODE_ID, num_partitions=3, default_replication_factor=2, static_configs=STATIC_CONFIGS
)

TOPIC_VALUES = {
    "cleanup.policy": (
        "delete",
        "compact",
        "compact,delete",
        "",
        "delete,delete",
        "shred",
        "delete,,compact",
    ),
    "retention.ms": ("-1", "5", "-2", "x", " 7 ", "99999999999999999999", "+8"),
    "retention.bytes": ("1", "-5", "1.5"),
    "min.insync.replicas": ("1", "2", "3", "0"),
    "min.compaction.lag.ms": ("0", "5000", "-1"),
    "max.compaction.lag.ms": ("1", "2000", "9223372036854775807", "0"),
    "compression.type": ("gzip", "producer", "GZIP", "none"),
    "compression.gzip.level": ("-1", "0", "9", "5"),
    "unclean.leader.election.enable": ("true", "FALSE", "yes"),
    "min.cleanable.dirty.ratio": ("0", "0.25", "1.5", "half"),
    "message.timestamp.type": ("CreateTime", "LogAppendTime", "createtime"),
    "leader.replication.throttled.replicas": ("*", "", "0:1,1:2", "0-1", "*,0:1", "0:1,0:1"),
    "follower.replication.throttled.replicas": ("*", "1:3", "a:b"),
    "remote.storage.enable": ("false", "true"),
    "remote.log.delete.on.disable": ("true", "false"),
    "segment.bytes": ("1048576", "1048575"),
    "internal.segment.bytes": ("100",),
    "flush.ms": ("3",),
    "no.such.config": ("1",),
}
GROUP_VALUES = {
    "consumer.session.timeout.ms": ("45000", "50000", "50001", "44999", "6000", "x"),
    "consumer.heartbeat.interval.ms": ("5000", "15000", "15001", "4999"),
    "consumer.assignment.interval.ms": ("0", "15000", "15001", "-1"),
    "share.session.timeout.ms": ("45000", "60000", "60001"),
    "share.heartbeat.interval.ms": ("5000", "15000"),
    "share.auto.offset.reset": (
        *("earliest", "latest", "none", "by_duration:PT1H", "by_duration:P1DT2H3M4.5S", "by_duration:pt5s"),
        *("by_duration:", "by_duration:P", "by_duration:PT", "by_duration:-PT1H", "by_duration", "Earliest"),
    ),
    "share.isolation.level": ("read_committed", "dirty"),
    "share.delivery.count.limit": ("2", "10", "11"),
    "share.partition.max.record.locks": ("100", "4001"),
    "share.record.lock.duration.ms": ("15000", "1000"),
    "share.renew.acknowledge.enable": ("true", "no"),
    "streams.num.standby.replicas": ("2", "3"),
    "streams.session.timeout.ms": ("45000", "60001"),
    "streams.heartbeat.interval.ms": ("5000", "1"),
    "share.assignment.interval.ms": ("15001",),
    "streams.assignment.interval.ms": ("0",),
    "streams.initial.rebalance.delay.ms": ("0", "-1"),
    "no.such.config": ("1",),
}
CLIENT_METRICS_VALUES = {
    "interval.ms": ("100", "99", "3600000", "3600001", "x"),
    "metrics": ("a,b", "a,a", "", "*", "a,,b"),
    "match": (
        *("client_id=a.*", "client_id=[", "who=a", "client_id", "client_id=a=b", "client_id=a,client_id=b"),
        *("client_software_name=x,client_source_port=1", "client_id=", "=a"),
    ),
    "no.such.config": ("1",),
}
BROKER_VALUES = {
    "min.insync.replicas": ("1", "2"),
    "log.retention.ms": ("1000",),
    "log.roll.ms": ("70000",),
    "cordoned.log.dirs": ("/a", "/a,/b"),
}
TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32
VALUES = {
    TOPIC: TOPIC_VALUES,
    BROKER: BROKER_VALUES,
    CLIENT_METRICS: CLIENT_METRICS_VALUES,
    GROUP: GROUP_VALUES,
}
SET, DELETE, APPEND, SUBTRACT = range(4)


@pytest.fixture(scope="module")
def compiled(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    return kafka.compiled(HERE / "Topics.java", tmp_path_factory.mktemp("classes"))


def judge(text: str) -> None:
    """What the policies of `Topics.java` raise."""
    match crc32(text.encode()) % 4:
        case 0:
            raise PolicyViolation(text)
        case 1:
            raise ValueError(text)


def told(values: Mapping[Any, Any] | None) -> str:
    """As Java prints a sorted map."""
    if values is None:
        return "null"
    return "{" + ", ".join(f"{key}={java_text(values[key])}" for key in sorted(values)) + "}"


def java_text(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(str, value))}]"
    return "null" if value is None else str(value)


def topic_policy(asked: CreateTopicMetadata) -> None:
    counts = f"{java_text(asked.num_partitions)} {java_text(asked.replication_factor)}"
    judge(f"{asked.topic} {counts} {told(asked.replicas_assignments)} {told(asked.configs)}")


def configs_policy(asked: AlterConfigMetadata) -> None:
    judge(f"{int(asked.resource.type)} {asked.resource.name} {told(asked.configs)}")


POLICIES = Policies(create_topic=topic_policy, alter_config=configs_policy)
REFUSED_BY_POLICIES = {ErrorCode.POLICY_VIOLATION, ErrorCode.UNKNOWN_SERVER_ERROR}


def world(random: Random, level: int, *, has_elr: bool) -> list[AnyRecord]:
    """A cluster without topics."""
    features = [FeatureLevelRecord("metadata.version", level)]
    if has_elr:
        features.append(FeatureLevelRecord("eligible.leader.replicas.version", 1))
    return [*features, *(broker(random, broker_id, level) for broker_id in BROKER_IDS)]


def directories(random: Random, broker_id: int) -> tuple[bytes, ...]:
    return tuple(bytes([200 + each] + [broker_id] * 15) for each in range(random.randrange(4)))


def broker(random: Random, broker_id: int, level: int) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker_id,
        incarnation_id=bytes([broker_id]) * 16,
        broker_epoch=broker_id,
        rack=random.choice(RACKS),
        fenced=random.random() < 0.3,
        log_dirs=directories(random, broker_id) if level >= DIRECTORIES_SINCE else (),
    )


def broker_change(random: Random, image: MetadataImage) -> list[AnyRecord]:
    """One broker is fenced, unfenced, shuts down, cordons directories, or starts anew."""
    one = random.choice(list(image[BROKERS].values()))
    what = random.randrange(5)
    change = BrokerRegistrationChangeRecord(broker_id=one.broker_id, broker_epoch=one.broker_epoch)
    if what == 0:
        return [broker(random, one.broker_id, image.metadata_version)]
    if what == 1 and not one.fenced:
        return [replace(change, in_controlled_shutdown=1)]
    if what == 2 and image.metadata_version >= 30:
        cordoned = tuple(each for each in one.log_dirs if random.random() < 0.7)
        return [replace(change, cordoned_log_dirs=cordoned)]
    return [replace(change, fenced=-1 if one.fenced and not one.in_controlled_shutdown else 1)]


class Requests:
    """Random requests about a state."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def create(self, image: MetadataImage) -> m.CreateTopicsRequest:
        names = self.random.sample(NAMES + BAD_NAMES, self.random.choice((1, 1, 2, 3)))
        return m.CreateTopicsRequest(
            topics=tuple(self.new_topic(name) for name in names), validate_only=self.random.random() < 0.1
        )

    def new_topic(self, name: str) -> m.CreateTopicsRequestCreatableTopic:
        configs = tuple(
            m.CreateTopicsRequestCreatableTopicConfig(config, value if self.random.random() < 0.97 else None)
            for config, value in self.some_values(TOPIC, name, valid=0.9).items()
        )
        if self.random.random() < 0.5:
            count = self.random.choice(
                (-1, 1, 2, 5, 9, 40, 0, -2, 10_001 if self.random.random() < 0.1 else 3)
            )
            factor = self.random.choice((-1, 1, 2, 3, 4, 8, 9, 0, -2))
            return m.CreateTopicsRequestCreatableTopic(name, count, factor, configs=configs)
        numbers = list(range(self.random.randrange(1, 5)))
        if self.random.random() < 0.1:
            numbers.append(self.random.choice((0, 7)))
        self.random.shuffle(numbers)
        factor = self.random.randrange(1, 5)
        return m.CreateTopicsRequestCreatableTopic(
            name,
            -1 if self.random.random() < 0.95 else len(numbers),
            -1 if self.random.random() < 0.95 else factor,
            tuple(
                m.CreateTopicsRequestCreatableReplicaAssignment(number, self.replicas(factor))
                for number in numbers
            ),
            configs,
        )

    def replicas(self, factor: int) -> tuple[int, ...]:
        chance = self.random.random()
        if chance < 0.03:
            return tuple(self.random.choices(range(1, 11), k=self.random.randrange(5)))
        return tuple(self.random.sample(BROKER_IDS, factor))

    def some_values(self, kind: int, resource: str, valid: float) -> dict[str, str]:
        values = VALUES[kind]
        if kind == BROKER and not resource:
            values = {name: values[name] for name in values if name != "cordoned.log.dirs"}
        names = self.random.sample(list(values), self.random.choice((0, 0, 1, 2, 3)))
        return {
            name: values[name][0] if self.random.random() < valid else self.random.choice(values[name])
            for name in names
            if name != "no.such.config" or self.random.random() < 1 - valid
        }

    def add(self, image: MetadataImage) -> m.CreatePartitionsRequest:
        there = [topic.name for topic in image[TOPICS].topics()]
        names = self.random.sample([*there, "nothing"], min(len(there) + 1, self.random.choice((1, 1, 2))))
        return m.CreatePartitionsRequest(
            topics=tuple(self.more(image, name) for name in names), validate_only=self.random.random() < 0.1
        )

    def more(self, image: MetadataImage, name: str) -> m.CreatePartitionsRequestCreatePartitionsTopic:
        partitions = list(image[TOPICS].partitions(image[TOPICS].id_of(name) or b""))
        missing = self.random.choice((1, 1, 2, 6, 0, -1))
        assignments = None
        if self.random.random() < 0.5:
            factor = len(partitions[0].replicas) if partitions else 1
            factor = factor if self.random.random() < 0.95 else factor % 8 + 1
            assignments = tuple(
                m.CreatePartitionsRequestCreatePartitionsAssignment(self.replicas(factor))
                for _ in range(missing if self.random.random() < 0.95 else 3)
            )
        return m.CreatePartitionsRequestCreatePartitionsTopic(name, len(partitions) + missing, assignments)

    def delete(self, image: MetadataImage) -> m.DeleteTopicsRequest:
        ids = [topic.topic_id for topic in image[TOPICS].topics()]
        chosen = self.random.sample([*ids, bytes([7]) * 16], min(len(ids) + 1, self.random.choice((1, 2))))
        return m.DeleteTopicsRequest(
            topics=tuple(m.DeleteTopicsRequestDeleteTopicState(None, topic_id) for topic_id in chosen)
        )

    def resources(self, image: MetadataImage) -> Iterator[tuple[int, str]]:
        there = [topic.name for topic in image[TOPICS].topics()]
        every = [
            *((TOPIC, name) for name in (*there, "nothing", "a b", "")),
            *((BROKER, name) for name in ("", str(NODE_ID), "1")),
            *((GROUP, name) for name in ("g", "h", "")),
            *((CLIENT_METRICS, name) for name in ("s", "t", "")),
        ]
        yield from self.random.sample(every, self.random.choice((1, 1, 1, 2, 3)))

    def alter(self, image: MetadataImage) -> m.IncrementalAlterConfigsRequest:
        return m.IncrementalAlterConfigsRequest(
            resources=tuple(
                m.IncrementalAlterConfigsRequestAlterConfigsResource(
                    kind, name, self.changes(image, kind, name)
                )
                for kind, name in self.resources(image)
            ),
            validate_only=self.random.random() < 0.1,
        )

    def changes(
        self, image: MetadataImage, kind: int, resource: str
    ) -> tuple[m.IncrementalAlterConfigsRequestAlterableConfig, ...]:
        asked: list[tuple[str, int, str]] = [
            (name, SET, value) for name, value in self.some_values(kind, resource, valid=0.7).items()
        ]
        there = [name for name, _ in image[CONFIGS].of(kind, resource)]
        left = sorted({*there, "retention.ms"} - {name for name, *_ in asked})
        if left and self.random.random() < 0.4:
            asked.append((self.random.choice(left), DELETE, ""))
        is_free = all(name != "cleanup.policy" for name, *_ in asked)
        if kind == TOPIC and is_free and self.random.random() < 0.3:
            item = self.random.choice(("delete", "compact", "x", "compact,delete"))
            asked.append(("cleanup.policy", self.random.choice((APPEND, SUBTRACT)), item))
        return tuple(m.IncrementalAlterConfigsRequestAlterableConfig(*each) for each in asked)

    def replace(self, image: MetadataImage) -> m.AlterConfigsRequest:
        return m.AlterConfigsRequest(
            resources=tuple(
                m.AlterConfigsRequestAlterConfigsResource(
                    kind,
                    name,
                    tuple(
                        m.AlterConfigsRequestAlterableConfig(config, value)
                        for config, value in self.some_values(kind, name, valid=0.8).items()
                    ),
                )
                for kind, name in self.resources(image)
            ),
            validate_only=self.random.random() < 0.1,
        )


Decide = Callable[[Any, Any], tuple[Sequence[AnyRecord], Any]]
KINDS: tuple[tuple[str, int, Callable[[Requests, MetadataImage], Any], Decide], ...] = (
    ("create_topics", 7, Requests.create, create_topics),
    ("create_topics", 7, Requests.create, create_topics),
    ("create_partitions", 3, Requests.add, create_partitions),
    ("delete_topics", 6, Requests.delete, delete_topics),
    ("incremental_alter_configs", 1, Requests.alter, incremental_alter_configs),
    ("incremental_alter_configs", 1, Requests.alter, incremental_alter_configs),
    ("alter_configs", 2, Requests.replace, alter_configs),
)


def outcomes(response: Any) -> dict[Any, Any]:
    """The outcome of each entry, without texts and new ids."""
    match response:
        case m.CreateTopicsResponse():
            return {each.name: replace(each, error_message=None, topic_id=b"") for each in response.topics}
        case m.CreatePartitionsResponse():
            return {each.name: each.error_code for each in response.results}
        case m.DeleteTopicsResponse():
            return {each.topic_id: each.error_code for each in response.responses}
        case _:
            return {(each.resource_type, each.resource_name): each.error_code for each in response.responses}


def comparable(values: Sequence[bytes]) -> list[tuple[bytes, Any]]:
    """Records with the names of new topics for their ids, and configs in an order of their own."""
    found: list[tuple[bytes, Any]] = []
    names: dict[bytes, str] = {}
    for value in values:
        record: Any = decode_record(value)
        if isinstance(record, TopicRecord):
            names[record.topic_id] = record.name
        if getattr(record, "topic_id", None) in names:
            record = replace(record, topic_id=names[record.topic_id].encode())
        found.append((value[:3], record))
    begin = 0
    while begin < len(found):
        end = begin
        while end < len(found) and type(found[end][1]) is type(found[begin][1]) in (
            ConfigRecord,
            ClearElrRecord,
        ):
            end += 1
        found[begin:end] = sorted(found[begin:end], key=repr)
        begin = max(end, begin + 1)
    return found


def check(kafka: KafkaDecision, records: list[bytes], response: Any, request: Any) -> None:
    if kafka.error:
        assert set(outcome_codes(response)) == {kafka.error}, request
        assert records == []
        return
    assert outcomes(response) == outcomes(kafka.response), (request, response)
    assert comparable(records) == comparable(kafka.records), request


def outcome_codes(response: Any) -> list[int]:
    found = outcomes(response).values()
    return [each if isinstance(each, int) else each.error_code for each in found]


@pytest.mark.covers("D-14")
@pytest.mark.parametrize(
    ("world_seed", "level", "has_elr", "has_policies"),
    [
        (1, 30, True, False),
        (2, 30, False, False),
        (3, 22, False, False),
        (4, 7, False, False),
        (5, 29, True, False),
        (6, 17, False, False),
        (7, 30, True, True),
        (8, 17, False, True),
    ],
)
def test_random_requests(
    kafka: Kafka,
    compiled: tuple[str, ...],
    world_seed: int,
    level: int,
    *,
    has_elr: bool,
    has_policies: bool,
) -> None:
    settings = replace(SETTINGS, policies=POLICIES) if has_policies else SETTINGS
    arguments = STATIC_CONFIGS | ({"test.policies": "true"} if has_policies else {})
    random = Random(world_seed)
    requests = Requests(random)
    seen: set[tuple[str, int]] = set()
    with Managers(kafka, compiled, arguments) as managers:
        begin = world(random, level, has_elr=has_elr)
        managers.replay(begin)
        image = apply_all(EMPTY, begin, 0)
        for number in range(OPERATIONS):
            if random.random() < 0.1:
                changes = broker_change(random, image)
                managers.replay(changes)
                image = apply_all(image, changes, 0)
            api, version, make, decide = random.choice(KINDS)
            request = make(requests, image)
            client = Client(is_forwarded=random.random() < 0.5)
            context = context_of(
                image,
                seed=number,
                client=client,
                settings=settings,
                next_offset=number,
                policy_failures=[],
            )
            seed = placement_seed(context)
            theirs = managers.decide(api, request, version, seed, is_forwarded=client.is_forwarded)
            records, response = decide(context, request)
            check(
                theirs, [encode_allowed(each, image.metadata_version) for each in records], response, request
            )
            seen |= {(api, code) for code in outcome_codes(response)}
            image = apply_all(image, [decode_record(value) for value in theirs.records], 0)
    assert {api for api, code in seen if code == 0} == {api for api, *_ in KINDS}
    assert len(seen) > 20
    if has_policies:
        assert {code for api, code in seen if api == "create_topics"} >= REFUSED_BY_POLICIES
        assert {code for api, code in seen if api == "alter_configs"} >= REFUSED_BY_POLICIES
