"""AlterClientQuotas: quotas of users, clients and addresses are set and removed.

An entity is a user, a client id, both together, or an address; null in the place of a name is the default of
the type. Each entity of a request succeeds or fails by itself, with all that is said of it; those that
succeed are written together. What is there already is not written again, and what is not there need not be
removed, whatever its name.

As in Kafka, an entity that is named twice is told INVALID_REQUEST, and yet what was said of it first is
written; a number that is none (NaN) can be set; a whole number may be too large by less than a millionth.
Kafka goes through maps of Java's, so `java_hash_map` has the order of records, of the outcomes, and of the
mistakes of which the first one is told.

Follows: Kafka's ClientQuotaControlManager, and its QuotaConfig for what there is to be set.
Differs: an address must be one. Kafka takes the names of hosts, too, if it can resolve them at that moment; a
decision asks nobody. With more than 10,000 quotas or entities nothing is decided, though fewer may have
changed.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from kraftd.controller.context import Context
from kraftd.controller.ip_addresses import is_ip_address
from kraftd.controller.java_hash_map import JavaHashMap, string_hash, string_map
from kraftd.controller.operations import WriteOperation
from kraftd.controller.refused import RefusedError
from kraftd.controller.response_room import OutcomeRoom, quoted
from kraftd.errors import ErrorCode
from kraftd.metadata.parts.client_quotas import CLIENT_QUOTAS, quota_key
from kraftd.protocol.limits import OPERATION_RECORDS_MAX
from kraftd.protocol.messages import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntityData,
    AlterClientQuotasResponseEntryData,
)
from kraftd.records.messages import ClientQuotaRecord, ClientQuotaRecordEntityData

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
_TYPES: Final = (USER, CLIENT_ID, IP)

_INT_MAX: Final = float((1 << 31) - 1)
_LONG_MAX: Final = float((1 << 63) - 1)
_FRACTION_MAX: Final = 1e-6

_OF_USERS_AND_CLIENTS: Final[Mapping[str, float | None]] = {
    "producer_byte_rate": _LONG_MAX,
    "consumer_byte_rate": _LONG_MAX,
    "request_percentage": None,
    "controller_mutation_rate": None,
}
_OF_ADDRESSES: Final[Mapping[str, float | None]] = {"connection_creation_rate": _INT_MAX}
"""What can be limited: a whole number up to this one, or any number."""

_TOO_MANY_ENTITIES: Final = (
    "Not appended: one response cannot tell what became of so many entities. Split the request."
)
_TOO_MANY_QUOTAS: Final = f"Not appended: more than {OPERATION_RECORDS_MAX} quotas in one request. Split it."

_COMPONENT_HEADS: Final = " " * 12
"""What the lengths of a type and a name take at most, and what tags they may have, as a text."""

_COMPONENTS_TOLD: Final = 4
"""No entity has so many; of one that has more an outcome tells the first, so that any has room."""

_Component: TypeAlias = tuple[str, str | None]
_Entity: TypeAlias = tuple[_Component, ...]
"""Types and names, in the order of Kafka's map of them."""


def alter_client_quotas(
    context: Context, request: AlterClientQuotasRequest
) -> tuple[list[ClientQuotaRecord], AlterClientQuotasResponse]:
    """The records that a request leads to, and its response for when they are committed."""
    room = _room_of(request)
    components = sum(len(entry.entity) for entry in request.entries)
    if (
        not room.holds_all
        or len(request.entries) > OPERATION_RECORDS_MAX
        or components > _COMPONENTS_TOLD * OPERATION_RECORDS_MAX
    ):
        return [], refuse(request, ErrorCode.POLICY_VIOLATION, _TOO_MANY_ENTITIES)
    if sum(len(entry.ops) for entry in request.entries) > OPERATION_RECORDS_MAX:
        return [], refuse(request, ErrorCode.POLICY_VIOLATION, _TOO_MANY_QUOTAS)
    outcomes: JavaHashMap[frozenset[_Component], AlterClientQuotasResponseEntryData] = JavaHashMap(
        _characters, _entity_hash
    )
    records: list[ClientQuotaRecord] = []
    for entry in request.entries:
        entity = _entity_of(entry.entity)
        key = frozenset(entity)
        code, text = ErrorCode.NONE, None
        try:
            if key in outcomes:
                raise RefusedError(ErrorCode.INVALID_REQUEST, "Each entity may appear only once.")
            records += _changes(context, entity, _asked_of(entry))
        except RefusedError as refused:
            code, text = refused.code, room.text(str(refused))
        outcomes[key] = _told(_entity_of(entry.entity[:_COMPONENTS_TOLD]), code, text)
    response = AlterClientQuotasResponse(entries=tuple(outcome for _, outcome in outcomes.items()))
    return [] if request.validate_only else records, response


