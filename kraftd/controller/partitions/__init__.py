"""What the controller decides about replicas, leaders and ISRs. All of it is pure.

`election` says who leads, `partition_change_builder` turns what a partition shall become into the record that
makes it so, `partition_rules` are what the cluster says about both. They are entered through `in_sync`
(AlterPartition), `directory_assignment` (AssignReplicasToDirs) and `electing` (ElectLeaders), each of them a
`request_plan`, `broker_changes` (a broker came or went), `reassignment` (AlterPartitionReassignments),
`listing` (ListPartitionReassignments), `conditions` (ListPartitions) and `explaining` (ExplainPartition).
`by_hand` says which brokers somebody may choose for a partition.

Follows: the parts of Kafka's ReplicationControlManager that are about partitions.
"""
