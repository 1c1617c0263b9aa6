"""BrokerHeartbeat: a broker keeps its session, says how far it has read the log, and what it wants.

What becomes of it is a table, `NEXT`: by what it is and what it wants. What a heartbeat changes is done by a
plan, since it may move every partition of the broker; one that changes nothing, as nearly all, writes none.

A broker in controlled shutdown first leaves all ISRs and leads nothing more. It may stop once every broker
that is up has read the log beyond that: until then, some would still ask it (KAFKA-14292). Where nobody knows
how far that is, and nobody sees to it, its heartbeat does: it asks until it is told, and so it always is.

The session is touched when the request arrives, before anything can delay it (`arrived`): a controller that
is busy fences nobody for it.

Follows: Kafka's BrokerHeartbeatManager.calculateNextBrokerState, ReplicationControlManager's
processBrokerHeartbeat and handleDirectoriesOffline.
Differs: lost directories come before the other changes of a heartbeat, so that nobody is elected on one; for
a broker that is fenced and may stop no record is written.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from kraftd.controller.brokers.staged_plan import Stage, StagedPlan
from kraftd.controller.context import Context
from kraftd.controller.event_queue import EventClass
from kraftd.controller.log_directories import is_cordoned_anew, newly_offline
from kraftd.controller.operations import Decided, WriteOperation
from kraftd.controller.partitions.broker_changes import (
    directories_lost,
    fenced,
    leads_anything,
    shutting_down,
    unfenced,
)
from kraftd.controller.plans import LogLine, Refused
from kraftd.controller.sessions import BrokerSessions
from kraftd.errors import ErrorCode
from kraftd.metadata.feature_levels import CORDONED_LOG_DIRS_SINCE, DIRECTORIES_SINCE
from kraftd.metadata.parts.brokers import BROKERS
from kraftd.protocol.messages import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kraftd.records.frame import AnyRecord
from kraftd.records.messages import BrokerRegistrationChangeRecord, RegisterBrokerRecord
from kraftd.types import Offset, uuid_text

FENCING_CHANGE, UNFENCING_CHANGE = 1, -1
"""What a change of a registration says of `fenced`."""


class BrokerState(Enum):
    """What a broker is: Kafka's BrokerControlStates."""

    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "in controlled shutdown"
    SHUTDOWN_NOW = "may stop"
    """Fenced for good: no state of its own in the image."""


_Condition: TypeAlias = Callable[[Context, RegisterBrokerRecord, BrokerHeartbeatRequest], bool]


class _Rule(NamedTuple):
    """A line of the table: in which state, if this holds, what the broker becomes."""

    state: BrokerState
    condition: _Condition
    becomes: BrokerState


def _stops(_context: Context, _broker: RegisterBrokerRecord, request: BrokerHeartbeatRequest) -> bool:
    return request.want_shut_down


def _is_ready(context: Context, broker: RegisterBrokerRecord, request: BrokerHeartbeatRequest) -> bool:
    return not request.want_fence and is_caught_up(context, broker, request)


def _fences_and_stops(
    _context: Context, _broker: RegisterBrokerRecord, request: BrokerHeartbeatRequest
) -> bool:
    return request.want_fence and request.want_shut_down


def _fences(_context: Context, _broker: RegisterBrokerRecord, request: BrokerHeartbeatRequest) -> bool:
    return request.want_fence


def _stops_leading_nothing(
    context: Context, broker: RegisterBrokerRecord, request: BrokerHeartbeatRequest
) -> bool:
    return request.want_shut_down and not leads_anything(context.image, broker.broker_id)


def _is_through(context: Context, broker: RegisterBrokerRecord, _request: BrokerHeartbeatRequest) -> bool:
    if leads_anything(context.image, broker.broker_id):
        return False
    session = context.sessions.get(broker.broker_id, broker.broker_epoch)
    return session is not None and 0 <= session.shutdown_offset <= lowest_active_offset(context)


NEXT: Final[tuple[_Rule, ...]] = (
    _Rule(BrokerState.FENCED, _stops, BrokerState.SHUTDOWN_NOW),
    _Rule(BrokerState.FENCED, _is_ready, BrokerState.UNFENCED),
    _Rule(BrokerState.UNFENCED, _fences_and_stops, BrokerState.SHUTDOWN_NOW),
    _Rule(BrokerState.UNFENCED, _fences, BrokerState.FENCED),
    _Rule(BrokerState.UNFENCED, _stops_leading_nothing, BrokerState.SHUTDOWN_NOW),
    _Rule(BrokerState.UNFENCED, _stops, BrokerState.CONTROLLED_SHUTDOWN),
    _Rule(BrokerState.CONTROLLED_SHUTDOWN, _is_through, BrokerState.SHUTDOWN_NOW),
)
"""What a heartbeat makes of a broker: the first line that holds; without one it stays what it is."""


