"""The poll loop: events at once, everything else turn by turn, timers when the core asks for them."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kraftd.errors import InvariantError
from kraftd.protocol.messages import FetchRequest
from kraftd.raft.effects import StateChanged
from kraftd.raft.events import Applied, RequestReceived
from kraftd.runtime.driver import Driver
from kraftd.runtime.effect_executor import EffectExecutor
from kraftd.types import Now

NEVER_MS = 1 << 62


class Script:
    """A raft node that writes down what it is given, and answers by a table."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.wake_at_ms = NEVER_MS
        self.is_idle = False
        """Whether an event left nothing to do before `wake_at_ms`."""
        self.responses: dict[str, list[Any]] = {}
        self.on_poll: Callable[[], None] = lambda: None

    def start(self, now: Now) -> list[Any]:
        return self._see("start")

    def handle(self, event: Any, now: Now) -> list[Any]:
        return self._see("handle fetch" if isinstance(event, RequestReceived) else f"handle {event.offset}")

    def poll(self, now: Now) -> list[Any]:
        self.on_poll()
        return self._see("poll")

    def _see(self, what: str) -> list[Any]:
        self.seen.append(what)
        return self.responses.pop(what, [])


class Ports:
    """All five ports: `log_notice` calls back, so that a test can deliver from within a list of effects."""

    def __init__(self) -> None:
        self.on_note: Callable[[], None] = lambda: None

    def log_notice(self, event: Any) -> None:
        self.on_note()

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


class Tasks:
    def __init__(self, seen: list[str], name: str, due_ms: Callable[[], int] = lambda: NEVER_MS) -> None:
        self._seen, self._name, self._due_ms = seen, name, due_ms

    def run(self, now: Now) -> None:
        self._seen.append(self._name)

    def wake_at_ms(self) -> int:
        return self._due_ms()


def drive(
    raft_node: Script, due_ms: Callable[[], int] = lambda: NEVER_MS, **clock: Any
) -> tuple[Driver, Ports]:
    """`due_ms` says when the task after the core is due."""
    driver = Driver(asyncio.get_running_loop(), end_turn=lambda: raft_node.seen.append("write"), **clock)
    ports = Ports()
    executor = EffectExecutor(
        store=ports, snapshots=ports, network=ports, listener=ports, outcomes=ports, notice_logger=ports
    )
    driver.start(
        raft_node,
        executor,
        before=[Tasks(raft_node.seen, "clients")],
        after=[Tasks(raft_node.seen, "apply", due_ms)],
    )
    return driver, ports


async def turns(count: int = 3) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.covers("D-16", "REQ-10")
async def test_events_are_handled_at_once_and_the_accumulator_drains_once_a_turn() -> None:
    raft_node = Script()
    driver, _ = drive(raft_node)
    await turns()
    assert raft_node.seen == ["start", "clients", "poll", "apply", "write"]
    raft_node.seen.clear()
    for offset in (1, 2, 3):
        driver.deliver(Applied(offset))
    assert raft_node.seen == ["handle 1", "handle 2", "handle 3"]
    await turns()
    assert raft_node.seen[3:] == ["clients", "poll", "apply", "write"], "one poll and one write for all three"


@pytest.mark.covers("D-02")
async def test_an_event_that_arises_while_effects_are_carried_out_waits_for_the_end_of_their_list() -> None:
    raft_node = Script()
    driver, ports = drive(raft_node)
    await turns()
    raft_node.seen.clear()
    note = StateChanged("a", "b", 1, "test")
    raft_node.responses["handle 1"] = [note, note]
    notes = 0

    def deliver_from_within() -> None:
        nonlocal notes
        notes += 1
        raft_node.seen.append(f"note {notes}")
        driver.deliver(Applied(notes + 10))

    ports.on_note = deliver_from_within
    driver.deliver(Applied(1))
    assert raft_node.seen == ["handle 1", "note 1", "note 2", "handle 11", "handle 12"]


@pytest.mark.covers("D-17")
@pytest.mark.parametrize("where", ["event", "effect"])
async def test_whoever_delivers_an_event_that_cannot_be_handled_may_know_it(where: str) -> None:
    """A handler that delivers one must not take what comes back for a failure of its own."""
    raft_node = Script()
    driver, ports = drive(raft_node)
    await turns()
    raft_node.responses["handle 1"] = [StateChanged("a", "b", 1, "test")]

    def explode() -> None:
        raise KeyError("planted")

    driver.deliver(Applied(2))
    assert not driver.has_failed
    if where == "effect":
        ports.on_note = explode
    else:
        raft_node.seen = None  # type: ignore[assignment]
    with pytest.raises((KeyError, AttributeError)):
        driver.deliver(Applied(1))
    assert driver.has_failed


