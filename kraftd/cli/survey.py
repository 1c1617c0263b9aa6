"""What every node of the quorum says, asked all at once and starting from any of them.

A node that does not answer is a finding, not a failure: it has a row like the others, with the reason. No
leader is needed; who leads is a conclusion drawn here from what the nodes say (`Survey.leader`), the
highest epoch first.

`ask_leader` builds on it: it puts a question to the leader until it is answered or time is up, through
elections and lost connections. A question must therefore be one that may be asked twice.
"""

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import msgspec

from kraftd.cli.client import Connection, LostError, raise_for
from kraftd.cli.failures import CommandError, NotConnectedError, UnhealthyError
from kraftd.protocol.messages import DescribeNodeRequest, DescribeNodeResponse
from kraftd.types import NO_NODE, Endpoint, NodeId

ANSWER_TIMEOUT_MS = 1_000
"""How long one node is waited for. A paused node costs this much, once; a dead one nothing."""

RETRY_PAUSE_MS = 50

_GRACE_S = 0.1

Result = TypeVar("Result")


class NodeView(msgspec.Struct, frozen=True):
    """One node's own view, or why there is none."""

    endpoint: Endpoint
    node_id: NodeId = NO_NODE
    answer: DescribeNodeResponse | None = None
    error: str = ""
    connection: Connection | None = None
    """Stays open for the next question until the survey is closed."""


class Survey(msgspec.Struct, frozen=True):
    """Every node that was asked, by node id; those whose id is not known come last. A context manager."""

    views: tuple[NodeView, ...]

    def __enter__(self) -> "Survey":
        return self

    def __exit__(self, *_: object) -> None:
        for view in self.views:
            if view.connection:
                view.connection.close()

    @property
    def answered(self) -> tuple[NodeView, ...]:
        """The nodes that can be talked to."""
        return tuple(view for view in self.views if view.answer is not None)

    @property
    def leader(self) -> NodeView | None:
        """The node that says it leads, of the highest epoch if several do. A higher epoch known elsewhere
        means that this leader is deposed and has not heard of it.
        """
        leaders = [view for view in self.answered if view.answer and view.answer.role == "leader"]
        best = max(leaders, key=lambda view: view.answer.epoch if view.answer else -1, default=None)
        if best is None or best.answer is None or best.answer.epoch < self.epoch:
            return None
        return best

    @property
    def epoch(self) -> int:
        """The highest epoch that any node knows; -1 if none answered."""
        return max((view.answer.epoch for view in self.answered if view.answer), default=-1)

    @property
    def is_led(self) -> bool:
        """Whether a majority of the voters agree on a leader that answers: nobody else need be asked then."""
        leader = self.leader
        if leader is None or leader.answer is None:
            return False
        followers = {
            view.node_id
            for view in self.answered
            if view.answer and view.answer.is_voter and view.answer.leader_id == leader.node_id
        }
        members = len(leader.answer.peers) + 1
        return len(followers) > members // 2

    def no_leader_reason(self) -> str:
        """Why no leader can be named, for an operator."""
        if not self.answered:
            return "no node answered"
        voters = {view.node_id for view in self.views if view.answer is None or view.answer.is_voter}
        alive = {view.node_id for view in self.answered if view.answer and view.answer.is_voter}
        needed = len(voters) // 2 + 1
        if len(alive) < needed:
            return f"no majority: {len(alive)} of {len(voters)} voters answer, {needed} are needed"
        newest = [view.answer for view in self.answered if view.answer and view.answer.epoch == self.epoch]
        for answer in newest:
            if answer.leader_id != NO_NODE:
                silence = self._why_silent(answer.leader_id)
                return f"node {answer.node_id} follows node {answer.leader_id}, {silence}"
        reasons = [answer.no_leader_reason for answer in newest if answer.no_leader_reason]
        return reasons[0] if reasons else f"an election is under way in epoch {self.epoch}"

    def _why_silent(self, leader_id: NodeId) -> str:
        for view in self.views:
            if view.node_id == leader_id and view.error:
                return f"which cannot be asked: {view.error}"
        return "which does not say that it leads"


class _Inquiry:
    """The questions that are out, and the answers that have come in; late ones are hung up on."""

    def __init__(self, timeout_ms: int) -> None:
        self.asked: dict[Endpoint, NodeId] = {}
        self.views: list[NodeView] = []
        self._timeout_ms = timeout_ms
        self._answers: queue.SimpleQueue[NodeView] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._over = False

    def ask(self, endpoint: Endpoint, node_id: NodeId) -> None:
        """Ask a node, unless it has been asked under this name; note its id if it is known."""
        if endpoint not in self.asked:
            threading.Thread(target=self._run, args=(endpoint, node_id), daemon=True).start()
        self.asked[endpoint] = node_id

    def wait(self, deadline: float) -> NodeView | None:
        """The next answer; None if all are in or time is up."""
        if len(self.views) == len(self.asked):
            return None
        try:
            view = self._answers.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            return None  # a name that takes long to resolve: nothing else hangs as long as this
        self.views.append(view)
        return view

    def end(self) -> list[NodeView]:
        """Stop waiting; every node asked has a view, if only that it did not answer."""
        with self._lock:
            self._over = True
        while not self._answers.empty():
            self.views.append(self._answers.get())
        seen = {view.endpoint for view in self.views}
        late = [NodeView(at, error="did not answer in time") for at in self.asked if at not in seen]
        return [*self.views, *late]

    def _run(self, endpoint: Endpoint, node_id: NodeId) -> None:
        view = _ask_node(endpoint, node_id, self._timeout_ms)
        with self._lock:
            if not self._over:
                self._answers.put(view)
                return
        if view.connection:
            view.connection.close()


