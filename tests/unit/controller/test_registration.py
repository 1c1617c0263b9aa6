"""BrokerRegistration: who is registered, with which epoch, and who is refused with which words."""

import pytest

from kraftd.errors import ErrorCode
from kraftd.metadata.feature_levels import METADATA_VERSION
from kraftd.protocol.messages import (
    AllocateProducerIdsRequest,
    BrokerRegistrationRequestFeature,
    BrokerRegistrationRequestListener,
    UnregisterBrokerRequest,
)
from kraftd.records.messages import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from tests.unit.controller.broker_world import (
    FEATURES,
    ME,
    SESSION_MS,
    BrokerWorld,
    directory,
    incarnation,
    registration,
)


@pytest.fixture
def world():
    return BrokerWorld()


def test_a_broker_is_registered_fenced_with_the_offset_of_its_record_as_its_epoch(world):
    before = world.controller.applied_offset
    response = world.register(5, rack="r")
    assert response.error_code == ErrorCode.NONE
    assert response.broker_epoch == before
    broker = world.broker(5)
    assert (broker.broker_epoch, broker.fenced, broker.rack) == (before, True, "r")
    assert (broker.incarnation_id, broker.log_dirs) == (incarnation(5), (directory(5),))
    assert broker.cordoned_log_dirs is None
    assert world.line("broker_registered")["epoch"] == before


def test_the_same_start_may_register_again_and_keeps_epoch_and_state(world):
    world.up(5)
    epoch = world.broker(5).broker_epoch
    assert world.register(5, rack="moved").broker_epoch == epoch
    broker = world.broker(5)
    assert (broker.broker_epoch, broker.fenced, broker.rack) == (epoch, False, "moved")
    assert world.beat(5).error_code == ErrorCode.NONE


def test_the_same_start_that_registers_again_while_it_stops_stops_still(world):
    world.up(4, 5)
    world.topic(9, (4, 5))
    assert not world.beat(4, stop=True).should_shut_down
    world.register(4, rack="moved")
    broker = world.broker(4)
    assert (broker.fenced, broker.in_controlled_shutdown, broker.rack) == (False, True, "moved")
    world.beat(5)
    assert world.beat(4, stop=True).should_shut_down


def test_every_new_start_gets_a_higher_epoch_from_every_leader(world):
    epochs = [world.register(5).broker_epoch]
    for start in (2, 3):
        world.wait(SESSION_MS)
        epochs.append(world.register(5, start).broker_epoch)
        world.controller.leader_changed(world.epoch, -1, is_self=False)
        world.lead(world.epoch + 1)
    world.wait(SESSION_MS)
    epochs.append(world.register(5, 4).broker_epoch)
    assert epochs == sorted(set(epochs))


def test_two_registrations_in_one_batch_get_two_epochs(world):
    first, second = (world.send(registration(broker_id)) for broker_id in (5, 6))
    world.settle()
    assert world.answers[first].broker_epoch < world.answers[second].broker_epoch
    assert world.answers[second].broker_epoch == world.broker(6).broker_epoch


# -- refused


def refused(world, request_of=lambda world: world.register(5), **fields):
    response = world.register(5, **fields) if fields else request_of(world)
    assert response.broker_epoch == -1
    assert not world.broker(5)
    line = world.line("broker_refused")
    assert ErrorCode[line["error"]] == response.error_code
    return ErrorCode(response.error_code), line["reason"]


def test_a_broker_of_another_cluster_is_refused_by_the_names_of_both(world):
    error, why = refused(world, cluster_id="theirs")
    assert error == ErrorCode.INCONSISTENT_CLUSTER_ID
    assert "theirs" in why
    assert "not to c" in why


def test_a_broker_under_the_id_of_a_controller_is_refused(world):
    response = world.register(ME)
    assert response.error_code == ErrorCode.INVALID_REGISTRATION
    assert "another node.id" in world.line("broker_refused")["reason"]


