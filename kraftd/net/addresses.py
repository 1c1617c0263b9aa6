"""Finds the addresses of hosts, and connects to the first that answers.

A lookup has a time of its own: the system gives a name server that is gone five seconds before it asks the
next one, more than a connect may take. While it takes long or fails, the addresses that were found last are
tried; who is there says itself which node it is.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Sequence
from typing import Final

from kraftd.net.connection import FrameConnection

LOOKUP_MS: Final = 15_000
"""How long an attempt to connect waits for the first addresses of a host: two name servers that are gone, and
a third."""

PROMPT_MS: Final = 100
"""How long anybody waits for newer addresses of a host: a name server that is near needs less."""

ADDRESSES_MAX: Final = 8
"""Addresses of one host that are tried."""

HOSTS_MAX: Final = 64
"""Hosts whose addresses are remembered; the one that was found longest ago goes first."""


_Found = Sequence[str] | OSError | ValueError
"""What a lookup comes to."""


async def look_up(host: str) -> Sequence[str]:
    """Ask the system for the addresses of a host.

    Raises:
        OSError: It has none, or nobody knows.
        ValueError: It is no host.
    """
    found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(_text(sockaddr) for *_, sockaddr in found))[:ADDRESSES_MAX]


class AddressBook:
    """Where hosts are: one for all of a process that connects to a host by its name.

    The rule: who asks begins a lookup of the host unless one is under way, nobody ends it, and what it finds
    is known from then on, also if nobody waits any more. Who asks waits for it only as long as nothing is
    known, or for a moment.

    So whoever connects again and again finds a host: what it tries is older by one lookup and one attempt at
    most, and no lookup stands behind another one of its host. (None can be called off; the system ends each
    by itself.) Nobody decides whether the addresses that are known are good: they are tried, and the next
    lookup is under way meanwhile.
    """

    def __init__(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks
        self._known: dict[str, Sequence[str]] = {}
        self._lookups: dict[str, asyncio.Task[_Found]] = {}
        """Those that are under way."""

    async def of(self, host: str, within_ms: int) -> Sequence[str]:
        """The addresses of a host: those that a new lookup finds at once, or those of before.

        Args:
            host: A name or an address.
            within_ms: How long to wait if none are known.

        Raises:
            OSError: There are none; a TimeoutError if the lookup goes on.
            ValueError: It is no host.
        """
        if _is_address(host):
            return (host,)
        lookup = self._lookups.get(host)
        if lookup is None:
            lookup = self._tasks.create_task(self._look_up(host), name=f"lookup of {host}")
            self._lookups[host] = lookup
        wait_ms = PROMPT_MS if host in self._known else within_ms
        await asyncio.wait((lookup,), timeout=wait_ms / 1_000)
        found = lookup.result() if lookup.done() else TimeoutError()
        if isinstance(found, Exception):
            if host in self._known:
                return self._known[host]
            raise found
        return found

    def stop(self) -> None:
        """Wait for no lookup any more."""
        for lookup in self._lookups.values():
            lookup.cancel()

    async def _look_up(self, host: str) -> _Found:
        """What a lookup finds, which is noted, or why it fails: its task must not."""
        try:
            found = await look_up(host)
        except (OSError, ValueError) as error:
            return error
        finally:
            del self._lookups[host]
        self._known.pop(host, None)
        self._known[host] = found
        if len(self._known) > HOSTS_MAX:
            del self._known[next(iter(self._known))]
        return found


async def connect(connection: FrameConnection, addresses: Sequence[str], port: int, within_ms: int) -> None:
    """Connect to the first address that answers, each within a time.

    Raises:
        OSError: None does; what the last one came to. If the time was up just as it connected, the connection
            was opened and is ended, and no other address is tried: it is opened once.
        OverflowError: The port is none.
    """
    for number, address in enumerate(addresses, 1):
        try:
            async with asyncio.timeout(within_ms / 1_000):
                await _open(connection, address, port)
        except OSError:
            was_opened = connection.end_reason
            if was_opened or number == len(addresses):
                raise
        else:
            return


async def _open(connection: FrameConnection, address: str, port: int) -> None:
    """Connect to an address. If this is cancelled, the connection was never opened, or is ended."""
    loop = asyncio.get_running_loop()
    try:
        await loop.create_connection(lambda: connection, address, port)
    except asyncio.CancelledError:
        connection.abandon("the attempt to connect was given up")
        raise


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _text(sockaddr: tuple[object, ...]) -> str:
    """The address in what the system found, with its scope if it has one."""
    scope = sockaddr[3] if len(sockaddr) == 4 else 0
    return f"{sockaddr[0]}%{scope}" if scope else str(sockaddr[0])
