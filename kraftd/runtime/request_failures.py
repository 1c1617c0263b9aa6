"""What a request costs whose handler raises: itself, and no more (D-14).

Entered by the request router, with what left a handler, and by those who answer later than their handler
returns (`controller_apis`, `committed_fetches`, `log_export`). The request is answered UNKNOWN_SERVER_ERROR,
in the response of its own API; one line says its kind and where in the code it was, and it is counted with
the decisions that raised (MetadataErrorCount).

This ends the process all the same (D-17): what raises in a request of the quorum's own, which is half done
then; in the raft node, or while its effects are carried out, whoever's request was behind them; and what the
disk refuses.

Not here: decisions and reads of the controller, which answer for themselves (`QuorumController`); bytes that
are no request (`net`).
"""

from collections.abc import Callable
from typing import Any, Final, get_args

from kraftd.controller.plans import LogLine
from kraftd.controller.quorum_controller import QuorumController
from kraftd.errors import ErrorCode, StorageError
from kraftd.protocol.codec import Request
from kraftd.protocol.kafka_codec import KAFKA
from kraftd.protocol.messages import QuorumRequest
from kraftd.protocol.msgpack_codec import MSGPACK
from kraftd.runtime.driver import Driver
from kraftd.runtime.request_router import Requester

_QUORUM: Final = frozenset(get_args(QuorumRequest))

_TEXT: Final = "It failed, which is a defect of this program; the log of this node says where."


class RequestFailures:
    """Settles the requests of one node whose handlers raised."""

    def __init__(self, driver: Driver, controller: QuorumController, log: Callable[[LogLine], None]) -> None:
        self._driver = driver
        self._controller = controller
        self._log = log
        self._fatal: Exception | None = None
        """What is on its way out of a request that was inside another one (Envelope)."""

    def settle(self, requester: Requester, request: Request, error: Exception) -> None:
        """Answer a request whose handler raised this, unless it ends the process: then it is raised again."""
        if (
            type(request.message) in _QUORUM
            or isinstance(error, StorageError)
            or self._driver.has_failed
            or error is self._fatal
        ):
            self._fatal = error
            raise error
        self._log(self._controller.request_failed(request.message, error))
        try:
            response = refusal_of(self._controller, request.message, ErrorCode.UNKNOWN_SERVER_ERROR)
        except Exception as again:  # noqa: BLE001 - the very refusal is broken: then its connection ends
            self._log(self._controller.request_failed(request.message, again))
            response = None
        requester.give_up(request.api_version, request.correlation_id, response)


def refusal_of(controller: QuorumController, message: Any, error: ErrorCode, text: str | None = None) -> Any:
    """The response that says why a request was not handled: as the controller refuses, or with the error code
    of the response.
    """
    if type(message) in controller.requests:
        return controller.refusal(message, error, text)
    response = (KAFKA.apis.get(message.API_KEY) or MSGPACK.apis[message.API_KEY]).response
    told = {"error_message": text or _TEXT} if "error_message" in response.__struct_fields__ else {}
    return response(error_code=error, **told)
