"""Whether a text is an IP address for Kafka's brokers, which read it by Java's `InetAddress`.

An IPv4 address may have fewer than four numbers, the last one standing for all bytes that are left. An IPv6
address may stand in brackets, and have the number of a zone.

Differs: Java takes the name of a network interface as a zone, and more than four digits between two colons.
Not here: names of hosts, for which a decision would have to ask others.
"""

from ipaddress import AddressValueError, IPv6Address
from typing import Final

_V4_LENGTH_MAX: Final = 15
_ZONE_DIGITS_MAX: Final = 9


def is_ip_address(text: str) -> bool:
    """Whether a text is an address, IPv4 or IPv6."""
    if text.startswith("["):
        return text.endswith("]") and _is_v6(text[1:-1])
    return _is_v4(text) or _is_v6(text)


def _is_v4(text: str) -> bool:
    parts = text.split(".", 4) if len(text) <= _V4_LENGTH_MAX else []
    if not 1 <= len(parts) <= 4 or not all(part.isascii() and part.isdigit() for part in parts):
        return False
    *first, last = map(int, parts)
    return all(number <= 0xFF for number in first) and last < 1 << 8 * (5 - len(parts))


def _is_v6(text: str) -> bool:
    address, percent, zone = text.partition("%")
    if percent and not (zone.isascii() and zone.isdigit() and len(zone) <= _ZONE_DIGITS_MAX):
        return False
    try:
        IPv6Address(address)
    except AddressValueError:
        return False
    return True
