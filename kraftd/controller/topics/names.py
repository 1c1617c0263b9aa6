"""What a topic may be called.

Follows: Kafka's Topic. Two names are alike if they differ in nothing but `.` and `_`, since the names of
metrics have `_` for both; as in Kafka, only topics that are there count, not others of the same request.
"""

import re
from typing import Final

from kraftd.controller.refused import RefusedError
from kraftd.controller.response_room import quoted
from kraftd.errors import ErrorCode
from kraftd.metadata.parts.topics.image import TopicsImage

NAME_LENGTH_MAX: Final = 249
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")
_DIRECTORIES: Final = (".", "..")


def check_name(name: str) -> None:
    """Refuse what cannot be the name of a topic, by INVALID_TOPIC_EXCEPTION."""
    if complaint := _complaint(name):
        raise RefusedError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"{quoted(name)} is no name of a topic: {complaint}"
        )


def check_new_name(topics: TopicsImage, name: str) -> None:
    """Refuse a name for a new topic: one that is taken, is no name, or is too much like another."""
    if topics.id_of(name) is not None:
        raise RefusedError(ErrorCode.TOPIC_ALREADY_EXISTS, f"There is a topic {quoted(name)} already.")
    check_name(name)
    if alike := topics.names_alike(name):
        raise RefusedError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"{quoted(name)} and the topic {alike[0]} differ only in '.' and '_', which are one in metrics.",
        )


def _complaint(name: str) -> str | None:
    if not name:
        return "it is empty."
    if name in _DIRECTORIES:
        return "it would be a directory of its own."
    if len(name) > NAME_LENGTH_MAX:
        return f"it is longer than {NAME_LENGTH_MAX} characters."
    if not _LEGAL.fullmatch(name):
        return "only the letters a-z and A-Z, digits, '.', '_' and '-' may be in it."
    return None
