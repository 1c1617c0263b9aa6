"""Frames of Kafka's wire by the grammar of `proto/rpc`, sound and spoilt: every API, version and field.

`KafkaGrammar.sound` gives requests that a decoder takes, with the values that are dangerous, as `grammar`
has them; `broker` gives those of a broker that is registered, of which some are in envelopes. `spoilt` gives
one with one of its parts spoilt: a count, a length, a value, tags, its head, or its bytes. Everything comes
from the seed.

Written from the schemas alone, and not by kraftd's codec. Kafka's wire does not nest as msgpack does; what
nests are envelopes, which are among the spoilt ones.
"""

import random
import struct
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple

from tests.hostile.grammar import Facts, Values, bytes_changed
from tests.hostile.wire import framed
from tests.kafka_frames import (
    FIXED,
    ArrayType,
    Field,
    FieldType,
    Message,
    Primitive,
    StructDef,
    StructType,
    kafka_requests,
    tagged,
    uvarint,
)

KEYS_MAX = 256
"""From this key on an API is kraftd's own, and on msgpack alone."""
ENVELOPE, REGISTRATION = 58, 62
OF_BROKERS = (1, 56, 59, 62, 63, 67, 73)
"""Fetch, AlterPartition, FetchSnapshot, BrokerRegistration, BrokerHeartbeat, AllocateProducerIds,
AssignReplicasToDirs.
"""
FORWARDED = (19, 20, 30, 31, 33, 37, 38, 39, 40, 43, 44, 45, 49, 51, 57)
"""What an admin client asks its broker, which forwards it in an envelope."""
PRINCIPAL = b"\0\0\x05User\x06alice\0\0"

COUNTS = (-2, -1, 1, 3, 100_000, (1 << 31) - 1, -(1 << 31))
UVARINTS = (0, 2, 100, 100_001, 1 << 31, 1 << 32, 1 << 63)
TAGS = (
    b"\1\x7f\1a",
    b"\2\x7f\1a\x7f\1b",
    b"\2\x7f\1a\x7e\1b",
    b"\1\0\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x0f",
    b"\1\x7f\xff\xff\xff\xff\xff\xff\xff\xff\xff\1",
)
"""An unknown one, one twice, two in the wrong order; lengths and counts beyond the frame, or any number."""
WAITS_MS = (0, 0, 0, 0, 1, 50)
"""How long a Fetch waits: what is behind it on its connection waits as long."""

FEATURES = ((b"metadata.version", 1, 99), (b"kraft.version", 0, 1), (b"group.version", 0, 9))
FEATURES += ((b"transaction.version", 0, 9), (b"eligible.leader.replicas.version", 0, 9))
FEATURES += ((b"share.version", 0, 9), (b"streams.version", 0, 9))


LIKELY = {
    "EntityType": (b"user", b"client-id", b"ip"),
    "Key": (b"producer_byte_rate", b"controller_mutation_rate", b"connection_creation_rate"),
    "Mechanism": (1, 2),
    "PrincipalType": (b"User",),
    "Iterations": (4_096, 16_384),
}
"""Values without which a request goes no further than its first check, by field."""


class Broker(NamedTuple):
    """A broker that is registered, as far as whoever speaks for it knows."""

    broker_id: int
    incarnation_id: bytes
    epoch: int = -1


class Part(NamedTuple):
    """Some bytes of a frame, and what they are: a count, a length, tags, or a value."""

    kind: str
    data: bytes


