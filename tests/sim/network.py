"""What is between two machines? Connections whose bytes are in order, and everything that can happen to them.

A `Link` is one direction between two machines; an `End` is one end of a connection and asyncio's transport
for whoever holds it. Bytes travel as they were written, with a drawn latency, and may arrive in pieces. A
link that is *cut* keeps bytes back until it is healed (TCP repeats them); nothing is ever lost, repeated or
reordered within a connection. How a connection ends is told apart (D-08):

- *EOF*: the other process closed it or is gone; its kernel says so.
- *RST*: bytes reached somebody who does not know the connection, or it was torn by force.
- *half-open*: the other machine is gone without a word; nothing is heard until it is back and answers RST, or
  keep-alive probes, if a process asked for them, are not answered.

Not here: who speaks on a connection (`node`, `clients`), and when something is broken (`faults`).
"""

import asyncio
import errno
import os
import socket
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from kraftd.types import Endpoint
from tests.sim.loop import Scheduler, SimLoop

Machine = int
"""A node's id, or the number of a client's machine."""

PORT = 9_093
RETRANSMIT_US = 200_000
SYN_RETRY_US = 1_000_000
TAIL_FACTOR = 10
"""How much longer the few late messages take."""
BUFFERS_BYTES = 256 * 1_024
"""What the kernels at both ends take before a writer has to wait."""

DATA, EOF, RST = range(3)


def host_of(machine: Machine) -> str:
    """The name of a machine."""
    return f"m{machine}"


def endpoint_of(machine: Machine) -> Endpoint:
    """Where a node listens."""
    return Endpoint(host_of(machine), PORT)


class Link:
    """One direction between two machines."""

    __slots__ = ("base_us", "extra_us", "is_cut", "is_healing", "jitter_us", "kept", "tail_part")

    def __init__(self, base_us: int, jitter_us: int, tail_part: float) -> None:
        self.base_us, self.jitter_us, self.tail_part = base_us, jitter_us, tail_part
        self.extra_us = 0
        """A clog: added to every latency."""
        self.is_cut = False
        self.is_healing = False
        """Healed a moment ago: what was kept back comes first."""
        self.kept: list[tuple[End, int, Any]] = []
        """What waits for the link to be healed: for whom, what kind, which bytes."""


class Host:
    """What the network knows of one machine."""

    def __init__(self) -> None:
        self.is_on = True
        self.listener: tuple[SimLoop, Callable[[], Any]] | None = None
        self.ends: dict[int, End] = {}
        self.waiting_rst: list[End] = []
        """Ends elsewhere that wrote to a machine that is off."""


