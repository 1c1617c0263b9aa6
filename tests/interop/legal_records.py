"""Logs of records of every kind, as controllers could have written them: legal, long, and all from one seed.

`legal_log` makes one, in batches. A log begins at a low `metadata.version` and climbs; each record is in one
of the versions that the level of the time allows. Batches are cut anywhere, so that what belongs together
straddles them, and transactions go over several.

What exists is kept in a small account (`legal_world`), to know what is legal next. Two things that Kafka's
image takes otherwise are left out, and asked for by name in `test_fold`: an abort ends its batch, and
eligible leader replicas that were hidden are gone before their feature is on again.

Not here: what the records lead to, which Kafka and `kraftd.metadata` say.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import deepcopy
from random import Random
from typing import Final, NamedTuple, TypeAlias

from kraftd.errors import UnencodableError
from kraftd.metadata.config_schema import ResourceType
from kraftd.metadata.feature_levels import (
    CORDONED_LOG_DIRS_SINCE,
    DELEGATION_TOKENS_SINCE,
    DIRECTORIES_SINCE,
    ELIGIBLE_LEADER_REPLICAS,
    ELIGIBLE_LEADER_REPLICAS_SINCE,
    METADATA_VERSION,
    REGISTER_CONTROLLER_SINCE,
    SCRAM_SINCE,
    TRANSACTIONS_SINCE,
)
from kraftd.metadata.record_versions import newest_versions
from kraftd.records import messages as m
from kraftd.records.frame import decode_record, encode_record
from tests.interop import legal_topics
from tests.interop.legal_world import BROKERS, LEVELS_WITH_MIGRATION, ZK_MIGRATION_SINCE, World, config_of

Values: TypeAlias = tuple[bytes, ...]
"""The encoded records of a batch."""

LEVELS: Final = range(7, 31)
"""Of Kafka 4.3, from the first that a cluster's features are in the log."""
OTHER_FEATURES: Final = ("group.version", "share.version", "streams.version", "transaction.version")
PASSED_OVER: Final = ("kraft.version",)
"""What Kafka's image knows no level of, whatever a record says; that of 3.9 kept it."""


def legal_log(seed: int, size: int, levels: range = LEVELS) -> list[Values]:
    """A log of at least `size` records, at the levels of `metadata.version` that are given."""
    log = _Log(Random(seed), levels)
    log.write(size)
    return log.batches


class _Log:
    def __init__(self, rng: Random, levels: range) -> None:
        self.rng = rng
        self.world = World(rng.choice((levels[0], *levels[:-1:3])), levels[-1])
        self.before: World | None = None
        self.batches: list[Values] = []
        self.open: list[bytes] = []
        self.written = 0

    def write(self, size: int) -> None:
        self.put(m.FeatureLevelRecord(METADATA_VERSION, self.world.level))
        for _ in range(4):
            self.put_all(_register(self.rng, self.world, self.written))
        while self.written < size or self.before is not None:
            self.step()
        self.cut()

    def step(self) -> None:
        steps = [one for one in STEPS if one.since <= self.world.level]
        (step,) = self.rng.choices(steps, [one.weight for one in steps])
        if step.make is not None:
            self.put_all(step.make(self.rng, self.world, self.written))
        elif self.before is None:
            self.before = deepcopy(self.world)
            self.put(m.BeginTransactionRecord(self.rng.choice((None, "", "a name"))))
        elif self.rng.random() < 0.5:
            self.before = None
            self.put(m.EndTransactionRecord())
        else:
            self.world, self.before = self.before, None
            self.put(m.AbortTransactionRecord(self.rng.choice((None, "a reason"))))
            self.cut()

    def put_all(self, records: Iterator[m.Record]) -> None:
        for record in records:
            self.put(record)

    def put(self, record: m.Record) -> None:
        self.open.append(self.encoded(record))
        self.written += 1
        if self.rng.random() < 0.1:
            self.cut()

    def encoded(self, record: m.Record) -> bytes:
        """A record in one of the versions that can say it, now."""
        newest = newest_versions(self.world.level).get(type(record), 0)  # 0 of those that are only read
        for version in self.rng.sample(range(newest + 1), newest):
            with suppress(UnencodableError):
                value = encode_record(record, version)
                if decode_record(value) == record:
                    return value
        return encode_record(record, newest)

    def cut(self) -> None:
        """End the batch."""
        if not self.open:
            return
        self.batches.append(tuple(self.open))
        self.open = []


