"""What every node of the quorum says, asked all at once and starting from any of them.

A node that does not answer is a result, not a failure: it has a row like the others, with the reason; so has
one that refuses to tell, as to one who lacks the right, and one that cannot tell now. Where none tells,
`silence` is what that means. No leader is needed; who leads is a conclusion drawn here from what the nodes
say (`Survey.leader`).

It is drawn from what a majority says. One node that speaks of epoch 2^30, because it was restored from
elsewhere or because it is none of ours, says nothing about the three that follow node 2 in epoch 7.

Two processes may say that they are node 3, as after a start with a wrong directory. Both are heard and have a
row; which of them counts is what the majority says, not who answers first.

It is long because asking and judging go together: what one node says decides whom to ask next, and when
enough have answered.

`ask_leader` builds on it: it sends a request to the leader until it responds or time is up, through
elections and lost connections. A request must therefore be one that may be sent twice, or end with
`UnknownOutcomeError` when it may have done something.
"""

import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

import msgspec

from kraftd.cli.client import Connection, LostError, raise_for
from kraftd.cli.failures import CommandError, NotConnectedError, RefusedError, UnhealthyError
from kraftd.cli.waiting import patience
from kraftd.errors import ErrorCode
from kraftd.protocol.messages import DescribeNodeRequest, DescribeNodeResponse
from kraftd.types import FORGET_PEERS, NO_NODE, REPORTED_BY_OTHERS, Endpoint, NodeId, majority_of

REQUEST_TIMEOUT_MS = 1_000
"""How long one node is waited for. A paused node costs this much, once; a dead one nothing."""

RETRY_PAUSE_MS = 50

UNSENT = "nothing was changed; "
"""What follows for a change if nobody leads."""

_STILL_READING = "it has not read all that is committed yet, and so does not know who may ask"

_GRACE_S = 0.1

NAMED_BY_ONE_MAX = 32
"""Of the addresses that one node names, so many are asked: a node of ours names the voters. Whoever else
answers must not choose how many connections leave this machine, and where to.
"""

NAMED_MAX = 128
"""Of the addresses that all of them name."""

Result = TypeVar("Result")


class OwnView(msgspec.Struct, frozen=True):
    """A node's own view of the quorum, or why there is none."""

    endpoint: Endpoint
    node_id: NodeId = NO_NODE
    response: DescribeNodeResponse | None = None
    error: str = ""
    is_refusal: bool = False
    """Whether the node did answer, with a no."""
    is_busy: bool = False
    """Whether it did answer, that it cannot now: it has no room for a connection, or has just started."""
    is_silent: bool = False
    """Whether it took the connection, and gave no answer in kraftd's protocol: it hangs, or is of Kafka."""
    connection: Connection | None = None
    """Stays open for the next request until the survey is closed."""

    def failure(self, text: str) -> CommandError:
        """How a command ends that needs this node's view, if there is none."""
        if self.is_refusal:
            return RefusedError(text)
        return UnhealthyError(text) if self.is_busy else NotConnectedError(text)


