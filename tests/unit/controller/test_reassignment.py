"""AlterPartitionReassignments, case by case: what a request leads to, and what comes of it.

`tests/interop/test_reassignments_like_kafka.py` compares random requests with Kafka's own managers.
"""

import pytest

from kraftd.controller.partitions.electing import elect_leaders
from kraftd.controller.partitions.in_sync import alter_partition
from kraftd.controller.partitions.listing import list_partition_reassignments
from kraftd.controller.partitions.reassignment import (
    ALTER_PARTITION_REASSIGNMENTS,
    alter_partition_reassignments,
)
from kraftd.errors import ErrorCode
from kraftd.metadata.parts.topics import TOPICS
from kraftd.metadata.parts.topics.partitions import MIGRATING, UNASSIGNED
from kraftd.protocol.messages import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsRequestReassignablePartition,
    AlterPartitionReassignmentsRequestReassignableTopic,
    AlterPartitionRequest,
    AlterPartitionRequestBrokerState,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    ElectLeadersRequest,
    ElectLeadersRequestTopicPartitions,
    ListPartitionReassignmentsRequest,
)
from kraftd.records.messages import ConfigRecord, PartitionChangeRecord
from tests.unit.controller.cluster import FENCE, Cluster, decided, directory, epoch_of, led

NONE = ErrorCode.NONE
UNCLEAN = ConfigRecord(2, "t", "unclean.leader.election.enable", "true")


def request(*moves, may_change_factor=True):
    """A request of (topic, partition, replicas)."""
    return AlterPartitionReassignmentsRequest(
        allow_replication_factor_change=may_change_factor,
        topics=tuple(
            AlterPartitionReassignmentsRequestReassignableTopic(
                name, (AlterPartitionReassignmentsRequestReassignablePartition(number, replicas),)
            )
            for name, number, replicas in moves
        ),
    )


class World(Cluster):
    """Five brokers; what is moved is partition 0 of topic t."""

    def __init__(self, *partitions, level=30, elr=False):
        super().__init__(brokers=(1, 2, 3, 4, 5), level=level, elr=elr)
        self.topic_id = self.topic("t", *(partitions or (led((1, 2, 3)),)))

    def ask(self, *moves, may_change_factor=True):
        """The records that moves lead to, which are applied, and the outcome of each."""
        asked = request(*moves, may_change_factor=may_change_factor)
        records, response = alter_partition_reassignments(self.context(1), asked)
        assert (response.error_code, response.error_message) == (NONE, None)
        assert response.allow_replication_factor_change is may_change_factor
        self.apply(*records)
        told = [(topic.name, one) for topic in response.responses for one in topic.partitions]
        assert [(name, one.partition_index) for name, one in told] == [move[:2] for move in moves]
        assert all((one.error_message is None) == (one.error_code == NONE) for _, one in told)
        return records, [ErrorCode(one.error_code) for _, one in told]

    def move(self, *replicas, **how):
        """Move the partition; the records."""
        records, (outcome,) = self.ask(("t", 0, replicas), **how)
        assert outcome is NONE
        return records

    def call_off(self):
        records, (outcome,) = self.ask(("t", 0, None))
        assert outcome is NONE
        return records

    def refused(self, *replicas, **how):
        """Why the partition cannot be moved so."""
        records, (outcome,) = self.ask(("t", 0, replicas), **how)
        assert records == []
        return outcome

    def in_sync(self, *isr):
        """The leader proposes who is in sync; what it is told."""
        now = self.now
        data = AlterPartitionRequestPartitionData(
            leader_epoch=now.leader_epoch,
            partition_epoch=now.partition_epoch,
            new_isr_with_epochs=tuple(AlterPartitionRequestBrokerState(one, epoch_of(one)) for one in isr),
        )
        asked = AlterPartitionRequest(
            now.leader, epoch_of(now.leader), (AlterPartitionRequestTopicData(self.topic_id, (data,)),)
        )
        records, response = decided(alter_partition(self.context(), asked), self.context())
        self.apply(*records)
        return ErrorCode(response.topics[0].partitions[0].error_code)

    @property
    def now(self):
        return self.partition(self.topic_id)

    @property
    def shape(self):
        """The replicas, and those that are added and removed."""
        return self.now.replicas, self.now.adding_replicas, self.now.removing_replicas


