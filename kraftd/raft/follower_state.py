"""The mutable state of a follower, the counterpart of `leader_state`; short, since it keeps little."""

from kraftd.raft.events import Token
from kraftd.types import Offset


class FollowerState:
    """The mutable state of a follower, or of a node that looks for a leader.

    Made anew with each change of state or epoch, but for one from unattached to unattached within an epoch.
    """

    __slots__ = ("good_connection", "is_seeking_leader", "leader_high_watermark", "pending_truncation")

    def __init__(self) -> None:
        self.good_connection: int | None = None
        """The connection of the last good fetch; a pre-vote begins when it closes (D-08)."""
        self.is_seeking_leader = False
        """Whether the leader does not answer, so that an observer or an uncounted voter asks other nodes
        (OBS-05, OBS-06).
        """
        self.leader_high_watermark: Offset = -1
        self.pending_truncation: tuple[Token, Offset] | None = None
        """A truncation that waits for a cold read to find the batch boundary: its token and its offset."""