class KafkaGrammar:
    """Requests from one seed."""

    def __init__(self, seed: int, facts: Facts, served: Collection[int], brokers: list[Broker]) -> None:
        self.rng = random.Random(seed)
        self.facts = facts
        self.brokers = brokers
        """Those that are registered; to be kept up to date by whoever registers them."""
        shapes = [shape for shape in kafka_requests() if shape[0].key < KEYS_MAX]
        self._all = shapes
        self._served = [shape for shape in shapes if shape[0].key in served]
        self._of_brokers = [shape for shape in self._served if shape[0].key in OF_BROKERS]
        self._forwarded = [shape for shape in self._served if shape[0].key in FORWARDED]

    def sound(self) -> bytes:
        """A request of a client that a decoder takes."""
        return whole(self._parts(*self.rng.choice(self._served)))

    def broker(self) -> bytes:
        """A request of a broker that a decoder takes: its own, or one that it forwards."""
        return whole(self._broker())

    def spoilt(self, *, broker: bool = False) -> bytes:
        """A request with something wrong in it: in one of its parts, in its head, or in its bytes."""
        rng = self.rng
        kind = rng.randrange(10)
        parts = (
            self._broker() if broker else self._parts(*rng.choice(self._all if kind == 0 else self._served))
        )
        if kind < 5:
            return whole(self._spoil(parts))
        if kind < 7:
            return whole([Part("head", self._odd_head(parts[0].data)), *parts[1:]])
        if kind == 7:
            return framed(self._envelope(whole(self._spoil(parts))[4:], odd=True))
        return bytes_changed(rng, whole(parts), b"\0\1\2\x7f\x80\xfe\xff", b"\0")

    # -- what brokers say

    def _broker(self) -> list[Part]:
        rng = self.rng
        if rng.random() < 0.3:
            inner = whole(self._parts(*rng.choice(self._forwarded)))[4:]
            return [Part("value", self._envelope(inner))]
        message, version = rng.choice(self._of_brokers)
        if message.key == REGISTRATION and rng.random() < 0.7:
            return list(registration(self.facts.cluster_id, rng.choice(self.brokers), version))
        return self._parts(message, version)

    def _envelope(self, inner: bytes, *, odd: bool = False) -> bytes:
        rng = self.rng
        principal, address = PRINCIPAL, b"\x7f\0\0\1"
        if odd:
            principal = rng.choice((principal, b"", b"\0\7", principal + b"x", rng.randbytes(300)))
            address = rng.choice((address, b"", b"12345", bytes(16), bytes(9_999)))
            for _ in range(rng.choice((0, 0, 1, 2, 200))):
                inner = _enveloped(inner, PRINCIPAL, address)
        return _enveloped(inner, principal, address)

    # -- requests by their schemas

    def _parts(self, message: Message, version: int) -> list[Part]:
        is_flexible = version in message.flexible
        client_id = self.rng.choice((None, b"", b"fuzz", b"2001", "é\n".encode() * 40))
        head = struct.pack(">hhi", message.key, version, self.rng.randrange(1 << 30))
        head += b"\xff\xff" if client_id is None else struct.pack(">h", len(client_id)) + client_id
        body = _Body(self, version, is_flexible=is_flexible)
        return [Part("head", head + b"\0" * is_flexible), *body.struct(message, message.root)]

    # -- what is wrong with them

    def _spoil(self, parts: list[Part]) -> list[Part]:
        """Change one part, by its kind."""
        rng = self.rng
        at = rng.randrange(len(parts))
        marked = [number for number, part in enumerate(parts) if part.kind in ("count", "length", "tags")]
        if marked and rng.random() < 0.8:
            at = rng.choice(marked)
        kind, data = parts[at]
        wrong = rng.choice(_WRONG[kind])(rng, data)
        return [*parts[:at], Part(kind, wrong), *parts[at + 1 :]]

    def _odd_head(self, head: bytes) -> bytes:
        rng = self.rng
        key, version, rest = head[:2], head[2:4], head[4:]
        what = rng.randrange(4)
        if what == 0:
            key = struct.pack(">h", rng.choice((0, 3, 10, 68, 75, 255)))
        elif what == 1:
            version = struct.pack(">h", rng.choice((-1, -(1 << 15), 4, 99, (1 << 15) - 1)))
        elif what == 2:
            rest = rest[:4] + struct.pack(">h", rng.choice((-2, -(1 << 15), (1 << 15) - 1, 1, 7))) + rest[6:]
        else:
            rest = rest[: rng.randrange(len(rest) + 1)]
        return key + version + rest


def registration(cluster_id: str, broker: Broker, version: int) -> Iterator[Part]:
    """The registration of a broker as it should be."""
    yield Part("head", struct.pack(">hhih", REGISTRATION, version, 1, -1) + b"\0")
    yield Part("value", struct.pack(">i", broker.broker_id))
    yield Part("length", uvarint(len(cluster_id) + 1))
    yield Part("value", cluster_id.encode() + broker.incarnation_id)
    yield Part("count", b"\2")
    yield Part("value", b"\x0aPLAINTEXT\x0a127.0.0.1\x23\x84\0\0")
    yield Part("tags", b"\0")
    yield Part("count", uvarint(len(FEATURES) + 1))
    for name, low, high in FEATURES:
        yield Part("value", uvarint(len(name) + 1) + name + struct.pack(">hh", low, high))
        yield Part("tags", b"\0")
    yield Part("length", b"\0")
    yield Part("value", b"\0" * (version >= 1))
    if version >= 2:
        yield Part("count", b"\2")
        yield Part("value", broker.incarnation_id)
    yield Part("value", struct.pack(">q", -1) * (version >= 3))
    yield Part("tags", b"\0")


_OF_BROKER_IDS = frozenset({"BrokerId", "ReplicaId", "BrokerIds", "Replicas", "NewIsr"})


