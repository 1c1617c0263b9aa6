"""`kraftctl status` and `replication`: who leads, how far each node has come, and what each of them thinks.

`status` asks every node for its own view and needs no leader; `replication` and the upper part of `status`
are the leader's view (DescribeQuorum).

Schema of `status`: cluster_id (text or null), leader_id, leader_epoch, high_watermark, max_follower_lag,
    max_follower_lag_time_ms (numbers, -1 unknown), current_voters and current_observers (lists of id,
    directory_id or null, endpoints), no_leader_reason (text or null), nodes (list).
    A node: node_id (-1 unknown), endpoint, reachable, refuses (it answered, and would not tell), busy (it
    answered, and cannot tell now), silent (it took the connection, and gave no answer: it hangs, or is
    of Kafka), error (text or null), and, null where it did not tell: role, voter,
    epoch, leader_id, voted_id, log_start_offset, log_end_offset, log_end_epoch, flushed_offset,
    high_watermark, applied_offset, lag, whole, alarms, troubles (what the table notes), no_leader_reason,
    last_contact_ms, election_attempts, snapshot_offset, snapshot_bytes, snapshot_age_ms (of its newest
    snapshot; -1 without one), snapshot_loaded_percent (of the one that it restores; 100 if it restores none),
    why_no_snapshot (it has none, or none is written; text or null), why_forgeable (how its authorizer can be
    got around; text or null), image_hash, metadata_version, directory_id, software, uptime_ms.
    Of brokers and topics, in the newest image that answered (null if none did): active_brokers,
    fenced_brokers, stopping_brokers, topics, partitions, offline_partitions (numbers), fenced_broker_ids and
    offline_partition_names (the first 16).
Schema of `replication`: a list of node_id, directory_id, log_end_offset, lag, last_fetch_timestamp,
    last_caught_up_timestamp (ms since 1970, -1 unknown), status (Leader, Follower, Observer).

Follows: labels, columns and order of Kafka's `kafka-metadata-quorum describe`.
Differs: every node has a row in `status`, and without a leader there is a reason; lag then is the distance to
the longest log that answered.
"""

import sys
import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeAlias

import typer

from kraftd.cli.active_controller import ask_kraftd, nobody
from kraftd.cli.client import Connection, raise_for
from kraftd.cli.cluster import cluster_data, cluster_labels
from kraftd.cli.failures import CommandError
from kraftd.cli.options import BootstrapOption, OutputOption, TimeoutOption, bootstrap_of, output_of
from kraftd.cli.output import columns, emit, id_text, labels, terminal_columns
from kraftd.cli.survey import REQUEST_TIMEOUT_MS, OwnView, Survey, survey
from kraftd.cli.times import age_text
from kraftd.cli.troubles import in_short, troubles
from kraftd.protocol.messages import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseReplicaState,
)
from kraftd.types import METADATA_TOPIC, NO_NODE, ZERO_UUID, uuid_text

app = typer.Typer()

Json: TypeAlias = dict[str, Any]

REPLICATION_COLUMNS = (
    "NodeId",
    "DirectoryId",
    "LogEndOffset",
    "Lag",
    "LastFetchTimestamp",
    "LastCaughtUpTimestamp",
    "Status",
)


@app.command("status")
def status(context: typer.Context, output: OutputOption = None, bootstrap: BootstrapOption = None) -> None:
    """Show the quorum and every node's own view of it; works without a leader."""
    nodes = bootstrap_of(context, bootstrap)
    with survey(nodes) as found:
        data = status_data(found)
    emit(data, output_of(context, output), status_table)
    if not found.reachable:
        raise nobody(found, nodes)


@app.command("replication")
def replication(
    context: typer.Context,
    human_readable: Annotated[
        bool, typer.Option("--human-readable", help="Show times as milliseconds ago.")
    ] = False,
    timeout_ms: TimeoutOption = 5_000,
    output: OutputOption = None,
    bootstrap: BootstrapOption = None,
) -> None:
    """Show how far each voter and observer has come, as the leader sees it."""
    quorum = ask_kraftd(bootstrap_of(context, bootstrap), describe_quorum, timeout_ms, "the quorum")
    now_ms = time.time_ns() // 1_000_000

    def table(rows: Sequence[Mapping[str, Any]]) -> str:
        return replication_table(rows, now_ms if human_readable else None)

    emit(replication_data(partition_of(quorum)), output_of(context, output), table)


