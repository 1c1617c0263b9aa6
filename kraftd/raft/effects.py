"""The effects of a raft node: what must be done for it, as values, carried out in order.

Three kinds, by what the list after them may rely on (D-02):

*Barriers* are durable before the next effect begins: `PersistElection`, `RememberPeer`,
`RememberStateHealth`, `Truncate`, `InstallSnapshot`, `CutLog`.
*Asynchronous* effects only begin; their end comes back as an event: `Flush`, `ColdRead`, `ReadSnapshot`,
`WriteSnapshot`.
The rest happens at once: `Append` (to the page cache), `AssignEpoch` (durable with the next flush), `Send`,
`Reply`, …
"""

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from kraftd.errors import ErrorCode
from kraftd.protocol.messages import QuorumRequest, QuorumResponse
from kraftd.raft.events import Handle, Token
from kraftd.types import (
    NO_NODE,
    Election,
    Endpoint,
    Epoch,
    HealthKind,
    NodeId,
    Offset,
    OffsetAndEpoch,
    PeerIdentity,
    Uuid,
)


class PersistElection(msgspec.Struct, frozen=True):
    """Barrier. Write `quorum-state` (with the sidecar's checksum first, D-05). At most one an event."""

    election: Election


class RememberPeer(msgspec.Struct, frozen=True):
    """Barrier. Write the identity behind a voter id into the sidecar, before it is counted (D-06)."""

    peer: PeerIdentity


class RememberStateHealth(msgspec.Struct, frozen=True):
    """Barrier. Write into the sidecar whether this node's votes and acknowledgements can be relied on (D-06).
    Until it says WHOLE again, every start begins with that health, whatever the election file says by then.
    """

    health: HealthKind
    reasons: Sequence[str] = ()


class Truncate(msgspec.Struct, frozen=True):
    """Barrier. Truncate the log to a batch boundary at or before `end_offset`, and sync it.

    `generation` is the one that begins with this truncation; completions of older ones are void (D-03).
    """

    end_offset: Offset
    generation: int


class InstallSnapshot(msgspec.Struct, frozen=True):
    """Barrier. Replace the whole log by a snapshot that is here: it begins and ends where that ends (D-21).

    `generation` is the one that begins with it, as after a truncation. Older snapshots go.
    """

    id: OffsetAndEpoch
    generation: int


class CutLog(msgspec.Struct, frozen=True):
    """Barrier. Begin the log at a snapshot's end; what is before goes as soon as nobody reads it (D-22)."""

    start: OffsetAndEpoch


class Append(msgspec.Struct, frozen=True):
    """Write whole encoded batches at the end of the log. Not durable before its `LogFlushed`."""

    base_offset: Offset
    end_offset: Offset
    batches: Sequence[bytes]


class AssignEpoch(msgspec.Struct, frozen=True):
    """Write to the leader epoch checkpoint that `epoch` starts at `start_offset`, before it has a record
    (LOG-11).
    """

    epoch: Epoch
    start_offset: Offset


class Flush(msgspec.Struct, frozen=True):
    """Asynchronous. Make everything below `end_offset` durable, and perhaps later appends too. One runs
    at a time (D-03).
    """

    generation: int
    end_offset: Offset


class ColdRead(msgspec.Struct, frozen=True):
    """Asynchronous. Read batches from `offset` on that are no longer in memory (D-15)."""

    token: Token
    generation: int
    offset: Offset
    max_bytes: int


class ReadSnapshot(msgspec.Struct, frozen=True):
    """Asynchronous. Read a piece of a snapshot, for a replica that downloads it."""

    token: Token
    id: OffsetAndEpoch
    position: int
    max_bytes: int
    prefix_checksum: int = -1
    """CRC-32C of the bytes before `position`, which the replica has from another node; -1 if it has them from
    this one. Other bytes here are another file.
    """
    voter_id: NodeId = NO_NODE
    """The voter that downloads: what is read for it already, and not done, ends without bytes. NO_NODE for an
    observer: that must not delay a read for a voter (D-24).
    """

    @property
    def for_observer(self) -> bool:
        """Whether no voter downloads."""
        return self.voter_id == NO_NODE


class WriteSnapshot(msgspec.Struct, frozen=True):
    """Asynchronous. Write a piece of a snapshot that is downloaded, behind the one before; at position 0 it
    begins anew. The last piece is written once all of it is proved and has its name (D-20).
    """

    id: OffsetAndEpoch
    position: int
    data: bytes
    size_bytes: int
    """Of the whole snapshot."""


class DropSnapshot(msgspec.Struct, frozen=True):
    """Give up a download, after the write that runs. What was written goes."""

    id: OffsetAndEpoch


class LoadSnapshot(msgspec.Struct, frozen=True):
    """Tell the state machine to become what this snapshot says, and to forget all before; then send `Applied`
    (LSN-05, LSN-06).
    """

    id: OffsetAndEpoch


class Send(msgspec.Struct, frozen=True):
    """Send a request. The response, or its failure, comes back under `correlation_id`.

    Whoever carries it out connects, resolves names and does handshakes as needed, and reports failures at
    once; the request timeout is the node's own.
    """

    to: NodeId
    correlation_id: int
    request: QuorumRequest


