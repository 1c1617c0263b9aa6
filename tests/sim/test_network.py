"""Connections: bytes in order whatever happens, and three ends that are told apart (D-08)."""

import asyncio
from random import Random
from typing import Any

import pytest

from tests.sim.loop import Clock, Scheduler, SimLoop
from tests.sim.network import PORT, End, Network, host_of

ONE, TWO = 1, 2


class Peer:
    """Whoever is at one end."""

    def __init__(self) -> None:
        self.end: End | None = None
        self.heard = b""
        self.told: list[str] = []

    def connection_made(self, end: End) -> None:
        self.end = end
        self.told.append("made")

    def data_received(self, data: bytes) -> None:
        self.heard += data

    def eof_received(self) -> bool:
        self.told.append("eof")
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self.told.append("lost" if error is None else f"lost by {type(error).__name__}")

    def pause_writing(self) -> None:
        self.told.append("pause")

    def resume_writing(self) -> None:
        self.told.append("resume")


class Wire:
    """Two machines, and one connection from the first to the second."""

    def __init__(self, *, cut_part: float = 0.0) -> None:
        self.scheduler = Scheduler()
        self.errors: list[BaseException] = []
        self.network = Network(self.scheduler, Random(7), lambda _end, _data: None)
        self.network.cut_part = cut_part
        clock = Clock(self.scheduler, mono_us=0, wall_ms=0)
        self.loops = {
            machine: SimLoop(
                self.scheduler,
                clock,
                on_error=self.errors.append,
                connect=lambda loop, *args, machine=machine: self.network.connect(loop, machine, *args),
            )
            for machine in (ONE, TWO)
        }
        for machine in (ONE, TWO):
            self.network.add_host(machine)
        self.one, self.two = Peer(), Peer()
        self.listen()

    def listen(self) -> None:
        self.network.listen(TWO, self.loops[TWO], lambda: self.two)

    def connect(self) -> None:
        async def connect() -> None:
            await self.loops[ONE].create_connection(lambda: self.one, host_of(TWO), PORT)

        self.loops[ONE].create_task(connect())
        self.run(1_000_000)
        assert self.one.told == self.two.told == ["made"]

    def run(self, duration_us: int = 10_000_000) -> None:
        until_us = self.scheduler.now_us + duration_us
        while self.scheduler.next_us <= until_us:
            self.scheduler.step()
        self.scheduler.now_us = until_us
        assert not self.errors

    def write(self, peer: Peer, data: bytes) -> None:
        assert peer.end is not None
        peer.end.write(data)


@pytest.fixture
def wire() -> Wire:
    it = Wire()
    it.connect()
    return it


def test_bytes_arrive_in_order_in_whatever_pieces() -> None:
    it = Wire(cut_part=0.7)
    it.connect()
    said = b""
    for number in range(300):
        data = f"<{number}>".encode() * (1 + number % 7)
        said += data
        it.write(it.one, data)
        if number % 10 == 0:
            it.run(150)
        if number == 100:
            it.network.cut(ONE, TWO)
        if number == 200:
            it.network.heal()
    it.run()
    assert it.two.heard == said


def test_a_cut_keeps_bytes_back_and_one_way_lets_the_others_pass(wire: Wire) -> None:
    wire.network.cut(ONE, TWO, one_way=True)
    wire.write(wire.one, b"there")
    wire.write(wire.two, b"back")
    wire.run()
    assert (wire.two.heard, wire.one.heard) == (b"", b"back")
    wire.network.heal(ONE)
    wire.run()
    assert wire.two.heard == b"there"


def test_the_end_of_a_process_is_an_eof(wire: Wire) -> None:
    wire.write(wire.two, b"last words")
    wire.loops[TWO].close()
    wire.network.process_died(TWO)
    wire.run()
    assert (wire.one.heard, wire.one.told) == (b"last words", ["made", "eof", "lost"])


def test_who_writes_to_a_process_that_is_gone_is_reset(wire: Wire) -> None:
    wire.network.cut(TWO, ONE, one_way=True)
    wire.network.process_died(TWO)
    wire.run()
    assert wire.one.told == ["made"]
    wire.network.heal()
    wire.run()
    assert wire.one.told == ["made", "eof", "lost"]


def test_a_name_leads_astray_until_it_leads_back() -> None:
    it = Wire()
    it.network.lead_astray(TWO, ONE)
    assert it.network._machine_of(host_of(TWO)) == it.network.led_to(TWO) == ONE
    it.network.lead_back()
    assert it.network._machine_of(host_of(TWO)) == TWO


def test_who_was_led_astray_and_arrives_when_the_name_leads_back_is_refused() -> None:
    it = Wire()
    it.network.lead_astray(ONE, TWO)
    ends: list[End] = []
    errors: list[OSError] = []
    it.network.open(it.loops[ONE], ONE, it.one, host_of(ONE), ends.append, errors.append, wanted=lambda: True)
    it.network.lead_back()
    it.run()
    assert ends == []
    assert [type(error) for error in errors] == [ConnectionRefusedError]