def describe_quorum(leader: Connection) -> DescribeQuorumResponse:
    """The leader's view.

    Raises:
        UnhealthyError: It leads no more.
        RefusedError: It does not want to tell.
    """
    partitions = (DescribeQuorumRequestPartitionData(partition_index=0),)
    topics = (DescribeQuorumRequestTopicData(topic_name=METADATA_TOPIC, partitions=partitions),)
    response = leader.call(DescribeQuorumRequest(topics=topics), DescribeQuorumResponse, REQUEST_TIMEOUT_MS)
    partition = partition_of(response)
    raise_for(response.error_code, response.error_message, str(leader.endpoint))
    raise_for(partition.error_code, partition.error_message, str(leader.endpoint))
    return response


def partition_of(response: DescribeQuorumResponse) -> DescribeQuorumResponsePartitionData:
    """The one partition of the metadata topic; an empty one if the response holds none."""
    found = [partition for topic in response.topics for partition in topic.partitions]
    return found[0] if found else DescribeQuorumResponsePartitionData(error_code=response.error_code)


# --- status ----------------------------------------------------------------------------------------------


def status_data(found: Survey) -> Json:
    """The schema of `status`."""
    quorum = _describe_if_led(found)
    partition = partition_of(quorum) if quorum else None
    longest = max((view.response.log_end_offset for view in found.reachable if view.response), default=-1)
    leader_end = found.leader.response.log_end_offset if found.leader and found.leader.response else longest
    return {
        "cluster_id": next((view.response.cluster_id for view in found.reachable if view.response), None),
        "leader_id": partition.leader_id if partition else NO_NODE,
        "leader_epoch": partition.leader_epoch if partition else found.epoch,
        "high_watermark": partition.high_watermark if partition else _highest_watermark(found),
        "max_follower_lag": _max_follower_lag(partition),
        "max_follower_lag_time_ms": _max_follower_lag_time_ms(partition),
        "current_voters": _members(quorum, partition.current_voters if partition else ()),
        "current_observers": _members(quorum, partition.observers if partition else ()),
        "no_leader_reason": None if partition else found.no_leader_reason(),
        **cluster_data(found),
        "nodes": [_node_data(view, leader_end, found.oddities(view)) for view in found.views],
    }


def _describe_if_led(found: Survey) -> DescribeQuorumResponse | None:
    if found.leader is None or found.leader.connection is None:
        return None
    try:
        return describe_quorum(found.leader.connection)
    except CommandError:
        return None  # it stopped leading between two questions: the nodes' own views stand


def _leaders(
    partition: DescribeQuorumResponsePartitionData | None,
) -> list[DescribeQuorumResponseReplicaState]:
    voters = partition.current_voters if partition else ()
    return [voter for voter in voters if partition and voter.replica_id == partition.leader_id]


def _highest_watermark(found: Survey) -> int:
    return max((view.response.high_watermark for view in found.reachable if view.response), default=-1)


def _max_follower_lag(partition: DescribeQuorumResponsePartitionData | None) -> int:
    leaders = _leaders(partition)
    if not partition or not leaders:
        return -1
    return leaders[0].log_end_offset - min(max(voter.log_end_offset, 0) for voter in partition.current_voters)


def _max_follower_lag_time_ms(partition: DescribeQuorumResponsePartitionData | None) -> int:
    leaders = _leaders(partition)
    if not partition or not leaders:
        return -1
    slowest = min(partition.current_voters, key=lambda voter: voter.log_end_offset)
    if slowest.replica_id == partition.leader_id:
        return 0
    known = leaders[0].last_caught_up_timestamp, slowest.last_caught_up_timestamp
    return known[0] - known[1] if min(known) >= 0 else -1


def _members(
    quorum: DescribeQuorumResponse | None, replicas: Sequence[DescribeQuorumResponseReplicaState]
) -> list[Json]:
    listeners = {node.node_id: node.listeners for node in (quorum.nodes if quorum else ())}
    return [
        {
            "id": replica.replica_id,
            "directory_id": _directory_text(replica.replica_directory_id),
            "endpoints": [f"{at.name}://{at.host}:{at.port}" for at in listeners.get(replica.replica_id, ())],
        }
        for replica in replicas
    ]


def _directory_text(directory_id: bytes) -> str | None:
    return None if directory_id == ZERO_UUID else uuid_text(directory_id)


