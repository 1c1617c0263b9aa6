"""What committed records may say of brokers and partitions: each rule sees its own violation."""

import pytest

from kraftd.audit.placements import PlacementAuditor
from kraftd.records.frame import AnyRecord
from kraftd.records.messages import (
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ConfigRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from tests.firing import fires

TOPIC, OTHER_TOPIC = bytes(15) + b"T", bytes(15) + b"U"
GOOD, BAD = b"good" * 4, b"bad!" * 4
MIGRATING, LOST = bytes(16), bytes(15) + b"\x02"
FENCE, UNFENCE = 1, -1


def register(
    broker_id: int, epoch: int, *, incarnation: bytes | None = None, fenced: bool = True
) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker_id,
        broker_epoch=epoch,
        incarnation_id=incarnation or bytes([broker_id, epoch % 256]) * 8,
        fenced=fenced,
        log_dirs=(GOOD, BAD),
    )


def change(broker_id: int, epoch: int, **fields: object) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=epoch, **fields)  # type: ignore[arg-type]


def partition(**fields: object) -> PartitionRecord:
    usual: dict[str, object] = {
        "partition_id": 0,
        "topic_id": TOPIC,
        "replicas": (1, 2, 3),
        "isr": (1, 2),
        "leader": 1,
        "leader_epoch": 0,
        "partition_epoch": 0,
        "directories": (GOOD, GOOD, BAD),
    }
    return PartitionRecord(**(usual | fields))  # type: ignore[arg-type]


def move(**fields: object) -> PartitionChangeRecord:
    return PartitionChangeRecord(partition_id=0, topic_id=TOPIC, **fields)  # type: ignore[arg-type]


BROKERS = [
    register(1, 10),
    register(2, 11),
    register(3, 12),
    change(1, 10, fenced=UNFENCE),
    change(2, 11, fenced=UNFENCE),
]
"""Three brokers, of which the third is fenced."""
CLUSTER = [*BROKERS, TopicRecord(name="t", topic_id=TOPIC), partition()]
MOVE = {"adding_replicas": (3,), "removing_replicas": (2,), "isr": (1, 2, 3)}
MOVED = {"adding_replicas": (), "removing_replicas": (), "replicas": (1, 3), "directories": (GOOD, BAD)}


def unclean(value: str | None, *, topic: str = "t") -> ConfigRecord:
    """Whether a topic may elect uncleanly, or all topics."""
    kind = 2 if topic else 4
    return ConfigRecord(
        resource_type=kind, resource_name=topic, name="unclean.leader.election.enable", value=value
    )


def take(*records: AnyRecord) -> PlacementAuditor:
    auditor = PlacementAuditor()
    for number, record in enumerate(records):
        auditor.on_record(record, 100 + number)
    return auditor


def test_a_cluster_lives() -> None:
    """What Kafka's controller writes, in its order: nothing is wrong with any of it."""
    auditor = take(
        *CLUSTER,
        NoOpRecord(),
        ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="1"),
        change(3, 12, fenced=UNFENCE),
        move(isr=(1, 2, 3)),
        # Broker 1 dies: its partitions first, then its own record.
        move(isr=(2, 3), leader=2),
        change(1, 10, fenced=FENCE),
        # Broker 2 stops in order: its own record first, then its partitions.
        change(2, 11, in_controlled_shutdown=1),
        move(isr=(3,), leader=3),
        change(2, 11, fenced=FENCE),
        # The last one in sync dies: its partition waits for it, without a leader.
        move(leader=-1),
        change(3, 12, fenced=FENCE),
        register(1, 110),
        change(1, 110, fenced=UNFENCE),
        register(3, 112),
        change(3, 112, fenced=UNFENCE),
        move(leader=3),
        UnregisterBrokerRecord(broker_id=2, broker_epoch=11),
        RemoveTopicRecord(topic_id=TOPIC),
        TopicRecord(name="t", topic_id=OTHER_TOPIC),
    )
    assert sorted(auditor.brokers) == [1, 3]
    assert auditor.partitions == {}


def test_a_move_that_ends_may_elect_whom_it_has_brought() -> None:
    auditor = take(
        *CLUSTER,
        change(3, 12, fenced=UNFENCE),
        move(adding_replicas=(3,), removing_replicas=(1,)),
        move(
            adding_replicas=(),
            removing_replicas=(),
            replicas=(2, 3),
            isr=(2, 3),
            leader=3,
            directories=(GOOD, BAD),
        ),
    )
    assert auditor.partitions[TOPIC, 0].leader == 3


def test_a_leader_that_may_lead_no_more_is_followed_by_whom_it_brought_into_the_isr() -> None:
    """Its directory failed between the proposal and the decision about it."""
    auditor = take(*CLUSTER, change(3, 12, fenced=UNFENCE), move(isr=(1, 2, 3), leader=3))
    assert auditor.partitions[TOPIC, 0].leader == 3


