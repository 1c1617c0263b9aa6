"""What differs, in an operator's words: each fact once, what follows from it not, no secret untold."""

from pathlib import Path

import msgspec
import pytest

from kraftd.logtools.finding import find_log
from kraftd.logtools.points import Point
from kraftd.logtools.quorum_facts import QuorumFacts, VoterFacts, quorum_changes
from kraftd.logtools.state import state_at
from kraftd.metadata.image import EMPTY
from kraftd.metadata.image_builder import apply_all
from kraftd.metadata.image_diff import changes
from kraftd.records.frame import AnyRecord
from kraftd.records.messages import (
    AccessControlEntryRecord,
    BrokerRegistrationChangeRecord,
    ClientQuotaRecord,
    ClientQuotaRecordEntityData,
    ConfigRecord,
    DelegationTokenRecord,
    FeatureLevelRecord,
    ProducerIdsRecord,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
    ZkMigrationStateRecord,
)
from tests.unit.logtools.logs import ORDERS, broker, config, moved, orders, partition

BEFORE: tuple[AnyRecord, ...] = (
    FeatureLevelRecord(name="metadata.version", feature_level=25),
    FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1),
    broker(1),
    broker(2),
    TopicRecord(name="orders", topic_id=ORDERS),
    partition(0),
    partition(1),
    config("1000"),
)


def told(*records: AnyRecord, show_secrets: bool = False) -> list[str]:
    before = apply_all(EMPTY, BEFORE, 0)
    after = apply_all(before, records, len(BEFORE))
    return [str(fact) for fact in changes(before, after, show_secrets=show_secrets)]


def quota(value: float, *, remove: bool = False) -> ClientQuotaRecord:
    entity = (
        ClientQuotaRecordEntityData(entity_type="user", entity_name="ann"),
        ClientQuotaRecordEntityData(entity_type="client-id", entity_name=None),
    )
    return ClientQuotaRecord(entity=entity, key="producer_byte_rate", value=value, remove=remove)


ACL = AccessControlEntryRecord(
    id=b"a" * 16,
    resource_type=2,
    resource_name="ord",
    pattern_type=4,
    principal="User:ann",
    host="*",
    operation=3,
    permission_type=3,
)


@pytest.mark.parametrize(
    ("records", "facts"),
    [
        ([], []),
        ([moved(leader=2)], ["partition orders-0 leader moved 1 -> 2"]),
        ([moved(leader=-1)], ["partition orders-0 leader lost, it was 1: offline"]),
        ([moved(leader=1)], ["partition orders-0 leader 1 elected again (epoch 0 -> 1)"]),
        ([moved(isr=(1, 2))], ["partition orders-0 ISR shrank 1,2,3 -> 1,2"]),
        ([moved(isr=(3, 4), replicas=(1, 2, 3, 4), directories=(bytes(16),) * 4)],
            ["partition orders-0 ISR changed 1,2,3 -> 3,4", "partition orders-0 replicas 1,2,3 -> 1,2,3,4"]),
        ([moved(isr=(1,)), moved(isr=(3, 2, 1))], ["partition orders-0 epoch 0 -> 2, nothing else differs"]),
        ([moved(1, eligible_leader_replicas=(3,), isr=(1, 2))],
            ["partition orders-1 ISR shrank 1,2,3 -> 1,2", "partition orders-1 ELR none -> 3"]),
        ([moved(leader=2, leader_recovery_state=1)],
            ["partition orders-0 leader moved 1 -> 2", "partition orders-0 leader recovered -> recovering"]),
        ([partition(2, leader=3)], ["partition orders-2 created on 1,2,3, led by 3"]),
        ([broker(3)], ["broker 3 registered (epoch 1, fenced)"]),
        ([broker(2, epoch=9)], ["broker 2 registered again, it was started anew (epoch 1 -> 9)"]),
        ([UnregisterBrokerRecord(broker_id=2, broker_epoch=1)], ["broker 2 unregistered"]),
        ([BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=1, fenced=-1)], ["broker 1 unfenced"]),
        ([BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=1, in_controlled_shutdown=1)],
            ["broker 1 began a controlled shutdown"]),
        ([RemoveTopicRecord(topic_id=ORDERS)], ["topic orders deleted, with its 2 partitions"]),
        ([RemoveTopicRecord(topic_id=ORDERS), TopicRecord(name="orders", topic_id=b"n" * 16), config("5")],
            ["topic orders deleted, with its 2 partitions", "topic orders created",
             "config retention.ms of topic orders set to 5 (was 1000)"]),
        ([config("5")], ["config retention.ms of topic orders set to 5 (was 1000)"]),
        ([config(None)], ["config retention.ms of topic orders removed (was 1000)"]),
        ([ConfigRecord(resource_type=4, resource_name="", name="log.cleaner.threads", value="2")],
            ["config log.cleaner.threads of cluster set to 2"]),
        ([FeatureLevelRecord(name="metadata.version", feature_level=30)],
            ["feature metadata.version raised 4.0-IV3 -> 4.3-IV0"]),
        ([FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=0)],
            ["feature eligible.leader.replicas.version switched off (was 1)"]),
        ([FeatureLevelRecord(name="group.version", feature_level=1)],
            ["feature group.version switched on at 1"]),
        ([FeatureLevelRecord(name="metadata.version", feature_level=25, unknown_tags=((9, b"x"),))],
            ["feature metadata.version differs in fields that are not shown here"]),
        ([msgspec.structs.replace(broker(1), unknown_tags=((9, b"x"),))],
            ["broker 1 differs in fields that are not shown here"]),
        ([msgspec.structs.replace(config("1000"), unknown_tags=((9, b"x"),))],
            ["config retention.ms of topic orders differs in fields that are not shown here"]),
        ([quota(10)], ["quota producer_byte_rate of client-id <default> user ann set to 10"]),
        ([quota(10), quota(0, remove=True)], []),
        ([ACL], ["acl User:ann ALLOW READ on topic ord* from * created"]),
        ([ACL, RemoveAccessControlEntryRecord(id=ACL.id)], []),
        ([ProducerIdsRecord(next_producer_id=1000)], ["producer ids next is 1000"]),
        ([DelegationTokenRecord(token_id="t1", owner="User:ann")], ["token t1 of User:ann created"]),
        ([ZkMigrationStateRecord(zk_migration_state=2)], ["zk migration state is migration"]),
    ],
)  # fmt: skip
def test_each_change_has_its_words(records: list[AnyRecord], facts: list[str]):
    assert told(*records) == facts


