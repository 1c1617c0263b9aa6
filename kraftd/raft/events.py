"""The events of a raft node: `RaftNode.handle` takes one of these, and nothing else.

Messages are the generated classes of `kraftd.protocol`. A `handle`, a `token` and a correlation id are
numbers that come back unread: handles, and the tokens of local callers, are made outside and come back in
effects; correlation ids, and the tokens of reads, are made by the node and come back in events.
"""

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from kraftd.protocol.messages import QuorumRequest, QuorumResponse
from kraftd.types import Epoch, NodeId, Offset, OffsetAndEpoch, PeerIdentity, Uuid

Handle: TypeAlias = int
"""A request that waits for its reply: connection and correlation id, kept by whoever sends the reply."""

Token: TypeAlias = int
"""A local caller that waits for the outcome of an append, a read or a resignation; or a read of the disk."""


class RequestReceived(msgspec.Struct, frozen=True):
    """A quorum request arrived, on a connection that has done its handshake and, for a voter, is confirmed,
    or that speaks Kafka's wire, which has no handshake.
    """

    handle: Handle
    request: QuorumRequest
    version: int
    peer: PeerIdentity | None
    """None for who did no handshake that tells an identity: clients, tools, and Kafka's brokers, whose
    replica ids nobody proves. The id of a voter was confirmed.
    """
    connection: int = 0
    """The number of the connection: what tells those apart whose ids nobody proves."""


class ResponseReceived(msgspec.Struct, frozen=True):
    """A response to a `Send` effect; stale ones are dropped by correlation id (REQ-02)."""

    sender: NodeId
    correlation_id: int
    response: QuorumResponse
    records: bytes = b""


class RequestFailed(msgspec.Struct, frozen=True):
    """A `Send` could not be answered: no route, no connection, closed, or refused in the handshake."""

    sender: NodeId
    correlation_id: int
    reason: str


class NonceGiven(msgspec.Struct, frozen=True):
    """A nonce was sent to a voter's configured address, on a connection of ours (D-37)."""

    connection: int
    peer_id: NodeId
    nonce: Uuid


class LinkAnswered(msgspec.Struct, frozen=True):
    """A voter answered our greeting, and wants its own nonce shown before it accepts requests (D-37)."""

    connection: int
    peer_id: NodeId


class PeerClaimed(msgspec.Struct, frozen=True):
    """A peer connected to us and claims to be a voter (D-37).

    With `is_challenge` it claims nothing: the connection only delivers a nonce under that id.
    """

    connection: int
    peer_id: NodeId
    directory_id: Uuid
    nonce: Uuid
    is_challenge: bool = False


class NonceShown(msgspec.Struct, frozen=True):
    """A peer showed a nonce on its connection to us (D-37). Answered by `ConfirmPeer` or `RejectNonce`."""

    connection: int
    nonce: Uuid
    start_counter: int
    start_id: Uuid


class PeerIdentified(msgspec.Struct, frozen=True):
    """A connection of ours has done its handshake: the peer told its identity and, if both are voters,
    confirmed ours. Or an observer connected to us.

    Most often nothing follows. Else: `RememberPeer` for a new identity of a voter; `RefusePeer` for older
    connections of it, or for this one if it has our own id; `Warned` if another peer is remembered
    under its id: then this one is registered, and not counted (D-06).
    """

    connection: int
    peer: PeerIdentity
    outbound: bool


class ConnectionClosed(msgspec.Struct, frozen=True):
    """A connection that the node knows has ended, whoever closed it (D-08).

    A failed attempt to connect is never this event.
    """

    connection: int
    peer_id: NodeId


class LogFlushed(msgspec.Struct, frozen=True):
    """A flush ended: everything below `end_offset` of that generation is durable (D-03)."""

    generation: int
    end_offset: Offset


