"""The active controller: decides requests on the newest image, from the begin of a leadership to its end.

Entered by `QuorumController`, which makes one for each epoch in which this node leads. A decision goes in
this order: its records are applied to the newest image, which makes another one; its response is made; of a
plan, the sessions and timers are told; and only then, as the very last step (`_added`), the write counts as
appended. So one that raises costs its own request and nothing else (D-14, KAFKA-14204); the next leader, to
which the same request comes, survives it too.

The append comes after all that. If the log refuses it, the write is taken out of the newest image, and what
the sessions were told stays. They are soft state: a broker whose fencing was refused is as silent as before,
and its fencing is repeated; one whose registration was refused registers again; one whose unregistration was
refused gets a session anew; and what a broker that stops has to wait for is forgotten (`withdraw`), and found
anew for its next heartbeat.

What grows with partitions is a `Plan`, and done in slices: the first one at once, the others when
`next_slice` is called. Whoever asked for it is answered with the last slice. One that ends before that, since
a slice was refused or raised, is half done: a timer sees to the rest (`_cut_off`).

Not here: how an API is decided (its operation), what a leader writes by itself (`quorum_controller`).
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from kraftd.controller.context import NO_CLIENT, Client, Context, ControllerSettings
from kraftd.controller.decided_elections import elections_in
from kraftd.controller.decisions import (
    AfterWrite,
    Decision,
    DecisionWithoutWrite,
    ImmediateResponse,
    KnownLeader,
    NeedsRead,
    Resolved,
    RunningPlan,
    Started,
    Write,
    unconfirmed_refusal,
    write_refusal,
)
from kraftd.controller.event_queue import EventClass
from kraftd.controller.failures import failure_line, policy_failure_line
from kraftd.controller.mutation_quotas import UNLIMITED, MutationQuota, MutationQuotas, quotas_in
from kraftd.controller.operations import WriteOperation
from kraftd.controller.plan_runner import PlanRunner, apply_slice
from kraftd.controller.plans import LogLine, Plan, Task
from kraftd.controller.sessions import BrokerSessions
from kraftd.controller.timers import FINISH, LOOK, NO_OP_TASK, RETRY, Timers
from kraftd.controller.uncommitted_writes import UncommittedWrites
from kraftd.errors import ErrorCode
from kraftd.metadata.image import MetadataImage
from kraftd.metadata.image_builder import ImageBuilder
from kraftd.metadata.record_versions import encode_allowed
from kraftd.protocol.limits import OPERATION_BYTES_MAX, OPERATION_RECORDS_MAX
from kraftd.records.committed import CommittedBatch
from kraftd.records.frame import AnyRecord
from kraftd.types import Now, Offset

_Made: TypeAlias = tuple[Write, MetadataImage | None]
"""A write that does not count as appended yet, and the image after it; None if its records are those that
were applied last (`UncommittedWrites.apply`)."""


class ActiveController:
    """What was decided in one epoch of leadership. Mutable, owned by the `QuorumController`."""

    def __init__(
        self,
        leader: KnownLeader,
        image: MetadataImage,
        applied_offset: Offset,
        *,
        settings: ControllerSettings,
        operations: Mapping[type[Any], WriteOperation[Any]],
        sessions: BrokerSessions,
        lines: list[LogLine],
        seed: int,
    ) -> None:
        self.leader = leader
        self.uncommitted = UncommittedWrites(image)
        self.plans = PlanRunner()
        """What is worked off in slices."""
        self.errors = 0
        """Decisions that raised."""
        self._applied_offset = applied_offset
        self._settings = settings
        self._operations = operations
        self._sessions = sessions
        self._lines = lines
        self._seed = seed
        self._mutation_quotas = MutationQuotas(settings.mutation_window_s)
        self._resolved: deque[Resolved] = deque()
        self._polled_ms = 0
        self._has_withdrawn = False
        self.timers = Timers(sessions, settings)
        """What it does by itself."""

    def begin(self, now: Now) -> None:
        """Begin to serve brokers: their sessions, and what is due from now on."""
        self._sessions.begin(self.uncommitted.image, self.next_offset, now.mono_ms)
        self.timers.begin(self.uncommitted.image, now.mono_ms)

    # -- the log

    @property
    def next_offset(self) -> Offset:
        """Where the log goes on: no record before it is that high.

        Records of the quorum's own may stand in between that are not applied yet. So it is a lower bound; it
        rises with every record that is appended here, and from leader to leader. So no epoch of a broker is
        given twice. Node 1 tells broker 5 of epoch 20 once the record is committed, at 20 or above, and loses
        the lead. Node 2 decides nothing before it has applied all of that and its own LeaderChange: its bound
        is above 20. Was the record not committed, nobody was told of epoch 20.
        """
        return self._applied_offset + self.uncommitted.record_count

    def commit(self, batch: CommittedBatch) -> MetadataImage | None:
        """Take a committed batch of this epoch. Returns the image after it, None for one without records.

        Raises:
            InvariantError: It is not made of the oldest writes in their order.
        """
        self._applied_offset = batch.end_offset
        if not batch.records:
            return None
        before = self.uncommitted.committed
        image = self.uncommitted.commit(batch)
        self.timers.committed(before, image)
        return image

    def finished_slice(self, write: Write, run: RunningPlan, error: ErrorCode) -> None:
        """Note how the append of a slice ended."""
        run.in_flight -= 1
        if error is ErrorCode.NONE:
            if write.is_last and run.plan is not None:
                self._tell(run.kind, run.plan)
        elif error is not ErrorCode.REQUEST_TIMED_OUT:
            # A slice that timed out is in the log and may still be committed (D-13): it is not repeated, and
            # the plan goes on from the image with it.
            text = f"the log refused it: {error.name}"
            if run.task is not None:
                self.timers.failed(run.task, text, self._polled_ms, run.again)
            self._cut_off(run, run.slices - 1, text, self._polled_ms)
            if self.plans.end(run) and run.request is not None:
                self._resolved.append(Resolved(run, ImmediateResponse(self._refusal(run.request, error))))

    def withdraw(self, write: Write) -> None:
        """Forget a write that the log refused. What it ended begins anew with the next decision."""
        self.uncommitted.withdraw(write)
        self._sessions.withdrawn(self.next_offset)
        self._has_withdrawn = True

    # -- requests

    def decide(
        self, operation: WriteOperation[Any], request: Any, now: Now, version: int, client: Client
    ) -> Decision:
        """Decide one request, or begin to."""
        quota = UNLIMITED
        if operation.strict_quota_since is not None:
            quota = self._quota(now, client, is_strict=version >= operation.strict_quota_since)
        context = self._context(now, version, client, quota)
        try:
            decided = operation.decide(context, request)
            self._mutation_quotas.keep(quota)
            self._lines += map(policy_failure_line, context.policy_failures)
            if not isinstance(decided, tuple):  # asking for Plan, which is abstract, costs ten times as much
                run = RunningPlan(request.NAME, now.mono_ms, request=request, version=version, client=client)
                decision = self._begin(run, decided, context)
            elif decided[0]:
                decision = self._made(request.NAME, *decided, request, context)
            else:
                return self._without_records(request, decided[1])
        except Exception as error:  # noqa: BLE001 - nothing was appended
            return self._failed(request.NAME, request, error)
        return self._added(decision) if isinstance(decision, tuple) else decision

    def append(self, kind: str, records: Sequence[AnyRecord]) -> Write:
        """Append what nobody asked for. The records may set the level that they are written at."""
        builder = ImageBuilder(self.uncommitted.image)
        for record in records:
            builder.apply(record, -1)
        image = builder.image()
        level = image.metadata_version
        write = Write(kind, self.leader.epoch, tuple([encode_allowed(record, level) for record in records]))
        return self._added((write, image))

    # -- slices

    @property
    def has_next_slice(self) -> bool:
        """Whether `next_slice` has something to do."""
        return bool(self._resolved or self.plans.has_next)

    def next_slice(self, now: Now) -> Write | Resolved | None:
        """The next slice of what is worked off, or what became of it; None if nothing is due."""
        if self._resolved:
            return self._resolved.popleft()
        run = self.plans.next()
        if run is None:
            return None
        context = self._context(now, run.version, run.client)
        decision: _Made | DecisionWithoutWrite | None
        try:
            decision = self._go_on(run, context)
        except Exception as error:  # noqa: BLE001 - nothing was appended
            self.plans.end(run)
            if run.task is not None:
                self._failed_alone(run.task, error, now, run.again)
                decision = None
            else:
                decision = self._failed(run.kind, run.request, error)
            self._cut_off(run, run.slices, f"{type(error).__name__}: {error}", now.mono_ms)
        if isinstance(decision, tuple):
            return self._added(decision)
        return Resolved(run, decision) if decision is not None and run.request is not None else None

    def run_timers(self, now: Now) -> Write | None:
        """Begin one thing that is due by itself; its first slice, if it has any."""
        return self._run_alone(LOOK, lambda context: self.timers.due(context, self.plans), now)

    def write_no_op(self, now: Now) -> Write | None:
        """Write a NoOp, unless one failed and is repeated by `run_timers`."""
        return self._run_alone(NO_OP_TASK, lambda _context: self.timers.no_op(), now)

    def drop(self, leader: KnownLeader) -> list[Resolved]:
        """Forget all plans, since somebody else leads, or nobody. Returns what goes to who asked for them."""
        self.leader = leader
        left = [
            Resolved(run, ImmediateResponse(self._refusal(run.request, ErrorCode.NOT_CONTROLLER)))
            for run in self.plans.drop()
        ]
        return [*self._resolved, *left]

    # -- inside

    def _quota(self, now: Now, client: Client, *, is_strict: bool) -> MutationQuota:
        quotas = quotas_in(self.uncommitted.image)
        user, client_id = client.principal.name, client.client_id
        return self._mutation_quotas.of_request(quotas, user, client_id, now.mono_ms, is_strict=is_strict)

    def _context(self, now: Now, version: int, client: Client, quota: MutationQuota = UNLIMITED) -> Context:
        self._seed = seed = self._seed + 1
        if self._has_withdrawn:
            self._has_withdrawn = False
            self._sessions.begin_missing(self.uncommitted.image, self.next_offset, now.mono_ms)
            self.timers.brokers_changed(now.mono_ms)
        uncommitted = self.uncommitted
        next_offset = self._applied_offset + uncommitted.record_count
        return Context(
            uncommitted,
            now,
            version,
            next_offset,
            self._sessions,
            self._settings,
            client,
            seed,
            self.plans.leaving,
            quota,
        )

    def _run_alone(self, looking: Task, look: Callable[[Context], Task | None], now: Now) -> Write | None:
        """Begin the task that `look` finds; if looking itself raises, the task that failed is `looking`."""
        self._polled_ms = now.mono_ms
        context = self._context(now, 0, NO_CLIENT)
        task = looking
        try:
            found = look(context)
            if found is None:
                return None
            task = found
            run = RunningPlan(task.kind, now.mono_ms, task=task, again=self.timers.again_of(task))
            decision = self._begin(run, self.timers.plan_of(task, context), context)
        except Exception as error:  # noqa: BLE001 - nothing was appended
            self._failed_alone(task, error, now)
            return None
        return self._added(decision) if isinstance(decision, tuple) else None

    def _added(self, made: _Made) -> Write:
        """Count a write as appended from now on. Nothing may stand between this and the log.

        The log gives back what was appended, in order. Had anything raised after this, the write would count
        as appended without being there: the next batch that is committed would be another one than awaited,
        which ends the process, and the next leader would do the same.
        """
        write, image = made
        self.uncommitted.add(write, image)
        run = write.slice_of
        if run is not None:
            run.slices += 1
            run.in_flight += 1
        return write

    def _made(
        self,
        kind: str,
        records: Sequence[AnyRecord],
        response: Any,
        request: Any,
        context: Context,
        run: RunningPlan | None = None,
    ) -> _Made | DecisionWithoutWrite:
        """The write of an atomic decision, unless its records are too many for a batch."""
        level = self.uncommitted.metadata_version
        values = tuple([encode_allowed(record, level) for record in records])
        size_bytes = sum(map(len, values))
        if len(values) > 1 and (len(values) > OPERATION_RECORDS_MAX or size_bytes > OPERATION_BYTES_MAX):
            return self._without_records(request, self._refusal(request, ErrorCode.POLICY_VIOLATION))
        write = Write(
            kind,
            self.leader.epoch,
            values,
            response,
            request,
            run,
            elections=elections_in(context.elections, records),
        )
        self.uncommitted.apply(records)
        return write, None

    def _without_records(self, request: Any, response: Any) -> DecisionWithoutWrite:
        """What becomes of a request that changes nothing, or is refused.

        Node 3 leads epoch 2, is cut off, and does not know that node 2 leads epoch 4, and made a topic. A
        broker asks node 3 to delete it. That there is none would be taken for done: what people and tools are
        told is a read, and confirmed as one (D-12).
        """
        if not self._is_for_people(request):
            return self._after_newest(request, ImmediateResponse(response))
        return self._after_newest(request, self._confirmed(request.NAME, request, lambda: response))

    def _is_for_people(self, request: Any) -> bool:
        return request is not None and self._operations[type(request)].event_class is EventClass.WRITES

    def _confirmed(self, kind: str, request: Any, respond: Callable[[], Any]) -> NeedsRead:
        """A response, without records, for when a majority has confirmed that this node leads."""
        refuse = self._operations[type(request)].refuse
        return NeedsRead(
            kind, respond, lambda error: refuse(request, error, unconfirmed_refusal(error, self.leader))
        )

    def _after_newest(self, request: Any, then: ImmediateResponse | NeedsRead) -> DecisionWithoutWrite:
        """A response without records waits until what it tells of is committed.

        Broker 3 is being fenced, in thirty slices. The heartbeats of all others tell of brokers only, which
        no slice but the last one changes: they wait for none of them.
        """
        newest = self.uncommitted.newest
        if newest is None or self._is_committed(request):
            return then
        # Of what has slices in the log some may still be committed.
        refuse = then.refuse if isinstance(then, NeedsRead) else partial(self._refusal, request)
        return AfterWrite(newest, then, refuse)

    def _is_committed(self, request: Any) -> bool:
        """Whether a response to this request tells of nothing that is not committed."""
        operation = self._operations.get(type(request))
        if operation is None or operation.tells_of is None:
            return False
        image, committed = self.uncommitted.image, self.uncommitted.committed
        return all(image[part] is committed[part] for part in operation.tells_of)

    # -- inside: slices

    def _begin(
        self, run: RunningPlan, plan: Plan, context: Context
    ) -> _Made | DecisionWithoutWrite | Started:
        """Begin a plan with its first slice, unless another one about the same broker has begun."""
        if plan.about is not None and self.plans.is_busy(plan.about):
            self.plans.hold(run, plan.about)
            return Started(run)
        run.plan, run.about = plan, plan.about
        decision, is_last = self._slice(run, plan, context)
        if not is_last:
            self.plans.begin(run)
        return Started(run) if decision is None else decision

    def _go_on(self, run: RunningPlan, context: Context) -> _Made | DecisionWithoutWrite | None:
        """The next slice of a plan that has begun, or the decision of a request that had to wait for one."""
        if run.plan is None:
            decided = self._operations[type(run.request)].decide(context, run.request)
            if isinstance(decided, tuple):
                self.plans.end(run)
                records, response = decided
                if not records:
                    return self._without_records(run.request, response)
                return self._made(run.kind, records, response, run.request, context, run)
            run.plan = decided
            self.plans.decided(run)
        decision_of_slice, is_last = self._slice(run, run.plan, context)
        if is_last:
            self.plans.end(run)
        return decision_of_slice

    def _slice(
        self, run: RunningPlan, plan: Plan, context: Context
    ) -> tuple[_Made | DecisionWithoutWrite | None, bool]:
        """One slice: its write, or the response if the last slice is empty; and whether it is the last."""
        records, is_last = plan.advance(context)
        values: tuple[bytes, ...] = ()
        image = context.image
        if records:
            applied = apply_slice(records, image, plan)
            if applied is None:
                return None, False
            values, image = applied
        elections = elections_in(context.elections, records)
        if not is_last:
            if not records:
                return None, False
            write = Write(
                run.kind, self.leader.epoch, values, slice_of=run, is_last=False, elections=elections
            )
            return (write, image), False
        response, end_offset = plan.response(), context.next_offset + len(records)
        with self._sessions.all_or_none():
            plan.appended(self._sessions, end_offset, context.now.mono_ms)
            self._ended(run, plan, context.now)
        if records:
            write = Write(
                run.kind, self.leader.epoch, values, response, run.request, run, elections=elections
            )
            return (write, image), True
        return self._without_write(run, plan, response), True

    def _without_write(self, run: RunningPlan, plan: Plan, response: Any) -> DecisionWithoutWrite:
        """The response of a plan whose last slice is empty.

        Node 1 leads epoch 1, is cut off, and does not know yet that node 3 leads epoch 2, where broker 5 has
        registered. The name of node 3 leads to node 1: which has not heard of this start of broker 5.
        """

        def respond() -> Any:
            self._tell(run.kind, plan)
            return response

        # A slice of its own has confirmed it: it was appended after the request arrived.
        if run.slices == 0 and (plan.is_confirmed or self._is_for_people(run.request)):
            return self._after_newest(run.request, self._confirmed(run.kind, run.request, respond))
        return self._after_newest(run.request, ImmediateResponse(respond()))

    def _ended(self, run: RunningPlan, plan: Plan, now: Now) -> None:
        """The last slice of a plan is about to be appended: see to what it left out."""
        task, left_out = run.task, plan.failures()
        if plan.is_given_up:
            self._cut_off(run, run.slices, "it was refused halfway", now.mono_ms)
        again = plan.again() if left_out else None
        self.timers.brokers_changed(now.mono_ms)
        if task is not None and not (left_out and task.kind == RETRY):
            self.timers.succeeded(task)
        if not left_out:
            return
        self.errors += len(left_out)
        self._lines.append(failure_line(run.kind, run.request, left_out[0].error, left_out))
        if again is not None:
            self.timers.left_out(task, run.about, str(left_out[0]), again, now.mono_ms)

    def _cut_off(self, run: RunningPlan, slices: int, text: str, now_ms: int) -> None:
        """Note that a plan has ended before its time, after these slices: what it has begun is seen to.

        Say broker 4 is being unfenced, and leads 256 of its 600 partitions when the log refuses a slice as
        a hand-over is tried, and fails. It is unfenced by then, so it never asks for the other 344.
        """
        is_repeated = run.task is not None and run.task.kind == FINISH
        if run.plan is not None:
            is_repeated = is_repeated or run.plan.is_repeated_by_broker(self.uncommitted.image)
        if slices > 0 and run.about is not None and not is_repeated:
            self.timers.cut_off(run.about, f"{run.kind}: {text}", now_ms)

    def _tell(self, kind: str, plan: Plan) -> None:
        """Log what a plan did. A line that cannot be made costs that line (KAFKA-14259)."""
        try:
            self._lines += plan.lines()
        except Exception as error:  # noqa: BLE001 - everything else is done
            self.errors += 1
            self._lines.append(failure_line(kind, None, error))

    def _failed_alone(
        self, task: Task, error: Exception, now: Now, again: Callable[[], Plan] | None = None
    ) -> None:
        """Something that nobody asked for raised: it is repeated, and an alarm until it succeeds (D-35)."""
        line = failure_line(task.kind, None, error)
        self.errors += 1
        self._lines.append(line)
        self.timers.failed(task, f"{line.fields['error']} at {line.fields['at']}", now.mono_ms, again)

    def _refusal(self, request: Any, error: ErrorCode) -> Any:
        """The response to a request that was not done, or may not have been; None where there is none."""
        if request is None:
            return None
        return self._operations[type(request)].refuse(request, error, write_refusal(error, self.leader))

    def _failed(self, kind: str, request: Any, error: Exception) -> ImmediateResponse:
        """A decision raised, and nothing was appended: say so, and go on (D-14)."""
        self.errors += 1
        self._lines.append(failure_line(kind, request, error))
        return ImmediateResponse(self._refusal(request, ErrorCode.UNKNOWN_SERVER_ERROR))
