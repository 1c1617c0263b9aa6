"""`kraftctl resign [--to N] [--wait]`: hand leadership over on purpose, and say what came of it.

Finds the leader by itself. The leader refuses new appends, lets the successor catch up and asks it to
campaign; this command then watches the voters until a majority of them follow another one.

Schema: old_leader_id, new_leader_id (-1: none yet), successor_id (who was asked to take over, -1: whoever
is best), old_epoch, epoch (of the new leader, -1: none yet), leaderless_ms (between the old leader's response
and the first sight of the new one, as this command saw it; -1: unknown).
"""

import queue
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from kraftd.cli.active_controller import nobody
from kraftd.cli.client import Connection, LostError, raise_for
from kraftd.cli.failures import CommandError, RefusedError, UnhealthyError
from kraftd.cli.options import (
    NODE_ID_MAX,
    BootstrapOption,
    OutputOption,
    TimeoutOption,
    bootstrap_of,
    output_of,
)
from kraftd.cli.outcomes import unknown_outcome
from kraftd.cli.output import emit, labels, note
from kraftd.cli.survey import UNSENT, Survey, leader_of, survey
from kraftd.cli.troubles import in_short, troubles
from kraftd.cli.waiting import patience
from kraftd.errors import ErrorCode
from kraftd.protocol.messages import (
    DescribeNodeRequest,
    DescribeNodeResponse,
    ResignLeaderRequest,
    ResignLeaderResponse,
)
from kraftd.types import NO_NODE, Endpoint, Epoch, NodeId, majority_of

app = typer.Typer()

GLANCE_MS = 1_000
"""How long the outcome is waited for without `--wait`; a hand-over takes some tens of milliseconds."""

POLL_PAUSE_S = 0.002
REQUEST_TIMEOUT_MS = 1_000


@app.command("resign")
def resign(
    context: typer.Context,
    to: Annotated[
        int | None,
        typer.Option(
            "--to",
            min=0,
            max=NODE_ID_MAX,
            metavar="N",
            help="The voter that should lead. (default: the best)",
            show_default=False,
        ),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until the new leader stands; exit 5 if none does.")
    ] = False,
    timeout_ms: TimeoutOption = 30_000,
    output: OutputOption = None,
    bootstrap: BootstrapOption = None,
) -> None:
    """Make the leader hand over, to voter N or to the best one.

    Without --wait it is watched for a second, and who leads then is told if it is known.
    """
    target = NO_NODE if to is None else to
    watch_ms = timeout_ms if wait else min(timeout_ms, GLANCE_MS)
    endpoints = bootstrap_of(context, bootstrap)
    outcome = hand_over(endpoints, target, timeout_ms, watch_ms)
    done = "" if target == outcome["old_leader_id"] else f"node {outcome['old_leader_id']} leads no longer"
    emit(outcome, output_of(context, output), resign_table, done=done)
    if outcome["new_leader_id"] != NO_NODE:
        return
    if wait:
        raise UnhealthyError(f"no new leader within {timeout_ms} ms; kraftctl status shows why")
    note("the new leader does not stand yet; kraftctl status shows who leads, --wait waits for it")


def hand_over(bootstrap: Sequence[Endpoint], to: NodeId, timeout_ms: int, watch_ms: int) -> dict[str, Any]:
    """The schema of this command; see the module.

    Raises:
        UnknownOutcomeError: The leader was lost before it answered.
        CommandError: It was not asked, or leads on.
    """
    with survey(bootstrap) as found:
        if not found.reachable:
            raise nobody(found, bootstrap)
        leader = leader_of(found, UNSENT)
        old, old_epoch = leader.peer.node_id, found.epoch
        if to == old:
            return _outcome(old, old, to, old_epoch, old_epoch, 0)
        _check_connected(found, old, to)
        _check_whole(found, old, to)
        with patience("the leader to hand over", timeout_ms):
            response = _resign(leader, old, ResignLeaderRequest(to=to, timeout_ms=timeout_ms))
            resigned_at = time.monotonic()
            winner = _watch(found, max(old_epoch, response.epoch), watch_ms)
    if winner is None:
        return _outcome(old, NO_NODE, response.successor, old_epoch, -1, -1)
    node_id, epoch, seen_at = winner
    leaderless_ms = max(0, round((seen_at - resigned_at) * 1_000))
    return _outcome(old, node_id, response.successor, old_epoch, epoch, leaderless_ms)