class BatchesRead(msgspec.Struct, frozen=True):
    """A `ColdRead` ended. `records` are whole batches from the one that holds the requested offset (D-15)."""

    token: Token
    generation: int
    records: bytes


class SnapshotRead(msgspec.Struct, frozen=True):
    """A `ReadSnapshot` ended: the bytes from the asked position on; none at the end or behind it, or if its
    voter has asked for something else meanwhile.
    """

    token: Token
    data: bytes
    size_bytes: int
    """Of the whole snapshot; -1 if it is not there, or does not begin with what was asked."""


class SnapshotReceived(msgspec.Struct, frozen=True):
    """A `WriteSnapshot` ended."""

    id: OffsetAndEpoch
    end_position: int
    """How much of it is written."""
    is_whole: bool = False
    """Whether that was the last piece, and the snapshot counts from now on."""
    problem: str = ""
    """Why all of it was given up; empty if it was not."""


class SnapshotTaken(msgspec.Struct, frozen=True):
    """This node has written a snapshot of its state: it has its name, and counts from now on (D-20)."""

    id: OffsetAndEpoch


class SnapshotDamaged(msgspec.Struct, frozen=True):
    """The file of a snapshot was read beside everything else, and turned out damaged: it counts no more."""

    id: OffsetAndEpoch


class CutRequested(msgspec.Struct, frozen=True):
    """The cleaner asks to begin the log at this snapshot's end (D-22). Answered by `CutLog`, or by nothing if
    that may not be.
    """

    start: OffsetAndEpoch
    ends_observers_leases: bool = False
    """Whether to cut what observers download, too: it is more than they may hold (D-24)."""


class LogDamaged(msgspec.Struct, frozen=True):
    """A read of the log of that generation found bytes that are not those written (D-06).

    If the read was for the node, this comes before the `BatchesRead`, which then has no records.
    """

    generation: int
    damage: str
    """Which file, byte and offset, and what to do."""


class AppendRequested(msgspec.Struct, frozen=True):
    """The controller asks to append these records, all or none, in one batch (ACC-07, ACC-24).

    `records` are framed record values (`kraftd.records.frame`). Answered by `AppendDone`, once committed or
    refused.
    """

    token: Token
    epoch: Epoch
    records: Sequence[bytes]
    deadline_ms: int
    is_urgent: bool = False
    """Whether it may take room that is kept for what must not wait: the sessions of brokers, ISRs."""


class ReadRequested(msgspec.Struct, frozen=True):
    """A caller asks for a linearizable read (D-12). Answered by `ReadDone`."""

    token: Token
    deadline_ms: int


class ResignRequested(msgspec.Struct, frozen=True):
    """An operator asks for another leader (D-09): the voter `to`, or the best one if `to` is NO_NODE.

    Answered by `ResignDone` once EndQuorumEpoch is on its way, or refused.
    """

    token: Token
    to: NodeId
    deadline_ms: int


class ShutdownRequested(msgspec.Struct, frozen=True):
    """SIGTERM: hand over if leading, then emit `ShutdownReady`, no later than the deadline."""

    deadline_ms: int


class Applied(msgspec.Struct, frozen=True):
    """The state machine has applied every committed batch below `offset` (D-12, D-18)."""

    offset: Offset


class ApplyStuck(msgspec.Struct, frozen=True):
    """The state machine can apply nothing, until the next `Applied`: it has no state to begin with (D-23)."""


Event: TypeAlias = (
    RequestReceived
    | ResponseReceived
    | RequestFailed
    | NonceGiven
    | LinkAnswered
    | PeerClaimed
    | NonceShown
    | PeerIdentified
    | ConnectionClosed
    | LogFlushed
    | BatchesRead
    | SnapshotRead
    | SnapshotReceived
    | SnapshotTaken
    | SnapshotDamaged
    | CutRequested
    | LogDamaged
    | AppendRequested
    | ReadRequested
    | ResignRequested
    | ShutdownRequested
    | Applied
    | ApplyStuck
)