# --- brokers and controllers --------------------------------------------------------------------------------


def _register(rng: Random, world: World, offset: int) -> Iterator[m.Record]:
    node_id = rng.choice(BROKERS)
    world.brokers[node_id] = offset
    listeners = rng.sample(("PLAINTEXT", "SSL", "SASL", "INTERNAL"), rng.randint(1, 4))
    yield m.RegisterBrokerRecord(
        node_id,
        is_migrating_zk_broker=world.is_migrating and rng.random() < 0.3,
        incarnation_id=rng.randbytes(16),
        broker_epoch=offset,
        end_points=tuple(
            m.RegisterBrokerRecordBrokerEndpoint(name, f"host-{node_id}", rng.randint(0, 65535), protocol)
            for protocol, name in enumerate(listeners)
        ),
        features=tuple(
            m.RegisterBrokerRecordBrokerFeature(name, rng.randint(0, 1), rng.randint(1, 30))
            for name in rng.sample((METADATA_VERSION, *OTHER_FEATURES), rng.randint(0, 5))
        ),
        rack=rng.choice((None, "", "r1", "r2")),
        fenced=rng.random() < 0.7,
        in_controlled_shutdown=rng.random() < 0.2,
        log_dirs=_log_dirs(rng) if world.level >= DIRECTORIES_SINCE else (),
        cordoned_log_dirs=_cordoned_log_dirs(rng, world),
    )


def _log_dirs(rng: Random) -> tuple[bytes, ...]:
    return tuple(rng.randbytes(16) for _ in range(rng.randint(0, 3)))


def _cordoned_log_dirs(rng: Random, world: World) -> tuple[bytes, ...] | None:
    return _log_dirs(rng) if world.level >= CORDONED_LOG_DIRS_SINCE and rng.random() < 0.5 else None


def _unregister(rng: Random, world: World, _offset: int) -> Iterator[m.Record]:
    if len(world.brokers) > 2:
        node_id = rng.choice(list(world.brokers))
        yield m.UnregisterBrokerRecord(node_id, world.brokers.pop(node_id))


def _fence(rng: Random, world: World, _offset: int) -> Iterator[m.Record]:
    node_id = rng.choice(list(world.brokers))
    kind = rng.choice((m.FenceBrokerRecord, m.UnfenceBrokerRecord))
    yield kind(node_id, world.brokers[node_id])


def _change_broker(rng: Random, world: World, _offset: int) -> Iterator[m.Record]:
    node_id = rng.choice(list(world.brokers))
    yield m.BrokerRegistrationChangeRecord(
        node_id,
        world.brokers[node_id],
        fenced=rng.choice((-1, 0, 1)),
        in_controlled_shutdown=rng.choice((0, 0, 1)),
        log_dirs=_log_dirs(rng) if world.level >= DIRECTORIES_SINCE and rng.random() < 0.5 else (),
        cordoned_log_dirs=_cordoned_log_dirs(rng, world),
    )