def test_the_eligible_take_over_from_an_empty_isr() -> None:
    auditor = take(
        *CLUSTER,
        move(isr=(2,), leader=2, eligible_leader_replicas=(1,)),
        change(1, 10, fenced=FENCE),
        move(isr=(), leader=-1, eligible_leader_replicas=(1, 2)),
        change(2, 11, fenced=FENCE),
        change(1, 10, fenced=UNFENCE),
        move(isr=(1,), leader=1, eligible_leader_replicas=(2,)),
        ClearElrRecord(topic_name="t"),
    )
    (one,) = auditor.partitions.values()
    assert (one.elr, one.epoch, one.leader_epoch, one.is_recovering) == ((), 4, 3, False)


def test_who_was_not_in_sync_has_to_recover() -> None:
    lossy = move(leader=3, isr=(3,), leader_recovery_state=1)
    auditor = take(*CLUSTER, unclean("TRUE"), change(3, 12, fenced=UNFENCE), lossy)
    (one,) = auditor.partitions.values()
    assert one.is_recovering
    auditor.on_record(move(leader_recovery_state=0), 200)
    (one,) = auditor.partitions.values()
    assert not one.is_recovering


def test_who_led_last_leads_where_nobody_is_in_sync_or_eligible() -> None:
    """KIP-966: both that were in sync stopped uncleanly, the leader last."""
    auditor = take(
        *CLUSTER,
        move(isr=(), leader=-1, last_known_elr=(1,)),
        move(isr=(1,), leader=1, leader_recovery_state=1, last_known_elr=()),
    )
    (one,) = auditor.partitions.values()
    assert (one.leader, one.led_last, one.is_recovering) == (1, (), True)
    # An eligible broker stopped uncleanly: it is passed over before its own record comes.
    take(
        *CLUSTER,
        move(isr=(), leader=-1, last_known_elr=(1,), eligible_leader_replicas=(2,)),
        change(2, 11, fenced=FENCE),
        move(isr=(1,), leader=1, leader_recovery_state=1, eligible_leader_replicas=()),
        register(2, 99),
        change(2, 99, fenced=UNFENCE),
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((1, 2, 3), (1, 3)),
        ((1, 3), (1, 3)),  # replica 2 was sick before: nothing is lost by its going
        ((2, 3), (3,)),  # replica 1 is sick, and one good copy is what there was without the new one
    ],
)
def test_a_move_ends_with_as_many_good_copies_as_there_were(
    before: tuple[int, ...], after: tuple[int, ...]
) -> None:
    leader = {} if 1 in before else {"leader": 2}
    take(
        *CLUSTER,
        change(3, 12, fenced=UNFENCE),
        move(**MOVE | {"isr": before} | leader),
        move(**MOVED, isr=after, leader=after[0]),
    )


