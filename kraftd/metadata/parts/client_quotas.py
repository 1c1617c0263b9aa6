"""Client quotas: how much each user or client may use.

In a canonical quota the entity's components are by type, the last of a type counts.

Follows: Kafka's ClientQuotasDelta.
"""

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

import msgspec

from kraftd.metadata.entities import Entities
from kraftd.metadata.part import (
    Builder,
    Changes,
    EntityPart,
    ImageComparison,
    ImageTable,
    ImageView,
    RecordKind,
)
from kraftd.metadata.views import DEFAULT, Change, ColumnType, Folder, Row, files, folders
from kraftd.records.messages import ClientQuotaRecord, ClientQuotaRecordEntityData
from kraftd.types import Offset

QuotaEntity: TypeAlias = tuple[tuple[str, bool, str], ...]
"""Type of each component, whether it has a name (the default of the type has none), the name."""

QuotaKey: TypeAlias = tuple[QuotaEntity, str]
Quotas: TypeAlias = Entities[QuotaKey, ClientQuotaRecord]


def quota_key(components: Sequence[ClientQuotaRecordEntityData], key: str) -> QuotaKey:
    """The quota of this name of an entity, of which each component has another type, in their order."""
    entity = tuple(
        (one.entity_type, one.entity_name is not None, one.entity_name or "") for one in components
    )
    return entity, key


def with_quota(quotas: Quotas, record: ClientQuotaRecord) -> Quotas:
    """The quotas after one was set or removed; removing one that is not there does nothing."""
    last = {component.entity_type: component for component in record.entity}
    components = tuple(last[entity_type] for entity_type in sorted(last))
    key = quota_key(components, record.key)
    return (
        quotas.remove(key)
        if record.remove
        else quotas.put(key, msgspec.structs.replace(record, entity=components))
    )


def _apply(builder: Builder, record: ClientQuotaRecord, _offset: Offset) -> None:
    builder.put(CLIENT_QUOTAS, with_quota(builder.state(CLIENT_QUOTAS), record))


def _rows(view: ImageView) -> Iterator[Row]:
    for quota in view.image[CLIENT_QUOTAS].values():
        entity = [f"{one.entity_type}={one.entity_name or ''}" for one in quota.entity]
        yield {"entity": entity, "name": quota.key, "value": quota.value}


class ClientQuotas(EntityPart[QuotaKey, ClientQuotaRecord]):
    """Quotas by entity and name."""

    section = "clientQuotas"
    kinds = (RecordKind(ClientQuotaRecord, _apply, levels=(1,)),)
    tables = (
        ImageTable(
            "quotas",
            "a client quota of the image; an entity is `type=name`, `type=` the default of the type",
            (("entity", ColumnType.TEXTS), ("name", ColumnType.TEXT), ("value", ColumnType.FLOAT64)),
            _rows,
        ),
    )

    def describe(self, differences: Changes[ClientQuotaRecord], _: ImageComparison) -> Iterator[Change]:
        for change in differences:
            old, new = (None if one is None else one.value for one in (change.before, change.after))
            components = (
                f"{one.entity_type} {DEFAULT if one.entity_name is None else one.entity_name}"
                for one in change.record.entity
            )
            if new is None:
                text = f"removed (was {old:g})"
            else:
                text = f"set to {new:g}" + ("" if old is None else f" (was {old:g})")
            yield Change("quota", f"{change.record.key} of {' '.join(components)}", "value", text, old, new)

    def folder(self, view: ImageView) -> Folder:
        """A folder for each entity, as `client-id=c1,user=<default>`."""
        entities: dict[str, dict[str, object]] = {}
        for record in view.image[self].values():
            components = (
                f"{one.entity_type}={DEFAULT if one.entity_name is None else one.entity_name}"
                for one in record.entity
            )
            entities.setdefault(",".join(components), {})[record.key] = record.value
        return folders({name: files(values) for name, values in entities.items()})


CLIENT_QUOTAS: Final = ClientQuotas()
