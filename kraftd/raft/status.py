"""The status of a raft node and its view of the quorum, for status pages, metrics and `DescribeQuorum`.

Nothing here needs a leader except `DescribeQuorum`, which is Kafka's call and answered by the leader alone.

Follows: DQ-01 to DQ-03, MET-01. `why_not_following` tells an operator what keeps a node from
leading and following.
"""

from collections.abc import Sequence

import msgspec

from kraftd.errors import ErrorCode
from kraftd.protocol import messages as m
from kraftd.protocol.limits import OUTCOMES_BYTES_MAX
from kraftd.raft.elections import TAKEN_FOR_ANOTHER
from kraftd.raft.epoch_states import Candidate, Follower, Leader, Prospective, Resigned, Unattached
from kraftd.raft.leader_state import LeaderState, ReplicaState
from kraftd.raft.state import RaftState
from kraftd.types import (
    FORGET_PEERS,
    METADATA_TOPIC,
    NO_NODE,
    ZERO_UUID,
    Endpoint,
    Epoch,
    NodeId,
    Now,
    Offset,
    majority_of,
)

_NODES_SINCE = 2
"""The version of DescribeQuorum from which a response names nodes and directories."""

_NAMED_BACK_MAX = 1_000
"""The most topics and partitions that a refusal names one by one."""


class PeerStatus(msgspec.Struct, frozen=True):
    """What this node knows of another voter, or of an observer of its own."""

    node_id: NodeId
    endpoint: Endpoint | None
    is_voter: bool
    is_connected: bool
    fetch_offset: Offset = -1
    """Known to the leader only."""
    last_fetch_ms_ago: int = -1
    last_fetch_ms: int = -1
    """Wall clock."""
    caught_up_ms: int = -1
    """Wall clock."""
    refusal: str = ""
    """Why it gave no vote in the newest ballot; empty if it did, or was not asked."""


class QuorumStatus(msgspec.Struct, frozen=True):
    """This node's own view of the quorum."""

    role: str
    """As `current-state` of raft-metrics has it."""
    epoch: Epoch
    leader_id: NodeId
    voted_id: NodeId
    is_voter: bool
    is_whole: bool
    log_start_offset: Offset
    log_end_offset: Offset
    log_end_epoch: Epoch
    flushed_offset: Offset
    high_watermark: Offset
    applied_offset: Offset
    election_attempts: int
    last_contact_ms_ago: int
    """Since the last good fetch from the leader; 0 on the leader, -1 if there was none."""
    why_not_following: str
    """Why this node does not follow a leader well; empty if it does, or leads."""
    alarms: tuple[str, ...]
    peers: tuple[PeerStatus, ...]


def describe(raft: RaftState, now: Now) -> QuorumStatus:
    """Return this node's own view of the quorum."""
    state = raft.state
    leader_state = raft.leader_state
    contact_at_ms = raft.last_contact_at_ms
    ago_ms = 0 if leader_state else (now.mono_ms - contact_at_ms if contact_at_ms >= 0 else -1)
    voted = state.election.voted
    return QuorumStatus(
        role=role_text(raft),
        epoch=raft.epoch,
        leader_id=known_leader(raft),
        voted_id=NO_NODE if voted is None else voted.id,
        is_voter=raft.quorum.is_voter,
        is_whole=raft.rejoin.is_whole,
        log_start_offset=raft.log.start_offset,
        log_end_offset=raft.log.end_offset,
        log_end_epoch=raft.log.last_epoch,
        flushed_offset=raft.log.flushed_offset,
        high_watermark=raft.high_watermark,
        applied_offset=raft.applied_offset,
        election_attempts=raft.attempts,
        last_contact_ms_ago=ago_ms,
        why_not_following=why_not_following(raft, now),
        alarms=tuple(f"{name}: {text}" for name, text in sorted(raft.alarms.items())),
        peers=tuple(_peers(raft, now)),
    )


ROLES = ("leader", "candidate", "prospective", "voted", "follower", "unattached", "observer")
"""All that `role_text` returns."""


def role_text(raft: RaftState) -> str:
    """Return Kafka's name of the state (MET-01): resigned shows as unattached, and who voted as voted."""
    match raft.state:
        case Leader():
            return "leader"
        case Candidate():
            return "candidate"
        case Prospective():
            return "prospective"
        case Follower():
            return "follower" if raft.quorum.is_voter else "observer"
        case Unattached(voted=voted) if voted is not None and raft.quorum.is_voter:
            return "voted"
        case Unattached() | Resigned():
            return "unattached"