def refuse(request: AlterClientQuotasRequest, error: ErrorCode, text: str) -> AlterClientQuotasResponse:
    """The response to quotas that were not set, or may not have been, with the error for each entity.

    The entities are told as they were asked for, each time they were.
    """
    room = _room_of(request)
    return AlterClientQuotasResponse(
        entries=tuple(_told(_names(entry), error, room.text(text)) for entry in request.entries[: room.count])
    )


# -- entities


def _entity_of(components: Sequence[AlterClientQuotasRequestEntityData]) -> _Entity:
    """Types and names; of a type that comes twice the last name counts."""
    named = ((component.entity_type, component.entity_name) for component in components)
    return tuple(string_map(named, len(components)).items())


def _check_entity(entity: _Entity) -> Mapping[str, float | None]:
    """What can be limited for an entity. Refuses one that cannot be."""
    for kind, name in entity:
        if kind not in _TYPES:
            raise _invalid(f"There is no entity type {quoted(kind)}; those are {', '.join(_TYPES)}.")
        if name == "":
            raise _invalid(f"The name of a {kind} is empty; for the default it must be null.")
    names = dict(entity)
    if not names:
        raise _invalid("An entity has neither user nor client-id nor ip.")
    if IP not in names:
        return _OF_USERS_AND_CLIENTS
    if len(names) > 1:
        raise _invalid("An ip stands alone: no quota is for it and a user or a client-id.")
    address = names[IP]
    if address is not None and not is_ip_address(address):
        raise _invalid(f"{quoted(address)} is no IP address.")
    return _OF_ADDRESSES


def _characters(entity: frozenset[_Component]) -> int:
    return sum(len(kind) + len(name or "") for kind, name in entity)


def _entity_hash(entity: frozenset[_Component]) -> int:
    """Java's hash of Kafka's entity: a list of one map."""
    of_map = sum(string_hash(kind) ^ (0 if name is None else string_hash(name)) for kind, name in entity)
    return (31 + of_map) & ((1 << 32) - 1)


# -- quotas


def _asked_of(entry: AlterClientQuotasRequestEntryData) -> JavaHashMap[str, float | None]:
    """The quotas that an entity shall have; None for those that shall go."""
    asked: JavaHashMap[str, float | None] = string_map((), len(entry.ops))
    for op in entry.ops:
        if op.key in asked:
            raise _invalid(f"Quota {quoted(op.key)} appears more than once.")
        asked[op.key] = None if op.remove else op.value
    return asked


def _changes(
    context: Context, entity: _Entity, asked: JavaHashMap[str, float | None]
) -> list[ClientQuotaRecord]:
    known = _check_entity(entity)
    components = tuple(
        ClientQuotaRecordEntityData(kind, name) for kind, name in string_map(entity, len(_TYPES)).items()
    )
    by_type = sorted(components, key=lambda component: component.entity_type)
    quotas = context.image[CLIENT_QUOTAS]
    records = []
    for key, value in asked.items():
        there = quotas.get(quota_key(by_type, key))
        if value is None:
            if there is not None:
                records.append(ClientQuotaRecord(components, key, remove=True))
            continue
        _check_quota(known, key, value)
        if there is None or not _is_same(there.value, value):
            records.append(ClientQuotaRecord(components, key, value))
    return records


def _check_quota(known: Mapping[str, float | None], key: str, value: float) -> None:
    if key not in known:
        raise _invalid(f"There is no quota {quoted(key)} for such an entity; there is {', '.join(known)}.")
    largest = known[key]
    if value <= 0:
        raise _invalid(f"Quota {key} must be more than 0.")
    if largest is None:
        return
    if value > largest:
        raise _invalid(f"Quota {key} must not be more than {largest:.0f}.")
    if math.fmod(value, 1.0) > _FRACTION_MAX:
        raise _invalid(f"Quota {key} must be a whole number.")


def _is_same(one: float, other: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other))


# -- responses


def _room_of(request: AlterClientQuotasRequest) -> OutcomeRoom:
    """The room for the outcomes of the first entities."""
    return OutcomeRoom(
        [
            "".join(
                f"{component.entity_type}{component.entity_name or ''}{_COMPONENT_HEADS}"
                for component in entry.entity[:_COMPONENTS_TOLD]
            )
            for entry in request.entries[:OPERATION_RECORDS_MAX]
        ]
    )


def _invalid(text: str) -> RefusedError:
    return RefusedError(ErrorCode.INVALID_REQUEST, text)


def _names(entry: AlterClientQuotasRequestEntryData) -> _Entity:
    """The types and names of an entity in the order of the request."""
    return tuple([(one.entity_type, one.entity_name) for one in entry.entity[:_COMPONENTS_TOLD]])


def _told(entity: _Entity, error: ErrorCode, text: str | None) -> AlterClientQuotasResponseEntryData:
    """The outcome of an entity."""
    return AlterClientQuotasResponseEntryData(
        error_code=error,
        error_message=text,
        entity=tuple(AlterClientQuotasResponseEntityData(kind, name) for kind, name in entity),
    )


ALTER_CLIENT_QUOTAS: Final = WriteOperation(AlterClientQuotasRequest, alter_client_quotas, refuse)
