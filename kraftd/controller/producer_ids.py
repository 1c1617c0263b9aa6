"""AllocateProducerIds: a broker takes a block of producer ids, which nobody else gets, to hand them out.

Follows: Kafka's ProducerIdControlManager.
"""

from collections.abc import Sequence
from typing import Final

from kraftd.controller.context import Context
from kraftd.controller.operations import WriteOperation
from kraftd.errors import ErrorCode
from kraftd.metadata.parts.brokers import BROKERS
from kraftd.metadata.parts.producer_ids import PRODUCER_IDS
from kraftd.protocol.messages import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from kraftd.records.messages import ProducerIdsRecord

BLOCK: Final = 1_000
"""Ids of a block."""

_ID_MAX: Final = (1 << 63) - 1


def allocate_producer_ids(
    context: Context, request: AllocateProducerIdsRequest
) -> tuple[Sequence[ProducerIdsRecord], AllocateProducerIdsResponse]:
    """The next block, for a broker in its newest epoch."""
    broker = context.image[BROKERS].get(request.broker_id)
    if broker is None or broker.broker_epoch != request.broker_epoch:
        return (), refuse(request, ErrorCode.STALE_BROKER_EPOCH, "")
    first = PRODUCER_IDS.next_id(context.image) or 0
    if first > _ID_MAX - BLOCK:
        return (), refuse(request, ErrorCode.UNKNOWN_SERVER_ERROR, "")
    record = ProducerIdsRecord(request.broker_id, request.broker_epoch, first + BLOCK)
    return [record], AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=BLOCK)


def refuse(_request: AllocateProducerIdsRequest, error: ErrorCode, _text: str) -> AllocateProducerIdsResponse:
    """The response to a broker that gets no ids."""
    return AllocateProducerIdsResponse(error_code=error)


ALLOCATE_PRODUCER_IDS = WriteOperation(AllocateProducerIdsRequest, allocate_producer_ids, refuse)
