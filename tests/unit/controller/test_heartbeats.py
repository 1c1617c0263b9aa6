"""BrokerHeartbeat: the table of what a broker becomes, and what that means for its partitions and session."""

import pytest

from kraftd.controller.brokers.heartbeats import NEXT, BrokerState
from kraftd.errors import ErrorCode
from kraftd.protocol.messages import BrokerHeartbeatRequest
from kraftd.records.messages import BrokerRegistrationChangeRecord, PartitionChangeRecord
from tests.unit.controller.broker_world import SESSION_MS, BrokerWorld, directory


@pytest.fixture
def world():
    return BrokerWorld()


def flags(response):
    assert response.error_code == ErrorCode.NONE
    return response.is_caught_up, response.is_fenced, response.should_shut_down


# -- fenced


def test_a_broker_stays_fenced_until_it_has_read_its_own_registration(world):
    epoch = world.register(5).broker_epoch
    assert flags(world.beat(5, offset=epoch - 1)) == (False, True, False)
    assert world.broker(5).fenced
    assert flags(world.beat(5, offset=epoch)) == (True, False, False)
    assert not world.broker(5).fenced
    assert world.line("broker_unfenced")["broker"] == 5


def test_a_broker_that_wants_to_stay_fenced_is_left_so(world):
    world.register(5)
    assert flags(world.beat(5, want_fence=True)) == (True, True, False)
    assert world.records(BrokerRegistrationChangeRecord) == []


def test_a_fenced_broker_may_stop_at_once_and_nothing_is_written(world):
    world.register(5)
    at = len(world.log)
    assert flags(world.beat(5, stop=True)) == (True, True, True)
    assert world.log[at:] == []


def test_who_is_unfenced_leads_what_nobody_led(world):
    world.up(5)
    topic = world.topic(1, (5,), (5,))
    world.wait(SESSION_MS + 2_000)
    assert [world.partition(topic, number).leader for number in (0, 1)] == [-1, -1]
    world.beat(5)
    assert [world.partition(topic, number).leader for number in (0, 1)] == [5, 5]
    change = world.records(BrokerRegistrationChangeRecord)[-1]
    assert (change.fenced, isinstance(world.log[-1], PartitionChangeRecord)) == (-1, True)
    assert world.lines[-1].fields["new_leaders"] == 2


# -- active


def test_a_heartbeat_that_changes_nothing_writes_nothing(world):
    world.up(5)
    at = len(world.log)
    assert flags(world.beat(5)) == (True, False, False)
    assert world.log[at:] == []


def test_a_response_that_tells_of_what_is_not_committed_waits_for_it(world):
    world.up(5)
    epoch = world.broker(5).broker_epoch
    first = world.send(BrokerHeartbeatRequest(5, epoch, 1 << 40, want_fence=True), 2)
    second = world.send(BrokerHeartbeatRequest(5, epoch, 1 << 40, want_fence=True), 2)
    assert world.answers == {}
    world.commit()
    assert world.answers[first].is_fenced
    assert world.answers[second].is_fenced


def test_a_response_that_waits_for_a_write_that_the_log_refuses_is_refused(world):
    world.up(5)
    epoch = world.broker(5).broker_epoch
    callers = [world.send(BrokerHeartbeatRequest(5, epoch, 1 << 40, want_fence=True), 2) for _ in range(2)]
    world.refuse(ErrorCode.NOT_CONTROLLER)
    assert [world.answers[caller].error_code for caller in callers] == [ErrorCode.NOT_CONTROLLER] * 2


def test_an_active_broker_that_asks_to_be_fenced_leaves_its_partitions_first(world):
    world.up(5, 6)
    topic = world.topic(1, (5, 6))
    assert flags(world.beat(5, want_fence=True)) == (True, True, False)
    assert (world.partition(topic).leader, tuple(world.partition(topic).isr)) == (6, (6,))
    assert isinstance(world.log[-1], BrokerRegistrationChangeRecord)


# -- controlled shutdown


def test_a_broker_that_leads_nothing_may_stop_at_once(world):
    world.up(5, 6)
    assert flags(world.beat(5, stop=True)) == (True, True, True)
    assert world.broker(5).fenced


def test_a_broker_that_leads_something_may_stop_once_all_others_have_read_that_others_lead(world):
    world.up(5, 6, 7)
    topic = world.topic(1, (5, 6, 7))
    old = world.controller.applied_offset - 1
    for other in (6, 7):
        world.beat(other, offset=old)
    assert flags(world.beat(5, stop=True)) == (True, False, False)
    assert world.broker(5).in_controlled_shutdown
    assert world.partition(topic).leader == 6
    assert 5 not in world.partition(topic).isr
    moved = world.controller.applied_offset - 1
    assert flags(world.beat(5, stop=True)) == (True, False, False)
    world.beat(6, offset=moved)
    assert not world.beat(5, stop=True).should_shut_down, "broker 7 would still ask it"
    world.beat(7, offset=moved - 1)
    assert not world.beat(5, stop=True).should_shut_down
    world.beat(7, offset=moved)
    assert flags(world.beat(5, stop=True)) == (True, True, True)
    assert world.broker(5).fenced
    assert {"controlled_shutdown_begun", "controlled_shutdown_done"} <= set(world.events())


