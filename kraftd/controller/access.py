"""What each API needs of whoever asks: the operation and the resource that the authorizer is asked about.

One table of all APIs, of Kafka's wire and of our own, by name. An API that names its resources in the request
(topics, configs) is asked about each of them, where it is decided; the kinds are here. All others are asked
about the cluster before they are handled (`kraftd.runtime.request_gate`).

Follows: Kafka's ControllerApis for the operations, and `forwardable` in its ApiKeys.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from kraftd.metadata.acl_kinds import AclOperation, AclResource
from kraftd.protocol.kafka import API_MODULES


class Access(NamedTuple):
    """What an API needs: an operation on a resource of one of these kinds, as the request names them."""

    operation: AclOperation
    resources: frozenset[AclResource]


def _on(operation: AclOperation, *resources: AclResource) -> Access:
    return Access(operation, frozenset(resources or (AclResource.CLUSTER,)))


_CLUSTER_ACTION = _on(AclOperation.CLUSTER_ACTION)
_DESCRIBE = _on(AclOperation.DESCRIBE)
_ALTER = _on(AclOperation.ALTER)
_CONFIGURED = AclResource.CLUSTER, AclResource.TOPIC, AclResource.GROUP
"""The configs of brokers and of clients' metrics are the cluster's."""

ACCESS: Final[Mapping[str, Access | None]] = {
    # Anybody, before it is known who.
    "ApiVersions": None,
    "Handshake": None,
    "ShowNonce": None,
    # The nodes of the cluster, among each other.
    "AllocateProducerIds": _CLUSTER_ACTION,
    "AlterPartition": _CLUSTER_ACTION,
    "AssignReplicasToDirs": _CLUSTER_ACTION,
    "BeginQuorumEpoch": _CLUSTER_ACTION,
    "BrokerHeartbeat": _CLUSTER_ACTION,
    "BrokerRegistration": _CLUSTER_ACTION,
    "ControllerRegistration": _CLUSTER_ACTION,
    "EndQuorumEpoch": _CLUSTER_ACTION,
    "Envelope": _CLUSTER_ACTION,
    "Fetch": _CLUSTER_ACTION,
    "FetchSnapshot": _CLUSTER_ACTION,
    "UpdateRaftVoter": _CLUSTER_ACTION,
    "Vote": _CLUSTER_ACTION,
    # An export holds every record of the log, secrets too, and so does what is committed.
    "ExportChunk": _CLUSTER_ACTION,
    "ExportManifest": _CLUSTER_ACTION,
    "FetchCommitted": _CLUSTER_ACTION,
    # Operators.
    "AddRaftVoter": _ALTER,
    "AlterPartitionReassignments": _ALTER,
    "AlterUserScramCredentials": _ALTER,
    "CreateAcls": _ALTER,
    "DeleteAcls": _ALTER,
    "DescribeAcls": _DESCRIBE,
    "DescribeCluster": _ALTER,  # on a controller; a broker asks for DESCRIBE
    "DescribeEvents": _DESCRIBE,
    "DescribeNode": _DESCRIBE,
    "DescribeQuorum": _DESCRIBE,
    "DescribeTopics": _DESCRIBE,
    "ElectLeaders": _ALTER,
    "ExplainPartition": _DESCRIBE,
    "ListBrokers": _DESCRIBE,
    "ListDeletions": _DESCRIBE,
    "ListPartitionReassignments": _DESCRIBE,
    "ListPartitions": _DESCRIBE,
    "ListTopics": _DESCRIBE,
    "RemoveRaftVoter": _ALTER,
    "ResignLeader": _ALTER,
    "UnregisterBroker": _ALTER,
    "UpdateFeatures": _ALTER,
    # Topics and configs; who may create all topics needs no right for one of them.
    "AlterClientQuotas": _on(AclOperation.ALTER_CONFIGS),
    "AlterConfigs": _on(AclOperation.ALTER_CONFIGS, *_CONFIGURED),
    "CreatePartitions": _on(AclOperation.ALTER, AclResource.TOPIC),
    "CreateTopics": _on(AclOperation.CREATE, AclResource.CLUSTER, AclResource.TOPIC),
    "DeleteTopics": _on(AclOperation.DELETE, AclResource.TOPIC),
    "DescribeConfigs": _on(AclOperation.DESCRIBE_CONFIGS, *_CONFIGURED),
    "IncrementalAlterConfigs": _on(AclOperation.ALTER_CONFIGS, *_CONFIGURED),
    "ListConfigs": _on(AclOperation.DESCRIBE_CONFIGS),
    # Delegation tokens: everybody their own; those of another user, whoever may make tokens for it.
    "CreateDelegationToken": _on(AclOperation.CREATE_TOKENS, AclResource.USER),
    "ExpireDelegationToken": None,
    "RenewDelegationToken": None,
}
"""By the name of the API; None if nothing is needed."""

_FORWARDABLE = {
    "AddRaftVoter",
    "AlterClientQuotas",
    "AlterConfigs",
    "AlterPartitionReassignments",
    "AlterUserScramCredentials",
    "CreateAcls",
    "CreateDelegationToken",
    "CreatePartitions",
    "CreateTopics",
    "DeleteAcls",
    "DeleteTopics",
    "DescribeQuorum",
    "ElectLeaders",
    "ExpireDelegationToken",
    "IncrementalAlterConfigs",
    "ListPartitionReassignments",
    "AllocateProducerIds",
    "RemoveRaftVoter",
    "RenewDelegationToken",
    "UnregisterBroker",
    "UpdateFeatures",
}

FORWARDABLE: Final = frozenset(key for key, module in API_MODULES.items() if module.name in _FORWARDABLE)
"""The keys of the APIs whose requests a broker may send inside an Envelope."""
