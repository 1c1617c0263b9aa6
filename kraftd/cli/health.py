"""`kraftctl health`: can this quorum be relied on? A verdict for scripts and containers, with its reasons.

The nodes named must be whole, without alarms, and follow one leader; that leader must answer a linearizable
read, which a majority has to confirm; and nodes that have applied the same records must hold the same image.
An open port proves nothing.

Fenced brokers and partitions without leader are named, and change neither the verdict nor the exit code: to
restart a controller, which is what a container does with one that is not healthy, mends neither.

Schema: healthy (bool), leader_id (-1 none), leader_epoch, read_ms (-1 if it failed), problems (texts),
    active_brokers and the like as in `kraftctl status`, nodes (list of node_id, endpoint, healthy, problems).
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import typer

from kraftd.cli.active_controller import NOT_KRAFTD, kafka_text
from kraftd.cli.client import Connection, raise_for
from kraftd.cli.cluster import TROUBLES, cluster_data, cluster_labels
from kraftd.cli.failures import CommandError, ExitCode, NotConnectedError
from kraftd.cli.options import BootstrapOption, OutputOption, TimeoutOption, bootstrap_of, output_of
from kraftd.cli.output import columns, emit, id_text, labels
from kraftd.cli.survey import REQUEST_TIMEOUT_MS, OwnView, Survey, ask_leader, survey
from kraftd.cli.troubles import in_short, troubles
from kraftd.metadata.config_schema import ResourceType
from kraftd.protocol.messages import ListConfigsRequest, ListConfigsResponse
from kraftd.types import NO_NODE, Endpoint, NodeId, Offset

app = typer.Typer()

Json: TypeAlias = dict[str, Any]


@app.command("health")
def health(
    context: typer.Context,
    timeout_ms: TimeoutOption = 3_000,
    output: OutputOption = None,
    bootstrap: BootstrapOption = None,
) -> None:
    """Check that the nodes named serve in a quorum that answers; exit 0, or 5, also if nobody answers.

    With one node named it is that node's health (as a container asks), with all of them the cluster's.
    """
    named = bootstrap_of(context, bootstrap)
    with survey(named, min(timeout_ms, REQUEST_TIMEOUT_MS)) as found:
        report = health_data(found, named, timeout_ms)
    emit(report, output_of(context, output), health_table)
    if not report["healthy"]:
        raise typer.Exit(ExitCode.UNHEALTHY)


def health_data(found: Survey, named: Sequence[Endpoint], timeout_ms: int) -> Json:
    """The schema of `health`."""
    ids = {view.node_id for view in found.views if view.endpoint in named and view.node_id != NO_NODE}
    asked = [view for view in found.views if view.endpoint in named or view.node_id in ids]
    nodes: list[Json] = []
    for view in asked:
        problems = _node_problems(view, found)
        nodes.append(
            {
                "node_id": view.node_id,
                "endpoint": str(view.endpoint),
                "healthy": not problems,
                "problems": problems,
            }
        )
    read_ms, problem = _timed_read(named, timeout_ms)
    problems = [problem] if problem else []
    problems += _image_problems(found)
    for node in nodes:
        name = id_text(node["node_id"], node["endpoint"])
        problems += [f"node {name}: {text}" for text in node["problems"]]
    leader = found.leader
    return {
        "healthy": not problems,
        "leader_id": leader.node_id if leader else NO_NODE,
        "leader_epoch": found.epoch,
        "read_ms": read_ms,
        "problems": problems,
        **cluster_data(found),
        "nodes": nodes,
    }


def _node_problems(view: OwnView, found: Survey) -> list[str]:
    response = view.response
    if response is None:
        return [view.error]
    problems = found.oddities(view) + troubles(response)
    leader: NodeId = found.leader.node_id if found.leader else NO_NODE
    if response.leader_id == NO_NODE and not response.why_not_following:
        problems.append("knows no leader")
    elif NO_NODE not in (leader, response.leader_id) and leader != response.leader_id:
        problems.append(f"follows node {response.leader_id}, but node {leader} leads")
    return problems


def _image_problems(found: Survey) -> list[str]:
    """Nodes that have applied the same records must hold the same image."""
    images: dict[Offset, dict[str, NodeId]] = {}
    for view in found.reachable:
        if view.response:
            images.setdefault(view.response.applied_offset, {}).setdefault(
                view.response.image_hash, view.node_id
            )
    return [
        f"nodes {' and '.join(map(str, sorted(holders.values())))} hold different images at offset {offset}"
        for offset, holders in images.items()
        if len(holders) > 1
    ]


def _timed_read(named: Sequence[Endpoint], timeout_ms: int) -> tuple[float, str]:
    """How long the quorum takes for a read that a majority must confirm; or why it cannot."""

    def read(leader: Connection) -> float:
        began = time.monotonic()
        # Any read will do, and of this kind of resource nothing is ever set: the response is short.
        request = ListConfigsRequest(resource_type=ResourceType.BROKER_LOGGER)
        response = leader.call(request, ListConfigsResponse, timeout_ms)
        raise_for(response.error_code, response.error_message, f"node {leader.peer.node_id} refuses a read")
        return round((time.monotonic() - began) * 1_000, 3)

    try:
        return ask_leader(named, read, timeout_ms), ""
    except NotConnectedError as error:
        return -1, kafka_text(named, *NOT_KRAFTD) or str(error)
    except CommandError as error:
        return -1, str(error)


def _verdict(data: Mapping[str, Any]) -> str:
    """What is wrong with the quorum; else which nodes something is wrong with, and what."""
    ill = [id_text(node["node_id"], node["endpoint"]) for node in data["nodes"] if not node["healthy"]]
    of_nodes = sum(len(node["problems"]) for node in data["nodes"])
    of_quorum = data["problems"][: len(data["problems"]) - of_nodes]
    if of_quorum:
        return in_short(of_quorum)
    why = in_short(text for node in data["nodes"] for text in node["problems"])
    return f"node{'s' * (len(ill) > 1)} {' and '.join(ill)}: {why}"


def health_table(data: Mapping[str, Any]) -> str:
    """One verdict, one line a node, one line a problem."""
    rows = [
        (
            id_text(node["node_id"], "?"),
            node["endpoint"],
            "yes" if node["healthy"] else "NO",
            in_short(node["problems"]),
        )
        for node in data["nodes"]
    ]
    if data["healthy"]:
        leader = f"node {data['leader_id']} leads epoch {data['leader_epoch']}"
        verdict = f"healthy: {leader}, read in {data['read_ms']} ms"
    else:
        verdict = f"NOT healthy: {_verdict(data)}"
    nodes = columns(("Node", "Endpoint", "Healthy", "Problems"), rows)
    cluster = labels(pair for pair in cluster_labels(data) if pair[0] in TROUBLES)
    return "\n\n".join(part for part in (verdict, nodes, cluster) if part)
