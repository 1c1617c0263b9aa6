"""Random ids, made of a text that holds the seed of a decision.

Follows: Kafka's Uuid.randomUuid: a UUID of version 4, never a reserved id, and none whose text begins with
`-`, which a command line would take for an option.
"""

from hashlib import blake2b
from typing import Final

from kraftd.types import METADATA_TOPIC_ID, ZERO_UUID, Uuid, uuid_text

_RESERVED: Final = frozenset((ZERO_UUID, METADATA_TOPIC_ID))
_VERSION_AT, _VARIANT_AT = 6, 8


def uuid_of(text: str) -> Uuid:
    """The id that a text makes, usable or not."""
    octets = bytearray(blake2b(text.encode(), digest_size=16).digest())
    octets[_VERSION_AT] = octets[_VERSION_AT] & 0x0F | 0x40
    octets[_VARIANT_AT] = octets[_VARIANT_AT] & 0x3F | 0x80
    return bytes(octets)


def is_usable(uuid: Uuid) -> bool:
    """Whether an id may be given to anything at all."""
    return uuid not in _RESERVED and not uuid_text(uuid).startswith("-")
