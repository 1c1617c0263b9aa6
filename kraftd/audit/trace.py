"""One line for every event that a node handled and every effect that it returned.

A trace is what a golden story compares, what a failing seed prints, and what a harness may write while a sink
is attached. A line has the moment, the node, the direction (`<` in, `>` out, `!` from outside), a name and
`key=value` fields; a value with blanks in it is quoted as JSON. Messages are shown by what the quorum reads
in them, not field by field.

Nothing is built unless a sink is attached: the hot path does not know about traces (D-16).
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from kraftd.errors import MalformedError
from kraftd.protocol import messages as m
from kraftd.raft.effects import Effect
from kraftd.raft.events import Event
from kraftd.types import OffsetAndEpoch, ReplicaKey, uuid_text

IN, OUT, WORLD = "<", ">", "!"


class Line(msgspec.Struct, frozen=True):
    """One line of a trace."""

    at_ms: int
    node_id: int
    direction: str
    name: str
    fields: Mapping[str, str]

    def __str__(self) -> str:
        shown = "".join(f" {key}={_quote(value)}" for key, value in self.fields.items())
        return f"{self.at_ms:>6} {self.node_id:>2} {self.direction} {self.name}{shown}"


_LINE = re.compile(r"\s*(-?\d+)\s+(-?\d+) ([<>!]) (\w+)((?: [\w.]+=(?:\"(?:[^\"\\]|\\.)*\"|[^\s\"]*))*)\s*")
_FIELD = re.compile(r" ([\w.]+)=(\"(?:[^\"\\]|\\.)*\"|[^\s\"]*)")


def parse(text: str) -> Line:
    """Read one line back.

    Raises:
        MalformedError: The text is not a line of a trace.
    """
    found = _LINE.fullmatch(text)
    if found is None:
        raise MalformedError(f"not a line of a trace: {text!r}")
    at_ms, node_id, direction, name, fields = found.groups()
    pairs = {key: json.loads(value) if value[:1] == '"' else value for key, value in _FIELD.findall(fields)}
    return Line(int(at_ms), int(node_id), direction, name, pairs)


def trace(at_ms: int, node_id: int, direction: str, value: Event | Effect) -> Line:
    """Return the line of an event or effect."""
    fields = {key: _text(item) for key, item in _fields(value).items()}
    return Line(at_ms, node_id, direction, type(value).__name__, fields)


def _fields(value: Any) -> dict[str, Any]:
    """Return the fields worth showing; messages are spread out."""
    shown: dict[str, Any] = {}
    for name in value.__struct_fields__:
        item = getattr(value, name)
        if name in ("request", "response"):
            shown |= {"message": type(item).__name__.removesuffix("Request").removesuffix("Response")}
            shown |= _message(item)
        elif name == "election":
            shown |= {"epoch": item.epoch, "leader": item.leader_id}
            shown |= {"voted": item.voted.id if item.voted else -1}
        elif name == "peer" and item is not None:
            shown |= {"peer": item.node_id}
        elif name == "peer_id":
            shown |= {"peer": item}
        elif name in ("id", "start") and isinstance(item, OffsetAndEpoch):
            shown["snapshot"] = f"{item.epoch}:{item.offset}"
        elif name in ("records", "batches", "data"):
            if item:
                shown[name] = _size(item)
        elif name not in ("handle", "correlation_id", "token", "version", "connection", "prefix_checksum"):
            shown[name] = item
    return shown


def _size(records: bytes | Sequence[bytes]) -> str:
    if isinstance(records, bytes | bytearray | memoryview):
        return f"{len(records)}B"
    return f"{len(records)}x{sum(map(len, records))}B"


def _message(message: Any) -> dict[str, Any]:
    """Return the parts of a message that the quorum reads."""
    top = _error(message)
    topics: Sequence[Any] = getattr(message, "topics", None) or getattr(message, "responses", None) or ()
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        return top
    return top | _partition(message, topics[0].partitions[0])


def _partition(message: Any, data: Any) -> dict[str, Any]:
    match message:
        case m.VoteRequest():
            shown = {"epoch": data.replica_epoch, "log": f"{data.last_offset_epoch}:{data.last_offset}"}
            return shown | ({"pre": "yes"} if data.pre_vote else {})
        case m.BeginQuorumEpochRequest():
            return {"epoch": data.leader_epoch, "leader": data.leader_id}
        case m.EndQuorumEpochRequest():
            successors = ",".join(str(c.candidate_id) for c in data.preferred_candidates)
            return {"epoch": data.leader_epoch, "leader": data.leader_id, "successors": successors}
        case m.FetchRequest():
            known = data.high_watermark if data.high_watermark < 1 << 62 else "never"
            replica = message.replica_state.replica_id
            return {
                "epoch": data.current_leader_epoch,
                "replica": replica,
                "at": f"{data.last_fetched_epoch}:{data.fetch_offset}",
                "hw": known,
            }
        case m.FetchResponse():
            current = data.current_leader
            shown = {"epoch": current.leader_epoch, "leader": current.leader_id, "hw": data.high_watermark}
            if data.diverging_epoch.epoch >= 0:
                shown |= {"diverging": f"{data.diverging_epoch.epoch}:{data.diverging_epoch.end_offset}"}
            if data.snapshot_id.epoch >= 0:
                shown |= {"snapshot": f"{data.snapshot_id.epoch}:{data.snapshot_id.end_offset}"}
            return _error(data) | shown
        case m.FetchSnapshotRequest():
            asked = data.snapshot_id
            return {
                "epoch": data.current_leader_epoch,
                "replica": message.replica_id,
                "snapshot": f"{asked.epoch}:{asked.end_offset}",
                "position": data.position,
            }
        case m.FetchSnapshotResponse():
            current, told = data.current_leader, data.snapshot_id
            shown = {"epoch": current.leader_epoch, "leader": current.leader_id}
            shown |= {"snapshot": f"{told.epoch}:{told.end_offset}", "position": data.position}
            return _error(data) | shown | {"size": data.size}
        case m.VoteResponse():
            granted = {"granted": "yes" if data.vote_granted else "no"}
            return _error(data) | {"epoch": data.leader_epoch, "leader": data.leader_id} | granted
        case m.BeginQuorumEpochResponse() | m.EndQuorumEpochResponse():
            return _error(data) | {"epoch": data.leader_epoch, "leader": data.leader_id}
        case _:
            return _error(data)


def _error(data: Any) -> dict[str, Any]:
    return {"error": data.error_code} if getattr(data, "error_code", 0) else {}


def _text(value: Any) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case bytes() if len(value) == 16:
            return uuid_text(value)
        case ReplicaKey():
            return str(value.id)
        case str() | int():
            return str(value)
        case tuple() | list() | frozenset():
            return ",".join(_text(item) for item in _ordered(value))
        case _:
            return str(value)


def _ordered(values: Iterable[Any]) -> Iterable[Any]:
    return sorted(values) if isinstance(values, frozenset) else values


def _quote(value: str) -> str:
    return json.dumps(value) if re.search(r'[\s"=\\]', value) else value