def _node_data(view: OwnView, leader_end: int, oddities: list[str]) -> Json:
    response = view.response
    data: Json = {
        "node_id": view.node_id,
        "endpoint": str(view.endpoint),
        "reachable": response is not None,
        "refuses": view.is_refusal,
        "busy": view.is_busy,
        "silent": view.is_silent,
        "error": view.error or None,
    }
    own: Json = dict.fromkeys(_OWN_VIEW)
    if response is not None:
        own = {name: getattr(response, field) for name, field in _OWN_VIEW.items() if field}
        own["lag"] = max(0, leader_end - response.log_end_offset)
        own["alarms"] = list(response.alarms)
        own["troubles"] = oddities + troubles(response)
        own["directory_id"] = _directory_text(response.directory_id)
    return data | {name: own[name] for name in _OWN_VIEW}


_OWN_VIEW: Mapping[str, str] = {
    "role": "role",
    "voter": "is_voter",
    "epoch": "epoch",
    "leader_id": "leader_id",
    "voted_id": "voted_id",
    "log_start_offset": "log_start_offset",
    "log_end_offset": "log_end_offset",
    "log_end_epoch": "log_end_epoch",
    "flushed_offset": "flushed_offset",
    "high_watermark": "high_watermark",
    "applied_offset": "applied_offset",
    "lag": "",
    "whole": "whole",
    "alarms": "",
    "troubles": "",
    "no_leader_reason": "why_not_following",
    "last_contact_ms": "last_contact_ms",
    "election_attempts": "election_attempts",
    "snapshot_offset": "snapshot_offset",
    "snapshot_bytes": "snapshot_bytes",
    "snapshot_age_ms": "snapshot_age_ms",
    "snapshot_loaded_percent": "snapshot_loaded_percent",
    "why_no_snapshot": "why_no_snapshot",
    "why_forgeable": "why_forgeable",
    "image_hash": "image_hash",
    "metadata_version": "metadata_version",
    "directory_id": "",
    "software": "software",
    "uptime_ms": "uptime_ms",
}
"""A node's own view: key of the schema, and the field of DescribeNode that it is (empty: computed)."""


def status_table(data: Mapping[str, Any]) -> str:
    """Kafka's labels if there is a leader, the reason if there is none, and one row a node in both cases;
    below, what is no trouble of one node and mostly true of all.
    """
    headers = ("Node", "Endpoint", "Role", "Epoch", "Leader", "Vote", "LEO", "HW", "Lag", "Note")
    rows = [_status_row(node) for node in data["nodes"]]
    shown = len(headers) if any(row[-1] for row in rows) else len(headers) - 1
    table = columns(headers[:shown], [row[:shown] for row in rows])
    told = [*_snapshot_lines(data["nodes"]), *_shared_lines(data["nodes"])]
    nodes = "\n".join([table, *([""] if told else []), *told])
    if data["leader_id"] == NO_NODE:
        head = labels(
            [
                ("ClusterId", data["cluster_id"] or "unknown"),
                ("LeaderId", "none"),
                ("LeaderEpoch", data["leader_epoch"]),
                ("Reason", data["no_leader_reason"]),
                *cluster_labels(data),
            ]
        )
        return f"{head}\n\n{nodes}"
    head = labels(
        [
            ("ClusterId", data["cluster_id"]),
            ("LeaderId", data["leader_id"]),
            ("LeaderEpoch", data["leader_epoch"]),
            ("HighWatermark", data["high_watermark"]),
            ("MaxFollowerLag", data["max_follower_lag"]),
            ("MaxFollowerLagTimeMs", data["max_follower_lag_time_ms"]),
            ("CurrentVoters", _replicas_text(data["current_voters"])),
            ("CurrentObservers", _replicas_text(data["current_observers"])),
            *cluster_labels(data),
        ]
    )
    return f"{head}\n\n{nodes}"


def _replicas_text(replicas: Sequence[Mapping[str, Any]]) -> str:
    """The ids, as Kafka before 3.9 lists them; directories and endpoints are in the other formats."""
    return "[" + ",".join(str(replica["id"]) for replica in replicas) + "]"


