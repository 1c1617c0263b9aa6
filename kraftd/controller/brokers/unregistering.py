"""UnregisterBroker: forgets a broker that will not come back.

It leaves the ISRs and the ELRs of its partitions first; it stays among their replicas, which is for a
reassignment to change.

Follows: Kafka's unregisterBroker. A broker that is alive can be unregistered, too; it then stops.
"""

from kraftd.controller.brokers.staged_plan import Stage, StagedPlan
from kraftd.controller.context import Context
from kraftd.controller.operations import Decided, WriteOperation
from kraftd.controller.partitions.broker_changes import unregistered
from kraftd.errors import ErrorCode
from kraftd.metadata.parts.brokers import BROKERS
from kraftd.protocol.messages import UnregisterBrokerRequest, UnregisterBrokerResponse
from kraftd.records.messages import UnregisterBrokerRecord


def unregister_broker(context: Context, request: UnregisterBrokerRequest) -> Decided:
    """The plan that takes a broker out of the cluster."""
    broker_id = request.broker_id
    broker = context.image[BROKERS].get(broker_id)
    if broker is None:
        error = ErrorCode.BROKER_ID_NOT_REGISTERED
        return (), refuse(request, error, f"Broker ID {broker_id} is not currently registered")
    record = UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker.broker_epoch)
    stage = Stage(
        "broker_unregistered",
        {"broker": broker_id, "epoch": broker.broker_epoch, "asked_by": context.client.host},
        changes=unregistered(broker_id),
        last=lambda _context, _offset: (record,),
        is_leaving=True,
    )
    return StagedPlan(
        broker_id,
        [stage],
        response=UnregisterBrokerResponse(error_message=None),
        when_appended=lambda sessions, _end_offset, _now_ms: sessions.unregistered(broker_id),
    )


def refuse(_request: UnregisterBrokerRequest, error: ErrorCode, text: str) -> UnregisterBrokerResponse:
    """The response to a broker that was not unregistered, or may not have been."""
    return UnregisterBrokerResponse(error_code=error, error_message=text)


UNREGISTER_BROKER = WriteOperation(UnregisterBrokerRequest, unregister_broker, refuse)
