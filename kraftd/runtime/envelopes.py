"""Serves what brokers forward for their clients: requests inside an Envelope.

Entered by the request router, through `handlers`. The inner request goes to the handler of its API, as one
that came by a connection of its own: only who sent it is told by the envelope. Its response goes back inside
the envelope's, in the version of the inner request.

A broker looks for another controller only if the *envelope* says NOT_CONTROLLER. So any such code inside the
response becomes that one, however deep it is, and so does NOT_LEADER_OR_FOLLOWER of a DescribeQuorum: inside,
it would reach the client, as a failure.

Follows: Kafka's EnvelopeUtils, the errors and their order too, and RequestChannel.Request for the response.
"""

import socket
from collections.abc import Mapping, Sequence
from typing import Any

from kraftd.controller.access import FORWARDABLE
from kraftd.controller.context import Client
from kraftd.errors import ErrorCode, KraftdError, MalformedError
from kraftd.net.rate_limited_logger import RateLimitedLogger
from kraftd.protocol.api_names import KAFKA_APIS, api_name
from kraftd.protocol.codec import Buffer, Request, UnsupportedVersion
from kraftd.protocol.error_codes import has_error
from kraftd.protocol.kafka_codec import KAFKA
from kraftd.protocol.messages import DescribeQuorumResponse, EnvelopeRequest, EnvelopeResponse
from kraftd.protocol.opening import LENGTH_BYTES
from kraftd.protocol.principal import Principal, decode_principal
from kraftd.runtime.request_router import ApiHandler, Requester, RequestRouter
from kraftd.types import NO_NODE, NodeId

_FAMILIES = {4: socket.AF_INET, 16: socket.AF_INET6}
"""By the length of an address in bytes."""

_ID_DIGITS = 10
"""The highest node id has so many."""

_ELSEWHERE = {DescribeQuorumResponse: ErrorCode.NOT_LEADER_OR_FOLLOWER}
"""The code in a response that says that another node has to be asked, where it is not NOT_CONTROLLER."""


class EnvelopeError(KraftdError):
    """An envelope that cannot be served; `code` is that of its response."""

    line_name = "envelope_refused"
    """Of the log."""

    def __init__(self, code: ErrorCode, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class UnservedApiError(EnvelopeError):
    """The request in an envelope is of an API that is not served here."""

    line_name = "unserved_api"


class ForwardedClient:
    """A client whose request a broker forwarded."""

    def __init__(self, broker: Requester, envelope: Request, limited_logger: RateLimitedLogger) -> None:
        """Read who the client is.

        Raises:
            EnvelopeError: Its principal or its address cannot be read.
        """
        self.client: Client | None = None
        self._broker = broker
        self._envelope = envelope
        self._limited_logger = limited_logger
        self._is_answered = False
        principal = _principal_of(envelope.message)  # before the address, as in Kafka: its error is told
        self.host = _host_of(envelope.message)
        self.session = Client(
            principal,
            None,
            self.host,
            broker.session.listener,
            broker.session.protocol,
            is_forwarded=True,
            forwarded_by=_broker_of(envelope.client_id),
        )
        self.number = broker.number

    def reply(
        self, api_version: int, correlation_id: int, message: Any, records: Sequence[Buffer] = ()
    ) -> None:
        """Answer the inner request, and so the envelope."""
        if has_error(message, _ELSEWHERE.get(type(message), ErrorCode.NOT_CONTROLLER)):
            self.reply_envelope(EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER))
            return
        try:
            frame = b"".join(KAFKA.encode_response(api_version, correlation_id, message, records))
        except Exception as error:  # noqa: BLE001 - wire boundary (D-38)
            self._limited_logger.warning(
                "unencodable_reply", key=message.NAME, host=self.host, forwarded=True, reason=str(error)
            )
            self.reply_envelope(EnvelopeResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR))
        else:
            self.reply_envelope(EnvelopeResponse(response_data=frame[LENGTH_BYTES:]))

    def give_up(self, api_version: int, correlation_id: int, response: Any) -> None:
        """Answer the inner request with what its API says of a failure, or else the envelope."""
        if response is None:
            self.reply_envelope(EnvelopeResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR))
        else:
            self.reply(api_version, correlation_id, response)

    def reply_envelope(self, response: EnvelopeResponse) -> None:
        """Answer the envelope, once."""
        if self._is_answered:
            return
        self._is_answered = True
        self._broker.reply(self._envelope.api_version, self._envelope.correlation_id, response)


class Envelopes:
    """The handler of Envelope."""

    def __init__(self, router: RequestRouter, limited_logger: RateLimitedLogger) -> None:
        """Make it once the handlers of all inner requests are in `router`."""
        self._router = router
        self._served = FORWARDABLE & router.api_keys
        self._limited_logger = limited_logger

    @property
    def handlers(self) -> Mapping[type[Any], ApiHandler]:
        """The handler of each type of request that is answered here."""
        return {EnvelopeRequest: self._serve}

    def _serve(self, broker: Requester, envelope: Request) -> None:
        try:
            client = ForwardedClient(broker, envelope, self._limited_logger)
            request = self._request_in(envelope.message)
        except EnvelopeError as error:
            self._limited_logger.warning(
                error.line_name,
                key=(broker.host, str(error)),
                host=broker.host,
                error=error.code.name,
                reason=str(error),
            )
            response = EnvelopeResponse(error_code=error.code)
            broker.reply(envelope.api_version, envelope.correlation_id, response)
        else:
            self._router.request_forwarded(client, request)

    def _request_in(self, envelope: EnvelopeRequest) -> Request:
        """The inner request. What cannot be read is UNSUPPORTED_VERSION: the envelope itself is well-formed.

        Raises:
            EnvelopeError: It is not a request that may be forwarded, or cannot be read or served.
        """
        frame = envelope.request_data
        try:
            key = KAFKA.peek_api_key(frame)
            if key in self._served:
                return KAFKA.decode_request(frame)
        except (MalformedError, UnsupportedVersion) as error:
            raise EnvelopeError(ErrorCode.UNSUPPORTED_VERSION, f"the request inside: {error}") from None
        name = api_name(key)
        if key in FORWARDABLE or key not in range(len(KAFKA_APIS)):
            raise UnservedApiError(ErrorCode.UNSUPPORTED_VERSION, f"{name} inside is not served here")
        raise EnvelopeError(ErrorCode.INVALID_REQUEST, f"{name} may not be forwarded")


def _principal_of(envelope: EnvelopeRequest) -> Principal:
    try:
        return decode_principal(envelope.request_principal or b"")
    except MalformedError as error:
        raise EnvelopeError(ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE, str(error)) from None


def _broker_of(client_id: str | None) -> NodeId:
    """The broker whose client id this is: its node id, on the connection by which it forwards."""
    if client_id is None or not client_id.isascii() or not client_id.isdigit() or len(client_id) > _ID_DIGITS:
        return NO_NODE
    return int(client_id)


def _host_of(envelope: EnvelopeRequest) -> str:
    address = envelope.client_host_address
    family = _FAMILIES.get(len(address))
    if family is None:
        raise EnvelopeError(
            ErrorCode.INVALID_REQUEST, f"the client's address has {len(address)} bytes, neither 4 nor 16"
        )
    return socket.inet_ntop(family, address)