class Reply(msgspec.Struct, frozen=True):
    """Answer a `RequestReceived`. `records` follow the body untouched."""

    handle: Handle
    response: QuorumResponse
    records: Sequence[bytes] = ()


class ShowNonce(msgspec.Struct, frozen=True):
    """Show a peer's nonce on our connection to it (D-37). If it is right, `PeerIdentified` follows."""

    connection: int
    nonce: Uuid


class ConfirmPeer(msgspec.Struct, frozen=True):
    """Tell the peer on this connection that it is confirmed as that voter, and accept its requests (D-37)."""

    connection: int
    peer: PeerIdentity


class RejectNonce(msgspec.Struct, frozen=True):
    """Answer that the nonce shown on this connection was not given by this node (D-37)."""

    connection: int


class ChallengePeer(msgspec.Struct, frozen=True):
    """Send a nonce to a voter's configured address now (D-37), without the delay of a reconnect. If a
    connection to it looks open, which may be half-open, open another one for the nonce alone.
    """

    peer_id: NodeId


class RefusePeer(msgspec.Struct, frozen=True):
    """Close this connection; log one line and, if the greeting is not answered yet, send it to the peer too
    (D-06).
    """

    connection: int
    reason: str


class LearnEndpoint(msgspec.Struct, frozen=True):
    """Record the endpoint at which a node listens."""

    node_id: NodeId
    endpoint: Endpoint


class Commit(msgspec.Struct, frozen=True):
    """Everything below `high_watermark` is committed: apply it, then send `Applied`."""

    high_watermark: Offset


class LeaderChanged(msgspec.Struct, frozen=True):
    """Tell the state machine who leads (LSN-11..15). `leader_id` is NO_NODE while unknown.

    When it names this node, the state machine has applied past its own LeaderChange (D-18, LSN-12).
    """

    epoch: Epoch
    leader_id: NodeId


class AppendDone(msgspec.Struct, frozen=True):
    """Outcome of `AppendRequested` (D-13): NONE, NOT_CONTROLLER (not appended), REQUEST_TIMED_OUT
    (appended, outcome unknown), THROTTLING_QUOTA_EXCEEDED (accumulator full, not appended),
    POLICY_VIOLATION (too large, not appended).
    """

    token: Token
    error: ErrorCode
    end_offset: Offset = -1
    """The end of the batch that holds the records; -1 unless NONE. No caller needs it: `kraftd.audit` checks
    that a majority holds durably what is acknowledged.
    """


class ReadDone(msgspec.Struct, frozen=True):
    """Outcome of `ReadRequested`: NONE means that the applied state may be read now."""

    token: Token
    error: ErrorCode


class ResignDone(msgspec.Struct, frozen=True):
    """Outcome of `ResignRequested`; `reason` tells an operator why it was refused, or why it
    succeeded without a successor (the leader stops).
    """

    token: Token
    error: ErrorCode
    epoch: Epoch
    successor: NodeId
    reason: str = ""


class ShutdownReady(msgspec.Struct, frozen=True):
    """The process may exit."""

    handed_over: bool


class StateChanged(msgspec.Struct, frozen=True):
    """Log: the node went from one epoch state to another."""

    source: str
    target: str
    epoch: Epoch
    why: str


class ElectionEnded(msgspec.Struct, frozen=True):
    """Log: the outcome of an election or a pre-vote of this node."""

    epoch: Epoch
    pre_vote: bool
    won: bool
    granted: Sequence[NodeId]
    refused: Sequence[tuple[NodeId, str]]
    outstanding: Sequence[NodeId]
    """The voters that had not answered when it ended."""
    took_ms: int


class VoteAnswered(msgspec.Struct, frozen=True):
    """Log: how this node answered a request for a vote or a pre-vote, granted or refused, and why."""

    candidate: NodeId
    epoch: Epoch
    pre_vote: bool
    granted: bool
    why: str


class Warned(msgspec.Struct, frozen=True):
    """Log: a warning about a peer or about this node; the node goes on (D-14)."""

    name: str
    """What to call the line; of an alarm, the alarm."""
    text: str


class Alarmed(msgspec.Struct, frozen=True):
    """Log and status page: a fault that this node cannot repair (D-06, D-14), until it is cleared."""

    name: str
    text: str


class AlarmCleared(msgspec.Struct, frozen=True):
    """Log and status page: the alarm of that name is over."""

    name: str


Effect: TypeAlias = (
    PersistElection
    | RememberPeer
    | RememberStateHealth
    | Truncate
    | InstallSnapshot
    | CutLog
    | Append
    | AssignEpoch
    | Flush
    | ColdRead
    | ReadSnapshot
    | WriteSnapshot
    | DropSnapshot
    | LoadSnapshot
    | Send
    | Reply
    | ShowNonce
    | ConfirmPeer
    | RejectNonce
    | ChallengePeer
    | RefusePeer
    | LearnEndpoint
    | Commit
    | LeaderChanged
    | AppendDone
    | ReadDone
    | ResignDone
    | ShutdownReady
    | StateChanged
    | ElectionEnded
    | VoteAnswered
    | Warned
    | Alarmed
    | AlarmCleared
)
