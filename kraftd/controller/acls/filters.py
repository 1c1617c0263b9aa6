"""Which access control entries a filter means, of DeleteAcls and DescribeAcls.

What a filter leaves open (null, or ANY) may be anything. With pattern type MATCH a name means whatever
matches a resource of that name: entries of the name itself, of `*`, and of what the name begins with.

A filter with a name is looked up; any other one looks at every entry. So a request counts what it looks at:
ten thousand filters that leave the name open would else keep the controller for a minute.

Follows: matches of Kafka's ResourcePatternFilter and AccessControlEntryFilter, validateFilter of its
AclControlManager. Differs: entries come in the order of what they are about, in Kafka in that of a hash map;
a filter with an unknown number is INVALID_REQUEST, and Kafka closes the connection of who sends one directly.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final, TypeAlias

from kraftd.controller.refused import RefusedError
from kraftd.errors import ErrorCode
from kraftd.metadata.acl_kinds import AclOperation, AclPattern, AclPermission, AclResource
from kraftd.metadata.indexed_acls import Acl, AclsOfResource, IndexedAcls
from kraftd.protocol.messages import DeleteAclsRequestDeleteAclsFilter, DescribeAclsRequest

Filter: TypeAlias = DeleteAclsRequestDeleteAclsFilter | DescribeAclsRequest
"""A filter; both have the same fields."""

_LOOKS_MAX: Final = 100_000
"""How often one request looks something up, or at an entry, besides once at each there is: some 50 ms."""

_TOO_MANY_LOOKS: Final = (
    "Not done: these filters would look at too many ACLs. Split the request, or name the resources in it."
)

_TYPES: Final = tuple(int(each) for each in AclResource if each > AclResource.ANY)
_ANY_TYPE: Final = int(AclResource.ANY)
_ANY_PATTERN, _MATCH = int(AclPattern.ANY), int(AclPattern.MATCH)
_NAMED: Final = (int(AclPattern.LITERAL), int(AclPattern.PREFIXED))
_ANY_OPERATION, _ANY_PERMISSION = int(AclOperation.ANY), int(AclPermission.ANY)


class AclSearch:
    """Finds the entries of an image that the filters of one request mean."""

    def __init__(self, acls: IndexedAcls) -> None:
        self._acls = acls
        self._looks_left = len(acls) + _LOOKS_MAX

    def find(self, wanted: Filter) -> list[Acl]:
        """The entries that a filter means, by what they are about.

        Raises:
            RefusedError: INVALID_REQUEST for a filter with a number that means nothing; POLICY_VIOLATION
                where the filters of the request would look at too much.
        """
        _check(wanted)
        found = []
        for acls in self._resources(wanted):
            for acl in self._of(wanted, acls):
                self._look()
                if _matches(wanted, acl):
                    found.append(acl)
        return sorted(found, key=order_of)

    def _look(self, count: int = 1) -> None:
        self._looks_left -= count
        if self._looks_left < 0:
            raise RefusedError(ErrorCode.POLICY_VIOLATION, _TOO_MANY_LOOKS)

    def _resources(self, wanted: Filter) -> Iterator[AclsOfResource]:
        """The entries of every resource that a filter may mean."""
        acls, name, pattern = self._acls, wanted.resource_name_filter, wanted.pattern_type_filter
        if name is None:
            yield from acls.resources()
            return
        types = _TYPES if wanted.resource_type_filter == _ANY_TYPE else (wanted.resource_type_filter,)
        for resource_type in types:
            if pattern == _MATCH:
                self._look(acls.lookups(resource_type))
                yield from acls.matching(resource_type, name)
                continue
            for each in _NAMED if pattern == _ANY_PATTERN else (pattern,):
                self._look()
                yield acls.of((resource_type, each, name))

    def _of(self, wanted: Filter, acls: AclsOfResource) -> Iterable[Acl]:
        """The entries of a resource that a filter may mean."""
        if wanted.principal_filter is not None and wanted.host_filter is not None:
            return acls.get((wanted.principal_filter, wanted.host_filter), ())
        return chain.from_iterable(acls.values())


def order_of(acl: Acl) -> tuple[object, ...]:
    """Where an entry stands among others: by what it is about, then by who it is about."""
    return (
        acl.resource_type,
        acl.resource_name,
        acl.pattern_type,
        acl.principal,
        acl.host,
        acl.operation,
        acl.permission_type,
        acl.id,
    )


def _check(wanted: Filter) -> None:
    if (
        AclResource(wanted.resource_type_filter) is AclResource.UNKNOWN
        or AclPattern(wanted.pattern_type_filter) is AclPattern.UNKNOWN
    ):
        raise RefusedError(
            ErrorCode.INVALID_REQUEST, "The filter has an unknown type of resource or pattern."
        )
    if (
        AclOperation(wanted.operation) is AclOperation.UNKNOWN
        or AclPermission(wanted.permission_type) is AclPermission.UNKNOWN
    ):
        raise RefusedError(ErrorCode.INVALID_REQUEST, "The filter has an unknown operation or permission.")


def _matches(wanted: Filter, acl: Acl) -> bool:
    """Whether a filter means a candidate: the name is one that it means, if it has one."""
    return (
        wanted.resource_type_filter in (_ANY_TYPE, acl.resource_type)
        and wanted.pattern_type_filter in (_ANY_PATTERN, _MATCH, acl.pattern_type)
        and (wanted.principal_filter is None or wanted.principal_filter == acl.principal)
        and (wanted.host_filter is None or wanted.host_filter == acl.host)
        and wanted.operation in (_ANY_OPERATION, acl.operation)
        and wanted.permission_type in (_ANY_PERMISSION, acl.permission_type)
    )