def test_a_move_names_who_is_added_and_removed_and_puts_those_last_who_go():
    world = World()
    assert world.move(5, 1, 4) == [
        PartitionChangeRecord(
            partition_id=0,
            topic_id=world.topic_id,
            replicas=(5, 1, 4, 2, 3),
            removing_replicas=(2, 3),
            adding_replicas=(4, 5),
            directories=(directory(5), UNASSIGNED, directory(4), UNASSIGNED, UNASSIGNED),
        )
    ]
    assert (world.now.leader, world.now.isr) == (1, (1, 2, 3))


def test_a_broker_with_several_directories_tells_later_where_its_replica_is():
    world = World()
    world.register(4, (directory(41), directory(42)))
    (record,) = world.move(1, 2, 3, 4)
    assert record.directories[-1] == UNASSIGNED


def test_before_directories_were_known_no_record_names_any():
    world = World(led((1, 2, 3), directories=(MIGRATING,) * 3), level=16)
    (record,) = world.move(1, 2, 4)
    assert record.directories is None
    assert world.now.directories == (MIGRATING,) * 4


def test_a_move_ends_with_the_isr_that_has_all_that_are_added_and_the_leader_hears_of_it():
    world = World()
    world.move(4, 1, 5)
    assert world.in_sync(1, 2, 3, 4) is NONE
    assert world.shape == ((4, 1, 5, 2, 3), (4, 5), (2, 3))
    assert world.in_sync(1, 2, 3, 4, 5) is NONE
    assert world.shape == ((4, 1, 5), (), ())
    assert (world.now.leader, world.now.leader_epoch, world.now.isr) == (1, 4, (1, 4, 5))


def test_a_move_that_leaves_its_leader_out_elects_another_as_it_ends():
    world = World(led((1, 2)))
    world.move(3, 2)
    assert world.in_sync(1, 2, 3) is ErrorCode.NEW_LEADER_ELECTED
    assert (world.shape, world.now.leader, world.now.isr) == (((3, 2), (), ()), 3, (2, 3))


def test_another_sick_replica_does_not_hold_a_move_up():
    """KAFKA-19975: 3 stays, and is out of sync before and after."""
    world = World(led((1, 2, 3), isr=(1, 2)))
    world.move(1, 3, 4)
    world.in_sync(1, 2, 4)
    assert (world.shape, world.now.isr) == (((1, 3, 4), (), ()), (1, 4))


def test_a_move_to_fewer_replicas_waits_for_all_that_stay():
    """KAFKA-15665: or else one replica might be left of three."""
    world = World(led((1, 2, 3), isr=(1, 3)))
    world.move(1, 2)
    assert world.shape == ((1, 2, 3), (), (3,))
    world.in_sync(1, 2, 3)
    assert (world.shape, world.now.isr) == (((1, 2), (), ()), (1, 2))


@pytest.mark.parametrize(
    ("wanted", "isr", "leader"),
    [
        ((3, 2, 1), None, -2),
        ((1, 2), (1, 2), 1),
        ((2, 3), (2, 3), 2),
    ],
)
def test_a_move_for_which_nothing_is_copied_ends_as_it_begins(wanted, isr, leader):
    world = World()
    (record,) = world.move(*wanted)
    assert world.shape == (wanted, (), ())
    assert (record.isr, record.leader) == (isr, leader)
    assert (record.adding_replicas, record.removing_replicas) == (None, None)


def test_what_is_where_it_shall_be_needs_no_record():
    assert World().move(1, 2, 3) == []


def test_a_move_waits_for_who_is_fenced():
    world = World()
    world.change(4, fenced=FENCE)
    world.move(1, 2, 4)
    assert world.shape == ((1, 2, 4, 3), (4,), (3,))


def test_a_move_elects_nobody_who_may_lack_records():
    """The topic may elect uncleanly; a move is no reason for that."""
    world = World(led((1, 2, 3), isr=(1,)))
    world.apply(UNCLEAN)
    world.change(1, fenced=FENCE)
    world.move(2, 3, 4)
    assert (world.now.leader, world.now.isr) == (-1, (1,))


# -- changing


