"""What the world tells a raft node. `Member.handle` takes one of these, and nothing else.

Messages are the generated classes of `kraftd.protocol`. A `handle`, a `token` and a correlation id are
numbers that the node hands back unread (handles and tokens come from the driver, correlation ids from
the node).
"""

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from kraftd.protocol.messages import QuorumRequest, QuorumResponse
from kraftd.types import Epoch, NodeId, Offset, Uuid

Handle: TypeAlias = int
"""A request that waits for its reply: connection and correlation id, known to the driver."""

Token: TypeAlias = int
"""A caller of ours that waits for an outcome: an append, a read, a resignation."""


class PeerIdentity(msgspec.Struct, frozen=True):
    """Who a peer is: a voter that was confirmed (D-37), or what an observer says of itself (D-06).

    An observer is told no start of a voter and tells none: counter and id are zero.
    """

    node_id: NodeId
    directory_id: Uuid
    start_counter: int
    start_id: Uuid


class RequestReceived(msgspec.Struct, frozen=True):
    """A quorum request came in on a connection whose handshake is done and, if it is a voter's, confirmed."""

    handle: Handle
    request: QuorumRequest
    version: int
    peer: PeerIdentity | None
    """None: a client or tool, which has no identity in the quorum. An id that is a voter's was confirmed."""


class ResponseReceived(msgspec.Struct, frozen=True):
    """An answer to a `Send` effect; stale ones are dropped by correlation id (REQ-02)."""

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
    """A nonce is on its way to who listens at a voter's configured address, on our connection (D-37)."""

    connection: int
    peer: NodeId
    nonce: Uuid


class LinkAnswered(msgspec.Struct, frozen=True):
    """The greeting of a connection of ours was answered by a voter that wants a nonce of its own shown before
    it takes requests (D-37).
    """

    connection: int
    peer: NodeId


class PeerClaimed(msgspec.Struct, frozen=True):
    """Somebody connected to us and says that it is a voter (D-37).

    With `is_challenge` it claims nothing: the connection only brings us a nonce under that id.
    """

    connection: int
    peer: NodeId
    directory_id: Uuid
    nonce: Uuid
    is_challenge: bool = False


class NonceShown(msgspec.Struct, frozen=True):
    """A nonce is shown on a connection to us (D-37). Answered by `ConfirmPeer` or `RejectNonce`."""

    connection: int
    nonce: Uuid
    start_counter: int
    start_id: Uuid


class PeerIdentified(msgspec.Struct, frozen=True):
    """A connection of ours stands, to a member that says who it is and, if we are both voters, knows us. Or
    an observer connected to us.

    The node answers with effects: `RememberPeer`, or `RefusePeer` with the reason (D-06).
    """

    connection: int
    peer: PeerIdentity
    outbound: bool


class ConnectionClosed(msgspec.Struct, frozen=True):
    """A connection that the node was told of ended with EOF or RST (D-08).

    A connect that failed is never this event.
    """

    connection: int
    peer: NodeId
    outbound: bool


class LogFlushed(msgspec.Struct, frozen=True):
    """A flush ended: everything below `end_offset` of that generation is durable (D-03)."""

    generation: int
    end_offset: Offset


class BatchesRead(msgspec.Struct, frozen=True):
    """A `ColdRead` ended. `records` are whole batches from the one that holds the wanted offset (D-15)."""

    token: Token
    generation: int
    records: bytes


class LogDamaged(msgspec.Struct, frozen=True):
    """Reading the log of that generation found bytes that are not what was written (D-06).

    Comes before the `BatchesRead` that it leaves empty, if the read was for the node.
    """

    generation: int
    damage: str
    """Which file, byte and offset, and what to do."""


class AppendRequested(msgspec.Struct, frozen=True):
    """The controller wants these records in the log, all or none, in one batch (ACC-07, ACC-24).

    `records` are framed record values (section 4.4). Answered by `AppendDone`, once committed or refused.
    """

    token: Token
    epoch: Epoch
    records: Sequence[bytes]
    deadline_ms: int


class ReadRequested(msgspec.Struct, frozen=True):
    """Someone wants a linearizable read (D-12). Answered by `ReadDone`."""

    token: Token
    deadline_ms: int


class ResignRequested(msgspec.Struct, frozen=True):
    """An operator wants another leader (D-09): the voter `to`, or the best one if `to` is NO_NODE.

    Answered by `ResignDone` once EndQuorumEpoch is on its way, or refused.
    """

    token: Token
    to: NodeId
    deadline_ms: int


class ShutdownRequested(msgspec.Struct, frozen=True):
    """SIGTERM: hand over if leading, then say `ShutdownReady`, at the deadline at the latest."""

    deadline_ms: int


class Applied(msgspec.Struct, frozen=True):
    """The state machine has applied every committed batch below `offset` (D-12, D-18)."""

    offset: Offset


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
    | LogDamaged
    | AppendRequested
    | ReadRequested
    | ResignRequested
    | ShutdownRequested
    | Applied
)