def known_leader(raft: RaftState) -> NodeId:
    """Return the leader: this node, or the one that it follows, even after that ended its epoch, or the one
    whose loss it asks pre-votes about. NO_NODE if none is known, or this node is unattached or has resigned.

    The responses to votes, fetches and announcements go further, and so does `LeaderChanged`, but at a start
    and for this node's own lead, which it tells once it may decide: they name the leader of the epoch as soon
    as it is known. Node 3 has lost touch with node 1, which leads epoch 4, and got no pre-votes: for an
    operator of node 3 nobody leads, but a node that asks node 3 is sent to node 1, which may well be there.
    """
    return NO_NODE if isinstance(raft.state, Resigned | Unattached) else raft.leader_id


def why_not_following(raft: RaftState, now: Now) -> str:
    """Return why this node knows no leader, or does not follow the one it knows, or is not counted; empty
    if it leads or follows well.
    """
    state = raft.state
    if not raft.rejoin.is_whole:
        return f"not counted: {raft.rejoin.text}"
    match state:
        case Leader():
            return ""
        case Follower():
            if raft.rejection and (raft.epoch, raft.leader_id) == raft.rejected_leader:
                return f"does not follow {state.leader_id}: {raft.rejection}"
            if state.in_touch:
                return ""
            return f"no response from leader {state.leader_id} yet{_conflicts_text(raft)}"
        case Resigned():
            return f"resigned; waiting for a successor{_conflicts_text(raft)}"
        case Prospective() | Candidate():
            ballot = state.ballot
            what = "pre-votes" if isinstance(state, Prospective) else "votes"
            missing = [
                f"{voter} {'refused' if voter in ballot.refused else 'silent'}"
                + (f" ({raft.refusals[voter]})" if voter in raft.refusals else "")
                for voter in sorted(ballot.voters - ballot.granted)
            ]
            needed = majority_of(len(ballot.voters))
            tally = f"{len(ballot.granted)} of {needed} {what} needed: {', '.join(missing)}"
            return tally + _conflicts_text(raft)
        case Unattached():
            if not raft.quorum.is_voter:
                return "an observer that looks for the leader"
            unconnected = [voter for voter in raft.quorum.others if not raft.peers.is_connected(voter)]
            wait_ms = max(0, state.deadline_ms - now.mono_ms)
            unreachable = f"; not connected: {', '.join(map(str, unconnected))}" if unconnected else ""
            return f"waiting {wait_ms} ms before the next election{unreachable}{_conflicts_text(raft)}"


def _conflicts_text(raft: RaftState) -> str:
    """Return which voters reject each other's identity, with what to do, as the end of a sentence."""
    ours = ", ".join(map(str, raft.peers.conflicting_voters()))
    theirs = ", ".join(str(voter) for voter, why in sorted(raft.refusals.items()) if why == TAKEN_FOR_ANOTHER)
    parts = [
        f"does not count {ours}: another directory, or an older start, than it knows" if ours else "",
        f"not counted by {theirs}: another directory, or an older start, than known there" if theirs else "",
    ]
    told = [part for part in parts if part]
    return "".join(f"; {part}" for part in (*told, FORGET_PEERS)) if told else ""


def _peers(raft: RaftState, now: Now) -> list[PeerStatus]:
    leader_state = raft.leader_state
    views = []
    for voter in raft.quorum.others:
        replica = leader_state.follower(voter) if leader_state else None
        refusal = raft.refusals.get(voter, "")
        views.append(_peer(raft, voter, replica, now, is_voter=True, refusal=refusal))
    observers = (
        sorted(leader_state.active_observers(now.mono_ms), key=lambda observer: observer.key.id)
        if leader_state
        else ()
    )
    views += [
        _peer(raft, observer.key.id, observer, now, is_voter=False, refusal="") for observer in observers
    ]
    return views


def _peer(
    raft: RaftState, node_id: NodeId, replica: ReplicaState | None, now: Now, *, is_voter: bool, refusal: str
) -> PeerStatus:
    view = PeerStatus(
        node_id, raft.endpoint(node_id), is_voter, raft.peers.is_connected(node_id), refusal=refusal
    )
    if replica is None or replica.fetch_at_ms < 0:
        return view
    return msgspec.structs.replace(
        view,
        fetch_offset=replica.fetch_offset,
        last_fetch_ms_ago=now.mono_ms - replica.fetch_at_ms,
        last_fetch_ms=replica.last_fetch_ms,
        caught_up_ms=replica.caught_up_ms,
    )


