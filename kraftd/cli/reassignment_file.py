"""Which brokers shall hold which partitions, as a file: the format of `kafka-reassign-partitions`.

    {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [11, 12]}]}

Kafka's tool reads what is written here, and the other way round. What is wrong with a file is one line.

Differs: replicas cannot be moved to a directory that the file names (`log_dirs`): brokers do that.
"""

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, BinaryIO, Final, TypeAlias

import msgspec
from msgspec import Meta

from kraftd.cli.failures import UsageError
from kraftd.cli.options import NODE_ID_MAX, PARTITION_MAX, TOPIC_CHARACTERS_MAX, check_line
from kraftd.cli.output import Data, to_json_line
from kraftd.types import NodeId

Key: TypeAlias = tuple[str, int]
"""A topic, and the number of a partition."""
Replicas: TypeAlias = tuple[NodeId, ...]
Assignment: TypeAlias = Mapping[Key, Replicas]
"""The brokers of each partition, the preferred leader first. In the order of a file."""

STANDARD_INPUT: Final = "-"

_EXAMPLE: Final = '{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[11,12]}]}'
_NEEDED: Final = f"it must hold a plan, as of reassign plan -o json: {_EXAMPLE}"

_BYTE: Final = re.compile(r"\(byte (\d+)\)")
_NUMBER: Final = re.compile(r"\d+")

_BYTES_MAX: Final = 64 << 20
_VERSION: Final = 1
_ANY: Final = "any"

_MUST: Final[Mapping[str, str]] = {
    "version": f"must be {_VERSION}",
    "partitions": "must be a list of partitions",
    "partitions[]": "must have a topic, a partition and replicas",
    "partitions[].topic": f"must be the name of a topic, of 1 to {TOPIC_CHARACTERS_MAX} characters",
    "partitions[].partition": f"must be the number of a partition, 0 to {PARTITION_MAX}",
    "partitions[].replicas": "must name at least one broker, as [11,12]",
    "partitions[].replicas[]": f"must be the id of a broker, 0 to {NODE_ID_MAX}",
    "partitions[].log_dirs": f'must be "{_ANY}" for each replica, or be left out',
    "partitions[].log_dirs[]": f'must be "{_ANY}"',
}
"""What each place of a file must hold; of a list, all its entries."""


class _Partition(msgspec.Struct):
    """One entry of a file."""

    topic: Annotated[str, Meta(min_length=1, max_length=TOPIC_CHARACTERS_MAX)]
    partition: Annotated[int, Meta(ge=0, le=PARTITION_MAX)]
    replicas: Annotated[list[Annotated[int, Meta(ge=0, le=NODE_ID_MAX)]], Meta(min_length=1)]
    log_dirs: list[str] | None = None


class _File(msgspec.Struct):
    """A file; what else it holds is not looked at."""

    partitions: list[_Partition]
    version: int = _VERSION


def read_assignment(path: str) -> Assignment:
    """What a file wants; `-` reads standard input. It may be nothing: so is a plan by which nothing moves.

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
        raise UsageError(f"{path}: it is empty; {_NEEDED}")
    try:
        return _checked(msgspec.json.decode(content, type=_File))
    except msgspec.ValidationError as error:
        raise UsageError(f"{path}: {_misplaced(str(error))}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        found = _BYTE.search(str(error))
        where = f" near byte {found[1]}" if found else ""
        raise UsageError(f"{path}: it is no JSON{where}; {_NEEDED}") from None
    except UsageError as error:
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


def _misplaced(text: str) -> str:
    """What a place must hold, by the library's text about what it holds, which ends with the place."""
    place = text.partition(" - at `$.")[2].rstrip("`")
    must = _MUST.get(_NUMBER.sub("", place))
    return f"{place}: {must}" if must else f"it is no plan; {_NEEDED}"


def _checked(file: _File) -> Assignment:
    if file.version != _VERSION:
        raise UsageError(f"it is of version {file.version}, and {_VERSION} is the only one there is")
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
