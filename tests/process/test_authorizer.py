"""Daemons with an authorizer: who may do what, directly and through a broker, and what they say of it."""

from collections.abc import Callable

from cluster import Client, Cluster, Event, KafkaClient, Node, alter_request
from test_envelopes import envelope, forward, frame_of

from kraftd.errors import ErrorCode
from kraftd.metadata.acl_kinds import AclOperation, AclPattern, AclPermission, AclResource
from kraftd.protocol import messages as m
from kraftd.protocol.messages import DescribeNodeRequest
from kraftd.runtime.config_values import STANDARD_AUTHORIZER
from kraftd.storage import Disk, OsFileSystem
from kraftd.storage.sidecar import Sidecar, load_durable_sidecar
from kraftd.types import NO_NODE

AUTHORIZER = {"authorizer.class.name": STANDARD_AUTHORIZER}
NODES = {"super.users": "User:ANONYMOUS"}
"""What brokers and controllers are, as long as nobody is authenticated."""

CHANGE = alter_request([("log.retention.ms", "1234")])


def allow(operation: AclOperation) -> m.CreateAclsRequest:
    """An ACL by which alice may do this to the cluster."""
    return m.CreateAclsRequest(
        (
            m.CreateAclsRequestAclCreation(
                int(AclResource.CLUSTER),
                "kafka-cluster",
                int(AclPattern.LITERAL),
                "User:alice",
                "192.0.2.7",
                int(operation),
                int(AclPermission.ALLOW),
            ),
        )
    )


def test_what_is_forwarded_is_done_if_its_principal_may_do_it(start: Callable[..., Cluster]) -> None:
    with start(3, settings=AUTHORIZER | NODES) as cluster:
        leader = cluster.wait_leader()
        with KafkaClient(leader.port) as broker:
            denied = forward(broker, CHANGE, 1)
            assert [each.error_code for each in denied.responses] == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
            assert "log.retention.ms" not in broker.get_configs()

            denied = forward(broker, allow(AclOperation.ALTER_CONFIGS), 3)
            assert [each.error_code for each in denied.results] == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
            assert leader.wait_for("request_denied")["forwarded"]
            made = broker.ask(allow(AclOperation.ALTER_CONFIGS))
            assert [each.error_code for each in made.results] == [ErrorCode.NONE]

            done = forward(broker, CHANGE, 1)
            assert [each.error_code for each in done.responses] == [ErrorCode.NONE]
            assert broker.get_configs()["log.retention.ms"] == "1234"
        assert "a forged Envelope passes" in leader.wait_for("not_authenticated")["text"]
        with Client(leader.port) as client:
            assert "a forged Envelope passes" in client.describe().why_forgeable


def is_known(line: Event) -> bool:
    return line["leader"] != NO_NODE


def test_who_has_no_right_does_nothing_and_the_quorum_goes_on(start: Callable[..., Cluster]) -> None:
    """Voters have proved what they are, and need no ACL, without which no ACL could be made."""
    with start(3, settings=AUTHORIZER | {"kraftd.metrics.interval.ms": "100"}) as cluster:
        leader = cluster[cluster[1].wait_for("leader_changed", where=is_known)["leader"]]
        leader.wait_for(
            "metrics", where=lambda line: line["high-watermark"] > 0
        )  # else nothing is refused yet
        with KafkaClient(leader.port) as client:
            denied = client.ask(allow(AclOperation.ALTER))
            assert [each.error_code for each in denied.results] == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
            response = client.ask(envelope(frame_of(CHANGE, 1)))
            assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        with Client(leader.port) as client:
            assert client.ask(DescribeNodeRequest()).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        survivors = [node for node in cluster if node is not leader]
        for node in survivors:  # who has nothing yet may have lost all that it had, and elects nobody
            node.wait_for("metrics", where=lambda line: line["high-watermark"] > 0)
        leader.kill()
        survivors[0].wait_for(
            "leader_changed", where=lambda line: line["leader"] not in (NO_NODE, leader.node_id)
        )


def forget_what_is_committed(node: Node) -> None:
    """Leave a disk as it is before the first note of what is committed: how soon that comes is open."""
    disk, path = Disk(OsFileSystem()), node.directory / "kraftd.state"
    sidecar = Sidecar(disk, path, load_durable_sidecar(disk, path))
    sidecar.move_recovery_point(None)
    sidecar.close()


def test_a_node_that_cannot_know_yet_who_may_do_what_refuses_nobody_for_good(
    start: Callable[..., Cluster],
) -> None:
    """It has been started alone, so that nobody tells it what is committed, and had not noted that either."""
    with start(3, settings=AUTHORIZER) as cluster:
        cluster[1].wait_for("leader_changed", where=is_known)
        for node in cluster:
            node.kill()
        alone, killed = cluster[1], cluster[1].mark()
        forget_what_is_committed(alone)
        alone.start().wait_for("started", since=killed)
        with alone.client() as client:
            assert client.ask(DescribeNodeRequest()).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        with KafkaClient(alone.port) as admin:
            made = admin.ask(allow(AclOperation.ALTER))
            assert [each.error_code for each in made.results] == [ErrorCode.NOT_CONTROLLER]
            forwarded = admin.ask(envelope(frame_of(CHANGE, 1)))
            assert forwarded.error_code == ErrorCode.NOT_CONTROLLER
            described = admin.ask(m.DescribeClusterRequest(endpoint_type=2))
            assert described.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_without_an_authorizer_nothing_is_said_of_one(start: Callable[..., Cluster]) -> None:
    with start(1) as cluster:
        node = cluster.wait_leader()
        assert not node.count("not_authenticated")
        with Client(node.port) as client:
            assert client.describe().why_forgeable is None