class End:
    """One end of a connection: the transport of whoever is there."""

    __slots__ = (
        "_closing", "_high", "_last_us", "_network", "_writing_paused", "host", "is_dead", "is_given_up",
        "keepalive", "kept_bytes", "link", "loop", "machine", "number", "other", "protocol", "reading_paused",
        "stalled_until_us", "unread", "unsent",
    )  # fmt: skip

    def __init__(self, network: "Network", number: int, machine: Machine, loop: SimLoop) -> None:
        self._network = network
        self.number = number
        self.machine = machine
        self.loop = loop
        self.host = network.hosts[machine]
        self.other: End = self
        self.link: Link
        self.protocol: Any = None
        self.keepalive: dict[tuple[int, int], int] = {}
        self.is_dead = False
        """The process at this end does not have it any more; its kernel answers RST."""
        self.is_given_up = False
        """The attempt was cancelled just as it connected: as uvloop, its loop closed it and told nobody."""
        self.unread: list[tuple[int, Any]] = []
        self.reading_paused = False
        self.unsent = 0
        self.kept_bytes = 0
        self.stalled_until_us = 0
        """What this end writes arrives no earlier."""
        self._last_us = 0
        self._closing = False
        self._writing_paused = False
        self._high = 1 << 62

    # asyncio's transport.

    def write(self, data: bytes) -> None:
        if self.is_given_up:
            raise RuntimeError("the loop has closed the socket")
        if self.is_dead or self._closing or not data:
            return
        self._network.send(self, DATA, data)
        if self.unsent > self._high and not self._writing_paused:
            self._writing_paused = True
            self.loop.call_soon(self._pause_writing)

    def writelines(self, buffers: list[bytes]) -> None:
        self.write(b"".join(buffers))

    def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        self._network.send(self, EOF, None)
        self.loop.call_soon(self._lost, None)

    def abort(self) -> None:
        if self.is_dead:
            return
        if not self._closing:
            self._network.send(self, RST if self.unread else EOF, None)
        self._closing = True
        self.loop.call_soon(self._lost, None)

    def is_closing(self) -> bool:
        return self._closing

    def get_extra_info(self, name: str, default: object = None) -> object:
        if name == "socket":
            return self
        return (host_of(self.other.machine), PORT) if name == "peername" else default

    def get_write_buffer_size(self) -> int:
        return max(0, self.unsent - BUFFERS_BYTES)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = (high or 64 * 1_024) + BUFFERS_BYTES

    def pause_reading(self) -> None:
        self.reading_paused = True

    def resume_reading(self) -> None:
        self.reading_paused = False
        if self.unread:
            self.loop.arrive(self._read_again, None)

    def setsockopt(self, level: int, option: int, value: int) -> None:
        """What a socket can be told: here, to find out whether the other end is there still."""
        self._network.set_keepalive(self, (level, option), value)

    # From the network.

    def take(self, what: tuple[int, Any]) -> None:
        """On the loop of this end: something arrived."""
        self._network.last_taken = self
        if self.is_dead or self._closing:
            return
        if self.reading_paused or self.unread or self.protocol is None:
            self.unread.append(what)
            return
        kind, data = what
        if kind == DATA:
            if isinstance(self.protocol, asyncio.BufferedProtocol):
                self._read_in_pieces(data)
                return
            self.other.sent(len(data))
            self.protocol.data_received(data)
        elif kind == EOF:
            if not self.protocol.eof_received():
                self.close()
        else:
            self._closing = True
            self._lost(ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET)))

    def _read_in_pieces(self, data: bytes) -> None:
        """As libuv does: until all is read, or reading was paused."""
        protocol = self.protocol
        buffer, size = protocol.get_buffer(-1), len(data)
        if size <= len(buffer):  # nearly always
            buffer[:size] = data
            self.other.sent(size)
            protocol.buffer_updated(size)
            return
        view = memoryview(data)
        while view and not self.is_dead and not self._closing:
            if self.reading_paused:
                self.unread.insert(0, (DATA, bytes(view)))
                return
            buffer = protocol.get_buffer(-1)
            size = min(len(buffer), len(view))
            buffer[:size] = view[:size]
            view = view[size:]
            self.other.sent(size)
            protocol.buffer_updated(size)

    def sent(self, size: int) -> None:
        """The other end took so many bytes."""
        self.unsent -= size
        if self._writing_paused and self.unsent < self._high // 4:
            self._writing_paused = False
            if not self.is_dead:
                self.loop.arrive(self._resume_writing, None)

    def next_us(self, now_us: int, latency_us: int) -> int:
        """When what is written now arrives: never before what was written earlier."""
        at_us = now_us + latency_us
        if at_us <= self._last_us:
            at_us = self._last_us + 1
        if at_us < self.stalled_until_us:
            at_us = self.stalled_until_us
        self._last_us = at_us
        return at_us

    def _read_again(self, _: object) -> None:
        unread, self.unread = self.unread, []
        for at, what in enumerate(unread):
            if self.reading_paused:
                self.unread += unread[at:]
                return
            self.take(what)

    def _pause_writing(self) -> None:
        if not self.is_dead:
            self.protocol.pause_writing()

    def _resume_writing(self, _: object) -> None:
        if not self.is_dead:
            self.protocol.resume_writing()

    def _lost(self, error: Exception | None) -> None:
        if not self.is_dead:
            self._network.forget(self)
            self.protocol.connection_lost(error)