@pytest.mark.covers("D-17")
async def test_after_an_event_that_could_not_be_handled_there_is_no_turn() -> None:
    """Whoever delivers it may need a while to end the process; until then half of its effects stand."""
    raft_node = Script()
    driver, ports = drive(raft_node)
    await turns()
    raft_node.responses["handle 1"] = [StateChanged("a", "b", 1, "test")]

    def explode() -> None:
        raise KeyError("planted")

    ports.on_note = explode
    driver.wake()
    with pytest.raises(KeyError):
        driver.deliver(Applied(1))
    raft_node.seen.clear()
    driver.deliver(Applied(2))
    driver.wake()
    await turns()
    assert raft_node.seen == []


@pytest.mark.covers("D-01", "REQ-10")
async def test_the_timer_wakes_the_core_when_it_asked_for_it() -> None:
    raft_node = Script()
    now = Now(0, 0)
    woken = asyncio.Event()

    def clock() -> Now:
        return now

    raft_node.wake_at_ms = 20
    drive(raft_node, clock=clock)
    await turns()
    before = raft_node.seen.count("poll")
    now = Now(25, 25)
    raft_node.on_poll = lambda: setattr(raft_node, "wake_at_ms", NEVER_MS)
    asyncio.get_running_loop().call_later(0.1, woken.set)
    await woken.wait()
    assert raft_node.seen.count("poll") == before + 1


@pytest.mark.covers("D-01")
async def test_what_a_turn_took_is_not_waited_for_again() -> None:
    """A barrier waits for a disk for 10 s, and the core wants to be woken at 10.02 s: in 20 ms."""
    raft_node, loop = Script(), asyncio.get_running_loop()
    began_s, slept_ms = loop.time(), [0]
    woken = asyncio.Event()

    def clock() -> Now:
        return Now(int(1_000 * (loop.time() - began_s)) + slept_ms[0], 0)

    def poll_again() -> None:
        raft_node.wake_at_ms = NEVER_MS
        woken.set()

    def wait_for_the_disk() -> None:
        slept_ms[0] = 10_000
        raft_node.on_poll, raft_node.wake_at_ms = poll_again, clock().mono_ms + 20

    raft_node.on_poll = wait_for_the_disk
    driver, _ = drive(raft_node, clock=clock)
    await turns()
    async with asyncio.timeout(5):
        await woken.wait()
    driver.stop()


@pytest.mark.covers("D-01", "REQ-10")
async def test_a_deadline_before_that_of_the_timer_is_kept() -> None:
    """An event moves the deadline of the core from a minute away to 20 ms away."""
    raft_node = Script()
    now = Now(0, 0)
    raft_node.wake_at_ms = 60_000
    driver, _ = drive(raft_node, clock=lambda: now)
    await turns()
    raft_node.wake_at_ms = 20
    driver.deliver(Applied(1))
    await turns()
    raft_node.seen.clear()
    now = Now(25, 25)
    polled = asyncio.Event()

    def poll() -> None:
        raft_node.wake_at_ms = NEVER_MS
        polled.set()

    raft_node.on_poll = poll
    await asyncio.wait_for(polled.wait(), 30)


@pytest.mark.covers("D-01")
async def test_a_core_that_wants_to_be_polled_without_end_is_a_broken_promise() -> None:
    raft_node = Script()
    loop = asyncio.get_running_loop()
    caught: asyncio.Future[BaseException] = loop.create_future()
    loop.set_exception_handler(lambda _, context: caught.set_result(context["exception"]))
    raft_node.wake_at_ms = 5
    drive(raft_node, clock=lambda: Now(5, 5))
    assert isinstance(await caught, InvariantError)


TURN = ["clients", "poll", "apply", "write"]
APPLIED, FETCH = Applied(1), RequestReceived(0, FetchRequest(), 18, None)


def name_of(value: Any) -> str:
    return value if isinstance(value, str) else type(value).__name__


