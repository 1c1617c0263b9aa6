"""The state of the cluster at one offset of the metadata log, as an immutable value.

`apply` folds one record, `Fold` many, `to_records` writes the state out again, as a snapshot holds it. What a
`MetadataImage` is made of is private: readers use its lookups and iterators, so that the representation can
change. Two images share all that they have in common.

Between BeginTransaction and EndTransaction the image shows what it showed before Begin; the pending side is
part of the state, not of the hash. A record of a kind that this program does not know makes the image
partial: it is counted, and everything else stays true. A record that cannot follow what came before it is
an `ImpossibleRecordError`, and leaves nothing half applied.

The hash is the sum, modulo 2^128, of a hash of each entity (D-18): it does not depend on the order in which
entities came to be, and every fold keeps it up to date. Equal hashes on two nodes, or on a node and the Spark
job, mean equal features, configs and controllers.

Not here: what a request may change (`kraftd.controller`), and what differs between two images (`delta`).
Follows: the replay rules of Kafka's image, and the order of sections in its snapshots.
Differs: the content of an unfinished transaction is kept aside as an image, not as a list of deltas.
"""

from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from typing import Final, NamedTuple, TypeAlias

import msgspec
from immutables import Map, MapMutation

from kraftd.errors import ErrorCode, KraftdError
from kraftd.metadata.features import METADATA_VERSION
from kraftd.records.frame import AnyRecord, RawRecord
from kraftd.records.messages import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    NoOpRecord,
    RegisterControllerRecord,
    RegisterControllerRecordControllerEndpoint,
    RegisterControllerRecordControllerFeature,
)
from kraftd.types import NodeId, Offset, Uuid


class ImpossibleRecordError(KraftdError):
    """A record that cannot follow what came before it: the log, or the fold of it, is wrong."""

    code = ErrorCode.CORRUPT_MESSAGE

    def __init__(self, offset: Offset, reason: str) -> None:
        super().__init__(f"the record at offset {offset} is impossible: {reason}")
        self.offset = offset
        self.reason = reason


class ConfigEntry(NamedTuple):
    """One dynamic config. `resource_type` stays a number: the log may hold types we have no name for."""

    resource_type: int
    resource_name: str
    name: str
    value: str


class ControllerRegistration(msgspec.Struct, frozen=True):
    """What a controller said of itself. Endpoints and features are sorted: their order means nothing."""

    id: NodeId
    incarnation_id: Uuid
    zk_migration_ready: bool
    endpoints: tuple[tuple[str, str, int, int], ...]
    """Name of the listener, host, port, security protocol."""
    features: tuple[tuple[str, int, int], ...]
    """Name, lowest and highest supported level."""

    @classmethod
    def of(cls, record: RegisterControllerRecord) -> "ControllerRegistration":
        """The registration that a record carries."""
        return cls(
            record.controller_id,
            record.incarnation_id,
            record.zk_migration_ready,
            tuple(sorted((end.name, end.host, end.port, end.security_protocol) for end in record.end_points)),
            tuple(
                sorted((f.name, f.min_supported_version, f.max_supported_version) for f in record.features)
            ),
        )

    def to_record(self) -> RegisterControllerRecord:
        """The record that carries this registration."""
        return RegisterControllerRecord(
            controller_id=self.id,
            incarnation_id=self.incarnation_id,
            zk_migration_ready=self.zk_migration_ready,
            end_points=tuple(
                RegisterControllerRecordControllerEndpoint(
                    name=name, host=host, port=port, security_protocol=protocol
                )
                for name, host, port, protocol in self.endpoints
            ),
            features=tuple(
                RegisterControllerRecordControllerFeature(
                    name=name, min_supported_version=low, max_supported_version=high
                )
                for name, low, high in self.features
            ),
        )


_Mark: TypeAlias = int
"""The hash of one entity; the image's hash is the sum of all."""

_Resource: TypeAlias = tuple[int, str]
_Features: TypeAlias = Map[str, int]
_Entries: TypeAlias = Map[str, tuple[str, _Mark]]
_Configs: TypeAlias = Map[_Resource, _Entries]
_Controllers: TypeAlias = Map[NodeId, ControllerRegistration]
_Unknown: TypeAlias = Map[int, int]

_SUM_MASK: Final = (1 << 128) - 1
_NO_ENTRIES: Final[_Entries] = Map()


class OpenTransaction(msgspec.Struct, frozen=True):
    """A BeginTransaction without its end. `pending` is what the image becomes if it ends well."""

    begin_offset: Offset
    name: str | None
    pending: "MetadataImage"


