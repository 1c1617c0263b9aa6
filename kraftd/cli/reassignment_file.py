"""Which brokers shall hold which partitions, as a file: the format of `kafka-reassign-partitions`.

    {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [11, 12]}]}

Kafka's tool reads what is written here, and the other way round. What is wrong with a file is one line.

Differs: replicas cannot be moved to a directory that the file names (`log_dirs`): brokers do that.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, BinaryIO, Final, TypeAlias

import msgspec
from msgspec import Meta

from kraftd.cli.failures import UsageError
from kraftd.cli.options import NODE_ID_MAX, PARTITION_MAX, check_line
from kraftd.cli.output import Data, to_json_line
from kraftd.types import NodeId

Key: TypeAlias = tuple[str, int]
"""A topic, and the number of a partition."""
Replicas: TypeAlias = tuple[NodeId, ...]
Assignment: TypeAlias = Mapping[Key, Replicas]
"""The brokers of each partition, the preferred leader first. In the order of a file."""

STANDARD_INPUT: Final = "-"

_EXAMPLE: Final = '{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[11,12]}]}'

_BYTES_MAX: Final = 64 << 20
_VERSION: Final = 1
_ANY: Final = "any"
_TOPIC_MAX: Final = 249


class _Partition(msgspec.Struct):
    """One entry of a file."""

    topic: Annotated[str, Meta(min_length=1, max_length=_TOPIC_MAX)]
    partition: Annotated[int, Meta(ge=0, le=PARTITION_MAX)]
    replicas: Annotated[list[Annotated[int, Meta(ge=0, le=NODE_ID_MAX)]], Meta(min_length=1)]
    log_dirs: list[str] | None = None


class _File(msgspec.Struct):
    """A file; what else it holds is not looked at."""

    partitions: list[_Partition]
    version: int = _VERSION


def read_assignment(path: str) -> Assignment:
    """What a file wants; `-` reads standard input.

    Raises:
        UsageError: It cannot be read, is of another format, or contradicts itself.
    """
    try:
        if path == STANDARD_INPUT:
            content = _read(sys.stdin.buffer)
        else:
            with Path(path).open("rb") as file:
                content = _read(file)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    if not content.strip():
        raise UsageError(f"{path}: it is empty; it must hold a plan, as of reassign plan -o json: {_EXAMPLE}")
    try:
        return _checked(msgspec.json.decode(content, type=_File))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, UsageError) as error:
        raise UsageError(f"{path}: {error}") from None


def assignment_data(assignment: Assignment) -> dict[str, Data]:
    """An assignment as a file holds it."""
    return {
        "version": _VERSION,
        "partitions": [
            {"topic": topic, "partition": number, "replicas": list(replicas)}
            for (topic, number), replicas in assignment.items()
        ],
    }


def assignment_line(assignment: Assignment) -> str:
    """The same on one line, as Kafka's tool prints it."""
    return to_json_line(assignment_data(assignment))


def topics_of(assignment: Assignment) -> list[str]:
    """The topics that are named, each once."""
    return list(dict.fromkeys(topic for topic, _ in assignment))


def partition_text(key: Key) -> str:
    """A partition as people call it."""
    return f"partition {key[1]} of {key[0]}"


def _read(file: BinaryIO) -> bytes:
    content = file.read(_BYTES_MAX + 1)
    if len(content) > _BYTES_MAX:
        raise UsageError(f"it is longer than {_BYTES_MAX >> 20} MiB, which no plan is")
    return content


def _checked(file: _File) -> Assignment:
    if file.version != _VERSION:
        raise UsageError(f"it is of version {file.version}, and {_VERSION} is the only one there is")
    if not file.partitions:
        raise UsageError("it names no partition")
    check_line({each.topic for each in file.partitions}, "a topic's name")
    found: dict[Key, Replicas] = {}
    for each in file.partitions:
        key = each.topic, each.partition
        if key in found:
            raise UsageError(f"{partition_text(key)} stands there twice")
        if (broker_id := _twice(each.replicas)) is not None:
            raise UsageError(f"{partition_text(key)} has broker {broker_id} twice")
        if any(directory != _ANY for directory in each.log_dirs or ()):
            raise UsageError(
                f"{partition_text(key)} is to be in a named log directory; only brokers move replicas "
                "between those, by kafka-reassign-partitions"
            )
        found[key] = tuple(each.replicas)
    return found


def _twice(replicas: Sequence[NodeId]) -> NodeId | None:
    return next((one for at, one in enumerate(replicas) if one in replicas[:at]), None)