def test_a_move_can_be_changed_and_then_is_what_the_newest_request_says():
    world = World()
    world.move(4, 5, 3)
    assert world.move(1, 2, 5)[0].replicas == (1, 2, 5, 3, 4)
    assert world.shape == ((1, 2, 5, 3, 4), (5,), (3, 4))
    world.in_sync(1, 2, 3, 5)
    assert (world.shape, world.now.isr) == (((1, 2, 5), (), ()), (1, 2, 5))


def test_a_move_that_is_asked_for_twice_is_still_the_first_one():
    """A broker or an admin asks again, because it did not hear the answer."""
    world = World()
    world.move(1, 2, 4)
    assert world.move(1, 2, 4) == []
    assert world.shape == ((1, 2, 4, 3), (4,), (3,))
    world.call_off()
    assert world.shape == ((1, 2, 3), (), ())


def test_a_move_that_is_asked_for_twice_does_not_wait_for_a_sick_replica():
    """KAFKA-19975, which knows by what is added that 2 was sick before."""
    world = World(led((1, 2, 3), isr=(1, 3)))
    world.move(1, 2, 4)
    world.move(1, 2, 4)
    world.in_sync(1, 3, 4)
    assert (world.shape, world.now.isr) == (((1, 2, 4), (), ()), (1, 4))


def test_a_move_that_is_changed_still_waits_for_what_it_goes_on_adding():
    """Kafka knows only of 5 that it is added."""
    world = World()
    world.move(1, 2, 3, 4)
    world.move(1, 2, 3, 4, 5)
    assert world.shape == ((1, 2, 3, 4, 5), (4, 5), ())
    world.in_sync(1, 2, 3, 5)
    assert world.shape == ((1, 2, 3, 4, 5), (4, 5), ())
    world.call_off()
    assert (world.shape, world.now.isr) == (((1, 2, 3), (), ()), (1, 2, 3))


def test_what_a_move_adds_no_more_is_removed():
    world = World()
    world.move(1, 2, 3, 4)
    world.move(1, 2, 3, 5)
    assert world.shape == ((1, 2, 3, 5, 4), (5,), (4,))
    world.in_sync(1, 2, 3, 4, 5)
    assert (world.shape, world.now.isr) == (((1, 2, 3, 5), (), ()), (1, 2, 3, 5))


def test_a_move_that_goes_back_is_over():
    """Kafka goes on waiting for what the first request added, though it is to be removed."""
    world = World()
    world.move(4, 5)
    world.move(1, 2, 3)
    assert (world.shape, world.now.isr) == (((1, 2, 3), (), ()), (1, 2, 3))


def test_a_move_that_an_unclean_election_leaves_is_over_once_it_is_asked_for_again():
    """As in Kafka: whether a move is complete is looked at before the election, which makes it so."""
    offline = led((4, 1), isr=(), leader=-1, adding_replicas=(4,), removing_replicas=(1,))
    world = World(offline, elr=True)
    asked = ElectLeadersRequest(1, (ElectLeadersRequestTopicPartitions("t", (0,)),))
    records, _ = decided(elect_leaders(world.context(), asked), world.context())
    world.apply(*records)
    assert (world.now.leader, world.now.isr, world.shape) == (4, (4,), ((4, 1), (4,), (1,)))
    world.move(4)
    assert (world.now.leader, world.shape) == (4, ((4,), (), ()))


def test_who_was_to_go_and_is_wanted_after_all_stays():
    """Kafka goes on removing it."""
    world = World(led((1, 2)))
    world.move(3, 1)
    world.move(1, 2, 3)
    assert world.shape == ((1, 2, 3), (3,), ())
    world.in_sync(1, 2, 3)
    assert world.shape == ((1, 2, 3), (), ())


# -- calling off


def test_a_move_that_is_called_off_leaves_what_was_there():
    world = World()
    world.move(4, 1, 5)
    world.in_sync(1, 2, 3, 4)
    (record,) = world.call_off()
    assert record == PartitionChangeRecord(
        partition_id=0,
        topic_id=world.topic_id,
        isr=(1, 2, 3),
        leader=1,
        replicas=(1, 2, 3),
        removing_replicas=(),
        adding_replicas=(),
        directories=(UNASSIGNED,) * 3,
    )


