"""Registers this controller with the active one, once a start.

The active controller registers itself (`controller.activation`, `controller.timers`); every other one asks it
to, on Kafka's wire, until its own image holds what it is and where it listens. Nobody waits for it: until
then DescribeCluster and changes of features know less.

A failure is tried again after half a second, then later and later, up to 30 s. The lookup of a host has a
time of its own (`net.addresses`), and so has the request at each of its addresses.

Follows: Kafka's ControllerRegistrationManager.
"""

import asyncio
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from kraftd.controller.quorum_controller import QuorumController
from kraftd.errors import ErrorCode, KraftdError
from kraftd.metadata.feature_levels import REGISTER_CONTROLLER_SINCE
from kraftd.metadata.parts.controllers import CONTROLLERS, ControllerRegistration
from kraftd.net import addresses
from kraftd.net.addresses import AddressBook
from kraftd.net.rate_limited_logger import RateLimitedLogger
from kraftd.protocol.kafka_codec import KAFKA
from kraftd.protocol.limits import SHORT_REQUEST_BYTES_MAX
from kraftd.protocol.messages import (
    ControllerRegistrationRequest,
    ControllerRegistrationRequestFeature,
    ControllerRegistrationRequestListener,
    ControllerRegistrationResponse,
)
from kraftd.raft import RaftNode
from kraftd.types import NO_NODE, Endpoint

REQUEST_S: Final = 5.0
"""How long the active controller may take to answer, at one address."""
WAIT_S: Final = 0.25
WAIT_S_MAX: Final = 30.0

_LENGTH = struct.Struct(">i")
_CORRELATION_ID: Final = 1


class RegistrationManager:
    """Asks until this controller is registered."""

    def __init__(
        self,
        me: ControllerRegistration,
        controller: QuorumController,
        raft_node: RaftNode,
        address_book: AddressBook,
        limited_logger: RateLimitedLogger,
        *,
        jitter: Callable[[float, float], float],
    ) -> None:
        self._me = me
        self._controller = controller
        self._raft_node = raft_node
        self._address_book = address_book
        self._limited_logger = limited_logger
        self._jitter = jitter

    async def run(self) -> None:
        """Register this controller; return once its image says so."""
        wait_s = WAIT_S
        while not self._is_registered:
            active = self._active_controller()
            if active is None:
                wait_s = WAIT_S
            else:
                why = await self._ask(active)
                if why is not None:
                    self._limited_logger.warning("controller_not_registered", key=why, reason=why)
                wait_s = min(wait_s * 2, WAIT_S_MAX)
            await asyncio.sleep(wait_s * self._jitter(0.8, 1.2))

    @property
    def _is_registered(self) -> bool:
        return self._controller.image[CONTROLLERS].get(self._me.id) == self._me

    def _active_controller(self) -> Endpoint | None:
        """Where the active controller listens; None if there is none, or nothing to ask of it."""
        leader_id, level = self._raft_node.leader_id, self._controller.image.metadata_version
        if leader_id in (NO_NODE, self._me.id) or level < REGISTER_CONTROLLER_SINCE:
            return None
        return next((voter.endpoint for voter in self._raft_node.voters if voter.id == leader_id), None)

    async def _ask(self, active: Endpoint) -> str | None:
        """Send the request to the first address that answers. Returns why it failed, None if it did not."""
        try:
            found = await self._address_book.of(active.host, addresses.LOOKUP_MS)
        except TimeoutError:
            return f"{active}: no address was found within {addresses.LOOKUP_MS} ms"
        except (OSError, ValueError) as error:
            # ValueError: a host that is none, of which not even a name can be made to look up.
            return f"{active}: {error}"
        why = None
        for address in found:
            try:
                async with asyncio.timeout(REQUEST_S):
                    response = await _exchange(address, active.port, request_of(self._me))
            except TimeoutError:
                why = f"{active} did not answer within {REQUEST_S:.0f} s"
            except (OSError, ValueError, OverflowError, EOFError, KraftdError) as error:
                why = f"{active}: {str(error) or type(error).__name__}"
            else:
                if response.error_code == ErrorCode.NONE:
                    return None
                return f"{active} says {response.error_code}: {response.error_message}"
        return why


def request_of(me: ControllerRegistration) -> ControllerRegistrationRequest:
    """The request that registers a controller."""
    return ControllerRegistrationRequest(
        controller_id=me.id,
        incarnation_id=me.incarnation_id,
        zk_migration_ready=me.zk_migration_ready,
        listeners=tuple(ControllerRegistrationRequestListener(*endpoint) for endpoint in me.endpoints),
        features=tuple(ControllerRegistrationRequestFeature(*feature) for feature in me.features),
    )


async def _exchange(
    address: str, port: int, request: ControllerRegistrationRequest
) -> ControllerRegistrationResponse:
    version = request.MAX_VERSION
    reader, writer = await asyncio.open_connection(address, port)
    try:
        client_id = f"kraftd-{request.controller_id}"
        writer.writelines(KAFKA.encode_request(version, _CORRELATION_ID, client_id, request))
        size = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))[0]
        if not 0 < size <= SHORT_REQUEST_BYTES_MAX:
            raise EOFError(f"a response of {size} bytes")
        undecoded = KAFKA.read_response(await reader.readexactly(size))
        response: ControllerRegistrationResponse = undecoded.decode((request.API_KEY, version))
        return response
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
