"""The leader's side of replication: fetches, held back or answered, and what they acknowledge.

A fetch position is an acknowledgement: its sender holds everything before it durably. So only a position that
lies on this log counts, and only from the member known under that id (D-06). The high watermark moves when a
majority has acknowledged a record of the leader's own epoch, never before (the case S1..S5: a record of an
older epoch on a majority can still be overwritten), and followers that wait here are told within a
millisecond, with the next records if there are any (D-10).

Follows: FREQ-*, HWM-*, D-10, D-11, D-15.
Differs: only members are given what is not committed yet. While handing over the leader goes on serving
fetches (FREQ-26), because that is what it waits for (D-09). News of the high watermark wait a millisecond
for records to take them along (D-10 says at once): that saves a sixth of the work for a lone writer.
"""

from collections.abc import Sequence

from kraftd.errors import ErrorCode
from kraftd.protocol import messages as m
from kraftd.raft import wire
from kraftd.raft.core import Core
from kraftd.raft.effects import AppendDone, ColdRead, Reply
from kraftd.raft.events import BatchesRead, RequestReceived
from kraftd.raft.leadership import Leadership
from kraftd.raft.parked import Fetch
from kraftd.raft.timing import NEVER_MS
from kraftd.raft.wire import FetchAsk
from kraftd.records.batch import BatchView
from kraftd.types import Now, Offset, ReplicaKey

_NEWS_DELAY_MS = 1


