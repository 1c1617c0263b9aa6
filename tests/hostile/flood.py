"""Bytes at a rate: many connections from one thread, those that are not read or closed replaced at once.

`flood` offers `rate` bytes a second over all nodes and counts what became of them: *sent* is what the kernel
took, *unread* what lay in its buffers when a connection ended (asked of /proc/net/tcp), *refused* what no
connection took.
"""

import contextlib
import selectors
import socket
import time
from collections.abc import Callable
from pathlib import Path

from tests.hostile.client import Line
from tests.hostile.ground import Ground

CONNECTS_A_SECOND = 200
STALLED_S = 0.05
TICK_S = 0.005
BLOCK = 1 << 16


class _Stream:
    """One connection of a flood."""

    def __init__(self, line: Line, opening: bytes, payload: bytes) -> None:
        self.line = line
        self.pending = memoryview(opening)
        self.payload = memoryview(payload)
        self.stuck_since = 0.0
        self.is_dead = False
        line.socket.setblocking(False)

    def send(self, quota: int, now: float) -> int:
        """Send up to so many bytes of what comes next; how many were taken."""
        sent = 0
        while sent < quota and not self.is_dead:
            if not self.pending:
                self.pending = self.payload
            try:
                count = self.line.socket.send(self.pending[: quota - sent])
            except BlockingIOError:
                self.stuck_since = self.stuck_since or now
                break
            except OSError:
                self.is_dead = True
                break
            self.stuck_since = 0.0
            self.pending = self.pending[count:]
            sent += count
        return sent

    def read(self) -> int:
        """Drop what was answered; the bytes."""
        try:
            data = self.line.socket.recv(1 << 20)
        except BlockingIOError:
            return 0
        except OSError:
            data = b""
        self.is_dead = self.is_dead or not data
        return len(data)


def flood(
    ground: Ground,
    payload: bytes,
    *,
    rate: float,
    opening: Callable[[int], bytes] = lambda _: b"",
    lines: int = 12,
    read: bool = True,
    connects: int = CONNECTS_A_SECOND,
    seconds: float | None = None,
    bytes_max: int = 1 << 40,
) -> None:
    """Offer `payload` again and again, at `rate` bytes a second over all nodes, until the time is over.

    Args:
        ground: Whose nodes, and where bytes are counted.
        payload: Whole frames; the longer, the cheaper for the attacker.
        rate: Bytes a second.
        opening: What a connection to this node says first.
        lines: Connections at one time, over all nodes.
        read: Whether answers are read.
        connects: Replacements a second at most.
        seconds: How long; as long as the ground says if None.
        bytes_max: Where it ends in any case.
    """
    payload *= max(1, BLOCK // len(payload))
    with selectors.DefaultSelector() as selector, contextlib.ExitStack() as stack:
        streams: list[_Stream] = []
        stack.callback(lambda: _end(ground, streams))
        began = last = time.monotonic()
        ends = began + (ground.seconds if seconds is None else seconds)
        allowed = float(lines)
        number = 0
        carried = 0.0
        while (now := time.monotonic()) < ends and ground.tally["offered"] < bytes_max:
            carried = min(carried + (now - last) * rate, rate * 0.1)
            allowed = min(allowed + (now - last) * connects, max(lines, connects))
            last = now
            _replace(ground, streams, selector, now)
            while len(streams) < lines and allowed >= 1:
                allowed -= 1
                number += 1
                _open(ground, streams, selector, number, opening, payload, read=read)
            quota = int(carried)
            if quota:
                carried -= quota
                ground.tally["offered"] += quota
                for stream in streams:
                    ground.tally["sent"] += stream.send(quota // len(streams), now)
            if read:
                for key, _ in selector.select(TICK_S):
                    ground.tally["received"] += key.data.read()
            else:
                time.sleep(TICK_S)
    ground.tally["refused"] = max(0, ground.tally["offered"] - ground.tally["sent"])


def _open(
    ground: Ground,
    streams: list[_Stream],
    selector: selectors.BaseSelector,
    number: int,
    opening: Callable[[int], bytes],
    payload: bytes,
    *,
    read: bool,
) -> None:
    node_id = ground.node_ids[number % len(ground.node_ids)]
    try:
        line = ground.open(node_id, host=2 + number % 8, timeout_s=0.5)
    except OSError:
        return
    stream = _Stream(line, opening(node_id), payload)
    streams.append(stream)
    if read:
        selector.register(line.socket, selectors.EVENT_READ, stream)


def _replace(ground: Ground, streams: list[_Stream], selector: selectors.BaseSelector, now: float) -> None:
    """Close what is dead or not read any more."""
    gone = [s for s in streams if s.is_dead or (s.stuck_since and now - s.stuck_since > STALLED_S)]
    if not gone:
        return
    ground.tally["closed"] += sum(stream.is_dead for stream in gone)
    ground.tally["stalled"] += sum(not stream.is_dead for stream in gone)
    ground.tally["unread"] += _unread([stream for stream in gone if not stream.is_dead])
    for stream in gone:
        streams.remove(stream)
        with contextlib.suppress(KeyError, ValueError):
            selector.unregister(stream.line.socket)
        stream.line.reset()


def _end(ground: Ground, streams: list[_Stream]) -> None:
    ground.tally["unread"] += _unread(streams)
    for stream in streams:
        stream.line.reset()


def _unread(streams: list[_Stream]) -> int:
    """Bytes of these connections that no node has read: in our kernel's buffers, and in the other end's."""
    ports = set()
    count = 0
    for stream in streams:
        count += stream.line.unsent()
        with contextlib.suppress(OSError):
            ports.add(stream.line.socket.getsockname()[1])
    if ports:
        count += sum(size for port, size in receive_queues().items() if port in ports)
    return count


def receive_queues() -> dict[int, int]:
    """Unread bytes of each established socket on this machine, by the port of its other end."""
    queues = {}
    for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]:
        words = line.split()
        waiting = int(words[4].split(":")[1], 16)
        if waiting and words[3] in ("01", "08"):
            queues[int(words[2].split(":")[1], 16)] = waiting
    return queues


def quiet_socket(port: int, source: str) -> socket.socket | None:
    """A connection that says nothing; None if the node does not take it."""
    made = socket.socket()
    made.settimeout(1.0)
    try:
        made.bind((source, 0))
        made.connect(("127.0.0.1", port))
    except OSError:
        made.close()
        return None
    return made
