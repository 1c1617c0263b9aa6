"""Ids of new topics, made of the seed of a decision.

An id is a random UUID of version 4, as Java makes them. It is made of the seed, the offset that the decision
is made at and the topic's name: were one seed drawn twice, there would still be two ids.
"""

from collections.abc import Container
from itertools import count

from kraftd.controller.context import Context
from kraftd.controller.uuids import is_usable, uuid_of
from kraftd.metadata.parts.topics import TOPICS
from kraftd.types import Uuid


def new_topic_id(context: Context, name: str, taken: Container[Uuid] = ()) -> Uuid:
    """An id that no topic has, nor is among `taken`."""
    topics = context.image[TOPICS]
    for attempt in count():
        text = f"{context.seed} {context.next_offset} {attempt} {name}"
        topic_id = uuid_of(text)
        if is_usable(topic_id) and topics.get(topic_id) is None and topic_id not in taken:
            return topic_id
    raise AssertionError("there is always one more number")
