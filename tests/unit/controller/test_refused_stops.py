"""The log refuses a write about a broker that is stopping: the broker is told that it may stop all the same.

A broker that got an error asks again at once, so that its session is alive before anybody looks for silent
ones; and it asks for as long as it is not told.
"""

import pytest

from kraftd.controller import timers
from kraftd.controller.brokers import staged_plan
from kraftd.controller.sessions import BrokerSessions
from kraftd.errors import ErrorCode
from kraftd.protocol.messages import BrokerHeartbeatRequest, UnregisterBrokerRequest
from kraftd.records.messages import PartitionChangeRecord
from tests.unit.controller.broker_world import SESSION_MS, BrokerWorld, registration

REFUSALS = [ErrorCode.NOT_CONTROLLER, ErrorCode.THROTTLING_QUOTA_EXCEEDED]


@pytest.fixture
def world():
    """Broker 4 is in controlled shutdown; broker 5, which leads now, has not read of it yet."""
    made = BrokerWorld()
    made.up(4, 5)
    made.topic(9, (4, 5), (4, 5))
    assert not made.beat(4, stop=True).should_shut_down
    assert made.broker(4).in_controlled_shutdown
    return made


def ask(world, broker_id, **fields):
    epoch, offset = world.broker(broker_id).broker_epoch, world.controller.applied_offset - 1
    return world.send(BrokerHeartbeatRequest(broker_id, epoch, offset, **fields), version=2)


def is_told(world):
    """Whether broker 4 is told to stop by one of some heartbeats, between which broker 5 reads on."""
    for _ in range(4):
        if world.beat(4, stop=True).should_shut_down:
            return True
        world.wait(2_000, 5, step_ms=250)
    return False


def last_step(world):
    """Everybody has read far enough, and broker 4 asks."""
    world.beat(5)
    caller = ask(world, 4, want_shut_down=True)
    assert [write.is_last for write, _ in world.waiting] == [True]
    return caller


def unregistering(world):
    return world.send(UnregisterBrokerRequest(4), version=0)


def silence(world):
    world.wait(SESSION_MS - 500, 5)
    while all(write.kind != timers.FENCE_BROKER for write, _ in world.waiting):
        world.commit()
        world.now_ms += 250
        ask(world, 5)
        world.poll()


def a_new_start(world):
    """It was silent for a session, and is heard again."""
    world.controller.sessions.over(4, world.broker(4).broker_epoch)
    return world.send(registration(4, start=2))


@pytest.mark.parametrize("error", REFUSALS)
@pytest.mark.parametrize("write", [last_step, unregistering, silence, a_new_start])
def test_who_stops_is_told_to_whatever_about_it_the_log_refused(world, write, error):
    write(world)
    assert world.waiting
    world.refuse(error)
    assert is_told(world)
    assert world.broker(4).fenced
    fenced = [line.fields for line in world.lines if line.name == "broker_fenced"]
    assert fenced == [], "it was heard all the time"
    assert "controlled_shutdown_done" in world.events()
    world.wait(2_000, 5)
    assert world.controller.alarms == []


def test_who_repeats_the_last_step_at_once_is_told_at_once(world):
    last_step(world)
    world.refuse()
    assert world.beat(4, stop=True).should_shut_down


@pytest.mark.parametrize("write", [unregistering, a_new_start])
def test_what_it_waits_for_is_worked_out_anew_where_nobody_knows_it_any_more(world, write):
    """Nor is it told before broker 5 has read that."""
    write(world)
    world.refuse()
    read = world.controller.applied_offset - 1
    assert not world.beat(4, stop=True).should_shut_down
    assert not world.beat(4, stop=True).should_shut_down
    world.beat(5, offset=read - 1)
    assert not world.beat(4, stop=True).should_shut_down
    world.beat(5, offset=read)
    assert world.beat(4, stop=True).should_shut_down


def test_a_heartbeat_during_the_shutdown_begins_none_anew():
    """Its slices are on the way: the heartbeat is answered at once, and changes nothing."""
    world = BrokerWorld()
    world.up(4, 5)
    world.topic(9, *[(4, 5)] * 600)
    ask(world, 4, want_shut_down=True)
    world.commit()
    assert list(world.controller.running_plans)
    caller = ask(world, 4, want_shut_down=True)
    assert len(list(world.controller.running_plans)) == 1
    world.settle()
    assert not world.answers[caller].should_shut_down
    assert world.events().count("controlled_shutdown_begun") == 1


def test_what_an_earlier_shutdown_waited_for_says_nothing_of_the_next_one(world, monkeypatch):
    """Broker 4 fell silent while it stopped, and came back; the log refuses half of its next shutdown."""
    monkeypatch.setattr(staged_plan, "SLICE_RECORDS", 6)
    world.wait(SESSION_MS + 2_000, 5)
    assert world.broker(4).fenced
    world.beat(4)
    assert not world.broker(4).fenced
    topic = world.topic(8, *[(4, 5)] * 8)
    world.beat(5)
    ask(world, 4, want_shut_down=True)
    world.commit()
    world.slice()
    world.refuse()
    left = [number for number in range(8) if world.partition(topic, number).leader == 4]
    world.append(*[PartitionChangeRecord(number, topic, isr=(5,), leader=5) for number in left])
    assert left
    assert not world.beat(4, stop=True).should_shut_down, "broker 5 has not read of it"
    world.beat(5)
    assert world.beat(4, stop=True).should_shut_down


def test_the_last_record_alone_that_the_log_refused_is_one_that_is_not_there():
    sessions = BrokerSessions(SESSION_MS)
    sessions.registered(4, broker_epoch=40, offset=10)
    sessions.shutting_down(4, broker_epoch=40, offset=50)
    sessions.withdrawn(log_end=51)
    assert sessions.get(4, 40).shutdown_offset == 50
    sessions.withdrawn(log_end=50)
    assert sessions.get(4, 40).shutdown_offset == -1
