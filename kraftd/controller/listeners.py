"""Where brokers and controllers say that they listen: what is written of it, and what never is.

A listener that nobody could use is not: Kafka's classes cannot read a record that has one.

Follows: Kafka's ListenerInfo, Endpoint and SecurityProtocol.
Differs: such a registration is refused; Kafka's active controller raises, and gives up the lead.
"""

from collections.abc import Sequence
from typing import Final, TypeVar

from kraftd.metadata.config_schema import trimmed
from kraftd.protocol.brief import brief
from kraftd.protocol.messages import (
    BrokerRegistrationRequestListener,
    ControllerRegistrationRequestListener,
)

_SECURITY_PROTOCOLS: Final = frozenset(range(4))
"""PLAINTEXT, SSL, SASL_PLAINTEXT and SASL_SSL."""
_NAME_BYTES_MAX: Final = 100
"""How much of a name is told: a response has to hold it."""


ListenerT = TypeVar("ListenerT", BrokerRegistrationRequestListener, ControllerRegistrationRequestListener)


def each_once(listeners: Sequence[ListenerT]) -> Sequence[ListenerT]:
    """The listeners that count: of a name that comes twice the last, in the place of the first."""
    return tuple({each.name: each for each in listeners}.values())


def listeners_complaint(listeners: Sequence[ListenerT]) -> str | None:
    """What is wrong with the listeners that a node says it has, None if nothing is.

    The host and the port count of what is written, the security protocol of all that is named.
    """
    for each in listeners:
        if each.security_protocol not in _SECURITY_PROTOCOLS:
            return f"{_told(each)} has security protocol {each.security_protocol}; known are 0 to 3"
    for each in each_once(listeners):
        if not trimmed(each.host):
            return f"{_told(each)} has no host that others could connect to"
        if each.port == 0:
            return f"{_told(each)} has port 0, to which nobody can connect"
    return None


def _told(listener: ListenerT) -> str:
    return f"listener '{brief(listener.name, _NAME_BYTES_MAX)}'"
