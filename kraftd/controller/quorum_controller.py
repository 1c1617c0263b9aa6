"""The controller of one node: the state machine behind its log and, on the leader, the active controller.

The driver gives it committed batches (`apply`), changes of leadership (`leader_changed`), requests (`handle`)
and time (`poll`, due at `wake_at_ms`), and carries out what comes back: a `Write` goes to the log and,
whatever becomes of it, to `finished`, which knows the response. All calls come from one loop.

On every node `image` is what is committed. The active controller also has the image after all that it
appended (`uncommitted_writes`), and decides on that; losing leadership drops it (D-18). It activates when
told that it leads, which the raft node says only after the LeaderChange record of its epoch has been applied.

How a request is decided or read is in its operation (`admin_apis`); no rule of an API is here.

Follows: Kafka's QuorumController, with the order of the log instead of its event queue.
Differs: a NoOp is written when nothing else was for the idle interval, not each interval.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from kraftd.controller.activation import activation_records
from kraftd.controller.admin_apis import OPERATIONS
from kraftd.controller.decisions import (
    NOT_ACTIVE_YET,
    Decision,
    ImmediateResponse,
    KnownLeader,
    NeedsRead,
    Write,
    read_refusal,
    write_refusal,
)
from kraftd.controller.operations import Operation, ReadOperation, WriteOperation
from kraftd.controller.statistics import EventStatistics
from kraftd.controller.uncommitted_writes import UncommittedWrites
from kraftd.errors import ErrorCode, InvariantError, KraftdError
from kraftd.metadata.feature_levels import NO_OP_SINCE, is_supported
from kraftd.metadata.image import EMPTY, MetadataImage
from kraftd.metadata.image_builder import ImageBuilder, is_applied
from kraftd.metadata.parts.controllers import ControllerRegistration
from kraftd.metadata.record_versions import encode_allowed
from kraftd.protocol.limits import OPERATION_BYTES_MAX, OPERATION_RECORDS_MAX
from kraftd.records.committed import CommittedBatch
from kraftd.records.frame import AnyRecord, RawRecord, record_name
from kraftd.records.messages import FeatureLevelRecord, NoOpRecord
from kraftd.types import NEVER_MS, Epoch, NodeId, Now, Offset

RETRY_MS = 50
"""How long after a refusal of its first records a new active controller writes them again."""

ACTIVATE = "Activate"
NO_OP = "NoOp"
"""Kinds of writes that no request asked for; the kind of a request is its name."""


class UnknownRecordError(KraftdError):
    """The log holds a record that this version of kraftd cannot apply; it must not go past it."""

    code = ErrorCode.UNSUPPORTED_VERSION


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
        operations: Sequence[Operation] = OPERATIONS,
    ) -> None:
        self._me = me
        self._bootstrap = tuple(bootstrap)
        for record in self._bootstrap:
            _check_known(record, "a bootstrap record")
        self._max_idle_interval_ms = max_idle_interval_ms
        self._image = EMPTY
        self._applied_offset: Offset = 0
        self._leader = KnownLeader()
        self._uncommitted: UncommittedWrites | None = None
        self._activation_at_ms = NEVER_MS
        self._idle_deadline_ms = NEVER_MS
        self._polled_at_ms = 0
        self.event_statistics = EventStatistics()
        self._operations = {each.request: each for each in operations}
        handler_of: Mapping[type[Operation], Callable[..., Decision]] = {
            WriteOperation: self._decide_write,
            ReadOperation: self._read,
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
    def is_active(self) -> bool:
        """Whether this is the active controller."""
        return self._uncommitted is not None

    @property
    def in_flight(self) -> int:
        """The number of writes that were appended and are not committed yet."""
        return len(self._uncommitted) if self._uncommitted is not None else 0

    @property
    def wake_at_ms(self) -> int:
        """When `poll` has something to do, on the monotonic clock; 0 for at once."""
        activation_at_ms = self._activation_at_ms  # asked several times a turn: no call to `min`
        if activation_at_ms < self._idle_deadline_ms:
            return activation_at_ms
        return self._idle_deadline_ms

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
        if batch.records:
            if self._uncommitted is not None and batch.epoch == self._leader.epoch:
                self._image = self._uncommitted.commit(batch)
            else:
                self._image = _apply_values(self._image, batch.records, batch.base_offset)
        self._applied_offset = batch.end_offset

    def leader_changed(self, epoch: Epoch, leader_id: NodeId, *, is_self: bool) -> None:
        """Note who leads; become the active controller or stop being it."""
        already = self._uncommitted is not None and epoch == self._leader.epoch
        self._leader = KnownLeader(epoch, leader_id)
        if is_self and already:
            return
        self._uncommitted = UncommittedWrites(self._image) if is_self else None
        self._activation_at_ms = 0 if is_self else NEVER_MS
        self._idle_deadline_ms = NEVER_MS

    # -- requests

    def handle(self, request: Any, now: Now) -> Decision:
        """Decide a request by its operation. A `Write` counts as appended from here on, see `finished`."""
        handler = self._handlers.get(type(request))
        if handler is None:
            raise InvariantError(f"{type(request).__name__} is not for the controller")
        return handler(request, now)

    def finished(self, write: Write, error: ErrorCode) -> Any:
        """Note how an append ended (D-13). Returns the response to send, None for a write without a request.

        Unless the error is REQUEST_TIMED_OUT, which leaves the outcome open, a write that ended in an error
        is not in the log, and what was decided after it forgets it.
        """
        if error is ErrorCode.NONE:
            return write.response_when_committed
        # Node 1 leads, its followers are cut off, and write A times out. They come back and A is committed.
        # Had A been withdrawn, the controller would meet records that it never wrote, and end the process.
        uncommitted = self._uncommitted if write.epoch == self._leader.epoch else None
        if error is not ErrorCode.REQUEST_TIMED_OUT and uncommitted is not None:
            uncommitted.withdraw(write)
            if write.kind == ACTIVATE:
                self._activation_at_ms = self._polled_at_ms + RETRY_MS
        if write.request is None:
            return None
        operation = self._operations[type(write.request)]
        return operation.refuse(write.request, error, write_refusal(error, self._leader))

    def poll(self, now: Now) -> Write | None:
        """Write what is due by itself: the first records of an activation, or a NoOp on an idle log."""
        uncommitted = self._uncommitted
        if uncommitted is None or now.mono_ms < self.wake_at_ms:
            return None
        self._polled_at_ms = now.mono_ms
        if self._activation_at_ms <= now.mono_ms:
            self._activation_at_ms = NEVER_MS
            self._restart_idle_timer(now)
            records = activation_records(uncommitted.image, self._bootstrap, self._me)
            return self._write(ACTIVATE, records) if records else None
        self._restart_idle_timer(now)
        level = uncommitted.image.metadata_version
        if len(uncommitted) > 0 or level < NO_OP_SINCE:
            return None
        return self._write(NO_OP, [NoOpRecord()])

    # -- inside

    def _decide_write(self, operation: WriteOperation[Any], request: Any, now: Now) -> Decision:
        uncommitted, refuse = self._uncommitted, operation.refuse
        if uncommitted is None:
            error = ErrorCode.NOT_CONTROLLER
            return ImmediateResponse(refuse(request, error, write_refusal(error, self._leader)))
        if self._activation_at_ms != NEVER_MS:
            return ImmediateResponse(refuse(request, ErrorCode.NOT_CONTROLLER, NOT_ACTIVE_YET))
        image = uncommitted.image
        records, response = operation.decide(image, request)
        if not records:
            return ImmediateResponse(response)
        level = image.metadata_version
        values = tuple([encode_allowed(record, level) for record in records])
        if len(values) > 1 and _is_too_large(values):
            error = ErrorCode.POLICY_VIOLATION
            return ImmediateResponse(refuse(request, error, write_refusal(error, self._leader)))
        builder = ImageBuilder(image)
        for record in records:
            builder.apply(record, -1)
        write = Write(request.NAME, self._leader.epoch, values, response, request)
        uncommitted.add(write, builder.image())
        self._restart_idle_timer(now)
        return write

    def _read(self, operation: ReadOperation[Any], request: Any, _now: Now) -> Decision:
        if self._uncommitted is None:
            return ImmediateResponse(self._refuse_read(operation, request, ErrorCode.NOT_CONTROLLER))
        return NeedsRead(
            request.NAME,
            respond=lambda: operation.read(self._image, self.applied_offset, request),
            refuse=lambda error: self._refuse_read(operation, request, error),
        )

    def _refuse_read(self, operation: ReadOperation[Any], request: Any, error: ErrorCode) -> Any:
        return operation.refuse(request, error, read_refusal(error, self._leader))

    def _write(self, kind: str, records: Sequence[AnyRecord]) -> Write:
        uncommitted = self._uncommitted
        if uncommitted is None:
            raise InvariantError(f"{kind} written by a controller that is not active")
        builder = ImageBuilder(uncommitted.image)
        for record in records:
            builder.apply(record, -1)
        image = builder.image()
        level = image.metadata_version  # what these records themselves may set
        write = Write(kind, self._leader.epoch, tuple([encode_allowed(record, level) for record in records]))
        uncommitted.add(write, image)
        return write

    def _restart_idle_timer(self, now: Now) -> None:
        interval_ms = self._max_idle_interval_ms
        self._idle_deadline_ms = now.mono_ms + interval_ms if interval_ms > 0 else NEVER_MS


def _is_too_large(values: Sequence[bytes]) -> bool:
    return len(values) > OPERATION_RECORDS_MAX or sum(map(len, values)) > OPERATION_BYTES_MAX


def _apply_values(image: MetadataImage, values: Sequence[bytes], base_offset: Offset) -> MetadataImage:
    builder = ImageBuilder(image)
    builder.apply_values(
        values,
        base_offset,
        lambda record, offset: _check_known(record, f"the record at offset {offset}"),
    )
    return builder.image()


def _check_known(record: AnyRecord, which: str) -> None:
    if isinstance(record, RawRecord):
        what = f"of kind {record_name(record.api_key)}, version {record.version}"
    elif not is_applied(record):
        what = f"of kind {record.NAME}" + (" with tags of a newer version" if record.unknown_tags else "")
    elif isinstance(record, FeatureLevelRecord) and not is_supported(record.name, record.feature_level):
        what = f"level {record.feature_level} of feature {record.name}"
    else:
        return
    raise UnknownRecordError(
        f"{which} is {what}, which this version of kraftd cannot apply; it stops before it. "
        "Run a newer kraftd."
    )
