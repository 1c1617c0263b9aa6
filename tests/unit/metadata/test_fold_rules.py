"""Rules of the fold that a short log shows best, each with the state that a careless fold would leave."""

import msgspec

from kraftd.metadata.image import EMPTY
from kraftd.metadata.image_builder import apply_all
from kraftd.metadata.parts.controllers import CONTROLLERS
from kraftd.metadata.parts.topics import TOPICS
from kraftd.records import messages as m

ID, D = b"T" * 16, b"D" * 16
TOPIC = m.TopicRecord("t", ID)
PARTITION = m.PartitionRecord(
    0, ID, (1, 2), (1,), leader=1, leader_epoch=0, partition_epoch=0, directories=(D, D)
)


def with_(**fields):
    return msgspec.structs.replace(PARTITION, **fields)


def partition_after(made, *records):
    return apply_all(EMPTY, [TOPIC, made, *records], 0)[TOPICS].partition(ID, 0)


def test_a_controller_that_registers_again_is_what_it_said_last():
    first, second = (m.RegisterControllerRecord(1, incarnation_id=bytes([n]) * 16) for n in (1, 2))
    image = apply_all(EMPTY, [first, second], 0)
    assert image[CONTROLLERS].get(1).incarnation_id == second.incarnation_id
    assert image == apply_all(EMPTY, [second], 0)


def test_a_controller_says_whether_it_is_ready_to_migrate():
    for ready in (True, False):
        image = apply_all(EMPTY, [m.RegisterControllerRecord(1, zk_migration_ready=ready)], 0)
        assert image[CONTROLLERS].get(1).zk_migration_ready is ready


def test_the_last_known_elr_is_cleared_where_nobody_else_is_eligible():
    after = partition_after(with_(last_known_elr=(2,)), m.ClearElrRecord())
    assert after == with_(partition_epoch=1)


def test_clearing_changes_no_partition_where_nobody_was_eligible():
    recovering = with_(leader_recovery_state=1)
    assert partition_after(recovering, m.ClearElrRecord()) == recovering


def test_nobody_eligible_is_said_in_one_way_only():
    silent = apply_all(EMPTY, [TOPIC, PARTITION], 0)
    for said in ({"eligible_leader_replicas": ()}, {"last_known_elr": ()}):
        image = apply_all(EMPTY, [TOPIC, with_(**said)], 0)
        assert image[TOPICS].partition(ID, 0) == PARTITION
        assert (image, image.hash()) == (silent, silent.hash())


def test_a_leader_recovers_until_a_record_says_that_it_has():
    recovering = with_(leader_recovery_state=1)
    change = m.PartitionChangeRecord(0, ID, isr=(1, 2))
    assert partition_after(recovering, change).leader_recovery_state == 1
    recovered = msgspec.structs.replace(change, leader_recovery_state=0)
    assert partition_after(recovering, recovered).leader_recovery_state == 0


def test_a_transaction_that_ends_well_leaves_what_it_did():
    image = apply_all(EMPTY, [m.BeginTransactionRecord(), TOPIC, m.EndTransactionRecord()], 0)
    assert image == apply_all(EMPTY, [TOPIC], 0)


def test_the_name_of_a_removed_topic_is_free():
    again = m.TopicRecord("t", b"U" * 16)
    image = apply_all(EMPTY, [TOPIC, PARTITION, m.RemoveTopicRecord(ID), again], 0)
    assert image[TOPICS].id_of("t") == again.topic_id
    assert image == apply_all(EMPTY, [again], 0)
    assert image.hash() == apply_all(EMPTY, [again], 0).hash()


def test_clearing_one_topic_leaves_the_others():
    other = m.TopicRecord("u", b"U" * 16)
    eligible = with_(eligible_leader_replicas=(2,))
    elsewhere = msgspec.structs.replace(eligible, topic_id=other.topic_id)
    image = apply_all(EMPTY, [TOPIC, other, eligible, elsewhere, m.ClearElrRecord("u")], 0)
    assert image[TOPICS].partition(ID, 0) == eligible
    assert image[TOPICS].partition(other.topic_id, 0).eligible_leader_replicas is None
    image = apply_all(image, [m.ClearElrRecord("")], 0)
    assert image[TOPICS].partition(ID, 0) == with_(partition_epoch=1)
