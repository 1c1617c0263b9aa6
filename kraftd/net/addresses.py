"""Finds the addresses of a peer's host, and connects to the first that answers.

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
"""How long a lookup may take: two name servers that are gone, and a third."""

TRUSTED_LOOKUP_MS: Final = 1_000
"""The same while the addresses that were found last have not failed."""

ADDRESSES_MAX: Final = 8
"""Addresses of one host that are tried."""


async def look_up(host: str) -> Sequence[str]:
    """Ask the system for the addresses of a host.

    Raises:
        OSError: It has none, or nobody knows.
        ValueError: It is no host.
    """
    found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(_text(sockaddr) for *_, sockaddr in found))[:ADDRESSES_MAX]


class HostAddresses:
    """What the host of one peer leads to. Remembers what was found last."""

    def __init__(self) -> None:
        self.have_failed = False
        """Whether the addresses that were tried last did not answer."""
        self._known: tuple[str, Sequence[str]] = ("", ())
        """A host, and its addresses."""

    async def of(self, host: str, within_ms: int | None = None) -> Sequence[str]:
        """The addresses of a host: looked up anew, or those of before if that fails or takes too long.

        Raises:
            OSError: There are none; a TimeoutError if the lookup took too long.
            ValueError: It is no host.
        """
        if _is_address(host):
            return (host,)
        known = self._known[1] if self._known[0] == host else ()
        if within_ms is None:
            within_ms = TRUSTED_LOOKUP_MS if known and not self.have_failed else LOOKUP_MS
        try:
            async with asyncio.timeout(within_ms / 1_000):
                found = await look_up(host)
        except OSError:
            if not known:
                raise
            return known
        self._known = host, found
        return found


async def connect(connection: FrameConnection, addresses: Sequence[str], port: int, within_ms: int) -> None:
    """Connect to the first address that answers, each within a time.

    Raises:
        OSError: None does; what the last one came to.
        OverflowError: The port is none.
    """
    loop = asyncio.get_running_loop()
    for number, address in enumerate(addresses, 1):
        try:
            async with asyncio.timeout(within_ms / 1_000):
                await loop.create_connection(lambda: connection, address, port)
        except OSError:
            was_opened = connection.is_open or connection.end_reason
            if was_opened or number == len(addresses):
                raise
        else:
            return


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
