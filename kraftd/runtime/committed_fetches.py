"""Gives readers of the log what is committed, on any node: FetchCommitted, for `kraftctl watch`.

A reader asks for the records from an offset on, and asks again when it has them: so nothing is kept for one
that has stopped reading but the response that it asked for, and the server closes a connection that does not
take that. A reader that is level with the log waits here for the next commit, at most `WATCHERS_MAX` of them,
one request a connection. Who waits is answered together, as observers are (D-24): when something is
committed, at once, and after that at most every `kraftd.observer.linger.ms`. In one turn they are given
`TURN_BYTES`, and the disk is read for one of them at a time.

What is before the log's start is in a snapshot; a reader takes that with an export (`log_export`), on a
connection of its own.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from kraftd.errors import ErrorCode
from kraftd.net.server import InboundConnection
from kraftd.protocol.codec import Buffer, Request
from kraftd.protocol.limits import COMMITTED_BYTES_MAX, WATCHERS_MAX
from kraftd.protocol.messages import FetchCommittedRequest, FetchCommittedResponse
from kraftd.raft import RaftNode
from kraftd.records.batch import ending_by
from kraftd.runtime.driver import Driver, TimedTurnTask
from kraftd.runtime.request_router import ApiHandler, FailureHandler, Requester, raise_again
from kraftd.runtime.store import DirectoryStore
from kraftd.types import NEVER_MS, Now, Offset

TURN_BYTES = 1 << 20
"""What all readers together are given in one turn, but for the last batch."""

WAIT_MS_MAX = 30_000
"""How long a request waits for records at most, whatever it asks for."""


class _Waiting(msgspec.Struct, frozen=True, gc=False):
    """A request that is not answered yet."""

    connection: Requester
    request: Request
    deadline_ms: int
    is_level: bool
    """Whether it is answered with the others: nothing was there for it, or only what came since they were."""

    @property
    def offset(self) -> Offset:
        """Where it begins to read."""
        offset: Offset = self.request.message.offset
        return offset

    @property
    def max_bytes(self) -> int:
        """How much it is given at most, but for a larger batch."""
        wanted: int = self.request.message.max_bytes
        return min(max(wanted, 0), COMMITTED_BYTES_MAX)


class CommittedFetches(TimedTurnTask):
    """Answers FetchCommitted."""

    def __init__(
        self,
        raft_node: RaftNode,
        store: DirectoryStore,
        driver: Driver,
        *,
        linger_ms: int,
        failed: FailureHandler = raise_again,
    ) -> None:
        self._raft_node = raft_node
        self._store = store
        self._driver = driver
        self._linger_ms = linger_ms
        self._failed = failed
        self._waiting: dict[int, _Waiting] = {}
        """By the number of the connection."""
        self._unread: deque[_Waiting] = deque()
        """What waits until the disk was read for another."""
        self._is_reading = False
        self._looked_at: Offset = -1
        """The high watermark when it was last looked at what waits."""
        self._due_ms = NEVER_MS
        """When it must be looked at again, if nothing more is committed."""
        self._group_offset: Offset = 0
        """Who is level with this has seen all that the last group was given."""
        self._group_not_before_ms = 0

    @property
    def handlers(self) -> Mapping[type[Any], ApiHandler]:
        """The handler of each type of request that is answered here."""
        return {FetchCommittedRequest: self.serve}

    def forget(self, connection: InboundConnection) -> None:
        """Drop the requests of a closed connection, unless the disk is being read for one."""
        self._waiting.pop(connection.number, None)
        self._unread = deque(each for each in self._unread if each.connection.number != connection.number)

    def serve(self, connection: Requester, request: Request) -> None:
        """Refuse a request, or let it wait for this turn's end or for records."""
        message: FetchCommittedRequest = request.message
        now_ms = self._driver.now().mono_ms
        wait_ms = min(message.max_wait_ms, WAIT_MS_MAX)
        waiting = _Waiting(connection, request, now_ms + wait_ms, self._is_level(message.offset, now_ms))
        refusal = self._refusal(message)
        if refusal is not None:
            self._reply(waiting, error=refusal)
            return
        former = self._waiting.pop(connection.number, None)
        if former is not None:
            self._reply(former)
        # Who only waits for the next record takes nobody's room who has something to read.
        only_waits = waiting.offset >= self._raft_node.high_watermark
        if len(self._waiting) + len(self._unread) >= (WATCHERS_MAX if only_waits else 2 * WATCHERS_MAX):
            self._reply(waiting)
            return
        self._waiting[connection.number] = waiting
        self._due_ms = min(self._due_ms, self._due_at_ms(waiting))
        self._driver.wake()

    def _is_level(self, offset: Offset, now_ms: int) -> bool:
        if now_ms < self._group_not_before_ms:
            return offset >= self._group_offset
        return offset >= self._raft_node.high_watermark

    def _refusal(self, message: FetchCommittedRequest) -> tuple[ErrorCode, str] | None:
        if message.offset < 0 or message.max_wait_ms < 0:
            return ErrorCode.INVALID_REQUEST, "offset and wait must not be negative"
        start = self._raft_node.log.start_offset
        if message.offset < start:
            why = f"the log begins at offset {start}; what was before is in a snapshot"
            return ErrorCode.OFFSET_OUT_OF_RANGE, why
        return None

    # Turn task.

    def run(self, now: Now) -> None:
        """Answer what is due."""
        if self._waiting and now.mono_ms >= self.wake_at_ms():
            self._answer_due(now.mono_ms)

    def wake_at_ms(self) -> int:
        """When a request must be answered; NEVER_MS if none waits."""
        if not self._waiting:
            return NEVER_MS
        if self._raft_node.high_watermark > self._looked_at:
            return min(self._due_ms, self._group_not_before_ms)
        return self._due_ms

    def _answer_due(self, now_ms: int) -> None:
        high_watermark = self._raft_node.high_watermark
        left, is_group = TURN_BYTES, False
        for number, waiting in list(self._waiting.items()):
            if self._due_at_ms(waiting) > now_ms:
                continue
            if left <= 0:
                break
            del self._waiting[number]
            is_group = is_group or (waiting.is_level and waiting.offset < high_watermark)
            try:
                left -= self._answer(waiting)
            except Exception as error:  # noqa: BLE001 - as what leaves a handler at once (D-14)
                self._failed(waiting.connection, waiting.request, error)
        if is_group and left > 0:  # else the rest of it comes with the next turn
            self._group_offset = high_watermark
            self._group_not_before_ms = now_ms + self._linger_ms
        self._looked_at = high_watermark
        self._due_ms = min(map(self._due_at_ms, self._waiting.values()), default=NEVER_MS)

    def _due_at_ms(self, waiting: _Waiting) -> int:
        """When a request must be answered, as far as is known now."""
        if waiting.offset >= self._raft_node.high_watermark:
            return waiting.deadline_ms
        return self._group_not_before_ms if waiting.is_level else 0

    # Responses.

    def _answer(self, waiting: _Waiting) -> int:
        """Answer with what is committed, or begin to read it from the disk; returns how many bytes it is."""
        refusal = self._refusal(waiting.request.message)
        if refusal is not None:
            self._reply(waiting, error=refusal)
            return 0
        batches = self._raft_node.committed_batches(waiting.offset, waiting.max_bytes)
        if batches is not None:
            self._reply(waiting, batches)
            return sum(map(len, batches))
        self._unread.append(waiting)
        self._read_next()
        return 0

    def _read_next(self) -> None:
        """Read the disk for whoever waits longest, if it is not being read for another."""
        if self._is_reading or not self._unread:
            return
        waiting = self._unread.popleft()
        self._is_reading = True
        # What is committed only after this may be another history than what is read.
        committed = self._raft_node.high_watermark
        self._store.read_cold(
            waiting.offset, waiting.max_bytes, lambda records: self._read(waiting, records, committed)
        )

    def _read(self, waiting: _Waiting, records: bytes, committed: Offset) -> None:
        """Answer with what was read, as far as it was committed when the read began."""
        self._is_reading = False
        try:
            self._answer_read(waiting, records, committed)
        except Exception as error:  # noqa: BLE001 - as what leaves a handler at once (D-14)
            self._failed(waiting.connection, waiting.request, error)
        self._read_next()

    def _answer_read(self, waiting: _Waiting, records: bytes, committed: Offset) -> None:
        refusal = self._refusal(waiting.request.message)
        if refusal is None and not records:
            why = f"the log cannot be read at offset {waiting.offset} here; ask another node"
            refusal = ErrorCode.UNKNOWN_SERVER_ERROR, why
        if refusal is not None:
            self._reply(waiting, error=refusal)
        else:
            given = ending_by(records, committed)
            self._reply(waiting, (given,) if given else ())

    def _reply(
        self,
        waiting: _Waiting,
        batches: Sequence[Buffer] = (),
        *,
        error: tuple[ErrorCode, str | None] = (ErrorCode.NONE, None),
    ) -> None:
        code, why = error
        response = FetchCommittedResponse(
            error_code=code,
            error_message=why,
            high_watermark=self._raft_node.high_watermark,
            start_offset=self._raft_node.log.start_offset,
        )
        request = waiting.request
        waiting.connection.reply(request.api_version, request.correlation_id, response, batches)