def _resign(leader: Connection, old: NodeId, request: ResignLeaderRequest) -> ResignLeaderResponse:
    """Ask the leader to hand over.

    Raises:
        UnknownOutcomeError: It was lost before it answered.
        CommandError: It leads on, or had been deposed.
    """
    try:
        response = leader.call(request, ResignLeaderResponse, request.timeout_ms + REQUEST_TIMEOUT_MS)
    except LostError as error:
        raise unknown_outcome(f"node {old} leads on", str(error), "status") from error
    deposed = response.error_code == ErrorCode.NOT_CONTROLLER
    raise_for(response.error_code, response.error_message, f"node {old}{'' if deposed else ' leads on'}")
    return response


def _check_connected(found: Survey, old: NodeId, to: NodeId) -> None:
    """Refuse a voter that the leader has no connection to: the quorum would wait for it in vain. Who is no
    voter, as a broker, is told so by the leader.

    Raises:
        RefusedError: The leader is not connected to it.
    """
    if to not in found.voters:
        return
    view = found.leader
    for peer in view.response.peers if view and view.response else ():
        if peer.node_id == to and not peer.connected:
            why = f" ({peer.note})" if peer.note else ""
            raise RefusedError(f"node {old} leads on: it is not connected to node {to}{why}")


def _check_whole(found: Survey, old: NodeId, to: NodeId) -> None:
    """Refuse a successor that says itself that it does not count; another process under its id may.

    Raises:
        RefusedError: It is not whole.
    """
    said = [view.response for view in found.reachable if view.response and view.node_id == to]
    if said and not any(response.whole for response in said):
        raise RefusedError(f"node {old} leads on: node {to} does not count: {in_short(troubles(said[0]))}")


def resign_table(data: Mapping[str, Any]) -> str:
    """One label a line, in the manner of `status`."""
    if data["old_leader_id"] == data["new_leader_id"]:
        return f"node {data['old_leader_id']} leads already, epoch {data['epoch']}"
    return labels(
        [
            ("OldLeader", data["old_leader_id"]),
            ("NewLeader", data["new_leader_id"] if data["new_leader_id"] != NO_NODE else "none yet"),
            ("OldEpoch", data["old_epoch"]),
            ("LeaderEpoch", data["epoch"] if data["epoch"] >= 0 else "unknown"),
            ("LeaderlessMs", data["leaderless_ms"] if data["leaderless_ms"] >= 0 else "unknown"),
        ]
    )


def _outcome(
    old: NodeId, new: NodeId, successor: NodeId, old_epoch: Epoch, epoch: Epoch, ms: int
) -> dict[str, Any]:
    return {
        "old_leader_id": old,
        "new_leader_id": new,
        "successor_id": successor,
        "old_epoch": old_epoch,
        "epoch": epoch,
        "leaderless_ms": ms,
    }


def _watch(found: Survey, old_epoch: Epoch, watch_ms: int) -> tuple[NodeId, Epoch, float] | None:
    """The node that a majority of the voters follow in a later epoch, and when it was first seen to lead.

    None if there is none.
    """
    responses: queue.SimpleQueue[DescribeNodeResponse] = queue.SimpleQueue()
    done = threading.Event()

    def follow(connection: Connection) -> None:
        try:
            while not done.is_set():
                responses.put(
                    connection.call(DescribeNodeRequest(), DescribeNodeResponse, REQUEST_TIMEOUT_MS)
                )
                time.sleep(POLL_PAUSE_S)
        except CommandError:
            return  # the others are watched, too

    for view in found.reachable:
        if view.connection:
            threading.Thread(target=follow, args=(view.connection,), daemon=True).start()
    watch = _NewLeaderWatch(found.voters, old_epoch)
    deadline = time.monotonic() + watch_ms / 1_000
    try:
        while (left_s := deadline - time.monotonic()) > 0:
            winner = watch.record(responses.get(timeout=left_s), time.monotonic())
            if winner is not None:
                return winner
    except queue.Empty:
        pass
    finally:
        done.set()
    return None


class _NewLeaderWatch:
    """Who leads after the hand-over, by what the voters say."""

    def __init__(self, voters: frozenset[NodeId], old_epoch: Epoch) -> None:
        self._voters = voters
        self._old_epoch = old_epoch
        self._followed: dict[NodeId, tuple[NodeId, Epoch]] = {}
        self._seen_at: dict[tuple[NodeId, Epoch], float] = {}

    def record(self, response: DescribeNodeResponse, now: float) -> tuple[NodeId, Epoch, float] | None:
        """Record what one node says. Returns the new leader once a majority follows it."""
        if response.node_id not in self._voters or response.epoch <= self._old_epoch:
            return None
        said = self._followed[response.node_id] = (response.leader_id, response.epoch)
        if response.role == "leader":
            self._seen_at.setdefault((response.node_id, response.epoch), now)
        followers = sum(followed == said for followed in self._followed.values())
        if said not in self._seen_at or followers < majority_of(len(self._voters)):
            return None
        return *said, self._seen_at[said]
