"""Answers the requests that are not for the raft node: those of the controller and of operators.

Entered by the request router, through `handlers`, and as the effect executor's
`OutcomeHandler`, when the raft node is done with what such a request needed: an append, a linearizable
read, a resignation. Each request gets exactly one reply; what the raft node is asked on its behalf carries
a deadline (D-13).

The controller's own writes (its first records, its NoOps) take the same way, without a reply: `run` asks
for them once a turn. So do the slices of what grows with partitions, one a turn, so that sockets are read and
other requests decided between two of them (D-35); whoever asked for it is replied to with the last one.

A request is handled as it arrives, unless this turn was long already: then it waits in the event queue. What
requests write between `begin_group`, before clients are served, and the end of `run` is appended there, as
one (D-39): no socket is read in between. What comes at any other time is appended at once.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from kraftd.controller.decisions import (
    AfterWrite,
    DecisionWithoutWrite,
    ImmediateResponse,
    NeedsRead,
    Resolved,
    RunningPlan,
    Started,
    Write,
)
from kraftd.controller.event_queue import TURN_NS, Event, EventClass, EventQueue
from kraftd.controller.plans import LogLine
from kraftd.controller.quorum_controller import QuorumController
from kraftd.errors import ErrorCode, InvariantError
from kraftd.protocol.brief import brief
from kraftd.protocol.codec import Request
from kraftd.protocol.limits import (
    BYTES_AN_ELEMENT,
    CLIENT_ID_MAX,
    CONFIRMED_ELEMENTS_MAX,
    RESIGN_TIMEOUT_MS_MAX,
    WORDS_BYTES_MAX,
)
from kraftd.protocol.messages import BrokerHeartbeatRequest, ResignLeaderRequest, ResignLeaderResponse
from kraftd.raft import RaftNode, size_of
from kraftd.raft.effects import AppendDone, ReadDone, ResignDone, ShutdownReady
from kraftd.raft.events import AppendRequested, ReadRequested, ResignRequested, Token
from kraftd.runtime.append_group import AppendGroup
from kraftd.runtime.driver import Driver, TimedTurnTask, TurnTask
from kraftd.runtime.effect_executor import OutcomeHandler
from kraftd.runtime.request_router import ApiHandler, FailureHandler, Requester, raise_again
from kraftd.types import NEVER_MS, Now


class _Caller(msgspec.Struct, frozen=True):
    """A request that waits for its reply."""

    connection: Requester
    version: int
    correlation_id: int
    deadline_ms: int = NEVER_MS
    """When it is told that no majority has confirmed the leader."""
    elements: int = 0
    """How much its request names, where that is bounded while it waits for that; else 0."""

    def reply(self, message: Any) -> None:
        self.connection.reply(self.version, self.correlation_id, message)


def _log_nothing(_line: LogLine) -> None:
    """For those who look at no log."""


class GroupBegin(TurnTask):
    """The task of each turn that comes before clients are served."""

    def __init__(self, apis: "ControllerApis") -> None:
        self._apis = apis

    def run(self, now: Now) -> None:  # noqa: ARG002 - the signature of a turn task
        """Begin a group."""
        self._apis.begin_group()


class ControllerApis(OutcomeHandler, TimedTurnTask):
    """Takes requests, and sends exactly one reply to each."""

    def __init__(
        self,
        driver: Driver,
        controller: QuorumController,
        raft_node: RaftNode,
        *,
        request_timeout_ms: int,
        clock_ns: Callable[[], int],
        on_shutdown_ready: Callable[[ShutdownReady], None],
        log: Callable[[LogLine], None] = _log_nothing,
        failed: FailureHandler = raise_again,
    ) -> None:
        self._driver = driver
        self._controller = controller
        self._raft_node = raft_node
        self._timeout_ms = request_timeout_ms
        self._clock_ns = clock_ns
        self._on_shutdown_ready = on_shutdown_ready
        self._log = log
        self._failed = failed
        self.queue = EventQueue()
        """What waits for its share of the controller's time."""
        self.timed_out_heartbeats = 0
        """Heartbeats that waited too long to be decided (Kafka's TimedOutBrokerHeartbeatCount)."""
        self._last_token = 0
        self._is_grouping = False
        """Whether what is written waits for the end of `run`."""
        self._group: AppendGroup[_Caller | None] | None = None
        """What waits for it."""
        self._appends: dict[Token, list[tuple[Write, _Caller | None]]] = {}
        """The writes of each group, in order."""
        self._after: dict[Write, list[tuple[AfterWrite, _Caller]]] = {}
        """By a write that is not committed, who waits for it besides the one who asked for it."""
        self._newest_committed: Write | None = None
        """It may not be applied yet: then the controller still counts it as uncommitted."""
        self._plans: dict[RunningPlan, _Caller] = {}
        """Who waits for the last slice of a plan."""
        self._reads: dict[Token, tuple[NeedsRead, _Caller]] = {}
        self._confirmed_elements = 0
        """Of the requests that change nothing and wait."""
        self._resignations: dict[Token, _Caller] = {}

    @property
    def handlers(self) -> Mapping[type[Any], ApiHandler]:
        """The handler of each type of request that is answered here."""
        noted = self._controller.noted_requests
        return {
            ResignLeaderRequest: self._serve_resign,
            **{
                request: partial(self._serve_noted if request in noted else self._serve, event_class)
                for request, event_class in self._controller.event_classes.items()
            },
        }

    def statistics(self) -> Mapping[str, int]:
        """How many requests wait for an append, a read and a resignation."""
        open_group = 0 if self._group is None else len(self._group.writes)
        return {
            "appends": sum(map(len, self._appends.values())) + open_group,
            "plans": len(self._plans),
            "reads": len(self._reads),
            "resignations": len(self._resignations),
        }

    # The controller's side.

    def begin_group(self) -> None:
        """Let what is written from now on wait for the end of `run`."""
        self._is_grouping = True

    def run(self, now: Now) -> None:
        """Handle what waits, then the next slice of what is done in slices, and what is due by itself. Then
        everything that was written in this turn is appended.
        """
        self._run(now)
        self._is_grouping = False
        self._end_group(now)

    def _run(self, now: Now) -> None:
        controller, queue = self._controller, self.queue
        if queue.total_ns:
            queue.begin_turn()
        while queue.count and (event := queue.take(now.mono_ms)) is not None:
            event.handle()
        if now.mono_ms < controller.wake_at_ms:
            return
        if controller.has_next_slice:
            self._run_slice(now)
        if now.mono_ms < controller.poll_at_ms:
            return
        started_ns = self._clock_ns()
        write = controller.poll(now)
        if write is not None:
            self._append(write, None, now, EventClass.SESSIONS)
            self._observe(write.kind, EventClass.SESSIONS, started_ns, now)
        self._write_lines()

    def wake_at_ms(self) -> int:
        """When an event waits, or the controller wants to write by itself."""
        return 0 if self.queue.count else self._controller.wake_at_ms

    def append_done(self, done: AppendDone) -> None:
        """Reply to the requests whose writes were committed or refused, in their order."""
        controller, error = self._controller, done.error
        writes = self._appends.pop(done.token)
        if error is ErrorCode.NONE:
            self._newest_committed = writes[-1][0]
        for write, caller in writes:
            response = controller.finished(write, error)
            if caller is not None:
                if response is None:
                    raise InvariantError(f"{write.kind} has a caller and no response")
                caller.reply(response)
            if write.slice_of is not None:
                self._write_lines()
            if self._after and (waiting := self._after.pop(write, None)) is not None:
                for after, other in waiting:
                    if error is ErrorCode.NONE:
                        self._resolve(after.then, other)
                    else:
                        self._reply(other, after.refuse(error))

    def read_done(self, done: ReadDone) -> None:
        """Reply to the request whose read was confirmed or refused."""
        read, caller = self._reads.pop(done.token)
        self._reply(caller, read.respond() if done.error is ErrorCode.NONE else read.refuse(done.error))
        if self._controller.lines:
            self._write_lines()

    def _serve(self, event_class: EventClass, connection: Requester, request: Request) -> None:
        """Handle a request now, or let it wait for the next turn if this one was long."""
        queue = self.queue
        if (queue.count or queue.total_ns >= TURN_NS) and not queue.may_handle(event_class):
            self._let_wait(event_class, connection, request)
        else:
            self._handle(event_class, connection, request)

    def _serve_noted(self, event_class: EventClass, connection: Requester, request: Request) -> None:
        """Serve a request of which the controller wants to know when it came in."""
        self._controller.arrived(request.message, self._driver.now())
        self._serve(event_class, connection, request)

    def _let_wait(self, event_class: EventClass, connection: Requester, request: Request) -> None:
        message, arrived_ns = request.message, self._clock_ns()
        patience_ms = self._timeout_ms
        if event_class is EventClass.SESSIONS:
            patience_ms = min(patience_ms, self._controller.settings.broker_heartbeat_interval_ms // 2)

        def handle() -> None:
            self._handle(event_class, connection, request, arrived_ns)

        def expire() -> None:
            self.timed_out_heartbeats += type(message) is BrokerHeartbeatRequest
            _caller(connection, request).reply(self._controller.too_late(message))

        self.queue.add(
            Event(
                message.NAME,
                event_class,
                arrived_ns,
                self._driver.now().mono_ms + patience_ms,
                lambda: self._late(connection, request, handle),
                lambda: self._late(connection, request, expire),
            )
        )

    def _late(self, connection: Requester, request: Request, work: Callable[[], None]) -> None:
        """Do something for a request that the router has handed on long ago."""
        try:
            work()
        except Exception as error:  # noqa: BLE001 - as what leaves a handler at once (D-14)
            self._failed(connection, request, error)

    def _handle(
        self, event_class: EventClass, connection: Requester, request: Request, arrived_ns: int = 0
    ) -> None:
        """Decide a request. One that waited came in at `arrived_ns`, any other in this turn."""
        started_ns = self._clock_ns()
        now, controller, message = self._driver.now(), self._controller, request.message
        client = connection.client
        if client is None or client.client_id != request.client_id:
            client = replace(connection.session, client_id=request.client_id)
            connection.client = client if len(request.client_id or "") <= CLIENT_ID_MAX else None
        decision = controller.handle(message, now, request.api_version, client)
        if type(decision) is Write:
            caller = _Caller(connection, request.api_version, request.correlation_id)
            self._append(decision, caller, now, event_class)
        elif type(decision) is ImmediateResponse:
            connection.reply(request.api_version, request.correlation_id, decision.response)
        elif type(decision) is Started:
            self._plans[decision.run] = _caller(connection, request)
        elif isinstance(decision, AfterWrite | NeedsRead):
            self._begin_to_wait(decision, _caller(connection, request), message, now, event_class)
        if controller.lines:
            self._write_lines()
        self._observe(message.NAME, event_class, started_ns, now, arrived_ns)

    def _run_slice(self, now: Now) -> None:
        """Append one slice, and reply to those whose plans ended without one."""
        started_ns = self._clock_ns()
        while type(item := self._controller.next_slice(now)) is Resolved:
            caller, run, decision = self._plans.pop(item.run, None), item.run, item.decision
            if caller is None:
                continue
            if isinstance(decision, ImmediateResponse):
                caller.reply(decision.response)
            else:
                self._begin_to_wait(decision, caller, run.request, now, self._controller.class_of(run))
        if type(item) is Write and item.slice_of is not None:
            caller = self._plans.pop(item.slice_of, None) if item.is_last else None
            event_class = self._controller.class_of(item.slice_of)
            self._append(item, caller, now, event_class)
            self._observe(item.kind, event_class, started_ns, now)
        self._write_lines()

    def _begin_to_wait(
        self,
        decision: AfterWrite | NeedsRead,
        caller: _Caller,
        message: Any,
        now: Now,
        event_class: EventClass,
    ) -> None:
        """Let a request without a write of its own wait, unless too much waits for a confirmed leader."""
        last = decision.then if isinstance(decision, AfterWrite) else decision
        is_bounded = event_class is EventClass.WRITES and isinstance(last, NeedsRead)
        elements = _elements_of(message) if is_bounded else 0
        waiting = self._confirmed_elements
        if elements and waiting and waiting + elements > CONFIRMED_ELEMENTS_MAX:
            caller.reply(decision.refuse(ErrorCode.THROTTLING_QUOTA_EXCEEDED))
            return
        self._confirmed_elements += elements
        self._resolve(
            decision, replace(caller, deadline_ms=now.mono_ms + self._timeout_ms, elements=elements)
        )

    def _resolve(self, decision: DecisionWithoutWrite, caller: _Caller) -> None:
        if isinstance(decision, ImmediateResponse):
            self._reply(caller, decision.response)
        elif isinstance(decision, AfterWrite):
            self._reply_after(decision, caller)
        else:
            self._read(decision, caller)

    def _reply(self, caller: _Caller, message: Any) -> None:
        """Reply to a request that has waited, perhaps for a confirmed leader."""
        self._confirmed_elements -= caller.elements
        caller.reply(message)

    def _read(self, read: NeedsRead, caller: _Caller) -> None:
        """Reply once a majority has confirmed that this node leads, or that could not be."""
        token = self._next_token()
        self._reads[token] = (read, caller)
        self._driver.deliver(ReadRequested(token, caller.deadline_ms))

    def _reply_after(self, after: AfterWrite, caller: _Caller) -> None:
        """Reply once a write is committed, the newest one.

        A write is committed in the middle of a turn and applied at its end: a heartbeat in between is told
        to wait for a write that nobody waits for any more.
        """
        newest = self._group.writes if self._group else next(reversed(self._appends.values()), None)
        if newest is not None and newest[-1][0] is after.write:
            self._after.setdefault(after.write, []).append((after, caller))
        elif after.write is self._newest_committed:
            self._resolve(after.then, caller)
        else:
            self._reply(caller, after.refuse(ErrorCode.REQUEST_TIMED_OUT))

    def _write_lines(self) -> None:
        lines = self._controller.lines
        for line in lines:
            self._log(line)
        lines.clear()

    def _append(self, write: Write, caller: _Caller | None, now: Now, event_class: EventClass) -> None:
        if not write.is_last and caller is not None and write.slice_of is not None:
            self._plans[write.slice_of] = caller
            caller = None
        is_urgent, size_bytes = event_class <= EventClass.REPLICAS, size_of(write.records)
        group = self._group
        if group is not None and not group.takes(write, size_bytes, is_urgent=is_urgent):
            self._end_group(now)
            group = None
        if group is None:
            room_bytes = self._raft_node.append_room_bytes(write.epoch, is_urgent=is_urgent)
            group = self._group = AppendGroup(write.epoch, room_bytes, is_urgent=is_urgent)
        group.add(write, caller, size_bytes)
        if group.room_bytes < 0 or not self._is_grouping:
            self._end_group(now)

    def _end_group(self, now: Now) -> None:
        """Append what waits for it: before anything that could be about these writes, and once a turn."""
        group = self._group
        if group is None:
            return
        self._group = None
        self._controller.end_group()
        token = self._next_token()
        self._appends[token] = group.writes
        deadline_ms = now.mono_ms + self._timeout_ms
        records = tuple(group.records)
        self._driver.deliver(AppendRequested(token, group.epoch, records, deadline_ms, group.is_urgent))

    def _observe(
        self, kind: str, event_class: EventClass, started_ns: int, now: Now, arrived_ns: int = 0
    ) -> None:
        """Count an event: it waited until `started_ns`, and was handled since. It came in at `arrived_ns`, or
        with this turn, which began `now`.
        """
        took_ns = self._clock_ns() - started_ns
        self.queue.spent(event_class, took_ns)
        self._controller.event_statistics.observe(
            kind,
            max(started_ns - (arrived_ns or now.mono_ms * 1_000_000), 0) // 1_000,
            took_ns // 1_000,
            now.wall_ms,
        )

    # The operator's side.

    def resign_done(self, done: ResignDone) -> None:
        """Reply to the request whose resignation has begun or was refused."""
        why = done.reason or ("" if done.error is ErrorCode.NONE else done.error.name)
        self._resignations.pop(done.token).reply(
            ResignLeaderResponse(
                error_code=done.error,
                error_message=brief(why, WORDS_BYTES_MAX) or None,
                epoch=done.epoch,
                leader_id=self._raft_node.leader_id,
                successor=done.successor,
            )
        )

    def shutdown_ready(self, ready: ShutdownReady) -> None:
        """Tell the process that it may exit."""
        self._on_shutdown_ready(ready)

    def _serve_resign(self, connection: Requester, request: Request) -> None:
        message: ResignLeaderRequest = request.message
        self._end_group(self._driver.now())  # what came before is still appended
        token = self._next_token()
        self._resignations[token] = _caller(connection, request)
        timeout_ms = (
            min(message.timeout_ms, RESIGN_TIMEOUT_MS_MAX) if message.timeout_ms > 0 else self._timeout_ms
        )
        self._driver.deliver(ResignRequested(token, message.to, self._driver.now().mono_ms + timeout_ms))

    def _next_token(self) -> Token:
        self._last_token += 1
        return self._last_token


def _elements_of(message: Any) -> int:
    """How much a request names: one, each element of its lists and of theirs, and each
    `BYTES_AN_ELEMENT` bytes of names and values.
    """
    elements, left = 1, [message]
    while left:
        value = left.pop()
        if isinstance(value, msgspec.Struct):
            left += msgspec.structs.astuple(value)
        elif isinstance(value, tuple):
            elements += len(value)
            left += value
        elif isinstance(value, str | bytes):
            elements += len(value) // BYTES_AN_ELEMENT
    return elements


def _caller(connection: Requester, request: Request) -> _Caller:
    return _Caller(connection, request.api_version, request.correlation_id)
