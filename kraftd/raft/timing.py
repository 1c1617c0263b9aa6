"""The timeouts of the quorum, and its one source of random numbers.

`Timing` holds the configured spans and derives the others from them; every random number comes from a
`RandomSource`, so that a simulator decides each. Deadlines are moments on the monotonic clock.

Follows: Kafka's `controller.quorum.*` keys, VOTE-05, EQE-02, CQ-01, BQE-01.
Differs: a backoff that saturates is spread over the upper half of its range. Kafka's reaches its maximum
for every candidate at once, and candidates that retry together split the vote together (KAFKA-18345).
"""

from typing import Protocol

import msgspec

STALL_MS = 200
"""How late a turn may be before timers get a second chance (D-01)."""

LOSS_JITTER_MS = 100
"""The longest wait between losing the leader and asking for pre-votes (D-08)."""

PRE_VOTE_ROUNDS_MAX = 3
"""The most rounds of pre-votes before a node follows its former leader again (D-08)."""

BEAT_MS = 150
"""How long a leader parks a voter's fetch at most: so it is heard at least that often (D-40)."""

SUSPECT_MS = 450
"""The shortest silence that makes a leader suspect, and for how long those are believed who did not hear it
either (D-40).
"""

SUSPECT_AFTER_GAPS = 3
"""How many of its longest gaps, lately, a leader may be silent for before it is suspected (D-40)."""

LISTEN_AGAIN_MS = 100
"""How often a node that suspects its leader makes sure that it has not stood still since (D-40, D-01)."""

GAP_WINDOW_MS = 30_000
"""A gap is remembered for one to two of these."""

WRONG_SUSPICION_MS = 600_000
"""How long S is doubled after a suspicion of a leader that was alive (D-40)."""

MIN_LEADER_MS = 1_000
"""The daemon's `Timing.min_leader_ms`: any client may ask for a hand-over, and no append is taken then."""

OBSERVER_SESSION_MS = 300_000
"""How long a silent observer stays in the leader's description (OBS-09)."""

OBSERVERS_MAX = 1_000
"""The most observers that a leader describes; a new one replaces the oldest."""

_BACKOFF_STEP_MS = 100
_BACKOFF_DOUBLINGS_MAX = 21


class RandomSource(Protocol):
    """The source of random numbers."""

    def next_int(self, below: int) -> int:
        """Return a uniform integer in [0, below)."""


class Timing(msgspec.Struct, frozen=True):
    """The spans of the protocol. All are named after Kafka's configuration keys but the last three."""

    election_timeout_ms: int = 1_000
    fetch_timeout_ms: int = 2_000
    election_backoff_max_ms: int = 1_000
    append_linger_ms: int = 0
    request_timeout_ms: int = 2_000
    retry_backoff_ms: int = 20
    fetch_max_wait_ms: int = 500
    min_leader_ms: int = 0
    """How long a node leads at least before it hands over on request."""
    observer_linger_ms: int = 5
    """How long at least between two responses to observers that are up to date (D-24)."""

    @property
    def check_quorum_ms(self) -> int:
        """How long a leader leads without fetch progress of a majority (CQ-01)."""
        return max(1, self.fetch_timeout_ms * 3 // 2)

    @property
    def heartbeat_interval_ms(self) -> int:
        """The interval of a leader's BeginQuorumEpoch (BQE-01)."""
        return max(1, self.fetch_timeout_ms // 2)

    @property
    def park_ms(self) -> int:
        """The longest wait of a parked fetch: well below the time after which a follower gives up on the
        response, or on the leader.
        """
        return max(1, min(self.fetch_max_wait_ms, self.fetch_timeout_ms // 2, self.request_timeout_ms // 2))

    @property
    def beat_ms(self) -> int:
        """The longest wait of a voter's fetch: it tells, too, that the leader is alive (D-40)."""
        return min(BEAT_MS, self.park_ms)

    def election_ms(self, random_source: RandomSource) -> int:
        """Return a random election timeout in [T, 2T), at least 1."""
        span = self.election_timeout_ms
        return max(1, span + (random_source.next_int(span) if span else 0))

    def backoff_ms(self, attempt: int, random_source: RandomSource) -> int:
        """Return how long to wait after losing candidacy number `attempt`, counted from 1 (VOTE-05)."""
        wait_ms = random_source.next_int(1 << min(attempt, _BACKOFF_DOUBLINGS_MAX)) * _BACKOFF_STEP_MS
        longest = self.election_backoff_max_ms
        if wait_ms < longest:
            return wait_ms
        return longest - random_source.next_int(longest // 2) if longest > 1 else longest

    def successor_delay_ms(self, rank: int, count: int) -> int:
        """Return how long the successor of that rank among `count` waits; rank 0 does not (EQE-02)."""
        longest = self.election_backoff_max_ms
        if rank == 0:
            return 0
        return min(longest, (longest >> (count - 1)) << (rank - 1))


BEHIND_RECORDS = 10_000
"""A node that has more committed records left to apply lets the others campaign first."""

LONG_BACKOFF_MS = 1_000
"""Between requests that are not expected to bring anything soon."""

BEHIND_DELAY_MS = 300
"""How long it lets them: enough for their pre-vote and their vote, and less than an election timeout."""


def loss_delay_ms(random_source: RandomSource) -> int:
    """Return the random wait between losing the leader and a pre-vote: it keeps followers apart (D-08)."""
    return random_source.next_int(LOSS_JITTER_MS + 1)


def ask_again_ms(random_source: RandomSource) -> int:
    """Return the wait before a refused pre-vote is asked once more (D-08)."""
    return 20 + random_source.next_int(31)


def suspect_again_ms(random_source: RandomSource) -> int:
    """Return the wait before a suspicion that was not shared is put to the voters again (D-40)."""
    return 100 + random_source.next_int(51)


def reach_again_ms(random_source: RandomSource) -> int:
    """Return the wait before voters that could not be reached are asked for pre-votes anew (D-08)."""
    return 200 + random_source.next_int(101)