def test_a_machine_that_is_gone_says_nothing_until_it_is_back(wire: Wire) -> None:
    wire.network.power_off(TWO)
    wire.run()
    assert wire.one.told == ["made"]
    wire.write(wire.one, b"are you there?")
    wire.run(60_000_000)
    assert wire.one.told == ["made"]
    wire.network.power_on(TWO)
    wire.run()
    assert wire.one.told == ["made", "lost by ConnectionResetError"]
    assert wire.two.heard == b""


def test_a_reset_is_heard_by_both_or_by_one_until_the_other_speaks(wire: Wire) -> None:
    assert wire.network.reset(ONE, TWO, half=True) == 1
    wire.run()
    assert wire.one.told == ["made", "lost by ConnectionResetError"]
    assert wire.two.told == ["made"]
    wire.write(wire.two, b"hello?")
    wire.run()
    assert wire.two.told == ["made", "lost by ConnectionResetError"]
    assert wire.network.reset(ONE, TWO) == 0


def test_whoever_closes_has_said_everything(wire: Wire) -> None:
    wire.write(wire.one, b"good")
    wire.write(wire.one, b"bye")
    assert wire.one.end is not None
    wire.one.end.close()
    wire.write(wire.one, b"too late")
    wire.run()
    assert (wire.two.heard, wire.two.told, wire.one.told) == (
        b"goodbye",
        ["made", "eof", "lost"],
        ["made", "lost"],
    )


@pytest.mark.parametrize("only", [None, 7])
def test_a_stalled_connection_carries_on_later(wire: Wire, only: int | None) -> None:
    assert wire.network.stall(ONE, TWO, 5_000_000, only=only) == 1
    wire.write(wire.one, b"slow")
    wire.run(4_900_000)
    assert wire.two.heard == b""
    wire.run()
    assert wire.two.heard == b"slow"


def test_a_reader_that_does_not_read_holds_the_writer_up(wire: Wire) -> None:
    assert wire.one.end is not None
    assert wire.two.end is not None
    wire.one.end.set_write_buffer_limits(high=10_000)
    wire.two.end.pause_reading()
    for _ in range(40):
        wire.write(wire.one, bytes(10_000))
    wire.run()
    assert (len(wire.two.heard), wire.one.told) == (0, ["made", "pause"])
    wire.two.end.resume_reading()
    wire.run()
    assert (len(wire.two.heard), wire.one.told) == (400_000, ["made", "pause", "resume"])


def connect_to(it: Wire, machine: int, timeout_s: float) -> list[Any]:
    outcome: list[Any] = []

    async def connect() -> None:
        try:
            async with asyncio.timeout(timeout_s):
                await it.loops[ONE].create_connection(lambda: it.one, host_of(machine), PORT)
            outcome.append("connected")
        except (OSError, TimeoutError) as error:
            outcome.append(type(error))

    it.loops[ONE].create_task(connect())
    return outcome


def test_nobody_listens_nobody_answers_nobody_knows_the_name() -> None:
    it = Wire()
    it.network.process_died(TWO)
    refused = connect_to(it, TWO, 2)
    it.run()
    assert refused == [ConnectionRefusedError]
    it.network.power_off(TWO)
    silent, unknown = connect_to(it, TWO, 2), connect_to(it, 99, 2)
    it.run()
    assert silent == [TimeoutError]
    assert unknown == [OSError]


def test_a_connection_that_nobody_wants_any_more_is_closed_again() -> None:
    it = Wire()
    it.network.link(TWO, ONE).base_us = 3_000_000
    tried = connect_to(it, TWO, 2)
    it.run()
    assert tried == [TimeoutError]
    assert it.one.told == []
    assert it.two.told == ["made", "eof", "lost"]


def test_a_connect_that_is_cancelled_as_it_connects_is_closed_and_nobody_is_told() -> None:
    it = Wire()
    tried = connect_to(it, TWO, 2)
    it.run(0)
    it.loops[ONE].pause()
    it.run(3_000_000)
    it.loops[ONE].resume()
    it.run()
    assert tried == [TimeoutError]
    assert it.one.told == ["made"]
    assert it.two.told == ["made", "eof", "lost"]
    with pytest.raises(RuntimeError, match="closed"):
        it.write(it.one, b"to nobody")


def test_a_syn_is_repeated_until_the_way_is_free() -> None:
    it = Wire()
    it.network.cut(ONE, TWO)
    tried = connect_to(it, TWO, 5)
    it.run(2_500_000)
    it.network.heal()
    it.run()
    assert tried == ["connected"]


def test_a_connection_that_is_torn_before_its_process_knows_of_it_is_made_and_then_lost() -> None:
    """The process is busy while its connection is made and torn: it is told of both, in order."""
    it = Wire()

    async def connect() -> None:
        await it.loops[ONE].create_connection(lambda: it.one, host_of(TWO), PORT)

    it.loops[ONE].create_task(connect())
    while not it.two.told:
        it.scheduler.step()
    it.loops[ONE].block_us(100_000)
    assert it.network.reset(ONE, TWO) == 1
    it.run()
    assert it.one.told == ["made", "lost by ConnectionResetError"]
