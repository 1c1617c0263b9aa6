"""Every call that Kafka's AdminClient sends to controllers themselves, at the leader and at a follower: those
that are served do what they say, and of the others the client says that the node does not support them.
"""

from pathlib import Path

import pytest

from kraftd.errors import ErrorCode
from kraftd.metadata.feature_levels import SUPPORTED
from kraftd.protocol import messages as m
from kraftd.runtime.config_values import STANDARD_AUTHORIZER
from tests.interop.peer import Kafka
from tests.process.cluster import Cluster, KafkaClient, Node

CALLS = Path(__file__).parent / "ControllerCalls.java"
BROKER = 7
ACL = (
    "[(pattern=ResourcePattern(resourceType=TOPIC, name=words, patternType=LITERAL), "
    "entry=(principal=User:*, host=*, operation=READ, permissionType=ALLOW))]"
)
NOT_SERVED_YET = {
    "addRaftVoter": "ADD_RAFT_VOTER",
    "removeRaftVoter": "REMOVE_RAFT_VOTER",
}


def register(leader: Node, cluster_id: str) -> None:
    """Register a broker, so that one can be unregistered; nobody need run it for that."""
    request = m.BrokerRegistrationRequest(
        broker_id=BROKER,
        cluster_id=cluster_id,
        incarnation_id=b"incarnation of 7",
        listeners=(m.BrokerRegistrationRequestListener("PLAINTEXT", "localhost", 9092),),
        features=tuple(
            m.BrokerRegistrationRequestFeature(each.name, each.min_level, each.max_level)
            for each in SUPPORTED
        ),
        rack=None,
        log_dirs=(b"a directory of 7",),
    )
    with KafkaClient(leader.port) as client:
        assert client.ask(request).error_code == ErrorCode.NONE


@pytest.mark.process
def test_what_an_admin_client_asks_of_controllers(kafka: Kafka, tmp_path: Path) -> None:
    settings = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"}
    with Cluster(tmp_path / "cluster", 3, settings=settings) as cluster:
        leader = cluster.wait_leader()
        for first in (leader, next(node for node in cluster if node is not leader)):
            register(leader, cluster.cluster_id)
            printed = kafka.run(CALLS, f"127.0.0.1:{first.port}", f"{BROKER}")
            told = dict(line.split(": ", 1) for line in printed.splitlines())
            assert told == {
                "describeCluster": "[1, 2, 3]",
                "describeMetadataQuorum": f"{leader.node_id}",
                "describeFeatures": "30",
                "incrementalAlterConfigs": "null",
                "describeConfigs": "4321",
                "listPartitionReassignments": "{}",
                "alterPartitionReassignments": "UnknownTopicOrPartitionException: There is no topic 'words'.",
                "unregisterBroker": "null",
                "updateFeatures": "null",
                "createAcls": "null",
                "describeAcls": ACL,
                "deleteAcls": ACL,
                **{
                    call: f"UnsupportedVersionException: The node does not support {api}"
                    for call, api in NOT_SERVED_YET.items()
                },
            }
            leader.wait_for("broker_unregistered", where=lambda line: line["broker"] == BROKER)
            assert [node.count("unserved_api") for node in cluster] == [0, 0, 0]
