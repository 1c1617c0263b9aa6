"""The event queue: shares of a turn, order, deadlines, and that nobody starves."""

from hypothesis import given
from hypothesis import strategies as st

from kraftd.controller.event_queue import EVENTS_MAX, SHARES_NS, TURN_NS, Event, EventClass, EventQueue

SESSIONS, REPLICAS, WRITES, READS = EventClass


class Turns:
    """A controller that handles events which take as long as they say."""

    def __init__(self):
        self.queue = EventQueue()
        self.handled = []
        self.expired = []
        self.now_ms = 0

    def arrive(self, event_class, name, took_ns, deadline_ms=1 << 40):
        if self.queue.may_handle(event_class):
            self._handle(event_class, name, took_ns)
            return
        event = Event(
            name,
            event_class,
            0,
            deadline_ms,
            lambda: self._handle(event_class, name, took_ns),
            lambda: self.expired.append(name),
        )
        self.queue.add(event)

    def _handle(self, event_class, name, took_ns):
        self.handled.append(name)
        self.queue.spent(event_class, took_ns)

    def turn(self):
        self.queue.begin_turn()
        while (event := self.queue.take(self.now_ms)) is not None:
            event.handle()


def test_events_are_handled_as_they_arrive_while_the_turn_has_time():
    turns = Turns()
    for name in range(5):
        turns.arrive(WRITES, name, TURN_NS // 10)
    assert turns.handled == [0, 1, 2, 3, 4]
    assert turns.queue.count == 0


def test_a_heartbeat_is_handled_at_once_in_a_turn_that_writes_have_used_up():
    turns = Turns()
    turns.arrive(WRITES, "long", 2 * TURN_NS)
    turns.arrive(SESSIONS, "first", 1)
    turns.arrive(WRITES, "next", 1)
    turns.arrive(READS, "read", 1)
    turns.arrive(SESSIONS, "heartbeat", 1)
    assert turns.handled == ["long", "first", "read", "heartbeat"]
    assert turns.queue.waiting() == {"sessions": 0, "replicas": 0, "writes": 1, "reads": 0}
    turns.turn()
    assert turns.handled[-1] == "next"


def test_within_a_class_nobody_overtakes():
    turns = Turns()
    turns.arrive(WRITES, "long", 2 * TURN_NS)
    for name in ("a", "b"):
        turns.arrive(WRITES, name, 2 * TURN_NS)
    turns.turn()
    turns.arrive(WRITES, "c", 1)
    assert turns.handled == ["long", "a"]
    turns.turn()
    turns.turn()
    assert turns.handled == ["long", "a", "b", "c"]


def test_what_has_waited_beyond_its_deadline_expires_undecided():
    turns = Turns()
    turns.arrive(SESSIONS, "long", 2 * TURN_NS)
    turns.arrive(SESSIONS, "late", 1, deadline_ms=1_000)
    turns.arrive(SESSIONS, "patient", 1, deadline_ms=5_000)
    turns.now_ms = 1_000
    turns.turn()
    assert (turns.expired, turns.handled, turns.queue.timed_out) == (["late"], ["long", "patient"], 1)


def test_a_full_queue_makes_events_be_handled_as_they_arrive():
    turns = Turns()
    turns.arrive(WRITES, "long", 2 * TURN_NS)
    for name in range(EVENTS_MAX + 3):
        turns.arrive(WRITES, name, 1)
    assert turns.queue.count == EVENTS_MAX
    assert turns.handled == ["long", EVENTS_MAX, EVENTS_MAX + 1, EVENTS_MAX + 2]


@given(
    st.lists(st.tuples(st.sampled_from(EventClass), st.integers(1, TURN_NS // 4)), min_size=1, max_size=200)
)
def test_nobody_starves_and_no_turn_is_long(events):
    """Whatever waits, each class gets on in every turn, and a turn ends within the shares above its time."""
    turns = Turns()
    turns.queue.spent(WRITES, 10 * TURN_NS)
    for event_class in EventClass:
        turns.queue.spent(event_class, SHARES_NS[event_class])
    for name, (event_class, took_ns) in enumerate(events):
        turns.arrive(event_class, (event_class, name), took_ns)
    while turns.queue.count:
        before, waiting = len(turns.handled), turns.queue.waiting()
        turns.turn()
        handled = {event_class.name.lower() for event_class, _ in turns.handled[before:]}
        assert handled == {name for name, count in waiting.items() if count}
        assert turns.queue.total_ns <= TURN_NS + sum(SHARES_NS.values()) + len(EventClass) * TURN_NS // 4
    assert len(turns.handled) == len(events)
