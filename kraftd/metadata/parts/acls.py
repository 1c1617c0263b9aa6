"""Access control entries, by id and by what they are about (`kraftd.metadata.indexed_acls`).

Follows: Kafka's AclsDelta.
"""

from collections.abc import Iterator
from typing import Final

from kraftd.errors import InvariantError
from kraftd.metadata import kafka_names
from kraftd.metadata.entities import Entities
from kraftd.metadata.impossible import ImpossibleRecordError
from kraftd.metadata.indexed_acls import IndexedAcls
from kraftd.metadata.kafka_names import name_of
from kraftd.metadata.part import (
    Builder,
    Changes,
    EntityPart,
    Image,
    ImageComparison,
    ImageTable,
    ImageView,
    RecordKind,
    came_or_went,
)
from kraftd.metadata.views import Change, ColumnType, Row
from kraftd.records.messages import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from kraftd.types import Offset, Uuid, uuid_text


def _put(builder: Builder, record: AccessControlEntryRecord, _offset: Offset) -> None:
    builder.put(ACLS, builder.state(ACLS).put(record.id, record))


def _remove(builder: Builder, record: RemoveAccessControlEntryRecord, offset: Offset) -> None:
    acls = builder.state(ACLS)
    if acls.get(record.id) is None:
        raise ImpossibleRecordError(offset, f"there is no ACL with the id {record.id.hex()}")
    builder.put(ACLS, acls.remove(record.id))


def _rows(view: ImageView) -> Iterator[Row]:
    for acl in view.image[ACLS].values():
        yield {
            "acl_id": uuid_text(acl.id),
            "principal": acl.principal,
            "host": acl.host,
            "resource_type": acl.resource_type,
            "resource_name": acl.resource_name,
            "pattern_type": acl.pattern_type,
            "operation": acl.operation,
            "permission_type": acl.permission_type,
        }


class Acls(EntityPart[Uuid, AccessControlEntryRecord]):
    """Access control entries by id."""

    empty: Entities[Uuid, AccessControlEntryRecord] = IndexedAcls()
    section = "acls"
    kinds = (
        RecordKind(AccessControlEntryRecord, _put, levels=(1,)),
        RecordKind(RemoveAccessControlEntryRecord, _remove, levels=(1,)),
    )
    tables = (
        ImageTable(
            "acls",
            "an access control entry of the image, types as Kafka's numbers",
            (
                ("acl_id", ColumnType.TEXT),
                ("principal", ColumnType.TEXT),
                ("host", ColumnType.TEXT),
                ("resource_type", ColumnType.INT32),
                ("resource_name", ColumnType.TEXT),
                ("pattern_type", ColumnType.INT32),
                ("operation", ColumnType.INT32),
                ("permission_type", ColumnType.INT32),
            ),
            _rows,
        ),
    )

    def indexed(self, image: Image) -> IndexedAcls:
        """The entries of an image, by what they are about."""
        state = image[self]
        if not isinstance(state, IndexedAcls):
            raise InvariantError("access control entries without their index")
        return state

    def file_name(self, record: AccessControlEntryRecord) -> str:
        return uuid_text(record.id)

    def describe(
        self, differences: Changes[AccessControlEntryRecord], _: ImageComparison
    ) -> Iterator[Change]:
        for change in differences:
            acl = change.before or change.record
            yield came_or_went("acl", _text(acl), change, "created", "removed")


def _text(acl: AccessControlEntryRecord) -> str:
    permission = name_of(kafka_names.ACL_PERMISSIONS, acl.permission_type)
    operation = name_of(kafka_names.ACL_OPERATIONS, acl.operation)
    resource = name_of(kafka_names.ACL_RESOURCES, acl.resource_type)
    star = "*" if acl.pattern_type == kafka_names.PREFIXED else ""
    return f"{acl.principal} {permission} {operation} on {resource} {acl.resource_name}{star} from {acl.host}"


ACLS: Final = Acls()
