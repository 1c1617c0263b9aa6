"""May this principal, from this host, do this to that resource? Decided by the entries of an image.

Super users may do everything. For everybody else an entry counts if it speaks of the resource (by its name,
by `*`, or by a prefix of it), of the principal or of `User:*`, of the host or of `*`, and of the operation or
of ALL. One that denies decides, whatever others allow; else one that allows does. If none counts, it is not
allowed, but for one case: no entry at all speaks of the resource, and `allow.everyone.if.no.acl.found` is on.

Allowing READ, WRITE, DELETE or ALTER allows DESCRIBE, and allowing ALTER_CONFIGS allows DESCRIBE_CONFIGS.
Denying them denies no more than they say.

Not here: what an API needs (`access`), and who a client is (`kraftd.protocol.principal`).
Follows: Kafka's StandardAuthorizerData; hosts as Java writes them, `0:0:0:0:0:0:0:1`. The host of an entry
is compared as a text, and a kind of principal with a colon in it matches no entry but those of everybody.
"""

from collections.abc import Mapping
from ipaddress import IPv6Address
from typing import Final

import msgspec

from kraftd.metadata.acl_kinds import ANY_USER, WILDCARD, AclOperation, AclPermission, AclResource
from kraftd.metadata.indexed_acls import IndexedAcls
from kraftd.protocol.principal import Principal

_ALLOW: Final = int(AclPermission.ALLOW)

_ALL: Final = int(AclOperation.ALL)
_IMPLIED_BY: Final[Mapping[AclOperation, tuple[AclOperation, ...]]] = {
    AclOperation.DESCRIBE: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.DELETE,
        AclOperation.ALTER,
    ),
    AclOperation.DESCRIBE_CONFIGS: (AclOperation.ALTER_CONFIGS,),
}
_ALLOWED_BY: Final[Mapping[int, frozenset[int]]] = {
    int(operation): frozenset(map(int, (AclOperation.ALL, operation, *_IMPLIED_BY.get(operation, ()))))
    for operation in AclOperation
}
"""By an operation: which operations of entries that allow speak of it."""


class Authorizer(msgspec.Struct, frozen=True):
    """What the configuration says of who may do what; the rest is in the image."""

    super_users: frozenset[str] = frozenset()
    """Principals, each as `Type:name`."""
    allow_everyone: bool = False
    """Whether anybody may do anything to a resource that no entry speaks of."""

    def is_super_user(self, principal: Principal) -> bool:
        """Whether a principal may do everything, whatever the entries say."""
        return f"{principal.type}:{principal.name}" in self.super_users

    def allows(
        self,
        acls: IndexedAcls,
        principal: Principal,
        host: str,
        operation: AclOperation,
        resource_type: AclResource,
        name: str,
    ) -> bool:
        """Whether a principal may do this from a host, an address as Python writes it."""
        if self.is_super_user(principal):
            return True
        who = f"{principal.type}:{principal.name}"
        from_host = java_host(host)
        keys = [(ANY_USER, WILDCARD), (ANY_USER, from_host)]
        if ":" not in principal.type and who != ANY_USER:
            keys += [(who, WILDCARD), (who, from_host)]
        asked = int(operation)
        allowed_by = _ALLOWED_BY[asked]
        is_allowed = is_spoken_of = False
        for of_resource in acls.about(int(resource_type), name):
            is_spoken_of = True
            for key in keys:
                for acl in of_resource.get(key, ()):
                    if acl.permission_type == _ALLOW:
                        is_allowed = is_allowed or acl.operation in allowed_by
                    elif acl.operation in (asked, _ALL):
                        return False
        return is_allowed or (self.allow_everyone and not is_spoken_of)


def java_host(host: str) -> str:
    """An address as Java writes it, and so Kafka's entries: IPv6 in eight groups, none of them left out."""
    if ":" not in host:
        return host
    try:
        address = IPv6Address(host.partition("%")[0])
    except ValueError:
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return ":".join(f"{int(group, 16):x}" for group in address.exploded.split(":"))
