"""Frames by the grammar of `proto/rpc`, sound and spoilt: every API, every version, every field.

`Grammar.sound` gives requests whose every field has a value of its type, among them the dangerous ones (real
voters, epochs near and far, positions out of range). `Grammar.spoilt` gives such a request with one place
spoilt. `nests` gives every place of every version of every API with something at it that nests as deep as
Python may recurse. Everything comes from the seed.
"""

import itertools
import math
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgpack

from tests.hostile import wire

LIMIT = sys.getrecursionlimit()
DEPTHS = (LIMIT // 10, LIMIT // 2, *range(LIMIT - 40, LIMIT + 40, 9), 2 * LIMIT, 20 * LIMIT)
"""How deep nests are: on the way to the limit of recursion, around it, and far beyond."""

OPENINGS = (b"\x91", b"\x81\x00", b"\x81", b"\xdc\x00\x01", b"\x92\xc0")
"""What one step of a nest is: an array, a map's value, a map's key, a long array, the second of two."""

PLACE = msgpack.ExtType(99, b"here the nest belongs")
PLACE_BYTES = msgpack.packb(PLACE)

INTEGERS = (0, 1, -1, 2, 3, 4, 99, 127, 128, 255, 256, 1 << 15, (1 << 15) - 1, 65_535, 65_536, 1 << 30)
EDGES = ((1 << 31) - 1, -(1 << 31), 1 << 31, (1 << 32) - 1, (1 << 63) - 1, -(1 << 63), (1 << 64) - 1)
RANGES = {
    "int8": (-128, 127),
    "int16": (-(1 << 15), (1 << 15) - 1),
    "uint16": (0, 65_535),
    "int32": (-(1 << 31), (1 << 31) - 1),
    "int64": (-(1 << 63), (1 << 63) - 1),
}
TEXTS = (
    "",
    "x",
    wire.METADATA_TOPIC,
    "ssl.cipher.suites",
    "log.retention.ms",
    "7",
    "-1",
    "a\nb",
    "\x00",
    "é" * 100,
    "y" * 3_000,
)
STRANGE = (
    None,
    True,
    False,
    1.5,
    math.nan,
    math.inf,
    b"",
    b"\xff" * 16,
    "",
    "z" * 300,
    [],
    [[]],
    [None] * 100,
    {},
    {0: 0},
    {1 << 40: []},
    {"a": {}},
    msgpack.ExtType(7, b"ext"),
    msgpack.Timestamp(0, 1),
    *INTEGERS,
    *EDGES,
)
MARKS = b"\x90\x91\x9f\x80\x8f\xc0\xc1\xc4\xc6\xc7\xc9\xd9\xdb\xdc\xdd\xde\xdf\xff\x7f"
"""Bytes with which values of msgpack begin."""
SEQUENCE_MAX = 3
HARMLESS_TARGETS = (99, -2, 1 << 30)
"""To whom the fuzzer asks a leader to hand over: nobody; that a client may do so is no defect."""


class Facts(NamedTuple):
    """What an attacker knows of the quorum, to go deeper."""

    cluster_id: str
    directory_ids: Sequence[bytes]
    node_ids: Sequence[int]
    epoch: int


class Values:
    """Values for plain fields: those that an attacker would try, and those of this quorum."""

    def __init__(self, rng: random.Random, facts: Facts) -> None:
        self.rng = rng
        self.facts = facts

    def plain(self, kind: str, name: str) -> Any:
        """A value of a type, for a field of that name."""
        rng, facts = self.rng, self.facts
        if kind in RANGES:
            low, high = RANGES[kind]
            if name.endswith("Epoch") and rng.random() < 0.7:
                return facts.epoch + rng.choice((0, 0, 1, 2, -1, 65_536, 1 << 30))
            if name.endswith("Id") and rng.random() < 0.7:
                return rng.choice((*facts.node_ids, 99, -1))
            if name.startswith("Partition") or name == "ResourceType":
                return rng.choice((0, 0, 4, 1))
            chosen = rng.choice(INTEGERS) if rng.random() < 0.8 else rng.choice((low, high))
            return min(max(chosen, low), high)
        if kind == "string":
            known = {"ClusterId": facts.cluster_id, "TopicName": wire.METADATA_TOPIC, "Host": "127.0.0.1"}
            return known[name] if name in known and rng.random() < 0.8 else rng.choice(TEXTS)
        if kind == "uuid":
            if name == "TopicId" and rng.random() < 0.8:
                return wire.METADATA_TOPIC_ID
            return rng.choice((*facts.directory_ids, bytes(16), rng.randbytes(16)))
        if kind == "bool":
            return rng.random() < 0.5
        return rng.randbytes(rng.choice((0, 1, 16, 16, 300))) if kind == "bytes" else rng.random()


class Grammar:
    """Requests from one seed."""

    def __init__(self, seed: int, facts: Facts) -> None:
        self.rng = random.Random(seed)
        self._values = Values(self.rng, facts)
        self._shapes = [(api, version) for api in wire.apis().values() for version in api.versions]

    def sound(self) -> bytes:
        """A request that a decoder takes."""
        api, version, body = self._request()
        return self._frame(api, version, body)

    def spoilt(self) -> bytes:
        """A request with something wrong in it: at one place, in its head, or in its bytes."""
        while self._hands_over(frame := self._spoilt()):
            pass
        return frame

    def _spoilt(self) -> bytes:
        api, version, body = self._request()
        kind = self.rng.randrange(10)
        if kind < 5:
            self._spoil(body)
            return self._frame(api, version, body)
        if kind < 7:
            return self._odd_head(api, version, body)
        return bytes_changed(self.rng, self._frame(api, version, body), MARKS, b"\x90")

    def _request(self) -> tuple[wire.Api, int, list[Any]]:
        api, version = self.rng.choice(self._shapes)
        body = self._struct(api.request["fields"], version, wire.structs_of(api.request))
        if api.name == "ResignLeader":
            body[0] = self.rng.choice(HARMLESS_TARGETS)
        return api, version, body

    def _hands_over(self, frame: bytes) -> bool:
        """Whether this became a good request to hand over: an election that follows would be no defect."""
        try:
            head = msgpack.unpackb(frame[4:], strict_map_key=False)
        except (ValueError, TypeError, RecursionError):
            return False
        if not isinstance(head, list) or len(head) < 5 or head[0] != wire.apis()["ResignLeader"].key:
            return False
        body = head[4]
        named = isinstance(body, list) and body and isinstance(body[0], int | float)
        return bool(named) and body[0] not in HARMLESS_TARGETS

    def _struct(
        self, fields: Sequence[wire.Field], version: int, structs: Mapping[str, Sequence[wire.Field]]
    ) -> list[Any]:
        built: list[Any] = []
        tags: dict[int, Any] = {}
        for field in wire.present(fields, version):
            if field["type"] == "records":
                continue
            value = self._value(field, version, structs)
            if "tag" not in field:
                built.append(value)
            elif self.rng.random() < 0.6:
                tags[field["tag"]] = value
        if self.rng.random() < 0.05:
            tags[self.rng.randrange(100, 200)] = self.rng.choice((0, "unknown", [1, 2], None))
        return [*built, tags]

    def _value(self, field: wire.Field, version: int, structs: Mapping[str, Sequence[wire.Field]]) -> Any:
        if "nullable" in field and self.rng.random() < 0.15:
            return None
        kind, inner = field["type"], wire.inner_fields(field, structs)
        if not kind.startswith("[]"):
            return (
                self._values.plain(kind, field["name"])
                if inner is None
                else self._struct(inner, version, structs)
            )
        count = 1 if self.rng.random() < 0.7 else self.rng.randrange(SEQUENCE_MAX)
        if inner is None:
            return [self._values.plain(kind[2:], field["name"]) for _ in range(count)]
        return [self._struct(inner, version, structs) for _ in range(count)]

    def _spoil(self, body: list[Any]) -> None:
        """Change one place of a body."""
        holder = body
        while (inner := [part for part in holder if isinstance(part, list)]) and self.rng.random() < 0.7:
            holder = self.rng.choice(inner)
        what = self.rng.randrange(4)
        if not holder or what == 0:
            holder.append(self.rng.choice(STRANGE))
        elif what == 1:
            del holder[self.rng.randrange(len(holder))]
        else:
            holder[self.rng.randrange(len(holder))] = self.rng.choice(STRANGE)

    def _odd_head(self, api: wire.Api, version: int, body: list[Any]) -> bytes:
        head = [api.key, version, self.rng.randrange(1 << 31), "fuzz", body]
        place = self.rng.randrange(6)
        if place == 5:
            head.append(self.rng.choice((b"", b"records", *STRANGE)))
        else:
            head[place] = self.rng.choice(STRANGE)
        return wire.framed(msgpack.packb(head))

    def _frame(self, api: wire.Api, version: int, body: list[Any]) -> bytes:
        return wire.framed(msgpack.packb([api.key, version, self.rng.randrange(1 << 30), None, body]))


def bytes_changed(rng: random.Random, frame: bytes, marks: bytes, least: bytes) -> bytes:
    """Flip, cut, or repeat bytes behind the length, or put marks of the encoding there; the length stays
    true. A frame of which nothing is left becomes `least`.
    """
    data = bytearray(frame[4:])
    for _ in range(rng.choice((1, 1, 1, 4, 20))):
        at = rng.randrange(len(data))
        what = rng.randrange(4)
        if what == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif what == 1:
            data[at] = rng.choice(marks)
        elif what == 2 and len(data) > 5:
            del data[at : at + rng.randrange(1, 5)]
        else:
            data[at:at] = data[at : at + 9]
        data = data or bytearray(least)
    return wire.framed(bytes(data))


def nests(facts: Facts, rng: random.Random) -> Iterator[bytes]:
    """Every place of every request with a nest at it, of every depth; then heads that nest; without end.

    The order is shuffled place by place: a slice of it has all depths and openings in it.
    """
    places = [
        place
        for api in wire.apis().values()
        for version in api.versions
        for place in _places(api, version, facts)
    ]
    rng.shuffle(places)
    ways = list(itertools.product(OPENINGS, DEPTHS))
    for number in itertools.count():
        for at, template in enumerate(places):
            opening, depth = ways[(number + at * 7) % len(ways)]
            closing = b"\xc0" * (depth if opening == b"\x81" else 1)
            yield wire.framed(template.replace(PLACE_BYTES, opening * depth + b"\xc0" + closing, 1))


def _places(api: wire.Api, version: int, facts: Facts) -> Iterator[bytes]:
    """One payload for each place of a request, with a mark where the nest belongs."""
    whole = _one_of_each(api.request["fields"], version, wire.structs_of(api.request), facts)
    for head in range(5):
        elements: list[Any] = [api.key, version, 7, None, whole]
        elements[head] = PLACE
        yield msgpack.packb(elements)
    yield msgpack.packb([api.key, version, 7, None, whole, PLACE])
    for spoil in _spoilers(whole):
        undo = spoil()
        yield msgpack.packb([api.key, version, 7, None, whole])
        undo()


def _one_of_each(
    fields: Sequence[wire.Field], version: int, structs: Mapping[str, Sequence[wire.Field]], facts: Facts
) -> list[Any]:
    """A struct in which every array has one element and every tag is there."""
    built: list[Any] = []
    tags: dict[int, Any] = {}
    for field in wire.present(fields, version):
        if field["type"] == "records":
            continue
        inner = wire.inner_fields(field, structs)
        known = {
            "ClusterId": facts.cluster_id,
            "TopicName": wire.METADATA_TOPIC,
            "TopicId": wire.METADATA_TOPIC_ID,
        }
        kind = field["type"].removeprefix("[]")
        value = (
            known.get(field["name"], wire.default_of(kind))
            if inner is None
            else _one_of_each(inner, version, structs, facts)
        )
        value = [value] if field["type"].startswith("[]") else value
        if "tag" in field:
            tags[field["tag"]] = value
        else:
            built.append(value)
    return [*built, tags]


def _spoilers(whole: Any) -> Iterator[Callable[[], Callable[[], None]]]:
    """For each place below a body: put the mark there; what they return takes it away again."""
    places = list(enumerate(whole)) if isinstance(whole, list) else list(whole.items())
    for key, value in places:

        def put(key: Any = key, value: Any = value) -> Callable[[], None]:
            whole[key] = PLACE
            return lambda: whole.__setitem__(key, value)

        yield put
        if isinstance(value, list | dict):
            yield from _spoilers(value)
    if isinstance(whole, dict):

        def add() -> Callable[[], None]:
            whole[77] = PLACE
            return lambda: whole.__delitem__(77)

        yield add
