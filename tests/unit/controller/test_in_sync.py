"""AlterPartition: which proposals of a leader are taken, what it is told, what becomes of the partition."""

import pytest

from kraftd.controller.partitions.in_sync import alter_partition
from kraftd.controller.plans import SLICE_RECORDS
from kraftd.errors import ErrorCode
from kraftd.protocol.messages import (
    AlterPartitionRequest,
    AlterPartitionRequestBrokerState,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
)
from kraftd.records.messages import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
)
from kraftd.types import ZERO_UUID
from tests.unit.controller.cluster import FENCE, STOP, Cluster, decided, epoch_of, led

LEADER = 1


def proposal(number=0, isr=(1, 2, 3), *, epochs=None, leader_epoch=3, partition_epoch=5, recovery=0):
    """For a partition as `led` makes it."""
    known = {broker: epoch_of(broker) for broker in isr} | (epochs or {})
    return AlterPartitionRequestPartitionData(
        partition_index=number,
        leader_epoch=leader_epoch,
        new_isr=isr,
        new_isr_with_epochs=tuple(AlterPartitionRequestBrokerState(one, known[one]) for one in isr),
        leader_recovery_state=recovery,
        partition_epoch=partition_epoch,
    )


def request(topic, *partitions, sender=LEADER, epoch=None):
    epoch = epoch_of(sender) if epoch is None else epoch
    return AlterPartitionRequest(sender, epoch, (AlterPartitionRequestTopicData(topic, partitions),))


def sent(cluster, asked, version=3):
    """The records and the response."""
    context = cluster.context(version)
    return decided(alter_partition(context, asked), context)


def ask(cluster, topic, *partitions, version=3, sender=LEADER):
    """The records, and what is told of each partition."""
    records, response = sent(cluster, request(topic, *partitions, sender=sender), version)
    assert response.error_code == ErrorCode.NONE
    (told,) = response.topics
    assert told.topic_id == topic
    return records, list(told.partitions)


def refused(cluster, topic, partition, version=3, sender=LEADER):
    records, (told,) = ask(cluster, topic, partition, version=version, sender=sender)
    assert records == []
    assert told == AlterPartitionResponsePartitionData(partition.partition_index, told.error_code)
    return ErrorCode(told.error_code)


@pytest.fixture
def cluster():
    return Cluster(brokers=(1, 2, 3, 4))


@pytest.fixture
def topic(cluster):
    return cluster.topic("a", led((1, 2, 3), isr=(1, 2)), led((1, 2, 3)))


@pytest.mark.parametrize("version", [2, 3])
def test_an_isr_grows_and_shrinks_as_its_leader_says(cluster, topic, version):
    records, told = ask(cluster, topic, proposal(0), proposal(1, (1, 3)), version=version)
    assert records == [
        PartitionChangeRecord(0, topic, isr=(1, 2, 3)),
        PartitionChangeRecord(1, topic, isr=(1, 3)),
    ]
    assert told == [
        AlterPartitionResponsePartitionData(0, 0, 1, 3, (1, 2, 3), 0, 6),
        AlterPartitionResponsePartitionData(1, 0, 1, 3, (1, 3), 0, 6),
    ]
    cluster.apply(*records)
    assert (cluster.partition(topic).isr, cluster.partition(topic).partition_epoch) == ((1, 2, 3), 6)


def test_what_changes_nothing_is_told_and_writes_nothing(cluster, topic):
    assert ask(cluster, topic, proposal(0, (1, 2))) == (
        [],
        [AlterPartitionResponsePartitionData(0, 0, 1, 3, (1, 2), 0, 5)],
    )


def test_a_recovered_leader_says_so(cluster):
    topic = cluster.topic("a", led((1, 2), isr=(1,), leader_recovery_state=1))
    records, (told,) = ask(cluster, topic, proposal(0, (1, 2)))
    assert records == [PartitionChangeRecord(0, topic, isr=(1, 2), leader_recovery_state=0)]
    assert told.leader_recovery_state == 0


