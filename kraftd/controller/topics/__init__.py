"""What the controller decides about topics: they are made, get more partitions, and are removed. All pure.

Entered through `creating` (CreateTopics), `adding` (CreatePartitions) and `deleting` (DeleteTopics). `names`
says what a topic may be called, `placement` which brokers its replicas go to, `new_partitions` what a new
partition is, `topic_ids` how it is told apart from a topic of the same name. `listing` tells of topics
(ListTopics, DescribeTopics), `listing_deletions` of deleted ones (ListDeletions).

Follows: the parts of Kafka's ReplicationControlManager that are about topics, and what its ControllerApis
checks before.
"""