def state_of(broker: RegisterBrokerRecord) -> BrokerState:
    """What a broker is in the image."""
    if broker.fenced:
        return BrokerState.FENCED
    return BrokerState.CONTROLLED_SHUTDOWN if broker.in_controlled_shutdown else BrokerState.UNFENCED


def next_state(
    context: Context, broker: RegisterBrokerRecord, request: BrokerHeartbeatRequest
) -> BrokerState:
    """What a broker becomes by a heartbeat."""
    state = state_of(broker)
    for rule in NEXT:
        if rule.state is state and rule.condition(context, broker, request):
            return rule.becomes
    return state


def is_caught_up(context: Context, broker: RegisterBrokerRecord, request: BrokerHeartbeatRequest) -> bool:
    """Whether a broker has read its own registration."""
    session = context.sessions.get(broker.broker_id, broker.broker_epoch)
    return session is not None and request.current_metadata_offset >= session.registered_offset


def _stops_adrift(context: Context, broker: RegisterBrokerRecord, request: BrokerHeartbeatRequest) -> bool:
    """Whether a broker in controlled shutdown waits for what nobody knows, or is about to find out.

    The log refused to unregister broker 4, which was stopping: its session was gone with the decision, and is
    another one now. Nothing else would look at broker 4 again: it is heard, and leads nothing.
    """
    if not request.want_shut_down or state_of(broker) is not BrokerState.CONTROLLED_SHUTDOWN:
        return False
    if broker.broker_id in context.leaving.brokers:
        return False
    session = context.sessions.get(broker.broker_id, broker.broker_epoch)
    return session is not None and session.shutdown_offset < 0


def lowest_active_offset(context: Context) -> Offset:
    """How far every broker that is up has read the log."""
    return min(
        (
            session.metadata_offset
            for broker_id, session in context.sessions.items()
            if (broker := context.image[BROKERS].get(broker_id)) is not None
            and state_of(broker) is BrokerState.UNFENCED
        ),
        default=context.next_offset,
    )


# -- the decision


def heartbeat(context: Context, request: BrokerHeartbeatRequest) -> Decided:
    """What a heartbeat leads to. Most lead to nothing but a response."""
    broker = context.image[BROKERS].get(request.broker_id)
    if broker is None or broker.broker_epoch != request.broker_epoch:
        return _stale(context, request, broker)
    state, becomes = state_of(broker), next_state(context, broker, request)
    stages = [*_lost_directories(context, broker, request)]
    if becomes is not state or _stops_adrift(context, broker, request):
        stages += _STAGES[becomes](broker)
    stages += _cordoned_directories(context, broker, request)
    response = BrokerHeartbeatResponse(
        is_caught_up=is_caught_up(context, broker, request),
        is_fenced=becomes in (BrokerState.FENCED, BrokerState.SHUTDOWN_NOW),
        should_shut_down=becomes is BrokerState.SHUTDOWN_NOW,
    )
    if not stages:
        return (), response
    return StagedPlan(
        broker.broker_id, stages, response=response, when_appended=_when_appended(broker, becomes)
    )


def refuse(_request: BrokerHeartbeatRequest, error: ErrorCode, _text: str) -> BrokerHeartbeatResponse:
    """The response to a heartbeat that could not be heeded."""
    return BrokerHeartbeatResponse(error_code=error)


def arrived(sessions: BrokerSessions, request: BrokerHeartbeatRequest, now_ms: int) -> None:
    """Touch the session, whatever becomes of the heartbeat."""
    sessions.heard(
        request.broker_id,
        request.broker_epoch,
        request.current_metadata_offset,
        now_ms,
        failed_directories=request.offline_log_dirs,
    )


def _stale(context: Context, request: BrokerHeartbeatRequest, broker: RegisterBrokerRecord | None) -> Refused:
    known = "it is not registered" if broker is None else f"it is registered in epoch {broker.broker_epoch}"
    fields = {
        "broker": request.broker_id,
        "epoch": request.broker_epoch,
        "host": context.client.host,
        "reason": f"{known}: another start took its place, or it was unregistered; restart it",
    }
    key = (request.broker_id, request.broker_epoch)
    line = LogLine("heartbeat_refused", fields, is_warning=True, key=key)
    return Refused(refuse(request, ErrorCode.STALE_BROKER_EPOCH, ""), line)


# -- what is written


def change_of(
    broker: RegisterBrokerRecord, *, fenced: int = 0, in_controlled_shutdown: bool = False
) -> BrokerRegistrationChangeRecord:
    """The record that changes the state of a broker."""
    return BrokerRegistrationChangeRecord(
        broker_id=broker.broker_id,
        broker_epoch=broker.broker_epoch,
        fenced=fenced,
        in_controlled_shutdown=int(in_controlled_shutdown),
    )


def fencing(broker: RegisterBrokerRecord, line_name: str, **fields: object) -> Stage:
    """A broker leaves its partitions, and is fenced."""
    record = change_of(broker, fenced=FENCING_CHANGE)
    return Stage(
        line_name,
        {**_who(broker), **fields},
        changes=fenced(broker.broker_id),
        last=lambda _context, _offset: (record,),
        is_leaving=True,
    )