class Idle:
    """A core that is idle, at 100 ms, before its deadline in a minute."""

    def __init__(self) -> None:
        self.raft_node, self.now_ms, self.task_ms = Script(), 100, NEVER_MS
        self.raft_node.wake_at_ms, self.raft_node.is_idle = 60_000, True

    async def drive(self) -> Driver:
        driver, _ = drive(self.raft_node, lambda: self.task_ms, clock=lambda: Now(self.now_ms, 0))
        await turns()
        self.raft_node.seen.clear()
        return driver

    async def turn_after(self, now_ms: int) -> None:
        """Let this time come, and wait for the next turn."""
        polled = asyncio.Event()

        def poll() -> None:
            self.raft_node.wake_at_ms = self.task_ms = NEVER_MS
            polled.set()

        self.raft_node.on_poll, self.now_ms = poll, now_ms
        await asyncio.wait_for(polled.wait(), 30)


@pytest.mark.covers("D-01", "D-16")
async def test_an_event_that_leaves_nothing_to_do_costs_no_turn() -> None:
    """A leader has flushed what its followers have not: the next thing that happens is a fetch of theirs."""
    idle = Idle()
    driver = await idle.drive()
    driver.deliver(Applied(1))
    await turns()
    assert idle.raft_node.seen == ["handle 1"]
    idle.raft_node.responses["handle 2"] = [StateChanged("a", "b", 1, "test")]
    driver.deliver(Applied(2))
    await turns()
    assert idle.raft_node.seen == ["handle 1", "handle 2", *TURN], "an effect may have something to write"
    idle.raft_node.is_idle = False
    driver.deliver(Applied(3))
    await turns()
    assert idle.raft_node.seen[-5:] == ["handle 3", *TURN], "the core has something to do now"


@pytest.mark.covers("D-16")
@pytest.mark.parametrize(
    ("leaves", "seen"),
    [
        ("nothing", ["handle 1"]),
        ("an effect", ["handle 1", "poll", "apply"]),
        ("work", ["handle 1", "poll", "apply"]),
        ("what is due", ["handle 1", "poll", "apply"]),
    ],
)
async def test_an_event_within_a_turn_is_polled_for_if_it_makes_something_due(
    leaves: str, seen: list[str]
) -> None:
    """Committed batches were applied, as the core is told in the same turn."""
    idle = Idle()
    driver = await idle.drive()
    node = idle.raft_node
    handle = node.handle

    def handle_and_leave(event: Any, now: Now) -> list[Any]:
        node.is_idle = leaves != "work"
        node.wake_at_ms = 100 if leaves == "what is due" else 60_000
        node.responses["handle 1"] = [StateChanged("a", "b", 1, "test")] if leaves == "an effect" else []
        node.on_poll = lambda: setattr(node, "wake_at_ms", 60_000)
        return handle(event, now)

    def poll_first() -> None:
        node.on_poll = lambda: None
        driver.deliver(Applied(1))

    node.handle, node.on_poll = handle_and_leave, poll_first  # type: ignore[method-assign]  # a raft node of this test
    driver.wake()
    await turns()
    assert node.seen == ["clients", "poll", "apply", *seen, "write"]


@pytest.mark.covers("D-01")
@pytest.mark.parametrize(
    ("event", "whose"), [(APPLIED, "core"), (APPLIED, "task"), (FETCH, "core")], ids=name_of
)
async def test_a_deadline_that_an_event_without_a_turn_has_moved_is_kept(event: Any, whose: str) -> None:
    """A leader parks a fetch that it has to answer in 20 ms, or a flush ended, whose recovery point is to be
    made durable then: in a minute nobody waits for that any more.
    """
    idle = Idle()
    driver = await idle.drive()
    if whose == "core":
        idle.raft_node.wake_at_ms = 120
    else:
        idle.task_ms = 120
    driver.deliver(event)
    await turns()
    assert idle.raft_node.seen in (["handle 1"], ["handle fetch"])
    await idle.turn_after(125)


@pytest.mark.covers("D-16")
async def test_a_fetch_that_is_parked_asks_no_task_for_its_deadline() -> None:
    """An idle leader is woken by little else."""
    idle = Idle()
    asked = 0

    def due_ms() -> int:
        nonlocal asked
        asked += 1
        return NEVER_MS

    driver, _ = drive(idle.raft_node, due_ms, clock=lambda: Now(idle.now_ms, 0))
    await turns()
    before = asked
    driver.deliver(FETCH)
    await turns()
    assert asked == before
    driver.deliver(APPLIED)
    await turns()
    assert asked > before, "any other event may have moved it"


@pytest.mark.covers("D-01")
async def test_a_task_keeps_its_deadline_whatever_fetches_are_parked_meanwhile() -> None:
    """The leader parks one fetch after the other, each with its deadline; a flush has to begin before."""
    idle = Idle()
    idle.task_ms = 110
    driver = await idle.drive()
    for deadline_ms in (40_000, 30_000, 105, 50_000):
        idle.raft_node.wake_at_ms = deadline_ms
        driver.deliver(FETCH)
    await idle.turn_after(115)
    assert idle.raft_node.seen == [*["handle fetch"] * 4, *TURN]