def test_a_broker_that_stops_waits_for_no_other_that_stops(world):
    world.up(5, 6, 7)
    world.topic(1, (5, 6, 7), (6, 7))
    old = world.controller.applied_offset - 1
    assert not world.beat(6, offset=old, stop=True).should_shut_down
    assert not world.beat(5, offset=old, stop=True).should_shut_down
    world.beat(7)
    assert world.beat(5, offset=old, stop=True).should_shut_down


def test_how_far_a_broker_has_read_is_what_its_newest_heartbeat_says(world):
    world.up(5, 6)
    world.topic(1, (5, 6))
    world.beat(5, stop=True)
    moved = world.controller.applied_offset - 1
    world.beat(6, offset=moved)
    world.beat(6, offset=moved - 1)
    assert not world.beat(5, stop=True).should_shut_down
    world.beat(6, offset=moved)
    assert world.beat(5, stop=True).should_shut_down


def test_writes_after_a_stop_began_do_not_delay_it(world):
    """KAFKA-14292: the offset is noted once, when it begins, not raised by every heartbeat."""
    world.up(5, 6)
    world.topic(1, (5, 6))
    world.beat(5, stop=True)
    begun = world.controller.applied_offset - 1
    world.topic(2, (6,))
    world.beat(6, offset=begun)
    assert world.beat(5, stop=True).should_shut_down


def test_a_broker_that_stops_leads_on_what_nobody_else_can_and_may_not_stop(world):
    world.up(5, 6)
    topic = world.topic(1, (5,))
    world.beat(5, stop=True)
    assert world.partition(topic).leader in (5, -1)
    world.beat(6)
    assert world.beat(5, stop=True).should_shut_down is (world.partition(topic).leader == -1)


def test_a_new_active_controller_lets_a_broker_stop_that_began_under_the_last_one(world):
    world.up(5, 6)
    world.topic(1, (5, 6))
    world.beat(5, stop=True)
    world.controller.leader_changed(world.epoch, -1, is_self=False)
    world.lead(world.epoch + 1)
    assert not world.beat(5, stop=True).should_shut_down, "nobody has told how far it has read"
    world.beat(6)
    assert world.beat(5, stop=True).should_shut_down


def test_a_new_active_controller_finds_out_by_itself_what_a_broker_that_stops_waits_for(world):
    """All others have read that far by its first heartbeat there, which begins nothing."""
    world.up(5, 6)
    world.topic(1, (5, 6))
    world.beat(5, stop=True)
    world.controller.leader_changed(world.epoch, -1, is_self=False)
    world.lead(world.epoch + 1)
    world.beat(6)
    assert world.beat(5, stop=True).should_shut_down


# -- directories


def test_replicas_in_a_directory_that_failed_leave_the_isr_and_the_others_stay(world):
    world.register(5, log_dirs=(directory(5, 0), directory(5, 1)))
    world.beat(5)
    world.up(6)
    one = world.topic(1, (5, 6), directories={5: directory(5, 0)})
    other = world.topic(2, (5, 6), directories={5: directory(5, 1)})
    world.beat(5, offline_log_dirs=(directory(5, 1),))
    assert (world.partition(one).leader, tuple(world.partition(one).isr)) == (5, (5, 6))
    assert (world.partition(other).leader, tuple(world.partition(other).isr)) == (6, (6,))
    assert world.broker(5).log_dirs == (directory(5, 0),)
    line = world.line("directory_lost")
    assert (line["broker"], line["partitions"], len(line["directories"])) == (5, 1, 1)
    at = len(world.log)
    world.beat(5, offline_log_dirs=(directory(5, 1),))
    assert world.log[at:] == []


def test_cordoned_directories_are_written_after_what_else_changes(world):
    world.register(5)
    at = len(world.log)
    world.beat(5, cordoned_log_dirs=(directory(5),))
    changes = [record for record in world.log[at:] if isinstance(record, BrokerRegistrationChangeRecord)]
    assert [change.fenced for change in changes] == [-1, 0]
    assert [change.cordoned_log_dirs for change in changes] == [None, (directory(5),)]


def test_cordoned_directories_are_written_when_they_change(world):
    world.up(5)
    world.beat(5, cordoned_log_dirs=())
    assert world.broker(5).cordoned_log_dirs == ()
    at = len(world.log)
    world.beat(5, cordoned_log_dirs=())
    assert world.log[at:] == []
    assert "directories_cordoned" not in world.events(), "every start says that none is"
    world.beat(5, cordoned_log_dirs=(directory(5),))
    assert world.broker(5).cordoned_log_dirs == (directory(5),)
    assert "directories_cordoned" in world.events()


# -- who is refused


def test_a_broker_that_is_not_registered_is_stale(world):
    assert world.beat(5, epoch=3).error_code == ErrorCode.STALE_BROKER_EPOCH


def test_the_table_has_no_line_that_can_never_hold():
    """Fenced, active and stopping are what a broker can be; who may stop is asked no more."""
    assert {rule.state for rule in NEXT} == set(BrokerState) - {BrokerState.SHUTDOWN_NOW}
