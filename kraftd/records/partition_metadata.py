"""The `partition.metadata` file: which topic the log in this directory belongs to.

Of a few lines, since a file of Kafka's is a module here.
"""

import re

from kraftd.errors import MalformedError
from kraftd.types import ZERO_UUID, Uuid, parse_uuid, uuid_text

_FILE = re.compile(r"version: (\d{1,9})\r?\ntopic_id: (\S+)\s*", re.ASCII)


def encode(topic_id: Uuid) -> bytes:
    """The file's bytes; like Kafka's, without a newline at the end."""
    return f"version: 0\ntopic_id: {uuid_text(topic_id)}".encode()


def decode(data: bytes) -> Uuid:
    """The topic id.

    Raises:
        MalformedError: Not these two lines, or a topic id that is none.
    """
    match = _FILE.fullmatch(data.decode("utf-8", "replace"))
    if match is None:
        raise MalformedError("not a version line and a topic id line")
    try:
        topic_id = parse_uuid(match[2])
    except ValueError as error:
        raise MalformedError(str(error)) from None
    if topic_id == ZERO_UUID:
        raise MalformedError("the topic id is the zero UUID, which stands for none")
    return topic_id