class Replication:
    """The part of a member that serves its log."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self._prepared: tuple[tuple[int, int, int], m.FetchResponse] | None = None

    # --- requests ---------------------------------------------------------------------------------------

    def on_fetch(self, event: RequestReceived, ask: FetchAsk, now: Now) -> None:
        """Answer a fetch, or hold it back."""
        core = self.core
        led = core.leadership
        if ask.replica.id < 0 and event.peer is not None:
            core.peers.note_awareness(event.peer)
            if led is not None:
                led.note_uncounted(event.peer.node_id)
        error = self._check(ask, led)
        if error is not ErrorCode.INVALID_REQUEST and not self._is_vouched(event, ask):
            error = ErrorCode.INVALID_VOTER_KEY
        if error is not None or led is None:
            core.refuse_fetch(event.handle, event.version, error or ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        if ask.position.offset < core.log.start_offset:
            core.refuse_fetch(event.handle, event.version, ErrorCode.OFFSET_OUT_OF_RANGE)
            return
        diverging = core.log.diverges_at(ask.position)
        if diverging is not None:
            response = wire.fetch_response(
                ErrorCode.NONE,
                core.fetch_standing(event.version),
                high_watermark=led.high_watermark,
                log_start_offset=core.log.start_offset,
                diverging=diverging,
            )
            core.reply(event.handle, response)
            return
        if ask.replica.id >= 0:
            self._acknowledge(led, ask, now)
        wait_ms = min(ask.max_wait_ms, core.timing.park_ms)
        fetch = Fetch(
            event.handle,
            ask.replica.id,
            ask.position.offset,
            ask.high_watermark,
            core.log.fetch_bytes_max,
            event.version,
            now.mono_ms + wait_ms,
        )
        self._serve(led, fetch, wait_ms)

    def _check(self, ask: FetchAsk, led: Leadership | None) -> ErrorCode | None:
        """What is wrong with a fetch before its position is looked at (FREQ-01, FREQ-02)."""
        core = self.core
        if not wire.is_sane(ask):
            return ErrorCode.INVALID_REQUEST
        if ask.epoch < core.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if ask.epoch > core.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        if led is None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if ask.replica.id == core.me.id:
            return ErrorCode.UNKNOWN_SERVER_ERROR
        return None

    def _is_vouched(self, event: RequestReceived, ask: FetchAsk) -> bool:
        """Whether the fetch comes from the member that it names, and may be counted for it (D-06).

        Not only a leader says no: a member whose disk was replaced must hear of it from whoever knows.
        """
        core = self.core
        if ask.replica.id == core.me.id or ask.replica.id not in core.voters or not core.is_voter:
            return True  # an observer, whoever it is, is never counted, and counts nobody
        if event.peer is None or event.peer.node_id != ask.replica.id:
            return False
        if core.mending.has_forgotten:
            return True
        barriers = core.peers.vouch(event.peer)
        if barriers is None:
            return False
        core.out.extend(barriers)
        return True

    def _acknowledge(self, led: Leadership, ask: FetchAsk, now: Now) -> None:
        """Note how far a replica has come, and what follows from it."""
        core = self.core
        offset = ask.position.offset
        follower = led.followers.get(ask.replica.id)
        if follower is None:
            key = ReplicaKey(ask.replica.id, ask.replica.directory_id)
            led.observer(key, now.mono_ms).on_fetch(offset, core.log.end_offset, now)
            return
        if follower.key.directory_id != ask.replica.directory_id:
            follower.key = ask.replica
        if follower.on_fetch(offset, core.log.end_offset, now):
            led.check_quorum.hear(ask.replica.id, now.mono_ms)
        self.advance(led, now)

    # --- the high watermark -----------------------------------------------------------------------------

    def advance(self, led: Leadership, now: Now) -> None:
        """Move the high watermark to what a majority holds durably, if that is past the epoch's start."""
        core = self.core
        offset = led.majority_offset(core.me.id, core.log.flushed_offset, core.voters)
        if offset <= led.epoch_start_offset or offset <= led.high_watermark:
            return
        is_first = led.high_watermark < 0
        led.high_watermark = offset
        core.commit(offset)
        if is_first:
            led.reads.establish(offset)
        led.note_committed(offset)
        out = core.out
        for waiter in led.waiters.committed(offset):
            out.append(AppendDone(waiter.token, ErrorCode.NONE, waiter.end_offset))
        led.news_at_ms = min(led.news_at_ms, now.mono_ms + _NEWS_DELAY_MS)

    # --- answers ----------------------------------------------------------------------------------------

    def serve_parked(self, led: Leadership, now: Now) -> None:
        """The log grew: answer those who waited for records."""
        led.news_at_ms = NEVER_MS
        for fetch in led.parked.take_all():
            self._serve(led, fetch, fetch.deadline_ms - now.mono_ms)

    def tell_news(self, led: Leadership) -> None:
        """Answer those who do not know the high watermark (D-10), if no records took it along meanwhile.

        A writer that has its answer sends its next change well within that millisecond. Without it each
        group would cost two answers and two fetches of every follower instead of one.
        """
        led.news_at_ms = NEVER_MS
        for fetch in led.parked.take_uninformed(led.high_watermark):
            self._serve(led, fetch, 0)

    def expire_parked(self, led: Leadership, now_ms: int) -> None:
        """Answer those who waited long enough, with what there is: nothing (FREQ-07)."""
        for fetch in led.parked.take_expired(now_ms):
            self._reply(led, fetch, ())

    def on_batches_read(self, event: BatchesRead) -> bool:
        """A cold read for a fetch ended; returns whether it was one. All is checked anew (D-15)."""
        led = self.core.leadership
        fetch = led.cold.pop(event.token, None) if led is not None else None
        if led is None or fetch is None:
            return False
        if event.records and event.generation == self.core.log.generation:
            may_have_all = fetch.replica_id >= 0 or led.high_watermark >= self.core.log.end_offset
            records = event.records if may_have_all else _committed(event.records, led.high_watermark)
            self._reply(led, fetch, (records,) if records else ())
        else:
            self.core.refuse_fetch(fetch.handle, fetch.version, ErrorCode.UNKNOWN_SERVER_ERROR)
        return True

    def _serve(self, led: Leadership, fetch: Fetch, wait_ms: int) -> None:
        core = self.core
        limit = None if fetch.replica_id >= 0 else max(led.high_watermark, core.log.start_offset)
        batches = core.log.read(fetch.offset, fetch.max_bytes, limit)
        if batches is None:
            token = core.new_token()
            led.cold[token] = fetch
            core.out.append(ColdRead(token, core.log.generation, fetch.offset, fetch.max_bytes))
            return
        may_wait = wait_ms > 0 and not batches
        is_follower = fetch.replica_id in led.followers
        if not may_wait or (not is_follower and led.parked.is_full_for(fetch.replica_id)):
            self._reply(led, fetch, batches)
            return
        replaced = led.parked.replaced_by(fetch)
        if replaced is not None:
            self._reply(led, replaced, ())
        led.parked.park(fetch)
        if fetch.wants_high_watermark(led.high_watermark):
            now_ms = fetch.deadline_ms - wait_ms
            led.news_at_ms = min(led.news_at_ms, now_ms + _NEWS_DELAY_MS)

    def _reply(self, led: Leadership, fetch: Fetch, batches: Sequence[bytes]) -> None:
        response = self._good_response(led, fetch.version)
        self.core.out.append(Reply(fetch.handle, response, batches))

    def _good_response(self, led: Leadership, version: int) -> m.FetchResponse:
        """The body of a good answer: the same for all until the high watermark moves."""
        key = (led.epoch, led.high_watermark, version)
        if self._prepared is None or self._prepared[0] != key:
            response = wire.fetch_response(
                ErrorCode.NONE,
                self.core.fetch_standing(version),
                high_watermark=led.high_watermark,
                log_start_offset=self.core.log.start_offset,
            )
            self._prepared = (key, response)
        return self._prepared[1]


def _committed(records: bytes, high_watermark: Offset) -> bytes:
    """The batches of a cold read that end at or before the high watermark: it went to the log's end."""
    at = 0
    while at < len(records):
        batch = BatchView(records, at)
        if batch.end_offset > high_watermark:
            break
        at += batch.size_bytes
    return records[:at]
