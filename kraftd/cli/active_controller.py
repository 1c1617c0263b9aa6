"""The active controller, found and asked in Kafka's protocol: of a quorum of kraftd or of Kafka.

`ask_controller` sends a request to it until it responds or time is up, through elections and lost
connections. A broker of Kafka may be named too: what it cannot answer itself it forwards. `ask_either` is for
a request that kraftd's own protocol has too; `ask_kraftd` for what only kraftd serves: there Kafka's nodes
are told from those that do not answer.

Where there is no active controller, nodes of kraftd are asked why (`kraftd.cli.survey`): Kafka's protocol has
no place for it. A change was not sent then, and the line says so: it is no unknown outcome.
"""

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from kraftd.cli.client import Connection, KafkaConnection, LostError, raise_for
from kraftd.cli.failures import CommandError, NotConnectedError, RefusedError, UnhealthyError
from kraftd.cli.survey import (
    REQUEST_TIMEOUT_MS,
    RETRY_PAUSE_MS,
    UNSENT,
    Survey,
    ask_leader,
    no_leader_text,
    silence,
    survey,
)
from kraftd.cli.waiting import patience
from kraftd.errors import ErrorCode
from kraftd.protocol.messages import DescribeClusterRequest, DescribeClusterResponse
from kraftd.types import NO_NODE, Endpoint

Result = TypeVar("Result")

_CONTROLLERS = 2
"""The type of endpoint that DescribeCluster is asked for (KIP-919)."""

_TYPED_SINCE = 1
"""The version of DescribeCluster from which it may be asked for controllers."""

_PRODUCE = 0
"""An API that brokers of Kafka serve and controllers do not."""

_VOTE = 52
"""An API that every controller of Kafka serves, and no node of kraftd in Kafka's protocol (KIP-595)."""

NOT_KRAFTD = ("does not speak kraftd's protocol", "name a node of kraftd with --bootstrap-controller")
"""Of a node of Kafka, for `kafka_text`."""


class _NoControllerError(UnhealthyError):
    """Nodes answer, but none that could take the request: it was not sent to any."""


def ask_controller(
    bootstrap: Sequence[Endpoint],
    ask: Callable[[KafkaConnection], Result],
    timeout_ms: int,
    *,
    changes: bool = True,
) -> Result:
    """Send a request to the active controller until it responds.

    Args:
        bootstrap: Nodes to find it from; each is tried until one answers.
        ask: Sends the request, and returns what the caller wants of the response. It raises
            `UnhealthyError` when the node cannot answer now, for example because it is not the active
            controller any more. Then, and after a lost connection, it is called again, with the next node if
            this one cannot say who is the active controller; every other error ends the search.
        timeout_ms: How long to look for a controller that answers.
        changes: Whether the request changes anything, so that one that was not sent is told as such.

    Raises:
        NotConnectedError: No node could be reached at all, or the controller was lost again and again.
        UnhealthyError: Nodes answer, but none is the active controller, or the one that they name does not.
    """
    deadline = time.monotonic() + timeout_ms / 1_000
    nodes = list(bootstrap)
    with patience("the leader", timeout_ms):
        while True:
            try:
                with _find(nodes) as controller:
                    return ask(controller)
            except (LostError, UnhealthyError) as error:
                if time.monotonic() + RETRY_PAUSE_MS / 1_000 >= deadline:
                    if isinstance(error, _NoControllerError):
                        raise UnhealthyError(_why_none(bootstrap, str(error), changes=changes)) from error
                    raise
            nodes = [*nodes[1:], nodes[0]]
            time.sleep(RETRY_PAUSE_MS / 1_000)


def _why_none(bootstrap: Sequence[Endpoint], known: str, *, changes: bool) -> str:
    """Why there is no active controller and what to do, in kraftd's words where its nodes answer."""
    unsent = UNSENT if changes else ""
    with survey(bootstrap) as found:
        if found.reachable and found.leader is None:
            return no_leader_text(found, unsent)
    return f"{known}; {unsent}see that a majority of the controllers runs, and try again"


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
        raise _NoControllerError(f"the active controller does not answer: {error}") from error
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
    raise NotConnectedError(f"no node answers: {text}; check that they run, and the ports that were named")