def test_who_calls_a_move_off_that_only_reorders_keeps_the_new_order():
    world = World(led((3, 1, 2), isr=(3,), removing_replicas=(2,)))
    world.call_off()
    assert world.shape == ((3, 1, 2), (), ())


def test_nothing_is_called_off_that_is_not_moved():
    world = World()
    assert world.ask(("t", 0, None)) == ([], [ErrorCode.NO_REASSIGNMENT_IN_PROGRESS])


ONLY_ADDED = led((4, 1, 2), isr=(4,), adding_replicas=(4,), removing_replicas=(2,))


def test_calling_off_is_refused_if_only_what_was_added_is_in_sync():
    world = World(ONLY_ADDED)
    assert world.ask(("t", 0, None)) == ([], [ErrorCode.INVALID_REPLICA_ASSIGNMENT])


NOBODY = {"isr": (), "leader": -1, "adding_replicas": (4,), "removing_replicas": (1, 2)}
MAY_LACK = (
    "No replica of partition 0 of t is in sync: who leads without the move may lack records, and the topic "
    "does not allow unclean elections."
)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        (
            {"isr": (4,)},
            (
                "Only replicas that the move has added are in sync for partition 0 of t: without them "
                "records are lost, and the topic does not allow unclean elections. First broker 1 or 2 must "
                "be in sync."
            ),
        ),
        (
            {"eligible_leader_replicas": (2,), "last_known_elr": (1,)},
            f"{MAY_LACK} Once broker 2 is up and leads, the move can be called off.",
        ),
        (
            {"eligible_leader_replicas": (1, 2, 4)},
            f"{MAY_LACK} Once broker 1 or 2 is up and leads, the move can be called off.",
        ),
        ({"last_known_elr": (1,)}, f"{MAY_LACK} Once broker 1 is up and leads, the move can be called off."),
        ({"eligible_leader_replicas": (4,)}, MAY_LACK),
        ({}, MAY_LACK),
    ],
)
def test_why_a_move_is_not_called_off_is_what_is_so_and_says_what_helps(fields, says):
    world = World(led((4, 1, 2), **(NOBODY | fields)), elr=True)
    _, response = alter_partition_reassignments(world.context(1), request(("t", 0, None)))
    assert response.responses[0].partitions[0].error_message == says


def test_once_who_is_eligible_leads_the_move_is_called_off():
    world = World(led((4, 1, 2), **NOBODY, eligible_leader_replicas=(2,)), elr=True)
    _, outcomes = world.ask(("t", 0, None))
    assert outcomes == [ErrorCode.INVALID_REPLICA_ASSIGNMENT]
    world.apply(PartitionChangeRecord(0, world.topic_id, (2,), 2, eligible_leader_replicas=()))
    world.call_off()
    assert (world.shape, world.now.leader) == (((1, 2), (), ()), 2)


def test_a_topic_that_may_lose_records_is_led_by_the_first_that_is_left():
    world = World(ONLY_ADDED)
    world.apply(UNCLEAN)
    world.call_off()
    assert (world.shape, world.now.leader, world.now.isr) == (((1, 2), (), ()), 1, (1,))


def test_a_topic_that_may_lose_records_is_led_by_anybody_who_is_there():
    world = World(ONLY_ADDED)
    world.apply(UNCLEAN)
    world.change(1, fenced=FENCE)
    world.call_off()
    assert (world.now.leader, world.now.isr, world.now.leader_recovery_state) == (2, (2,), 1)


def test_calling_off_leaves_no_partition_without_replicas():
    world = World(led((4,), adding_replicas=(4,)))
    world.apply(UNCLEAN)
    assert world.ask(("t", 0, None)) == ([], [ErrorCode.INVALID_REPLICA_ASSIGNMENT])


# -- what is refused


@pytest.mark.parametrize("replicas", [(), (1, 1), (1, 9), (-1,), (1, 2, 3, 1)])
def test_replicas_that_cannot_be_are_refused(replicas):
    assert World().refused(*replicas) is ErrorCode.INVALID_REPLICA_ASSIGNMENT


