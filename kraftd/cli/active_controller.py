"""The active controller, found and asked in Kafka's protocol: of a quorum of kraftd or of Kafka.

`ask_controller` sends a request to it until it responds or time is up, through elections and lost
connections. A broker of Kafka may be named too: what it cannot answer itself it forwards. `ask_either` is for
a request that kraftd's own protocol has too; `ask_kraftd` for what only kraftd serves: there Kafka's nodes
are told from those that do not answer.

Not here: what the nodes say of the quorum itself (`kraftd.cli.survey`), which needs kraftd's own protocol.
"""

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from kraftd.cli.client import Connection, KafkaConnection, LostError, raise_for
from kraftd.cli.failures import CommandError, NotConnectedError, RefusedError, UnhealthyError
from kraftd.cli.survey import REQUEST_TIMEOUT_MS, RETRY_PAUSE_MS, ask_leader
from kraftd.errors import ErrorCode
from kraftd.protocol.messages import DescribeClusterRequest, DescribeClusterResponse
from kraftd.types import NO_NODE, Endpoint

Result = TypeVar("Result")

_CONTROLLERS = 2
"""The type of endpoint that DescribeCluster is asked for (KIP-919)."""

_TYPED_SINCE = 1
"""The version of DescribeCluster from which it may be asked for controllers."""


def ask_controller(
    bootstrap: Sequence[Endpoint], ask: Callable[[KafkaConnection], Result], timeout_ms: int
) -> Result:
    """Send a request to the active controller until it responds.

    Args:
        bootstrap: Nodes to find it from; each is tried until one answers.
        ask: Sends the request, and returns what the caller wants of the response. It raises
            `UnhealthyError` when the node cannot answer now, for example because it is not the active
            controller any more. Then, and after a lost connection, it is called again, with the next node if
            this one cannot say who is the active controller; every other error ends the search.
        timeout_ms: How long to look for a controller that answers.

    Raises:
        NotConnectedError: No node could be reached at all, or the controller was lost again and again.
        UnhealthyError: Nodes answer, but none is the active controller, or the one that they name does not.
    """
    deadline = time.monotonic() + timeout_ms / 1_000
    nodes = list(bootstrap)
    while True:
        try:
            with _find(nodes) as controller:
                return ask(controller)
        except (LostError, UnhealthyError):
            if time.monotonic() + RETRY_PAUSE_MS / 1_000 >= deadline:
                raise
        nodes = [*nodes[1:], nodes[0]]
        time.sleep(RETRY_PAUSE_MS / 1_000)


def _find(nodes: Sequence[Endpoint]) -> KafkaConnection:
    """A connection to the active controller, as the first node that answers knows it.

    A node that does not know it, or says that it leads nowhere it can be reached, is asked itself.
    """
    connection = _first(nodes)
    try:
        endpoint = _controller_of(connection)
        if endpoint is None or endpoint == connection.endpoint:
            return connection
        controller = KafkaConnection(endpoint, REQUEST_TIMEOUT_MS)
    except NotConnectedError as error:
        connection.close()
        # A node did answer: it is the cluster that is in a bad state, and not the way to it.
        raise UnhealthyError(f"the active controller does not answer: {error}") from error
    except BaseException:
        connection.close()
        raise
    connection.close()
    return controller


def _first(nodes: Sequence[Endpoint]) -> KafkaConnection:
    reasons = []
    for endpoint in nodes:
        try:
            return KafkaConnection(endpoint, REQUEST_TIMEOUT_MS)
        except CommandError as error:
            reasons.append(str(error))
    text = "; ".join(dict.fromkeys(reasons))
    raise NotConnectedError(f"no node answers: {text}; check that they run, and the ports given")


def _controller_of(connection: KafkaConnection) -> Endpoint | None:
    """Where the active controller listens, as a node tells it; None if this node cannot tell.

    Kafka's controllers tell it from release 3.7 on, a broker does not.

    Raises:
        UnhealthyError: It knows that there is none.
    """
    version = connection.version_of(DescribeClusterRequest)
    if version is None or version < _TYPED_SINCE:
        return None
    request = DescribeClusterRequest(endpoint_type=_CONTROLLERS)
    response = connection.call(request, DescribeClusterResponse, REQUEST_TIMEOUT_MS)
    if response.error_code in (ErrorCode.MISMATCHED_ENDPOINT_TYPE, ErrorCode.UNSUPPORTED_VERSION):
        return None
    raise_for(response.error_code, response.error_message, str(connection.endpoint))
    if response.controller_id == NO_NODE:
        raise UnhealthyError(f"{connection.endpoint}: no active controller is known there")
    for node in response.brokers:
        if node.broker_id == response.controller_id:
            return Endpoint(node.host, node.port)
    return None


def ask_either(
    bootstrap: Sequence[Endpoint], ask: Callable[[Connection | KafkaConnection], Result], timeout_ms: int
) -> Result:
    """As `ask_leader`, or as `ask_controller` where the nodes are Kafka's."""
    try:
        return ask_leader(bootstrap, ask, timeout_ms)
    except NotConnectedError:
        if node_of_kafka(bootstrap) is None:
            raise
    return ask_controller(bootstrap, ask, timeout_ms)


def ask_kraftd(
    bootstrap: Sequence[Endpoint], ask: Callable[..., Result], timeout_ms: int, what: str
) -> Result:
    """As `ask_leader`, for what only kraftd serves; Kafka's nodes are told from those that do not answer.

    Args:
        bootstrap: Nodes to find the leader from.
        ask: As `ask_leader` has it.
        timeout_ms: How long to look for a leader that answers.
        what: What is asked for, in a few words.

    Raises:
        RefusedError: A node of Kafka answers.
    """
    try:
        return ask_leader(bootstrap, ask, timeout_ms)
    except NotConnectedError as error:
        node = node_of_kafka(bootstrap)
        if node is None:
            raise
        text = (
            f"{node} is a node of Apache Kafka, which serves no {what}; ask a broker with Kafka's own tools"
        )
        raise RefusedError(text) from error


def node_of_kafka(bootstrap: Sequence[Endpoint]) -> Endpoint | None:
    """The first node that speaks Kafka's protocol, when none was found that speaks kraftd's."""
    try:
        with _first(bootstrap) as connection:
            return connection.endpoint
    except CommandError:
        return None
