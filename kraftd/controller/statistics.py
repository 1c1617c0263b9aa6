"""How long controller events wait and take, by kind, and which single ones were the slowest.

The applier and `ControllerApis` measure, because this package has no clock, and call `observe` once an
event. Times go into buckets of powers of two, so that an event costs the same at any rate and a percentile is
good to a factor of two. Follows: Kafka's EventQueueTimeMs and EventQueueProcessingTimeMs, kept per kind here.
"""

import msgspec

_BUCKETS = 40

SLOWEST_MAX = 10
"""How many single events are remembered."""


class Distribution(msgspec.Struct, frozen=True):
    """How one time is distributed, in microseconds. Percentiles are the upper bounds of their buckets."""

    total_us: int
    max_us: int
    p50_us: int
    p99_us: int


class KindTimes(msgspec.Struct, frozen=True):
    """All events of one kind so far."""

    kind: str
    count: int
    queue: Distribution
    processing: Distribution


class SlowEvent(msgspec.Struct, frozen=True):
    """One event that was slow."""

    kind: str
    queue_us: int
    processing_us: int
    at_ms: int
    """When it was handled, on the clock of this node: milliseconds since 1970."""

    @property
    def total_us(self) -> int:
        """From when it came in until it was over."""
        return self.queue_us + self.processing_us


class EventStatistics:
    """Queue time and processing time per kind of event. One owner, mutable."""

    __slots__ = ("_floor_us", "_kinds", "busy_us", "count", "slowest")

    def __init__(self) -> None:
        self.count = 0
        """All events so far."""
        self.busy_us = 0
        """What handling them took, in microseconds."""
        self.slowest: list[SlowEvent] = []
        """The slowest single events so far, the slowest first."""
        self._floor_us = 0
        """What an event must take to be one of them."""
        self._kinds: dict[str, tuple[_Histogram, _Histogram]] = {}

    def observe(self, kind: str, queue_us: int, processing_us: int, at_ms: int) -> None:
        """Count one event: how long it waited and handling it took, in microseconds, and when that was."""
        self.count += 1
        self.busy_us += processing_us
        if queue_us + processing_us > self._floor_us:
            self._note(SlowEvent(kind, queue_us, processing_us, at_ms))
        pair = self._kinds.get(kind)
        if pair is None:
            pair = self._kinds[kind] = (_Histogram(), _Histogram())
        pair[0].add(queue_us)
        pair[1].add(processing_us)

    def _note(self, event: SlowEvent) -> None:
        self.slowest = sorted([*self.slowest, event], key=lambda each: -each.total_us)[:SLOWEST_MAX]
        if len(self.slowest) == SLOWEST_MAX:
            self._floor_us = self.slowest[-1].total_us

    def statistics(self) -> tuple[KindTimes, ...]:
        """The distribution of both times so far, by kind."""
        return tuple(
            KindTimes(kind, queue.count, queue.distribution(), processing.distribution())
            for kind, (queue, processing) in sorted(self._kinds.items())
        )

    def overall(self) -> tuple[Distribution, Distribution]:
        """The distribution of queue time and of processing time of all events."""
        queue, processing = _Histogram(), _Histogram()
        for one_queue, one_processing in self._kinds.values():
            queue.add_all(one_queue)
            processing.add_all(one_processing)
        return queue.distribution(), processing.distribution()


class _Histogram:
    __slots__ = ("buckets", "count", "max_us", "total_us")

    def __init__(self) -> None:
        self.buckets = [0] * _BUCKETS
        self.count = 0
        self.total_us = 0
        self.max_us = 0

    def add(self, value_us: int) -> None:
        self.count += 1
        self.total_us += value_us
        if value_us > self.max_us:
            self.max_us = value_us
        bits = value_us.bit_length()
        self.buckets[bits if bits < _BUCKETS else -1] += 1

    def add_all(self, other: "_Histogram") -> None:
        self.count += other.count
        self.total_us += other.total_us
        self.max_us = max(self.max_us, other.max_us)
        self.buckets = [mine + its for mine, its in zip(self.buckets, other.buckets, strict=True)]

    def distribution(self) -> Distribution:
        return Distribution(self.total_us, self.max_us, self._percentile(50), self._percentile(99))

    def _percentile(self, percent: int) -> int:
        wanted = -(-self.count * percent // 100)
        seen = 0
        for bits, count in enumerate(self.buckets):
            seen += count
            if seen >= wanted:
                return min((1 << bits) - 1, self.max_us)
        return self.max_us