@pytest.mark.parametrize(
    ("partition", "error"),
    [
        (proposal(leader_epoch=4), ErrorCode.NOT_CONTROLLER),
        (proposal(partition_epoch=6), ErrorCode.NOT_CONTROLLER),
        (proposal(leader_epoch=4, partition_epoch=4), ErrorCode.NOT_CONTROLLER),
        (proposal(leader_epoch=2, partition_epoch=6), ErrorCode.NOT_CONTROLLER),
        (proposal(leader_epoch=2), ErrorCode.FENCED_LEADER_EPOCH),
        (proposal(partition_epoch=4), ErrorCode.INVALID_UPDATE_VERSION),
        (proposal(isr=(1, 2, 4)), ErrorCode.INVALID_REQUEST),
        (proposal(isr=(1, 2, 2)), ErrorCode.INVALID_REQUEST),
        (proposal(isr=()), ErrorCode.INVALID_REQUEST),
        (proposal(isr=(2, 3)), ErrorCode.INVALID_REQUEST),
        (proposal(isr=(1, 2), recovery=1), ErrorCode.INVALID_REQUEST),
        (proposal(isr=(1,), recovery=1), ErrorCode.INVALID_REQUEST),
        (proposal(isr=(1,), recovery=7), ErrorCode.INVALID_REQUEST),
        (proposal(isr=(1,), recovery=-1), ErrorCode.INVALID_REQUEST),
        (proposal(9), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_a_proposal_that_cannot_be_is_told_why(cluster, topic, partition, error):
    assert refused(cluster, topic, partition) is error


@pytest.mark.parametrize("partition_epoch", [4, 5])
def test_only_the_leader_may_ask(cluster, topic, partition_epoch):
    """Who does not lead is not told to try again with a newer partition epoch."""
    asked = proposal(partition_epoch=partition_epoch)
    assert refused(cluster, topic, asked, sender=2) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("topic_id", [ZERO_UUID, b"?" * 16])
def test_a_topic_that_is_not_there(cluster, topic_id):
    assert refused(cluster, topic_id, proposal()) is ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(
    "what", [{"fenced": FENCE}, {"in_controlled_shutdown": STOP}, None], ids=["fenced", "stopping", "unknown"]
)
def test_who_is_not_active_does_not_enter_an_isr(cluster, version, what):
    topic = cluster.topic("a", led((1, 2, 9), isr=(1, 2)))
    if what is not None:
        cluster.register(9)
        cluster.apply(BrokerRegistrationChangeRecord(broker_id=9, broker_epoch=epoch_of(9), **what))
    assert refused(cluster, topic, proposal(isr=(1, 2, 9)), version) is ErrorCode.INELIGIBLE_REPLICA


@pytest.mark.parametrize("version", [2, 3])
def test_a_broker_with_a_negative_id_is_never_in_sync(cluster, version):
    cluster.apply(RegisterBrokerRecord(-1, incarnation_id=b"n" * 16, broker_epoch=epoch_of(-1)))
    topic = cluster.topic("a", led((1, 2, -1), isr=(1, 2)))
    assert refused(cluster, topic, proposal(isr=(1, 2, -1)), version) is ErrorCode.INVALID_REQUEST


def test_another_incarnation_than_the_one_that_caught_up_does_not_enter_an_isr(cluster, topic):
    assert refused(cluster, topic, proposal(epochs={3: 29})) is ErrorCode.INELIGIBLE_REPLICA
    assert refused(cluster, topic, proposal(epochs={3: 31})) is ErrorCode.INELIGIBLE_REPLICA
    records, _ = ask(cluster, topic, proposal(epochs={3: -1}))
    assert len(records) == 1, "the leader does not know the epoch: nothing to compare"
    records, _ = ask(cluster, topic, proposal(epochs={3: 29}), version=2)
    assert len(records) == 1, "version 2 knows no epochs"


@pytest.mark.parametrize("epoch", [9, 11])
def test_a_broker_of_another_epoch_is_told_so_at_once(cluster, topic, epoch):
    records, response = sent(cluster, request(topic, proposal(), epoch=epoch))
    assert (records, response) == ([], AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    _, response = sent(cluster, request(topic, proposal(), sender=8))
    assert response.error_code == ErrorCode.STALE_BROKER_EPOCH


@pytest.mark.parametrize(("sender", "epoch"), [(1, 9), (8, 10), (-1, -1)])
def test_who_asks_about_nothing_is_not_asked_for_its_epoch(cluster, sender, epoch):
    nothing = AlterPartitionRequest(broker_id=sender, broker_epoch=epoch)
    assert sent(cluster, nothing) == ([], AlterPartitionResponse())


def test_an_isr_that_completes_a_reassignment_may_end_the_leadership_of_who_asked(cluster):
    topic = cluster.topic(
        "a",
        led((2, 3, 1), isr=(1,), leader=1, adding_replicas=(2, 3), removing_replicas=(1,)),
        led((1, 3, 2), isr=(1,), leader=1, adding_replicas=(3,), removing_replicas=(2,)),
    )
    records, told = ask(cluster, topic, proposal(0, (1, 2, 3)), proposal(1, (1, 3)))
    assert told[0] == AlterPartitionResponsePartitionData(0, ErrorCode.NEW_LEADER_ELECTED)
    assert told[1] == AlterPartitionResponsePartitionData(1, 0, 1, 4, (1, 3), 0, 6)
    cluster.apply(*records)
    done = cluster.partition(topic)
    assert (done.replicas, done.isr, done.leader, done.adding_replicas) == ((2, 3), (2, 3), 2, ())
    assert cluster.partition(topic, 1).replicas == (1, 3)


def test_a_long_request_is_decided_in_slices_each_on_the_newest_image(cluster):
    count = 2 * SLICE_RECORDS + 100
    topic = cluster.topic("a", *[led((1, 2, 3), isr=(1, 2))] * count)
    plan = alter_partition(cluster.context(), request(topic, *map(proposal, range(count))))
    sizes = []
    is_last = False
    while not is_last:
        records, is_last = plan.advance(cluster.context())
        sizes.append(len(records))
        cluster.apply(*records)
        if len(sizes) == 1:
            cluster.apply(PartitionChangeRecord(count - 1, topic, isr=(1,), leader=1))
    assert sizes == [SLICE_RECORDS, SLICE_RECORDS, 99]
    (told,) = plan.response().topics
    assert [one.partition_index for one in told.partitions] == list(range(count))
    assert {one.error_code for one in told.partitions[:-1]} == {ErrorCode.NONE}
    assert told.partitions[-1].error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_who_is_registered_anew_in_the_middle_of_a_long_request_is_told(cluster):
    topic = cluster.topic("a", *[led((1, 2, 3), isr=(1, 2))] * (SLICE_RECORDS + 1))
    plan = alter_partition(cluster.context(), request(topic, *map(proposal, range(SLICE_RECORDS + 1))))
    cluster.apply(*plan.advance(cluster.context())[0])
    cluster.register(1, epoch=99)
    assert plan.advance(cluster.context()) == ([], True)
    assert plan.response() == AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