class MetadataImage(msgspec.Struct, frozen=True):
    """The features, configs and controllers at one point of the log. Make one with `EMPTY` and `apply`."""

    _features: _Features = Map()
    _configs: _Configs = Map()
    _controllers: _Controllers = Map()
    _unknown: _Unknown = Map()
    _sum: int = 0
    _transaction: OpenTransaction | None = None

    # -- lookups

    def feature_level(self, name: str) -> int:
        """The finalized level of a feature; 0 when it is off."""
        return self._features.get(name, 0)

    def config(self, resource_type: int, resource_name: str, name: str) -> str | None:
        """The dynamic value of one config, None if there is none."""
        entry = self._configs.get((resource_type, resource_name), _NO_ENTRIES).get(name)
        return None if entry is None else entry[0]

    def controller(self, node_id: NodeId) -> ControllerRegistration | None:
        """What a controller said of itself, None if it never registered."""
        return self._controllers.get(node_id)

    # -- iterators, in an order that does not depend on history

    def features(self) -> Iterator[tuple[str, int]]:
        """Every feature that is on, with its level: `metadata.version` first, then by name."""
        return iter(sorted(self._features.items(), key=lambda item: (item[0] != METADATA_VERSION, item)))

    def config_resources(self, resource_type: int | None = None) -> Iterator[_Resource]:
        """Every resource (type, name) that has configs, sorted; of one type only, if given."""
        resources = self._configs.keys()
        return iter(sorted(r for r in resources if resource_type is None or r[0] == resource_type))

    def configs_of(self, resource_type: int, resource_name: str) -> Iterator[tuple[str, str]]:
        """The configs of one resource (name, value), sorted."""
        entries = self._configs.get((resource_type, resource_name), _NO_ENTRIES)
        return iter(sorted((name, entry[0]) for name, entry in entries.items()))

    def configs(self, resource_type: int | None = None) -> Iterator[ConfigEntry]:
        """Every config, sorted; of one type of resource only, if given."""
        for kind, resource_name in self.config_resources(resource_type):
            for name, value in self.configs_of(kind, resource_name):
                yield ConfigEntry(kind, resource_name, name, value)

    def controllers(self) -> Iterator[ControllerRegistration]:
        """Every registered controller, by id."""
        return (self._controllers[node_id] for node_id in sorted(self._controllers))

    # -- about the image itself

    def shares_configs(self, other: "MetadataImage", resource_type: int, resource_name: str) -> bool:
        """Whether two images hold the very same configs of one resource, which is cheap to see."""
        resource = (resource_type, resource_name)
        return self._configs.get(resource, _NO_ENTRIES) is other._configs.get(resource, _NO_ENTRIES)

    def hash(self) -> str:
        """The canonical hash (D-18), 32 hexadecimal digits. What is unknown or pending is not in it."""
        return f"{self._sum:032x}"

    @property
    def is_empty(self) -> bool:
        """Whether nothing has ever been folded that left a trace."""
        return not (self._features or self._configs or self._controllers or self._unknown)

    @property
    def is_partial(self) -> bool:
        """Whether records were folded past that this program does not know."""
        return bool(self._unknown)

    def unknown_kinds(self) -> Iterator[tuple[int, int]]:
        """The kinds (record type numbers) folded past, each with how many records, by number."""
        return iter(sorted(self._unknown.items()))

    @property
    def transaction(self) -> OpenTransaction | None:
        """The transaction that has begun and not ended here."""
        return self._transaction


EMPTY: Final = MetadataImage()
"""The image before the first record."""


def apply(image: MetadataImage, record: AnyRecord, offset: Offset) -> MetadataImage:
    """Fold one record.

    Raises:
        ImpossibleRecordError: It cannot follow what is in the image.
    """
    fold = Fold(image)
    fold.add(record, offset)
    return fold.image()


def apply_all(image: MetadataImage, records: Iterable[AnyRecord], base_offset: Offset) -> MetadataImage:
    """Fold records of consecutive offsets; all of them or, when one is impossible, none."""
    fold = Fold(image)
    for offset, record in enumerate(records, base_offset):
        fold.add(record, offset)
    return fold.image()


def to_records(image: MetadataImage) -> Iterator[AnyRecord]:
    """The records that rebuild the image from nothing, in the order of a snapshot of Kafka's.

    An open transaction is not among them: a snapshot stands for what is visible.
    """
    for name, level in image.features():
        yield FeatureLevelRecord(name=name, feature_level=level)
    for registration in image.controllers():
        yield registration.to_record()
    for entry in image.configs():
        yield ConfigRecord(*entry)


