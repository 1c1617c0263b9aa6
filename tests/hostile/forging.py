"""Requests of a node of the quorum, as somebody writes them who is none."""

import os
from typing import Any

from tests.hostile.wire import METADATA_TOPIC, METADATA_TOPIC_ID, request

FAR = 1 << 60


def vote(
    replica_id: int,
    epoch: int,
    *,
    version: int = 2,
    pre_vote: bool = False,
    offset: int = FAR,
    last_epoch: int | None = None,
) -> bytes:
    """Asks for a vote, with a log that is longer than anybody's."""
    partition = {
        "ReplicaEpoch": epoch,
        "ReplicaId": replica_id,
        "ReplicaDirectoryId": os.urandom(16),
        "LastOffsetEpoch": max(0, epoch - 1) if last_epoch is None else last_epoch,
        "LastOffset": offset,
        "PreVote": pre_vote,
    }
    return request("Vote", {"Topics": topics(partition)}, version)


def begin_epoch(leader_id: int, epoch: int, port: int = 0, *, version: int = 1) -> bytes:
    """Says that somebody leads, and where it listens."""
    endpoint = {"Name": "CONTROLLER", "Host": "127.0.0.1", "Port": port}
    values = {
        "Topics": topics({"LeaderId": leader_id, "LeaderEpoch": epoch}),
        "LeaderEndpoints": [endpoint] * bool(port),
    }
    return request("BeginQuorumEpoch", values, version)


def end_epoch(leader_id: int, epoch: int, successors: list[int], *, version: int = 1) -> bytes:
    """Says that the leader has resigned."""
    partition = {
        "LeaderId": leader_id,
        "LeaderEpoch": epoch,
        "PreferredSuccessors": successors,
        "PreferredCandidates": [
            {"CandidateId": each, "CandidateDirectoryId": bytes(16)} for each in successors
        ],
    }
    return request("EndQuorumEpoch", {"Topics": topics(partition)}, version)


def fetch(
    replica_id: int,
    offset: int,
    epoch: int,
    *,
    last_epoch: int | None = None,
    wait_ms: int = 0,
    version: int = 17,
    directory_id: bytes = bytes(16),
    bytes_max: int = 2_147_483_647,
    correlation_id: int = 1,
) -> bytes:
    """Says "I hold everything up to this offset", and asks for more."""
    partition = {
        "CurrentLeaderEpoch": epoch,
        "FetchOffset": offset,
        "LastFetchedEpoch": epoch if last_epoch is None else last_epoch,
        "PartitionMaxBytes": bytes_max,
    }
    if version >= 17:
        partition["ReplicaDirectoryId"] = directory_id
    values: dict[str, Any] = {
        "MaxWaitMs": wait_ms,
        "MaxBytes": bytes_max,
        "Topics": [{"TopicId": METADATA_TOPIC_ID, "Partitions": [partition]}],
    }
    if version >= 15:
        values["ReplicaState"] = {"ReplicaId": replica_id}
    else:
        values["ReplicaId"] = replica_id
    return request("Fetch", values, version, correlation_id)


def topics(partition: dict[str, Any]) -> list[dict[str, Any]]:
    """The one partition of the one topic."""
    return [{"TopicName": METADATA_TOPIC, "Partitions": [partition]}]
