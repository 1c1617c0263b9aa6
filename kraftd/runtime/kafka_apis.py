"""Answers what only Kafka's wire asks: which APIs and features there are, and where the controllers listen.

Entered by the request router, through `handlers`. Requests that Kafka's wire and msgpack share (Fetch,
DescribeQuorum, configs) go to the same handlers as ever.

What is advertised is exactly what is served: a broker offers its clients the versions that both it and the
active controller have, so that an API without a handler does not exist for them.

Follows: Kafka's SimpleApiVersionManager, FeaturesPublisher and AuthHelper. A feature whose lowest level is 0
is left out below version 4 (KAFKA-17492); one that is off is not among the finalized ones.
Differs: DescribeCluster lists a voter that has not registered too, as the voter set knows it.
"""

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from msgspec.structs import replace

from kraftd.controller.quorum_controller import QuorumController
from kraftd.controller.rights import Rights
from kraftd.errors import ErrorCode
from kraftd.metadata.feature_levels import SUPPORTED
from kraftd.metadata.parts.controllers import CONTROLLERS
from kraftd.metadata.parts.features import FEATURES
from kraftd.protocol import messages as m
from kraftd.protocol.codec import Request
from kraftd.protocol.kafka_codec import KAFKA
from kraftd.raft import RaftNode
from kraftd.runtime.request_router import ApiHandler, Requester
from kraftd.types import NO_NODE, Endpoint, Offset

_SOFTWARE_SINCE = 3
"""The version of ApiVersions from which a client says what it is."""

_ZERO_LEVELS_SINCE = 4
"""The version of ApiVersions from which a feature's lowest level may be 0."""

_BROKER_TYPE, _CONTROLLER_TYPE = 1, 2
"""Types of endpoint, of which DescribeCluster asks for one (KIP-919)."""

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
"""A client's name and version (KIP-511)."""


class KafkaApis:
    """The handlers of ApiVersions and DescribeCluster, for connections of Kafka's wire."""

    API_KEYS: ClassVar[frozenset[int]] = frozenset(
        (m.ApiVersionsRequest.API_KEY, m.DescribeClusterRequest.API_KEY)
    )

    def __init__(
        self, cluster_id: str, raft_node: RaftNode, controller: QuorumController, served: frozenset[int]
    ) -> None:
        """Make the handlers; `served` are the keys of all APIs that have one."""
        self._cluster_id = cluster_id
        self._raft_node = raft_node
        self._controller = controller
        self._features: object = None
        self._features_epoch: Offset = -1
        self._api_keys = tuple(
            m.ApiVersionsResponseApiVersion(
                api_key=api.key, min_version=api.min_version, max_version=api.max_version
            )
            for key, api in sorted(KAFKA.apis.items())
            if key in served
        )

    @property
    def handlers(self) -> Mapping[type[Any], ApiHandler]:
        """The handler of each type of request that is answered here."""
        return {
            m.ApiVersionsRequest: self._serve_api_versions,
            m.DescribeClusterRequest: self._serve_describe_cluster,
        }

    def _serve_api_versions(self, connection: Requester, request: Request) -> None:
        version = request.api_version
        response = self._refusal(request) or self._api_versions(version)
        connection.reply(version, request.correlation_id, response)

    def _refusal(self, request: Request) -> m.ApiVersionsResponse | None:
        """The response to a client that does not say what it is."""
        names = request.message.client_software_name, request.message.client_software_version
        if request.api_version < _SOFTWARE_SINCE or all(map(_SOFTWARE.fullmatch, names)):
            return None
        return m.ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)

    def _api_versions(self, version: int) -> m.ApiVersionsResponse:
        supported = tuple(
            m.ApiVersionsResponseSupportedFeatureKey(
                name=feature.name, min_version=feature.min_level, max_version=feature.max_level
            )
            for feature in SUPPORTED
            if version >= _ZERO_LEVELS_SINCE or feature.min_level > 0
        )
        features = self._controller.image[FEATURES]
        return m.ApiVersionsResponse(
            api_keys=self._api_keys,
            supported_features=supported,
            finalized_features_epoch=self._epoch_of(features),
            finalized_features=tuple(
                m.ApiVersionsResponseFinalizedFeatureKey(
                    name=name, min_version_level=level, max_version_level=level
                )
                for name, level in features.items()
            ),
        )

    def _serve_describe_cluster(self, connection: Requester, request: Request) -> None:
        refusal = _endpoint_refusal(request.message.endpoint_type)
        if refusal is None:
            response = self._describe_cluster()
            if request.message.include_cluster_authorized_operations:
                client, controller = connection.session, self._controller
                authorizer = controller.settings.authorizer
                rights = Rights(authorizer, controller.image, client.principal, client.host)
                response = replace(response, cluster_authorized_operations=rights.on_the_cluster())
        else:
            # Version 0 knows of one type of endpoint only, and has no word for another.
            error = refusal[0] if request.api_version > 0 else ErrorCode.INVALID_REQUEST
            response = m.DescribeClusterResponse(error_code=error, error_message=refusal[1])
        connection.reply(request.api_version, request.correlation_id, response)

    def _describe_cluster(self) -> m.DescribeClusterResponse:
        controllers = {voter.id: voter.endpoint for voter in self._raft_node.voters}
        for registration in self._controller.image[CONTROLLERS].values():
            for listener, host, port, _security_protocol in registration.endpoints[:1]:
                controllers[registration.id] = Endpoint(host, port, listener)
        leader = self._raft_node.leader_id
        return m.DescribeClusterResponse(
            endpoint_type=_CONTROLLER_TYPE,
            cluster_id=self._cluster_id,
            controller_id=leader if leader in controllers else NO_NODE,
            brokers=tuple(
                m.DescribeClusterResponseDescribeClusterBroker(
                    broker_id=node_id, host=endpoint.host, port=endpoint.port
                )
                for node_id, endpoint in sorted(controllers.items())
            ),
        )

    def _epoch_of(self, features: object) -> Offset:
        """The offset as of which these levels hold; -1 while the log has set none.

        A reader keeps the levels of the highest epoch that it was told: it has to rise whenever they change.
        """
        if features is not self._features:
            self._features, self._features_epoch = features, self._controller.applied_offset - 1
        return self._features_epoch


def _endpoint_refusal(endpoint_type: int) -> tuple[ErrorCode, str] | None:
    """Why this type of endpoint cannot be described here; None if it can."""
    if endpoint_type == _CONTROLLER_TYPE:
        return None
    if endpoint_type == _BROKER_TYPE:
        return ErrorCode.MISMATCHED_ENDPOINT_TYPE, (
            "The request was sent to an endpoint of type CONTROLLER, but we wanted an endpoint of type BROKER"
        )
    return ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {endpoint_type}"