@pytest.mark.parametrize(
    ("log_dirs", "why"),
    [
        ((), "no log directory"),
        ((bytes(15) + b"\x02",), "reserved"),
        ((bytes(15) + b"\x63",), "reserved"),
        ((bytes(8) + b"\x80" + bytes(7),), "reserved"),
        ((bytes(8) + b"\xff" * 8,), "reserved"),
        ((directory(5), directory(5)), "twice"),
    ],
)
def test_directories_must_be_named_once_and_be_real(world, log_dirs, why):
    error, text = refused(world, log_dirs=log_dirs)
    assert error == ErrorCode.INVALID_REGISTRATION
    assert why in text


@pytest.mark.parametrize(
    "log_dir", [bytes(15) + b"\x64", bytes(8) + b"\x7f" + b"\xff" * 7, b"\x80" + bytes(15)]
)
def test_all_other_directories_are_real(world, log_dir):
    assert world.register(5, log_dirs=(log_dir,)).error_code == ErrorCode.NONE


def listener(name="A", host="h", port=1, security_protocol=0):
    return BrokerRegistrationRequestListener(name, host, port, security_protocol)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (listener(""), "a listener has no name"),
        (listener(host=""), "listener 'A' has no host"),
        (listener(host=" \t"), "listener 'A' has no host"),
        (listener(port=0), "listener 'A' has port 0"),
        (listener(security_protocol=77), "listener 'A' has security protocol 77"),
        (listener(security_protocol=-1), "listener 'A' has security protocol -1"),
    ],
)
def test_a_listener_that_no_client_could_use_is_refused(world, wrong, why):
    error, text = refused(world, listeners=(listener("B"), wrong))
    assert error == ErrorCode.INVALID_REGISTRATION
    assert why in text


def test_so_it_is_when_the_same_start_registers_again(world):
    world.up(5)
    before = world.broker(5)
    answer = world.register(5, listeners=(listener(port=0),))
    assert answer.error_code == ErrorCode.INVALID_REGISTRATION
    assert world.broker(5) == before


@pytest.mark.parametrize("protocol", range(4))
def test_every_security_protocol_of_kafka_is_taken(world, protocol):
    assert world.register(5, listeners=(listener(security_protocol=protocol),)).error_code == ErrorCode.NONE


def test_of_a_listener_that_is_named_twice_the_last_is_written_in_the_place_of_the_first(world):
    named = (listener(host=""), listener("B"), listener(host="second", port=2))
    assert world.register(5, listeners=named).error_code == ErrorCode.NONE
    (record,) = world.records(RegisterBrokerRecord)
    ends = [(end.name, end.host, end.port) for end in record.end_points]
    assert ends == [("A", "second", 2), ("B", "h", 1)]


def test_two_brokers_cannot_have_one_directory(world):
    world.up(4)
    error, why = refused(world, log_dirs=(directory(4),))
    assert error == ErrorCode.INVALID_REGISTRATION
    assert "broker 4" in why


def test_a_broker_that_cannot_run_at_a_finalized_level_is_refused_by_the_name_of_the_feature(world):
    old = (BrokerRegistrationRequestFeature(METADATA_VERSION, 7, 29), *_without(METADATA_VERSION))
    error, why = refused(world, features=old)
    assert error == ErrorCode.UNSUPPORTED_VERSION
    assert "metadata.version 4.3-IV0 (level 30)" in why


def test_a_feature_that_a_broker_does_not_list_counts_as_off(world):
    error, why = refused(world, features=_without("group.version"))
    assert error == ErrorCode.UNSUPPORTED_VERSION
    assert "group.version" in why


def test_a_broker_must_say_which_metadata_versions_it_supports(world):
    error, why = refused(world, features=_without(METADATA_VERSION))
    assert error == ErrorCode.INVALID_REGISTRATION
    assert METADATA_VERSION in why


def test_a_listed_feature_that_cannot_run_is_told_before_metadata_version_is_missed(world):
    narrow = [BrokerRegistrationRequestFeature("group.version", 0, 0)]
    assert refused(world, features=narrow)[0] == ErrorCode.UNSUPPORTED_VERSION


