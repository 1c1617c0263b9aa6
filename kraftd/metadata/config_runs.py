"""Runs of config records, read in bulk: a busy log is hardly anything else, and every node reads it.

A value in the usual form is cut without being decoded: version 0, ASCII, set and not removed, no tags, each
text shorter than 127 bytes. Of a run only the last value of each config counts, so only that is decoded.
Anything else is left to the codec of all records, which also says what is wrong with it.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from kraftd.records.frame import encode_record
from kraftd.records.messages import ConfigRecord

_OPENING_BYTES: Final = 3
_OPENING: Final = encode_record(ConfigRecord(0, "", "", None), 0)[:_OPENING_BYTES]
"""Version of the frame, kind, version; then the type of the resource follows, in a byte."""
_RESOURCE_AT: Final = _OPENING_BYTES + 1


def last_of_each(values: Sequence[bytes], start: int) -> tuple[Mapping[bytes, bytes], int]:
    """The last value of each config, from a position on, as far as they are in the usual form.

    Returns:
        By all before the text of its value, which names the config: the value of the record. And the position
        of the first that is not in the usual form.
    """
    last: dict[bytes, bytes] = {}
    at, end = start, len(values)
    try:
        while at < end:
            value = values[at]
            # Each text stands behind its length and one, so 0 is none, and no text is longer than it says.
            name_at = _RESOURCE_AT + value[_RESOURCE_AT]
            text_at = name_at + value[name_at]
            tags_at = text_at + value[text_at]
            if (
                not _RESOURCE_AT < name_at < text_at < tags_at == len(value) - 1
                or value[tags_at]
                or value[:_OPENING_BYTES] != _OPENING
                or not value.isascii()
            ):
                break
            last[value[:text_at]] = value
            at += 1
    except IndexError:
        pass
    return last, at


def decode(value: bytes) -> tuple[int, str, str, str]:
    """The config of a value that `last_of_each` returned: type and name of its resource, name, value."""
    text = value.decode()
    name_at = _RESOURCE_AT + value[_RESOURCE_AT]
    text_at = name_at + value[name_at]
    return (
        value[_OPENING_BYTES],
        text[_RESOURCE_AT + 1 : name_at],
        text[name_at + 1 : text_at],
        text[text_at + 1 : -1],
    )
