"""Refuses requests whose sender has no right to them, where an authorizer is configured.

Entered by the router, with each request, those inside an Envelope too: the envelope itself needs the right of
a node of the cluster, and what is inside that of the principal that it carries. Here are the rights on the
cluster. Requests that name topics, groups or configs are passed: they are authorized where each is decided.

The quorum's own requests are not asked for here: who votes, or speaks for a voter, has proved what it is
(D-37), and a node that does not lead tells an observer nothing but who does. So a node that is still reading
its log, and knows no entries yet, turns no broker away for good.

Nor does it refuse anybody else for good. Until it has once applied all that it knew to be committed it knows
super users alone: an entry that gives a right may have been removed since, and without any entry
`allow.everyone.if.no.acl.found` would give out the log. All others are told by a retriable error to ask
again. It does not lead before, so that those who asked for the active controller are told to look for it
elsewhere.

Follows: authorizeClusterOperation of Kafka's AuthHelper, and the order in which its ControllerApis asks.
Differs: Kafka's voters need CLUSTER_ACTION, too. Until it has read so far its StandardAuthorizer raises
AuthorizerNotReadyException for all but super users, which goes out as UNKNOWN_SERVER_ERROR.
"""

from collections.abc import Callable
from typing import Any, Final, get_args

from kraftd.controller.access import ACCESS
from kraftd.controller.authorizer import Authorizer
from kraftd.controller.quorum_controller import QuorumController
from kraftd.controller.rights import FAILURES, Rights
from kraftd.errors import ErrorCode
from kraftd.metadata.acl_kinds import CLUSTER_NAME, AclResource
from kraftd.net.budgets import PeerClass
from kraftd.net.rate_limited_logger import RateLimitedLogger
from kraftd.protocol.codec import Request
from kraftd.protocol.messages import EnvelopeRequest, QuorumRequest, ResignLeaderRequest
from kraftd.runtime.request_failures import refusal_of
from kraftd.runtime.request_router import Gate, Requester

_OF_THE_CLUSTER: Final = frozenset((AclResource.CLUSTER,))
_QUORUM: Final = frozenset(get_args(QuorumRequest))
_OF_THE_LEADER: Final = frozenset((EnvelopeRequest, ResignLeaderRequest))
"""What only the active controller serves, beside the requests that the controller decides and reads."""

NOT_READY: Final = "This node has not read all that is committed yet, and so does not know who may do this."


def gate_of(
    controller: QuorumController, limited_logger: RateLimitedLogger, has_caught_up: Callable[[], bool]
) -> Gate | None:
    """The gate of a node; None without an authorizer. `has_caught_up` says whether the image has once held
    all that was known to be committed.
    """
    authorizer = controller.settings.authorizer
    if authorizer is None:
        return None
    return RequestGate(controller, authorizer, limited_logger, has_caught_up).refusal


class RequestGate:
    """Asks the authorizer about each request."""

    def __init__(
        self,
        controller: QuorumController,
        authorizer: Authorizer,
        limited_logger: RateLimitedLogger,
        has_caught_up: Callable[[], bool],
    ) -> None:
        self._controller = controller
        self._limited_logger = limited_logger
        self._has_caught_up = has_caught_up
        self._authorizer = authorizer

    def refusal(self, requester: Requester, request: Request) -> Any:
        """The response to a request that its sender may not make, or not yet; None for any other."""
        message = request.message
        access = ACCESS[message.NAME.removesuffix("Request")]
        if access is None or access.resources != _OF_THE_CLUSTER:
            return None
        if type(message) in _QUORUM and self._is_of_the_quorum(requester):
            return None
        client = requester.session
        if not self._has_caught_up():
            if self._authorizer.is_super_user(client.principal):
                return None
            return refusal_of(self._controller, message, self._until_ready(message), NOT_READY)
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

    def _until_ready(self, message: Any) -> ErrorCode:
        """The error after which a client of this API asks another node, or this one again."""
        if type(message) in self._controller.requests or type(message) in _OF_THE_LEADER:
            return ErrorCode.NOT_CONTROLLER
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    def _is_of_the_quorum(self, requester: Requester) -> bool:
        """Whether a voter asks, or somebody asks a node that does not lead."""
        is_voter = getattr(requester, "peer_class", None) is PeerClass.VOTER
        return is_voter or not self._controller.is_active