def _register_controller(rng: Random, _world: World, _offset: int) -> Iterator[m.Record]:
    node_id = rng.randint(1, 3)
    listeners = rng.sample(("CONTROLLER", "OTHER"), rng.randint(1, 2))
    yield m.RegisterControllerRecord(
        node_id,
        rng.randbytes(16),
        zk_migration_ready=rng.random() < 0.5,
        end_points=tuple(
            m.RegisterControllerRecordControllerEndpoint(name, f"host-{node_id}", rng.randint(0, 65535), 0)
            for name in listeners
        ),
        features=tuple(
            m.RegisterControllerRecordControllerFeature(name, 0, rng.randint(1, 30))
            for name in rng.sample((METADATA_VERSION, *OTHER_FEATURES), rng.randint(0, 5))
        ),
    )


# --- features -----------------------------------------------------------------------------------------------


def _switch_elr(rng: Random, world: World, _offset: int) -> Iterator[m.Record]:
    """Before it is switched on again, nobody may be eligible from before: Kafka's image hides them only."""
    for topic in world.topics.values() if not world.has_elr else ():
        for number, partition in topic.partitions.items():
            if partition.has_elr:
                yield m.PartitionChangeRecord(
                    number, topic.id, eligible_leader_replicas=(), last_known_elr=()
                )
        topic.forget_elr()
    level = world.features[ELIGIBLE_LEADER_REPLICAS] = int(not world.has_elr)
    yield m.FeatureLevelRecord(ELIGIBLE_LEADER_REPLICAS, level)


def _set_feature(rng: Random, world: World, _offset: int) -> Iterator[m.Record]:
    names = (*OTHER_FEATURES, *(PASSED_OVER if world.last_level == LEVELS[-1] else ()))
    yield m.FeatureLevelRecord(rng.choice(names), rng.randint(0, 2))


def _set_level(rng: Random, world: World, _offset: int) -> Iterator[m.Record]:
    """Up; or down, where both levels know the same records."""
    level = min(world.last_level, world.level + rng.choice((-1, 1, 1, 2, 3)))
    if level > world.level or newest_versions(level) == newest_versions(world.level):
        world.level = level
        yield m.FeatureLevelRecord(METADATA_VERSION, level)


def _zk_migration(rng: Random, _world: World, _offset: int) -> Iterator[m.Record]:
    yield m.ZkMigrationStateRecord(rng.randint(0, 4))


# --- configs and clients ------------------------------------------------------------------------------------


def _config(rng: Random, world: World, _offset: int) -> Iterator[m.Record]:
    if world.topics and rng.random() < 0.5:
        yield config_of(rng, int(ResourceType.TOPIC), rng.choice(list(world.topics)))
    else:
        kinds = (ResourceType.BROKER, ResourceType.CLIENT_METRICS, ResourceType.GROUP)
        kind = rng.choice(kinds if world.level > LEVELS_WITH_MIGRATION[-1] else kinds[:2])
        yield config_of(rng, int(kind), rng.choice(("", "1", "2", "named")))


def _quota(rng: Random, _world: World, _offset: int) -> Iterator[m.Record]:
    types = rng.choice((("user",), ("client-id",), ("user", "client-id"), ("client-id", "user"), ("ip",)))
    entity = tuple(m.ClientQuotaRecordEntityData(one, rng.choice((None, "a", "b", ""))) for one in types)
    key = rng.choice(("producer_byte_rate", "consumer_byte_rate", "request_percentage"))
    yield m.ClientQuotaRecord(entity, key, rng.choice((0.0, 1.5, 1e300, rng.random())), rng.random() < 0.4)


def _producer_ids(rng: Random, world: World, offset: int) -> Iterator[m.Record]:
    node_id, epoch = rng.choice(list(world.brokers.items()))
    yield m.ProducerIdsRecord(node_id, epoch, 1000 * offset)


