"""Where the broker side will live: the replica manager and all that a broker does with committed metadata.

It will follow the metadata log as an observer, turn the differences between two images into decisions (lead
this partition, follow that leader, stop this replica) and own partitions, in-sync replicas, high-watermark
checkpoints, fetchers and purgatories. Like the controller it will be pure: decisions out, no I/O.
"""