def _status_row(node: Mapping[str, Any]) -> tuple[object, ...]:
    name = id_text(node["node_id"], "?")
    if not node["reachable"]:
        what = next((word for word in ("refuses", "busy", "silent") if node[word]), "unreachable")
        return (name, node["endpoint"], what, "-", "-", "-", "-", "-", "-", node["error"])
    role = node["role"] if node["voter"] or node["role"] == "observer" else f"{node['role']} (observer)"
    return (
        name,
        node["endpoint"],
        role,
        node["epoch"],
        id_text(node["leader_id"]),
        id_text(node["voted_id"]),
        node["log_end_offset"],
        id_text(node["high_watermark"], "?"),
        node["lag"],
        in_short(node["troubles"]),
    )


def _snapshot_lines(nodes: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for the newest snapshot, and for each older one that is the newest of some node."""
    holders: dict[int, list[Mapping[str, Any]]] = {}
    for node in nodes:
        if node["snapshot_offset"] is not None and node["snapshot_offset"] >= 0:
            holders.setdefault(node["snapshot_offset"], []).append(node)
    lines = []
    for offset, alike in sorted(holders.items(), reverse=True):
        ids = ",".join(str(node["node_id"]) for node in alike)
        age = age_text(min(node["snapshot_age_ms"] for node in alike))
        lines.append(f"Snapshot on {ids} (at offset {offset}: {alike[0]['snapshot_bytes']} bytes, {age} old)")
    return lines


def _shared_lines(nodes: Sequence[Mapping[str, Any]]) -> list[str]:
    """What is to be known of nodes beside their troubles, each once, in the words of the first that says it.

    How many bytes are left to a snapshot differs from one answer to the next: reasons that begin alike, up to
    their colon, are one.
    """
    told: dict[tuple[str, str], tuple[str, list[str]]] = {}
    for node in nodes:
        why = node["why_no_snapshot"]
        if why and not any(why in trouble for trouble in node["troubles"]):
            key = "No snapshot on", why.partition(":")[0]
            told.setdefault(key, (why, []))[1].append(str(node["node_id"]))
        if forgeable := node["why_forgeable"]:
            told.setdefault(("Beware of", forgeable), (forgeable, []))[1].append(str(node["node_id"]))
    return [f"{begin} {','.join(ids)} ({why})" for (begin, _), (why, ids) in told.items()]


# --- replication -----------------------------------------------------------------------------------------


def replication_data(partition: DescribeQuorumResponsePartitionData) -> list[Json]:
    """The schema of `replication`: leader, followers, observers."""
    leader_end = next((replica.log_end_offset for replica in _leaders(partition)), -1)

    def row(replica: DescribeQuorumResponseReplicaState, status: str) -> Json:
        return {
            "node_id": replica.replica_id,
            "directory_id": uuid_text(replica.replica_directory_id),
            "log_end_offset": replica.log_end_offset,
            "lag": leader_end - replica.log_end_offset,
            "last_fetch_timestamp": replica.last_fetch_timestamp,
            "last_caught_up_timestamp": replica.last_caught_up_timestamp,
            "status": status,
        }

    return [
        *(row(voter, "Leader") for voter in _leaders(partition)),
        *(
            row(voter, "Follower")
            for voter in partition.current_voters
            if voter.replica_id != partition.leader_id
        ),
        *(row(observer, "Observer") for observer in partition.observers),
    ]


def replication_table(rows: Sequence[Mapping[str, Any]], now_ms: int | None) -> str:
    """Kafka's table: cells padded to the column, each followed by a tab. With `now_ms`, times are ages.

    A terminal that is too narrow for it has the directories at the ends, below their rows if need be.
    """

    def when(timestamp_ms: int) -> str:
        if timestamp_ms < 0 or now_ms is None:
            return str(timestamp_ms)
        return f"{max(0, now_ms - timestamp_ms)} ms ago"

    cells = [
        REPLICATION_COLUMNS,
        *(
            (
                str(row["node_id"]),
                row["directory_id"],
                str(row["log_end_offset"]),
                str(row["lag"]),
                when(row["last_fetch_timestamp"]),
                when(row["last_caught_up_timestamp"]),
                row["status"],
            )
            for row in rows
        ),
    ]
    widths = [max(len(line[at]) for line in cells) for at in range(len(REPLICATION_COLUMNS))]
    lines = [
        "".join(f"{cell:<{width}}\t" for cell, width in zip(line, widths, strict=True)) for line in cells
    ]
    if 0 < terminal_columns(sys.stdout) < max(len(line.expandtabs()) for line in lines):
        headers, *rest = [(node, *others, directory) for node, directory, *others in cells]
        return columns(headers, rest)
    return "\n".join(lines)