def test_a_feature_that_is_off_must_be_within_what_a_broker_lists(world):
    lists_no_off = [*FEATURES, BrokerRegistrationRequestFeature("another.version", 1, 2)]
    error, why = refused(world, features=lists_no_off)
    assert error == ErrorCode.UNSUPPORTED_VERSION
    assert "another.version" in why


def test_a_broker_on_its_way_from_zookeeper_is_refused(world):
    assert refused(world, is_migrating_zk_broker=True)[0] == ErrorCode.BROKER_ID_NOT_REGISTERED


# -- new incarnations


def test_while_a_start_is_alive_another_one_is_refused_and_both_ids_are_told(world):
    world.up(5)
    epoch = world.broker(5).broker_epoch
    world.wait(SESSION_MS - 1_000, 5)
    assert world.register(5, start=2).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert world.broker(5).broker_epoch == epoch
    assert "two brokers have this node.id" in world.line("broker_refused")["reason"]
    assert world.beat(5).error_code == ErrorCode.NONE


def test_a_broker_that_was_killed_comes_back_once_its_session_is_over(world):
    world.up(5)
    world.wait(SESSION_MS - 1)
    assert world.register(5, start=2).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    world.now_ms += 1
    assert world.register(5, start=2).error_code == ErrorCode.NONE
    assert world.broker(5).fenced


def test_a_broker_that_sent_no_heartbeat_yet_comes_back_at_once(world):
    world.register(5)
    world.register(5, start=2)
    assert world.register(5, start=3).error_code == ErrorCode.NONE
    world.beat(5)
    assert world.register(5, start=4).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION


def test_more_of_the_same_start_keeps_its_session_as_it_is(world):
    world.up(5)
    world.wait(SESSION_MS - 1)
    assert world.register(5).error_code == ErrorCode.NONE
    assert world.register(5, start=2).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    world.now_ms += 1
    assert world.register(5, start=2).error_code == ErrorCode.NONE


def test_a_broker_comes_back_at_once_after_a_clean_shutdown(world):
    world.up(5)
    assert world.beat(5, stop=True).should_shut_down
    assert world.register(5, start=2).error_code == ErrorCode.NONE


def test_a_broker_that_was_fenced_comes_back_at_once_whoever_leads_by_then(world):
    """Else one whose controllers change more often than a session lasts would be refused for ever."""
    world.up(5, 6)
    world.wait(SESSION_MS + 2_000, 6)
    world.controller.leader_changed(world.epoch, -1, is_self=False)
    world.lead(world.epoch + 1)
    assert world.register(5, start=2).error_code == ErrorCode.NONE
    assert world.register(6, start=2).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION


def test_what_a_former_start_sends_late_is_refused_and_touches_nothing(world):
    world.up(5)
    old = world.broker(5).broker_epoch
    world.wait(SESSION_MS + 2_000)
    world.register(5, start=2)
    world.wait(SESSION_MS - 1_000)
    assert world.beat(5, epoch=old).error_code == ErrorCode.STALE_BROKER_EPOCH
    world.wait(1_000)
    assert world.register(5, start=3).error_code == ErrorCode.NONE


