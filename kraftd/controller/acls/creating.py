"""CreateAcls: access control entries are made.

Each succeeds or fails by itself; those that succeed are written together. One that is there already, or comes
twice in the request, succeeds and is not written again.

Follows: createAcls of Kafka's AclControlManager and handleCreateAcls of its AclApis, in their order.
Differs: ANY or MATCH, where they mean nothing, are INVALID_REQUEST of their entry; in Kafka they raise, and
all entries of the request are UNKNOWN_SERVER_ERROR. An unknown number is INVALID_REQUEST, too; Kafka closes
the connection of who sends one directly.
"""

from itertools import count
from typing import Any, Final

from msgspec.structs import astuple

from kraftd.controller.context import Context
from kraftd.controller.operations import WriteOperation
from kraftd.controller.refused import RefusedError
from kraftd.controller.response_room import OutcomeRoom, quoted
from kraftd.controller.uuids import is_usable, uuid_of
from kraftd.errors import ErrorCode
from kraftd.metadata.acl_kinds import CLUSTER_NAME, AclOperation, AclPattern, AclPermission, AclResource
from kraftd.metadata.indexed_acls import IndexedAcls
from kraftd.metadata.parts.acls import ACLS
from kraftd.protocol.limits import OPERATION_RECORDS_MAX
from kraftd.protocol.messages import (
    CreateAclsRequest,
    CreateAclsRequestAclCreation,
    CreateAclsResponse,
    CreateAclsResponseAclCreationResult,
)
from kraftd.records.messages import AccessControlEntryRecord
from kraftd.types import Uuid

NO_AUTHORIZER: Final = "No authorizer is configured (authorizer.class.name): ACLs would mean nothing."

_TOO_MANY: Final = (
    f"Not appended: more than {OPERATION_RECORDS_MAX} ACLs in one request, or more than one response can "
    "tell of. Split it."
)


def create_acls(
    context: Context, request: CreateAclsRequest
) -> tuple[list[AccessControlEntryRecord], CreateAclsResponse]:
    """The records that a request leads to, and its response for when they are committed."""
    if context.settings.authorizer is None:
        return [], refuse(request, ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    room = _room(request)
    acls = ACLS.indexed(context.image)
    records: dict[tuple[Any, ...], AccessControlEntryRecord] = {}
    taken: set[Uuid] = set()
    results = []
    for creation in request.creations:
        try:
            _check(creation)
        except RefusedError as refused:
            results.append(_failure(refused.code, room.text(str(refused))))
            continue
        results.append(CreateAclsResponseAclCreationResult())
        binding = astuple(creation)[:-1]  # without unknown tags
        if binding not in records and not _is_there(acls, creation):
            record = _record(context, acls, creation, taken)
            records[binding] = record
            taken.add(record.id)
    if len(records) > OPERATION_RECORDS_MAX or not room.holds_all:
        return [], refuse(request, ErrorCode.POLICY_VIOLATION, _TOO_MANY)
    return list(records.values()), CreateAclsResponse(results=tuple(results))


def refuse(request: CreateAclsRequest, error: ErrorCode, text: str) -> CreateAclsResponse:
    """The response to entries that were not made, or may not have been, with the error for each."""
    room = _room(request)
    return CreateAclsResponse(
        results=tuple(_failure(error, room.text(text)) for _ in range(room.count)),
    )


def _room(request: CreateAclsRequest) -> OutcomeRoom:
    return OutcomeRoom([""] * len(request.creations))


def _failure(error: ErrorCode, text: str | None) -> CreateAclsResponseAclCreationResult:
    return CreateAclsResponseAclCreationResult(error_code=error, error_message=text)


def _check(creation: CreateAclsRequestAclCreation) -> None:
    """Refuse what cannot be an entry, the first reason of Kafka's order."""
    for is_wrong, text in _mistakes(creation):
        if is_wrong:
            raise RefusedError(ErrorCode.INVALID_REQUEST, text)


def _mistakes(creation: CreateAclsRequestAclCreation) -> tuple[tuple[bool, str], ...]:
    """Everything that may be wrong with an entry, and whether it is."""
    resource, name = AclResource(creation.resource_type), creation.resource_name
    pattern = AclPattern(creation.resource_pattern_type)
    operation, permission = AclOperation(creation.operation), AclPermission(creation.permission_type)
    return (
        (
            resource is AclResource.CLUSTER and name != CLUSTER_NAME,
            f"The resource of type CLUSTER is called {CLUSTER_NAME}.",
        ),
        (not name, "A resource needs a name; * is all of a type."),
        (resource <= AclResource.ANY, f"No resource is of the type {resource.name}."),
        (
            pattern not in (AclPattern.LITERAL, AclPattern.PREFIXED),
            f"An ACL is for a literal name or a prefix, not {pattern.name}.",
        ),
        (operation <= AclOperation.ANY, f"An ACL is about an operation, or ALL, not {operation.name}."),
        (permission <= AclPermission.ANY, f"An ACL denies or allows, not {permission.name}."),
        (
            ":" not in creation.principal,
            f"{quoted(creation.principal)} is not Type:name, such as User:alice.",
        ),
    )


def _is_there(acls: IndexedAcls, creation: CreateAclsRequestAclCreation) -> bool:
    """Whether there is such an entry already."""
    resource = creation.resource_type, creation.resource_pattern_type, creation.resource_name
    same = acls.of(resource).get((creation.principal, creation.host), ())
    return any(
        acl.operation == creation.operation and acl.permission_type == creation.permission_type
        for acl in same
    )


def _record(
    context: Context, acls: IndexedAcls, creation: CreateAclsRequestAclCreation, taken: set[Uuid]
) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=_new_id(context, acls, len(taken), taken),
        resource_type=creation.resource_type,
        resource_name=creation.resource_name,
        pattern_type=creation.resource_pattern_type,
        principal=creation.principal,
        host=creation.host,
        operation=creation.operation,
        permission_type=creation.permission_type,
    )


def _new_id(context: Context, acls: IndexedAcls, number: int, taken: set[Uuid]) -> Uuid:
    """An id for an entry of a request, the how manieth it is, that no other entry has or is about to get."""
    for attempt in count():
        acl_id = uuid_of(f"{context.seed} {context.next_offset} {attempt} ACL {number}")
        if is_usable(acl_id) and acls.get(acl_id) is None and acl_id not in taken:
            return acl_id
    raise AssertionError("there is always one more number")


CREATE_ACLS = WriteOperation(CreateAclsRequest, create_acls, refuse, tells_of=(ACLS,))
