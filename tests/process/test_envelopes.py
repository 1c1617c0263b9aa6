"""What a broker forwards for its clients, inside an Envelope, to the processes of a quorum."""

from collections.abc import Callable
from typing import Any

import pytest
from cluster import Cluster, KafkaClient, alter_request

from kraftd.controller.access import FORWARDABLE
from kraftd.errors import ErrorCode
from kraftd.protocol import messages as m
from kraftd.protocol.kafka_codec import KAFKA
from kraftd.protocol.principal import Principal
from kraftd.types import METADATA_TOPIC
from tests.principals import encode_principal

ALICE = encode_principal(Principal("User", "alice"))
ADDRESS = bytes((192, 0, 2, 7))
CORRELATION_ID = 0x5EED


def frame_of(message: Any, version: int) -> bytes:
    """A client's request, as a broker received it."""
    return b"".join(KAFKA.encode_request(version, CORRELATION_ID, "a-client", message))[4:]


def envelope(frame: bytes, *, principal: bytes | None = ALICE, address: bytes = ADDRESS) -> m.EnvelopeRequest:
    return m.EnvelopeRequest(request_data=frame, request_principal=principal, client_host_address=address)


def forward(client: KafkaClient, message: Any, version: int) -> Any:
    """The response to a client's request, or the error of the envelope."""
    response = client.ask(envelope(frame_of(message, version)))
    if response.error_code:
        assert response.response_data is None
        return ErrorCode(response.error_code)
    inner = KAFKA.read_response(response.response_data)
    assert inner.correlation_id == CORRELATION_ID
    return inner.decode((message.API_KEY, version))


def describe_quorum() -> m.DescribeQuorumRequest:
    topic = m.DescribeQuorumRequestTopicData(
        topic_name=METADATA_TOPIC, partitions=(m.DescribeQuorumRequestPartitionData(partition_index=0),)
    )
    return m.DescribeQuorumRequest(topics=(topic,))


@pytest.mark.parametrize("version", [0, 1])
def test_a_forwarded_write_is_done_and_answered_in_the_version_of_the_client(
    start: Callable[..., Cluster], version: int
) -> None:
    with start(1) as cluster:
        node = cluster.wait_leader()
        with KafkaClient(node.port) as broker:
            response = forward(broker, alter_request([("log.retention.ms", "1234")]), version)
            assert [each.error_code for each in response.responses] == [0]
            assert broker.get_configs()["log.retention.ms"] == "1234"


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_forwarded_description_of_the_quorum_is_the_one_that_is_told_directly(
    start: Callable[..., Cluster], version: int
) -> None:
    with start(1) as cluster:
        node = cluster.wait_leader()
        with KafkaClient(node.port) as broker:
            partition = forward(broker, describe_quorum(), version).topics[0].partitions[0]
            direct = broker.ask(describe_quorum(), version).topics[0].partitions[0]
        assert (partition.leader_id, partition.leader_epoch) == (direct.leader_id, direct.leader_epoch)


def test_every_api_that_is_served_and_may_be_forwarded_is_answered_in_every_version(
    start: Callable[..., Cluster],
) -> None:
    with start(1) as cluster:
        node = cluster.wait_leader()
        with KafkaClient(node.port) as broker:
            for api in broker.api_versions.api_keys:
                for version in range(api.min_version, api.max_version + 1):
                    request = KAFKA.apis[api.api_key].request()
                    response = forward(broker, request, version)
                    expected = ErrorCode.INVALID_REQUEST
                    if api.api_key in FORWARDABLE:
                        expected = KAFKA.apis[api.api_key].response
                        response = type(response)
                    assert response is expected, (request.NAME, version)
        assert not node.count("unencodable_reply")