def _controller_of(connection: KafkaConnection) -> Endpoint | None:
    """Where the active controller listens, as a node tells it; None if this node cannot tell.

    Kafka's controllers tell it from release 3.7 on, a broker does not.

    Raises:
        _NoControllerError: It knows that there is none.
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
        raise _NoControllerError(f"{connection.endpoint}: no active controller is known there")
    for node in response.brokers:
        if node.broker_id == response.controller_id:
            return Endpoint(node.host, node.port)
    return None


def ask_either(
    bootstrap: Sequence[Endpoint],
    ask: Callable[[Connection | KafkaConnection], Result],
    timeout_ms: int,
    *,
    changes: bool,
) -> Result:
    """As `ask_leader`, or as `ask_controller` where the nodes are Kafka's."""
    left = _Countdown(timeout_ms)
    try:
        return ask_leader(bootstrap, ask, timeout_ms, changes=changes)
    except NotConnectedError:
        speaker = _speaker_of(bootstrap)
        if speaker is None or (speaker.is_kraftd and left.ms <= 0):
            raise
    if speaker.is_kraftd:
        return ask_leader(bootstrap, ask, left.ms, changes=changes)
    return ask_controller(bootstrap, ask, timeout_ms, changes=changes)


def ask_kraftd(
    bootstrap: Sequence[Endpoint],
    ask: Callable[..., Result],
    timeout_ms: int,
    what: str,
    *,
    changes: bool = False,
) -> Result:
    """As `ask_leader`, for what only kraftd serves; Kafka's nodes are told from those that do not answer.

    A node of kraftd that was silent and speaks now is asked once more, within the time.

    Args:
        bootstrap: Nodes to find the leader from.
        ask: As `ask_leader` has it.
        timeout_ms: How long to look for a leader that answers.
        what: What is asked for, in a few words.
        changes: Whether it is asked for to change something then, so that nothing changed is told as such.

    Raises:
        RefusedError: A node of Kafka answers.
    """
    left = _Countdown(timeout_ms)
    try:
        return ask_leader(bootstrap, ask, timeout_ms, changes=changes)
    except NotConnectedError as error:
        speaker = _speaker_of(bootstrap)
        if speaker is not None and not speaker.is_kraftd:
            lacks = f"cannot tell kraftctl about {what}"
            text = _text_of(speaker, lacks, "ask a broker with Kafka's own tools")
            raise RefusedError(text) from error
        if speaker is None or left.ms <= 0:
            raise
    return ask_leader(bootstrap, ask, left.ms, changes=changes)


class _Countdown:
    """How much of a command's time is left."""

    def __init__(self, timeout_ms: int) -> None:
        self._deadline = time.monotonic() + timeout_ms / 1_000

    @property
    def ms(self) -> int:
        return int((self._deadline - time.monotonic()) * 1_000)


def nobody(found: Survey, bootstrap: Sequence[Endpoint]) -> CommandError:
    """How a command ends when no node of kraftd told its view: one of Kafka may have been named."""
    ending = silence(found)
    if not isinstance(ending, NotConnectedError):
        return ending
    text = kafka_text(bootstrap, *NOT_KRAFTD)
    return ending if text is None else RefusedError(text)


class _Speaker(NamedTuple):
    """A node that answers in Kafka's protocol, and was too slow in kraftd's or does not speak it."""

    endpoint: Endpoint
    is_broker: bool
    """Of Kafka; also one that is a controller too and listens there as both."""
    is_controller: bool
    """Of Kafka."""

    @property
    def is_kraftd(self) -> bool:
        return not (self.is_broker or self.is_controller)


def kafka_text(bootstrap: Sequence[Endpoint], lacks: str, instead: str) -> str | None:
    """That a node of Kafka answers where one of kraftd was asked for; None if none does.

    Args:
        bootstrap: The nodes that were asked in vain.
        lacks: What such a node cannot do, after "which".
        instead: What to do with a controller of Kafka. A broker may have been named in place of kraftd's.
    """
    speaker = _speaker_of(bootstrap)
    return None if speaker is None or speaker.is_kraftd else _text_of(speaker, lacks, instead)


def _text_of(node: _Speaker, lacks: str, instead: str) -> str:
    if node.is_broker:
        where = "name a controller of kraftd with --bootstrap-controller"
        return f"{node.endpoint} is a broker of Kafka, which {lacks}; {where}"
    return f"{node.endpoint} is a node of Apache Kafka, which {lacks}; {instead}"


def _speaker_of(bootstrap: Sequence[Endpoint]) -> _Speaker | None:
    """The first node that answers in Kafka's protocol, when none has answered in kraftd's.

    Whose it is, only what it serves tells: a node of kraftd speaks both protocols, and may have been silent
    for a while only, as one that was stopped or whose disk hangs. So may one of Kafka.
    """
    try:
        with _first(bootstrap) as connection:
            return _Speaker(connection.endpoint, connection.serves(_PRODUCE), connection.serves(_VOTE))
    except CommandError:
        return None
