"""The controller of one node: the state machine behind its log and, on the leader, the active controller.

The driver gives it committed batches (`apply`), snapshots (`restore`), changes of leadership
(`leader_changed`), requests (`handle`) and time (`poll`, due at `poll_at_ms`, and `next_slice`, due while
`has_next_slice`), and carries out what comes back: a `Write` goes to the log and, whatever becomes of it, to
`finished`, which knows the response. All calls come from one loop.

On every node `image` is what is committed. The active controller also has the image after all that it
appended (`active_controller`), and decides on that; losing leadership drops it (D-18). It activates when
told that it leads, which the raft node says only after the LeaderChange record of its epoch has been applied.

How a request is decided or read is in its operation (`admin_apis`); no rule of an API is here.

Follows: Kafka's QuorumController. The order of the log takes the place of its event queue; events queue only
when a turn is long (`event_queue`).
Differs: a NoOp is written when nothing else was for the idle interval, not each interval.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from kraftd.controller.activation import activation_records
from kraftd.controller.active_controller import ActiveController
from kraftd.controller.admin_apis import OPERATIONS
from kraftd.controller.committed_records import ImageRestore, apply_values, check_known
from kraftd.controller.context import NO_CLIENT, Client, ControllerSettings, Leaving, ReadContext
from kraftd.controller.decided_elections import ReasonAndRule
from kraftd.controller.decisions import (
    NOT_ACTIVE_YET,
    TOO_LATE,
    Decision,
    ImmediateResponse,
    KnownLeader,
    NeedsRead,
    Resolved,
    RunningPlan,
    Write,
    read_refusal,
    write_refusal,
)
from kraftd.controller.deletions.tracker import DeletionTracker, Entry, move_fields
from kraftd.controller.election_counts import SeenElections
from kraftd.controller.event_queue import EventClass
from kraftd.controller.failures import failure_line
from kraftd.controller.operations import Operation, ReadOperation, SessionReadOperation, WriteOperation
from kraftd.controller.plans import LogLine
from kraftd.controller.sessions import BrokerSessions
from kraftd.controller.statistics import EventStatistics
from kraftd.errors import ErrorCode, InvariantError
from kraftd.metadata.feature_levels import NO_OP_SINCE
from kraftd.metadata.image import EMPTY, MetadataImage
from kraftd.metadata.partition_states import PartitionState, counts_in
from kraftd.metadata.parts.controllers import ControllerRegistration
from kraftd.metadata.parts.topics.leader_elections import Election
from kraftd.metadata.replica_states import ReplicaState
from kraftd.protocol.messages import BrokerHeartbeatRequest
from kraftd.records.committed import CommittedBatch
from kraftd.records.frame import AnyRecord
from kraftd.types import NEVER_MS, NO_NODE, Epoch, NodeId, Now, Offset, OffsetAndEpoch

ACTIVATION_RETRY_MS = 50
"""How long after a refusal of its first records a new active controller writes them again."""

ACTIVATE = "Activate"
"""The kind of the first records of an activation. That of a request is its name; of a timer, its task's."""

DELETIONS = "Deletions"
"""The kind of what is noted of replicas that were taken away."""

_DEFAULTS = ControllerSettings()

_SEEDS_BITS = 64
"""A leadership makes fewer decisions than this many bits can count, so no two share a seed."""