ABOUT_SOMETHING: dict[str, Any] = {
    "AllocateProducerIds": m.AllocateProducerIdsRequest(broker_id=1),
    "AlterClientQuotas": m.AlterClientQuotasRequest(entries=(m.AlterClientQuotasRequestEntryData(),)),
    "AlterConfigs": m.AlterConfigsRequest(
        resources=(m.AlterConfigsRequestAlterConfigsResource(resource_type=2, resource_name="a"),)
    ),
    "AlterPartitionReassignments": m.AlterPartitionReassignmentsRequest(
        topics=(
            m.AlterPartitionReassignmentsRequestReassignableTopic(
                "a", (m.AlterPartitionReassignmentsRequestReassignablePartition(0, (1,)),)
            ),
        )
    ),
    "AlterUserScramCredentials": m.AlterUserScramCredentialsRequest(
        deletions=(m.AlterUserScramCredentialsRequestScramCredentialDeletion("alice", 1),)
    ),
    "CreateAcls": m.CreateAclsRequest(creations=(m.CreateAclsRequestAclCreation(),)),
    "CreateDelegationToken": m.CreateDelegationTokenRequest(),
    "CreatePartitions": m.CreatePartitionsRequest(
        topics=(m.CreatePartitionsRequestCreatePartitionsTopic(name="a", count=2),), timeout_ms=60_000
    ),
    "CreateTopics": m.CreateTopicsRequest(topics=(m.CreateTopicsRequestCreatableTopic(name="a"),)),
    "DeleteAcls": m.DeleteAclsRequest(filters=(m.DeleteAclsRequestDeleteAclsFilter(),)),
    "DeleteTopics": m.DeleteTopicsRequest(
        topics=(m.DeleteTopicsRequestDeleteTopicState(name="a"),), timeout_ms=60_000
    ),
    "DescribeQuorum": describe_quorum(),
    "ElectLeaders": m.ElectLeadersRequest(topic_partitions=None),
    "ExpireDelegationToken": m.ExpireDelegationTokenRequest(),
    "IncrementalAlterConfigs": alter_request([("log.retention.ms", "1")]),
    "ListPartitionReassignments": m.ListPartitionReassignmentsRequest(topics=None),
    "RenewDelegationToken": m.RenewDelegationTokenRequest(),
    "UpdateFeatures": m.UpdateFeaturesRequest(
        feature_updates=(m.UpdateFeaturesRequestFeatureUpdateKey(feature="a", max_version_level=1),)
    ),
    "UnregisterBroker": m.UnregisterBrokerRequest(broker_id=1),
}
"""A request of each API that may be forwarded, by its name: one without content has no place for an error."""


def test_a_follower_sends_the_broker_to_the_controller_by_an_error_of_the_envelope(
    start: Callable[..., Cluster],
) -> None:
    """Inside, the error would reach the client, and the broker would not look for another controller."""
    with start(3) as cluster:
        leader = cluster.wait_leader()
        with KafkaClient(cluster.wait_follower(leader).port) as broker:
            for api in broker.api_versions.api_keys:
                if api.api_key in FORWARDABLE:
                    request = ABOUT_SOMETHING[KAFKA.apis[api.api_key].name]
                    told = forward(broker, request, api.max_version)
                    assert told is ErrorCode.NOT_CONTROLLER, (request.NAME, told)


GOOD = frame_of(alter_request([("log.retention.ms", "1")]), 1)
REFUSED = {
    "a principal of another version": (envelope(GOOD, principal=b"\0\7"), 97),
    "no principal": (envelope(GOOD, principal=None), 97),
    "neither a principal nor an address": (envelope(GOOD, principal=b"\0\7", address=b""), 97),
    "bytes after the principal": (envelope(GOOD, principal=ALICE + b"\0"), 97),
    "an address of five bytes": (envelope(GOOD, address=b"12345"), 42),
    "no address": (envelope(GOOD, address=b""), 42),
    "no request": (envelope(b""), 35),
    "half a header": (envelope(GOOD[:5]), 35),
    "half a body": (envelope(GOOD[:-1]), 35),
    "bytes after the body": (envelope(GOOD + b"\0"), 35),
    "a version too new": (envelope(GOOD[:2] + b"\0\x63" + GOOD[4:]), 35),
    "an API that is not served": (envelope(frame_of(m.AddRaftVoterRequest(), 1)), 35),
    "an API that nobody knows": (envelope(b"\x70\0" + GOOD[2:]), 35),
    "an API that is not forwarded": (envelope(frame_of(m.ApiVersionsRequest(), 4)), 42),
    "an envelope": (envelope(frame_of(envelope(GOOD), 0)), 42),
}


def test_what_cannot_be_served_is_told_by_the_envelope_and_the_connection_stays(
    start: Callable[..., Cluster],
) -> None:
    with start(1) as cluster:
        node = cluster.wait_leader()
        with KafkaClient(node.port) as broker:
            for why, (request, error) in REFUSED.items():
                response = broker.ask(request)
                assert (response.error_code, response.response_data) == (error, None), why
            assert "log.retention.ms" not in broker.get_configs()
        assert node.wait_for("envelope_refused")["error"] == "PRINCIPAL_DESERIALIZATION_FAILURE"
