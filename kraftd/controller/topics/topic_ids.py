"""Ids of new topics, made of the seed of a decision.

An id is a random UUID of version 4, as Java makes them. It is made of the seed, the offset that the decision
is made at and the topic's name: were one seed drawn twice, there would still be two ids.

Follows: Kafka's Uuid.randomUuid: never a reserved id, and none whose text begins with `-`, which a command
line would take for an option.
"""

from collections.abc import Container
from hashlib import blake2b
from itertools import count
from typing import Final

from kraftd.controller.context import Context
from kraftd.metadata.parts.topics import TOPICS
from kraftd.types import METADATA_TOPIC_ID, ZERO_UUID, Uuid, uuid_text

_RESERVED: Final = frozenset((ZERO_UUID, METADATA_TOPIC_ID))
_VERSION_AT, _VARIANT_AT = 6, 8


def new_topic_id(context: Context, name: str, taken: Container[Uuid] = ()) -> Uuid:
    """An id that no topic has, nor is among `taken`."""
    topics = context.image[TOPICS]
    for attempt in count():
        text = f"{context.seed} {context.next_offset} {attempt} {name}"
        topic_id = _as_version_4(blake2b(text.encode(), digest_size=16).digest())
        if is_usable(topic_id) and topics.get(topic_id) is None and topic_id not in taken:
            return topic_id
    raise AssertionError("there is always one more number")


def is_usable(topic_id: Uuid) -> bool:
    """Whether an id may be given to a topic at all."""
    return topic_id not in _RESERVED and not uuid_text(topic_id).startswith("-")


def _as_version_4(drawn: bytes) -> Uuid:
    octets = bytearray(drawn)
    octets[_VERSION_AT] = octets[_VERSION_AT] & 0x0F | 0x40
    octets[_VARIANT_AT] = octets[_VARIANT_AT] & 0x3F | 0x80
    return bytes(octets)
