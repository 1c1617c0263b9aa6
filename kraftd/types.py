"""The words that every other package shares: ids, positions, endpoints, what a majority is, and what an
election leaves behind.

Nothing here knows bytes, files or messages. Integers stay plain integers, named by alias, because
they cross every boundary (wire, file, JSON) and are compared and added on the hot path.
"""

import base64
import binascii
import re
from enum import StrEnum
from typing import NamedTuple, TypeAlias

import msgspec

NodeId: TypeAlias = int
"""A node's id (`node.id`), >= 0. Bootstrap servers of unknown id are numbered -2, -3, …"""

Epoch: TypeAlias = int
"""A leader epoch, >= 0; 0 before the first election. Never "term"."""

Offset: TypeAlias = int
"""A record's place in the log. An end offset is exclusive unless its name says `last_`."""

Uuid: TypeAlias = bytes
"""Sixteen raw bytes; the text form is Kafka's (URL-safe base64 without padding)."""

NO_NODE: NodeId = -1
"""No leader, no vote, no replica id."""

_FIRST_BOOTSTRAP: NodeId = -2

ZERO_UUID: Uuid = bytes(16)
"""Stands for an absent directory id."""

NEVER_MS = 1 << 62
"""A moment on the monotonic clock that does not come."""

_PORT = re.compile("[0-9]{1,5}")

METADATA_TOPIC = "__cluster_metadata"
METADATA_TOPIC_ID: Uuid = bytes(15) + b"\x01"


def bootstrap_id(index: int) -> NodeId:
    """Return what stands for the id of a bootstrap server, by its place in the configuration."""
    return _FIRST_BOOTSTRAP - index


def is_bootstrap(node_id: NodeId) -> bool:
    """Whether this stands for a bootstrap server, whose own id is not known."""
    return node_id <= _FIRST_BOOTSTRAP


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


def majority_of(voters: int) -> int:
    """Return how many of so many voters are a majority."""
    return voters // 2 + 1


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
    """Which node it is: its id and, where known, the id of its metadata directory."""

    id: NodeId
    directory_id: Uuid = ZERO_UUID

    def matches(self, other: "ReplicaKey") -> bool:
        """Whether both may be the same node: an absent directory id matches any."""
        return self.id == other.id and (
            ZERO_UUID in (self.directory_id, other.directory_id) or self.directory_id == other.directory_id
        )


class PeerIdentity(msgspec.Struct, frozen=True, array_like=True):
    """The identity of a peer: of a voter as it was confirmed (D-37), of an observer as it states it (D-06).

    Observers and voters do not exchange starts: in an observer's identity, counter and id are zero. The
    sidecar keeps the identities of voters, each as an array of these four.
    """

    node_id: NodeId
    directory_id: Uuid
    start_counter: int
    start_id: Uuid


class HealthKind(StrEnum):
    """What the sidecar keeps of a node's health (D-06), by the words that are in the file."""

    WHOLE = "whole"
    UNINITIALIZED = "blank"
    """Neither records nor promises yet: a new node or a wiped one, which look alike."""
    AMNESIA = "amnesia"
    """Votes or acknowledgements may have been forgotten."""


class Endpoint(msgspec.Struct, frozen=True):
    """Where a node listens, as it advertises itself. The host is resolved on each connect."""

    host: str
    port: int
    listener: str = "CONTROLLER"

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_endpoint(text: str, *, listener: str = "CONTROLLER") -> Endpoint:
    """Read `host:port`, an IPv6 address in brackets: the text form of an endpoint.

    To listen on, the host may be empty (every address) and the port 0 (any that is free). Who dials one
    refuses both.

    Raises:
        ValueError: The text is something else.
    """
    host, colon, port = text.strip().rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    bare = host[1:-1] if bracketed else host
    ambiguous = ":" in bare if not bracketed else not bare
    if not colon or ambiguous or _PORT.fullmatch(port) is None or int(port) > 65_535:
        raise ValueError(no_endpoint_text(text))
    return Endpoint(bare, int(port), listener)


def no_endpoint_text(text: str) -> str:
    """What people are told of a text that is not `host:port`."""
    return f"{text.strip()!r} is not host:port; write for example localhost:9093 or [::1]:9093"


REPORTED_BY_OTHERS = "the quorum knows another directory, or a later start, as node "
"""How the reason begins why a voter is not counted, if others told it so. It is kept in the sidecar, and read
again when an operator makes a node forget it: its words are a format, and stay."""

FORGET_PEERS = (
    "if nothing was restored or replaced, see kraftctl forget-peers in docs/operations.md (Trouble)"
)
"""What to do about voters that do not know each other again, for an operator. Texts that hold it tell why no
leader can be elected; the command line looks for it, in what nodes of other releases say, too: its words
stay.
"""


class Election(msgspec.Struct, frozen=True):
    """What must survive a crash: the epoch with the leader and the vote of that epoch.

    Both may be set at once (D-07). `NO_NODE` is an unknown leader, None no vote given. Source: the
    `quorum-state` file (QS-15 to QS-17).
    """

    epoch: Epoch = 0
    leader_id: NodeId = NO_NODE
    voted: ReplicaKey | None = None
