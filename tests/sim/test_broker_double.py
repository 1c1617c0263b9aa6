"""The double of a broker: it takes what Kafka's would, and notices what Kafka's could not survive."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from kraftd.audit.invariant import Violation
from kraftd.audit.placements import Partition
from kraftd.errors import ErrorCode
from kraftd.metadata.feature_levels import bootstrap_records
from kraftd.metadata.image import MetadataImage
from kraftd.protocol import messages as m
from kraftd.records.batch import encode_batch
from kraftd.records.frame import encode_record
from kraftd.records.messages import ConfigRecord, TopicRecord
from kraftd.records.snapshot import encode_snapshot
from kraftd.types import Offset, OffsetAndEpoch
from tests.sim.admin_clients import AdminClient, Known
from tests.sim.broker_channel import KafkaFrames, names_another_controller
from tests.sim.broker_data import Acknowledged, Data
from tests.sim.broker_log import Folds, MetadataLog
from tests.sim.broker_snapshots import Download
from tests.sim.brokers import BrokerCluster
from tests.sim.electors import PARTITIONS, Elector
from tests.sim.world import Options, World

KEY = (b"T" * 16, 0)


def batch(base_offset: int, epoch: int, name: str = "a") -> bytes:
    record = ConfigRecord(resource_type=4, resource_name="", name=name, value="1")
    return encode_batch(base_offset, epoch, 0, [encode_record(record)])


def nothing(_: Offset, __: MetadataImage) -> None:
    """Nobody listens."""


def test_only_what_is_committed_is_published_and_the_rest_may_be_truncated() -> None:
    log = MetadataLog()
    heard: list[Offset] = []
    log.append(batch(0, 1) + batch(1, 1) + batch(2, 2))
    assert not log.publish(0, nothing)
    assert log.publish(2, lambda offset, _: heard.append(offset))
    assert heard == [1, 2]
    log.truncate(1, 2)
    assert (log.end_offset, log.last_epoch) == (2, 1)
    log.append(batch(2, 3))
    log.lose_tail()
    assert log.end_offset == 2


def test_brokers_share_what_they_make_of_the_same_batches_and_nothing_else() -> None:
    folds = Folds()
    one, same, other = MetadataLog(folds), MetadataLog(folds), MetadataLog(folds)
    for log, name in ((one, "a"), (same, "a"), (other, "b")):
        log.append(batch(0, 1, name) + batch(1, 1, "c"))
        log.publish(2, nothing)
    assert one.image is same.image
    alone = MetadataLog()
    alone.append(batch(0, 1, "b") + batch(1, 1, "c"))
    alone.publish(2, nothing)
    assert other.image.hash() == alone.image.hash() != one.image.hash()


def test_what_was_committed_is_not_truncated() -> None:
    log = MetadataLog()
    log.append(batch(0, 1) + batch(1, 1))
    log.publish(2, nothing)
    with pytest.raises(Violation, match="NothingCommittedIsTruncated"):
        log.truncate(1, 1)


@pytest.mark.parametrize("data", [batch(2, 1), batch(0, 1), batch(1, 0)])
def test_a_fetch_continues_the_log(data: bytes) -> None:
    log = MetadataLog()
    log.append(batch(0, 1))
    with pytest.raises(Violation, match="FetchesContinueTheLog"):
        log.append(data)


def test_an_epoch_has_one_leader() -> None:
    log = MetadataLog()
    assert log.follow(-1, 3)
    assert log.follow(1, 3)
    assert not log.follow(1, 3)
    assert not log.follow(2, 2)
    with pytest.raises(Violation, match="BrokersHearOfOneLeader"):
        log.follow(2, 3)


def snapshot(epoch: int = 2) -> bytes:
    values = [encode_record(record) for record in bootstrap_records()]
    return b"".join(encode_snapshot(values, epoch, 0, last_contained_timestamp_ms=0))


def piece(data: bytes, position: int = 0, offset: Offset = 9) -> m.FetchSnapshotResponsePartitionSnapshot:
    return m.FetchSnapshotResponsePartitionSnapshot(
        snapshot_id=m.FetchSnapshotResponseSnapshotId(offset, 2),
        size=len(snapshot()),
        position=position,
        unaligned_records=data,
    )


def test_a_snapshot_takes_the_place_of_the_copy_and_records_follow_it() -> None:
    log = MetadataLog()
    heard: list[Offset] = []
    log.append(batch(0, 1) + batch(1, 1))
    log.publish(1, nothing)
    log.load(OffsetAndEpoch(9, 2), snapshot(), lambda offset, _: heard.append(offset))
    assert (log.end_offset, log.last_epoch, log.has_real_record) == (9, 2, True)
    log.append(batch(9, 2))
    log.truncate(2, 9)
    log.append(batch(9, 3))
    log.publish(10, lambda offset, _: heard.append(offset))
    assert heard == [9, 10]


def test_a_snapshot_is_whole_and_does_not_go_back() -> None:
    log = MetadataLog()
    with pytest.raises(Violation, match="SnapshotsAreWhole"):
        log.load(OffsetAndEpoch(9, 2), snapshot()[:-1], nothing)
    with pytest.raises(Violation, match="SnapshotsAreWhole"):
        log.load(OffsetAndEpoch(9, 3), snapshot(epoch=2), nothing)
    log.append(batch(0, 1) + batch(1, 1))
    log.publish(2, nothing)
    with pytest.raises(Violation, match="SnapshotsGoForward"):
        log.load(OffsetAndEpoch(1, 1), snapshot(epoch=1), nothing)


def test_a_download_takes_the_pieces_that_it_asked_for() -> None:
    data = snapshot()
    download = Download(OffsetAndEpoch(9, 2))
    assert not download.take(piece(b""))
    assert not download.take(piece(data[:100]))
    (topic,) = download.request("c", 7, bytes(16), 3).topics
    assert topic.partitions[0].position == 100
    for wrong in (piece(data[:100]), piece(data[100:], 100, offset=8), piece(data, 100)):
        with pytest.raises(Violation, match="PiecesAreWhatWasAskedFor"):
            Download(download.id, download.data).take(wrong)
    assert download.take(piece(data[100:], 100))
    assert download.data == data


def test_responses_are_cut_wherever_the_bytes_are() -> None:
    frames = KafkaFrames()
    stream = b"\0\0\0\x02ab" + b"\0\0\0\x00" + b"\0\0\0\x01c"
    found = [frame for at in range(len(stream)) for frame in frames.feed(stream[at : at + 1])]
    assert found == [b"ab", b"", b"c"] == KafkaFrames().feed(stream)


def test_not_controller_is_seen_wherever_it_stands() -> None:
    of_partition = m.AlterPartitionResponsePartitionData(error_code=ErrorCode.NOT_CONTROLLER)
    topic = m.AlterPartitionResponseTopicData(partitions=(of_partition,))
    assert names_another_controller(m.AlterPartitionResponse(topics=(topic,)))
    assert names_another_controller(m.EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER))
    assert not names_another_controller(m.BrokerHeartbeatResponse(error_code=77))


# --- the judge ----------------------------------------------------------------------------------------------


@pytest.fixture
def cluster() -> BrokerCluster:
    world = World(1, Options(faults=False, brokers=True))
    yield world.brokers
    world.close()


def process(broker_id: int, incarnation: int, epoch: int) -> Any:
    return SimpleNamespace(id=broker_id, incarnation=incarnation, epoch=epoch)


def test_no_epoch_of_a_broker_comes_twice(cluster: BrokerCluster) -> None:
    cluster.registered(process(7, 1, 10))
    cluster.registered(process(7, 1, 10))  # the same process, told again
    cluster.registered(process(8, 1, 10))
    with pytest.raises(Violation, match="NoBrokerEpochComesTwice"):
        cluster.registered(process(7, 2, 10))


def test_whoever_registered_last_is_not_stale_unless_it_was_unregistered(cluster: BrokerCluster) -> None:
    first, second = process(7, 1, 10), process(7, 2, 20)
    cluster.registered(first)
    cluster.registered(second)
    cluster.told_stale(first)
    with pytest.raises(Violation, match="WhoRegisteredLastIsNotStale"):
        cluster.told_stale(second)
    cluster.unregistered.add((7, 20))
    cluster.told_stale(second)


def test_leaders_are_told_what_is_committed(cluster: BrokerCluster) -> None:
    state = (7, 0, (7, 8), 1)
    cluster._states[KEY, 1] = state
    cluster.told(process(7, 1, 10), KEY, state)
    with pytest.raises(Violation, match="BrokersAreToldWhatIsCommitted"):
        cluster.told(process(7, 1, 10), KEY, (7, 0, (7,), 1))


@pytest.mark.parametrize(("told", "offset", "is_right"), [((), 4, True), ((7,), 4, False), ((), 5, False)])
def test_who_is_told_before_a_controller_applied_it_is_told_what_was_committed(
    cluster: BrokerCluster,
    monkeypatch: pytest.MonkeyPatch,
    told: tuple[int, ...],
    offset: int,
    is_right: bool,
) -> None:
    """Five records were committed when a leader was told; then a controller applies the one in question."""
    monkeypatch.setattr(cluster._world, "auditor", SimpleNamespace(committed=(5, 0)))
    partition = Partition((7, 8), (7, 8), 7, 0, 1, (), (bytes(16), bytes(16)), is_recovering=False)
    cluster.told(process(7, 1, 10), KEY, (7, 0, told or partition.isr, 1))
    cluster.auditor.partitions[KEY] = partition
    with nullcontext() if is_right else pytest.raises(Violation, match="BrokersAreToldWhatIsCommitted"):
        cluster._note_state(KEY, None, offset)


def test_what_a_leader_was_told_has_to_come(cluster: BrokerCluster) -> None:
    cluster.told(process(7, 1, 10), KEY, (7, 0, (7, 8), 1))
    with pytest.raises(Violation, match="BrokersAreToldWhatIsCommitted"):
        cluster.converge(0, 1)


def test_brokers_hold_the_controllers_image(cluster: BrokerCluster) -> None:
    log = MetadataLog()
    values = [encode_record(record) for record in bootstrap_records()]
    log.append(encode_batch(0, 1, 0, values))
    with pytest.raises(Violation, match="BrokersPublishWhatIsCommitted"):
        log.publish(len(values), lambda end, image: cluster.compare(process(7, 1, 1), end, image))
    cluster._hashes[len(values)] = "another"
    with pytest.raises(Violation, match="BrokersHoldTheSameImage"):
        cluster.compare(process(7, 1, 1), len(values), log.image)


def test_what_a_client_was_told_is_looked_for() -> None:
    log = MetadataLog()
    topic = TopicRecord(name="there", topic_id=b"t" * 16)
    log.append(encode_batch(0, 1, 0, [encode_record(topic)]))
    log.publish(1, nothing)
    world = World(1, Options(faults=False, brokers=True))
    for known, is_right in (
        (Known("there", 0, True), True),
        (Known("there", 1, True), False),
        (Known("there", 0, False), False),
        (Known("gone", 0, False), True),
        (Known("gone", 0, True), False),
        (Known("gone", 0, True, in_doubt=1), True),
        (Known("gone", 0, None), True),
    ):
        client = AdminClient(1, world, world.derive("admin 1"))
        client.topics[known.name] = known
        assert (client.complaint(log.image) is None) == is_right, known
    world.close()


@pytest.mark.parametrize(
    ("named", "whole", "told", "is_right"),
    [
        (True, 0, (0, 80, 84, 3), True),
        (True, 7, (7, 7, 7, 7), True),
        (True, 0, (0, 80, 84), False),
        (True, 0, (0, 80, 84, 83), False),
        (True, 42, (42, 42, 42, 42), False),
        (False, 0, (0, 80), True),
        (False, 0, (84,), False),
        (False, 0, (3,), False),
    ],
)
def test_who_asks_for_elections_is_told_what_may_become_of_them(
    named: bool, whole: int, told: tuple[int, ...], is_right: bool
) -> None:
    world = World(1, Options(faults=False, brokers=True))
    elector = Elector(world, world.derive("elector"))
    topics = (m.ElectLeadersRequestTopicPartitions("a", PARTITIONS),) if named else None
    results = tuple(m.ElectLeadersResponsePartitionResult(0, error) for error in told)
    of_topic = m.ElectLeadersResponseReplicaElectionResult("a", results)
    expected = nullcontext() if is_right else pytest.raises(Violation, match="ElectionsAreServed")
    with expected:
        elector.judge(
            m.ElectLeadersRequest(topic_partitions=topics), m.ElectLeadersResponse(0, whole, (of_topic,))
        )
    world.close()


# --- what producers were told -------------------------------------------------------------------------------


def replicated(count: int, leader_epoch: int = 0) -> tuple[Data, Data, Acknowledged]:
    """A leader's messages, a follower's copy of them, and the promise that they are there."""
    leader, follower, acknowledged = Data(), Data(), Acknowledged()
    for _ in range(count):
        leader.write(KEY, leader_epoch)
    follower.copy(KEY, leader)
    acknowledged.promise(KEY, leader, count, leader_epoch)
    return leader, follower, acknowledged


def test_a_follower_cuts_what_its_leader_does_not_have() -> None:
    leader, follower, _ = replicated(2)
    leader.write(KEY, 0)  # never replicated
    follower.write(KEY, 1)
    follower.write(KEY, 1)
    leader.copy(KEY, follower)
    assert leader.of(KEY) == follower.of(KEY) == [(0, 0), (0, 1), (1, 2), (1, 3)]


def data_of(*epochs: int) -> Data:
    data = Data()
    for epoch in epochs:
        data.write(KEY, epoch)
    return data


@pytest.mark.parametrize(
    ("leader", "follower", "kept"),
    [
        ((1, 1, 2), (1, 1), None),
        ((1, 1), (1, 1), None),
        ((1, 1), (1, 1, 1), 2),
        ((1, 1, 3), (1, 1, 1, 2, 2), 2),
        ((1, 3, 3), (1, 1, 2), 1),  # epoch after epoch: first 2, then the end of 1
        ((), (1,), 0),
        ((3, 3), (1, 2), 0),
    ],
)
def test_a_follower_cuts_epoch_by_epoch(
    leader: tuple[int, ...], follower: tuple[int, ...], kept: int | None
) -> None:
    """KIP-101: each time the leader tells where an epoch ends, of which it has messages."""
    mine, theirs = data_of(*follower), data_of(*leader)
    assert mine.copy(KEY, theirs) == kept
    assert mine.of(KEY) == theirs.of(KEY)


def test_a_power_failure_takes_what_came_after_the_last_stop_in_order() -> None:
    data = data_of(1, 1, 1)
    data.flush()
    data.lose_tail(lambda: 0.9)
    assert len(data.of(KEY)) == 3
    data.write(KEY, 2)
    data.learn(KEY, 4, 2)
    data.lose_tail(lambda: 0.9)
    assert (len(data.of(KEY)), data.high_watermarks[KEY]) == (3, (3, 2))
    data.copy(KEY, data_of(1))
    data.write(KEY, 3)
    data.lose_tail(lambda: 0.9)
    assert len(data.of(KEY)) == 1


def test_nothing_below_the_high_watermark_is_cut_but_after_an_unclean_election() -> None:
    leader, follower, acknowledged = replicated(3)
    follower.learn(KEY, 3, 0)
    acknowledged.cut(KEY, 8, follower, 3)
    with pytest.raises(Violation, match="NothingBelowTheHighWatermarkIsCut"):
        acknowledged.cut(KEY, 8, follower, 2)
    acknowledged.led(KEY, 9, data_of(0), 1, is_clean=False)
    acknowledged.cut(KEY, 8, follower, 2)
    follower.learn(KEY, 3, 1)
    with pytest.raises(Violation, match="NothingBelowTheHighWatermarkIsCut"):
        acknowledged.cut(KEY, 8, follower, 2)
    assert len(leader.of(KEY)) == 3


def test_who_has_not_read_of_the_deletion_of_a_topic_may_cut_to_what_its_unclean_leader_had() -> None:
    _, follower, acknowledged = replicated(3)
    follower.learn(KEY, 3, 0)
    acknowledged.led(KEY, 9, data_of(0), 1, is_clean=False)
    acknowledged.forget_topic(KEY[0])
    acknowledged.cut(KEY, 8, follower, 2)


@pytest.mark.parametrize(("kept", "epoch", "lacking"), [(3, 0, 0), (1, 0, 2), (0, 0, 3), (1, -1, 0)])
def test_how_much_is_lacking_of_what_was_acknowledged_by_an_epoch(
    kept: int, epoch: int, lacking: int
) -> None:
    _, follower, acknowledged = replicated(3)
    del follower.of(KEY)[kept:]
    assert acknowledged.lacks(KEY, follower, epoch) == lacking


def test_a_leader_without_what_was_acknowledged_is_noticed_unless_it_has_to_recover() -> None:
    _, follower, acknowledged = replicated(3)
    acknowledged.led(KEY, 8, follower, 1, is_clean=True)
    del follower.of(KEY)[1:]
    with pytest.raises(Violation, match="NothingAcknowledgedIsLost"):
        acknowledged.led(KEY, 8, follower, 1, is_clean=True)
    acknowledged.led(KEY, 8, follower, 1, is_clean=False)
    acknowledged.led(KEY, 8, follower, 2, is_clean=True)  # what an unclean leader had not is no promise


@pytest.mark.parametrize("kept", [1, 3])
def test_what_a_leader_promises_that_does_not_know_of_an_unclean_election_is_no_promise(kept: int) -> None:
    """Broker 7 alone is in sync, and cut off; broker 8 is elected uncleanly, and 7 hears producers still."""
    cut_off, unclean, acknowledged = replicated(3)
    del unclean.of(KEY)[kept:]
    acknowledged.led(KEY, 8, unclean, 2, is_clean=False)
    cut_off.write(KEY, 0)
    acknowledged.promise(KEY, cut_off, 4, 0)
    acknowledged.led(KEY, 9, unclean, 3, is_clean=True)
    unclean.write(KEY, 3)
    acknowledged.promise(KEY, unclean, kept + 1, 3)
    with pytest.raises(Violation, match=f"of {kept + 1} acknowledged {min(kept, 3)} are there"):
        acknowledged.led(KEY, 7, cut_off, 4, is_clean=True)


def test_a_leader_that_is_late_owes_nothing_of_what_came_after_it() -> None:
    _, follower, acknowledged = replicated(3, leader_epoch=5)
    del follower.of(KEY)[:]
    acknowledged.led(KEY, 8, follower, 4, is_clean=True)
    with pytest.raises(Violation, match="NothingAcknowledgedIsLost"):
        acknowledged.led(KEY, 8, follower, 6, is_clean=True)


def test_who_was_given_an_empty_disk_is_excused_until_it_is_in_sync_again() -> None:
    _, follower, acknowledged = replicated(3)
    follower.forget([KEY])
    acknowledged.replaced(8, [KEY])
    acknowledged.led(KEY, 8, follower, 1, is_clean=True)
    _, follower, acknowledged = replicated(3)
    acknowledged.replaced(8, [KEY])
    acknowledged.in_sync(KEY, [7, 8], 7)
    follower.lose_tail(lambda: 0.9)
    with pytest.raises(Violation, match="NothingAcknowledgedIsLost"):
        acknowledged.led(KEY, 8, follower, 1, is_clean=True)
