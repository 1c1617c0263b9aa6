"""DescribeAcls: the access control entries that a filter means, from a committed image.

Asked of controllers directly: brokers answer their own clients from their own image.

Follows: handleDescribeAcls of Kafka's AclApis. Differs: more than one response holds is POLICY_VIOLATION.
"""

from itertools import groupby
from typing import Final

from kraftd.controller.acls.creating import NO_AUTHORIZER
from kraftd.controller.acls.filters import AclSearch
from kraftd.controller.context import ReadContext
from kraftd.controller.operations import SessionReadOperation
from kraftd.controller.refused import RefusedError
from kraftd.controller.response_room import entry_bytes
from kraftd.errors import ErrorCode
from kraftd.metadata.indexed_acls import Acl
from kraftd.metadata.parts.acls import ACLS
from kraftd.protocol.limits import ACLS_BYTES_MAX
from kraftd.protocol.messages import (
    DescribeAclsRequest,
    DescribeAclsResponse,
    DescribeAclsResponseAclDescription,
    DescribeAclsResponseDescribeAclsResource,
)

_TOO_LONG: Final = "One response cannot tell of so many ACLs. Use a narrower filter."


def describe_acls(context: ReadContext, request: DescribeAclsRequest) -> DescribeAclsResponse:
    """What a filter means, by resource."""
    if context.settings.authorizer is None:
        return refuse(request, ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    try:
        found = AclSearch(ACLS.indexed(context.image)).find(request)
    except RefusedError as refused:
        return refuse(request, refused.code, str(refused))
    if sum(entry_bytes(acl.resource_name, acl.principal, acl.host) for acl in found) > ACLS_BYTES_MAX:
        return refuse(request, ErrorCode.POLICY_VIOLATION, _TOO_LONG)
    return DescribeAclsResponse(
        resources=tuple(
            DescribeAclsResponseDescribeAclsResource(*resource, tuple(map(_description, acls)))
            for resource, acls in groupby(found, _resource)
        )
    )


def refuse(_request: DescribeAclsRequest, error: ErrorCode, text: str) -> DescribeAclsResponse:
    """The response to a filter whose entries could not be told."""
    return DescribeAclsResponse(error_code=error, error_message=text)


def _resource(acl: Acl) -> tuple[int, str, int]:
    return acl.resource_type, acl.resource_name, acl.pattern_type


def _description(acl: Acl) -> DescribeAclsResponseAclDescription:
    return DescribeAclsResponseAclDescription(acl.principal, acl.host, acl.operation, acl.permission_type)


DESCRIBE_ACLS = SessionReadOperation(DescribeAclsRequest, describe_acls, refuse)
