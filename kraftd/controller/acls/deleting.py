"""DeleteAcls: the access control entries that filters mean are removed.

Each filter succeeds or fails by itself, and tells what it removes; what two of them mean is removed once, and
told by both. All of a request is removed together.

Follows: deleteAcls of Kafka's AclControlManager, with its bound: of more than 10,000 entries nothing is
removed, INVALID_REQUEST. What cannot be told in one response is not removed either (POLICY_VIOLATION), which
Kafka does not know.
"""

from typing import Final

from kraftd.controller.acls.creating import NO_AUTHORIZER
from kraftd.controller.acls.filters import AclSearch
from kraftd.controller.context import Context
from kraftd.controller.operations import WriteOperation
from kraftd.controller.refused import RefusedError
from kraftd.controller.response_room import OutcomeRoom, entry_bytes
from kraftd.errors import ErrorCode
from kraftd.metadata.indexed_acls import Acl
from kraftd.metadata.parts.acls import ACLS
from kraftd.protocol.limits import ACLS_BYTES_MAX, OPERATION_RECORDS_MAX
from kraftd.protocol.messages import (
    DeleteAclsRequest,
    DeleteAclsResponse,
    DeleteAclsResponseDeleteAclsFilterResult,
    DeleteAclsResponseDeleteAclsMatchingAcl,
)
from kraftd.records.messages import RemoveAccessControlEntryRecord
from kraftd.types import Uuid

_TOO_MANY: Final = f"Not appended: more than {OPERATION_RECORDS_MAX} ACLs would be removed at once."
_TOO_LONG: Final = "Not appended: one response cannot tell of so many ACLs. Use narrower filters."


def delete_acls(
    context: Context, request: DeleteAclsRequest
) -> tuple[list[RemoveAccessControlEntryRecord], DeleteAclsResponse]:
    """The records that a request leads to, and its response for when they are committed."""
    if context.settings.authorizer is None:
        return [], refuse(request, ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    room = _room(request)
    if not room.holds_all:
        return [], refuse(request, ErrorCode.POLICY_VIOLATION, _TOO_LONG)
    search = AclSearch(ACLS.indexed(context.image))
    removed: dict[Uuid, RemoveAccessControlEntryRecord] = {}
    results = []
    bytes_left = ACLS_BYTES_MAX
    for wanted in request.filters:
        try:
            found = search.find(wanted)
        except RefusedError as refused:
            if refused.code is ErrorCode.POLICY_VIOLATION:
                return [], refuse(request, refused.code, str(refused))
            results.append(_failure(refused.code, room.text(str(refused))))
            continue
        for acl in found:
            if len(removed) >= OPERATION_RECORDS_MAX:
                return [], refuse(request, ErrorCode.INVALID_REQUEST, _TOO_MANY)
            removed[acl.id] = RemoveAccessControlEntryRecord(acl.id)
        bytes_left -= sum(entry_bytes(acl.resource_name, acl.principal, acl.host) for acl in found)
        if bytes_left < 0:
            return [], refuse(request, ErrorCode.POLICY_VIOLATION, _TOO_LONG)
        results.append(
            DeleteAclsResponseDeleteAclsFilterResult(
                error_message=None, matching_acls=tuple(map(_matching, found))
            )
        )
    return list(removed.values()), DeleteAclsResponse(filter_results=tuple(results))


def refuse(request: DeleteAclsRequest, error: ErrorCode, text: str) -> DeleteAclsResponse:
    """The response to entries that were not removed, or may not have been, with the error for each filter."""
    room = _room(request)
    return DeleteAclsResponse(
        filter_results=tuple(_failure(error, room.text(text)) for _ in range(room.count))
    )


def _room(request: DeleteAclsRequest) -> OutcomeRoom:
    return OutcomeRoom([""] * len(request.filters))


def _failure(error: ErrorCode, text: str | None) -> DeleteAclsResponseDeleteAclsFilterResult:
    return DeleteAclsResponseDeleteAclsFilterResult(error_code=error, error_message=text)


def _matching(acl: Acl) -> DeleteAclsResponseDeleteAclsMatchingAcl:
    return DeleteAclsResponseDeleteAclsMatchingAcl(
        error_message=None,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission_type,
    )


DELETE_ACLS = WriteOperation(DeleteAclsRequest, delete_acls, refuse, tells_of=(ACLS,))
