"""What a record's key and value say, record by record: the part of decoding that numpy cannot do.

What repeats is remembered. Nine records in ten of an idle cluster are the same NoOp, and of a busy one most
are changes of partitions: those differ in their partition, while what follows it (leader, ISR) is one of few
hundred. So of these only the ending is decoded here; `decode` puts it after the partition, for all at once.

A record of a kind or version that is not known, or one of a kind that may hold secrets and that cannot be
decoded, counts as secret: nobody can tell what it holds.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

import msgspec

from kraftd.errors import MalformedError
from kraftd.metadata.secrets import holds_secret, redacted_json
from kraftd.records.batch import RecordView
from kraftd.records.control import RawControl, control_name, control_to_json, decode_control
from kraftd.records.frame import AnyRecord, RawRecord, decode_record, read_frame, record_name, to_json
from kraftd.records.messages import (
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
    UserScramCredentialRecord,
)
from kraftd.types import uuid_text

REMEMBERED_VALUES: Final = 4096
REMEMBERED_BYTES: Final = 64
REMEMBERED_ENDINGS: Final = 16_384

FRAME_BYTES: Final = 3
"""How long the frame before a body is, of every kind and version that is known."""
PARTITION_KINDS: Final = (PartitionRecord.API_KEY, PartitionChangeRecord.API_KEY)
"""Kinds whose body begins with the number of a partition and the id of its topic."""
TOPIC_ID_AT: Final = FRAME_BYTES + 4
ENDING_AT: Final = TOPIC_ID_AT + 16
PARTITION_HEAD, PARTITION_MIDDLE = '{"partitionId":', ',"topicId":"'
"""How the JSON of such a body begins: after the one comes its number, after the other its topic's text."""
TOPIC_KINDS: Final = (TopicRecord.API_KEY, RemoveTopicRecord.API_KEY)
SECRET_KINDS: Final = (ConfigRecord.API_KEY, UserScramCredentialRecord.API_KEY)
"""Known kinds of which some records hold secrets."""

_View: TypeAlias = Callable[[AnyRecord, int], dict[str, object]]


class Content(NamedTuple):
    """What a record's key and value say."""

    type: str | None = None
    api_key: int | None = None
    version: int | None = None
    body: str | None = None
    problem: str | None = None
    is_secret: bool = False
    is_known: bool = False
    """Whether it is a metadata record of a kind that can be read: its body is left to `Bodies`."""


def odd_content(value: bytes | None) -> Content:
    """What can be said of a value of a foreign batch, or without the frame of a kind that is known."""
    if value is None:
        return Content(problem="a metadata record without a value")
    try:
        api_key, version, _ = read_frame(value)
    except MalformedError as error:
        return Content(problem=str(error), is_secret=True)
    name = record_name(api_key)
    try:
        record = decode_record(value)
    except MalformedError as error:
        return Content(name, api_key, version, problem=str(error), is_secret=True)
    is_known = not isinstance(record, RawRecord)
    return Content(name, api_key, version, is_secret=holds_secret(record), is_known=is_known)


def control_content(record: RecordView) -> Content:
    """Decode a control record."""
    try:
        control = decode_control(record.key, record.value)
    except MalformedError as error:
        return Content(problem=str(error), is_secret=True)
    if isinstance(control, RawControl):
        return Content(control_name(control.type), control.type, control.version, is_secret=True)
    kind = control.CONTROL_TYPE
    return Content(control_name(kind), kind, control.version, _json(control_to_json(control)))


class Bodies:
    """Writes the bodies of records as JSON; one for those who may see secrets, one for all others."""

    def __init__(self, *, show_secrets: bool) -> None:
        self._view: _View = to_json if show_secrets else redacted_json
        self._remembered = lru_cache(REMEMBERED_VALUES)(self._body)
        self._ending = lru_cache(REMEMBERED_ENDINGS)(self._ending_of)

    def body(self, value: bytes) -> tuple[str | None, str | None]:
        """The body of a record of a known kind as JSON, or why there is none."""
        return self._remembered(value) if len(value) <= REMEMBERED_BYTES else self._body(value)

    def ending(self, frame: bytes, ending: bytes) -> str | None:
        """What JSON says of a partition after its number and `PARTITION_MIDDLE` and its topic's text.

        Args:
            frame: Of a record of one of `PARTITION_KINDS`.
            ending: What follows the topic's id in its value.

        Returns:
            None if it cannot be told this way, but only by reading the whole.
        """
        return self._ending(frame, ending)

    def _body(self, value: bytes) -> tuple[str | None, str | None]:
        try:
            record = decode_record(value)
        except MalformedError as error:
            return None, str(error)
        return _json(self._view(record, value[2])), None

    def _ending_of(self, frame: bytes, ending: bytes) -> str | None:
        body, _ = self._body(frame + bytes(ENDING_AT - FRAME_BYTES) + ending)
        head = f"{PARTITION_HEAD}0{PARTITION_MIDDLE}{topic_text(bytes(16))}"
        return body[len(head) :] if body is not None and body.startswith(head) else None


@lru_cache(REMEMBERED_VALUES)
def topic_text(topic_id: bytes) -> str:
    """Kafka's text of a topic's id."""
    return uuid_text(topic_id)


def is_secret(value: bytes) -> bool:
    """Whether a value of one of `SECRET_KINDS` must not be shown."""
    return _is_secret_short(value) if len(value) <= REMEMBERED_BYTES else _is_secret(value)


def _is_secret(value: bytes) -> bool:
    try:
        return holds_secret(decode_record(value))
    except MalformedError:
        return True


_is_secret_short = lru_cache(REMEMBERED_VALUES)(_is_secret)


def topic_id_of(value: bytes) -> str | None:
    """The topic that a value of one of `TOPIC_KINDS` is about."""
    try:
        record = decode_record(value)
    except MalformedError:
        return None
    return None if isinstance(record, RawRecord) else uuid_text(record.topic_id)  # type: ignore[union-attr]


def _json(dump: dict[str, object]) -> str:
    return msgspec.json.encode(dump["data"]).decode()
