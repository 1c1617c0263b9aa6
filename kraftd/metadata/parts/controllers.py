"""Registered controllers: what each said of itself.

Follows: Kafka's ClusterDelta and ControllerRegistration.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec
from immutables import Map

from kraftd.metadata.entity_hash import EntityHash, hash_of_text
from kraftd.metadata.feature_levels import REGISTER_CONTROLLER_SINCE
from kraftd.metadata.part import Builder, Image, ImageComparison, ImageTable, ImageView, Part, RecordKind
from kraftd.metadata.views import Change, ColumnType, Row, TextTable, TreeNode
from kraftd.records.frame import encode_record
from kraftd.records.messages import (
    Record,
    RegisterControllerRecord,
    RegisterControllerRecordControllerEndpoint,
    RegisterControllerRecordControllerFeature,
)
from kraftd.types import NodeId, Offset, Uuid, uuid_text


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


_Registrations: TypeAlias = Map[NodeId, ControllerRegistration]
_Tagged: TypeAlias = Map[NodeId, RegisterControllerRecord]


class ControllersImage(msgspec.Struct, frozen=True):
    """Every registered controller. `sum` is the sum of their hashes."""

    _registrations: _Registrations = Map()
    sum: EntityHash = 0
    _tagged: _Tagged = Map()
    """The records with tags in them that nothing here knows: these are written again as they came."""

    def get(self, node_id: NodeId) -> ControllerRegistration | None:
        """What a controller said of itself, None if it never registered."""
        return self._registrations.get(node_id)

    def values(self) -> Iterator[ControllerRegistration]:
        """Every registration, by id."""
        return (self._registrations[node_id] for node_id in sorted(self._registrations))

    def to_records(self) -> Iterator[RegisterControllerRecord]:
        """The records that make these registrations."""
        return (self._tagged.get(one.id) or one.to_record() for one in self.values())

    def records_with_unknown_tags(self) -> Iterator[RegisterControllerRecord]:
        """The records that carry tags that nothing here knows."""
        return iter(self._tagged.values())

    def put(self, record: RegisterControllerRecord) -> "ControllersImage":
        """Register a controller, in the place of what it said before."""
        node_id, registration, kept = record.controller_id, ControllerRegistration.of(record), self._tagged
        hashes = self.sum + (_tagged_hash(record) if _has_tags(record) else _hash_of(registration))
        if (old := self._registrations.get(node_id)) is not None:
            tagged = kept.get(node_id)
            hashes -= _hash_of(old) if tagged is None else _tagged_hash(tagged)
            kept = kept if tagged is None else kept.delete(node_id)
        if _has_tags(record):
            kept = kept.set(node_id, record)
        return ControllersImage(self._registrations.set(node_id, registration), hashes, kept)


def _has_tags(record: RegisterControllerRecord) -> bool:
    inside = any(end.unknown_tags for end in record.end_points)
    return bool(record.unknown_tags) or inside or any(f.unknown_tags for f in record.features)


def _tagged_hash(record: RegisterControllerRecord) -> EntityHash:
    return hash_of_text(f"tagged controller {encode_record(record).hex()}")


def _hash_of(registration: ControllerRegistration) -> EntityHash:
    fields = (
        registration.id,
        registration.incarnation_id.hex(),
        registration.zk_migration_ready,
        registration.endpoints,
        registration.features,
    )
    return hash_of_text("controller " + msgspec.json.encode(fields).decode())


class ControllerChange(msgspec.Struct, frozen=True):
    """A controller registered anew; None is "not registered"."""

    id: NodeId
    before: ControllerRegistration | None
    after: ControllerRegistration | None


def _apply(builder: Builder, record: RegisterControllerRecord, _offset: Offset) -> None:
    builder.put(CONTROLLERS, builder.state(CONTROLLERS).put(record))


def _rows(view: ImageView) -> Iterator[Row]:
    for controller in view.image[CONTROLLERS].values():
        yield {
            "controller_id": controller.id,
            "incarnation_id": uuid_text(controller.incarnation_id),
            "endpoints": [f"{name}://{host}:{port}" for name, host, port, _ in controller.endpoints],
            "features": [f"{name} {low}-{high}" for name, low, high in controller.features],
        }


class Controllers(Part[ControllersImage, tuple[ControllerChange, ...]]):
    """Controllers by id."""

    empty = ControllersImage()
    kinds = (RecordKind(RegisterControllerRecord, _apply, levels=(REGISTER_CONTROLLER_SINCE,)),)
    tables = (
        ImageTable(
            "controllers",
            "a registered controller of the image",
            (
                ("controller_id", ColumnType.INT32),
                ("incarnation_id", ColumnType.TEXT),
                ("endpoints", ColumnType.TEXTS),
                ("features", ColumnType.TEXTS),
            ),
            _rows,
            list_order=0,
        ),
    )

    def to_records(self, image: Image) -> Iterator[RegisterControllerRecord]:
        return image[self].to_records()

    def diff(self, before: ControllersImage, after: ControllersImage) -> tuple[ControllerChange, ...]:
        ids = {registration.id for controllers in (before, after) for registration in controllers.values()}
        states = ((node_id, before.get(node_id), after.get(node_id)) for node_id in sorted(ids))
        return tuple(ControllerChange(node_id, old, new) for node_id, old, new in states if old != new)

    def describe(self, differences: tuple[ControllerChange, ...], _: ImageComparison) -> Iterator[Change]:
        for change in differences:
            yield Change("controller", str(change.id), *_what_and_text(change))

    def records_with_unknown_tags(
        self, state: ControllersImage, _other: ControllersImage
    ) -> Mapping[NodeId, Record]:
        return {record.controller_id: record for record in state.records_with_unknown_tags()}

    def entity_and_name(self, record: Record) -> tuple[str, str]:
        return "controller", str(record.controller_id) if isinstance(record, RegisterControllerRecord) else ""

    def sections(self, view: ImageView) -> Mapping[str, Callable[[], TreeNode]]:
        return {"controllers": lambda: self._folder(view)}

    def _folder(self, view: ImageView) -> TreeNode:
        records = {str(one.id): one.to_record() for one in view.image[self].values()}
        return self.record_files(records, view)

    def overview(self, image: Image) -> TextTable:
        rows = [
            (
                one.id,
                uuid_text(one.incarnation_id),
                ",".join(f"{name}://{host}:{port}" for name, host, port, _ in one.endpoints) or "-",
            )
            for one in image[self].values()
        ]
        return TextTable(("Controller", "IncarnationId", "Listeners"), rows)

    def text_table(self, view: ImageView, path: Sequence[str]) -> TextTable | None:
        return self.overview(view.image) if len(path) == 1 else None


def _what_and_text(change: ControllerChange) -> tuple[str, str]:
    old, new = change.before, change.after
    if new is None:
        return "unregistered", "unregistered"
    if old is None:
        return "registered", "registered"
    if old.incarnation_id != new.incarnation_id:
        return "registered", "registered again, it was started anew"
    return "changed", "changed what it said of itself"


CONTROLLERS: Final = Controllers()
