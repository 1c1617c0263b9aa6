"""What one client may do, as the entries of an image and the configuration say.

Entered by the gate of all requests, for those that need a right on the cluster, and by decisions and reads,
for those that name their resources. Without an authorizer everybody may do everything.

Not here: the rules (`authorizer`), and which right an API needs (`access`).
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from kraftd.controller.authorizer import Authorizer
from kraftd.controller.refused import RefusedError
from kraftd.controller.response_room import quoted
from kraftd.errors import ErrorCode
from kraftd.metadata.acl_kinds import CLUSTER_NAME, AclOperation, AclResource
from kraftd.metadata.config_schema import ResourceType
from kraftd.metadata.image import EMPTY, MetadataImage
from kraftd.metadata.parts.acls import ACLS
from kraftd.protocol.principal import ANONYMOUS, Principal

FAILURES: Final[Mapping[AclResource, ErrorCode]] = {
    AclResource.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    AclResource.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    AclResource.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
}
"""By the type of the resource: what is told to who has no right to it."""

_CONFIGURED: Final[Mapping[int, AclResource]] = {
    ResourceType.TOPIC: AclResource.TOPIC,
    ResourceType.GROUP: AclResource.GROUP,
}
"""By the type of a config's resource; all others are the cluster's."""


_ON_THE_CLUSTER: Final = (
    AclOperation.CREATE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
    AclOperation.CLUSTER_ACTION,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
    AclOperation.IDEMPOTENT_WRITE,
)
"""What can be done to the cluster."""

FORGEABLE: Final = (
    "nobody is authenticated: who reaches the listener is User:ANONYMOUS, and a forged Envelope passes"
)
"""What an authorizer cannot know yet."""


class Rights(msgspec.Struct, frozen=True, gc=False):
    """The rights of one client."""

    authorizer: Authorizer | None
    image: MetadataImage
    principal: Principal
    host: str

    def has(self, operation: AclOperation, resource_type: AclResource, name: str = CLUSTER_NAME) -> bool:
        """Whether the client may do this to a resource."""
        authorizer = self.authorizer
        if authorizer is None:
            return True
        acls = ACLS.indexed(self.image)
        return authorizer.allows(acls, self.principal, self.host, operation, resource_type, name)

    def check(self, operation: AclOperation, resource_type: AclResource, name: str = CLUSTER_NAME) -> None:
        """Refuse what the client may not do.

        Raises:
            RefusedError: With the code of this type of resource.
        """
        if not self.has(operation, resource_type, name):
            raise self.refusal(operation, resource_type, name)

    def refusal(self, operation: AclOperation, resource_type: AclResource, name: str) -> RefusedError:
        """What is told to a client that may not do this."""
        who = f"{self.principal.type}:{self.principal.name}"
        what = f"{resource_type.name.lower()} {quoted(name)}"
        return RefusedError(FAILURES[resource_type], f"{quoted(who)} may not {operation.name} {what}.")

    def on_the_cluster(self) -> int:
        """What the client may do to the cluster: the operation with number n is bit n, as Kafka tells it.

        Who may not describe the cluster is told that it may do nothing.
        """
        if not self.has(AclOperation.DESCRIBE, AclResource.CLUSTER):
            return 0
        return sum(1 << one for one in _ON_THE_CLUSTER if self.has(one, AclResource.CLUSTER))

    def check_config(self, operation: AclOperation, resource_type: int, name: str) -> None:
        """Refuse configs of a resource that the client may not read, or change.

        Raises:
            RefusedError: As `check`.
        """
        resource = _CONFIGURED.get(resource_type, AclResource.CLUSTER)
        self.check(operation, resource, CLUSTER_NAME if resource is AclResource.CLUSTER else name)


ALL_RIGHTS: Final = Rights(None, EMPTY, ANONYMOUS, "")
"""Those of everybody, without an authorizer."""
