"""The quorum: events in, effects out, without clock, chance, files or sockets.

Entered through `RaftNode` (`start`, `handle`, `poll`, `wake_at_ms`): its methods return effects, which the
caller carries out in order. What this page exports, and the values of `events`, `effects` and `epoch_states`,
is all that other packages use. A module imports from its own line and from those below it:

    node                                   one node: takes events, calls the parts, returns effects
    quorum_requests  snapshots             requests but fetches; what becomes of the files of snapshots
    status                                 what a node tells about itself
    elections  leader  follower            what is done as candidate, leader, follower
    snapshot_fetch                         a snapshot downloaded, and put in the place of the log
    truncation                             where a follower's log leaves its leader's
    snapshot_serving                       pieces of snapshots served
    announcements  resignation             Begin- and EndQuorumEpoch received; hand-over
    replication  claims                    fetches served and the high watermark; who may speak for a voter
    state_changes                          every change of state: its timers, and what happens along with it
    state                                  what all parts share; checks each change and has it persisted
    snapshot_rpc                           messages of FetchSnapshot built, and read into parameters
    rpc                                    those of the other requests of the quorum
    leader_state  follower_state           mutable: what a leader, a follower keeps
    snapshot_leases  snapshot_slots        snapshots that stay for who loads them; which observers may load
    purgatory  log_mirror                  fetches that wait at the leader; the log's ends and tail
    peers  rejoin  probing                 who each id belongs to; whether we may vote; who accepts us
    accumulator  reads  request_manager    appends, linearizable reads and requests under way
    suspicion                              how long the leader was silent, and how long is too long
    epoch_states                           the states as values, and the table of transitions
    snapshot_points  retention             where in the log snapshots are made; at which of them it begins
    events  effects  timing  voters        the values that go in and out; configuration; who votes (one owner)
"""

from kraftd.raft.accumulator import size_of
from kraftd.raft.log_mirror import FETCH_BYTES_MAX, SNAPSHOT_CHUNK_BYTES, TAIL_BYTES_MAX
from kraftd.raft.node import OpenedLog, RaftNode
from kraftd.raft.rejoin import StateHealth
from kraftd.raft.retention import KeptSnapshot, LeasedSnapshots, Retention, choose_start
from kraftd.raft.snapshot_points import SnapshotPoint, SnapshotPoints, end_of, write_delay_ms
from kraftd.raft.status import ROLES, PeerStatus, QuorumStatus
from kraftd.raft.timing import MIN_LEADER_MS, RandomSource, Timing
from kraftd.raft.voters import Voter, VoterSet

__all__ = [
    "FETCH_BYTES_MAX",
    "MIN_LEADER_MS",
    "ROLES",
    "SNAPSHOT_CHUNK_BYTES",
    "TAIL_BYTES_MAX",
    "KeptSnapshot",
    "LeasedSnapshots",
    "OpenedLog",
    "PeerStatus",
    "QuorumStatus",
    "RaftNode",
    "RandomSource",
    "Retention",
    "SnapshotPoint",
    "SnapshotPoints",
    "StateHealth",
    "Timing",
    "Voter",
    "VoterSet",
    "choose_start",
    "end_of",
    "size_of",
    "write_delay_ms",
]