class Network:
    """All machines and what is between them."""

    def __init__(
        self, scheduler: Scheduler, random: Random, on_message: Callable[[End, bytes], None]
    ) -> None:
        self.hosts: dict[Machine, Host] = {}
        self.base_us = (100, 2_000)
        """Bounds of the latency that is drawn for each link."""
        self.jitter_us = 300
        self.tail_part = 0.0
        """How many messages take `TAIL_FACTOR` times as long."""
        self.cut_part = 0.0
        """How many writes arrive in pieces."""
        self._scheduler = scheduler
        self._random = random
        self._on_message = on_message
        self._links: dict[tuple[Machine, Machine], Link] = {}
        self._astray: dict[Machine, Machine] = {}
        """Names that lead to another machine."""
        self._strayed: list[End] = []
        """Ends of connections to a machine that another one's name leads to."""
        self._last_number = 0
        self.last_taken: End | None = None
        """Where a process took in something last."""

    # -- machines

    def add_host(self, machine: Machine) -> None:
        """Connect a machine."""
        self.hosts[machine] = Host()

    def listen(self, machine: Machine, loop: SimLoop, accept: Callable[[], Any]) -> None:
        """Its process accepts connections from now on."""
        self.hosts[machine].listener = (loop, accept)

    def process_died(self, machine: Machine) -> None:
        """The kernel closes what the process had open."""
        host = self.hosts[machine]
        host.listener = None
        for end in list(host.ends.values()):
            self.drop(end)

    def power_off(self, machine: Machine) -> None:
        """The machine is gone without a word."""
        host = self.hosts[machine]
        host.listener, host.is_on = None, False
        for end in list(host.ends.values()):
            self.forget(end)

    def power_on(self, machine: Machine) -> None:
        """The machine is back, and answers RST to what it does not know."""
        host = self.hosts[machine]
        host.is_on = True
        waiting, host.waiting_rst = host.waiting_rst, []
        for end in waiting:
            delay_us = RETRANSMIT_US + self._draw(10 * RETRANSMIT_US)
            self._scheduler.at_us(self._scheduler.now_us + delay_us, self._arrive, (end, RST, None))

    # -- connections

    def ends_between(self, one: Machine, other: Machine) -> Iterator[End]:
        """The ends at `one` of the connections between two machines, oldest first."""
        for end in list(self.hosts[one].ends.values()):
            if end.other.machine == other:
                yield end

    def opener_of(self, machine: Machine, protocol: Any) -> Machine | None:
        """Who opened the connection that this protocol has at its end on a machine; None if it is gone."""
        taking = self.last_taken
        if taking is not None and taking.protocol is protocol and not taking.is_dead:
            return taking.other.machine
        for end in self.hosts[machine].ends.values():
            if end.protocol is protocol:
                return end.other.machine
        return None

    async def connect(
        self, loop: SimLoop, machine: Machine, factory: Callable[[], Any], host: str, port: int
    ) -> tuple[End, Any]:
        """What `create_connection` does."""
        opened = loop.create_future()
        made: list[End] = []

        def on_end(end: End) -> None:
            made.append(end)
            if not opened.cancelled():
                opened.set_result(end)

        def on_error(error: OSError) -> None:
            if not opened.done():
                opened.set_exception(error)

        protocol = factory()
        self.open(loop, machine, protocol, host, on_end, on_error, wanted=lambda: not opened.done())
        try:
            return await opened, protocol
        except asyncio.CancelledError:
            for end in made:
                end.is_given_up = True
                self.drop(end)
            raise

    def open(
        self,
        loop: SimLoop,
        machine: Machine,
        protocol: Any,
        host: str,
        on_end: Callable[[End], None],
        on_error: Callable[[OSError], None],
        *,
        wanted: Callable[[], bool],
    ) -> None:
        """Begin to connect; a SYN that gets no response is repeated for as long as it is `wanted`."""
        target = self._machine_of(host)
        if target is None:
            loop.arrive(on_error, OSError(errno.EHOSTUNREACH, os.strerror(errno.EHOSTUNREACH)))
            return
        there, back = self.link(machine, target), self.link(target, machine)

        def syn(_: object) -> None:
            if loop.is_closed or not wanted():
                return
            now_us = self._scheduler.now_us
            if there.is_cut or back.is_cut or not self.hosts[target].is_on:
                self._scheduler.at_us(now_us + SYN_RETRY_US, syn)
                return
            self._scheduler.at_us(now_us + self._latency_us(there), syn_arrives)

        def syn_arrives(_: object) -> None:
            here = self.hosts[target]
            if not here.is_on:
                self._scheduler.at_us(self._scheduler.now_us + SYN_RETRY_US, syn)
                return
            back_us = self._scheduler.now_us + self._latency_us(back)
            # A name that led astray when the SYN was sent, and leads back when it arrives: `lead_back` could
            # tear no connection yet, and this one would lead astray for ever.
            has_led_back = host != host_of(target) and target != self._machine_of(host)
            if here.listener is None or has_led_back:
                self._scheduler.at_us(back_us, refused)
                return
            ours, theirs = self._pair(machine, loop, target, here.listener[0])
            if target in self._astray.values():
                self._strayed.append(ours)
            # The kernel completes the handshake; the process accepts when it gets to it.
            theirs.protocol = here.listener[1]()
            theirs.loop.arrive(_made, theirs)
            self._scheduler.at_us(back_us, established, ours)

        def refused(_: object) -> None:
            if not loop.is_closed:
                loop.arrive(on_error, ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"))

        def established(end: End) -> None:
            if not end.is_dead and not loop.is_closed:
                loop.arrive(made, end)

        def made(end: End) -> None:
            if not wanted():
                self.send(end, EOF, None)
                self.forget(end)
                return
            # Not before: an RST that came while the process was busy is taken first, and is kept until now.
            end.protocol = protocol
            protocol.connection_made(end)
            on_end(end)
            if end.unread:
                end._read_again(None)

        syn(None)

    def forget(self, end: End) -> None:
        """The process at this end does not have it any more."""
        end.is_dead = True
        end.unread.clear()
        end.host.ends.pop(end.number, None)

    def drop(self, end: End) -> None:
        """Close it, and do not tell its process."""
        self.send(end, RST if end.unread else EOF, None)
        self.forget(end)

    def send(self, end: End, kind: int, data: Any) -> None:
        """Put something on the way to the other end."""
        scheduler, link = self._scheduler, end.link
        now_us = scheduler.now_us
        if now_us < end.loop.busy_until_us:
            now_us = end.loop.busy_until_us
        at_us = end.next_us(now_us, self._latency_us(link))
        other = end.other
        if kind == DATA:
            end.unsent += len(data)
            if self.cut_part and len(data) > 1 and self._random.random() < self.cut_part:
                at = 1 + self._draw(len(data) - 1)
                scheduler.at_us(at_us, self._arrive, (other, DATA, data[:at]))
                at_us = end.next_us(now_us, self._latency_us(link))
                data = data[at:]
        scheduler.at_us(at_us, self._arrive, (other, kind, data))

    def inject(self, end: End, data: bytes) -> None:
        """Let bytes arrive at the other end that nobody at this end wrote."""
        self.send(end, DATA, data)

    def set_keepalive(self, end: End, option: tuple[int, int], value: int) -> None:
        """Take a socket option; probes begin with `SO_KEEPALIVE`, by what the options say then."""
        end.keepalive[option] = value
        if option == (socket.SOL_SOCKET, socket.SO_KEEPALIVE) and value:
            self._scheduler.at_us(self._scheduler.now_us, self._probe_later, (end, 0))

    def _probe_later(self, probe: "tuple[End, int]") -> None:
        end, unanswered = probe
        option = socket.TCP_KEEPINTVL if unanswered else socket.TCP_KEEPIDLE
        wait_us = end.keepalive.get((socket.IPPROTO_TCP, option), 75 if unanswered else 7_200) * 1_000_000
        self._scheduler.at_us(self._scheduler.now_us + wait_us, self._probe, probe)

    def _probe(self, probe: "tuple[End, int]") -> None:
        end, unanswered = probe
        if end.is_dead:
            return
        other = end.other
        if end.link.is_cut or other.link.is_cut or not other.host.is_on:
            unanswered += 1
            if unanswered >= end.keepalive.get((socket.IPPROTO_TCP, socket.TCP_KEEPCNT), 9):
                end.loop.arrive(end.take, (RST, None))
                return
        elif other.is_dead:
            end.loop.arrive(end.take, (RST, None))
            return
        else:
            unanswered = 0
        self._probe_later((end, unanswered))

    # -- faults

    def link(self, source: Machine, target: Machine) -> Link:
        """One direction between two machines."""
        link = self._links.get((source, target))
        if link is None:
            low_us, high_us = self.base_us
            base_us = low_us + self._draw(max(1, high_us - low_us))
            link = self._links[source, target] = Link(base_us, self.jitter_us, self.tail_part)
        return link

    def cut(self, one: Machine, other: Machine, *, one_way: bool = False) -> None:
        """Nothing gets from `one` to `other`, nor back unless `one_way`."""
        self.link(one, other).is_cut = True
        if not one_way:
            self.link(other, one).is_cut = True

    def is_cut(self, one: Machine, other: Machine) -> bool:
        """Whether nothing gets from `one` to `other`."""
        return self.link(one, other).is_cut

    def lead_astray(self, name: Machine, machine: Machine) -> None:
        """Whoever connects to the name of one machine comes to another one from now on."""
        self._astray[name] = machine

    def led_to(self, name: Machine) -> Machine:
        """The machine that the name of this one leads to now."""
        return self._astray.get(name, name)

    def lead_back(self) -> None:
        """Every name leads to its own machine again, and what came to another one is torn."""
        self._astray.clear()
        strayed, self._strayed = self._strayed, []
        for end in strayed:
            self._tear(end)

    def heal(self, one: Machine | None = None, other: Machine | None = None) -> None:
        """Undo cuts and clogs: of all links, those of one machine, or those between two."""
        for (source, target), link in self._links.items():
            pair = {source, target}
            if (one is None or one in pair) and (other is None or other in pair):
                link.extra_us = 0
                self._poll_rejoin(link)

    def clog(self, one: Machine, other: Machine, extra_us: int) -> None:
        """Make everything between two machines slower, both ways; 0 unclogs."""
        self.link(one, other).extra_us = self.link(other, one).extra_us = extra_us

    def stall(self, one: Machine, other: Machine, duration_us: int, *, only: int | None = None) -> int:
        """The connections between two machines, or one alone, carry nothing for a while; how many."""
        ends = list(self.ends_between(one, other))
        if only is not None and ends:
            ends = [ends[only % len(ends)]]
        until_us = self._scheduler.now_us + duration_us
        for end in ends:
            end.stalled_until_us = end.other.stalled_until_us = until_us
        return len(ends)

    def reset(self, one: Machine, other: Machine, *, half: bool = False) -> int:
        """Tear the connections between two machines; with `half`, only `one` hears. How many there were."""
        count = 0
        for end in self.ends_between(one, other):
            self._tear(end, half=half)
            count += 1
        return count

    # -- inside

    def _tear(self, end: End, *, half: bool = False) -> None:
        for torn in (end,) if half else (end, end.other):
            self._scheduler.at_us(self._scheduler.now_us, self._arrive, (torn, RST, None))

    def _pair(self, machine: Machine, loop: SimLoop, target: Machine, other: SimLoop) -> tuple[End, End]:
        self._last_number += 1
        ours = End(self, self._last_number, machine, loop)
        self._last_number += 1
        theirs = End(self, self._last_number, target, other)
        ours.other, theirs.other = theirs, ours
        ours.link, theirs.link = self.link(machine, target), self.link(target, machine)
        for end in (ours, theirs):
            end.host.ends[end.number] = end
        return ours, theirs

    def _arrive(self, message: tuple[End, int, Any]) -> None:
        end, kind, data = message
        link = end.other.link
        if link.is_cut or link.is_healing:
            link.kept.append(message)
            return
        if end.is_dead:
            self._arrive_at_nobody(end, kind)
            return
        self._on_message(end, data or b"")
        end.loop.arrive(end.take, (kind, data))

    def _arrive_at_nobody(self, end: End, kind: int) -> None:
        writer = end.other
        if kind != DATA or writer.is_dead:
            return
        if end.host.is_on:
            at_us = end.next_us(self._scheduler.now_us, self._latency_us(end.link))
            self._scheduler.at_us(at_us, self._arrive, (writer, RST, None))
        elif writer not in end.host.waiting_rst:
            end.host.waiting_rst.append(writer)

    def _poll_rejoin(self, link: Link) -> None:
        if not link.is_cut:
            return
        link.is_cut, link.is_healing = False, True
        self._scheduler.at_us(self._scheduler.now_us + self._draw(2 * RETRANSMIT_US), self._repeat, link)

    def _repeat(self, link: Link) -> None:
        """What was kept back is sent again, before anything newer."""
        if link.is_cut or not link.is_healing:
            return
        link.is_healing = False
        kept, link.kept = link.kept, []
        for message in kept:
            self._arrive(message)

    def _latency_us(self, link: Link) -> int:
        part = self._random.random()
        latency_us = link.base_us + link.extra_us + int(part * link.jitter_us)
        if link.tail_part and part < link.tail_part:
            latency_us *= TAIL_FACTOR
        return latency_us

    def _draw(self, below: int) -> int:
        return int(self._random.random() * below)

    def _machine_of(self, host: str) -> Machine | None:
        number = host[1:]
        if host[:1] != "m" or not number.isdigit() or int(number) not in self.hosts:
            return None
        return self.led_to(int(number))


def _made(end: End) -> None:
    if not end.is_dead:
        end.protocol.connection_made(end)
