"""The words that every other package shares: ids, positions and what an election leaves behind.

Nothing here knows bytes, files or messages. Integers stay plain integers, named by alias, because
they cross every boundary (wire, file, JSON) and are compared and added on the hot path.
"""

import base64
import binascii
from typing import NamedTuple, TypeAlias

import msgspec

NodeId: TypeAlias = int
"""A member's id (`node.id`), >= 0. Bootstrap servers of unknown id are numbered -2, -3, …"""

Epoch: TypeAlias = int
"""A leader epoch, >= 0; 0 before the first election. Never "term"."""

Offset: TypeAlias = int
"""A record's place in the log. An end offset is exclusive unless its name says `last_`."""

Uuid: TypeAlias = bytes
"""Sixteen raw bytes; the text form is Kafka's (URL-safe base64 without padding)."""

NO_NODE: NodeId = -1
"""No leader, no vote, no replica id."""

ZERO_UUID: Uuid = bytes(16)
"""Stands for an absent directory id."""

NEVER_MS = 1 << 62
"""A moment on the monotonic clock that does not come."""

METADATA_TOPIC = "__cluster_metadata"
METADATA_TOPIC_ID: Uuid = bytes(15) + b"\x01"


def uuid_text(uuid: Uuid) -> str:
    """Kafka's 22-character text of a UUID."""
    return base64.urlsafe_b64encode(uuid).rstrip(b"=").decode("ascii")


def parse_uuid(text: str) -> Uuid:
    """Read Kafka's text of a UUID.

    Raises:
        ValueError: The text is not the base64 of exactly 16 bytes.
    """
    try:
        raw = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"{text!r} is not a UUID in Kafka's base64 form") from error
    if len(raw) != 16:
        raise ValueError(f"{text!r} is not a UUID: it holds {len(raw)} bytes, not 16")
    return raw


class Now(NamedTuple):
    """The two clocks (D-01): deadlines use only `mono_ms`, record timestamps only `wall_ms`."""

    mono_ms: int
    wall_ms: int


class OffsetAndEpoch(msgspec.Struct, frozen=True):
    """A position in the log. Compare logs with `log_order`: the epoch goes first."""

    offset: Offset
    epoch: Epoch

    @property
    def log_order(self) -> tuple[Epoch, Offset]:
        """The key by which one log is more complete than another (Raft 5.4.1)."""
        return (self.epoch, self.offset)


class EpochEntry(msgspec.Struct, frozen=True):
    """Where an epoch begins: one line of `leader-epoch-checkpoint`."""

    epoch: Epoch
    start_offset: Offset


class ReplicaKey(msgspec.Struct, frozen=True):
    """Who a member is: its id and, where known, the id of its metadata directory."""

    id: NodeId
    directory_id: Uuid = ZERO_UUID

    def matches(self, other: "ReplicaKey") -> bool:
        """Whether both may be the same member: an absent directory id matches any."""
        return self.id == other.id and (
            ZERO_UUID in (self.directory_id, other.directory_id) or self.directory_id == other.directory_id
        )


class Endpoint(msgspec.Struct, frozen=True):
    """Where a member listens, as it advertises itself. The host is resolved on each connect."""

    host: str
    port: int
    listener: str = "CONTROLLER"

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


REPORTED_BY_OTHERS = "the quorum knows another directory, or a later start, as node "
"""How the reason begins why a voter is not counted, if others told it so. It is kept in the sidecar, and read
again when an operator makes a node forget it."""

FORGET_PEERS = (
    "if nothing was restored or replaced, see kraftctl forget-peers in docs/operations.md (Trouble)"
)
"""What to do about voters that do not know each other again, for an operator. Texts that hold it tell why no
leader can be elected; the command line looks for it."""


class Election(msgspec.Struct, frozen=True):
    """What must survive a crash: the epoch with the leader and the vote of that epoch.

    Both may be set at once (D-07). `NO_NODE` is an unknown leader, None no vote given. Source: the
    `quorum-state` file (QS-15 to QS-17).
    """

    epoch: Epoch = 0
    leader_id: NodeId = NO_NODE
    voted: ReplicaKey | None = None
