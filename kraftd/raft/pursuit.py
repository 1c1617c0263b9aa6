"""What a member keeps while it looks for a leader or follows one: gone with the next change of role."""

from kraftd.raft.events import Token
from kraftd.types import Offset


class Pursuit:
    """The mutable half of following. Owned by the core, new in each role."""

    __slots__ = ("cutting", "good_connection", "is_probing", "leader_high_watermark")

    def __init__(self) -> None:
        self.good_connection: int | None = None
        """The connection that carried a good fetch: its end means something (D-08)."""
        self.is_probing = False
        """The leader does not answer: an observer asks around (OBS-05, OBS-06)."""
        self.leader_high_watermark: Offset = -1
        self.cutting: tuple[Token, Offset] | None = None
        """A truncation that waits for the disk to tell where a batch ends."""
