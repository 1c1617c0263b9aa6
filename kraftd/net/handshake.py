"""The handshake: the first exchange on every connection, which tells each end who the other is (D-06).

Entered by both ends: the one that connects sends `Identity.greeting`, the other checks it with `refusal_of`
and answers with `Identity.response` or `Identity.refusal`; the first then checks the response. Pure functions
over messages. Only msgpack has a handshake; clients that speak Kafka's wire have none.

A greeting proves nothing. Cluster and directory ids are no secrets, and a greeting under a voter's id counts
only once a nonce was shown on the connection (D-37): `Identity.show` is that request, and tells which start
of this node it is, which no other peer is told. Not here: what only the raft node can decide (whether a nonce
is right, another directory under a known id, a restored backup).
"""

from collections.abc import Iterator, Mapping

import msgspec

from kraftd.errors import ErrorCode
from kraftd.protocol.apis import versions_text
from kraftd.protocol.messages import (
    HandshakeRequest,
    HandshakeRequestSupportedApi,
    HandshakeResponse,
    HandshakeResponseSupportedApi,
    ShowNonceRequest,
    ShowNonceResponse,
)
from kraftd.protocol.msgpack_codec import MSGPACK
from kraftd.types import NO_NODE, ZERO_UUID, NodeId, Uuid


class Identity(msgspec.Struct, frozen=True):
    """What the handshake tells of this process. A client or tool has `node_id` -1 and no more."""

    cluster_id: str | None
    software: str
    node_id: NodeId = NO_NODE
    directory_id: Uuid = ZERO_UUID
    start_counter: int = 0
    start_id: Uuid = ZERO_UUID

    def greeting(self, nonce: Uuid = ZERO_UUID, *, is_challenge: bool = False) -> HandshakeRequest:
        """The first request of the connecting end. A challenge only brings the nonce, and claims nothing."""
        return HandshakeRequest(
            cluster_id=self.cluster_id,
            node_id=self.node_id,
            directory_id=self.directory_id,
            nonce=nonce,
            challenge=is_challenge,
            software=self.software,
            api_keys=tuple(
                HandshakeRequestSupportedApi(api_key=key, min_version=low, max_version=high)
                for key, low, high in supported()
            ),
        )

    def response(self, *, must_show: bool = False) -> HandshakeResponse:
        """The response to a greeting that is accepted. `must_show`: requests wait until a nonce is shown."""
        return HandshakeResponse(
            error_code=ErrorCode.NONE,
            cluster_id=self.cluster_id or "",
            node_id=self.node_id,
            directory_id=self.directory_id,
            must_show=must_show,
            software=self.software,
            api_keys=tuple(
                HandshakeResponseSupportedApi(api_key=key, min_version=low, max_version=high)
                for key, low, high in supported()
            ),
        )

    def refusal(self, error: ErrorCode, reason: str) -> HandshakeResponse:
        """The response to a greeting that is not accepted, with the reason on one line."""
        return msgspec.structs.replace(self.response(), error_code=error, error_message=reason)

    def show(self, nonce: Uuid) -> ShowNonceRequest:
        """The request that shows the other end's nonce, and tells which start of this node shows it."""
        return ShowNonceRequest(nonce, self.start_counter, self.start_id)

    def confirmation(self) -> ShowNonceResponse:
        """The response to a nonce of ours, which tells the voter which start of this node this is."""
        return ShowNonceResponse(ErrorCode.NONE, self.start_counter, self.start_id)


class Refusal(msgspec.Struct, frozen=True):
    """Why a connection cannot be used, for an operator of either end."""

    error: ErrorCode
    reason: str


def refusal_of(theirs: HandshakeRequest, ours: Identity) -> Refusal | None:
    """Judge a greeting. Returns None if it is accepted."""
    if theirs.cluster_id is not None and theirs.cluster_id != ours.cluster_id:
        return Refusal(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"this is node {ours.node_id} of cluster {ours.cluster_id}, not of {theirs.cluster_id}",
        )
    if theirs.node_id == NO_NODE:
        return None
    if theirs.cluster_id is None or theirs.node_id < 0:
        return Refusal(ErrorCode.INVALID_REQUEST, "a node must say its cluster id and a node id from 0 on")
    if theirs.node_id == ours.node_id:
        return Refusal(
            ErrorCode.INVALID_VOTER_KEY,
            f"node id {ours.node_id} is taken: it is mine; give every node its own",
        )
    return _refusal_of_versions(theirs, f"node {theirs.node_id}", f"node {ours.node_id}")


def refusal_of_response(theirs: HandshakeResponse, ours: Identity, expected: NodeId) -> Refusal | None:
    """Judge the response to a greeting. Returns None if the connection can be used.

    `expected` is the id of the node that should answer; below 0 (a bootstrap server) any node may.
    """
    if theirs.error_code != ErrorCode.NONE:
        return Refusal(error_of(theirs.error_code), theirs.error_message or f"error {theirs.error_code}")
    if ours.cluster_id is not None and theirs.cluster_id != ours.cluster_id:
        return Refusal(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"node {theirs.node_id} there is of cluster {theirs.cluster_id}, not of {ours.cluster_id}",
        )
    if expected >= 0 and theirs.node_id != expected:
        return Refusal(
            ErrorCode.INVALID_VOTER_KEY, f"node {theirs.node_id} answers there, not node {expected}"
        )
    if ours.node_id == NO_NODE:  # a tool needs only some of the APIs, and is told when it asks for one
        return None
    return _refusal_of_versions(theirs, f"node {theirs.node_id}", f"node {ours.node_id}")


def _refusal_of_versions(theirs: HandshakeRequest | HandshakeResponse, they: str, we: str) -> Refusal | None:
    """Refuse a node with which an API has no common version: it could neither vote nor be voted for."""
    for offered in theirs.api_keys:
        apart = versions_apart(offered)
        if apart is not None:
            reason = f"{they} speaks {apart[0]}, {we} {apart[1]}: upgrade them one release at a time"
            return Refusal(ErrorCode.UNSUPPORTED_VERSION, reason)
    return None


def versions_apart(
    offered: HandshakeRequestSupportedApi | HandshakeResponseSupportedApi,
) -> tuple[str, str] | None:
    """Their and our versions of an API, in words; None if one is common, or if we do not know the API."""
    api = MSGPACK.apis.get(offered.api_key)
    if api is None or api.common_version(offered.min_version, offered.max_version) is not None:
        return None
    return f"{api.name} in {versions_text(offered.min_version, offered.max_version)}", f"in {api.versions}"


def common_versions(theirs: HandshakeRequest | HandshakeResponse) -> Mapping[int, int]:
    """The highest version of each API that both ends speak; an API without one is left out."""
    common: dict[int, int] = {}
    for offered in theirs.api_keys:
        api = MSGPACK.apis.get(offered.api_key)
        version = api.common_version(offered.min_version, offered.max_version) if api is not None else None
        if version is not None:
            common[offered.api_key] = version
    return common


def supported() -> Iterator[tuple[int, int, int]]:
    """Every API that is spoken here: its key, lowest and highest version."""
    for api in MSGPACK.apis.values():
        yield api.key, api.min_version, api.max_version


def error_of(code: int) -> ErrorCode:
    """The error behind a wire code; a code we do not know is UNKNOWN_SERVER_ERROR."""
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
