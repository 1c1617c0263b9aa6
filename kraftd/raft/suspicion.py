"""How long a follower has heard nothing of its leader, and how long is too long (D-40).

A leader answers a parked fetch of a voter after 150 ms, from its loop (`Timing.beat_ms`): so a follower that
waits hears of it at least that often, unless the process stands still, the machine is gone or the network
fails. After S without a word the leader is *suspected*. That deposes nobody: the follower asks the others for
pre-votes, follows on, and grants the pre-votes of others (`elections`); whoever hears the leader refuses. Who
grants has not heard it until then, and may hear it a moment later: a grant counts for `SUSPECT_MS` only.

S is 450 ms, or three times the longest gap of this leader in the last half to whole minute, so that a leader
or a network that is slow in the ordinary is given its time. A suspicion that was wrong doubles S for ten
minutes, whoever leads: the fault may be the network's, or this node's own. S never exceeds the fetch timeout,
after which D-08 goes on as ever. It is the fetch timeout until a gap of this leader is known: its first good
response ends the wait for a leader, the second one tells the first gap. That the leader beats needs no
knowledge of its version: the fetch itself says how long it may be parked.

A gap or a silence counts only while a fetch waits for its response: a follower that flushes, or downloads a
snapshot, has not asked; and a process that stood still has not listened (D-01): what waited in the socket
meanwhile tells no gap. That it stood still is known from a turn that came 200 ms late; who stood still for
less, or had nothing to do, takes it for a gap.

Entered by `follower` and `announcements` (what is asked and heard) and `elections` (what follows). Reads no
clock.
"""

from kraftd.raft.timing import (
    GAP_WINDOW_MS,
    STALL_MS,
    SUSPECT_AFTER_GAPS,
    SUSPECT_MS,
    WRONG_SUSPICION_MS,
)
from kraftd.types import NEVER_MS, NO_NODE, Epoch, NodeId

_DOUBLINGS_MAX = 16
_UNKNOWN = -1
_NOBODY: tuple[Epoch, NodeId] = (-1, NO_NODE)


