"""Replicas that a deletion or a reassignment took away, until their data is gone from their brokers' disks.

`removals` finds in committed records what they take away, `tracker` keeps it and follows it to its end by
what brokers report, by which log directories they have lost (`lost_directories`);
`kraftd.controller.topics.listing_deletions` tells of it. The states are those of
`kraftd.metadata.replica_states`. It is soft state: nothing of it is in the log or in a snapshot, and no
decision looks at it.
"""
