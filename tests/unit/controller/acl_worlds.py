"""Access control entries for tests, and what decisions about them look at."""

from contexts import context_of

from kraftd.controller.authorizer import Authorizer
from kraftd.controller.context import ControllerSettings
from kraftd.metadata.acl_kinds import AclOperation, AclPattern, AclPermission, AclResource
from kraftd.metadata.image import EMPTY
from kraftd.metadata.image_builder import apply_all
from kraftd.records.messages import AccessControlEntryRecord

TOPIC, GROUP, CLUSTER = AclResource.TOPIC, AclResource.GROUP, AclResource.CLUSTER
LITERAL, PREFIXED, MATCH = AclPattern.LITERAL, AclPattern.PREFIXED, AclPattern.MATCH
ALLOW, DENY = AclPermission.ALLOW, AclPermission.DENY
READ, WRITE, ALL = AclOperation.READ, AclOperation.WRITE, AclOperation.ALL

SETTINGS = ControllerSettings(authorizer=Authorizer())
"""Those of a controller that has an authorizer."""


def acl(
    number,
    name="t",
    *,
    kind=TOPIC,
    pattern=LITERAL,
    principal="User:alice",
    host="*",
    operation=READ,
    permission=ALLOW,
):
    """An entry whose id is a number."""
    return AccessControlEntryRecord(
        number.to_bytes(16, "big"),
        int(kind),
        name,
        int(pattern),
        principal,
        host,
        int(operation),
        int(permission),
    )


def acls_context(*acls, settings=SETTINGS, **other):
    """A context whose image has these entries."""
    return context_of(apply_all(EMPTY, acls, 0), settings=settings, **other)