def test_a_secret_is_told_only_on_demand():
    password = ConfigRecord(resource_type=4, resource_name="1", name="ssl.key.password", value="tell nobody")
    stranger = ConfigRecord(resource_type=4, resource_name="1", name="plugin.token", value="nor this")
    scram = UserScramCredentialRecord(name="ann", mechanism=1, salt=b"salt", stored_key=b"k", iterations=4096)
    hidden = told(password, stranger, scram)
    assert hidden == [
        "config plugin.token of broker 1 set to [redacted]",
        "config ssl.key.password of broker 1 set to [redacted]",
        "scram SCRAM-SHA-256 of user ann set",
    ]
    shown = told(password, stranger, scram, show_secrets=True)
    assert "tell nobody" in shown[1]
    assert "nor this" in shown[0]


def test_a_partition_that_moves_between_directories_names_the_brokers():
    first, second = b"d" * 16, b"e" * 16
    [fact] = told(moved(directories=(first, bytes(15) + b"\1", second)))
    assert fact == (
        "partition orders-0 directory of 1 migrating -> ZGRkZGRkZGRkZGRkZGRkZA, "
        "of 2 migrating -> unassigned, of 3 migrating -> ZWVlZWVlZWVlZWVlZWVlZQ"
    )


def test_values_are_there_for_programs():
    before = apply_all(EMPTY, BEFORE, 0)
    after = apply_all(before, [moved(leader=2, isr=(2, 3))], 8)
    leader, isr = changes(before, after)
    assert (leader.entity, leader.name, leader.what) == ("partition", "orders-0", "leader")
    assert (leader.before, leader.after, isr.before, isr.after) == (1, 2, [1, 2, 3], [2, 3])


def test_backwards_a_change_is_undone():
    before = apply_all(EMPTY, BEFORE, 0)
    after = apply_all(before, [RemoveTopicRecord(topic_id=ORDERS)], 8)
    assert [str(fact) for fact in changes(after, before)] == [
        "topic orders created with 2 partitions, replication factor 3",
        "config retention.ms of topic orders set to 1000",
    ]


def test_the_quorum_has_its_words():
    before = QuorumFacts(3, 1, 0, (VoterFacts(1), VoterFacts(2)))
    after = QuorumFacts(5, 3, 1, (VoterFacts(1, b"d" * 16), VoterFacts(3)))
    assert [str(fact) for fact in quorum_changes(before, after)] == [
        "quorum leader moved 1 (epoch 3) -> 3 (epoch 5)",
        "quorum kraft.version 0 -> 1",
        "voter 3 added",
        "voter 2 removed",
    ]
    assert list(quorum_changes(after, after)) == []
    assert str(next(quorum_changes(QuorumFacts(), before))) == "quorum leader elected: 1 (epoch 3)"


def test_between_two_points_of_a_log(tmp_path: Path):
    orders(tmp_path)
    log = find_log(tmp_path)
    before, after = state_at(log, Point("8", offset=8)), state_at(log)
    facts = [*quorum_changes(before.quorum, after.quorum), *changes(before.image, after.image)]
    assert [str(fact) for fact in facts] == [
        "quorum leader moved 1 (epoch 1) -> 2 (epoch 3)",
        "partition orders-0 leader moved 1 -> 2",
        "partition orders-1 ISR shrank 1,2,3 -> 1,2",
    ]