def survey(
    bootstrap: Sequence[Endpoint], timeout_ms: int = ANSWER_TIMEOUT_MS, *, until_led: bool = False
) -> Survey:
    """Ask the bootstrap nodes, and at the same time every peer they name, for their view.

    Args:
        bootstrap: Where to begin; one that answers is enough.
        timeout_ms: How long to wait for one node.
        until_led: Do not wait for the rest once a majority agrees on a leader that answers.

    Cost: one thread and one connection a node; as long as the slowest node, at most twice `timeout_ms`.
    """
    inquiry = _Inquiry(timeout_ms)
    for endpoint in bootstrap:
        inquiry.ask(endpoint, NO_NODE)
    deadline = time.monotonic() + 2 * timeout_ms / 1_000 + _GRACE_S
    while view := inquiry.wait(deadline):
        for peer in view.answer.peers if view.answer else ():
            if peer.port:  # 0: that node does not know the address either
                inquiry.ask(Endpoint(peer.host, peer.port), peer.node_id)
        if until_led and Survey(tuple(inquiry.views)).is_led:
            break
    return Survey(_one_row_a_node(inquiry.end(), inquiry.asked, bootstrap))


def ask_leader(
    bootstrap: Sequence[Endpoint], question: Callable[[Connection], Result], timeout_ms: int
) -> Result:
    """Put a question to the leader until it is answered.

    Args:
        bootstrap: Nodes to find the leader from.
        question: Asks it; raises `UnhealthyError` when the node cannot answer now, for example because it
            leads no more. It may be asked again after a lost connection: once or twice must be the same.
        timeout_ms: How long to look for a leader that answers.

    Raises:
        NotConnectedError: No node could be reached at all, or the leader was lost again and again.
        UnhealthyError: Nodes answer, but no leader does.
    """
    deadline = time.monotonic() + timeout_ms / 1_000
    while True:
        try:
            with survey(bootstrap, until_led=True) as found:
                return question(leader_of(found))
        except (LostError, UnhealthyError):
            if time.monotonic() + RETRY_PAUSE_MS / 1_000 >= deadline:
                raise
        time.sleep(RETRY_PAUSE_MS / 1_000)


def leader_of(found: Survey) -> Connection:
    """The connection to the node that leads.

    Raises:
        NotConnectedError: No node could be reached at all.
        UnhealthyError: Nodes answer, but none of them leads.
    """
    if found.leader and found.leader.connection:
        return found.leader.connection
    if not found.answered:
        raise NotConnectedError(unreachable_text(found))
    raise UnhealthyError(f"no leader: {found.no_leader_reason()}; kraftctl status shows every node's view")


def unreachable_text(found: Survey) -> str:
    """One line about a survey that nobody answered."""
    reasons = "; ".join(dict.fromkeys(view.error for view in found.views))
    return f"no node answers: {reasons}; check that they run, and the ports in --bootstrap-controller"


def _ask_node(endpoint: Endpoint, node_id: NodeId, timeout_ms: int) -> NodeView:
    try:
        connection = Connection(endpoint, timeout_ms)
    except CommandError as error:
        return NodeView(endpoint, node_id, error=str(error).removeprefix(f"{endpoint}: "))
    try:
        answer = connection.call(DescribeNodeRequest(), DescribeNodeResponse, timeout_ms)
        raise_for(answer.error_code, None, str(endpoint))
    except CommandError as error:
        connection.close()
        return NodeView(endpoint, connection.peer.node_id, error=str(error).removeprefix(f"{endpoint}: "))
    return NodeView(endpoint, connection.peer.node_id, answer=answer, connection=connection)


def _one_row_a_node(
    views: Sequence[NodeView], ids: Mapping[Endpoint, NodeId], bootstrap: Sequence[Endpoint]
) -> tuple[NodeView, ...]:
    """Nodes asked under several names become one row each: an answer beats a failure, and the name that the
    user gave beats the one that other nodes know.
    """
    rows: dict[object, NodeView] = {}
    for view in sorted(views, key=lambda view: (view.answer is None, view.endpoint not in bootstrap)):
        node_id = view.node_id if view.node_id != NO_NODE else ids.get(view.endpoint, NO_NODE)
        key: object = node_id if node_id != NO_NODE else view.endpoint
        kept = rows.setdefault(key, msgspec.structs.replace(view, node_id=node_id))
        if view.connection and view.connection is not kept.connection:
            view.connection.close()
    return tuple(
        sorted(rows.values(), key=lambda row: (row.node_id == NO_NODE, row.node_id, str(row.endpoint)))
    )
