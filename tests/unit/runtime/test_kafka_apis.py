"""What is told of the cluster itself."""

from typing import Any

import pytest

from kraftd.controller.activation import registration_of
from kraftd.controller.authorizer import Authorizer
from kraftd.controller.context import Client, ControllerSettings
from kraftd.controller.quorum_controller import QuorumController
from kraftd.metadata.feature_levels import bootstrap_records
from kraftd.protocol import messages as m
from kraftd.protocol.codec import Request
from kraftd.runtime.kafka_apis import KafkaApis
from kraftd.types import Endpoint

NOT_ASKED = -(1 << 31)


class Raft:
    """A quorum that has nobody in it yet."""

    voters = ()
    leader_id = -1


class Asking:
    """Whoever asked."""

    session = Client(host="10.0.0.9")
    reply_of: Any = None

    def reply(self, _version: int, _correlation_id: int, message: Any) -> None:
        self.reply_of = message


@pytest.mark.parametrize(
    ("is_asked", "authorizer", "operations"),
    [
        (False, None, NOT_ASKED),
        (True, None, 8096),
        (True, Authorizer(), 0),
        (True, Authorizer(frozenset({"User:ANONYMOUS"})), 8096),
    ],
)
def test_who_asks_what_it_may_do_to_the_cluster_is_told(
    is_asked: bool, authorizer: Authorizer | None, operations: int
) -> None:
    controller = QuorumController(
        me=registration_of(1, bytes(16), [Endpoint("h", 1)]),
        bootstrap=bootstrap_records(),
        settings=ControllerSettings(authorizer=authorizer),
    )
    apis = KafkaApis("c", Raft(), controller, frozenset())  # type: ignore[arg-type]
    message = m.DescribeClusterRequest(endpoint_type=2, include_cluster_authorized_operations=is_asked)
    asking = Asking()
    apis.handlers[type(message)](asking, Request(message.API_KEY, 1, 5, "test", message))  # type: ignore[arg-type]
    assert asking.reply_of.cluster_authorized_operations == operations