class Fold:
    """A scratch copy of an image that records are folded into, cheaper than one image a record.

    It belongs to whoever made it. When `add` raises, it must be dropped; the image it came from is untouched.
    """

    __slots__ = (
        "_begin",
        "_configs",
        "_controllers",
        "_entries",
        "_features",
        "_outside",
        "_resource",
        "_sum",
        "_touched",
        "_unknown",
    )

    def __init__(self, image: MetadataImage) -> None:
        self._outside: MetadataImage | None = None
        self._begin: tuple[Offset, str | None] = (0, None)
        transaction = image._transaction
        if transaction is None:
            self._load(image)
        else:
            self._outside = image
            self._begin = (transaction.begin_offset, transaction.name)
            self._load(transaction.pending)

    def add(self, record: AnyRecord, offset: Offset) -> None:
        """Fold one record.

        Raises:
            ImpossibleRecordError: It cannot follow what is here. Drop this fold then.
        """
        if type(record) is ConfigRecord:
            self.put_config(record.resource_type, record.resource_name, record.name, record.value)
        else:
            _HANDLERS[type(record)](self, record, offset)

    def put_config(self, resource_type: int, resource_name: str, name: str, value: str | None) -> None:
        """Fold a ConfigRecord given by its fields: a value of None removes the entry."""
        resource = (resource_type, resource_name)
        if resource != self._resource:
            self._turn_to(resource)
        entries = self._entries
        old = entries.get(name)
        if value is None:
            if old is not None:
                del entries[name]
                self._sum -= old[1]
            return
        # The lengths keep apart what the concatenation would not.
        text = f"config {resource_type} {len(resource_name)} {len(name)} {resource_name}{name}{value}"
        mark = int.from_bytes(blake2b(text.encode(), digest_size=16).digest(), "big")
        entries[name] = (value, mark)
        self._sum += mark if old is None else mark - old[1]

    def image(self) -> MetadataImage:
        """What has been folded so far, as an image."""
        inside = self._freeze()
        if self._outside is None:
            return inside
        return msgspec.structs.replace(self._outside, _transaction=OpenTransaction(*self._begin, inside))

    def _load(self, image: MetadataImage) -> None:
        self._features = image._features
        self._configs = image._configs
        self._controllers = image._controllers
        self._unknown = image._unknown
        self._sum = image._sum
        self._touched: dict[_Resource, MapMutation[str, tuple[str, _Mark]]] = {}
        self._resource: _Resource | None = None
        self._entries: MapMutation[str, tuple[str, _Mark]] = _NO_ENTRIES.mutate()

    def _turn_to(self, resource: _Resource) -> None:
        entries = self._touched.get(resource)
        if entries is None:
            entries = self._configs.get(resource, _NO_ENTRIES).mutate()
            self._touched[resource] = entries
        self._resource = resource
        self._entries = entries

    def _freeze(self) -> MetadataImage:
        configs = self._configs
        for resource, mutation in self._touched.items():
            entries = mutation.finish()
            if entries:
                configs = configs.set(resource, entries)
            elif resource in configs:
                configs = configs.delete(resource)
        image = MetadataImage(
            self._features, configs, self._controllers, self._unknown, self._sum & _SUM_MASK
        )
        self._load(image)
        return image

    # -- one handler a kind of record; the rest of the program finds them in _HANDLERS

    def _no_op(self, _record: NoOpRecord, _offset: Offset) -> None:
        pass

    def _feature_level(self, record: FeatureLevelRecord, offset: Offset) -> None:
        name, level = record.name, record.feature_level
        if level < 0:
            raise ImpossibleRecordError(offset, f"feature {name} cannot be at level {level}")
        old = self._features.get(name)
        if old is not None:
            self._sum -= _mark(f"feature {old} {name}")
            self._features = self._features.delete(name)
        if level:
            self._sum += _mark(f"feature {level} {name}")
            self._features = self._features.set(name, level)

    def _register_controller(self, record: RegisterControllerRecord, _offset: Offset) -> None:
        registration = ControllerRegistration.of(record)
        old = self._controllers.get(registration.id)
        if old is not None:
            self._sum -= _registration_mark(old)
        self._sum += _registration_mark(registration)
        self._controllers = self._controllers.set(registration.id, registration)

    def _begin_transaction(self, record: BeginTransactionRecord, offset: Offset) -> None:
        if self._outside is not None:
            raise ImpossibleRecordError(
                offset, f"a transaction begins inside the one that began at {self._begin[0]}"
            )
        self._outside = self._freeze()
        self._begin = (offset, record.name)

    def _end_transaction(self, _record: EndTransactionRecord, offset: Offset) -> None:
        if self._outside is None:
            raise ImpossibleRecordError(offset, "a transaction ends that never began")
        self._outside = None

    def _abort_transaction(self, _record: AbortTransactionRecord, offset: Offset) -> None:
        if self._outside is None:
            raise ImpossibleRecordError(offset, "a transaction is aborted that never began")
        before = msgspec.structs.replace(self._outside, _transaction=None)
        self._outside = None
        self._load(before)

    def _unknown_kind(self, record: RawRecord, _offset: Offset) -> None:
        kind = record.api_key
        self._unknown = self._unknown.set(kind, self._unknown.get(kind, 0) + 1)


def _mark(text: str) -> _Mark:
    return int.from_bytes(blake2b(text.encode(), digest_size=16).digest(), "big")


def _registration_mark(registration: ControllerRegistration) -> _Mark:
    encoded = msgspec.json.encode(
        (
            registration.id,
            registration.incarnation_id.hex(),
            registration.zk_migration_ready,
            registration.endpoints,
            registration.features,
        )
    )
    return int.from_bytes(blake2b(b"controller " + encoded, digest_size=16).digest(), "big")


_HANDLERS: Final[dict[type, Callable[..., None]]] = {
    NoOpRecord: Fold._no_op,
    FeatureLevelRecord: Fold._feature_level,
    RegisterControllerRecord: Fold._register_controller,
    BeginTransactionRecord: Fold._begin_transaction,
    EndTransactionRecord: Fold._end_transaction,
    AbortTransactionRecord: Fold._abort_transaction,
    RawRecord: Fold._unknown_kind,
}