@pytest.mark.parametrize("error", [ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT])
def test_no_start_is_told_of_another_by_who_may_lead_no_more(world, error):
    """Seed 144010: a replaced leader, which a name led to, had not heard of the broker's newest start."""
    world.up(5)
    epoch = world.broker(5).broker_epoch
    world.read_ends_with = error
    assert world.beat(5, epoch=epoch + 1).error_code == error
    assert world.register(5, start=2).error_code == error
    assert {"heartbeat_refused", "broker_refused"}.isdisjoint(line.name for line in world.lines)
    world.read_ends_with = ErrorCode.NONE
    assert world.beat(5, epoch=epoch + 1).error_code == ErrorCode.STALE_BROKER_EPOCH
    assert world.register(5, start=2).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert [line.name for line in world.lines[-2:]] == ["heartbeat_refused", "broker_refused"]


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_new_start_is_out_of_every_isr_first_and_eligible_only_after_a_stop_in_order(world, is_clean):
    world.up(5, 6)
    topic = world.topic(1, (5, 6), (6, 5))
    epoch = world.broker(5).broker_epoch
    world.wait(SESSION_MS - 1_000, 6)
    # Its own heartbeats stop; nobody has fenced it yet when it comes back.
    world.now_ms += 1_000
    at = len(world.log)
    response = world.register(5, start=2, previous_broker_epoch=epoch if is_clean else epoch - 1)
    assert response.error_code == ErrorCode.NONE
    *changes, last = world.log[at:]
    assert isinstance(last, RegisterBrokerRecord)
    assert {type(change) for change in changes} == {PartitionChangeRecord}
    assert response.broker_epoch == last.broker_epoch
    for number in (0, 1):
        partition = world.partition(topic, number)
        assert (partition.leader, tuple(partition.isr)) == (6, (6,))
    line = world.lines[-1].fields
    assert (line["clean_shutdown"], line["partitions"], line["new_leaders"]) == (is_clean, 2, 1)


def test_before_version_3_every_stop_counts_as_one_in_order(world):
    world.up(5)
    world.wait(SESSION_MS + 2_000)
    world.register(5, start=2, version=2)
    assert world.lines[-1].fields["clean_shutdown"] is True


# -- unregistering, producer ids


def test_an_unregistered_broker_leaves_its_partitions_and_is_stale(world):
    world.up(5, 6)
    topic = world.topic(1, (5, 6))
    epoch = world.broker(5).broker_epoch
    assert world.ask(UnregisterBrokerRequest(5)).error_code == ErrorCode.NONE
    assert world.broker(5) is None
    assert isinstance(world.log[-1], UnregisterBrokerRecord)
    assert (world.partition(topic).leader, tuple(world.partition(topic).isr)) == (6, (6,))
    assert world.beat(5, epoch=epoch).error_code == ErrorCode.STALE_BROKER_EPOCH
    assert "unregistered" in world.line("heartbeat_refused")["reason"]
    assert world.ask(UnregisterBrokerRequest(5)).error_code == ErrorCode.BROKER_ID_NOT_REGISTERED


@pytest.mark.covers("D-12")
@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.NOT_CONTROLLER])
def test_a_request_that_waited_for_a_plan_and_changes_nothing_is_confirmed(world, error):
    world.up(5, 6)
    world.topic(1, *[(5, 6)] * 600)
    first, second = (world.send(UnregisterBrokerRequest(5), version=0) for _ in range(2))
    assert world.controller.has_next_slice
    world.read_ends_with = error
    world.settle()
    assert world.answers[first].error_code == ErrorCode.NONE
    assert world.answers[second].error_code == (error or ErrorCode.BROKER_ID_NOT_REGISTERED)


def test_blocks_of_producer_ids_are_given_to_one_broker_each_and_only_in_its_epoch(world):
    world.up(5, 6)
    starts = []
    for broker_id in (5, 6, 5):
        epoch = world.broker(broker_id).broker_epoch
        response = world.ask(AllocateProducerIdsRequest(broker_id, epoch))
        assert (response.error_code, response.producer_id_len) == (0, 1_000)
        starts.append(response.producer_id_start)
    assert starts == [0, 1_000, 2_000]
    stale = world.ask(AllocateProducerIdsRequest(5, 1))
    assert stale.error_code == ErrorCode.STALE_BROKER_EPOCH


def test_a_refused_registration_writes_nothing(world):
    at = len(world.log)
    world.register(5, cluster_id="theirs")
    assert world.log[at:] == []


def test_a_registration_that_the_log_refuses_is_answered_so_and_can_be_repeated(world):
    caller = world.send(registration(5))
    world.refuse()
    world.settle()
    assert world.answers[caller].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert world.register(5).error_code == ErrorCode.NONE
    assert world.records(BrokerRegistrationChangeRecord) == []


def _without(name):
    return tuple(feature for feature in FEATURES if feature.name != name)
