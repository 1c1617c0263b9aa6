"""Nodes that speak the real protocol over real sockets and answer what a test wants.

Not a daemon: no log, no election. What real daemons answer is tried in `tests/process`.
"""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import msgspec

from kraftd.errors import ErrorCode, MalformedError
from kraftd.net.handshake import Identity
from kraftd.protocol.codec import Codec
from kraftd.protocol.framing import CODECS, FrameReader
from kraftd.protocol.kafka_codec import KAFKA
from kraftd.protocol.limits import HEAD_BYTES_MAX
from kraftd.protocol.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    ApiVersionsResponseApiVersion,
    DescribeNodeRequest,
    DescribeNodeResponse,
    DescribeNodeResponsePeer,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponseListener,
    DescribeQuorumResponseNode,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseReplicaState,
    DescribeQuorumResponseTopicData,
    HandshakeRequest,
    ListConfigsRequest,
    ListConfigsResponse,
)
from kraftd.protocol.msgpack_codec import MSGPACK
from kraftd.types import METADATA_TOPIC, NO_NODE

CLUSTER_ID = "test-cluster"

Response = Callable[[Any], Any]
"""From a request to a response, or to (response, records)."""


class ScriptedNode:
    """One listening socket; `answers` by request class, `seen` every request but handshakes, in order."""

    codec: ClassVar[Codec] = MSGPACK
    codecs: ClassVar[Mapping[int, Codec]] = CODECS

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.cluster_id = CLUSTER_ID
        self.responses: dict[type, Response] = {}
        self.seen: list[Any] = []
        self.refusal = ""
        self.refusal_code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        self.silent = False
        self.ignored = 0
        """So many requests of kraftd's protocol are not answered, as by a process that is stopped."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._connections: list[socket.socket] = []
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def close(self) -> None:
        """Like kill -9: every connection ends, and new ones are refused."""
        _end(self._listener)
        self._accepting.join()  # or a connection that comes at this moment would stay
        for connection in self._connections:
            _end(connection)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._connections.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        reader = FrameReader(HEAD_BYTES_MAX, self.codecs)
        try:
            while data := connection.recv(65_536):
                for frame in reader.feed(data):
                    codec = reader.codec or self.codec
                    if not (self.silent or (codec is MSGPACK and self._ignores())):
                        self._answer(connection, codec.decode_request(frame), codec)
        except MalformedError:
            _end(connection)
        except OSError:
            return

    def _ignores(self) -> bool:
        self.ignored -= 1
        return self.ignored >= 0

    def _answer(self, connection: socket.socket, request: Any, codec: Codec) -> None:
        if isinstance(request.message, HandshakeRequest):
            me = Identity(cluster_id=self.cluster_id, software="scripted 1", node_id=self.node_id)
            refused = me.refusal(self.refusal_code, self.refusal)
            response, records = refused if self.refusal else me.response(), b""
        else:
            self.seen.append(request.message)
            response = self.responses[type(request.message)](request.message)
            if response is None:  # dies instead of answering
                connection.shutdown(socket.SHUT_RDWR)
                return
            response, records = response if isinstance(response, tuple) else (response, b"")
        buffers = MSGPACK.encode_response(
            request.api_version, request.correlation_id, response, [records] if records else ()
        )
        connection.sendall(b"".join(buffers))


class ScriptedKafkaNode(ScriptedNode):
    """A controller of Kafka: it speaks Kafka's wire alone, and serves Vote (52) and what it has a response
    for.
    """

    codec = KAFKA
    codecs: ClassVar[Mapping[int, Codec]] = {0: KAFKA}

    def __init__(self, node_id: int, *, versions: Mapping[int, int] | None = None) -> None:
        super().__init__(node_id)
        self.newest = dict(versions or {})
        """The highest version of some APIs that it knows, by key."""
        self.unspoken: tuple[ApiVersionsResponseApiVersion, ...] = (ApiVersionsResponseApiVersion(52, 0, 2),)
        """APIs that it serves, and the command line does not speak."""
        self.responses[ApiVersionsRequest] = self._api_versions

    def _api_versions(self, _: Any) -> ApiVersionsResponse:
        served = [key for request in self.responses if (key := request.API_KEY) in KAFKA.apis]
        keys = tuple(
            ApiVersionsResponseApiVersion(
                api_key=key,
                min_version=KAFKA.apis[key].min_version,
                max_version=self.newest.get(key, KAFKA.apis[key].max_version),
            )
            for key in served
        )
        return ApiVersionsResponse(api_keys=(*keys, *self.unspoken))

    def _answer(self, connection: socket.socket, request: Any, codec: Codec) -> None:
        self.seen.append(request.message)
        response = self.responses[type(request.message)](request.message)
        if response is None:
            _end(connection)
            return
        buffers = KAFKA.encode_response(request.api_version, request.correlation_id, response)
        connection.sendall(b"".join(buffers))


class ScriptedBroker(ScriptedKafkaNode):
    """A broker of Kafka: it serves Produce (0) and Metadata (3)."""

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        self.unspoken = tuple(ApiVersionsResponseApiVersion(key, 0, 9) for key in (0, 3))


class ScriptedNodeOfBoth(ScriptedKafkaNode):
    """A node that speaks kraftd's protocol and Kafka's, each on connections of its own, as kraftd does."""

    codecs: ClassVar[Mapping[int, Codec]] = {**CODECS, 0: KAFKA}

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        self.unspoken = ()

    def _answer(self, connection: socket.socket, request: Any, codec: Codec) -> None:
        speaks = ScriptedNode if codec is MSGPACK else ScriptedKafkaNode
        speaks._answer(self, connection, request, codec)


def _end(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()


class ScriptedQuorum:
    """Three nodes that know of each other; `lead` says who leads, `views` what each says of itself."""

    def __init__(self) -> None:
        self.nodes = {node_id: ScriptedNode(node_id) for node_id in (1, 2, 3)}
        self._strangers: list[ScriptedNode] = []
        self.views: dict[int, DescribeNodeResponse] = {}
        for node in self.nodes.values():
            node.responses[DescribeNodeRequest] = lambda _, node=node: self.views[node.node_id]
            node.responses[DescribeQuorumRequest] = lambda _, node=node: self._describe(node.node_id)
            node.responses[ListConfigsRequest] = lambda _: ListConfigsResponse()
        self.lead(2)

    @property
    def bootstrap(self) -> str:
        return ",".join(node.address for node in self.nodes.values())

    def close(self) -> None:
        for node in (*self.nodes.values(), *self._strangers):
            node.close()

    def stranger(self, node_id: int, **fields: Any) -> ScriptedNode:
        """One more process that says it is this node, and otherwise what is given; nobody knows of it."""
        said = msgspec.structs.replace(self.views[node_id], started_at_ms=1, **fields)
        node = ScriptedNode(node_id)
        node.responses[DescribeNodeRequest] = lambda _: said
        self._strangers.append(node)
        return node

    def lead(self, leader_id: int, epoch: int = 7) -> None:
        """Everyone follows this node in this epoch; NO_NODE: nobody leads, all are unattached."""
        for node_id in self.nodes:
            role = "leader" if node_id == leader_id else "follower" if leader_id != NO_NODE else "unattached"
            self.views[node_id] = DescribeNodeResponse(
                cluster_id=CLUSTER_ID,
                node_id=node_id,
                software="scripted 1",
                role=role,
                is_voter=True,
                epoch=epoch,
                leader_id=leader_id,
                voted_id=leader_id,
                log_end_offset=100 + node_id,
                flushed_offset=100 + node_id,
                high_watermark=101,
                applied_offset=101,
                why_not_following=None if leader_id != NO_NODE else "nobody campaigns",
                peers=tuple(
                    DescribeNodeResponsePeer(
                        node_id=other.node_id, host="127.0.0.1", port=other.port, connected=True
                    )
                    for other in self.nodes.values()
                    if other.node_id != node_id
                ),
            )

    def change(self, node_id: int, **fields: Any) -> None:
        """Let one node say something else of itself."""
        self.views[node_id] = msgspec.structs.replace(self.views[node_id], **fields)

    def _describe(self, asked: int) -> DescribeQuorumResponse:
        view = self.views[asked]
        now_ms = time.time_ns() // 1_000_000
        voters = tuple(
            DescribeQuorumResponseReplicaState(
                replica_id=node_id,
                log_end_offset=self.views[node_id].log_end_offset,
                last_fetch_timestamp=now_ms - node_id,
                last_caught_up_timestamp=now_ms - (0 if node_id == asked else 10 * node_id),
            )
            for node_id in self.nodes
        )
        leads = view.role == "leader"
        partition = DescribeQuorumResponsePartitionData(
            error_code=ErrorCode.NONE if leads else ErrorCode.NOT_LEADER_OR_FOLLOWER,
            leader_id=view.leader_id,
            leader_epoch=view.epoch,
            high_watermark=view.high_watermark,
            current_voters=voters if leads else (),
        )
        topic = DescribeQuorumResponseTopicData(topic_name=METADATA_TOPIC, partitions=(partition,))
        nodes = tuple(
            DescribeQuorumResponseNode(
                node_id=node.node_id,
                listeners=(
                    DescribeQuorumResponseListener(name="CONTROLLER", host="127.0.0.1", port=node.port),
                ),
            )
            for node in self.nodes.values()
        )
        return DescribeQuorumResponse(topics=(topic,), nodes=nodes if leads else ())
