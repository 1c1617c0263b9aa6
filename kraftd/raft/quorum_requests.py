"""The requests of the quorum but fetches: read, refused by their shape, or given to the part that serves it.

Entered by `RaftNode`, which serves fetches itself: they are most of what comes in. What a request means in
the current epoch is decided by the parts. It is a module of its own, short as it is, because what every kind
of request has in common stands side by side here: who may send it, and what is refused unread.
"""

from kraftd.errors import ErrorCode
from kraftd.protocol import messages as m
from kraftd.raft import rpc, snapshot_rpc, status
from kraftd.raft.announcements import Announcements
from kraftd.raft.elections import Elections
from kraftd.raft.events import RequestReceived
from kraftd.raft.snapshot_serving import SnapshotServing
from kraftd.raft.state import RaftState
from kraftd.types import Now

_OF_ANYBODY = (m.DescribeQuorumRequest, m.FetchSnapshotRequest)
"""Requests that need no handshake: Kafka's wire has none."""


class QuorumRequests:
    """Passes requests on by their type."""

    def __init__(
        self,
        raft: RaftState,
        elections: Elections,
        announcements: Announcements,
        snapshot_serving: SnapshotServing,
    ) -> None:
        self.raft = raft
        self._elections = elections
        self._announcements = announcements
        self._snapshot_serving = snapshot_serving

    def on_request(self, event: RequestReceived, now: Now) -> None:
        """Serve a request. Who did no handshake may describe the quorum, and load a snapshot."""
        raft = self.raft
        request = event.request
        if event.peer is None and not isinstance(request, _OF_ANYBODY):
            raft.reply(event.handle, rpc.refusal(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
            return
        match request:
            case m.VoteRequest():
                vote = rpc.read_vote(request, raft.cluster_id)
                if isinstance(vote, ErrorCode):
                    raft.reply(event.handle, rpc.refusal(request, vote))
                else:
                    self._elections.on_vote_request(event, vote, now)
            case m.BeginQuorumEpochRequest():
                begin = rpc.read_begin(request, raft.cluster_id)
                if isinstance(begin, ErrorCode):
                    raft.reply(event.handle, rpc.refusal(request, begin))
                else:
                    self._announcements.on_begin_request(event, begin, now)
            case m.EndQuorumEpochRequest():
                end = rpc.read_end(request, raft.cluster_id)
                if isinstance(end, ErrorCode):
                    raft.reply(event.handle, rpc.refusal(request, end))
                else:
                    self._announcements.on_end_request(event, end, now)
            case m.FetchSnapshotRequest():
                piece = snapshot_rpc.read_request(request, raft.cluster_id)
                if isinstance(piece, ErrorCode):
                    raft.reply(event.handle, snapshot_rpc.refusal(request, piece))
                else:
                    self._snapshot_serving.on_request(event, piece, now)
            case m.DescribeQuorumRequest():
                raft.reply(event.handle, status.describe_quorum(raft, request, event.version, now))