class QuorumController:
    """The controller of one node; a `kraftd.runtime.applier.StateMachine`.

    Raises:
        UnknownRecordError: The bootstrap records are those of a cluster that kraftd cannot run.
    """

    def __init__(
        self,
        *,
        me: ControllerRegistration,
        bootstrap: Sequence[AnyRecord],
        max_idle_interval_ms: int = 500,
        settings: ControllerSettings = _DEFAULTS,
        operations: Sequence[Operation] = OPERATIONS,
    ) -> None:
        self._me = me
        self._bootstrap = tuple(bootstrap)
        for record in self._bootstrap:
            check_known(record, "a bootstrap record")
        self._max_idle_interval_ms = max_idle_interval_ms
        self._settings = replace(settings, me=me)
        self._image = EMPTY
        self._applied_offset: Offset = 0
        self._leader = KnownLeader()
        self._active: ActiveController | None = None
        self._resolved: deque[Resolved] = deque()
        self._activation_at_ms = NEVER_MS
        self._idle_deadline_ms = NEVER_MS
        self._polled_at_ms = 0
        self._errors_before = 0
        self._elections_before: Counter[ReasonAndRule] = Counter()
        self.lines: list[LogLine] = []
        """What is to be logged: whoever calls takes it out."""
        self.event_statistics = EventStatistics()
        self.new_active_controllers = 0
        """How often a controller became the active one, as this node knows (Kafka's
        NewActiveControllersCount)."""
        self._elections = SeenElections()
        self.deletions = DeletionTracker(settings.broker_session_timeout_ms, self._move_refused)
        """The replicas that were taken away, as far as this node knows."""
        self.sessions = BrokerSessions(settings.broker_session_timeout_ms)
        """What the active controller knows of brokers beside the log; empty on all others."""
        self._operations = {each.request: each for each in operations}
        self._writes = {each.request: each for each in operations if isinstance(each, WriteOperation)}
        self._unread = {each.request.API_KEY: each for each in self._writes.values() if each.refuses_unread}
        self._arrivals = {each.request: each.arrived for each in self._writes.values() if each.arrived}
        handler_of: Mapping[type[Operation], Callable[..., Decision]] = {
            WriteOperation: self._decide_write,
            ReadOperation: self._read,
            SessionReadOperation: self._read_sessions,
        }
        self._handlers = {each.request: partial(handler_of[type(each)], each) for each in operations}

    # -- state

    @property
    def node_id(self) -> NodeId:
        """The node that this controller runs on."""
        return self._me.id

    @property
    def image(self) -> MetadataImage:
        """The committed image."""
        return self._image

    @property
    def applied_offset(self) -> Offset:
        """The end of the batches in `image`; 0 before the first."""
        return self._applied_offset

    @property
    def requests(self) -> frozenset[type[Any]]:
        """The types of request that `handle` takes."""
        return frozenset(self._operations)

    @property
    def event_classes(self) -> Mapping[type[Any], EventClass]:
        """Which share of the time each type of request has."""
        return {
            request: operation.event_class if isinstance(operation, WriteOperation) else EventClass.READS
            for request, operation in self._operations.items()
        }

    @property
    def settings(self) -> ControllerSettings:
        """What its configuration file says."""
        return self._settings

    @property
    def running_plans(self) -> Iterator[RunningPlan]:
        """What is worked off in slices now, or waits for the end of that."""
        return iter(()) if self._active is None else iter(self._active.plans)

    def class_of(self, run: RunningPlan) -> EventClass:
        """Which share of the time a plan has."""
        operation = self._writes.get(type(run.request))
        return EventClass.SESSIONS if operation is None else operation.event_class

    def request_failed(self, request: Any, error: Exception) -> LogLine:
        """Count a request that failed by a defect of this program. Returns the line that says so."""
        self._errors_before += 1
        return failure_line(request.NAME, request, error)

    def refusal(self, request: Any, error: ErrorCode, text: str | None = None) -> Any:
        """The response to a request that was not done, with this reason, or with what the error says."""
        why = write_refusal(error, self._leader) if text is None else text
        return self._operations[type(request)].refuse(request, error, why)

    def refusal_unread(self, api_key: int) -> Any:
        """The response to a request that is refused here whatever it holds; None for one to be read."""
        operation = self._unread.get(api_key) if self._active is None else None
        return operation and operation.refuse(operation.request(), ErrorCode.NOT_CONTROLLER, "")

    def too_late(self, request: Any) -> Any:
        """The response to a request that waited for longer than makes sense to decide it."""
        return self._operations[type(request)].refuse(request, ErrorCode.REQUEST_TIMED_OUT, TOO_LATE)

    @property
    def noted_requests(self) -> frozenset[type[Any]]:
        """The types of request of which `arrived` wants to know."""
        return frozenset(self._arrivals)

    @property
    def is_active(self) -> bool:
        """Whether this is the active controller."""
        return self._active is not None

    @property
    def in_flight(self) -> int:
        """The number of writes that were appended and are not committed yet."""
        return len(self._active.uncommitted) if self._active is not None else 0

    @property
    def error_count(self) -> int:
        """The number of decisions and requests that raised since this node started (MetadataErrorCount)."""
        return self._errors_before + (self._active.errors if self._active is not None else 0)

    @property
    def leader_elections(self) -> Mapping[Election, int]:
        """The elections of partition leaders since `caught_up`, by kind and reason."""
        return self._elections.counts(self._image)

    @property
    def decided_elections(self) -> Mapping[ReasonAndRule, int]:
        """The elections that this node decided as the active controller, and saw committed, since it started:
        by reason and rule.
        """
        now = Counter() if self._active is None else self._active.uncommitted.elections
        return self._elections_before + now

    def partition_states(self) -> Mapping[PartitionState, int]:
        """How many partitions are in each of Kafka's states; New ones on the active controller alone."""
        active = self._active
        return counts_in(self._image, 0 if active is None else active.uncommitted.new_partition_count)

    @property
    def alarms(self) -> Sequence[str]:
        """What the active controller could not do, and tries again (D-35)."""
        return self._active.timers.alarms if self._active is not None else ()

    @property
    def wake_at_ms(self) -> int:
        """When `next_slice` or `poll` has something to do, on the monotonic clock; 0 for at once."""
        active = self._active  # asked several times a turn, mostly where there is none
        if self._resolved:
            return 0
        if active is None:
            return NEVER_MS
        return 0 if active.has_next_slice else self.poll_at_ms

    @property
    def poll_at_ms(self) -> int:
        """When `poll` has something to do, on the monotonic clock; 0 for at once."""
        active = self._active
        if active is None:
            return NEVER_MS
        at_ms = active.timers.wake_at_ms  # asked several times a turn: no call to `min`
        if self._activation_at_ms < at_ms:
            at_ms = self._activation_at_ms
        if self._idle_deadline_ms < at_ms:
            at_ms = self._idle_deadline_ms
        return at_ms

    @property
    def has_next_slice(self) -> bool:
        """Whether `next_slice` has something to do."""
        active = self._active
        return bool(self._resolved if active is None else self._resolved or active.has_next_slice)

    # -- the state machine behind the log

    def apply(self, batch: CommittedBatch) -> None:
        """Apply one committed batch to the image.

        Raises:
            UnknownRecordError: It holds a record whose kind, version or feature level is unknown here.
            ImpossibleRecordError: It holds a record that cannot follow what came before.
        """
        if batch.base_offset != self._applied_offset:
            raise InvariantError(
                f"the committed batch at {batch.base_offset} does not follow {self._applied_offset}"
            )
        active, before = self._active, self._image
        if active is not None and batch.epoch == self._leader.epoch:
            self._image = active.commit(batch) or self._image
        elif batch.records:
            self._image = apply_values(self._image, batch.records, batch.base_offset)
        self._applied_offset = batch.end_offset
        try:
            self.deletions.applied(batch, before, self._image)
        except Exception as error:  # noqa: BLE001 - of all nodes alike, and for what no decision looks at (D-14)
            self.deletions.restored(batch.end_offset)
            self._errors_before += 1
            self.lines.append(failure_line(DELETIONS, None, error))

    def restore(self, at: OffsetAndEpoch) -> ImageRestore:
        """Begin to replace the image by that of a snapshot (LSN-06); the former one stays until all of it is
        there.
        """
        return ImageRestore(at, self._restored)

    def caught_up(self) -> None:
        """Note that from now on what is applied is news: elections are counted."""
        self._elections.begin(self._image)

    def _restored(self, image: MetadataImage, at: OffsetAndEpoch) -> None:
        if self._active is not None:
            raise InvariantError(f"the active controller is to load the snapshot at {at.offset} (LSN-16)")
        self._elections.replaced(self._image, image)
        self.deletions.restored(at.offset)
        self._image, self._applied_offset = image, at.offset

    def leader_changed(self, epoch: Epoch, leader_id: NodeId, *, is_self: bool) -> None:
        """Note who leads; become the active controller or stop being it."""
        active = self._active
        already = active is not None and epoch == self._leader.epoch
        before, self._leader = self._leader, (leader := KnownLeader(epoch, leader_id))
        self.new_active_controllers += leader.id != NO_NODE and leader != before
        if is_self and already:
            return
        if active is not None:
            self._resolved += active.drop(leader)
            self._errors_before += active.errors
            self._elections_before += active.uncommitted.elections
            self.sessions.end()
        self._active = self._begin_leadership(leader) if is_self else None
        self.deletions.leads(is_self=is_self)
        self._activation_at_ms = 0 if is_self else NEVER_MS
        self._idle_deadline_ms = NEVER_MS

    def _begin_leadership(self, leader: KnownLeader) -> ActiveController:
        return ActiveController(
            leader,
            self._image,
            self._applied_offset,
            settings=self._settings,
            operations=self._writes,
            sessions=self.sessions,
            lines=self.lines,
            seed=int.from_bytes(self._me.incarnation_id, "big") + (leader.epoch << _SEEDS_BITS),
        )

    # -- requests

    def arrived(self, request: Any, now: Now) -> None:
        """Note that one of `noted_requests` came in. To be called before anything that may delay `handle`."""
        try:
            self._arrivals[type(request)](self.sessions, request, now.mono_ms)
            if type(request) is BrokerHeartbeatRequest:
                self._heard(request, now)
        except Exception as error:  # noqa: BLE001 - it costs the session of its sender (D-14)
            self._failed(request, error)

    def _heard(self, request: BrokerHeartbeatRequest, now: Now) -> None:
        session = self.sessions.get(request.broker_id, request.broker_epoch)
        if session is not None:
            # A broker cannot have read what is not there, whatever it says: it has not read later deletions.
            read_to = min(session.metadata_offset, self._applied_offset - 1)
            epoch, failed, is_starting = session.broker_epoch, session.failed_directories, request.want_fence
            self.deletions.heard(request.broker_id, epoch, read_to, now, failed, is_starting=is_starting)

    def handle(self, request: Any, now: Now, version: int = 0, client: Client = NO_CLIENT) -> Decision:
        """Decide a request by its operation. A `Write` counts as appended from here on, see `finished`."""
        handler = self._handlers.get(type(request))
        if handler is None:
            raise InvariantError(f"{type(request).__name__} is not for the controller")
        return handler(request, now, version, client)

    def finished(self, write: Write, error: ErrorCode) -> Any:
        """Note how an append ended (D-13). Returns the response to send, None for a write without a request.

        Unless the error is REQUEST_TIMED_OUT, which leaves the outcome open, a write that ended in an error
        is not in the log, and what was decided after it forgets it.
        """
        active = self._active if write.epoch == self._leader.epoch else None
        # Node 1 leads, its followers are cut off, and write A times out. They come back and A is committed.
        # Had A been withdrawn, the controller would meet records that it never wrote, and end the process.
        if error not in (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT) and active is not None:
            active.withdraw(write)
            if write.kind == ACTIVATE:
                self._activation_at_ms = self._polled_at_ms + ACTIVATION_RETRY_MS
        if write.slice_of is not None and active is not None:
            active.finished_slice(write, write.slice_of, error)
        if error is ErrorCode.NONE:
            return write.response_when_committed
        if write.request is None:
            return None
        operation = self._operations[type(write.request)]
        return operation.refuse(write.request, error, write_refusal(error, self._leader))

    def end_group(self) -> None:
        """Note that what was decided so far goes to the log as one group (D-39): one image is made of it."""
        if self._active is not None:
            self._active.uncommitted.end_group()

    def poll(self, now: Now) -> Write | None:
        """Write what is due by itself: the first records of an activation, or a NoOp on an idle log.

        An activation that raises ends the process, as it does in Kafka: without it nothing can be decided
        here, and the next leader may fare better.
        """
        active = self._active
        if active is None or now.mono_ms < self.poll_at_ms:
            return None
        self._polled_at_ms = now.mono_ms
        if self._activation_at_ms <= now.mono_ms:
            self._activation_at_ms = NEVER_MS
            self._restart_idle_timer(now)
            records = activation_records(active.uncommitted.image, self._bootstrap, self._me, self._settings)
            write = active.append(ACTIVATE, records) if records else None
            active.begin(now)
            return write
        if active.timers.wake_at_ms <= now.mono_ms:
            write = active.run_timers(now)
            if write is not None:
                self._restart_idle_timer(now)
            return write
        self._restart_idle_timer(now)
        if len(active.uncommitted) > 0 or active.uncommitted.image.metadata_version < NO_OP_SINCE:
            return None
        return active.write_no_op(now)

    def next_slice(self, now: Now) -> Write | Resolved | None:
        """The next slice of what is worked off in slices, or what became of it; None if nothing is due.

        One turn of the loop is to ask for one write at most: other work runs between two slices (D-35).
        """
        if self._resolved:
            return self._resolved.popleft()
        active = self._active
        if active is None:
            return None
        decision = active.next_slice(now)
        if type(decision) is Write:
            self._restart_idle_timer(now)
        return decision

    # -- inside

    def _decide_write(
        self, operation: WriteOperation[Any], request: Any, now: Now, version: int, client: Client
    ) -> Decision:
        active, refuse = self._active, operation.refuse
        if active is None:
            error = ErrorCode.NOT_CONTROLLER
            return ImmediateResponse(refuse(request, error, write_refusal(error, self._leader)))
        if self._activation_at_ms != NEVER_MS:
            return ImmediateResponse(refuse(request, ErrorCode.NOT_CONTROLLER, NOT_ACTIVE_YET))
        if operation.is_too_late(request):
            return ImmediateResponse(self.too_late(request))
        decision = active.decide(operation, request, now, version, client)
        if type(decision) is Write:
            self._restart_idle_timer(now)
        return decision

    def _read(
        self, operation: ReadOperation[Any], request: Any, _now: Now, _version: int, _client: Client
    ) -> Decision:
        if self._active is None:
            return ImmediateResponse(self._refuse_read(operation, request, ErrorCode.NOT_CONTROLLER))
        return NeedsRead(
            request.NAME,
            respond=lambda: self._respond(operation, request),
            refuse=lambda error: self._refuse_read(operation, request, error),
        )

    def _read_sessions(
        self, operation: SessionReadOperation[Any], request: Any, now: Now, version: int, client: Client
    ) -> Decision:
        def read(image: MetadataImage, applied_offset: Offset, asked: Any) -> Any:
            active, settings = self._active, self._settings
            leaving = Leaving() if active is None else active.plans.leaving
            newest = None if active is None else active.uncommitted
            context = ReadContext(
                image, applied_offset, self.sessions, now, settings, leaving, client, self.deletions, newest
            )
            return operation.read(context, asked)

        as_read = ReadOperation(operation.request, read, operation.refuse)
        return self._read(as_read, request, now, version, client)

    def _respond(self, operation: ReadOperation[Any], request: Any) -> Any:
        try:
            return operation.read(self._image, self.applied_offset, request)
        except Exception as error:  # noqa: BLE001 - a read changes nothing (D-14)
            self._failed(request, error)
            return self._refuse_read(operation, request, ErrorCode.UNKNOWN_SERVER_ERROR)

    def _failed(self, request: Any, error: Exception) -> None:
        self.lines.append(self.request_failed(request, error))

    def _move_refused(self, entry: Entry, state: ReplicaState) -> None:
        self.lines.append(LogLine("replica_move_refused", move_fields(entry, state), is_warning=True))

    def _refuse_read(self, operation: ReadOperation[Any], request: Any, error: ErrorCode) -> Any:
        return operation.refuse(request, error, read_refusal(error, self._leader))

    def _restart_idle_timer(self, now: Now) -> None:
        interval_ms = self._max_idle_interval_ms
        self._idle_deadline_ms = now.mono_ms + interval_ms if interval_ms > 0 else NEVER_MS
