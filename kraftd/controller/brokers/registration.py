"""BrokerRegistration: a broker says, at each start, that it is there, and gets its epoch.

The same incarnation may register again, to say more (after an upgrade of the cluster, for example); it keeps
its epoch. A new incarnation gets a new epoch: the offset of its record, or a lower bound of it that is above
every epoch before. Before that record the former one leaves all ISRs, and the ELRs, too, unless the broker
proves a clean shutdown (it knows the epoch that it had): it may have lost records that it had acknowledged.

While the former incarnation is heard of, a new one is refused. So the second of two brokers with one id
waits, and is named in the log; a broker that was killed and comes back waits until its old session is over.

Follows: Kafka's ClusterControlManager.registerBroker.
Differs: a broker under the id of a voter of the quorum is refused, since this quorum runs controllers only.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeAlias

import msgspec

from kraftd.controller.brokers.staged_plan import Stage, StagedPlan, plan_of_left_out
from kraftd.controller.context import Context
from kraftd.controller.event_queue import EventClass
from kraftd.controller.listeners import each_once, listeners_complaint
from kraftd.controller.log_directories import directories_complaint
from kraftd.controller.operations import WriteOperation
from kraftd.controller.partitions.broker_changes import restarted
from kraftd.controller.plans import SLICE_RECORDS, LeftOut, LogLine, Plan, Refused
from kraftd.controller.sessions import BrokerSessions
from kraftd.errors import ErrorCode
from kraftd.metadata.feature_levels import (
    DIRECTORIES_SINCE,
    METADATA_VERSION,
    metadata_version_name,
)
from kraftd.metadata.image import MetadataImage
from kraftd.metadata.parts.brokers import BROKERS
from kraftd.metadata.parts.features import FEATURES
from kraftd.protocol.messages import BrokerRegistrationRequest, BrokerRegistrationResponse
from kraftd.records.frame import AnyRecord
from kraftd.records.messages import (
    PartitionChangeRecord,
    RegisterBrokerRecord,
    RegisterBrokerRecordBrokerEndpoint,
    RegisterBrokerRecordBrokerFeature,
)
from kraftd.types import Offset, uuid_text

_PREVIOUS_EPOCH_SINCE: Final = 3
"""The version of the request from which a broker says which epoch its last clean shutdown had."""


class Complaint(NamedTuple):
    """Why a broker is not registered."""

    error: ErrorCode
    text: str


_Check: TypeAlias = Callable[[Context, BrokerRegistrationRequest], Complaint | None]


def _other_cluster(context: Context, request: BrokerRegistrationRequest) -> Complaint | None:
    expected = context.settings.cluster_id
    if not expected or request.cluster_id == expected:
        return None
    text = (
        f"it belongs to cluster {request.cluster_id}, not to {expected}: check its controller.quorum.voters"
    )
    return Complaint(ErrorCode.INCONSISTENT_CLUSTER_ID, text)


def _id_of_a_voter(context: Context, request: BrokerRegistrationRequest) -> Complaint | None:
    if request.broker_id not in context.settings.voter_ids:
        return None
    text = f"node {request.broker_id} is a controller of this quorum: give the broker another node.id"
    return Complaint(ErrorCode.INVALID_REGISTRATION, text)


def _duplicate(context: Context, request: BrokerRegistrationRequest) -> Complaint | None:
    known = context.image[BROKERS].get(request.broker_id)
    if known is None or known.incarnation_id == request.incarnation_id:
        return None
    if not context.sessions.is_alive(known.broker_id, known.broker_epoch, context.now.mono_ms):
        return None
    text = (
        f"another start of broker {known.broker_id} is alive; if it was just restarted, this passes within "
        f"{context.settings.broker_session_timeout_ms} ms, else two brokers have this node.id"
    )
    return Complaint(ErrorCode.DUPLICATE_BROKER_REGISTRATION, text)


def _from_zookeeper(_context: Context, request: BrokerRegistrationRequest) -> Complaint | None:
    if not request.is_migrating_zk_broker:
        return None
    return Complaint(ErrorCode.BROKER_ID_NOT_REGISTERED, "it is moving away from ZooKeeper; here is none")


def _directories(context: Context, request: BrokerRegistrationRequest) -> Complaint | None:
    if context.image.metadata_version < DIRECTORIES_SINCE:
        return None
    text = directories_complaint(context.image, request.broker_id, request.log_dirs)
    return None if text is None else Complaint(ErrorCode.INVALID_REGISTRATION, text)


def _listeners(_context: Context, request: BrokerRegistrationRequest) -> Complaint | None:
    text = listeners_complaint(request.listeners)
    if text is None and any(not listener.name for listener in request.listeners):
        text = "a listener has no name"
    return None if text is None else Complaint(ErrorCode.INVALID_REGISTRATION, text)


def _features(context: Context, request: BrokerRegistrationRequest) -> Complaint | None:
    """What it lists comes first, then that it lists `metadata.version`, then what it does not list."""
    levels = context.image[FEATURES]
    listed = {f.name for f in request.features}
    for each in request.features:
        found = _unsupported(
            each.name, levels.level(each.name), each.min_supported_version, each.max_supported_version
        )
        if found is not None:
            return found
    if METADATA_VERSION not in listed:
        return Complaint(
            ErrorCode.INVALID_REGISTRATION, f"it does not say which {METADATA_VERSION} it supports"
        )
    left_out = (_unsupported(name, level, 0, 0) for name, level in levels.items() if name not in listed)
    return next((found for found in left_out if found is not None), None)


def _unsupported(name: str, level: int, low: int, high: int) -> Complaint | None:
    if low <= level <= high:
        return None
    told = metadata_version_name(level) if name == METADATA_VERSION else str(level)
    text = f"the cluster runs {name} {told} (level {level}); it supports levels {low} to {high} only"
    return Complaint(ErrorCode.UNSUPPORTED_VERSION, text)


CHECKS: Final[tuple[_Check, ...]] = (
    _other_cluster,
    _id_of_a_voter,
    _duplicate,
    _from_zookeeper,
    _directories,
    _listeners,
    _features,
)
"""What may be wrong with a registration, in the order in which it is looked for."""


def complaint_about(context: Context, request: BrokerRegistrationRequest) -> Complaint | None:
    """Why a broker cannot be registered now, None if it can."""
    return next((found for check in CHECKS if (found := check(context, request)) is not None), None)


def register_broker(context: Context, request: BrokerRegistrationRequest) -> Plan:
    """The records of a registration, or its refusal."""
    complaint = complaint_about(context, request)
    if complaint is not None:
        return _refused(context, request, complaint)
    broker_id = request.broker_id
    known = context.image[BROKERS].get(broker_id)
    if known is not None and known.incarnation_id == request.incarnation_id:
        return _amendment(context, request, known)
    return RegistrationPlan(context, request, known)


def refuse(_request: BrokerRegistrationRequest, error: ErrorCode, _text: str) -> BrokerRegistrationResponse:
    """The response to a registration that was not done, or may not have been."""
    return BrokerRegistrationResponse(error_code=error)


def _refused(context: Context, request: BrokerRegistrationRequest, complaint: Complaint) -> Refused:
    fields = {
        "broker": request.broker_id,
        "host": context.client.host,
        "error": complaint.error.name,
        "reason": complaint.text,
    }
    line = LogLine("broker_refused", fields, is_warning=True, key=(request.broker_id, complaint.error))
    return Refused(refuse(request, complaint.error, complaint.text), line)


def _amendment(
    context: Context, request: BrokerRegistrationRequest, known: RegisterBrokerRecord
) -> StagedPlan:
    """More of what an incarnation has said before: it keeps epoch, state and session."""
    record = msgspec.structs.replace(
        record_of(request, context.image),
        broker_epoch=known.broker_epoch,
        fenced=known.fenced,
        in_controlled_shutdown=known.in_controlled_shutdown,
        cordoned_log_dirs=known.cordoned_log_dirs,
    )
    fields = {"broker": known.broker_id, "epoch": known.broker_epoch, "host": context.client.host}

    def when_appended(sessions: BrokerSessions, end_offset: Offset, _now_ms: int) -> None:
        sessions.registered(known.broker_id, known.broker_epoch, end_offset - 1)

    return StagedPlan(
        known.broker_id,
        [Stage("broker_registration_amended", fields, first=(record,))],
        response=BrokerRegistrationResponse(broker_epoch=known.broker_epoch),
        when_appended=when_appended,
    )


class RegistrationPlan(Plan):
    """A new incarnation of a broker: the former one leaves its partitions, then it is registered, fenced."""

    kind = "BrokerRegistration"

    def __init__(
        self, context: Context, request: BrokerRegistrationRequest, known: RegisterBrokerRecord | None
    ) -> None:
        self.about, self.is_leaving = request.broker_id, True
        self._request = request
        self._known_epoch = None if known is None else known.broker_epoch
        self._is_clean = context.version < _PREVIOUS_EPOCH_SINCE or (
            known is not None and known.broker_epoch == request.previous_broker_epoch
        )
        self._host = context.client.host
        self._changes = restarted(request.broker_id, clean=self._is_clean)
        self._epoch = -1
        self._complaint: Complaint | None = None

    def advance(self, context: Context) -> tuple[Sequence[AnyRecord], bool]:
        """The next changes of its partitions; with the last of them its record."""
        # Two brokers with one directory register at the same time: only the image after the first one's
        # record tells the second one's plan.
        self._complaint = complaint_about(context, self._request)
        if self._complaint is not None:
            self.is_given_up = True
            return (), True
        changes, is_done = self._changes.next(context, SLICE_RECORDS - 1)
        if not is_done:
            return changes, False
        self._epoch = context.next_offset + len(changes)
        record = msgspec.structs.replace(record_of(self._request, context.image), broker_epoch=self._epoch)
        return [*changes, record], True

    def response(self) -> BrokerRegistrationResponse:
        """Which epoch it got, or why it was refused."""
        if self._complaint is not None:
            return refuse(self._request, *self._complaint)
        return BrokerRegistrationResponse(broker_epoch=self._epoch)

    def appended(self, sessions: BrokerSessions, end_offset: Offset, _now_ms: int) -> None:
        """Note where it is in the log; its session begins with its first heartbeat."""
        if self._complaint is None:
            sessions.registered(self._request.broker_id, self._epoch, end_offset - 1)

    def lines(self) -> Sequence[LogLine]:
        """That it is registered, and what its former incarnation leaves behind."""
        fields: dict[str, object] = {"broker": self._request.broker_id, "host": self._host}
        if self._complaint is not None:
            fields |= {"error": self._complaint.error.name, "reason": self._complaint.text}
            return (LogLine("broker_refused", fields, is_warning=True),)
        fields |= {"epoch": self._epoch, "incarnation": uuid_text(self._request.incarnation_id)}
        if self._known_epoch is not None:
            fields |= {"former_epoch": self._known_epoch, "clean_shutdown": self._is_clean}
        counts = self._changes.counts
        if counts.changed:
            fields |= {"partitions": counts.changed, "new_leaders": counts.moved, "offline": counts.offline}
        return (LogLine("broker_registered", fields),)

    def leave_out(self, record: AnyRecord, error: Exception) -> bool:
        """Go on without the partition of a change that cannot be made."""
        if not isinstance(record, PartitionChangeRecord):
            return False
        return self._changes.leave_out(record.topic_id, record.partition_id, error)

    def failures(self) -> Sequence[LeftOut]:
        """The partitions that were left out."""
        return [LeftOut.partition(*failed) for failed in self._changes.failures]

    def again(self) -> Callable[[], Plan]:
        """What makes a plan of what was left out."""
        return partial(plan_of_left_out, self.about, [self._changes])


def record_of(request: BrokerRegistrationRequest, image: MetadataImage) -> RegisterBrokerRecord:
    """The record of an incarnation that was never heard of: fenced, without an epoch yet."""
    level = image.metadata_version
    return RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        end_points=tuple(
            RegisterBrokerRecordBrokerEndpoint(
                name=listener.name,
                host=listener.host,
                port=listener.port,
                security_protocol=listener.security_protocol,
            )
            for listener in each_once(request.listeners)
        ),
        features=tuple(
            RegisterBrokerRecordBrokerFeature(
                name=feature.name,
                min_supported_version=feature.min_supported_version,
                max_supported_version=feature.max_supported_version,
            )
            for feature in request.features
        ),
        rack=request.rack,
        fenced=True,
        log_dirs=request.log_dirs if level >= DIRECTORIES_SINCE else (),
    )


BROKER_REGISTRATION = WriteOperation(
    BrokerRegistrationRequest, register_broker, refuse, event_class=EventClass.SESSIONS
)