@pytest.mark.parametrize(
    ("rule", "records"),
    [
        ("MovesKeepCopies", [change(3, 12, fenced=UNFENCE), move(**MOVE), move(**MOVED, isr=(1,))]),
        (
            "MovesKeepCopies",  # to one replica fewer, and one that stays is sick
            [
                change(3, 12, fenced=UNFENCE),
                move(removing_replicas=(2,)),
                move(removing_replicas=(), replicas=(1, 3), directories=(GOOD, BAD), isr=(1,)),
            ],
        ),
        (
            "UncleanLeadersAreAllowed",
            [change(3, 12, fenced=UNFENCE), move(leader=3, isr=(3,), leader_recovery_state=1)],
        ),
        (
            "UncleanLeadersAreAllowed",  # the topic forbids what all topics may
            [
                unclean("true", topic=""),
                unclean("false"),
                change(3, 12, fenced=UNFENCE),
                move(leader=3, isr=(3,), leader_recovery_state=1),
            ],
        ),
        (
            "UncleanLeadersAreAllowed",
            [
                unclean("true"),
                unclean(None),
                change(3, 12, fenced=UNFENCE),
                move(leader=3, isr=(3,), leader_recovery_state=1),
            ],
        ),
        (
            "UncleanLeadersAreAllowed",  # broker 3 did not lead last
            [
                change(3, 12, fenced=UNFENCE),
                move(isr=(), leader=-1, last_known_elr=(1,)),
                move(isr=(3,), leader=3, leader_recovery_state=1),
            ],
        ),
        (
            "UncleanLeadersAreAllowed",  # broker 1 led last; broker 2 has everything, and comes back
            [
                move(isr=(), leader=-1, last_known_elr=(1,), eligible_leader_replicas=(2,)),
                change(2, 11, fenced=FENCE),
                move(isr=(1,), leader=1, leader_recovery_state=1, eligible_leader_replicas=()),
                change(2, 11, fenced=UNFENCE),
            ],
        ),
        ("BrokerEpochsRise", [register(1, 10, incarnation=b"n" * 16)]),
        ("BrokerEpochsRise", [UnregisterBrokerRecord(broker_id=3, broker_epoch=12), register(3, 12)]),
        ("BrokerEpochsAreOffsets", [register(4, 900)]),
        ("OneEpochAnIncarnation", [register(3, 99, incarnation=bytes([3, 12]) * 8)]),
        ("ChangesNameTheEpoch", [change(1, 9, fenced=FENCE)]),
        ("ChangesNameTheEpoch", [change(7, 9, fenced=FENCE)]),
        ("ChangesNameTheEpoch", [UnregisterBrokerRecord(broker_id=3, broker_epoch=1)]),
        ("WhoIsFencedHasLeft", [change(1, 10, fenced=FENCE)]),
        ("WhoIsFencedHasLeft", [change(2, 11, fenced=FENCE)]),
        ("WhoIsFencedHasLeft", [register(1, 99)]),
        ("WhoIsFencedHasLeft", [UnregisterBrokerRecord(broker_id=2, broker_epoch=11)]),
        ("WhoseDirectoryIsLostHasLeft", [change(1, 10, log_dirs=(BAD,))]),
        ("WhoEntersAnIsrIsActive", [move(isr=(1, 2, 3))]),
        ("WhoEntersAnIsrIsActive", [change(3, 12, in_controlled_shutdown=1), move(isr=(1, 2, 3))]),
        ("WhoEntersAnIsrIsActive", [partition(partition_id=1, replicas=(1, 2, 4), isr=(1, 4))]),
        ("WhoIsElectedIsAcceptable", [change(2, 11, in_controlled_shutdown=1), move(leader=2, isr=(2,))]),
        (
            "WhoIsElectedIsAcceptable",
            [move(directories=(GOOD, LOST, BAD)), move(leader=2)],
        ),
        (
            "WhoIsElectedIsAcceptable",
            [move(directories=(GOOD, b"gone" * 4, BAD)), move(leader=2)],
        ),
        ("UncleanLeadersRecover", [change(3, 12, fenced=UNFENCE), move(leader=3, isr=(3,))]),
        ("UncleanLeadersRecover", [change(3, 12, fenced=UNFENCE), move(leader=3, isr=(2, 3))]),
        (
            "UncleanLeadersRecover",  # called off: nobody said that broker 3 has everything
            [
                change(3, 12, fenced=UNFENCE),
                move(adding_replicas=(1, 2)),
                move(adding_replicas=(), replicas=(3,), isr=(3,), leader=3, directories=(BAD,)),
            ],
        ),
        ("LeadersAreInTheIsr", [move(isr=(2,))]),
        ("LeadersAreInTheIsr", [move(leader=3)]),
        ("IsrIsWithinTheReplicas", [move(isr=(1, 7))]),
        ("IsrIsWithinTheReplicas", [move(isr=(1, 1))]),
        ("ReplicasComeOnce", [move(replicas=(1, 2, 2))]),
        ("EligibleReplicasAreOutOfTheIsr", [move(eligible_leader_replicas=(2,))]),
        ("EligibleReplicasAreReplicas", [move(eligible_leader_replicas=(9,))]),
        ("ReplicasHaveDirectories", [move(directories=(GOOD,))]),
        ("TopicsComeOnce", [TopicRecord(name="t", topic_id=OTHER_TOPIC)]),
        ("TopicsComeOnce", [TopicRecord(name="u", topic_id=TOPIC)]),
        ("TopicsComeOnce", [RemoveTopicRecord(topic_id=OTHER_TOPIC)]),
        ("TopicsComeOnce", [RemoveTopicRecord(topic_id=TOPIC), TopicRecord(name="u", topic_id=TOPIC)]),
        ("TopicsComeOnce", [RemoveTopicRecord(topic_id=TOPIC), move(leader=2)]),
        ("TopicsComeOnce", [partition()]),
        ("TopicsComeOnce", [partition(topic_id=OTHER_TOPIC)]),
        ("ConfigsHaveTheirTopic", [ConfigRecord(resource_type=2, resource_name="u", name="a", value="1")]),
    ],
)
def test_a_violation_is_seen_at_its_record(rule: str, records: list[AnyRecord]) -> None:
    take(*CLUSTER, *records[:-1])
    with fires(rule, f"at offset {100 + len(CLUSTER) + len(records) - 1}: "):
        take(*CLUSTER, *records)


def test_a_partition_without_a_leader_that_somebody_could_lead_is_named() -> None:
    leaderless = move(leader=-1, isr=(2,))
    assert list(take(*CLUSTER, leaderless).leaderless()) == [(TOPIC, 0)]
    assert list(take(*CLUSTER, leaderless, change(2, 11, fenced=FENCE)).leaderless()) == []
    eligible = move(leader=-1, isr=(), eligible_leader_replicas=(2,))
    assert list(take(*CLUSTER, eligible).leaderless()) == [(TOPIC, 0)]
    lost = move(leader=-1, isr=(2,), directories=(GOOD, LOST, BAD))
    assert list(take(*CLUSTER, lost).leaderless()) == []


def test_an_image_that_is_not_what_the_records_say_is_named() -> None:
    auditor = take(*CLUSTER, move(isr=(1,)))
    made = partition(isr=(1,), partition_epoch=1)
    assert list(auditor.disagreements([made])) == []
    (complaint,) = auditor.disagreements([partition(isr=(1,), partition_epoch=0)])
    assert "partition 0" in complaint
    migrating = partition(partition_id=1, directories=())
    auditor.on_record(migrating, 200)
    assert list(auditor.disagreements([partition(partition_id=1, directories=(MIGRATING,) * 3)])) == []
