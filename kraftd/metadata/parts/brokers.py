"""Registered brokers.

A broker is the RegisterBrokerRecord that would register it as it is now. In a canonical one the order of what
has none is fixed: listeners and features are by name, the last of a name counts, directories are sorted.

Follows: Kafka's ClusterDelta and BrokerRegistration.
Differs: a broker that is not registered, or not in that epoch, cannot be unregistered; Kafka's controller
refuses that too, its image does not look.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Protocol, TypeAlias, TypeVar

import msgspec

from kraftd.metadata.entities import Entities
from kraftd.metadata.feature_levels import (
    CONTROLLED_SHUTDOWN_SINCE,
    CORDONED_LOG_DIRS_SINCE,
    DIRECTORIES_SINCE,
    REGISTRATION_CHANGES_SINCE,
    ZK_MIGRATION_SINCE,
)
from kraftd.metadata.impossible import ImpossibleRecordError
from kraftd.metadata.part import (
    Builder,
    Changes,
    EntityChange,
    EntityPart,
    Image,
    ImageComparison,
    ImageTable,
    ImageView,
    RecordKind,
)
from kraftd.metadata.views import (
    UNKNOWN_FIELDS,
    Attribute,
    Change,
    ColumnType,
    Row,
    TextTable,
    attribute_changes,
)
from kraftd.records.frame import AnyRecord
from kraftd.records.messages import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from kraftd.types import NodeId, Offset, Uuid, uuid_text

_State: TypeAlias = Entities[NodeId, RegisterBrokerRecord]

_FENCED_AFTER: Final = {-1: False, 1: True}
"""What a change says of `fenced`; 0 says nothing."""

_SHUTDOWN_AFTER: Final = {1: True}


class _Named(Protocol):
    @property
    def name(self) -> str: ...


N = TypeVar("N", bound=_Named)


def registered(record: RegisterBrokerRecord) -> RegisterBrokerRecord:
    """The canonical record of the broker that a record registers."""
    cordoned = record.cordoned_log_dirs
    return msgspec.structs.replace(
        record,
        end_points=_by_name(record.end_points),
        features=_by_name(record.features),
        log_dirs=_sorted(record.log_dirs),
        cordoned_log_dirs=None if cordoned is None else _sorted(cordoned),
    )


def in_epoch(brokers: _State, node_id: NodeId, epoch: int, offset: Offset) -> RegisterBrokerRecord:
    """The broker that a record tells of.

    Raises:
        ImpossibleRecordError: It is not registered, or in another epoch.
    """
    broker = brokers.get(node_id)
    if broker is None:
        raise ImpossibleRecordError(offset, f"broker {node_id} is not registered")
    if broker.broker_epoch != epoch:
        reason = f"broker {node_id} is in epoch {broker.broker_epoch}, not in {epoch}"
        raise ImpossibleRecordError(offset, reason)
    return broker


def changed(
    broker: RegisterBrokerRecord, change: BrokerRegistrationChangeRecord, offset: Offset
) -> RegisterBrokerRecord:
    """The broker after a change, which names only what is new.

    Raises:
        ImpossibleRecordError: The change holds a value that means nothing.
    """
    if change.fenced not in (-1, 0, 1):
        raise ImpossibleRecordError(offset, f"fenced cannot change by {change.fenced}")
    if change.in_controlled_shutdown not in (0, 1):
        reason = f"in_controlled_shutdown cannot change by {change.in_controlled_shutdown}"
        raise ImpossibleRecordError(offset, reason)
    cordoned = change.cordoned_log_dirs
    return msgspec.structs.replace(
        broker,
        fenced=_FENCED_AFTER.get(change.fenced, broker.fenced),
        in_controlled_shutdown=_SHUTDOWN_AFTER.get(
            change.in_controlled_shutdown, broker.in_controlled_shutdown
        ),
        log_dirs=_sorted(change.log_dirs) if change.log_dirs else broker.log_dirs,
        cordoned_log_dirs=broker.cordoned_log_dirs if cordoned is None else _sorted(cordoned),
    )


def _by_name(items: Sequence[N]) -> tuple[N, ...]:
    last = {item.name: item for item in items}
    return tuple(last[name] for name in sorted(last))


def _sorted(directories: Sequence[Uuid]) -> tuple[Uuid, ...]:
    return tuple(sorted(directories))


def _register(builder: Builder, record: RegisterBrokerRecord, _offset: Offset) -> None:
    _put(builder, registered(record))


def _unregister(builder: Builder, record: UnregisterBrokerRecord, offset: Offset) -> None:
    brokers = builder.state(BROKERS)
    in_epoch(brokers, record.broker_id, record.broker_epoch, offset)
    builder.put(BROKERS, brokers.remove(record.broker_id))


def _fence(builder: Builder, record: FenceBrokerRecord, offset: Offset) -> None:
    broker = in_epoch(builder.state(BROKERS), record.id, record.epoch, offset)
    _put(builder, msgspec.structs.replace(broker, fenced=True))


def _unfence(builder: Builder, record: UnfenceBrokerRecord, offset: Offset) -> None:
    broker = in_epoch(builder.state(BROKERS), record.id, record.epoch, offset)
    _put(builder, msgspec.structs.replace(broker, fenced=False))


def _change(builder: Builder, record: BrokerRegistrationChangeRecord, offset: Offset) -> None:
    broker = in_epoch(builder.state(BROKERS), record.broker_id, record.broker_epoch, offset)
    _put(builder, changed(broker, record, offset))
    if record.unknown_tags:
        builder.record_lost_tags(record)


def _put(builder: Builder, broker: RegisterBrokerRecord) -> None:
    builder.put(BROKERS, builder.state(BROKERS).put(broker.broker_id, broker))


def _rows(view: ImageView) -> Iterator[Row]:
    for broker in view.image[BROKERS].values():
        yield {
            "broker_id": broker.broker_id,
            "broker_epoch": broker.broker_epoch,
            "fenced": broker.fenced,
            "in_controlled_shutdown": broker.in_controlled_shutdown,
            "rack": broker.rack,
            "incarnation_id": uuid_text(broker.incarnation_id),
            "endpoints": [f"{end.name}://{end.host}:{end.port}" for end in broker.end_points],
            "log_dirs": list(map(uuid_text, broker.log_dirs)),
        }


class _BrokerFilter(msgspec.Struct, frozen=True):
    """What happened to one broker and its configs."""

    name: str

    def matches_record(self, record: AnyRecord) -> bool:
        match record:
            case RegisterBrokerRecord() | UnregisterBrokerRecord() | BrokerRegistrationChangeRecord():
                return str(record.broker_id) == self.name
            case FenceBrokerRecord() | UnfenceBrokerRecord():
                return str(record.id) == self.name
            case ConfigRecord():
                return record.resource_name == self.name
            case _:
                return False

    def matches_change(self, change: Change) -> bool:
        if change.entity == "config":
            return change.name.endswith(f" of broker {self.name}")
        return change.entity == "broker" and change.name == self.name


class _BrokerSubject:
    word = "broker"
    list_order = 1
    with_consequences = False

    def names(self, image: Image) -> Iterable[str]:
        return (str(broker.broker_id) for broker in image[BROKERS].values())

    def filter_for(self, name: str, _image: Image) -> _BrokerFilter:
        return _BrokerFilter(name)


class Brokers(EntityPart[NodeId, RegisterBrokerRecord]):
    """Brokers by id."""

    section = "brokers"
    empty = Entities(hash_version=4)
    kinds = (
        RecordKind(
            RegisterBrokerRecord,
            _register,
            levels=(
                1,
                CONTROLLED_SHUTDOWN_SINCE,
                ZK_MIGRATION_SINCE,
                DIRECTORIES_SINCE,
                CORDONED_LOG_DIRS_SINCE,
            ),
        ),
        RecordKind(UnregisterBrokerRecord, _unregister, levels=(1,)),
        RecordKind(FenceBrokerRecord, _fence, levels=()),
        RecordKind(UnfenceBrokerRecord, _unfence, levels=()),
        RecordKind(
            BrokerRegistrationChangeRecord,
            _change,
            levels=(
                REGISTRATION_CHANGES_SINCE,
                CONTROLLED_SHUTDOWN_SINCE,
                DIRECTORIES_SINCE,
                CORDONED_LOG_DIRS_SINCE,
            ),
            loses_tags=True,
        ),
    )
    tables = (
        ImageTable(
            "brokers",
            "a registered broker of the image at `end_offset`",
            (
                ("broker_id", ColumnType.INT32),
                ("broker_epoch", ColumnType.INT64),
                ("fenced", ColumnType.BOOL),
                ("in_controlled_shutdown", ColumnType.BOOL),
                ("rack", ColumnType.TEXT),
                ("incarnation_id", ColumnType.TEXT),
                ("endpoints", ColumnType.TEXTS),
                ("log_dirs", ColumnType.TEXTS),
            ),
            _rows,
            list_order=0,
        ),
    )
    history_subjects = (_BrokerSubject(),)

    def file_name(self, record: RegisterBrokerRecord) -> str:
        return str(record.broker_id)

    def describe(self, differences: Changes[RegisterBrokerRecord], _: ImageComparison) -> Iterator[Change]:
        for change in differences:
            yield from _described(change)

    def overview(self, image: Image) -> TextTable:
        rows = [
            (
                broker.broker_id,
                broker.broker_epoch,
                _state_text(broker),
                broker.rack or "-",
                ",".join(f"{end.name}://{end.host}:{end.port}" for end in broker.end_points) or "-",
            )
            for broker in image[self].values()
        ]
        return TextTable(("Broker", "Epoch", "State", "Rack", "Listeners"), rows)

    def overview_count(self, _image: Image) -> None:
        return None

    def text_table(self, view: ImageView, path: Sequence[str]) -> TextTable | None:
        return self.overview(view.image) if len(path) == 1 else None


def _state_text(broker: RegisterBrokerRecord) -> str:
    if broker.fenced:
        return "fenced"
    return "shutting down" if broker.in_controlled_shutdown else "active"


def _described(change: EntityChange[RegisterBrokerRecord]) -> Iterator[Change]:
    old, new, name = change.before, change.after, str(change.record.broker_id)
    if new is None:
        epoch = change.record.broker_epoch
        yield Change("broker", name, "unregistered", "unregistered", epoch, None)
    elif old is None:
        fenced = ", fenced" if new.fenced else ""
        text = f"registered (epoch {new.broker_epoch}{fenced})"
        yield Change("broker", name, "registered", text, None, new.broker_epoch)
    else:
        found = list(_field_changes(name, old, new))
        yield from found or [Change("broker", name, "unknown_tags", UNKNOWN_FIELDS)]


def _field_changes(name: str, old: RegisterBrokerRecord, new: RegisterBrokerRecord) -> Iterator[Change]:
    if old.broker_epoch != new.broker_epoch or old.incarnation_id != new.incarnation_id:
        text = f"registered again, it was started anew (epoch {old.broker_epoch} -> {new.broker_epoch})"
        yield Change("broker", name, "registered", text, old.broker_epoch, new.broker_epoch)
    if old.fenced != new.fenced:
        text = "fenced" if new.fenced else "unfenced"
        yield Change("broker", name, "fenced", text, old.fenced, new.fenced)
    if old.in_controlled_shutdown != new.in_controlled_shutdown:
        text = (
            "began a controlled shutdown" if new.in_controlled_shutdown else "is not shutting down any more"
        )
        before, after = old.in_controlled_shutdown, new.in_controlled_shutdown
        yield Change("broker", name, "controlled_shutdown", text, before, after)
    yield from attribute_changes("broker", name, old, new, _ATTRIBUTES)


def _endpoints_text(value: object) -> str:
    ends = value if isinstance(value, tuple) else ()
    return ",".join(f"{end.name}://{end.host}:{end.port}" for end in ends) or "none"


def _features_text(value: object) -> str:
    features = value if isinstance(value, tuple) else ()
    return ",".join(f"{f.name} {f.min_supported_version}-{f.max_supported_version}" for f in features)


def _rack_text(value: object) -> str:
    return "none" if value is None or value == "" else str(value)


def _directories_text(value: object) -> str:
    """Ids of directories; brokers of before Kafka 4.3 tell nothing of those that are cordoned."""
    if value is None:
        return "unknown (told since Kafka 4.3)"
    return ",".join(map(uuid_text, value)) if isinstance(value, tuple) and value else "none"


_ATTRIBUTES: Final[tuple[Attribute, ...]] = (
    ("end_points", "listeners", _endpoints_text),
    ("rack", "rack", _rack_text),
    ("features", "features", _features_text),
    ("log_dirs", "log directories", _directories_text),
    ("cordoned_log_dirs", "cordoned log directories", _directories_text),
)

BROKERS: Final = Brokers()
