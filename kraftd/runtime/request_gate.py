"""Refuses requests whose sender has no right to them, where an authorizer is configured.

Entered by the router, with each request, those inside an Envelope too: the envelope itself needs the right of
a node of the cluster, and what is inside that of the principal that it carries. Here are the rights on the
cluster. Requests that name topics, groups or configs are passed: they are authorized where each is decided.

The quorum's own requests are not asked for here: who votes, or speaks for a voter, has proved what it is
(D-37), and a node that does not lead tells an observer nothing but who does. So a node that is still reading
its log, and knows no entries yet, turns no broker away for good.

Follows: authorizeClusterOperation of Kafka's AuthHelper, and the order in which its ControllerApis asks.
Differs: Kafka's voters need CLUSTER_ACTION, too.
"""

from typing import Any, Final, get_args

from kraftd.controller.access import ACCESS
from kraftd.controller.quorum_controller import QuorumController
from kraftd.controller.rights import FAILURES, Rights
from kraftd.metadata.acl_kinds import CLUSTER_NAME, AclResource
from kraftd.net.budgets import PeerClass
from kraftd.net.rate_limited_logger import RateLimitedLogger
from kraftd.protocol.codec import Request
from kraftd.protocol.messages import QuorumRequest
from kraftd.runtime.request_failures import refusal_of
from kraftd.runtime.request_router import Gate, Requester

_OF_THE_CLUSTER: Final = frozenset((AclResource.CLUSTER,))
_QUORUM: Final = frozenset(get_args(QuorumRequest))


def gate_of(controller: QuorumController, limited_logger: RateLimitedLogger) -> Gate | None:
    """The gate of a node; None without an authorizer."""
    if controller.settings.authorizer is None:
        return None
    return RequestGate(controller, limited_logger).refusal


class RequestGate:
    """Asks the authorizer about each request."""

    def __init__(self, controller: QuorumController, limited_logger: RateLimitedLogger) -> None:
        self._controller = controller
        self._limited_logger = limited_logger
        self._authorizer = controller.settings.authorizer

    def refusal(self, requester: Requester, request: Request) -> Any:
        """The response to a request that its sender may not make; None for any other."""
        message = request.message
        access = ACCESS[message.NAME.removesuffix("Request")]
        if access is None or access.resources != _OF_THE_CLUSTER:
            return None
        if type(message) in _QUORUM and self._is_of_the_quorum(requester):
            return None
        client = requester.session
        rights = Rights(self._authorizer, self._controller.image, client.principal, client.host)
        if rights.has(access.operation, AclResource.CLUSTER):
            return None
        text = str(rights.refusal(access.operation, AclResource.CLUSTER, CLUSTER_NAME))
        self._limited_logger.warning(
            "request_denied",
            key=(client.host, message.NAME),
            host=client.host,
            api=message.NAME,
            forwarded=client.is_forwarded,
            reason=text,
        )
        return refusal_of(self._controller, message, FAILURES[AclResource.CLUSTER], text)

    def _is_of_the_quorum(self, requester: Requester) -> bool:
        """Whether a voter asks, or somebody asks a node that does not lead."""
        is_voter = getattr(requester, "peer_class", None) is PeerClass.VOTER
        return is_voter or not self._controller.is_active
