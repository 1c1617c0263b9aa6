"""The mutable state of a follower, the counterpart of `leader_state`; short, since it keeps little, and apart
from `follower`, since `state`, which stands below that, holds it.

`Download` is what it has of a snapshot that it downloads, and is kept when the leader changes.
"""

import msgspec

from kraftd.raft.events import Token
from kraftd.types import NO_NODE, Epoch, NodeId, Offset, OffsetAndEpoch


class FollowerState:
    """The mutable state of a follower, or of a node that looks for a leader.

    Made anew with each change of state or epoch, but for one from unattached to unattached within an epoch.
    """

    __slots__ = (
        "good_connection",
        "is_fetching_snapshot",
        "is_seeking_leader",
        "leader_high_watermark",
        "pending_truncation",
    )

    def __init__(self) -> None:
        self.good_connection: int | None = None
        """The connection of the last good fetch; a pre-vote begins when it closes (D-08)."""
        self.is_seeking_leader = False
        """Whether the leader does not answer, so that an observer or an uncounted voter asks other nodes
        (OBS-05, OBS-06).
        """
        self.leader_high_watermark: Offset = -1
        self.is_fetching_snapshot = False
        """Whether this leader has offered the snapshot that is downloaded: then nothing else is fetched."""
        self.pending_truncation: tuple[Token, Offset] | None = None
        """A truncation that waits for a cold read to find the batch boundary: its token and its offset."""


class Download(msgspec.Struct):
    """A snapshot that is downloaded, as far as it is here. Mutable; the `RaftState` is its only owner."""

    id: OffsetAndEpoch
    size_bytes: int = -1
    """Of the whole; -1 before the first piece."""
    position: int = 0
    """How much is written."""
    checksum: int = 0
    """CRC-32C of that."""
    writing_to: int = -1
    """Where the piece ends that is being written; -1 if none is."""
    came_from: tuple[Epoch, NodeId] = (-1, NO_NODE)
    """The epoch in which the last piece was sent, and by whom. In one epoch a leader is one process, and has
    one file of this id, unless that went bad and was written anew; any other may have another file.
    """
    is_unanswered: bool = False
    """Whether the last piece that was asked for has not come, and nothing had to be compared for it."""
    compared_since_ms: int = -1
    """Since when a leader compares what is here with its own file; -1 if none does."""
    compared_ms: int = 0
    """How long those were waited for whose connection broke."""
    late_comparisons: int = 0
    """How often that, or one alone, was too long since the last piece came."""