@pytest.mark.parametrize("where", [("nothing", 0), ("t", 7), ("t", -1), ("", 0)])
@pytest.mark.parametrize("replicas", [(1, 2), None, ()])
def test_what_does_not_exist_is_not_moved(where, replicas):
    assert World().ask((*where, replicas)) == ([], [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])


def test_the_number_of_replicas_stays_if_the_request_says_so():
    refused = ErrorCode.INVALID_REPLICATION_FACTOR
    assert World().refused(1, 2, may_change_factor=False) is refused
    assert World().refused(1, 2, 3, 4, may_change_factor=False) is refused
    assert World().move(1, 2, 4, may_change_factor=False)


def test_of_a_partition_that_is_moved_those_count_that_it_shall_have():
    world = World()
    world.move(4, 5, 1)
    assert world.refused(4, 5, 1, 2, 3, may_change_factor=False) is ErrorCode.INVALID_REPLICATION_FACTOR
    assert world.move(1, 2, 5, may_change_factor=False)
    world.move(1, 2, 4, 5)
    assert world.refused(1, 2, 5, may_change_factor=False) is ErrorCode.INVALID_REPLICATION_FACTOR


def test_replicas_that_cannot_be_are_told_before_their_number():
    assert World().refused(9, may_change_factor=False) is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_partitions_are_moved_and_refused_by_themselves_in_the_order_of_the_request():
    world = World(led((1, 2)), led((2, 3)), led((3, 4)))
    records, outcomes = world.ask(
        ("t", 2, (3, 5)), ("t", 1, None), ("nothing", 0, (1,)), ("t", 0, (4, 5)), ("t", 1, (9,))
    )
    assert [one.partition_id for one in records] == [2, 0]
    assert outcomes == [
        NONE,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        NONE,
        ErrorCode.INVALID_REQUEST,
    ]


def test_a_partition_that_is_named_twice_stays():
    world = World()
    records, outcomes = world.ask(("t", 0, (4, 5)), ("t", 0, (4, 5)))
    assert (records, outcomes) == ([], [ErrorCode.INVALID_REQUEST] * 2)


def test_a_request_about_nothing_is_answered_without_what_it_allows():
    asked = request(may_change_factor=False)
    records, told = alter_partition_reassignments(World().context(1), asked)
    assert records == []
    assert (told.error_code, told.responses, told.allow_replication_factor_change) == (NONE, (), True)


def test_a_refusal_is_told_of_the_request_and_of_each_partition():
    asked = request(("t", 0, (1,)), ("u", 3, None), may_change_factor=False)
    told = ALTER_PARTITION_REASSIGNMENTS.refuse(asked, ErrorCode.NOT_CONTROLLER, "not here")
    assert (told.error_code, told.error_message) == (ErrorCode.NOT_CONTROLLER, "not here")
    assert told.allow_replication_factor_change is True, "whatever the request says, as in Kafka"
    assert [
        (topic.name, one.partition_index, one.error_code)
        for topic in told.responses
        for one in topic.partitions
    ] == [
        ("t", 0, ErrorCode.NOT_CONTROLLER),
        ("u", 3, ErrorCode.NOT_CONTROLLER),
    ]


def test_more_than_one_response_can_tell_of_is_refused_as_a_whole():
    asked = AlterPartitionReassignmentsRequest(
        topics=(
            AlterPartitionReassignmentsRequestReassignableTopic(
                "t", (AlterPartitionReassignmentsRequestReassignablePartition(0, (1,)),) * 16_000
            ),
        )
    )
    records, response = alter_partition_reassignments(World().context(1), asked)
    assert (records, response.error_code) == ([], ErrorCode.POLICY_VIOLATION)
    assert 10_000 < len(response.responses[0].partitions) < 11_000


def test_what_is_moved_is_listed_until_it_has_arrived():
    world = World()
    listed = ListPartitionReassignmentsRequest(topics=None)
    world.move(4, 2, 3)
    (topic,) = list_partition_reassignments(world.image, listed).topics
    (one,) = topic.partitions
    assert (one.replicas, one.adding_replicas, one.removing_replicas) == ((4, 2, 3, 1), (4,), (1,))
    world.in_sync(1, 2, 3, 4)
    assert list_partition_reassignments(world.image, listed).topics == ()
    assert world.image[TOPICS].partition(world.topic_id, 0).replicas == (4, 2, 3)