class Survey(msgspec.Struct, frozen=True):
    """Every process that was asked, by node id; those whose id is not known come last. A context manager."""

    views: tuple[OwnView, ...]

    def __enter__(self) -> "Survey":
        return self

    def __exit__(self, *_: object) -> None:
        for view in self.views:
            if view.connection:
                view.connection.close()

    @property
    def reachable(self) -> tuple[OwnView, ...]:
        """The nodes that can be talked to."""
        return tuple(view for view in self.views if view.response is not None)

    @property
    def leader(self) -> OwnView | None:
        """The node that says it leads, and that a majority of the voters follow in its epoch.

        Where no majority follows anyone, as in the middle of an election, one that says it leads the epoch
        that a majority is in: in an older one it is deposed and has not heard of it, in a newer one nobody
        elected it.
        """
        chosen = self._majority_leader
        if chosen is not None:
            return chosen
        epoch = self.epoch
        return next((view for view in self._self_declared if _epoch_of(view) == epoch), None)

    @property
    def epoch(self) -> int:
        """The epoch of the leader that a majority follows, else the last that a majority of the voters that
        answer has come to; -1 if none answered.
        """
        chosen = self._majority_leader
        if chosen is not None:
            return _epoch_of(chosen)
        voters = [view for view in self.reachable if view.response and view.response.is_voter]
        epochs = sorted(_epoch_of(view) for view in voters or self.reachable)
        return epochs[(len(epochs) - 1) // 2] if epochs else -1

    @property
    def voters(self) -> frozenset[NodeId]:
        """Who the voters are, in the words of most nodes."""
        reachable = self.reachable
        voting = {view.node_id for view in reachable if view.response and view.response.is_voter}
        strangers = {view.node_id for view in reachable} - voting
        told = Counter(
            frozenset(
                {view.node_id, *(peer.node_id for peer in view.response.peers if peer.port)} - strangers
            )
            for view in reachable
            if view.response
        )
        return max(told, key=lambda voters: (told[voters], len(voters)), default=frozenset())

    def followers_of(self, leader: OwnView) -> frozenset[NodeId]:
        """The voters that say they follow this node in its epoch, itself among them."""
        return self.voters & {view.node_id for view in self.reachable if _follows(view, leader)}

    def is_conclusive(self, bootstrap: Collection[Endpoint]) -> bool:
        """Whether nobody else need be asked: a majority follows a leader, and it is not a few of the nodes
        that the user named who say so while the others have not answered.
        """
        leader = self._majority_leader
        if leader is None:
            return False
        followers = self.followers_of(leader)
        named = sum(view.endpoint in bootstrap and view.node_id in followers for view in self.reachable)
        return 2 * named >= len(bootstrap) or {view.endpoint for view in self.views}.issuperset(bootstrap)

    def oddities(self, view: OwnView) -> list[str]:
        """What is odd about a node among the others: a second process under its id, more peers than we ask,
        and an epoch later than that of a leader that stands.
        """
        found = []
        twins = [str(other.endpoint) for other in self.reachable if other.node_id == view.node_id]
        if len(twins) > 1:
            count = "two" if len(twins) == 2 else str(len(twins))
            found.append(f"{count} processes answer as node {view.node_id}: {' and '.join(twins)}")
        named = len(named_by(view.response))
        if named > NAMED_BY_ONE_MAX:
            found.append(f"names {named} other nodes, of which {NAMED_BY_ONE_MAX} were asked")
        leader = self.leader
        if leader is not None and _epoch_of(view) > _epoch_of(leader):
            leads = f"node {leader.node_id} leads epoch {_epoch_of(leader)}"
            found.append(f"speaks of epoch {_epoch_of(view)}, but {leads}")
        return found

    @property
    def _self_declared(self) -> list[OwnView]:
        return [view for view in self.reachable if view.response and view.response.role == "leader"]

    @property
    def _majority_leader(self) -> OwnView | None:
        needed = majority_of(len(self.voters))
        return next((view for view in self._self_declared if len(self.followers_of(view)) >= needed), None)

    def no_leader_reason(self) -> str:
        """Why no leader can be named, for an operator."""
        if not self.reachable:
            if any(view.is_refusal for view in self.views):
                return "every node that answered refused to tell"
            is_busy = any(view.is_busy for view in self.views)
            return "no node that answered could tell" if is_busy else "no node answered"
        voters = self.voters
        alive = {view.node_id for view in self.reachable if view.response and view.response.is_voter}
        needed = majority_of(len(voters))
        if len(alive) < needed:
            return f"no majority: {len(alive)} of {len(voters)} voters answer, {needed} are needed"
        epoch = self.epoch
        responses = [
            view.response for view in self.reachable if view.response and view.response.epoch >= epoch
        ]
        for response in responses:
            if response.epoch == epoch and response.leader_id != NO_NODE:
                silence = self._why_silent(response.leader_id)
                return f"node {response.node_id} follows node {response.leader_id}, {silence}"
        responses.sort(key=lambda response: response.epoch, reverse=True)
        reasons = [_reason(response) for response in responses if response.why_not_following]
        reasons.sort(key=lambda reason: FORGET_PEERS not in reason)
        return reasons[0] if reasons else f"an election is under way in epoch {epoch}"

    def _why_silent(self, leader_id: NodeId) -> str:
        for view in self.views:
            if view.node_id == leader_id and view.error:
                return f"which cannot be asked: {view.error}"
        return "which does not say that it leads"


def _reason(response: DescribeNodeResponse) -> str:
    """Why a node follows nobody. Its damage is told once, with the node."""
    if response.whole:
        return response.why_not_following or ""
    if any(REPORTED_BY_OTHERS in alarm for alarm in response.alarms):
        return f"node {response.node_id} is not counted, because others know another as it; {FORGET_PEERS}"
    return f"node {response.node_id} is not whole, and is not counted"


def _epoch_of(view: OwnView) -> int:
    return view.response.epoch if view.response else -1


def named_by(response: DescribeNodeResponse | None) -> list[tuple[Endpoint, NodeId]]:
    """The other nodes that a node names, each address once. Port 0: it does not know the address either.

    No more than `NAMED_BY_ONE_MAX` of them are to be asked.
    """
    peers = response.peers if response else ()
    return list({Endpoint(peer.host, peer.port): peer.node_id for peer in peers if peer.port}.items())


def _follows(view: OwnView, leader: OwnView) -> bool:
    said = view.response
    return said is not None and (said.leader_id, said.epoch) == (leader.node_id, _epoch_of(leader))


class _SurveyRun:
    """One survey under way: the nodes that were asked and what they said; late responses are dropped."""

    def __init__(self, timeout_ms: int) -> None:
        self.asked: dict[Endpoint, NodeId] = {}
        self.views: list[OwnView] = []
        self._named = 0
        self._timeout_ms = timeout_ms
        self._responses: queue.SimpleQueue[OwnView] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._over = False

    def ask(self, endpoint: Endpoint, node_id: NodeId) -> None:
        """Ask a node, unless it has been asked under this name; note its id if it is known."""
        if endpoint not in self.asked:
            threading.Thread(target=self._run, args=(endpoint, node_id), daemon=True).start()
        self.asked[endpoint] = node_id

    def ask_named(self, view: OwnView) -> None:
        """Ask whom a node names, as far as that has bounds."""
        for endpoint, node_id in named_by(view.response)[:NAMED_BY_ONE_MAX]:
            if endpoint in self.asked or self._named < NAMED_MAX:
                self._named += endpoint not in self.asked
                self.ask(endpoint, node_id)

    def wait(self, deadline: float) -> OwnView | None:
        """The next view; None if all are in or time is up."""
        if len(self.views) == len(self.asked):
            return None
        try:
            view = self._responses.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            return None  # a name that takes long to resolve: nothing else hangs as long as this
        self.views.append(view)
        return view

    def end(self) -> list[OwnView]:
        """Stop waiting; every node asked has a view, if only that it did not answer."""
        with self._lock:
            self._over = True
        while not self._responses.empty():
            self.views.append(self._responses.get())
        seen = {view.endpoint for view in self.views}
        late = [OwnView(at, error="did not answer in time") for at in self.asked if at not in seen]
        return [*self.views, *late]

    def _run(self, endpoint: Endpoint, node_id: NodeId) -> None:
        view = _ask_node(endpoint, node_id, self._timeout_ms)
        with self._lock:
            if not self._over:
                self._responses.put(view)
                return
        if view.connection:
            view.connection.close()


def survey(
    bootstrap: Sequence[Endpoint], timeout_ms: int = REQUEST_TIMEOUT_MS, *, until_conclusive: bool = False
) -> Survey:
    """Ask the bootstrap nodes, and at the same time every peer they name, for their view.

    Args:
        bootstrap: Where to begin; one that answers is enough.
        timeout_ms: How long to wait for one node.
        until_conclusive: Do not wait for the rest once a majority agrees on a leader that answers.

    Cost: one thread and one connection a node, as many as were given and `NAMED_MAX`; as long as the slowest
    node, at most twice `timeout_ms`.
    """
    run = _SurveyRun(timeout_ms)
    for endpoint in bootstrap:
        run.ask(endpoint, NO_NODE)
    deadline = time.monotonic() + 2 * timeout_ms / 1_000 + _GRACE_S
    while view := run.wait(deadline):
        run.ask_named(view)
        if until_conclusive and Survey(_rows(run.views, run.asked, bootstrap)).is_conclusive(bootstrap):
            break
    views = run.end()
    found = Survey(_rows(views, run.asked, bootstrap))
    kept = {id(view.connection) for view in found.views}
    for view in views:
        if view.connection and id(view.connection) not in kept:
            view.connection.close()
    return found


def ask_leader(
    bootstrap: Sequence[Endpoint],
    ask: Callable[[Connection], Result],
    timeout_ms: int,
    *,
    changes: bool = False,
) -> Result:
    """Send a request to the leader until it responds.

    Args:
        bootstrap: Nodes to find the leader from.
        ask: Sends the request, and returns what the caller wants of the response. It raises
            `UnhealthyError` when the node cannot answer now, for example because it leads no more. Then, and
            after a lost connection, it is called again; every other error ends the search.
        timeout_ms: How long to look for a leader that answers.
        changes: Whether the request changes anything, so that one that was not sent is told as such.

    Raises:
        NotConnectedError: No node could be reached at all, or the leader was lost again and again.
        RefusedError: Those that could be reached refuse to tell who leads.
        UnhealthyError: Nodes answer, but no leader does, or none of them can tell in time who leads.
    """
    deadline = time.monotonic() + timeout_ms / 1_000
    with patience("the leader", timeout_ms):
        while True:
            try:
                with survey(bootstrap, until_conclusive=True) as found:
                    return ask(leader_of(found, UNSENT if changes else ""))
            except (LostError, UnhealthyError):
                if time.monotonic() + RETRY_PAUSE_MS / 1_000 >= deadline:
                    raise
            time.sleep(RETRY_PAUSE_MS / 1_000)


def leader_of(found: Survey, so: str = "") -> Connection:
    """The connection to the node that leads; `so` is what follows if none does, as for `no_leader_text`.

    Raises:
        NotConnectedError: No node could be reached at all.
        RefusedError: Those that could be reached refuse to tell who leads.
        UnhealthyError: Nodes answer, but none of them leads, or none can tell now who does.
    """
    if found.leader and found.leader.connection:
        return found.leader.connection
    if not found.reachable:
        raise silence(found)
    raise UnhealthyError(no_leader_text(found, so))


def no_leader_text(found: Survey, so: str = "") -> str:
    """One line about a survey that found no leader; `so` is what follows from it, with its semicolon."""
    return f"no leader: {found.no_leader_reason()}; {so}kraftctl status shows every node's view"


def silence(found: Survey) -> CommandError:
    """How a command ends when no node told its view, with the addresses: refused, if one refused, and not
    healthy, if one could not tell now.
    """
    refusals = [view for view in found.views if view.is_refusal]
    busy = [view for view in found.views if view.is_busy]
    asked: dict[str, list[str]] = {}
    for view in refusals or busy or found.views:
        asked.setdefault(view.error, []).append(str(view.endpoint))
    reasons = "; ".join(f"{', '.join(nodes)}: {error}" for error, nodes in asked.items())
    if refusals:
        return RefusedError(reasons)
    if busy:
        return UnhealthyError(reasons)
    return NotConnectedError(
        f"no node answers: {reasons}; check that they run, and the ports that were named"
    )


def _ask_node(endpoint: Endpoint, node_id: NodeId, timeout_ms: int) -> OwnView:
    try:
        connection = Connection(endpoint, timeout_ms)
    except CommandError as error:
        return _failed(endpoint, node_id, error)
    try:
        response = connection.call(DescribeNodeRequest(), DescribeNodeResponse, timeout_ms)
        is_reading = response.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        raise_for(response.error_code, _STILL_READING if is_reading else None, str(endpoint))
    except CommandError as error:
        connection.close()
        return _failed(endpoint, connection.peer.node_id, error)
    return OwnView(endpoint, connection.peer.node_id, response=response, connection=connection)


def _failed(endpoint: Endpoint, node_id: NodeId, error: CommandError) -> OwnView:
    text = str(error).removeprefix(f"{endpoint}: ")
    is_refusal, is_busy = isinstance(error, RefusedError), isinstance(error, UnhealthyError)
    is_silent = isinstance(error, LostError)
    return OwnView(endpoint, node_id, error=text, is_refusal=is_refusal, is_busy=is_busy, is_silent=is_silent)


def _rows(
    views: Sequence[OwnView], ids: Mapping[Endpoint, NodeId], bootstrap: Sequence[Endpoint]
) -> tuple[OwnView, ...]:
    """A row for each process: one that was asked under several names has one, and so has one of another
    cluster, as a failure. A response beats a failure, and the name that the user gave beats the one that
    other nodes know.
    """
    cluster = _cluster_of(views, bootstrap)
    rows: list[OwnView] = []
    for view in sorted(views, key=lambda view: (view.response is None, view.endpoint not in bootstrap)):
        node_id = view.node_id if view.node_id != NO_NODE else ids.get(view.endpoint, NO_NODE)
        known = msgspec.structs.replace(view, node_id=node_id)
        if not any(_is_known(known, row, cluster) for row in rows):
            rows.append(known)
    rows.sort(key=lambda row: (row.node_id == NO_NODE, row.node_id, str(row.endpoint)))
    return tuple(row if _is_of(row, cluster) else _as_foreign(row, cluster) for row in rows)


def _is_known(view: OwnView, row: OwnView, cluster: str) -> bool:
    """Whether a row tells of this process already. One that does not answer is the node that it should be."""
    if view.node_id == NO_NODE or view.node_id != row.node_id:
        return False
    if view.response is None:
        return _is_of(row, cluster)
    return row.response is not None and _process(view.response) == _process(row.response)


def _process(response: DescribeNodeResponse) -> tuple[object, ...]:
    """What only one process says of itself. A directory may have been copied: its start tells them apart."""
    return response.cluster_id, response.directory_id, response.started_at_ms


def _cluster_of(views: Sequence[OwnView], bootstrap: Collection[Endpoint]) -> str:
    """The cluster that most of the nodes belong to that the user named, and then most of all nodes."""
    named: Counter[str] = Counter()
    told: Counter[str] = Counter()
    for view in views:
        if view.response:
            told[view.response.cluster_id] += 1
            named[view.response.cluster_id] += view.endpoint in bootstrap
    return max(told, key=lambda cluster: (named[cluster], told[cluster], cluster), default="")


def _is_of(view: OwnView, cluster: str) -> bool:
    return view.response is None or view.response.cluster_id == cluster


def _as_foreign(view: OwnView, cluster: str) -> OwnView:
    """A node of another cluster as a row that counts for nothing."""
    theirs = view.response.cluster_id if view.response else ""
    error = f"a node {view.node_id} of another cluster answers: {theirs}, not {cluster}"
    return OwnView(view.endpoint, view.node_id, error=error)
