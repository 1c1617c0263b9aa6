"""ListBrokers: the registered brokers with their sessions, in pages, from a committed image.

An API of kraftd; Kafka's controllers have none that tells of sessions, or of fenced brokers' partitions. What
the image does not hold (when a broker was last heard of, how far it has read the metadata log) is the active
controller's own, and is of the moment of the response.
"""

from typing import Final

from kraftd.controller.operations import SessionReadOperation
from kraftd.controller.response_room import PageRoom, entry_bytes
from kraftd.controller.sessions import NO_CONTACT_MS, BrokerSessions
from kraftd.errors import ErrorCode
from kraftd.metadata.image import MetadataImage
from kraftd.metadata.parts.brokers import BROKERS
from kraftd.metadata.parts.topics import TOPICS
from kraftd.metadata.parts.topics.broker_index import IN_SYNC, LEADER, REPLICA
from kraftd.protocol.messages import (
    ListBrokersRequest,
    ListBrokersResponse,
    ListBrokersResponseBroker,
    ListBrokersResponseListener,
)
from kraftd.records.messages import RegisterBrokerRecord
from kraftd.types import Offset

_UUID_BYTES: Final = 18
_LISTENER_BYTES: Final = 16
"""At most what a directory's id, and a listener beside its texts, take in msgpack."""

_NO_MORE: Final = -1


def list_brokers(
    image: MetadataImage,
    request: ListBrokersRequest,
    applied_offset: Offset,
    sessions: BrokerSessions,
    now_ms: int,
) -> ListBrokersResponse:
    """A page of the brokers asked for, by id."""
    brokers, room = image[BROKERS], PageRoom()
    wanted = (
        (broker_id for broker_id, _ in brokers.items()) if request.broker_ids is None else request.broker_ids
    )
    page: list[ListBrokersResponseBroker] = []
    next_after = _NO_MORE
    for broker_id in sorted({*wanted}):
        broker = brokers.get(broker_id)
        if broker is None or broker_id <= request.after_broker_id:
            continue
        if not room.add(_bytes_of(broker)):
            next_after = page[-1].broker_id
            break
        page.append(_entry(image, broker, sessions, now_ms))
    return ListBrokersResponse(
        applied_offset=applied_offset,
        session_timeout_ms=sessions.timeout_ms,
        brokers=tuple(page),
        next_after_broker_id=next_after,
    )


def _entry(
    image: MetadataImage, broker: RegisterBrokerRecord, sessions: BrokerSessions, now_ms: int
) -> ListBrokersResponseBroker:
    session = sessions.get(broker.broker_id, broker.broker_epoch)
    # A new leader takes whoever is unfenced for heard of now: that is when its session began, and no contact.
    is_heard = session is not None and session.metadata_offset >= 0
    contact_ms = session.contact_ms if session is not None and is_heard else NO_CONTACT_MS
    index = image[TOPICS].broker_index
    return ListBrokersResponseBroker(
        broker_id=broker.broker_id,
        broker_epoch=broker.broker_epoch,
        incarnation_id=broker.incarnation_id,
        is_fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        rack=broker.rack,
        listeners=tuple(
            ListBrokersResponseListener(name=end.name, host=end.host, port=end.port)
            for end in broker.end_points
        ),
        log_dirs=broker.log_dirs,
        cordoned_log_dirs=broker.cordoned_log_dirs or (),
        leader_count=index.count(broker.broker_id, LEADER),
        in_sync_count=index.count(broker.broker_id, IN_SYNC),
        replica_count=index.count(broker.broker_id, REPLICA),
        # A heartbeat may have come between the request and its response.
        last_contact_ms=-1 if contact_ms == NO_CONTACT_MS else max(now_ms - contact_ms, 0),
        metadata_offset=-1 if session is None else session.metadata_offset,
    )


def _bytes_of(broker: RegisterBrokerRecord) -> int:
    directories = len(broker.log_dirs) + len(broker.cordoned_log_dirs or ())
    listeners = sum(_LISTENER_BYTES + entry_bytes(end.name, end.host) for end in broker.end_points)
    return 2 * entry_bytes(broker.rack) + _UUID_BYTES * directories + listeners


def refuse(_request: ListBrokersRequest, error: ErrorCode, text: str) -> ListBrokersResponse:
    """The response to a list that could not be read."""
    return ListBrokersResponse(error_code=error, error_message=text, applied_offset=-1)


LIST_BROKERS = SessionReadOperation(
    ListBrokersRequest,
    lambda context, request: list_brokers(
        context.image, request, context.applied_offset, context.sessions, context.now.mono_ms
    ),
    refuse,
)
