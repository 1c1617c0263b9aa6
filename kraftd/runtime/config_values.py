"""How the values of a configuration are written: addresses, voters, principals, yes and no.

Each parser takes the text of one value, and raises ValueError with what is wrong with it. Which keys there
are, and what they default to, is in `config`.
"""

from typing import Final

from kraftd.types import Endpoint, NodeId, parse_endpoint

UNSPECIFIED_HOSTS: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104 - compared with, never bound
LOOPBACK: Final = "127.0.0.1"
"""Of IPv4 alone: one socket, one address, the same on machines without IPv6."""

STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
"""The authorizer whose rules kraftd has, by the name of Kafka's class."""

_INT32_MAX = 2**31 - 1


def parse_listeners(text: str) -> dict[str, Endpoint]:
    """Read Kafka's listener list, `NAME://host:port,…`, by listener name.

    Raises:
        ValueError: An entry has another form, or a name comes twice.
    """
    listeners: dict[str, Endpoint] = {}
    for part in split(text):
        name, separator, address = part.partition("://")
        if not separator or not name:
            raise ValueError(f"{part!r} is not NAME://host:port")
        if name.upper() in listeners:
            raise ValueError(f"listener {name.upper()} is there twice")
        listeners[name.upper()] = parse_endpoint(address, listener=name.upper())
    return listeners


def parse_voters(text: str) -> dict[NodeId, Endpoint]:
    """Read Kafka's static voters, `id@host:port,…`.

    Raises:
        ValueError: An entry has another form, an id comes twice, or an address is not valid.
    """
    voters: dict[NodeId, Endpoint] = {}
    for part in split(text):
        id_text, separator, address = part.partition("@")
        if not separator or not id_text.isascii() or not id_text.isdigit() or int(id_text) > _INT32_MAX:
            raise ValueError(f"{part!r} is not id@host:port")
        endpoint = dialable(parse_endpoint(address))
        if int(id_text) in voters:
            raise ValueError(f"voter {int(id_text)} is there twice")
        voters[int(id_text)] = endpoint
    return voters


def parse_servers(text: str) -> list[Endpoint]:
    """Read `host:port,…`, addresses that others can reach."""
    return [dialable(parse_endpoint(part)) for part in split(text)]


def parse_http(text: str) -> Endpoint:
    """Where the pages are: without a host, this machine alone."""
    endpoint = parse_endpoint(text)
    return endpoint if endpoint.host else Endpoint(LOOPBACK, endpoint.port, endpoint.listener)


def dialable(endpoint: Endpoint) -> Endpoint:
    """The same address, if others can reach it."""
    if not endpoint.host or endpoint.host in UNSPECIFIED_HOSTS:
        raise ValueError(f"{str(endpoint)!r} is no address that others can reach")
    if endpoint.port == 0:
        raise ValueError(f"{str(endpoint)!r} has no port that others can reach")
    try:
        endpoint.host.encode("idna")
    except UnicodeError:
        why = "its host has an empty label, or one of more than 63 characters"
        raise ValueError(f"{str(endpoint)!r} is no address that others can reach: {why}") from None
    return endpoint


def parse_authorizer(text: str) -> bool:
    """Read the name of an authorizer. There is one, so it is true."""
    if text != STANDARD_AUTHORIZER:
        raise ValueError(f"{text!r} is not {STANDARD_AUTHORIZER}, whose rules are the only ones here")
    return True


def parse_super_users(text: str) -> frozenset[str]:
    """Read principals, `Type:name;…`: names may hold commas."""
    users = frozenset(part.strip() for part in text.split(";") if part.strip())
    for user in sorted(users):
        if ":" not in user:
            raise ValueError(f"{user!r} is not Type:name, such as User:admin; between two users stands ';'")
    return users


def parse_integer(text: str, low: int, high: int) -> int:
    """An integer within bounds, both included, as Java reads one.

    Raises:
        ValueError: It is none, or beyond a bound.
    """
    try:
        value = int(text)
        if "_" in text:  # as in 1_000, which Java does not read
            raise ValueError
    except ValueError:
        raise ValueError(f"{text!r} is not an integer") from None
    if not low <= value <= high:
        raise ValueError(f"{value} is not between {low} and {high}")
    return value


def parse_boolean(text: str) -> bool:
    """Read true or false, in any case."""
    if text.lower() not in ("true", "false"):
        raise ValueError(f"{text!r} is neither true nor false")
    return text.lower() == "true"


def split(text: str) -> list[str]:
    """The items of a list, without the blanks around them and without empty ones."""
    return [part.strip() for part in text.split(",") if part.strip()]