class Suspicion:
    """The silence of the leader that is followed. Mutable; the `RaftState` is its only owner."""

    __slots__ = (
        "_deposed",
        "_doubled_until_ms",
        "_doublings",
        "_gap_before_ms",
        "_gap_ms",
        "_leader",
        "_since_ms",
        "_span_max_ms",
        "_window_ends_ms",
        "ask_at_ms",
        "has_asked",
        "look_at_ms",
        "round",
        "silent_at_ms",
        "span_ms",
    )

    def __init__(self, fetch_timeout_ms: int) -> None:
        self._span_max_ms = fetch_timeout_ms
        self._leader = _NOBODY
        self._since_ms = NEVER_MS
        """Since when this node waits for its leader and hears nothing; NEVER_MS while it does not wait."""
        self._gap_ms = self._gap_before_ms = _UNKNOWN
        """The longest gap of this window of time, and of the one before."""
        self._window_ends_ms = 0
        self._doublings = 0
        self._doubled_until_ms = 0
        self._deposed = _NOBODY
        self.span_ms = fetch_timeout_ms
        """S: how long a silence makes the leader suspect; found when the leader is heard."""
        self.look_at_ms = NEVER_MS
        """When the silence will have lasted for S; NEVER_MS while this node does not wait."""
        self.silent_at_ms = -1
        """The last turn of this node that has found that the leader was silent for S; -1 if none has."""
        self.ask_at_ms = NEVER_MS
        """When to ask for pre-votes, if it is silent until then."""
        self.has_asked = False
        """Whether pre-votes were asked for during this silence."""
        self.round = 0
        """The number of the last round of pre-votes that a suspicion led to; never used twice."""

    def on_asked(self, now_ms: int) -> None:
        """A fetch was sent to the leader; if the last one failed, the silence goes on."""
        if self._since_ms == NEVER_MS:
            self._since_ms = now_ms
            self.look_at_ms = now_ms + self.span_ms

    def on_heard(self, epoch: Epoch, leader_id: NodeId, now_ms: int, *, is_response: bool) -> int:
        """The leader was heard: it answered the fetch, or told something while the fetch still waits.

        Returns:
            How long it was silent if it was suspected, so that S is doubled now; else 0.
        """
        silent_ms = 0
        if self._leader != (epoch, leader_id):
            self._leader = (epoch, leader_id)
            self._gap_ms = self._gap_before_ms = _UNKNOWN
            self._window_ends_ms = now_ms + GAP_WINDOW_MS
            self._since_ms = NEVER_MS
        elif self._since_ms != NEVER_MS:
            gap_ms = now_ms - self._since_ms
            self._record_gap(gap_ms, now_ms)
            if self.has_asked:
                silent_ms = gap_ms
                self._double(now_ms)
        still_waits = not is_response and self._since_ms != NEVER_MS
        self._wait_anew(now_ms if still_waits else NEVER_MS, now_ms)
        return silent_ms

    def _record_gap(self, gap_ms: int, now_ms: int) -> None:
        if now_ms >= self._window_ends_ms:
            self._gap_before_ms, self._gap_ms = self._gap_ms, gap_ms
            self._window_ends_ms = now_ms + GAP_WINDOW_MS
        self._gap_ms = max(self._gap_ms, gap_ms)

    def on_stalled(self, now_ms: int) -> None:
        """This process stood still: what the leader sent meanwhile is read only now, or later (D-01)."""
        self._wait_anew(now_ms if self._since_ms != NEVER_MS else NEVER_MS, now_ms)

    def on_silent(self, now_ms: int, ask_at_ms: int) -> None:
        """A turn found, after everything that had arrived, that the leader was silent for S; pre-votes are
        asked for at `ask_at_ms`, unless it is heard before.
        """
        self.silent_at_ms = now_ms
        self.ask_at_ms = ask_at_ms

    @property
    def is_silent(self) -> bool:
        """Whether the leader was silent for S, as of the last turn."""
        return self.silent_at_ms >= 0

    def is_known_silent(self, now_ms: int) -> bool:
        """Whether it was, by a turn so lately that this process did not stand still since (D-01)."""
        return self.is_silent and now_ms - self.silent_at_ms <= STALL_MS

    def begin_round(self) -> int:
        """Pre-votes are asked for. Returns the number of the round."""
        self.has_asked = True
        self.ask_at_ms = NEVER_MS
        self.round += 1
        return self.round

    def on_campaign(self, leader_id: NodeId, epoch: Epoch, now_ms: int) -> None:
        """A majority did not hear the leader either, and this node campaigns in this epoch."""
        self._deposed = (epoch, leader_id)
        self._wait_anew(NEVER_MS, now_ms)

    def on_vote_response(self, node_id: NodeId, epoch: Epoch, now_ms: int) -> bool:
        """A voter answered this candidate. Returns whether it is the suspected leader: so S is doubled.

        A leader that stands still, or is gone, does not answer before the others have elected a successor.
        One that does was alive, and only the way to it was slow.
        """
        if self._deposed != (epoch, node_id):
            return False
        self._deposed = _NOBODY
        self._double(now_ms)
        self._find_span(now_ms)
        return True

    def _double(self, now_ms: int) -> None:
        is_over = now_ms >= self._doubled_until_ms
        self._doublings = 1 if is_over else min(self._doublings + 1, _DOUBLINGS_MAX)
        self._doubled_until_ms = now_ms + WRONG_SUSPICION_MS

    def _wait_anew(self, since_ms: int, now_ms: int) -> None:
        """Begin a new silence, or none (NEVER_MS)."""
        self._find_span(now_ms)
        self._since_ms = since_ms
        self.look_at_ms = NEVER_MS if since_ms == NEVER_MS else since_ms + self.span_ms
        self.silent_at_ms = -1
        self.has_asked = False
        self.ask_at_ms = NEVER_MS

    def _find_span(self, now_ms: int) -> None:
        longest_gap_ms = max(self._gap_ms, self._gap_before_ms)
        doublings = self._doublings if now_ms < self._doubled_until_ms else 0
        self.span_ms = self._span_max_ms
        if longest_gap_ms != _UNKNOWN:
            span_ms = max(SUSPECT_MS, SUSPECT_AFTER_GAPS * longest_gap_ms) << doublings
            self.span_ms = min(span_ms, self._span_max_ms)

    def silent_ms(self, now_ms: int) -> int:
        """How long the leader has been silent while this node waited for it."""
        return now_ms - self._since_ms if self._since_ms != NEVER_MS else 0