def _put_acl(rng: Random, world: World, _offset: int) -> Iterator[m.Record]:
    acl_id = rng.choice((*world.acls, rng.randbytes(16))) if len(world.acls) < 30 else rng.choice(world.acls)
    if acl_id not in world.acls:
        world.acls.append(acl_id)
    yield m.AccessControlEntryRecord(
        acl_id,
        resource_type=rng.choice((2, 3, 4, 5, 6, 7)),
        resource_name=rng.choice(("*", "a", "b")),
        pattern_type=rng.choice((3, 4)),
        principal=rng.choice(("User:*", "User:a", "Group:b")),
        host=rng.choice(("*", "127.0.0.1")),
        operation=rng.randint(2, 14),
        permission_type=rng.choice((2, 3)),
    )


def _remove_acl(rng: Random, world: World, _offset: int) -> Iterator[m.Record]:
    if world.acls:
        yield m.RemoveAccessControlEntryRecord(world.acls.pop(rng.randrange(len(world.acls))))


def _put_scram(rng: Random, world: World, _offset: int) -> Iterator[m.Record]:
    name, mechanism = rng.choice("abcdef"), rng.choice((1, 2))
    if (name, mechanism) not in world.scram:
        world.scram.append((name, mechanism))
    salt, stored, server = (rng.randbytes(8) for _ in range(3))
    yield m.UserScramCredentialRecord(name, mechanism, salt, stored, server, rng.randint(4096, 8192))


def _remove_scram(rng: Random, world: World, _offset: int) -> Iterator[m.Record]:
    if world.scram:
        yield m.RemoveUserScramCredentialRecord(*world.scram.pop(rng.randrange(len(world.scram))))


def _put_token(rng: Random, _world: World, _offset: int) -> Iterator[m.Record]:
    who = ["User:a", "User:b", "User:c"]
    times = sorted(rng.randint(1, 1 << 40) for _ in range(3))
    renewers = tuple(rng.sample(who, rng.randint(0, 3)))
    yield m.DelegationTokenRecord(
        rng.choice(who), rng.choice(who), renewers, times[0], times[2], times[1], rng.choice("uvwxyz")
    )


def _remove_token(rng: Random, _world: World, _offset: int) -> Iterator[m.Record]:
    yield m.RemoveDelegationTokenRecord(rng.choice("uvwxyz"))


def _no_op(_rng: Random, _world: World, _offset: int) -> Iterator[m.Record]:
    yield m.NoOpRecord()


class Step(NamedTuple):
    """Something that a controller does."""

    weight: float
    make: Callable[[Random, World, int], Iterator[m.Record]] | None
    """The records, lazily: the account is up to date after each. None begins or ends a transaction."""
    since: int = 0


STEPS: Final = (
    Step(2, _register),
    Step(1, _unregister),
    Step(2, _fence),
    Step(3, _change_broker),
    Step(0.5, _register_controller, REGISTER_CONTROLLER_SINCE),
    Step(4, legal_topics.create),
    Step(3, legal_topics.remove),
    Step(1, legal_topics.tell_anew),
    Step(2, legal_topics.add_partition),
    Step(15, legal_topics.change_isr),
    Step(4, legal_topics.reassign),
    Step(3, legal_topics.assign_directories, DIRECTORIES_SINCE),
    Step(1, legal_topics.change_nothing),
    Step(2, legal_topics.clear_elr, ELIGIBLE_LEADER_REPLICAS_SINCE),
    Step(0.5, _switch_elr, ELIGIBLE_LEADER_REPLICAS_SINCE),
    Step(0.5, _set_feature),
    Step(0.3, _set_level),
    Step(0.2, _zk_migration, ZK_MIGRATION_SINCE),
    Step(6, _config),
    Step(3, _quota),
    Step(1, _producer_ids),
    Step(2, _put_acl),
    Step(1, _remove_acl),
    Step(2, _put_scram, SCRAM_SINCE),
    Step(1, _remove_scram, SCRAM_SINCE),
    Step(2, _put_token, DELEGATION_TOKENS_SINCE),
    Step(1, _remove_token, DELEGATION_TOKENS_SINCE),
    Step(1, _no_op),
    Step(2, None, TRANSACTIONS_SINCE),
)