def shutdown_stage(broker: RegisterBrokerRecord, *records: AnyRecord) -> Stage:
    """A broker in controlled shutdown leaves its partitions."""
    return Stage(
        "controlled_shutdown_begun",
        _who(broker),
        first=records,
        changes=shutting_down(broker.broker_id),
        is_leaving=True,
    )


def _unfencing(broker: RegisterBrokerRecord) -> Sequence[Stage]:
    record = change_of(broker, fenced=UNFENCING_CHANGE)
    changes = unfenced(broker.broker_id)
    return (Stage("broker_unfenced", _who(broker), first=(record,), changes=changes),)


def _fenced_as_asked(broker: RegisterBrokerRecord) -> Sequence[Stage]:
    return (fencing(broker, "broker_fenced", reason="it asked for it"),)


def _stopping(broker: RegisterBrokerRecord) -> Sequence[Stage]:
    if broker.in_controlled_shutdown:
        return (shutdown_stage(broker),)
    return (shutdown_stage(broker, change_of(broker, in_controlled_shutdown=True)),)


def _stopped(broker: RegisterBrokerRecord) -> Sequence[Stage]:
    if broker.fenced:
        return (Stage("broker_may_stop", _who(broker)),)
    if broker.in_controlled_shutdown:
        return (fencing(broker, "controlled_shutdown_done"),)
    return (fencing(broker, "broker_fenced", reason="it stops, and leads nothing"),)


_STAGES: Final[Mapping[BrokerState, Callable[[RegisterBrokerRecord], Sequence[Stage]]]] = {
    BrokerState.FENCED: _fenced_as_asked,
    BrokerState.UNFENCED: _unfencing,
    BrokerState.CONTROLLED_SHUTDOWN: _stopping,
    BrokerState.SHUTDOWN_NOW: _stopped,
}


def _lost_directories(
    context: Context, broker: RegisterBrokerRecord, request: BrokerHeartbeatRequest
) -> Sequence[Stage]:
    """What it means that a broker tells of fewer directories. One that has lost all keeps them in the image,
    as in Kafka: to a change that names none they are what they were.
    """
    if context.image.metadata_version < DIRECTORIES_SINCE:
        return ()
    lost = newly_offline(broker, request.offline_log_dirs)
    left = tuple(directory for directory in broker.log_dirs if directory not in lost)
    if not lost:
        return ()
    record = BrokerRegistrationChangeRecord(broker.broker_id, broker.broker_epoch, log_dirs=left)
    told = {**_who(broker), "directories": [uuid_text(directory) for directory in lost]}
    stage = Stage(
        "directory_lost",
        told,
        changes=directories_lost(broker.broker_id, lost),
        last=lambda _context, _offset: (record,),
        lost_directories=frozenset(lost),
    )
    return (stage,)


def _cordoned_directories(
    context: Context, broker: RegisterBrokerRecord, request: BrokerHeartbeatRequest
) -> Sequence[Stage]:
    """What it means that a broker tells which directories get no new replicas."""
    cordoned = request.cordoned_log_dirs
    if context.image.metadata_version < CORDONED_LOG_DIRS_SINCE or cordoned is None:
        return ()
    if not is_cordoned_anew(broker, cordoned):
        return ()
    change = BrokerRegistrationChangeRecord(broker.broker_id, broker.broker_epoch, cordoned_log_dirs=cordoned)
    told = {**_who(broker), "directories": [uuid_text(directory) for directory in cordoned]}
    is_news = bool(cordoned or broker.cordoned_log_dirs)  # every start says it, and nearly all say "none"
    return (Stage("directories_cordoned" if is_news else "", told, first=(change,)),)


def _when_appended(
    broker: RegisterBrokerRecord, becomes: BrokerState
) -> Callable[[BrokerSessions, Offset, int], None] | None:
    """What the sessions are told once everything is appended."""
    broker_id, epoch = broker.broker_id, broker.broker_epoch
    if becomes is BrokerState.SHUTDOWN_NOW:
        return lambda sessions, _end_offset, _now_ms: sessions.over(broker_id, epoch)
    if becomes is BrokerState.CONTROLLED_SHUTDOWN:
        return lambda sessions, end_offset, _now_ms: sessions.shutting_down(broker_id, epoch, end_offset - 1)
    if becomes is BrokerState.UNFENCED:
        return lambda sessions, _end_offset, _now_ms: sessions.unfenced(broker_id, epoch)
    return None


def _who(broker: RegisterBrokerRecord) -> Mapping[str, object]:
    return {"broker": broker.broker_id, "epoch": broker.broker_epoch}


BROKER_HEARTBEAT = WriteOperation(
    BrokerHeartbeatRequest, heartbeat, refuse, arrived, EventClass.SESSIONS, (BROKERS,)
)