class _Body:
    """The parts of one body."""

    def __init__(self, grammar: KafkaGrammar, version: int, *, is_flexible: bool) -> None:
        self._rng = grammar.rng
        self._values = Values(grammar.rng, grammar.facts)
        self._broker = grammar.rng.choice(grammar.brokers)
        self._version = version
        self._is_flexible = is_flexible
        self._message: Message

    def struct(self, message: Message, struct: StructDef) -> list[Part]:
        self._message = message
        return list(self._struct(struct))

    def _struct(self, struct: StructDef) -> Iterator[Part]:
        for field in struct.plain(self._version):
            yield from self._field(field)
        if not self._is_flexible:
            return
        chosen = [field for field in tagged(struct, self._version) if self._rng.random() < 0.6]
        unknown = self._rng.random() < 0.05
        yield Part("tags", uvarint(len(chosen) + unknown))
        for field in chosen:
            inside = b"".join(part.data for part in self._field(field))
            yield Part("value", uvarint(field.tag or 0) + uvarint(len(inside)) + inside)
        if unknown:
            yield Part("value", b"\xc8\1\3abc")

    def _field(self, field: Field) -> Iterator[Part]:
        is_null = self._version in field.nullable and self._rng.random() < 0.15
        match field.type:
            case ArrayType(element):
                count = 1 if self._rng.random() < 0.7 else self._rng.randrange(3)
                yield self._length("count", None if is_null else count)
                for _ in range(0 if is_null else count):
                    yield from self._element(field, element)
            case StructType(definition):
                if self._version in field.nullable:
                    yield Part("value", b"\xff" if is_null else b"\1")
                if not is_null:
                    yield from self._struct(definition)
            case Primitive(name) if is_null and name in ("string", "bytes", "records"):
                yield self._length("length" if name == "string" else "count", None)
            case other:
                yield from self._element(field, other)

    def _element(self, field: Field, kind: FieldType) -> Iterator[Part]:
        if isinstance(kind, StructType):
            yield from self._struct(kind.definition)
            return
        assert isinstance(kind, Primitive)
        value = self._plain(kind.name, field.name)
        if isinstance(value, bytes) and kind.name != "uuid":
            yield self._length("length" if kind.name == "string" else "count", len(value))
            yield Part("value", value)
        elif isinstance(value, bytes):
            yield Part("value", value)
        elif isinstance(value, float):
            yield Part("value", struct.pack(">d", value))
        else:
            size = FIXED[kind.name]
            yield Part("value", (value & (1 << 8 * size) - 1).to_bytes(size, "big"))

    def _plain(self, kind: str, name: str) -> bytes | int | float:
        """A value; numbers are cut to their size, as a client in C would."""
        rng, broker = self._rng, self._broker
        if name == "MaxWaitMs":
            return rng.choice(WAITS_MS)
        if (
            name in ("BrokerId", "ReplicaId", "Leader", "BrokerIds", "Replicas", "NewIsr")
            and rng.random() < 0.7
        ):
            return broker.broker_id
        if name == "BrokerEpoch" and rng.random() < 0.7:
            return broker.epoch
        if name == "IncarnationId" and rng.random() < 0.7:
            return broker.incarnation_id
        if name in LIKELY and rng.random() < 0.7:
            return rng.choice(LIKELY[name])
        value = self._values.plain(kind if kind != "records" else "bytes", name)
        return value.encode() if isinstance(value, str) else value

    def _length(self, kind: str, count: int | None) -> Part:
        if self._is_flexible:
            return Part(kind, b"\0" if count is None else uvarint(count + 1))
        size = 2 if kind == "length" else 4
        return Part(kind, (-1 if count is None else count).to_bytes(size, "big", signed=True))


Wrong = Callable[[random.Random, bytes], bytes]


def _other_count(rng: random.Random, data: bytes) -> bytes:
    """Of the same size, if that is a fixed one."""
    if len(data) in (2, 4):
        high = 1 << (8 * len(data) - 1)
        return (rng.choice(COUNTS) % high - rng.choice((0, high))).to_bytes(len(data), "big", signed=True)
    return uvarint(rng.choice(UVARINTS))


_COUNT: tuple[Wrong, ...] = (
    _other_count,
    _other_count,
    lambda rng, _: b"\xff" * rng.choice((1, 2, 4, 5, 10)),
    lambda _, data: b"\0" * len(data),
    lambda *_: b"",
)
_VALUE: tuple[Wrong, ...] = (
    lambda rng, data: data[: rng.randrange(len(data) + 1)],
    lambda rng, data: rng.randbytes(len(data)),
    lambda _, data: data * 2,
    lambda _, data: b"\xff" * len(data),
    lambda *_: b"",
)
_WRONG: dict[str, tuple[Wrong, ...]] = {
    "count": _COUNT,
    "length": _COUNT,
    "tags": (lambda rng, _: rng.choice(TAGS), *_COUNT),
    "value": _VALUE,
    "head": _VALUE,
}


def _enveloped(inner: bytes, principal: bytes, address: bytes) -> bytes:
    """An Envelope around a request, without its length."""
    told = b"".join(uvarint(len(part) + 1) + part for part in (inner, principal, address))
    return struct.pack(">hhih", ENVELOPE, 0, 1, -1) + b"\0" + told + b"\0"


def whole(parts: Iterable[Part]) -> bytes:
    """A frame of its parts."""
    return framed(b"".join(part.data for part in parts))
