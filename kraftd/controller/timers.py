"""What the active controller does by itself, and when: it fences silent brokers, registers, and repeats.

*Silent brokers.* Every eighth of the session timeout it looks for the broker that was silent longest, and
fences that one: one a look, so that a controller that was paused itself does not fence the whole cluster
before the heartbeats that wait in its sockets are read (KAFKA-13173).

*What was cut off.* Of a plan that a former active controller did not finish, or of which the log refused a
slice, a part was done: partitions without a leader get one, brokers that stop are taken out of the rest of
theirs. That fences nobody. Who asked for such a plan may never ask again: a broker that was unfenced is.

*Who should lead.* Every `leader.imbalance.check.interval.seconds` the first replicas get back what they can
lead. Every `unclean.leader.election.interval.ms` it looks whether a partition that nobody leads can be led by
now: its topic may allow what it did not. Nothing looks when a config changes, as in Kafka.

*What has ended.* Every `delegation.token.expiry.check.interval.ms` delegation tokens that have ended are
removed, if there can be tokens.

*Itself.* It registers as soon as metadata.version is one that has records of controllers.

*What failed.* A plan of its own that raises costs the broker it was about, and a partition of which a change
cannot be made costs that one. Both are repeated after 1 s, 2 s, up to 60 s, and are alarms until they succeed
(D-35); nothing else waits for them.

Follows: Kafka's periodic tasks maybeFenceStaleBroker, electPreferred, electUnclean, expireDelegationTokens,
and its ControllerRegistrationManager.
Differs: elections and ended tokens are worked off in slices until nothing is left; Kafka takes 1,000 and
begins again.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from kraftd.controller.brokers.heartbeats import BrokerState, fencing, shutdown_stage, state_of
from kraftd.controller.brokers.staged_plan import Stage, StagedPlan
from kraftd.controller.context import Context, ControllerSettings
from kraftd.controller.controller_registration import missing_registration
from kraftd.controller.delegation_token_control import EndedTokens
from kraftd.controller.partitions.broker_changes import PartitionChanges, leaderless, preferred
from kraftd.controller.plan_runner import PlanRunner
from kraftd.controller.plans import Plan, Task
from kraftd.controller.sessions import NO_CONTACT_MS, BrokerSessions
from kraftd.metadata.image import MetadataImage
from kraftd.metadata.parts.brokers import BROKERS
from kraftd.metadata.parts.features import FEATURES
from kraftd.records.messages import NoOpRecord
from kraftd.types import NEVER_MS, NO_NODE, NodeId, Offset

CHECKS_PER_SESSION_TIMEOUT: Final = 8

RETRY_MS: Final = 1_000
RETRY_MS_MAX: Final = 60_000

FENCE_BROKER = "FenceBroker"
FINISH = "FinishCutOffPlans"
RETRY = "RetryLeftOutPartitions"
ELECT_PREFERRED = "ElectPreferredLeaders"
ELECT_UNCLEAN = "ElectUncleanLeaders"
REMOVE_ENDED_TOKENS = EndedTokens.kind
REGISTER = "RegisterThisController"
NO_OP = "NoOp"
"""Kinds of plans that nobody asked for, as metrics and events name them."""

LOOK: Final = Task("LookForSilentBrokers")
"""No plan, and an alarm if it fails. The next look is its repetition."""

NO_OP_TASK: Final = Task(NO_OP)


_STOPPING: Final = BrokerState.CONTROLLED_SHUTDOWN


class _Failure(msgspec.Struct, frozen=True):
    """A task that failed, and when it is repeated."""

    count: int
    """0 before its first try: what failed is what it is to finish."""
    repeat_at_ms: int
    text: str
    again: Callable[[], Plan] | None = None
    """What makes the plan of what was left out; None if the task says how it is done."""


class Timers:
    """What is due when, in one epoch of leadership. Mutable, owned by the `ActiveController`."""

    def __init__(self, sessions: BrokerSessions, settings: ControllerSettings) -> None:
        self.wake_at_ms = NEVER_MS
        """When `due` may have something."""
        self._sessions = sessions
        self._look_ms = max(sessions.timeout_ms // CHECKS_PER_SESSION_TIMEOUT, 1)
        self._look_at_ms = NEVER_MS
        self._intervals_ms = _intervals_ms(settings)
        self._elect_at_ms = dict.fromkeys(self._intervals_ms, NEVER_MS)
        """When each kind of election is due."""
        self._ended_tokens_ms = (
            NEVER_MS if settings.tokens is None else settings.tokens.expiry_check_interval_ms
        )
        self._ended_tokens_at_ms = NEVER_MS
        self._finish: deque[Task] = deque()
        self._me = settings.me
        self._register = False
        self._failures: dict[Task, _Failure] = {}
        self._left_out = 0
        """How often something was left out: the numbers of those tasks."""

    @property
    def alarms(self) -> Sequence[str]:
        """What failed and is repeated, for operators."""
        return [
            f"{task.kind}: {_so_far(failure.count)}: {failure.text}"
            + (f" (broker {task.about})" if task.about is not None else "")
            for task, failure in self._failures.items()
        ]

    def begin(self, image: MetadataImage, now_ms: int) -> None:
        """Begin a leadership: look for what the one before left, and for silent brokers from now on."""
        brokers = image[BROKERS]
        stopping = [each for each, broker in brokers.items() if state_of(broker) is _STOPPING]
        if len(brokers) > 0:
            self._finish.extend([Task(FINISH), *(Task(FINISH, broker_id) for broker_id in stopping)])
            self.wake_at_ms = now_ms
        if self._ended_tokens_ms != NEVER_MS:
            self._ended_tokens_at_ms = now_ms + self._ended_tokens_ms
        self.brokers_changed(now_ms)

    def brokers_changed(self, now_ms: int) -> None:
        """Note that there may be other sessions than before."""
        if len(self._sessions) == 0:
            self._look_at_ms = NEVER_MS
            self._elect_at_ms = dict.fromkeys(self._intervals_ms, NEVER_MS)
        elif self._look_at_ms == NEVER_MS:
            self._look_at_ms = now_ms + self._look_ms
            self._elect_at_ms = {kind: now_ms + after_ms for kind, after_ms in self._intervals_ms.items()}
        self._rearm()

    def committed(self, before: MetadataImage, image: MetadataImage) -> None:
        """Note what is committed by now: other levels of features may ask for a registration."""
        if image[FEATURES] is before[FEATURES] or self._me is None:
            return
        if missing_registration(image, self._me):
            self._register = True
            self._rearm()

    def succeeded(self, task: Task) -> None:
        """Note that a task was done."""
        if self._failures and self._failures.pop(task, None) is not None:
            self._rearm()

    def failed(self, task: Task, text: str, now_ms: int, again: Callable[[], Plan] | None = None) -> None:
        """Note that a task failed: it is repeated later, and later each time; by `again` if that is given."""
        before = self._failures.get(task)
        count = 1 if before is None else before.count + 1
        if before is not None and again is None:
            again = before.again
        self._note(task, count, text, now_ms, again)

    def cut_off(self, about: NodeId, text: str, now_ms: int) -> None:
        """Note that of a plan about a broker only a part was done."""
        task = Task(FINISH, about)
        before = self._failures.get(task)
        self._note(task, 0 if before is None else before.count, text, now_ms, None)

    def left_out(
        self, task: Task | None, about: NodeId | None, text: str, again: Callable[[], Plan], now_ms: int
    ) -> None:
        """Note that something was left out of a plan about a broker, which is the end of `task`, if any."""
        if task is None or task.kind != RETRY:
            self._left_out += 1
            task = Task(RETRY, about, self._left_out)
        self.failed(task, text, now_ms, again)

    def no_op(self) -> Task | None:
        """The task that writes a NoOp; None if it failed, and is repeated anyway."""
        return None if NO_OP_TASK in self._failures else NO_OP_TASK

    def due(self, context: Context, plans: PlanRunner) -> Task | None:
        """What is due now; None if nothing is."""
        now_ms = context.now.mono_ms
        found = None
        if self._finish:
            found = self._finish_next(now_ms, plans)
        elif self._register:
            self._register = False
            found = Task(REGISTER)
        elif (task := self._repeated(now_ms)) is not None:
            found = self._repeat(task, context, plans)
        elif self._look_at_ms <= now_ms:
            self._look_at_ms = now_ms + self._look_ms
            found = self._fence_stalest(context, plans)
            self.succeeded(LOOK)
        elif self._ended_tokens_at_ms <= now_ms:
            self._ended_tokens_at_ms = now_ms + self._ended_tokens_ms
            found = self._unless_begun(Task(REMOVE_ENDED_TOKENS), plans)
        else:
            found = self._elect(now_ms, plans)
        self._rearm()
        return found

    def again_of(self, task: Task) -> Callable[[], Plan] | None:
        """What makes the plan of what was left out; None for another task."""
        failure = self._failures.get(task)
        return None if failure is None else failure.again

    def plan_of(self, task: Task, context: Context) -> Plan:
        """How a task is done."""
        again = self.again_of(task)
        return PLANS[task.kind](context, task) if again is None else again()

    # -- inside

    def _note(self, task: Task, count: int, text: str, now_ms: int, again: Callable[[], Plan] | None) -> None:
        """Note a task that is to be repeated, or done, later."""
        wait_ms = min(RETRY_MS << min(max(count - 1, 0), 6), RETRY_MS_MAX)
        repeat_at_ms = NEVER_MS if task == LOOK else now_ms + wait_ms
        self._failures[task] = _Failure(count, repeat_at_ms, text, again)
        self._rearm()

    def _rearm(self) -> None:
        first_repeat_ms = min((each.repeat_at_ms for each in self._failures.values()), default=NEVER_MS)
        at_ms = (self._look_at_ms, self._ended_tokens_at_ms, first_repeat_ms, *self._elect_at_ms.values())
        self.wake_at_ms = 0 if self._finish or self._register else min(at_ms)

    def _repeated(self, now_ms: int) -> Task | None:
        return next((task for task, each in self._failures.items() if each.repeat_at_ms <= now_ms), None)

    def _repeat(self, task: Task, context: Context, plans: PlanRunner) -> Task | None:
        """What failed, once more. What is about a broker that another plan is about can wait."""
        failure = self._failures[task]
        postponed = context.now.mono_ms + RETRY_MS
        self._failures[task] = msgspec.structs.replace(failure, repeat_at_ms=postponed)
        if (task.about is not None and plans.is_busy(task.about)) or _is_begun(task, plans):
            return None
        if task.kind == FENCE_BROKER and task.about not in self._silent(context):
            del self._failures[task]  # it is back, or gone
            return None
        return task

    def _finish_next(self, now_ms: int, plans: PlanRunner) -> Task | None:
        """What a new active controller looks after first, one by one."""
        task = self._finish.popleft()
        if task.about is None or not plans.is_busy(task.about):
            return task
        self.cut_off(task.about, "it stops, and something else is done about it", now_ms)
        return None

    def _fence_stalest(self, context: Context, plans: PlanRunner) -> Task | None:
        for broker_id in self._silent(context):
            task = Task(FENCE_BROKER, broker_id)
            if task not in self._failures and not plans.is_busy(broker_id):
                return task
        return None

    def _elect(self, now_ms: int, plans: PlanRunner) -> Task | None:
        """An election that is due."""
        for kind, at_ms in self._elect_at_ms.items():
            if at_ms > now_ms:
                continue
            self._elect_at_ms[kind] = now_ms + self._intervals_ms[kind]
            task = self._unless_begun(Task(kind), plans)
            if task is not None:
                return task
        return None

    def _unless_begun(self, task: Task, plans: PlanRunner) -> Task | None:
        """A task that is due, unless the one before has not ended, or failed and is repeated."""
        return None if task in self._failures or _is_begun(task, plans) else task

    def _silent(self, context: Context) -> Sequence[NodeId]:
        """The brokers that are not fenced and were not heard of in time, the one silent longest first."""
        brokers, heard_since_ms = context.image[BROKERS], context.now.mono_ms - self._sessions.timeout_ms
        silent = sorted(
            (session.contact_ms, broker_id)
            for broker_id, session in self._sessions.items()
            if session.contact_ms <= heard_since_ms
        )
        found = [(broker_id, brokers.get(broker_id)) for _, broker_id in silent]
        return [broker_id for broker_id, broker in found if broker is not None and not broker.fenced]


def fence(context: Context, task: Task) -> Plan:
    """A broker that is silent is fenced; nothing to do if it is gone."""
    broker_id = NO_NODE if task.about is None else task.about
    broker = context.image[BROKERS].get(broker_id)
    if broker is None:
        return StagedPlan(broker_id, [])
    epoch = broker.broker_epoch
    session = context.sessions.get(broker_id, epoch)
    heard_ms = NO_CONTACT_MS if session is None else session.contact_ms
    silent_ms = context.now.mono_ms - heard_ms if heard_ms != NO_CONTACT_MS else -1
    stage = fencing(broker, "broker_fenced", reason="no heartbeat", silent_ms=silent_ms)

    def when_appended(sessions: BrokerSessions, _end_offset: Offset, _now_ms: int) -> None:
        sessions.fenced_for_silence(broker_id, epoch, heard_ms)

    return StagedPlan(broker_id, [stage], when_appended=when_appended)


def finish(context: Context, task: Task) -> Plan:
    """What plans that were cut off may have left: of a broker that stops, the rest of its partitions; else
    partitions without leader.

    Only a plan about a broker may say what it is. Broker 2 was stopping when node 1 began to lead, and while
    node 1 looked for leaders of 40,000 partitions, it stopped and started again: it does not leave its ISRs.
    """
    broker = None if task.about is None else context.image[BROKERS].get(task.about)
    if broker is None or state_of(broker) is not _STOPPING:
        return StagedPlan(None, [Stage("", {}, changes=leaderless())])
    broker_id, epoch = broker.broker_id, broker.broker_epoch

    def when_appended(sessions: BrokerSessions, end_offset: Offset, _now_ms: int) -> None:
        sessions.shutting_down(broker_id, epoch, end_offset - 1)

    return StagedPlan(broker_id, [shutdown_stage(broker)], when_appended=when_appended)


def elect_preferred(_context: Context, _task: Task) -> Plan:
    """The first replicas lead what they can."""
    return StagedPlan(None, [_election("preferred_leaders_elected", preferred())])


def elect_unclean(_context: Context, _task: Task) -> Plan:
    """Whoever can by now leads what nobody leads."""
    return StagedPlan(None, [_election("leaderless_partitions_led", leaderless())])


def remove_ended_tokens(_context: Context, _task: Task) -> Plan:
    """Delegation tokens that have ended are removed."""
    return EndedTokens()


def register(context: Context, _task: Task) -> Plan:
    """This controller says what it supports; nothing to do if it has by now, or cannot any more."""
    me = context.settings.me
    records = () if me is None else missing_registration(context.image, me)
    return StagedPlan(None, [Stage("", {}, first=records)] if records else [])


def no_op(_context: Context, _task: Task) -> Plan:
    """The log of an idle cluster moves on."""
    return StagedPlan(None, [Stage("", {}, first=(NoOpRecord(),))])


def _election(line_name: str, changes: PartitionChanges) -> Stage:
    return Stage(line_name, {}, changes=changes, is_told_anyway=False)


def _is_begun(task: Task, plans: PlanRunner) -> bool:
    return any(run.task == task for run in plans)


def _so_far(count: int) -> str:
    if count == 0:
        return "is due"
    return f"failed {'once' if count == 1 else f'{count} times'}, is repeated"


def _intervals_ms(settings: ControllerSettings) -> Mapping[str, int]:
    """How often each kind of election is held."""
    intervals_ms = {ELECT_UNCLEAN: settings.unclean_leader_election_interval_ms}
    if settings.auto_leader_rebalance:
        intervals_ms[ELECT_PREFERRED] = settings.leader_imbalance_check_interval_seconds * 1_000
    return intervals_ms


PLANS: Final[Mapping[str, Callable[[Context, Task], Plan]]] = {
    FENCE_BROKER: fence,
    FINISH: finish,
    ELECT_PREFERRED: elect_preferred,
    ELECT_UNCLEAN: elect_unclean,
    REMOVE_ENDED_TOKENS: remove_ended_tokens,
    REGISTER: register,
    NO_OP: no_op,
}
"""How each kind of task is done; what was left out says by itself how (`Plan.again`)."""
