"""Frames as a stranger writes them: from the schemas in `proto/rpc`, read as data, and `msgpack`.

Nothing of kraftd is used: an error in its codec must not hide itself.
A frame is a 4-byte big-endian length and one msgpack array; a struct is an array of that version's fields
with a last map of tags.

    frame = request("DescribeNode", {}, correlation_id=7)
    answer = response("DescribeNode", body_of_the_answer)
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgpack

SCHEMAS = Path(__file__).parents[2] / "proto" / "rpc"
METADATA_TOPIC = "__cluster_metadata"
METADATA_TOPIC_ID = bytes(15) + b"\x01"
METADATA_TOPIC_DIRECTORY = f"{METADATA_TOPIC}-0"
HANDSHAKE, SHOW_NONCE = 20000, 20007
NO_NODE = -1

Values = Mapping[str, Any]
Field = Mapping[str, Any]


class Api(NamedTuple):
    """One API as its schema has it."""

    name: str
    key: int
    versions: range
    request: Mapping[str, Any]
    response: Mapping[str, Any]


@cache
def apis() -> Mapping[str, Api]:
    """Every API of `proto/rpc` by name, in the version that nodes speak: the newest."""
    found = {}
    for path in sorted(SCHEMAS.glob("*.json")):
        schema = json.loads(path.read_text(encoding="utf-8"))
        _, newest = span(schema["versions"])
        found[schema["name"]] = Api(
            schema["name"],
            schema["api_key"],
            range(newest, newest + 1),
            schema["request"],
            schema["response"],
        )
    return found


def span(versions: str) -> tuple[int, int]:
    """`3+`, `0-4` or `2` as lowest and highest version."""
    if versions.endswith("+"):
        return int(versions[:-1]), 1 << 15
    low, _, high = versions.partition("-")
    return int(low), int(high or low)


def present(fields: Sequence[Field], version: int) -> Iterator[Field]:
    """The fields that this version has."""
    for field in fields:
        low, high = span(field.get("versions", "0+"))
        if low <= version <= high:
            yield field


def structs_of(message: Mapping[str, Any]) -> Mapping[str, Sequence[Field]]:
    """The structs that a message names apart from its fields."""
    return {struct["name"]: struct["fields"] for struct in message.get("structs", ())}


def inner_fields(field: Field, structs: Mapping[str, Sequence[Field]]) -> Sequence[Field] | None:
    """The fields of a field that is a struct or an array of structs; None of a plain one."""
    own: Sequence[Field] | None = field.get("fields")
    return own if own is not None else structs.get(field["type"].removeprefix("[]"))


def default_of(kind: str) -> Any:
    """What a field of a plain type holds when nobody said anything."""
    if kind.startswith("[]"):
        return []
    return {"string": "", "bool": False, "uuid": bytes(16), "bytes": b"", "float64": 0.0}.get(kind, 0)


def pack(
    fields: Sequence[Field], version: int, values: Values, structs: Mapping[str, Sequence[Field]]
) -> Any:
    """A struct as it goes on the wire. `values` are by field name; what is missing has its default.

    The key "tags" holds tags of the caller's own.
    """
    wire: list[Any] = []
    tags: dict[Any, Any] = {}
    for field in present(fields, version):
        name = field["name"]
        if field["type"] == "records":
            continue
        if "tag" in field:
            if name in values:
                tags[field["tag"]] = _pack_field(field, version, values[name], structs)
        else:
            missing = field["default"] if "default" in field else default_of(field["type"])
            wire.append(_pack_field(field, version, values.get(name, missing), structs))
    return [*wire, {**tags, **values.get("tags", {})}]


def _pack_field(field: Field, version: int, value: Any, structs: Mapping[str, Sequence[Field]]) -> Any:
    inner = inner_fields(field, structs)
    if inner is None or value is None:
        return value
    if field["type"].startswith("[]"):
        return [pack(inner, version, each, structs) if isinstance(each, Mapping) else each for each in value]
    return pack(inner, version, value, structs) if isinstance(value, Mapping) else value


def unpack(
    fields: Sequence[Field], version: int, wire: Any, structs: Mapping[str, Sequence[Field]]
) -> dict[str, Any]:
    """The opposite of `pack`: field names to values."""
    values: dict[str, Any] = {}
    at = 0
    for field in present(fields, version):
        if field["type"] == "records" or "tag" in field:
            continue
        value, inner = wire[at], inner_fields(field, structs)
        at += 1
        if inner is not None and value is not None:
            is_array = field["type"].startswith("[]")
            parts = [unpack(inner, version, part, structs) for part in (value if is_array else [value])]
            value = parts if is_array else parts[0]
        values[field["name"]] = value
    return values


def framed(payload: bytes) -> bytes:
    """With its length before it."""
    return len(payload).to_bytes(4, "big") + payload


def raw_request(key: int, version: int, body: Any, correlation_id: int = 1, client_id: Any = None) -> bytes:
    """One frame of any key, version and body."""
    return framed(msgpack.packb([key, version, correlation_id, client_id, body]))


def request(
    name: str, values: Values | None = None, version: int | None = None, correlation_id: int = 1
) -> bytes:
    """One frame of an API; the newest version unless another is given."""
    api = apis()[name]
    version = api.versions[-1] if version is None else version
    body = pack(api.request["fields"], version, values or {}, structs_of(api.request))
    return raw_request(api.key, version, body, correlation_id)


def response(name: str, body: Any, version: int | None = None) -> dict[str, Any]:
    """A response's body, by field names."""
    api = apis()[name]
    version = api.versions[-1] if version is None else version
    return unpack(api.response["fields"], version, body, structs_of(api.response))


# Greetings, in the version that this tree's nodes speak and in the other one.


def greeting_version() -> int:
    """The version of the greeting that this tree has."""
    return apis()["Handshake"].versions[-1]


def greeting(
    node_id: int = NO_NODE,
    *,
    cluster_id: str | None = None,
    directory_id: bytes = bytes(16),
    start_counter: int = 0,
    start_id: bytes = bytes(16),
    nonce: bytes = bytes(16),
    challenge: bool = False,
    software: str = "visitor",
    api_keys: Any = (),
    version: int | None = None,
    correlation_id: int = 0,
) -> bytes:
    """A greeting as this tree has it, or in another version: 0 had a start counter, 1 has a nonce."""
    version = greeting_version() if version is None else version
    if version != greeting_version():
        proof = [start_counter, start_id] if version == 0 else [nonce, challenge]
        body = [cluster_id, node_id, directory_id, *proof, software, list(api_keys), {}]
        return raw_request(HANDSHAKE, version, body, correlation_id)
    values = {
        "ClusterId": cluster_id,
        "NodeId": node_id,
        "DirectoryId": directory_id,
        "StartCounter": start_counter,
        "StartId": start_id,
        "Nonce": nonce,
        "Challenge": challenge,
        "Software": software,
        "ApiKeys": list(api_keys),
    }
    return request("Handshake", values, version, correlation_id)


def show_nonce(
    nonce: bytes, start_counter: int = (1 << 31) - 1, start_id: bytes = bytes(16), correlation_id: int = 1
) -> bytes:
    """What a voter shows on its own connection; version 0 is the only one."""
    return raw_request(SHOW_NONCE, 0, [nonce, start_counter, start_id, {}], correlation_id)