# --- DescribeQuorum -----------------------------------------------------------------------------------------


def describe_quorum(
    raft: RaftState, request: m.DescribeQuorumRequest, version: int, now: Now
) -> m.DescribeQuorumResponse:
    """Answer DescribeQuorum (DQ-01 to DQ-03); a node that does not lead answers with an error.

    A response of an old version has no room for the nodes and their directories.
    """
    topics = request.topics
    shaped = len(topics) == 1 and topics[0].topic_name == METADATA_TOPIC and len(topics[0].partitions) == 1
    if not shaped or topics[0].partitions[0].partition_index != 0:
        return _unknown_topics(topics)
    leader_state = raft.leader_state
    if leader_state is None:
        leader = known_leader(raft)
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        text = f"node {raft.me.id} does not lead; " + (
            f"node {leader} does" if leader != NO_NODE else "no leader is known"
        )
        partition = m.DescribeQuorumResponsePartitionData(
            error_code=error, error_message=text, leader_id=leader, leader_epoch=raft.epoch, high_watermark=-1
        )
        return _description((partition,), ())
    partition = m.DescribeQuorumResponsePartitionData(
        error_message=None,
        leader_id=raft.me.id,
        leader_epoch=raft.epoch,
        high_watermark=leader_state.high_watermark,
        current_voters=tuple(_voter_states(raft, leader_state, now)),
        observers=tuple(_state(replica) for replica in leader_state.active_observers(now.mono_ms)),
    )
    if version < _NODES_SINCE:
        return _description((_without_directories(partition),), ())
    nodes = tuple(
        m.DescribeQuorumResponseNode(voter.id, (_listener(voter.endpoint),)) for voter in raft.quorum.voters
    )
    return _description((partition,), nodes)


def _without_directories(
    partition: m.DescribeQuorumResponsePartitionData,
) -> m.DescribeQuorumResponsePartitionData:
    replace = msgspec.structs.replace
    voters, observers = (
        tuple(replace(state, replica_directory_id=ZERO_UUID) for state in states)
        for states in (partition.current_voters, partition.observers)
    )
    return replace(partition, current_voters=voters, observers=observers)


def _voter_states(
    raft: RaftState, leader_state: LeaderState, now: Now
) -> list[m.DescribeQuorumResponseReplicaState]:
    states = [_state(replica) for replica in leader_state.followers]
    if raft.quorum.is_voter:
        own = m.DescribeQuorumResponseReplicaState(
            raft.me.id, raft.me.directory_id, raft.log.end_offset, now.wall_ms, now.wall_ms
        )
        states.append(own)
    return sorted(states, key=lambda state: state.replica_id)


def _state(replica: ReplicaState) -> m.DescribeQuorumResponseReplicaState:
    return m.DescribeQuorumResponseReplicaState(
        replica.key.id,
        replica.key.directory_id,
        replica.fetch_offset,
        replica.last_fetch_ms,
        replica.caught_up_ms,
    )


def _listener(endpoint: Endpoint) -> m.DescribeQuorumResponseListener:
    return m.DescribeQuorumResponseListener(endpoint.listener, endpoint.host, endpoint.port)


def _description(
    partitions: tuple[m.DescribeQuorumResponsePartitionData, ...],
    nodes: tuple[m.DescribeQuorumResponseNode, ...],
) -> m.DescribeQuorumResponse:
    topic = m.DescribeQuorumResponseTopicData(METADATA_TOPIC, partitions)
    return m.DescribeQuorumResponse(error_message=None, topics=(topic,), nodes=nodes)


def _unknown_topics(topics: Sequence[m.DescribeQuorumRequestTopicData]) -> m.DescribeQuorumResponse:
    """Refuse each topic and partition that was asked for: only the metadata log is described here."""
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    text = f"only partition 0 of {METADATA_TOPIC} is described here"
    names = sum([len(topic.topic_name.encode()) for topic in topics])
    if (
        len(topics) + sum([len(topic.partitions) for topic in topics]) > _NAMED_BACK_MAX
        or names > OUTCOMES_BYTES_MAX
    ):
        return m.DescribeQuorumResponse(error_code=ErrorCode.INVALID_REQUEST, error_message=text)
    echoed = tuple(
        m.DescribeQuorumResponseTopicData(
            topic.topic_name,
            tuple(
                m.DescribeQuorumResponsePartitionData(partition.partition_index, unknown, text)
                for partition in topic.partitions
            ),
        )
        for topic in topics
    )
    return m.DescribeQuorumResponse(error_message=None, topics=echoed)