@pytest.mark.covers("D-01")
@pytest.mark.parametrize("event", [APPLIED, FETCH], ids=name_of)
@pytest.mark.parametrize("whose", ["core", "task"])
async def test_an_event_that_comes_when_something_is_due_gets_its_turn(whose: str, event: Any) -> None:
    """The process stood still for longer than the core waits: it must see that, and whatever came with it."""
    idle = Idle()
    driver = await idle.drive()
    idle.now_ms = 60_300
    if whose == "task":
        idle.raft_node.wake_at_ms, idle.task_ms = NEVER_MS, 60_000
    driver.deliver(event)
    await idle.turn_after(60_300)
    await turns(1)
    assert idle.raft_node.seen in (["handle 1", *TURN], ["handle fetch", *TURN])


@pytest.mark.covers("D-01")
@pytest.mark.parametrize("first", [APPLIED, FETCH], ids=name_of)
async def test_each_event_is_handled_at_its_own_time(first: Any) -> None:
    """Two events without a turn come an hour apart: the second one is not handled in the first one's past."""
    idle = Idle()
    times: list[int] = []
    handle = idle.raft_node.handle

    def handle_and_note(event: Any, now: Now) -> list[Any]:
        times.append(now.mono_ms)
        return handle(event, now)

    idle.raft_node.handle = handle_and_note  # type: ignore[method-assign]  # it notes and does the same
    driver = await idle.drive()
    driver.deliver(first)
    idle.now_ms = 3_700
    driver.deliver(Applied(2))
    assert times == [100, 3_700]


@pytest.mark.covers("D-01")
async def test_a_timer_whose_deadline_has_moved_away_is_set_anew_without_a_turn() -> None:
    idle = Idle()
    idle.raft_node.wake_at_ms = 110
    driver = await idle.drive()
    idle.raft_node.wake_at_ms = 160
    await asyncio.sleep(0.03)
    assert idle.raft_node.seen == []
    await idle.turn_after(165)
    driver.stop()


@pytest.mark.covers("REQ-11")
async def test_events_are_handled_in_their_order_and_a_wake_up_is_none() -> None:
    raft_node = Script()
    driver, _ = drive(raft_node)
    await turns()
    raft_node.seen.clear()
    driver.wake()
    driver.wake()
    await turns()
    assert raft_node.seen == ["clients", "poll", "apply", "write"], "one turn, and no event"
    raft_node.seen.clear()
    for offset in (3, 1, 2):
        driver.deliver(Applied(offset))
        driver.wake()
    await turns()
    assert [what for what in raft_node.seen if what.startswith("handle")] == [
        "handle 3",
        "handle 1",
        "handle 2",
    ]
    assert raft_node.seen.count("poll") == 1


async def test_who_wants_another_turn_within_one_gets_it_without_a_timer() -> None:
    """The applier has more to do than one turn lets it, and asks for the next one; nothing else happens."""
    raft_node = Script()
    driver, _ = drive(raft_node)
    await turns()
    raft_node.seen.clear()
    left = [2]

    def apply_a_part() -> None:
        if left[0] > 0:
            left[0] -= 1
            driver.wake()

    raft_node.on_poll = apply_a_part
    driver.wake()
    await turns(6)
    assert raft_node.seen == ["clients", "poll", "apply", "write"] * 3, "one turn, and the two it asked for"


async def test_what_a_turn_has_to_write_leaves_at_its_own_end() -> None:
    raft_node = Script()
    driver, ports = drive(raft_node)
    await turns()
    ports.on_note = driver.wake_to_write
    for by in ("poll", "handle 1"):
        raft_node.seen.clear()
        raft_node.responses[by] = [StateChanged("follower", "follower", 1, "why")]
        if by == "poll":
            driver.wake()
        else:
            driver.deliver(Applied(1))
        await turns()
        assert raft_node.seen.count("write") == 1
    raft_node.seen.clear()
    driver.wake_to_write()
    await turns()
    assert raft_node.seen.count("write") == 1


async def test_after_a_stop_nothing_reaches_the_core() -> None:
    raft_node = Script()
    driver, _ = drive(raft_node)
    await turns()
    driver.stop()
    raft_node.seen.clear()
    driver.deliver(Applied(1))
    driver.wake()
    await turns()
    assert raft_node.seen == []
